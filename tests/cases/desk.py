"""What happens to an order and its refunds, in verbs: each is a command of the ledger, a run of a job, or a call over HTTP.

An order comes in the way shops send them, paid at the local provider. Amounts are minor units, written as 49_90 for 49.90.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import requests
from pydantic import SecretStr
from stripe import WebhookSignature

from jobs import inbox, outside, reconciler, submitter
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Counts, Worker
from ledger.assessment import work_out_again
from ledger.database import transaction
from ledger.disputes import refund_anyway
from ledger.external_matching import Matched, mark_unrelated, match_to_case
from ledger.intents import cancel_before_send
from ledger.order_document import parse_order
from ledger.orders import store_order
from sandbox.client import Running
from tests import lives
from tests.cases.sale import Books, Payment, Refund, Sale
from tests.engine import document, line
from tests.refunds import alarms, as_administrator, make_due, make_readings_due
from tests.stack import Stack
from tests.world import Person, World

HOOK_SECRET = "whsec_of_the_cases"
PLACED = {"placed_at": "2026-10-12T09:30:00Z", "zone": "Europe/London", "region": "GB"}


@dataclass
class Desk:
    """One merchant's desk, worker and provider account."""

    stack: Stack
    world: World
    sandbox: Running
    worker: Worker
    hook_url: str
    _numbers: int = 0
    _prices: dict[str, Sequence[int | tuple[int, int]]] = field(default_factory=dict)

    # The shop and its customers

    def paid(self, *minors: int, currency: str = "GBP") -> tuple[Payment, ...]:
        """Payments made at the provider, one for each amount."""
        made = [self.sandbox.create_payment(minor, currency.lower()) for minor in minors]
        return tuple(Payment(one["payment_intent"], one["charge"], one["amount"]) for one in made)

    def sold(
        self,
        *prices: int | tuple[int, int],
        currency: str = "GBP",
        payments: Sequence[Payment] | None = None,
        **facts: Any,
    ) -> Sale:
        """An order over lines of `price` or `(price, quantity)`, paid at once in full unless `payments` say otherwise."""
        self._numbers += 1
        ref = f"S-{self._numbers}"
        self._prices[ref] = prices
        sale, status = self._import(ref, prices, currency, payments, facts)
        assert status == "created"
        return sale

    def import_again(self, sale: Sale, payments: Sequence[Payment]) -> str:
        """The shop states the same order once more with its payments as they are now; what became of it."""
        return self._import(sale.ref, self._prices[sale.ref], sale.currency, payments, {})[1]

    def _import(
        self, ref: str, prices: Sequence[int | tuple[int, int]], currency: str, payments: Sequence[Payment] | None,
        facts: dict[str, Any],
    ) -> tuple[Sale, str]:  # fmt: skip
        priced = [price if isinstance(price, tuple) else (price, 1) for price in prices]
        total = sum(price * quantity for price, quantity in priced)
        taken = tuple(self.paid(total, currency=currency) if payments is None else payments)
        lines = [line(number, price, quantity) for number, (price, quantity) in enumerate(priced, 1)]
        captures = [
            {"capture_ref": f"c{number}", "tender": "card", "currency": currency, "captured_minor": one.captured_minor,
             **({"status": "authorised", "authorised_minor": one.captured_minor + one.held_minor} if one.held_minor else {}),
             "captured_at": PLACED["placed_at"], "payment_intent_ref": one.payment_intent, "charge_ref": one.charge,
             "destination": {"kind": "card", "brand": "visa", "last4": "4242"}}
            for number, one in enumerate(taken, 1)
        ]  # fmt: skip
        customer = {"external_ref": "C-1001", "name": "Ilse Brandt"}
        body = document(
            lines, total, currency=currency, external_ref=ref, captures=captures, customer=customer, **PLACED, **facts
        )
        with transaction(self.stack.console, self.world.merchant_id) as db:
            stored = store_order(db, self.world.merchant_id, parse_order(json.dumps(body)))
        return Sale(ref, stored.order_id, currency, taken), stored.status

    def returned(self, sale: Sale, *lines: tuple[str, int], **changes: Any) -> UUID:
        """Ilse asks in the chat and everything she names arrives: the case."""
        self._numbers += 1
        wish = {"order_ref": sale.ref, "reference": f"chat-{self._numbers}", **changes}
        opened = lives.open_case(self.stack, self.world, lines, **wish)
        lives.arrive(self.stack, self.world, opened.case_id, *lines)
        return opened.case_id

    # Staff

    def refunds_of(self, case_id: UUID) -> list[Refund]:
        """The intents of a case, oldest first."""
        return [
            Refund(*(row[name] for name in Refund.__slots__)) for row in lives.intents(self.stack, self.world, case_id)
        ]

    def owed(self, sale: Sale, *lines: tuple[str, int], **changes: Any) -> Refund:
        """A return that came back whole: the one refund it proposes."""
        (one,) = self.refunds_of(self.returned(sale, *lines, **changes))
        return one

    def approve(self, one: Refund, by: Person | None = None) -> Refund:
        """Priya approves unless somebody else is named."""
        lives.approve_as(self.stack, self.world, by or self.world.priya, one.intent_id)
        return one

    def approved(self, sale: Sale, *lines: tuple[str, int], **changes: Any) -> Refund:
        """A return that came back whole, its one refund approved."""
        return self.approve(self.owed(sale, *lines, **changes))

    def work_out_again(self, case_id: UUID) -> list[Refund]:
        """Tobias asks for what is still owed; the refunds that this newly proposes."""
        before = {one.intent_id for one in self.refunds_of(case_id)}
        with transaction(self.stack.console, self.world.merchant_id) as db:
            work_out_again(db, self.world.merchant_id, case_id, self.world.tobias.actor)
        return [one for one in self.refunds_of(case_id) if one.intent_id not in before]

    # Jobs

    def send(self) -> Counts:
        return submitter.run_once(self.worker)

    def grow_impatient(self) -> None:
        """From now on the worker waits one second for an answer."""
        keys = {self.world.slug: SecretStr(self.sandbox.secret_key)}
        self.worker.gateway = StripeGateway(keys, self.sandbox.base_url, 1, 1.0)

    def look(self) -> Counts:
        """Every look is due, and made."""
        make_due(self.stack)
        return reconciler.run_once(self.worker)

    def find(self) -> Counts:
        """The account's lists are read at the provider, and what is open there; no hook is needed."""
        make_readings_due(self.stack)
        return outside.run_once(self.worker)

    def hear(self) -> Counts:
        """What hooks told is read again at the provider."""
        return inbox.run_once(self.worker)

    def paid_back(self, sale: Sale, *lines: tuple[str, int], **changes: Any) -> Refund:
        """Returned, approved, sent and settled."""
        one = self.approved(sale, *lines, **changes)
        assert self.send() == {"claimed": 1, "confirmed": 1}
        assert self.state(one) == "succeeded"
        return one

    def hours_pass(self, hours: int) -> None:
        """On both sides: everything recorded so far is that much older, and the provider's clock is further on."""
        since = f"{hours} hours"
        as_administrator(self.stack, "UPDATE outbox SET approved_at = approved_at - %s::interval", since)
        as_administrator(self.stack, "UPDATE attempts SET started_at = started_at - %s::interval", since)
        as_administrator(self.stack, "UPDATE attempt_results SET at = at - %s::interval", since)
        self.sandbox.advance(hours * 3600)

    # Hooks of the provider

    def listen(self) -> None:
        """The provider tells our web process everything from now on."""
        self.sandbox.set_webhook(self.hook_url, HOOK_SECRET)

    def told(self) -> Counter[str]:
        """Waits until every event was delivered and accepted; how many of each kind were so far."""
        ends = time.monotonic() + 20
        while owed := [one for one in self.sandbox.deliveries() if one["state"] != "delivered"]:
            assert time.monotonic() < ends, owed
            time.sleep(0.02)
        return Counter(one["type"] for one in self.sandbox.deliveries())

    def retell(self, kind: str, refund: str) -> None:
        """The provider delivers the event of a kind about a refund once more."""
        (event,) = [one for one in self.events(kind) if one["data"]["object"]["id"] == refund]
        assert self.sandbox.resend_event(event["id"]) == 1
        self.told()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind at the provider, newest first."""
        asked = f"{self.sandbox.base_url}/v1/events?type={kind}&limit=100"
        answer = requests.get(asked, auth=(self.sandbox.secret_key, ""), timeout=10)
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    def tell(self, event: dict[str, Any]) -> None:
        """One event reaches our web process, signed now."""
        text = json.dumps(event)
        signature = WebhookSignature.generate_signature_header(text, HOOK_SECRET, int(time.time()))
        headers = {"Content-Type": "application/json", "Stripe-Signature": str(signature)}
        assert requests.post(self.hook_url, text.encode(), headers=headers, timeout=10).status_code == 200

    # Finance

    def matches(self, refund: str, case_id: UUID) -> Matched:
        """Farah puts a refund made in the dashboard on a case."""
        (case,) = as_administrator(self.stack, "SELECT number FROM cases WHERE case_id = %s", case_id)
        with transaction(self.stack.console, self.world.merchant_id) as db:
            return match_to_case(
                db, self.world.merchant_id, refund, case["number"], self.world.farah.actor, "seen in the dashboard"
            )

    def unrelated(self, refund: str, reason: str = "charged twice") -> Matched:
        """Farah says that a refund made in the dashboard was for none of the goods."""
        with transaction(self.stack.console, self.world.merchant_id) as db:
            return mark_unrelated(db, self.world.merchant_id, refund, self.world.farah.actor, reason)

    def rules(self, dispute: str) -> None:
        """Farah rules that the refund goes although the bank asks."""
        with transaction(self.stack.console, self.world.merchant_id) as db:
            refund_anyway(db, self.world.merchant_id, dispute, self.world.farah.staff_id, "the customer has the goods")

    def withdraw(self, one: Refund, reason: str) -> None:
        """Priya calls a refund back."""
        with transaction(self.stack.console, self.world.merchant_id) as db:
            cancel_before_send(db, self.world.merchant_id, one.intent_id, self.world.priya.actor, reason)

    # The provider's own interface

    def at_provider(self, path: str, key: str | None = None, **params: Any) -> dict[str, Any]:
        """A call the shop itself makes there; the answer, also of a refusal."""
        headers = {"Idempotency-Key": key} if key else {}
        auth = (self.sandbox.secret_key, "")
        answer = requests.post(f"{self.sandbox.base_url}/v1/{path}", params, headers=headers, auth=auth, timeout=10)
        body: dict[str, Any] = answer.json()
        return body

    def authorised(self, minor: int, currency: str = "GBP") -> Payment:
        """A payment that was authorised and not captured. Our side is told it was."""
        made = self.at_provider(
            "payment_intents", amount=minor, currency=currency.lower(), confirm="true", capture_method="manual",
            payment_method="pm_card_visa", **{"payment_method_types[]": "card"},
        )  # fmt: skip
        assert made["status"] == "requires_capture"
        return Payment(made["id"], made["latest_charge"], minor)

    def held(self, minor: int, currency: str = "GBP") -> Payment:
        """A payment that was authorised and not captured, and our side knows it."""
        return replace(self.authorised(minor, currency), captured_minor=0, held_minor=minor)

    def payment_there(self, payment: Payment) -> dict[str, Any]:
        """The payment at the provider: status, captured."""
        money = self.sandbox.money(payment.payment_intent)
        return {"status": money["status"], "captured": money["captured"], "refunds": money["refund_count"]}

    def holds(self, sale: Sale) -> tuple[int, int, int]:
        """Held, being let go, let go of the sale's payments, as our database has it."""
        (row,) = as_administrator(
            self.stack, "SELECT sum(held_minor)::bigint AS a, sum(releasing_minor)::bigint AS b, sum(released_minor)::bigint AS c"
            " FROM captures WHERE order_id = %s", sale.order_id,
        )  # fmt: skip
        return row["a"], row["b"], row["c"]

    def acts(self, case_id: UUID) -> list[tuple[str, int, str]]:
        """Each intent of a case, oldest first: act, amount, state."""
        rows = as_administrator(
            self.stack, "SELECT act, amount_minor, state FROM intents WHERE case_id = %s ORDER BY number", case_id
        )
        return [(row["act"], row["amount_minor"], row["state"]) for row in rows]

    def refunds_there(self, sale: Sale) -> list[dict[str, Any]]:
        """Every refund the provider has of a sale, oldest first, whoever made it and whatever became of it."""
        return [refund for one in sale.payments for refund in self.sandbox.money(one.payment_intent)["refunds"]]

    def calls(self, method: str = "POST", path: str = "/v1/refunds") -> list[dict[str, Any]]:
        return self.sandbox.requests(method=method, path=path)

    # What is so

    def state(self, one: Refund) -> str:
        return lives.state(self.stack, self.world, one.intent_id)

    def reason(self, one: Refund) -> str:
        return str(self._row(one)["state_reason"])

    def refund_ref(self, one: Refund) -> str:
        """The provider's id of a refund of ours."""
        return str(self._row(one)["provider_refund_ref"])

    def _row(self, one: Refund) -> dict[str, Any]:
        return as_administrator(self.stack, "SELECT * FROM intents WHERE intent_id = %s", one.intent_id)[0]

    def case(self, case_id: UUID) -> tuple[str, bool]:
        """Stage of a case, and whether it is open."""
        (row,) = as_administrator(
            self.stack, "SELECT stage, closed_at IS NULL AS open FROM cases WHERE case_id = %s", case_id
        )
        return row["stage"], row["open"]

    def books(self, sale: Sale) -> Books:
        (row,) = as_administrator(
            self.stack, "SELECT sum(available_minor)::bigint AS left, sum(reserved_minor)::bigint AS reserved,"
            " sum(refunded_minor)::bigint AS refunded, sum(disputed_minor)::bigint AS disputed"
            " FROM captures WHERE order_id = %s", sale.order_id,
        )  # fmt: skip
        return Books(**row)

    def ends(
        self,
        sale: Sale,
        *,
        refunds: int,
        refunded: int,
        left: int,
        reserved: int = 0,
        held: int = 0,
        disputed: int = 0,
        outside: Sequence[int] = (),
        said: Sequence[str] = (),
    ) -> None:
        """Asks both sides. Ours: how many refunds settled, their sum, what is reserved, disputed and left. The provider: the
        same refunds, those still under way (reserved but for what is `held`), and those `outside` that we did not make and
        have all found; never more out than in, never two for one, and no alarm but those `said`."""
        settled = lives.count(
            self.stack.console, self.world, "SELECT count(*) FROM intents WHERE merchant_id = :m AND order_id = :o"
            " AND state = 'succeeded'", o=sale.order_id,
        )  # fmt: skip
        assert (settled, self.books(sale)) == (refunds, Books(left, reserved, refunded + sum(outside), disputed))
        standing = [one for one in self.refunds_there(sale) if one["status"] not in ("failed", "canceled")]
        ours = [one for one in standing if "onceback_intent" in one["metadata"]]
        paid = [one["amount"] for one in ours if one["status"] == "succeeded"]
        assert (len(paid), sum(paid)) == (refunds, refunded)
        assert sum(one["amount"] for one in ours if one["status"] != "succeeded") == reserved - held
        assert sorted(one["amount"] for one in standing if one not in ours) == sorted(outside)
        assert len({one["metadata"]["onceback_intent"] for one in ours}) == len(ours)
        assert alarms(self.stack) == set(said)
        for payment in sale.payments:
            money = self.sandbox.money(payment.payment_intent)
            assert money["refunded"] <= money["captured"]
