"""Settling what only people can settle: a manager and somebody of finance, on what a stored list of the provider shows.

One proposes an outcome that the newest list supports, one of the other role confirms exactly that, and the worker asks the
provider once more before it carries it out (`carry_out`). What was paid by hand no provider lists: there the record of it is
the evidence, and nobody is asked (`ledger.review_by_hand`). Who approved the refund is neither of the two. The triggers of
0002_review check the same from the rows; what is here also explains why not. Every function locks the case, then the intent.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.canonical import canonical_bytes
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotAllowed, NotFound, SamePerson, Stale, WrongState
from ledger.events import LockedCase, append, lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.hand_records import HandRecord, hand_record
from ledger.ids import uuid7
from ledger.outbox import close_alarms_of, raise_alarm
from ledger.provider_lists import CONSISTENCY_SECONDS, ListedRefund, Shown, content_digest, newest_list
from ledger.refusals import OVER_WHEN_SETTLED
from ledger.settlement import SETTLED, ProviderRefund, apply_refund, fail

TAG: Final = b"onceback.settlement.v1\0"
ROLES: Final = ("manager", "finance")
# A proposal rests on a list no older than this, so that what two people talk about is what the provider shows today.
LIST_FRESH_MINUTES: Final = 15
# Pressed twice, the button asks once; the provider is not asked about one payment more often than this.
ASK_AGAIN_SECONDS: Final = 5
LONGEST_NOTE: Final = 500


@dataclass(frozen=True)
class Option:
    """An outcome the list supports. `refund_ref`: the listed refund it rests on, None for its absence. `named`: the others on
    the list that bear our mark, or could be it, and are then somebody's to explain."""

    outcome: str
    refund_ref: str | None
    named: tuple[str, ...] = ()

    @property
    def choice(self) -> str:
        """As one word of a form."""
        return f"{self.outcome}:{self.refund_ref or ''}"


@dataclass(frozen=True)
class Case:
    """What the options of one intent depend on beside the list. `taken`: listed refunds that are somebody else's already;
    `explained`: those of them, by reference, that another intent accounts for; `ended_at`: when the last attempt was over, None
    while that is not known; `at`: now, by the database."""

    intent: RowMapping
    taken: frozenset[str]
    explained: frozenset[str]
    ended_at: datetime | None
    at: datetime


def options(case: Case, shown: Shown, window_seconds: int = CONSISTENCY_SECONDS) -> tuple[list[Option], str]:
    """The outcomes the list supports, and why it supports no more ("" when it does). Nothing is assumed from silence."""
    if case.at - shown.taken_at > timedelta(minutes=LIST_FRESH_MINUTES):
        return [], "The list is too old to settle on. Ask the provider again."
    ours = [one for one in shown.refunds if _is_ours(case, one)]
    standing = [one for one in ours if one.stands]
    paid = standing or [one for one in shown.refunds if _could_be(case, one) and one.refund_ref not in case.taken]
    found = [
        Option(SETTLED[one.status], one.refund_ref, _others(case, shown, one.refund_ref, with_unmarked=False))
        for one in paid
        if one.stands and one.status in SETTLED
    ]
    if standing:
        unlisted = any(one.status not in SETTLED for one in standing)
        why = "The provider gives it a status that we do not know. Wait until it has one we do." if unlisted else ""
        return found, why
    named = _others(case, shown, None, with_unmarked=True)
    if ours:
        return [*found, Option("failed", ours[0].refund_ref, named)], ""
    if case.ended_at is None or shown.asked_at - case.ended_at < timedelta(seconds=window_seconds):
        return (
            found,
            "The last attempt is too recent for an absence to prove anything. Ask the provider again in a minute.",
        )
    return [*found, Option("failed", None, named)], ""


# A record by hand is true, or it is not: a person knows, and nothing in it can be compared with anything else of ours.
BY_HAND: Final = (Option("succeeded", None), Option("failed", None))


def evidence(db: Connection, intent: RowMapping) -> Shown | HandRecord | None:
    """What two people settle an intent on: its newest list, or for one paid by hand the record of it. None: there is none."""
    if intent["act"] == "manual":
        return hand_record(db, intent["merchant_id"], intent["intent_id"])
    return newest_list(db, intent["merchant_id"], intent["intent_id"])


def supported(db: Connection, intent: RowMapping, on: Shown | HandRecord) -> tuple[list[Option], str]:
    """The outcomes that the evidence supports, and why no more ("" when it does)."""
    if isinstance(on, HandRecord):
        return list(BY_HAND), ""
    return options(read_case(db, intent["merchant_id"], intent), on)


def _exact(case: Case, one: ListedRefund) -> bool:
    i = case.intent
    return (one.amount_minor, one.currency, one.charge_ref) == (i["amount_minor"], i["currency"], i["charge_ref"])


def _is_ours(case: Case, one: ListedRefund) -> bool:
    """Marked as this intent's, exactly what was approved, and not another than the provider had named."""
    named = case.intent["provider_refund_ref"] in (None, one.refund_ref)
    return (
        one.marked == str(case.intent["intent_id"]) and _exact(case, one) and named and one.refund_ref not in case.taken
    )


def _could_be(case: Case, one: ListedRefund) -> bool:
    """Without any mark of ours and otherwise exactly it: made by hand, or its mark was taken off."""
    named = case.intent["provider_refund_ref"] in (None, one.refund_ref)
    return one.marked == "" and one.stands and _exact(case, one) and named


def _others(case: Case, shown: Shown, chosen: str | None, *, with_unmarked: bool) -> tuple[str, ...]:
    """What else stands there and has to be explained: with our mark, or exactly like it."""
    marked = str(case.intent["intent_id"])
    return tuple(sorted(
        one.refund_ref for one in shown.refunds
        if one.stands and one.refund_ref != chosen
        and (one.marked == marked or (with_unmarked and one.refund_ref not in case.explained and _exact(case, one)))
    ))  # fmt: skip


def ask_again(db: Connection, merchant_id: UUID, intent_id: UUID) -> bool:
    """A person has the provider asked now; the worker does it. False when that was done a moment ago, or is not needed any more.

    Locks the case. Raises NotFound.
    """
    lock_case_of_intent(db, merchant_id, intent_id)
    return run(db, _ASK, m=merchant_id, i=intent_id, pause=timedelta(seconds=ASK_AGAIN_SECONDS)) == 1


_ASK: Final = """
    UPDATE outbox o SET due_at = now() FROM intents i WHERE o.merchant_id = :m AND o.intent_id = :i AND o.done_at IS NULL
        AND i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id AND i.state IN ('unknown', 'pending', 'needs_review')
        AND i.act <> 'manual' AND o.due_at > now() AND NOT EXISTS (SELECT 1 FROM looks l WHERE l.merchant_id = o.merchant_id
            AND l.intent_id = o.intent_id AND l.at > now() - :pause)
"""


def read_case(db: Connection, merchant_id: UUID, intent: RowMapping) -> Case:
    """The rows around a locked intent that its options depend on."""
    row = first(db, _ENDED, m=merchant_id, i=intent["intent_id"])
    listed = rows(db, _OWNED, m=merchant_id, i=intent["intent_id"])
    taken = frozenset(one["ref"] for one in listed if one["of_intent"] or one["booked"])
    explained = frozenset(one["ref"] for one in listed if one["of_intent"] or one["marked_other"])
    return Case(intent, taken, explained, row["ended_at"] if row else None, intent["at"])


_ENDED: Final = """
    SELECT CASE WHEN o.attempts = 0 THEN o.approved_at ELSE r.at END AS ended_at FROM outbox o
    LEFT JOIN attempt_results r ON r.merchant_id = o.merchant_id AND r.intent_id = o.intent_id AND r.attempt_no = o.attempts
    WHERE o.merchant_id = :m AND o.intent_id = :i
"""
# Whose the refunds on the newest list are: another intent's, by reference or by mark, or booked as made elsewhere.
_OWNED: Final = """
    SELECT l.refund_ref AS ref,
        EXISTS (SELECT 1 FROM intents o WHERE o.merchant_id = :m AND o.provider_refund_ref = l.refund_ref AND o.intent_id <> :i)
            AS of_intent,
        EXISTS (SELECT 1 FROM intents o WHERE o.merchant_id = :m AND o.intent_id::text = l.marked AND o.intent_id <> :i)
            AS marked_other,
        EXISTS (SELECT 1 FROM external_refunds x WHERE x.merchant_id = :m AND x.refund_ref = l.refund_ref) AS booked
    FROM listed_refunds l WHERE l.merchant_id = :m AND l.list_id = (SELECT list_id FROM provider_lists
        WHERE merchant_id = :m AND intent_id = :i ORDER BY taken_at DESC, list_id DESC LIMIT 1)
"""


def seen_digest(intent: RowMapping, shown: Shown | HandRecord) -> bytes:
    """What a page shows side by side: the intent as it waits, and its evidence. Carried in the form, compared, never read again."""
    if isinstance(shown, HandRecord):
        by_hand = {
            "intent": str(intent["intent_id"]), "amount_minor": str(intent["amount_minor"]), "currency": intent["currency"],
            "reason": intent["state_reason"], "by_hand": shown.content(),
        }  # fmt: skip
        return hashlib.sha256(TAG + canonical_bytes(by_hand)).digest()
    content = {
        "intent": str(intent["intent_id"]), "amount_minor": str(intent["amount_minor"]), "currency": intent["currency"],
        "charge": intent["charge_ref"], "refund": intent["provider_refund_ref"] or "", "reason": intent["state_reason"],
        "list": str(shown.list_id), "shown": shown.digest.hex(),
    }  # fmt: skip
    return hashlib.sha256(TAG + canonical_bytes(content)).digest()


def _proposal_digest(seen: bytes, option: Option, note: str) -> bytes:
    content = {"seen": seen.hex(), "outcome": option.outcome, "refund": option.refund_ref or "", "named": list(option.named),
               "note": note}  # fmt: skip
    return hashlib.sha256(TAG + canonical_bytes(content)).digest()


def propose(
    db: Connection, merchant_id: UUID, intent_id: UUID, staff_id: UUID, choice: str, seen: bytes, note: str
) -> UUID:
    """The first person proposes one of the options of the newest list. Returns the settlement's id.

    Raises NotFound, NotAllowed (role), SamePerson (approved it), WrongState (nothing to settle, or a proposal waits), BadInput
    (choice, note), Stale (another list or intent than was shown).
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        raise NotFound
    role = _role(db, intent, staff_id)
    if intent["state"] != "needs_review":
        raise WrongState("This refund does not wait for people any more.", state=intent["state"])
    if not 1 <= len(note.strip()) <= LONGEST_NOTE:
        raise BadInput("note", f"say in 1 to {LONGEST_NOTE} characters what you compared")
    if open_settlement(db, merchant_id, intent_id) is not None:
        raise WrongState("Somebody has proposed how to settle it. Confirm that, or turn it down, first.")
    shown = evidence(db, intent)
    if shown is None or seen_digest(intent, shown) != seen:
        what = "What was recorded" if intent["act"] == "manual" else "The provider's list"
        raise Stale(f"{what} changed while you were reading. Nothing was proposed.")
    found, why = supported(db, intent, shown)
    option = next((one for one in found if one.choice == choice), None)
    if option is None:
        raise BadInput("choice", why or "choose one of the outcomes that the list supports")
    settlement_id, digest = uuid7(), _proposal_digest(seen, option, note)
    run(
        db, _PROPOSE, m=merchant_id, id=settlement_id, i=intent_id,
        list=None if isinstance(shown, HandRecord) else shown.list_id, outcome=option.outcome,
        ref=option.refund_ref, named=list(option.named), note=note, who=staff_id, role=role, digest=digest,
    )  # fmt: skip
    body = {
        "settlement": str(settlement_id),
        "outcome": option.outcome,
        "refund": option.refund_ref or "",
        "digest": digest.hex(),
    }
    append(db, case, "settlement.proposed", f"staff:{staff_id}", body, intent_id=intent_id)
    return settlement_id


_PROPOSE: Final = """
    INSERT INTO settlements (merchant_id, settlement_id, intent_id, n, list_id, outcome, refund_ref, named, note, proposed_by,
        proposed_role, digest)
    SELECT :m, :id, :i, (SELECT count(*) + 1 FROM settlements WHERE merchant_id = :m AND intent_id = :i), :list, :outcome, :ref,
        :named, :note, :who, :role, :digest
"""


def _role(db: Connection, intent: RowMapping, staff_id: UUID) -> str:
    """The role in which a person may settle this intent. Raises NotAllowed, SamePerson."""
    role: str | None = scalar(
        db, "SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL", m=intent["merchant_id"], s=staff_id,
    )  # fmt: skip
    if role not in ROLES:
        raise NotAllowed("Managers and finance settle this, one of each.")
    if scalar(db, "SELECT 1 FROM approvals WHERE merchant_id = :m AND intent_id = :i AND staff_id = :s LIMIT 1",
              m=intent["merchant_id"], i=intent["intent_id"], s=staff_id):  # fmt: skip
        raise SamePerson("You approved this refund, so two other people settle it.")
    return str(role)


_OPEN: Final = """
    SELECT s.*, d.confirmed, d.decided_by, d.decided_role, d.decided_at, p.digest AS list_digest FROM settlements s
    LEFT JOIN provider_lists p ON p.merchant_id = s.merchant_id AND p.list_id = s.list_id
    LEFT JOIN settlement_decisions d ON d.merchant_id = s.merchant_id AND d.settlement_id = s.settlement_id
    LEFT JOIN settlement_results r ON r.merchant_id = s.merchant_id AND r.settlement_id = s.settlement_id
    WHERE s.merchant_id = :m AND s.intent_id = :i AND coalesce(d.confirmed, true) AND r.result IS NULL
    ORDER BY s.n DESC LIMIT 1
"""


def open_settlement(db: Connection, merchant_id: UUID, intent_id: UUID) -> RowMapping | None:
    """The settlement of an intent that waits for its second person, or for the worker."""
    return first(db, _OPEN, m=merchant_id, i=intent_id)


def decide(
    db: Connection,
    merchant_id: UUID,
    settlement_id: UUID,
    staff_id: UUID,
    digest: bytes,
    *,
    confirmed: bool,
    reason: str = "",
) -> bool:
    """The second person confirms exactly what was proposed, or anybody who may settle turns it down with a reason.

    False when it was decided so before. A confirmed one makes the worker ask the provider at once. Raises NotFound, NotAllowed,
    SamePerson, WrongState (decided otherwise, or gone on), Stale (not what was shown, or the list has changed since), BadInput.
    """
    found = first(
        db, "SELECT * FROM settlements WHERE merchant_id = :m AND settlement_id = :s", m=merchant_id, s=settlement_id
    )
    if found is None:
        raise NotFound
    case = lock_case_of_intent(db, merchant_id, found["intent_id"])
    intent = read_intent(db, merchant_id, found["intent_id"], lock=True)
    standing = first(db, "SELECT * FROM settlement_decisions WHERE merchant_id = :m AND settlement_id = :s",
                     m=merchant_id, s=settlement_id)  # fmt: skip
    if intent is None:
        raise NotFound
    if standing is not None:
        if standing["confirmed"] == confirmed:
            return False
        raise WrongState("Somebody else decided this a moment ago.")
    role = _role(db, intent, staff_id)
    if intent["state"] != "needs_review":
        raise WrongState("This refund does not wait for people any more.", state=intent["state"])
    if confirmed:
        _may_confirm(db, intent, found, staff_id, role, digest)
    elif not 1 <= len(reason.strip()) <= LONGEST_NOTE:
        raise BadInput("reason", f"say why in 1 to {LONGEST_NOTE} characters")
    _insert_decision(db, found, staff_id, role, confirmed=confirmed, reason=reason)
    kind = "settlement.confirmed" if confirmed else "settlement.turned_down"
    body = {"settlement": str(settlement_id), "digest": bytes(found["digest"]).hex()}
    append(db, case, kind, f"staff:{staff_id}", body, intent_id=found["intent_id"])
    if confirmed:
        run(db, "UPDATE outbox SET due_at = now() WHERE merchant_id = :m AND intent_id = :i",
            m=merchant_id, i=found["intent_id"])  # fmt: skip
    return True


def _may_confirm(
    db: Connection, intent: RowMapping, found: RowMapping, staff_id: UUID, role: str, digest: bytes
) -> None:
    if staff_id == found["proposed_by"]:
        raise SamePerson("You proposed this, so somebody of the other role confirms it.")
    if role == found["proposed_role"]:
        raise NotAllowed("A manager and somebody of finance settle it together, one of each.")
    if found["list_id"] is None:
        if bytes(found["digest"]) != digest or not as_recorded(db, intent, found):
            raise Stale("What was recorded changed since this was proposed. Nothing was settled.")
        return
    newest = newest_list(db, found["merchant_id"], found["intent_id"])
    proposed_on = scalar(db, "SELECT digest FROM provider_lists WHERE merchant_id = :m AND list_id = :l",
                         m=found["merchant_id"], l=found["list_id"])  # fmt: skip
    if bytes(found["digest"]) != digest or newest is None or newest.digest != bytes(proposed_on):
        raise Stale("The provider's list changed since this was proposed. Nothing was settled.")


def as_recorded(db: Connection, intent: RowMapping, found: RowMapping) -> bool:
    """Whether the digest of a settlement by hand is still that of the intent and its record: neither may ever change."""
    record = hand_record(db, intent["merchant_id"], intent["intent_id"])
    if record is None:
        return False
    option = Option(found["outcome"], None)
    return _proposal_digest(seen_digest(intent, record), option, found["note"]) == bytes(found["digest"])


def _insert_decision(
    db: Connection, found: RowMapping, staff_id: UUID, role: str, *, confirmed: bool, reason: str
) -> None:
    try:
        run(
            db, "INSERT INTO settlement_decisions (merchant_id, settlement_id, digest, proposed_by, proposed_role, decided_by,"
            " decided_role, confirmed, reason) VALUES (:m, :s, :digest, :by, :by_role, :who, :role, :confirmed, :reason)",
            m=found["merchant_id"], s=found["settlement_id"], digest=found["digest"], by=found["proposed_by"],
            by_role=found["proposed_role"], who=staff_id, role=role, confirmed=confirmed, reason=reason,
        )  # fmt: skip
    except IntegrityError as error:
        if "settled_by_two" in str(error.orig):
            raise SamePerson("You proposed this, so somebody of the other role confirms it.") from error
        raise


def carry_out(
    db: Connection, case: LockedCase, intent: RowMapping, listed: Sequence[ProviderRefund], window_seconds: int
) -> str:
    """The worker's part, on a list it has just read and stored: moves the intent as two people said, if that list still says so.

    Returns `waits` (nobody confirmed anything), `settled`, or `void`: then it goes back to people, with an alarm. Case and
    intent are locked by the caller; locks what settling and failing lock.
    """
    found = open_settlement(db, case.merchant_id, intent["intent_id"])
    if found is None or not found["confirmed"]:
        return "waits"
    fault = left(db, intent, found) or _fault(db, intent, found, listed, window_seconds)
    if fault:
        return void(db, case, intent, found, fault)
    close_alarms_of(db, intent, OVER_WHEN_SETTLED, "A manager and somebody of finance settled the refund.")
    if found["refund_ref"] is None:
        fail(db, case, intent, "not_at_provider")
    else:
        refund = next(one for one in listed if one.refund_ref == found["refund_ref"])
        apply_refund(db, case, intent, refund, by_people=True)
    keep_result(db, found, "carried_out", "")
    if found["named"]:
        text = f"R-{intent['number']}: at the provider beside it: {', '.join(found['named'])}"
        raise_alarm(db, case.merchant_id, "unexplained_refund", intent["intent_id"], text[:300])
    return "settled"


def void(db: Connection, case: LockedCase, intent: RowMapping, found: RowMapping, fault: str) -> str:
    """What two people said does not hold: kept as such, with an alarm, and back with people. Returns `void`."""
    keep_result(db, found, "void", fault)
    append(db, case, "settlement.void", "system", {"settlement": str(found["settlement_id"])},
           intent_id=intent["intent_id"], reason=fault)  # fmt: skip
    text = f"R-{intent['number']}: what two people settled no longer holds: {fault}"
    raise_alarm(db, case.merchant_id, "settlement_void", intent["intent_id"], text[:300])
    return "void"


def left(db: Connection, intent: RowMapping, found: RowMapping) -> str:
    """`left` when one of the two may not settle any more, or ""."""
    for who, role in ((found["proposed_by"], found["proposed_role"]), (found["decided_by"], found["decided_role"])):
        if not scalar(db, "SELECT may_settle(:m, :i, :who, :role)", m=intent["merchant_id"], i=intent["intent_id"], who=who,
                      role=role):  # fmt: skip
            return "left"
    return ""


def _fault(
    db: Connection, intent: RowMapping, found: RowMapping, listed: Sequence[ProviderRefund], window_seconds: int
) -> str:
    """Why it must not be carried out, or "": the provider shows something else now."""
    shown = newest_list(db, intent["merchant_id"], intent["intent_id"])
    if (
        shown is None
        or content_digest(listed) != bytes(found["list_digest"])
        or shown.digest != bytes(found["list_digest"])
    ):
        return "evidence_changed"
    possible, _ = options(read_case(db, intent["merchant_id"], intent), shown, window_seconds)
    wanted = Option(found["outcome"], found["refund_ref"], tuple(found["named"]))
    return "" if wanted in possible else "not_supported"


def keep_result(db: Connection, found: RowMapping, result: str, reason: str) -> None:
    """Uses up what two people said: `carried_out`, or `void` for a reason."""
    run(db, "INSERT INTO settlement_results (merchant_id, settlement_id, result, reason) VALUES (:m, :s, :result, :reason)",
        m=found["merchant_id"], s=found["settlement_id"], result=result, reason=reason)  # fmt: skip


def settlement_facts(found: RowMapping) -> dict[str, Any]:
    """What a page says of an open settlement: {outcome, refund_ref, named, digest in hex}."""
    return {"outcome": found["outcome"], "refund_ref": found["refund_ref"], "named": list(found["named"]),
            "digest": bytes(found["digest"]).hex()}  # fmt: skip
