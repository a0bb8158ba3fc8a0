"""The guards that a run can be without, and for each the second writer that tries what the guard refuses.

`off` are statements for the scratch database, run by its administrator: nothing in the product knows of them. A rogue is a
build of ours with one fault in it. It works under a role of the product, so the guard is what it meets; it plays in every
run, and is refused in every run but the one its guard was taken from.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from faults.place import Place
from jobs.stripe_gateway import StripeGateway
from ledger.approvals import Seen, approve
from ledger.database import first, rows, run, transaction
from ledger.errors import LedgerError
from ledger.events import append, lock_case
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, new_provider_key, propose
from ledger.seals import Sealer

Row = dict[str, Any]
Rogue = Callable[[Place, StripeGateway, Row], None]
LIVE: Final = ("proposed", "approved", "held", "submitting", "unknown", "pending")


@dataclass(frozen=True)
class Guard:
    """`rogue` gets the row of an intent in a state of `wants`, and raises what the database refuses it with. Without a
    rogue the ordinary course of things meets the guard."""

    name: str
    promise: str
    off: tuple[str, ...]
    rogue: Rogue | None = None
    wants: tuple[str, ...] = ()


class TooLate(Exception):
    """The intent went on meanwhile: there is nothing to try."""


def attempt(guard: Guard, place: Place, gateway: StripeGateway, intent: Row) -> str:
    """Lets the rogue try: `let`, `refused` by the database, or `too late`."""
    if guard.rogue is None:
        return "too late"
    try:
        guard.rogue(place, gateway, intent)
    except (DBAPIError, LedgerError):
        return "refused"
    except TooLate:
        return "too late"
    return "let"


def _must(changed: int) -> None:
    if not changed:
        raise TooLate


def _retry_under_a_fresh_key(place: Place, gateway: StripeGateway, intent: Row) -> None:
    """Takes an answer for lost, mints a key for the retry, stores it as one should, and sends."""
    key = new_provider_key()
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        run(db, "UPDATE intents SET provider_key = :k WHERE merchant_id = :m AND intent_id = :i",
            k=key, m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
        sent = first(db, "SELECT request FROM outbox WHERE intent_id = :i", i=intent["intent_id"])
    if sent is not None:
        gateway.refund(dict(sent["request"]), key)


def _the_same_units_in_a_second_case(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A channel that looks for free units before it locks: the customer's second message opens a case of its own."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        twin = _twin(db, intent, _case_like(db, intent))
    _approve(place, twin)


def _units_let_go_after_payment(place: Place, gateway: StripeGateway, intent: Row) -> None:
    """A clean-up that frees what closed cases hold; then the same units are returned once more."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        _must(run(db, "UPDATE case_items SET live = false WHERE merchant_id = :m AND case_id = :c AND live",
                  m=intent["merchant_id"], c=intent["case_id"]))  # fmt: skip
    _the_same_units_in_a_second_case(place, gateway, intent)


def _a_second_proposal(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A recomputation that does not withdraw what was proposed before it proposes again; reviewers work off both."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        twin = _twin(db, intent, intent["case_id"])
    _approve(place, twin)
    if intent["state"] == "proposed":
        _approve(place, intent["intent_id"])


def _case_like(db: Connection, intent: Row) -> UUID:
    case_id = uuid7()
    keys = {"m": intent["merchant_id"], "c": intent["case_id"], "new": case_id}
    run(
        db, "INSERT INTO cases (merchant_id, case_id, order_id, customer_id, reason, separate, opened_by, channel, due_at,"
        " summary, announced, currency) SELECT merchant_id, :new, order_id, customer_id, reason, true, opened_by, channel,"
        " now() + interval '14 days', summary, announced, currency FROM cases WHERE merchant_id = :m AND case_id = :c", **keys,
    )  # fmt: skip
    for item in rows(db, "SELECT * FROM case_items WHERE merchant_id = :m AND case_id = :c", m=keys["m"], c=keys["c"]):
        run(
            db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
            " SELECT merchant_id, :id, :new, order_id, line_id, line_quantity, units FROM case_items WHERE item_id = :old",
            id=uuid7(), new=case_id, old=item["item_id"],
        )  # fmt: skip
    case = lock_case(db, intent["merchant_id"], case_id)
    append(db, case, "case.opened", intent["case_opener"], {"channel": "chat"})
    return case_id


def _twin(db: Connection, intent: Row, case_id: UUID) -> UUID:
    """The same proposal once more."""
    entitlement_id = intent["entitlement_id"]
    if case_id != intent["case_id"]:
        entitlement_id = uuid7()
        run(
            db, "INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version,"
            " evidence_digest, outcome, currency, total_minor, tax_minor, payable_minor, record, digest)"
            " SELECT merchant_id, :new, :c, 1, policy_id, policy_version, evidence_digest, outcome, currency, total_minor,"
            " tax_minor, payable_minor, record, digest FROM entitlements WHERE entitlement_id = :old",
            new=entitlement_id, c=case_id, old=intent["entitlement_id"],
        )  # fmt: skip
    claims = rows(db, "SELECT line_id, amount_minor FROM line_claims WHERE merchant_id = :m AND intent_id = :i AND step = 'claim'",
                  m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
    basis = Basis(
        entitlement_id, bytes(intent["entitlement_digest"]), bytes(intent["evidence_digest"]), intent["policy_id"],
        intent["policy_version"], intent["units"], intent["route"], intent["requester"],
    )  # fmt: skip
    proposal = Proposal(
        intent["capture_id"], intent["currency"], intent["amount_minor"], intent["order_minor"],
        {row["line_id"]: row["amount_minor"] for row in claims},
    )  # fmt: skip
    return propose(db, lock_case(db, intent["merchant_id"], case_id), basis, proposal, intent["requester"])


def _approve(place: Place, intent_id: UUID) -> None:
    """Tobias approves it, by the ordinary command."""
    merchant_id = place.world.merchant_id
    with transaction(place.stack.console, merchant_id) as db:
        intent = read_intent(db, merchant_id, intent_id)
        if intent is None:
            raise LookupError("it was proposed a moment ago")
        seen = Seen(fingerprint(intent, evidence_digest(db, merchant_id, intent["case_id"])), secrets.token_hex(16), "")
        approve(db, merchant_id, intent_id, place.world.tobias.staff_id, seen, Sealer.from_text(place.seal_key),
                cancel_window_seconds=0)  # fmt: skip


_SECOND_APPROVAL: Final = """
    INSERT INTO approvals (merchant_id, approval_id, intent_id, seat, approver, staff_id, requester, case_opener, fingerprint,
        strength, note, operation_key, approved_at, expires_at, seal_key_id, seal)
    SELECT merchant_id, :id, intent_id, seat, :approver, :staff, requester, case_opener, fingerprint, strength, note, :key,
        approved_at, expires_at, seal_key_id, seal FROM approvals WHERE merchant_id = :m AND intent_id = :i AND seat = 1 LIMIT 1
"""


def _a_second_approval(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A confirm page that does not ask whether somebody else was quicker."""
    person = place.world.mara
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        _must(run(db, _SECOND_APPROVAL, m=intent["merchant_id"], i=intent["intent_id"], id=uuid7(), approver=person.actor,
                  staff=person.staff_id, key=secrets.token_hex(16)))  # fmt: skip


def _a_late_result(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A worker that hung records its answer after another one took over."""
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        _must(run(
            db, "INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, code, recorded_by)"
            " SELECT merchant_id, intent_id, attempt_no, 'unknown', 'late', 1 FROM attempt_results WHERE merchant_id = :m"
            " AND intent_id = :i LIMIT 1", m=intent["merchant_id"], i=intent["intent_id"],
        ))  # fmt: skip


def _settle_again(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """An inbox that books each hint of a refund: the second one moves the money again."""
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        run(
            db, "INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance,"
            " to_balance, amount_minor) VALUES (:m, :id, :c, :cur, :i, 'settle', 'reserved', 'refunded', :minor)",
            m=intent["merchant_id"], id=uuid7(), c=intent["capture_id"], cur=intent["currency"], i=intent["intent_id"],
            minor=intent["amount_minor"],
        )  # fmt: skip


def _put_a_balance_right(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk that corrects a figure in place: what was paid back is available again."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        run(db, "UPDATE captures SET available_minor = available_minor + refunded_minor, refunded_minor = 0"
            " WHERE merchant_id = :m AND capture_id = :c", m=intent["merchant_id"], c=intent["capture_id"])  # fmt: skip


def _settle_from_the_web(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A page that marks a refund as paid without asking the provider."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        case = lock_case(db, intent["merchant_id"], intent["case_id"])
        append(db, case, "intent.succeeded", place.world.mara.actor, intent_id=intent["intent_id"],
               move=(intent["state"], "succeeded"), stage="paid")  # fmt: skip
        run(
            db, "INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance,"
            " to_balance, amount_minor) VALUES (:m, :id, :c, :cur, :i, 'settle', 'reserved', 'refunded', :minor)",
            m=intent["merchant_id"], id=uuid7(), c=intent["capture_id"], cur=intent["currency"], i=intent["intent_id"],
            minor=intent["amount_minor"],
        )  # fmt: skip


_SENT: Final = ("submitting", "unknown", "pending", "succeeded")
_ALL: Final = (
    Guard("units", "P1", ("ALTER TABLE case_items DROP CONSTRAINT units_returned_once",),
          _the_same_units_in_a_second_case, (*LIVE, "succeeded")),
    Guard("paid_units", "P1", ("DROP TRIGGER paid_units_stay ON case_items",), _units_let_go_after_payment, ("succeeded",)),
    Guard("one_live_intent", "P2", ("DROP INDEX one_live_intent_per_case_and_capture",), _a_second_proposal, LIVE),
    Guard("balances", "P3", ("ALTER TABLE captures DROP CONSTRAINT balances_not_negative",)),
    Guard("transfers", "P3", ("DROP TRIGGER moves_balances ON transfers",)),
    Guard("settled_once", "P3", ("ALTER TABLE transfers DROP CONSTRAINT one_transfer_per_step",
          "ALTER TABLE captures DROP CONSTRAINT balances_not_negative"), _settle_again, ("succeeded",)),
    Guard("grants", "P3", ("GRANT UPDATE ON captures TO onceback_console",), _put_a_balance_right, ("succeeded",)),
    Guard("who_settles", "P5", ("DROP POLICY console_steps ON transfers", "DROP POLICY console_moves ON events"),
          _settle_from_the_web, ("submitting", "unknown", "pending")),
    Guard("approved_once", "P6", ("ALTER TABLE approvals DROP CONSTRAINT approved_once_per_seat",
          "DROP TRIGGER of_proposals ON approvals", "DROP TRIGGER counts_for_its_person ON approvals"),
          _a_second_approval, ("approved", *_SENT)),
    Guard("one_key", "P8", ("GRANT UPDATE (provider_key) ON intents TO onceback_worker", "DROP TRIGGER exact ON intents"),
          _retry_under_a_fresh_key, _SENT),
    Guard("attempt_fence", "P9", ("ALTER TABLE attempt_results DROP CONSTRAINT attempt_results_pkey",), _a_late_result, _SENT),
)  # fmt: skip
GUARDS: Final = {guard.name: guard for guard in _ALL}
