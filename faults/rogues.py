"""The second writers: each is a build of ours with one fault in it, and tries what one guard refuses.

Each works under a role of the product, so the guard is what it meets. It is given the row of an intent in a state it wants
and raises what the database refuses it with; `TooLate` when there is nothing to try.
"""

import secrets
import time
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from faults.place import Place
from jobs.stripe_gateway import StripeGateway
from ledger import review
from ledger.approvals import Seen, approve
from ledger.database import first, rows, run, scalar, transaction
from ledger.errors import LedgerError
from ledger.events import LockedCase, append, lock_case, lock_case_of_intent
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, live_intents, new_provider_key, propose, withdraw
from ledger.reservation import give_back
from ledger.seals import Sealer
from ledger.settlement import fail
from tests.world import Person

Row = dict[str, Any]
# How long a second writer waits for what its act needs, such as a dispute that was opened a moment ago.
PATIENCE_SECONDS: Final = 1.5


class TooLate(Exception):
    """The intent went on meanwhile: there is nothing to try."""


def _must(changed: int) -> None:
    if not changed:
        raise TooLate


def the_live_one(db: Connection, case: LockedCase) -> RowMapping:
    """The only live intent of a case. Raises TooLate: there is none, as when nothing could be proposed."""
    live = live_intents(db, case)
    if len(live) != 1:
        raise TooLate
    return live[0]


# The states in which an intent takes its share of what its case is owed.
COUNTS: Final = ("proposed", "approved", "held", "submitting", "unknown", "pending", "needs_review", "succeeded")


def lock_what_counts(db: Connection, intent: Row) -> LockedCase:
    """Locks an intent and its case for the rest of the transaction, so that what the guard keeps out stays true while the
    second writer tries. Raises TooLate: since it was read the intent was withdrawn, refused or failed, and what is tried would
    be no duplicate: no guard refuses that."""
    case = lock_case_of_intent(db, intent["merchant_id"], intent["intent_id"])
    read = read_intent(db, intent["merchant_id"], intent["intent_id"], lock=True)
    if read is None or read["state"] not in COUNTS:
        raise TooLate
    return case


def retry_under_a_fresh_key(place: Place, gateway: StripeGateway, intent: Row) -> None:
    """Takes an answer for lost, mints a key for the retry, stores it as one should, and sends."""
    key = new_provider_key()
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        run(db, "UPDATE intents SET provider_key = :k WHERE merchant_id = :m AND intent_id = :i",
            k=key, m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
        sent = first(db, "SELECT request FROM outbox WHERE intent_id = :i", i=intent["intent_id"])
    if sent is not None:
        gateway.refund(dict(sent["request"]), key)


def the_same_units_in_a_second_case(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A channel that looks for free units before it locks: the customer's second message opens a case of its own."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        lock_what_counts(db, intent)
        twin = _twin(db, intent, _case_like(db, intent))
    _approve(place, twin)


def units_let_go_after_payment(place: Place, gateway: StripeGateway, intent: Row) -> None:
    """A clean-up that frees what closed cases hold; then the same units are returned once more."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        lock_what_counts(db, intent)
        _must(run(db, "UPDATE case_items SET live = false WHERE merchant_id = :m AND case_id = :c AND live",
                  m=intent["merchant_id"], c=intent["case_id"]))  # fmt: skip
    the_same_units_in_a_second_case(place, gateway, intent)


def a_second_proposal(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A recomputation that does not withdraw what was proposed before it proposes again; reviewers work off both."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        twin = _twin(db, intent, intent["case_id"], lock_what_counts(db, intent))
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


def _twin(db: Connection, intent: Row, case_id: UUID, case: LockedCase | None = None) -> UUID:
    """The same proposal once more."""
    entitlement_id = intent["entitlement_id"]
    if case_id != intent["case_id"]:
        entitlement_id = uuid7()
        run(
            db, "INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version,"
            " evidence_digest, outcome, currency, total_minor, tax_minor, payable_minor, record, digest, allocation_digest,"
            " terms_digest, evidence, priors)"
            " SELECT merchant_id, :new, :c, 1, policy_id, policy_version, evidence_digest, outcome, currency, total_minor,"
            " tax_minor, payable_minor, record, digest, allocation_digest, terms_digest, evidence, priors"
            " FROM entitlements WHERE entitlement_id = :old",
            new=entitlement_id, c=case_id, old=intent["entitlement_id"],
        )  # fmt: skip
    claims = rows(db, "SELECT line_id, amount_minor FROM line_claims WHERE merchant_id = :m AND intent_id = :i AND step = 'claim'",
                  m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
    proposal = Proposal(
        intent["capture_id"], intent["currency"], intent["amount_minor"], intent["order_minor"],
        {row["line_id"]: row["amount_minor"] for row in claims},
    )  # fmt: skip
    case = case or lock_case(db, intent["merchant_id"], case_id)
    return propose(db, case, _basis(intent, entitlement_id), proposal, intent["requester"])


def _basis(intent: Row, entitlement_id: UUID) -> Basis:
    return Basis(
        entitlement_id, bytes(intent["entitlement_digest"]), bytes(intent["evidence_digest"]), intent["policy_id"],
        intent["policy_version"], intent["units"], intent["route"], intent["requester"],
    )  # fmt: skip


def _approve(place: Place, intent_id: UUID) -> None:
    """Tobias approves it, by the ordinary command."""
    approve_as(place, place.world.tobias, intent_id)


def approve_as(place: Place, person: Person, intent_id: UUID) -> None:
    """A person approves it, by the ordinary command."""
    merchant_id = place.world.merchant_id
    with transaction(place.stack.console, merchant_id) as db:
        intent = read_intent(db, merchant_id, intent_id)
        if intent is None:
            raise LookupError("it was proposed a moment ago")
        seen = Seen(
            fingerprint(intent, evidence_digest(db, merchant_id, intent["case_id"])), secrets.token_hex(16), "seen"
        )
        approve(db, merchant_id, intent_id, person.staff_id, seen, Sealer.from_text(place.seal_key),
                cancel_window_seconds=0)  # fmt: skip


_SECOND_APPROVAL: Final = """
    INSERT INTO approvals (merchant_id, approval_id, intent_id, seat, approver, staff_id, requester, case_opener, fingerprint,
        strength, note, operation_key, approved_at, expires_at, seal_key_id, seal)
    SELECT merchant_id, :id, intent_id, seat, :approver, :staff, requester, case_opener, fingerprint, strength, note, :key,
        approved_at, expires_at, seal_key_id, seal FROM approvals WHERE merchant_id = :m AND intent_id = :i AND seat = 1 LIMIT 1
"""


def a_second_approval(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A confirm page that does not ask whether somebody else was quicker."""
    person = place.world.mara
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        _must(run(db, _SECOND_APPROVAL, m=intent["merchant_id"], i=intent["intent_id"], id=uuid7(), approver=person.actor,
                  staff=person.staff_id, key=secrets.token_hex(16)))  # fmt: skip


def a_late_result(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A worker that hung records its answer after another one took over."""
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        _must(run(
            db, "INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, code, recorded_by)"
            " SELECT merchant_id, intent_id, attempt_no, 'unknown', 'late', 1 FROM attempt_results WHERE merchant_id = :m"
            " AND intent_id = :i LIMIT 1", m=intent["merchant_id"], i=intent["intent_id"],
        ))  # fmt: skip


def _move_as_settled(db: Connection, intent: Row) -> None:
    run(
        db, "INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance,"
        " to_balance, amount_minor) VALUES (:m, :id, :c, :cur, :i, 'settle', 'reserved', 'refunded', :minor)",
        m=intent["merchant_id"], id=uuid7(), c=intent["capture_id"], cur=intent["currency"], i=intent["intent_id"],
        minor=intent["amount_minor"],
    )  # fmt: skip


def settle_again(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """An inbox that books each hint of a refund: the second one moves the money again."""
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        _move_as_settled(db, intent)


def put_a_balance_right(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk that corrects a figure in place: what was paid back is available again."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        run(db, "UPDATE captures SET available_minor = available_minor + refunded_minor, refunded_minor = 0"
            " WHERE merchant_id = :m AND capture_id = :c", m=intent["merchant_id"], c=intent["capture_id"])  # fmt: skip


def settle_from_the_web(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A page that marks a refund as paid without asking the provider."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        case = lock_case(db, intent["merchant_id"], intent["case_id"])
        append(db, case, "intent.succeeded", place.world.mara.actor, intent_id=intent["intent_id"],
               move=(intent["state"], "succeeded"), stage="paid")  # fmt: skip
        _move_as_settled(db, intent)


def paid_once_more(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A recomputation that forgets what was paid: a case that has its money is proposed the same once more."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        twin = _twin(db, intent, intent["case_id"], lock_what_counts(db, intent))
    _approve(place, twin)


_WHOLE_LINE: Final = """
    INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest, outcome,
        currency, total_minor, tax_minor, payable_minor, record, digest, allocation_digest, terms_digest, evidence, priors)
    SELECT merchant_id, :new, case_id, (SELECT max(n) + 1 FROM entitlements WHERE merchant_id = :m AND case_id = :c), policy_id,
        policy_version, evidence_digest, outcome, currency, total_minor + :gross, tax_minor, :gross, record, digest,
        allocation_digest, terms_digest, evidence, priors
    FROM entitlements WHERE merchant_id = :m AND entitlement_id = :old
"""


def more_than_the_line(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """An engine that pays a whole line for one unit of it: the case's line was paid in part, and all of it is claimed again."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        case = lock_what_counts(db, intent)
        line = first(
            db, "SELECT l.line_id, l.gross_minor FROM line_claims c JOIN order_lines l USING (merchant_id, line_id)"
            " WHERE c.merchant_id = :m AND c.intent_id = :i AND c.step = 'claim' LIMIT 1", m=intent["merchant_id"],
            i=intent["intent_id"],
        )  # fmt: skip
        if line is None:
            raise TooLate
        gross, entitlement_id = line["gross_minor"], uuid7()
        run(db, _WHOLE_LINE, m=intent["merchant_id"], new=entitlement_id, c=intent["case_id"], old=intent["entitlement_id"],
            gross=gross)  # fmt: skip
        proposal = Proposal(intent["capture_id"], intent["currency"], gross, gross, {line["line_id"]: gross})
        propose(db, case, _basis(intent, entitlement_id), proposal, intent["requester"])


def a_higher_limit_for_today(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk at which one person sets the day's cap to what is needed."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        _must(run(db, "UPDATE cap_days SET limit_minor = limit_minor + 1000 WHERE merchant_id = :m AND currency = :c",
                  m=intent["merchant_id"], c=intent["currency"]))  # fmt: skip


_OWN_APPROVAL: Final = """
    INSERT INTO approvals (merchant_id, approval_id, intent_id, seat, approver, staff_id, requester, case_opener, fingerprint,
        strength, note, operation_key, approved_at, expires_at, seal_key_id, seal)
    SELECT merchant_id, :id, intent_id, 1, requester, :staff, requester, case_opener, sha256('seen'), 'session', '', :key,
        now(), now() + interval '1 day', 'harness-1', sha512('seal') FROM intents WHERE merchant_id = :m AND intent_id = :i
"""


def approve_ones_own(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A confirm page that does not ask who asked: Mara has a refund worked out anew and approves it herself."""
    mara = place.world.mara
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        case = lock_case_of_intent(db, intent["merchant_id"], intent["intent_id"])
        before = [one for one in live_intents(db, case) if one["intent_id"] == intent["intent_id"]]
        if not before or before[0]["state"] != "proposed":
            raise TooLate
        withdraw(db, case, before, mara.actor, "other")
        own = _twin(db, {**intent, "requester": mara.actor}, intent["case_id"], case)
        give_back(db, before)
        run(
            db,
            _OWN_APPROVAL,
            m=intent["merchant_id"],
            i=own,
            id=uuid7(),
            staff=mara.staff_id,
            key=secrets.token_hex(16),
        )


def correct_the_amount(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk that puts a figure right after it was approved."""
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        _must(run(db, "UPDATE intents SET amount_minor = amount_minor + 100 WHERE merchant_id = :m AND intent_id = :i",
                  m=intent["merchant_id"], i=intent["intent_id"]))  # fmt: skip


_DECIDED_ALONE: Final = """
    INSERT INTO settlement_decisions (merchant_id, settlement_id, digest, proposed_by, proposed_role, decided_by, decided_role,
        confirmed)
    SELECT merchant_id, settlement_id, digest, proposed_by, proposed_role, proposed_by, proposed_role, true FROM settlements
    WHERE merchant_id = :m AND settlement_id = :s
"""


def settle_alone(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A desk on which whoever proposes what became of a refund confirms it as well."""
    by = place.world.farah
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        read = read_intent(db, intent["merchant_id"], intent["intent_id"])
        shown = review.evidence(db, read) if read is not None else None
        if read is None or shown is None:
            raise TooLate
        choices, _ = review.supported(db, read, shown)
        if not choices:
            raise TooLate
        try:
            made = review.propose(
                db, intent["merchant_id"], intent["intent_id"], by.staff_id, choices[0].choice, review.seen_digest(read, shown),
                "compared line by line",
            )  # fmt: skip
        except LedgerError as refused:
            raise TooLate from refused
        run(db, _DECIDED_ALONE, m=intent["merchant_id"], s=made)


def give_up_after_a_while(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """A timer that takes what nobody settled for failed, and gives everything back."""
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        case = lock_case_of_intent(db, intent["merchant_id"], intent["intent_id"])
        read = read_intent(db, intent["merchant_id"], intent["intent_id"], lock=True)
        if read is None or read["state"] != "needs_review":
            raise TooLate
        fail(db, case, read, "gave_up")


_ON_DISPUTED_CHARGE: Final = """
    SELECT i.* FROM intents i JOIN disputes d ON d.merchant_id = i.merchant_id AND d.charge_ref = i.charge_ref
    WHERE i.state = 'held' AND i.state_reason = 'disputed' AND i.merchant_id = %s
        AND d.status NOT IN ('won', 'prevented', 'warning_closed')
    ORDER BY i.number DESC LIMIT 1
"""


def _disputed(db: Connection, intent: Row) -> bool:
    return scalar(
        db, "SELECT EXISTS (SELECT FROM disputes d WHERE d.merchant_id = :m AND d.charge_ref = :c"
        " AND d.status NOT IN ('won', 'prevented', 'warning_closed'))", m=intent["merchant_id"], c=intent["charge_ref"],
    ) is True  # fmt: skip


def send_although_disputed(place: Place, gateway: StripeGateway, intent: Row) -> None:
    """A submitter that lets go what was held and does not look at the disputes again."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not (found := place.as_administrator(_ON_DISPUTED_CHARGE, intent["merchant_id"])):
        if time.monotonic() > ends:
            raise TooLate
        time.sleep(0.1)
    held = found[0]
    with transaction(place.stack.worker, held["merchant_id"]) as db:
        case = lock_case_of_intent(db, held["merchant_id"], held["intent_id"])
        read = read_intent(db, held["merchant_id"], held["intent_id"], lock=True)
        if read is None or read["state"] != "held":
            raise TooLate
        for name, move in (("released", ("held", "approved")), ("submitting", ("approved", "submitting"))):
            append(db, case, f"intent.{name}", "system", intent_id=held["intent_id"], move=move)
        # A dispute that was won before the guard looked holds nothing; no dispute is opened twice.
        if not _disputed(db, held):
            raise TooLate
        sent = scalar(db, "SELECT request FROM outbox WHERE merchant_id = :m AND intent_id = :i", m=held["merchant_id"],
                      i=held["intent_id"])  # fmt: skip
    gateway.refund(dict(sent), held["provider_key"])
