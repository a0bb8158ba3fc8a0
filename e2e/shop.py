"""The shop under test: the whole of Onceback as real processes, fresh orders in it, time that passes, and what came of it.

Orders, returns and arrivals come in by the API, as the shop's systems would send them. `counts` asks the database and the
provider: a test of money ends with it.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import requests
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from sqlalchemy.engine import make_url

from demo.local_stack import DATABASE, LocalStack
from demo.merchant import Merchant, set_up
from demo.people import PASSWORD, PEOPLE, DemoPerson
from demo.roles import OWNER, WORKER
from demo.seed import CAPS_MINOR, POLICY, seed
from demo.seed_orders import Sale, facts, payments, total
from jobs.self_check import walk
from ledger.database import connect
from sandbox.client import SandboxClient

ROOT = Path(__file__).parents[1]
# Longer than any test: a refund leaves when the test lets it go.
CANCEL_WINDOW_SECONDS = 3000
PATIENCE_SECONDS = 20
LENA = DemoPerson("lena@hollowbrook.example", "Lena Brandt", "desk", "returns desk, in and out of sessions")
NILS = DemoPerson("nils@northwind.example", "Nils Aalto", "manager", "manager of another shop")


@dataclass(frozen=True)
class Order:
    """An order as the shop's system sent it, paid at the provider."""

    ref: str
    customer: str
    currency: str
    payment_intent: str
    charge: str


@dataclass(frozen=True)
class Refund:
    """One proposed refund, with what the tests ask about it. Amount in minor units."""

    order: Order
    case_id: str
    case_number: int
    intent_id: str
    number: int
    amount_minor: int

    @property
    def case(self) -> str:
        return f"C-{self.case_number}"

    @property
    def reference(self) -> str:
        return f"R-{self.number}"

    @property
    def amount(self) -> str:
        """As the pages write it, for a currency of two decimals."""
        return f"{self.amount_minor // 100:,}.{self.amount_minor % 100:02} {self.order.currency}"


@dataclass(frozen=True)
class Counts:
    """How many decisions, provider keys and refunds an order has, by our rows and by the provider's."""

    decisions: int
    keys: int
    refunds: int


NOTHING = Counts(0, 0, 0)
DECIDED = Counts(1, 1, 0)
ONE_OF_EACH = Counts(1, 1, 1)


class Shop:
    """Hollowbrook, seeded as in the demo, and its neighbour Northwind."""

    def __init__(self, stack: LocalStack, merchant: Merchant) -> None:
        self.stack, self.slug, self.tokens = stack, merchant.slug, merchant.tokens
        self.provider: SandboxClient = stack.provider(merchant.slug)
        self.merchant_id = str(merchant.merchant_id)
        self.faults_of_seed: list[str] = []
        self._numbers = itertools.count(1)
        self._api = requests.Session()
        self._api.trust_env = False
        address = make_url(stack.postgres.admin_url).set(drivername="postgresql", database=DATABASE)
        self._admin_url = address.render_as_string(hide_password=False)

    def url(self, path: str) -> str:
        """An address of Hollowbrook's desks."""
        return f"{self.stack.origin}/{self.slug}{path}"

    def order(
        self,
        items: tuple[tuple[str, int], ...] = (("MUG-CREAM", 2),),
        currency: str = "GBP",
        customer: str = "Ilse Brandt",
        *,
        charged_twice: bool = False,
    ) -> Order:
        """A new order, paid by a card ending 4242 and sent by the shop's system. The second of two charges is the returned one."""
        sale = Sale(f"E-{next(self._numbers):04}", customer, items, 3, currency, charged_again=charged_twice)
        now = datetime.now(UTC)
        paid = self.provider.create_payments(payments(sale, now))
        assert paid[0]["amount"] == total(sale)
        document = facts(sale, now, paid)
        # Each order has a customer of its own, of whatever name: what several of one customer come to is counted together, and
        # takes a manager.
        document["customer"]["external_ref"] = f"K-{sale.ref}"
        self._send("PUT", f"/orders/{sale.ref}", "shop", document)
        return Order(sale.ref, customer, currency, paid[-1]["payment_intent"], paid[-1]["charge"])

    def ask(self, order: Order, quantity: int = 1, line: str = "L1") -> int:
        """The customer asks in the chat; returns the number of the case."""
        talk = {"reference": f"chat-{uuid4().hex[:12]}", "customer_verified": "email_link"}
        body = {
            "order": order.ref,
            "lines": [{"line": line, "quantity": quantity}],
            "reason": "size",
            "conversation": talk,
        }
        return int(self._send("POST", "/returns", "chat", body)["case"].removeprefix("C-"))

    def receive(self, case_number: int, received: int = 1, line: str = "L1", grade: str = "A", graded: int = 0) -> None:
        """The warehouse reports `received` units; all of them, or the `graded` next ones, have this grade."""
        grades = [{"units": graded or received, "grade": grade}]
        arrived = [{"line": line, "received": received, "grades": grades}]
        self._send("POST", "/receipts", "warehouse", {"case": f"C-{case_number}", "lines": arrived})

    def proposed(self, quantity: int = 1, **order: Any) -> Refund:
        """A new order of which `quantity` units came back: its one refund, waiting for approval."""
        placed = self.order(**order)
        number = self.ask(placed, quantity)
        self.receive(number, quantity)
        return self.refund(placed, number)

    def refund(self, order: Order, case_number: int) -> Refund:
        """The refund that a case proposes now."""
        (row,) = self.rows(
            "SELECT c.case_id, i.intent_id, i.number, i.amount_minor FROM cases c JOIN intents i USING (merchant_id, case_id)"
            " WHERE c.number = %s AND i.state <> 'withdrawn'", case_number,
        )  # fmt: skip
        return Refund(
            order, str(row["case_id"]), case_number, str(row["intent_id"]), row["number"], row["amount_minor"]
        )

    def state(self, refund: Refund) -> str:
        return str(self.rows("SELECT state FROM intents WHERE intent_id = %s", refund.intent_id)[0]["state"])

    def counts(self, order: Order) -> Counts:
        """Decisions by our approvals; keys by our outbox and by every call the provider got; refunds by the provider."""
        decisions = self.rows(
            "SELECT a.approval_id FROM approvals a JOIN intents i USING (merchant_id, intent_id) WHERE i.charge_ref = %s",
            order.charge,
        )
        minted = self.rows(
            "SELECT i.provider_key FROM outbox o JOIN intents i USING (merchant_id, intent_id) WHERE i.charge_ref = %s",
            order.charge,
        )
        calls = self.provider.requests(method="POST", path="/v1/refunds")
        about = [
            call for call in calls if order.charge in str(call["body"]) or order.payment_intent in str(call["body"])
        ]
        keys = {row["provider_key"] for row in minted} | {call["idempotency_key"] for call in about}
        return Counts(len(decisions), len(keys), len(self.provider.money(order.payment_intent)["refunds"]))

    def let_go(self, *refunds: Refund) -> None:
        """The cancel window of these refunds is over, as if the time had passed."""
        ids = [refund.intent_id for refund in refunds]
        self.change("UPDATE outbox SET due_at = now() WHERE intent_id = ANY(%s::uuid[]) AND done_at IS NULL", ids)

    def settled(self, *refunds: Refund) -> None:
        """Lets them go and waits until the worker has paid each of them."""
        self.let_go(*refunds)
        until(lambda: self._are_paid(refunds), "not all of them are paid")

    def _are_paid(self, refunds: tuple[Refund, ...]) -> bool:
        states = {refund: self.state(refund) for refund in refunds}
        self.let_go(*(refund for refund, state in states.items() if state == "unknown"))  # the next look is due
        return set(states.values()) == {"succeeded"}

    def rows(self, statement: LiteralString, *values: Any) -> list[dict[str, Any]]:
        """Rows as the administrator of the database sees them."""
        with psycopg.connect(self._admin_url, autocommit=True, row_factory=dict_row) as db:
            return db.execute(statement, values).fetchall()

    def change(self, statement: LiteralString, *values: Any) -> int:
        """Time passing and the like, that no command of the product would write; returns the number of rows."""
        with psycopg.connect(self._admin_url, autocommit=True) as db:
            return db.execute(statement, values).rowcount

    @contextmanager
    def asking(self, **amounts: int) -> Iterator[None]:
        """Meanwhile the shop's policy asks for more of an approval in GBP: `factor_from_minor`, `passkey_from_minor`."""
        with psycopg.connect(self._admin_url, autocommit=True, row_factory=dict_row) as db:
            db.execute("SET session_replication_role = replica")
            before = db.execute("SELECT * FROM policies WHERE merchant_id = %s", [self.merchant_id]).fetchall()
            routes = Jsonb({name: {"GBP": minor} for name, minor in amounts.items()})
            db.execute(
                "UPDATE policies SET document = jsonb_set(document, '{routes}', document->'routes' || %s) WHERE merchant_id = %s",
                [routes, self.merchant_id],
            )
            try:
                yield
            finally:
                for row in before:
                    db.execute(
                        "UPDATE policies SET document = %s WHERE merchant_id = %s AND policy_id = %s AND version = %s",
                        [Jsonb(row["document"]), self.merchant_id, row["policy_id"], row["version"]],
                    )

    def a_day_passes_for_the_factors_of(self, email: str) -> None:
        """What the person added signs for money from now on: keys sealed as they would have been two days ago."""
        sealer = self.stack.sealer()
        for key in self.rows("SELECT k.* FROM passkeys k JOIN staff s USING (staff_id) WHERE s.email = %s", email):
            aged = key | {"enrolled_at": key["enrolled_at"] - timedelta(days=2)}
            self.change(
                "UPDATE passkeys SET enrolled_at = %s, seal = %s WHERE credential_id = %s",
                aged["enrolled_at"], sealer.seal_passkey(aged), key["credential_id"],
            )  # fmt: skip
        self.change(
            "UPDATE totp_factors t SET confirmed_at = confirmed_at - interval '2 days' FROM staff s"
            " WHERE s.staff_id = t.staff_id AND s.email = %s", email,
        )  # fmt: skip

    def faults(self) -> list[str]:
        """What `flask ledger verify` would say of Hollowbrook's books now."""
        engine = connect(self.stack.role_urls[WORKER], pool_size=1, statement_seconds=60, name="e2e")
        try:
            return [fault.line() for _, step in walk(engine, UUID(self.merchant_id)) for fault in step]
        finally:
            engine.dispose()

    def _send(self, method: str, path: str, channel: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.tokens[channel]}", "Idempotency-Key": uuid4().hex}
        answer = self._api.request(method, f"{self.stack.origin}/api/v1{path}", json=body, headers=headers, timeout=30)
        assert answer.status_code in (200, 201), f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())


def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Waits for what another process does; fails with `otherwise` after PATIENCE_SECONDS."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
    while not holds():
        assert time.monotonic() < deadline, otherwise
        pause.wait(0.05)


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Starts everything in `folder`, seeds it as the demo does, and stops it all at the end; logs and provider file stay.

    The database is a server of its own, also where DATABASE_URL names another: the seed is for an empty one.
    """
    with patch.dict(os.environ):
        os.environ.pop("DATABASE_URL", None)
        stack = LocalStack(
            folder, merchants=("hollowbrook", "northwind"), cancel_window_seconds=CANCEL_WINDOW_SECONDS,
            consistency_seconds=1, web_workers=2, environment="test", durable=False,
        )  # fmt: skip
    try:
        with stack:
            stack.start_database()
            stack.start_provider()
            _set_up_both(stack)
            merchant = seed(stack, lambda _line: None)
            opened = Shop(stack, merchant)
            opened.faults_of_seed = opened.faults()
            stack.start_web()
            stack.start_worker()
            yield opened
    finally:
        stack.postgres.destroy()


def _set_up_both(stack: LocalStack) -> None:
    owner = connect(stack.role_urls[OWNER], pool_size=2, statement_seconds=30, name="e2e")
    shops = (
        ("hollowbrook", "Hollowbrook Outfitters", (*PEOPLE, LENA)),
        ("northwind", "Northwind Paper", (NILS,)),
    )
    try:
        for slug, name, people in shops:
            policy = {**POLICY, "policy_id": f"{slug}-returns"}
            set_up(
                owner, stack.folder, slug, name, "Europe/Berlin", "DE", policy=policy, caps_minor=CAPS_MINOR,
                people=people, password=PASSWORD,
            )  # fmt: skip
    finally:
        owner.dispose()
