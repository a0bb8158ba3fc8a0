"""Fills an empty demo: one merchant, its orders, and about thirty cases in every state there is.

Nothing is written behind the ledger's back: each step is the command a channel, a clerk or a worker would run, against the
local provider. Only the clock is the seed's own: `now()` of its connections is looked up in a schema that is dropped at
the end, so a case opened five days ago says so everywhere.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import structlog
from pydantic import SecretStr

from demo.local_stack import LocalStack
from demo.merchant import Merchant, set_up
from demo.people import PASSWORD, PEOPLE
from demo.pictures import picture
from demo.roles import CONSOLE, OWNER, WORKER
from demo.scenes import QUIET_SALES, REFUNDED_OUTSIDE, SCENES, Scene
from demo.seed_clock import Clock, seeding_clock
from demo.seed_orders import Sale, facts, payments
from demo.seed_questions import seed_questions
from demo.seed_team import seed_team
from jobs import books, inbox, outside, reconciler, submitter
from jobs.recorder import Recorder
from jobs.worker import Worker, running_worker
from ledger.approvals import Seen, approve
from ledger.cases import ReturnRequest, open_return, reject
from ledger.database import connect, first, rows, run, scalar, transaction
from ledger.evidence import Arrival, ReceivedLine, add_photo, report_arrival
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.intents import cancel_before_send
from ledger.limits import read_sum
from ledger.order_document import order_facts
from ledger.orders import store_order
from ledger.reconciliation_run import ask_run
from settings import Settings

SLUG: Final = "hollowbrook"
POLICY: Final[dict[str, Any]] = {
    "policy_id": f"{SLUG}-returns", "version": 1, "title": "Returns of the web shop", "status": "approved",
    "refund_trigger": "inspected", "pay_within_days": 14, "shipping": "none",
    "routes": {"manager_from_minor": {"EUR": 25000, "GBP": 25000, "USD": 25000, "JPY": 40000}},
    "keep_item": {"max_bps": 5000}, "price_adjust": {"days": 30}, "exchange": {"allowed": True},
    "goodwill": {"max_minor": {"EUR": 2000, "GBP": 2000, "USD": 2000, "JPY": 2000}},
    # A morning's approvals are seeded within a minute of real time.
    "limits": {
        role: {currency: {"hour": {"count": 400, "minor": 5_000_000}} for currency in ("EUR", "GBP", "USD", "JPY")}
        for role in ("desk", "manager")
    },
}  # fmt: skip
CAPS_MINOR: Final = {"EUR": 800_000, "GBP": 500_000, "USD": 300_000, "JPY": 20_000}


def seed(stack: LocalStack, say: Callable[[str], None]) -> Merchant:
    """Seeds an empty database; finds a seeded one and changes nothing. Needs the database and the provider running."""
    owner = connect(stack.role_urls[OWNER], pool_size=2, statement_seconds=30, name="seed")
    try:
        merchant = set_up(
            owner, stack.folder, SLUG, "Hollowbrook Outfitters", "Europe/Berlin", "DE", policy=POLICY, caps_minor=CAPS_MINOR,
            people=PEOPLE, password=PASSWORD,
        )  # fmt: skip
        if marker(stack.folder).exists():
            say("The data of the last run is kept")
            return merchant
        with seeding_clock(owner) as clock, (stack.folder / "logs" / "seed.log").open("a", encoding="utf-8") as log:
            structlog.configure(logger_factory=structlog.WriteLoggerFactory(log))
            Seeding(stack, merchant, clock, say).run()
        structlog.reset_defaults()
        marker(stack.folder).touch()
    finally:
        owner.dispose()
    return merchant


def marker(folder: Path) -> Path:
    """The file that says the seed ran to its end."""
    return folder / "seeded"


class Seeding:
    """One run of the seed."""

    def __init__(self, stack: LocalStack, merchant: Merchant, clock: Clock, say: Callable[[str], None]) -> None:
        self.stack, self.merchant, self.clock, self.say = stack, merchant, clock, say
        self.m = merchant.merchant_id
        self.provider = stack.provider(SLUG)
        self.console = clock.engine(stack.role_urls[CONSOLE])
        self.sealer = stack.sealer()

    def run(self) -> None:
        """Orders, then the cases in the order they were opened, then what the workers did with them."""
        self.say(f"Seeding {len(SCENES) + len(QUIET_SALES)} orders")
        for sale in (*(scene.sale for scene in SCENES), *QUIET_SALES):
            self._order(sale)
        self.say(f"Seeding {len(SCENES)} cases with photos")
        for scene in sorted(SCENES, key=lambda scene: -scene.opened):
            self._play(scene)
        people = {address.partition("@")[0]: staff_id for address, staff_id in self.merchant.staff.items()}
        seed_team(self.console, self.m, people, self.clock)
        seed_questions(self.console, self.m, people, self._token("chat"), self.clock, self.provider.create_payments)
        self.say("Comparing the books with the provider")
        self._outside()
        self._compare()
        self.console.dispose()

    def _outside(self) -> None:
        """Somebody refunds at the provider's own page; the clock of seed and provider stands at the last decision."""
        for ref, minor in REFUNDED_OUTSIDE:
            with transaction(self.console, self.m, read_only=True) as db:
                paid = scalar(
                    db, "SELECT c.payment_intent_ref FROM captures c JOIN orders o ON o.merchant_id = c.merchant_id"
                    " AND o.order_id = c.order_id WHERE o.merchant_id = :m AND o.external_ref = :ref", m=self.m, ref=ref,
                )  # fmt: skip
            self.provider.dashboard_refund(paid, minor)

    def _compare(self) -> None:
        """What the workers do meanwhile and at night: see what others did, read the lists for people, compare the books."""
        self.provider.set_clock(self.clock.start.timestamp())
        self.clock.now = datetime.now(UTC)
        with self._worker() as worker:
            outside.run_once(worker)
            reconciler.run_once(worker)
            with transaction(self.console, self.m) as db:
                ask_run(db, self.m, self.clock.start - timedelta(days=35), self.clock.start, self._staff("farah"))
            books.run_once(worker)

    def _order(self, sale: Sale) -> None:
        self.clock.days_ago(sale.days)
        taken = self.provider.create_payments(payments(sale, self.clock.start))
        with transaction(self.console, self.m) as db:
            store_order(db, self.m, order_facts(facts(sale, self.clock.start, taken)))

    def _play(self, scene: Scene) -> None:
        case_id = self._open(scene)
        if scene.grades:
            self._arrive(scene, case_id)
        intents = self._proposed(case_id)
        match scene.end:
            case "waiting" | "ready":
                pass
            case "rejected":
                with transaction(self.console, self.m) as db:
                    reject(db, self.m, case_id, self._staff(scene.by), "outside_window")
            case _:
                for intent_id in intents:
                    self._decide(scene, intent_id)
        for again in scene.more:
            self.clock.days_ago(again.opened)
            request = self._request(scene, again.lines, f"chat-{scene.sale.ref}-2", "separate")
            with transaction(self.console, self.m) as db:
                open_return(db, self.m, request)

    def _open(self, scene: Scene) -> UUID:
        self.clock.days_ago(scene.opened)
        with transaction(self.console, self.m) as db:
            opened = open_return(
                db, self.m, self._request(scene, scene.lines, f"{scene.channel}-{scene.sale.ref}", None)
            )
        if scene.joins:
            self.clock.days_ago(scene.opened - 1)
            joining = self._request(scene, scene.lines, f"{scene.joins}-{scene.sale.ref}", "existing", scene.joins)
            with transaction(self.console, self.m) as db:
                open_return(db, self.m, joining)
        return opened.case_id

    def _request(
        self, scene: Scene, lines: tuple[tuple[str, int], ...], reference: str, relation: Any, channel: str = ""
    ) -> ReturnRequest:
        channel = channel or scene.channel
        actor = self._staff("tobias") if channel == "counter" else self._token(channel)
        return ReturnRequest(
            scene.sale.ref,
            lines,
            scene.reason,
            channel,
            reference,
            actor,
            relation,
            customer_verified="order_and_email",
            customer_text="" if relation else scene.words,
        )

    def _arrive(self, scene: Scene, case_id: UUID) -> None:
        self.clock.days_ago(scene.arrived)
        grades, lines = list(scene.grades), []
        for ref, asked in scene.lines:
            mine, grades = grades[:asked], grades[asked:]
            notes = [scene.note if grade in "CDX" else "" for grade in mine]
            if mine:
                lines.append(
                    ReceivedLine(
                        ref, len(mine), tuple((1, grade, note) for grade, note in zip(mine, notes, strict=True))
                    )
                )
        warehouse = self._token("warehouse")
        self._photograph(scene, case_id, warehouse)
        with transaction(self.console, self.m) as db:
            report_arrival(
                db, self.m, case_id, Arrival(tuple(lines), "warehouse", warehouse, f"parcel {scene.sale.ref[-3:]}")
            )

    def _photograph(self, scene: Scene, case_id: UUID, warehouse: str) -> None:
        for number, grade in enumerate(scene.grades[:2]):
            content = picture(f"{scene.sale.ref}-{number}", flaw=grade in "CDX")
            digest = hashlib.sha256(content).digest()
            caption = f"Unit {number + 1}, grade {grade}"
            with transaction(self.console, self.m) as db:
                line = first(
                    db, "SELECT line_id FROM case_items WHERE case_id = :c ORDER BY line_id LIMIT 1", c=case_id
                )  # fmt: skip
                add_photo(db, self.m, case_id, content, "image/jpeg", digest, digest, caption, warehouse,
                          line["line_id"] if line else None, number)  # fmt: skip

    def _proposed(self, case_id: UUID) -> list[UUID]:
        with transaction(self.console, self.m, read_only=True) as db:
            found = rows(
                db, "SELECT intent_id FROM intents WHERE case_id = :c AND state = 'proposed' ORDER BY number", c=case_id
            )
        return [row["intent_id"] for row in found]

    def _decide(self, scene: Scene, intent_id: UUID) -> None:
        # A refund counts on the business day of its approval, so everything was decided earlier today, in turn.
        self.clock.earlier_today(scene.opened)
        self.provider.set_clock(self.clock.now.timestamp())
        with transaction(self.console, self.m) as db:
            intent = read_intent(db, self.m, intent_id)
            if intent is None:
                return
            shown = fingerprint(intent, evidence_digest(db, self.m, intent["case_id"]))
            together = read_sum(db, self.m, intent_id)
            person = "jonas" if together is None or together.route == "manager" else scene.by
            staff_id = self.merchant.staff[f"{person}@{SLUG}.example"]
            approve(
                db,
                self.m,
                intent_id,
                staff_id,
                Seen(
                    shown,
                    secrets.token_hex(16),
                    "looked at, and decided by what lies here" if "X" in scene.grades else "",
                ),
                self.sealer,
                cancel_window_seconds=0,
            )
        payment = intent["payment_intent_ref"]
        match scene.end:
            case "held" | "by_hand":
                return
            case "withdrawn":
                with transaction(self.console, self.m) as db:
                    cancel_before_send(db, self.m, intent_id, self._staff(scene.by), "not_yet")
                return
            case "unknown":
                # The answer is lost, and so is every look-up: it stays unknown until somebody drops this fault.
                self.provider.fault("lose_reply", method="POST", path="/v1/refunds", payment_intent=payment)
                self.provider.fault(
                    "error_503", method="GET", path="/v1/refunds", payment_intent=payment, count=1_000_000
                )
            case "pending":
                self.provider.fault("refund_pending", payment_intent=payment)
            case "needs_review":
                self.provider.fault("wrong_amount", method="POST", path="/v1/refunds", payment_intent=payment)
            case "disputed":
                self.provider.open_dispute(payment)
            case "refused":
                self.provider.fault("refund_fails", payment_intent=payment, failure_reason="lost_or_stolen_card")
        self._work()
        if scene.end in ("came_back", "came_back_untold"):
            refund = self.provider.money(payment)["refunds"][0]["id"]
            self.provider.change_refund(refund, "failed", "expired_or_canceled_card")
            if scene.end == "came_back":
                self._tell_inbox(refund, payment)
                self._work()

    def _tell_inbox(self, refund: str, payment: str) -> None:
        """The provider's own hook cannot arrive while the console is not running yet: put its hint where it would be."""
        with transaction(self.console, self.m) as db:
            run(
                db, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref, created_at,"
                " body_digest)"
                " VALUES (:m, :e, 'refund.failed', :r, :p, now(), :d)", m=self.m, e=f"evt_seed_{secrets.token_hex(8)}", r=refund,
                p=payment, d=hashlib.sha256(refund.encode()).digest(),
            )  # fmt: skip

    def _work(self) -> None:
        with self._worker() as worker:
            submitter.run_once(worker)
            inbox.run_once(worker)

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
        """A worker whose database lives by the seed's clock."""
        environment = self.stack.worker_environment()
        keys = {name: SecretStr(key) for name, key in self.stack.secrets["provider_keys"].items()}
        settings = Settings(
            environment="demo", database_url=SecretStr(environment["DATABASE_URL"]), provider_keys=keys,
            seal_public_keys=(self.sealer.public_text(),), provider_base_url=self.stack.provider_url,
            deployment_id=UUID(environment["DEPLOYMENT_ID"]), generation=int(environment["GENERATION"]),
            state_dir=Path(environment["STATE_DIR"]),
        )  # fmt: skip
        with running_worker(settings) as worker:
            worker.engine.dispose()
            worker.engine = self.clock.engine(self.stack.role_urls[WORKER])
            # Answers are written down by its recorder, which keeps the engine it was made with.
            worker.recorder.close()
            worker.recorder = Recorder(worker.engine, worker.patiently)
            yield worker

    def _staff(self, first_name: str) -> str:
        return f"staff:{self.merchant.staff[f'{first_name}@{SLUG}.example']}"

    def _token(self, channel: str) -> str:
        return f"token:{self.merchant.tokens[channel].split('_')[2]}"
