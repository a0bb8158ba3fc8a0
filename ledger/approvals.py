"""Approving: one person binds one exact intent. Everything an approval sets off commits with it or not at all.

Approve = bind what was seen + seal it + move the intent + reserve the capture + freeze the request + count the cap.
Lock order: customer (or order), case, intent, windows of the person, capture, cap day
(last, and held only until the commit that follows).
"""

import hmac
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger import tracing
from ledger.automatic_rule import actor_of, fault_of_policy
from ledger.canonical import canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.database import commit_later, first, run_later, scalar, together
from ledger.dispute_holds import HOLDS
from ledger.errors import (
    AlreadyDecided,
    BadInput,
    LedgerError,
    LimitReached,
    NotAllowed,
    NotEnoughMoneyLeft,
    NotFound,
    SamePerson,
    Stale,
    SumTakesTwo,
    SumTooHigh,
    WrongState,
)
from ledger.events import (
    EVENT_COLUMNS,
    EVENT_VALUES,
    LockedCase,
    append,
    held_stage,
    lock_case_of_intent_later,
    locked_case,
    next_event,
    stage_after,
)
from ledger.fingerprint import (
    NO_EVIDENCE,
    digest_of_evidence,
    digest_of_request,
    digests_of_evidence,
    evidence_digest,
    evidence_of_intent_later,
    evidence_of_intents_later,
    fingerprint,
    frozen_request,
    lock_intent_with,
    lock_intents_later,
    not_sendable,
    request_digest,
)
from ledger.hops import hop
from ledger.ids import uuid7
from ledger.limits import Sum, lock_payee_later, sums_later, sums_of
from ledger.log_fields import log
from ledger.reservation import (
    TRANSFER_COLUMNS,
    TRANSFER_VALUES,
    leaves_too_little,
    reserve_cap_or_hold_later,
    transfer_of,
)
from ledger.seals import Sealer, SealVerifier
from ledger.states import STAGE
from ledger.strength import Proof, Shown, fault_of_strength, show
from ledger.two_managers import FIRST_IS_OVER, STANDING_APPROVAL, TWO_MANAGERS, fault_of_second, seat_for

# S31: how long an approval is good by the database clock, by its strength; checked at each send.
APPROVAL_HOURS: Final = {"session": 24, "factor": 24, "policy": 24, "passkey": 4}
# S87: after a recovery; the worker reads every payment again, those that wait for an approval first.
NOT_READ_YET: Final = (
    "This payment is read again at the provider first, for the books were restored from a backup."
    " Try again in some minutes."
)


@dataclass(frozen=True)
class Decision:
    """What an approval led to. `state` is `approved` (leaves at `sends_at`), `held` (by the daily cap) or `proposed` still (the
    first of two managers). `key` is the one under which the provider will know it."""

    intent_id: UUID
    case_id: UUID
    approval_id: UUID
    state: str
    sends_at: datetime | None
    key: str = ""


@dataclass(frozen=True)
class Seen:
    """What came back in the form: the fingerprint the page rendered, its operation key, and the typed note."""

    fingerprint: bytes
    operation_key: str
    note: str = ""


def approve(
    db: Connection,
    merchant_id: UUID,
    intent_id: UUID,
    staff_id: UUID,
    seen: Seen,
    sealer: Sealer,
    *,
    cancel_window_seconds: int,
    trace: str = "",
    last: bool = False,
    proof: Proof | None = None,
) -> Decision:
    """Binds `seen` to the intent if that is still what the rows say; else changes nothing.

    `last`: the entry point has nothing to add to its transaction, so the COMMIT leaves with the cap entry. `proof`: what the person
    shows beside their session, where the amount takes more (S25).

    Locks customer or order, case, intent, the person's windows, capture, cap day. Raises NotFound, NotAllowed (role or limit),
    SumTooHigh, SumTakesTwo, LimitReached (the person's hour or day), SamePerson (P7), AlreadyDecided with the standing approval,
    Stale with old and new values when anything differs from what was shown, NotEnoughMoneyLeft, WrongState while the order is
    blocked, BadInput (note) when the records contradict one another and nothing is said of how that was settled, TooWeak, and
    ProofRefused or NotShown when what is shown does not hold.
    """
    standing = _lock_and_read(db, merchant_id, intent_id, staff_id)
    case, intent = standing.case, standing.intent
    if intent["state"] != "proposed":
        raise decided_or_stale(db, intent)
    check_may_approve(intent, staff_id, standing.role)
    check_sum(standing.role, standing.sum)
    if intent["blocked"]:
        raise WrongState("The figures of this order are in question. Nothing of it is paid until that is settled.")
    refuse_not_sendable(intent)
    refuse_no_duplicate(db, intent)
    now_print = fingerprint(intent, standing.evidence)
    if not hmac.compare_digest(now_print, seen.fingerprint):
        raise stale(db, intent)
    seat = seat_for(db, intent, staff_id, now_print)
    needed = standing.sum.strength if standing.sum else "passkey"
    shown = show(db, intent, staff_id, seat, now_print, needed, proof, sealer)
    approval = sealed_approval(intent, staff_id, seen, sealer, seat, shown.strength)
    if seat == 1 and intent["route"] == TWO_MANAGERS:
        return _first_of_two(db, case, intent, approval, shown)
    sends_at = case.at + timedelta(seconds=cancel_window_seconds)
    with refused_as_said(), together(db):
        shown.write(db, merchant_id, approval["approval_id"])
        write_approval(db, case, intent, approval, sends_at, trace, stage=standing.stage)
        held_by_cap = reserve_cap_or_hold_later(
            db, intent, next_event(case, "intent.held", "system", intent_id=intent_id, move=("approved", "held"), reason="cap",
                                   stage=held_stage(case))
        )  # fmt: skip
        if last:
            commit_later(db)
    held = held_by_cap.count == 1
    return Decision(intent_id, case.case_id, approval["approval_id"], "held" if held else "approved", None if held else sends_at,
                    intent["provider_key"])  # fmt: skip


def _first_of_two(
    db: Connection, case: LockedCase, intent: RowMapping, approval: dict[str, Any], shown: Shown
) -> Decision:
    """The first manager's approval: kept and sealed, and nothing moves before the second's."""
    with refused_as_said(), together(db):
        shown.write(db, intent["merchant_id"], approval["approval_id"])
        insert_approval(db, approval)
        append(db, case, "intent.first_approved", approval["approver"], {"approval": str(approval["approval_id"])},
               intent_id=intent["intent_id"])  # fmt: skip
    return Decision(
        intent["intent_id"], case.case_id, approval["approval_id"], "proposed", None, intent["provider_key"]
    )


@dataclass(frozen=True)
class _Standing:
    """What an approval is judged by, all of it read after the case was locked. `stage`: the case's once it is approved."""

    case: LockedCase
    intent: RowMapping
    evidence: bytes
    role: str | None
    stage: str
    sum: Sum | None


def _lock_and_read(db: Connection, merchant_id: UUID, intent_id: UUID, staff_id: UUID) -> _Standing:
    """In one round trip, each statement after the one before: what follows the lock sees what was committed before it."""
    with together(db):
        lock_payee_later(db, merchant_id, intent_id)
        locked = lock_case_of_intent_later(db, merchant_id, intent_id)
        read = run_later(db, _LOCK_INTENT_FOR, m=merchant_id, merchant_id=merchant_id, intent_id=intent_id, s=staff_id)
        evidence = evidence_of_intent_later(db, merchant_id, intent_id)
        summed = sums_later(db, merchant_id, [intent_id])
    case, intent = locked_case(locked.first()), read.first()
    if intent is None:
        raise NotFound
    stage = case.stage if case.stage == STAGE["proposed"] and intent["another_waits"] else STAGE["approved"]
    return _Standing(case, intent, digest_of_evidence(evidence.rows()), intent["approvers_role"], stage,
                     sums_of(summed.rows()).get(intent_id))  # fmt: skip


def role_of(db: Connection, merchant_id: UUID, staff_id: UUID) -> str | None:
    """What a person is at a merchant now, or None."""
    member = first(db, _MEMBER, m=merchant_id, s=staff_id)
    return member["role"] if member else None


_MEMBER: Final = """
    SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m
        AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL
"""
# The intent, what the person is now, and whether another refund of its case waits for its approval.
_LOCK_INTENT_FOR: Final = lock_intent_with(f"""({_MEMBER}) AS approvers_role, EXISTS (SELECT 1 FROM intents x
        WHERE x.merchant_id = i.merchant_id AND x.case_id = i.case_id AND x.intent_id <> i.intent_id AND x.state = 'proposed')
        AS another_waits""")  # noqa: S608 - constants


@contextmanager
def refused_as_said() -> Iterator[None]:
    """The refusals of the database that a person can do something about, in our words."""
    try:
        yield
    except IntegrityError as error:
        if "nobody_approves_what_they_asked_for" in str(error.orig):
            raise SamePerson from error
        if "nobody approves on their own word" in str(error.orig):
            raise SamePerson("You stated a fact that this rests on, so another person has to approve it.") from error
        if leaves_too_little(error):
            raise NotEnoughMoneyLeft from error
        if "capture_not_verified" in str(error.orig):
            raise WrongState(NOT_READ_YET) from error
        guard = getattr(getattr(error.orig, "diag", None), "constraint_name", "") or ""
        if "within_what_a_person_approves" in guard:
            raise LimitReached from error
        if guard in ("two_managers_approve", "second_seat_as_first"):
            raise WrongState(FIRST_IS_OVER) from error
        if guard == "conflict_settled_with_a_reason":
            raise BadInput(
                "note", "the records of this case contradict one another: say how you settled that"
            ) from error
        raise


def hold(db: Connection, case: LockedCase, intent: RowMapping, actor: str, reason: str) -> None:
    """approved → held; what was reserved stays reserved. `reason` is one of cap, seal, fingerprint, expired, left, blocked,
    disputed."""
    append(db, case, "intent.held", actor, intent_id=intent["intent_id"], move=("approved", "held"), reason=reason)
    run_later(db, "UPDATE outbox SET due_at = 'infinity' WHERE merchant_id = :m AND intent_id = :i",
        m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
    log.info("held", reason=reason, merchant=str(case.merchant_id), **hop(db, case.merchant_id, intent["intent_id"]))


@dataclass(frozen=True)
class Live:
    """An intent as it stands right before it is sent: its rows, its evidence, and its approval with the frozen request, the
    person and the reservation (None: there is none)."""

    intent: RowMapping
    evidence: bytes
    approval: RowMapping | None
    sum: Sum | None = None


def read_live(db: Connection, merchant_id: UUID, intent_ids: Sequence[UUID]) -> dict[UUID, Live]:
    """Locks intents whose cases are locked, and reads all that is verified before they are sent, in one round trip.

    An intent that is gone is missing.
    """
    with together(db):
        locked = lock_intents_later(db, merchant_id, intent_ids)
        approvals = run_later(db, _APPROVALS, m=merchant_id, ids=list(intent_ids))
        evidence = evidence_of_intents_later(db, merchant_id, intent_ids)
        summed = sums_later(db, merchant_id, intent_ids)
    sums = sums_of(summed.rows())
    approved = {row["intent_id"]: row for row in approvals.rows()}
    seen = digests_of_evidence(evidence.rows())
    return {
        intent["intent_id"]: Live(
            intent,
            seen.get(intent["case_id"], NO_EVIDENCE),
            approved.get(intent["intent_id"]),
            sums.get(intent["intent_id"]),
        )
        for intent in locked.rows()
    }


def fault_before_send(db: Connection, live: Live, verifier: SealVerifier) -> str:
    """Why this intent must not be sent now, or "" (P6). Everything is computed again from live rows.

    `seal` (people's and policies' have keys of their own), `generation` (a restored backup brought the approval back), `expired`,
    `fingerprint` (also evidence, entitlement, request), `left` (approver gone or role fallen), `strength` (the sum over approvals
    before this one takes a manager, or more than it was made with, S30), `proof` (what it was made with does not hold any more, or
    its key was revoked), `automatic_` with what stands in the way of what a policy approved (S38), `blocked` (the
    order's facts are in question), `reservation`, `disputed` (the customer's bank disputes the charge, or asks about it),
    `charges` (it is no duplicate charge any more),
    `account` (nobody named the account that the key opens), `multicapture` (the provider does not take this refund now).
    """
    intent, approval = live.intent, live.approval
    if approval is None or not verifier.valid(dict(approval)):
        return "seal"
    if approval["void"]:
        return "generation"
    if approval["expires_at"] <= intent["at"]:
        return "expired"
    now_print = fingerprint(intent, live.evidence)
    if not hmac.compare_digest(now_print, bytes(approval["fingerprint"])):
        return "fingerprint"
    needed = live.sum.strength if live.sum else "passkey"
    if intent["route"] == TWO_MANAGERS and (second := fault_of_second(db, intent, now_print, verifier, needed)):
        return second
    request = frozen_request(intent, now_print)
    if approval["request"] != request or bytes(approval["request_digest"]) != request_digest(request):
        return "fingerprint"
    fault = _fault_of_approver(db, live, approval)
    if not fault and approval["staff_id"] is not None:
        fault = fault_of_strength(db, approval, needed, now_print, verifier)
    if fault:
        return fault
    if approval["reserved_minor"] != intent["amount_minor"]:
        return "reservation"
    if intent["blocked"]:
        return "blocked"
    if approval["disputed"]:
        return "disputed"
    return "charges" if no_duplicate(db, intent) else not_sendable(intent)


def _fault_of_approver(db: Connection, live: Live, approval: RowMapping) -> str:
    """Whether whoever approved it may do so still, all of it worked out anew."""
    intent = live.intent
    if approval["staff_id"] is None:
        return fault_of_policy(db, intent, approval, live.sum)
    if approval["disabled_at"] is not None or not role_reaches(approval["role"], intent["route"]):
        return "left"
    return "" if reaches_sum(approval["role"], live.sum) else "strength"


# A key's age begins with its first attempt: the row is committed before any call, so a key without one was never sent. Books
# that went back in time may lack rows of attempts; there every approval is void, and nothing is sent (S84, S85).
_APPROVALS: Final = f"""
    SELECT a.*, o.request, o.request_digest, o.attempts, o.trace, s.disabled_at, m.role,
        EXISTS (SELECT 1 FROM void_approvals v WHERE v.merchant_id = a.merchant_id AND v.approval_id = a.approval_id) AS void,
        coalesce((SELECT min(t.started_at) FROM attempts t WHERE t.merchant_id = a.merchant_id AND t.intent_id = a.intent_id),
            now()) AS key_since,
        (SELECT amount_minor FROM transfers t WHERE t.merchant_id = a.merchant_id AND t.intent_id = a.intent_id
            AND t.step = 'reserve') AS reserved_minor,
        {HOLDS} AS disputed
    FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    JOIN outbox o ON o.merchant_id = a.merchant_id AND o.intent_id = a.intent_id
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    LEFT JOIN memberships m ON m.merchant_id = a.merchant_id AND m.staff_id = a.staff_id AND m.ended_at IS NULL
    WHERE a.merchant_id = :m AND a.intent_id = ANY(:ids) AND a.seat = 1
"""  # noqa: S608 - two constants


def role_reaches(role: str | None, route: str) -> bool:
    """Whether a role may approve on a route: desk up to its limit, manager both."""
    return role == "manager" or (role == "desk" and route == "desk")


def reaches_sum(role: str | None, sum_: Sum | None) -> bool:
    """Whether a role may approve a refund for what it comes to together with others, and as many approve it as that takes."""
    return sum_ is not None and role_reaches(role, sum_.route) and not sum_.takes_one_more


# Why they do is in the route of the entitlement; the console says it beside the refund.
_OTHERS_DECIDE: Final = {
    "manager": "A manager decides this refund. Hand it to a manager.",
    TWO_MANAGERS: "Two managers decide this refund. Hand it to a manager.",
}


def check_may_approve(intent: RowMapping, staff_id: UUID, role: str | None) -> None:
    """Raises NotFound, NotAllowed, SamePerson. `role`: what the person is at this merchant now, None when nothing."""
    if role is None:
        raise NotFound
    if role not in ("desk", "manager"):
        raise NotAllowed
    if f"staff:{staff_id}" in (intent["requester"], intent["case_opener"]):
        raise SamePerson
    if not role_reaches(role, intent["route"]):
        raise NotAllowed(_OTHERS_DECIDE[intent["route"]])


def refuse_not_sendable(intent: RowMapping) -> None:
    """Raises WrongState for a refund that the provider does not take as its payment stands, or that no key may send."""
    if why := not_sendable(intent):
        raise WrongState(_NOT_SENDABLE[why])


_NOT_SENDABLE: Final = {
    "account": "The account at the payment provider that this shop's key opens is not named yet, so nothing of it is sent. Ask an"
    " engineer to name it.",
    "multicapture": "More of this payment may still be captured: until then no part of it goes back with its transfer or its fee.",
}


# Why a duplicate charge is not paid back any more, by what `duplicate_obstacle` in the database says.
NO_DUPLICATE: Final = {
    "not_as_found": "The newest finding says something else of this charge.",
    "not_claimed": "This case no longer claims that charge.",
    "read_again": "The charges are being read again.",
    "disputed": "A bank disputes a charge of this order, or asks about one.",
    "refunded_outside": "A refund of this order was made outside and is on no case yet.",
    "no_excess": "The charges of this order are no longer more than it owes.",
}


def no_duplicate(db: Connection, intent: RowMapping) -> str:
    """Why an intent of a case about charges may not go by the rows of now, as a key of NO_DUPLICATE; "" for every other."""
    if intent["case_kind"] != "duplicate_charge":
        return ""
    return str(scalar(db, "SELECT duplicate_obstacle(:m, :i)", m=intent["merchant_id"], i=intent["intent_id"]))


def refuse_no_duplicate(db: Connection, intent: RowMapping) -> None:
    """Raises WrongState for a duplicate charge that by now is none."""
    why = no_duplicate(db, intent)
    if why:
        raise WrongState(f"{NO_DUPLICATE[why]} Nothing was sent. Read the charges again on the case.")


def check_sum(role: str | None, sum_: Sum | None) -> None:
    """Raises SumTooHigh when the refund takes a manager together with others of its order and customer (S22), NotAllowed when
    it does so by itself, SumTakesTwo when together they take two managers and it waits for one."""
    if reaches_sum(role, sum_):
        return
    if sum_ is not None and role_reaches(role, sum_.route):
        raise SumTakesTwo
    if sum_ is not None and (sum_.base_route == "manager" or sum_.manager_from_minor is None):
        raise NotAllowed(_OTHERS_DECIDE["manager"])
    raise SumTooHigh


def current_evidence(db: Connection, intent: RowMapping) -> bytes:
    """The evidence of the intent's case as it stands."""
    return evidence_digest(db, intent["merchant_id"], intent["case_id"])


_APPROVAL_COLUMNS: Final = """
    merchant_id, approval_id, intent_id, seat, approver, staff_id, requester, case_opener, fingerprint, strength, note,
    operation_key, approved_at, expires_at, seal_key_id, seal
"""
_APPROVAL_VALUES: Final = """
    :merchant_id, :approval_id, :intent_id, :seat, :approver, :staff_id, :requester, :case_opener, :fingerprint, :strength, :note,
    :operation_key, :approved_at, :expires_at, :seal_key_id, :seal
"""
_INSERT_APPROVAL: Final = f"INSERT INTO approvals ({_APPROVAL_COLUMNS}) VALUES ({_APPROVAL_VALUES})"  # noqa: S608 - two constants


def sealed_approval(
    intent: RowMapping, staff_id: UUID | None, seen: Seen, sealer: Sealer, seat: int = 1, strength: str = "session"
) -> dict[str, Any]:
    """The row of an approval, sealed; None for `staff_id` is the policy's. Raises BadInput for an operation key that is none."""
    if not 16 <= len(seen.operation_key) <= 64:
        raise BadInput("operation_key", "open the confirm page again from the case and use its button")
    approval: dict[str, Any] = {
        "merchant_id": intent["merchant_id"], "approval_id": uuid7(), "intent_id": intent["intent_id"], "seat": seat,
        "approver": f"staff:{staff_id}" if staff_id else actor_of(intent), "staff_id": staff_id, "requester": intent["requester"],
        "case_opener": intent["case_opener"], "fingerprint": seen.fingerprint, "strength": strength if staff_id else "policy",
        # One of white space says nothing of how records that contradict one another were settled (`of_what_stands`).
        "note": mask_card_numbers(seen.note)[:2000] if seen.note.strip() else "",
        "operation_key": seen.operation_key, "approved_at": intent["at"],
        "seal_key_id": sealer.key_id,
    }  # fmt: skip
    approval["expires_at"] = intent["at"] + timedelta(hours=APPROVAL_HOURS[approval["strength"]])
    return approval | {"seal": sealer.seal(approval)}


# One statement, for each costs the server and this process as much again as its row. Every part takes the row of the one before,
# so they are written in this order; what each sets off (states, balances, a person's windows) follows in this order at its end.
_BIND: Final = f"""
    WITH approved AS (INSERT INTO approvals ({_APPROVAL_COLUMNS}) VALUES ({_APPROVAL_VALUES}) RETURNING 1),
    moved AS (INSERT INTO events ({EVENT_COLUMNS}) SELECT {EVENT_VALUES} FROM approved RETURNING 1),
    reserved AS (INSERT INTO transfers ({TRANSFER_COLUMNS}) SELECT {TRANSFER_VALUES} FROM moved RETURNING 1)
    INSERT INTO outbox (merchant_id, intent_id, request, request_digest, trace, approved_at, due_at)
    SELECT :merchant_id, :intent_id, CAST(:request AS jsonb), :request_digest, :trace, :approved_at, :due_at FROM reserved
"""  # noqa: S608 - constants


def write_approval(
    db: Connection, case: LockedCase, intent: RowMapping, approval: dict[str, Any], due_at: datetime, trace: str = "", *,
    rule: str = "", stage: str | None = None,
) -> None:  # fmt: skip
    """Writes a sealed approval, moves its intent, reserves the capture and freezes the request as it will be sent from `due_at`.

    `refused_as_said` around it says what the database refuses. `rule`: what a policy approved by. `stage`: as for `append`.
    Locks the person's windows and the capture.
    """
    print_ = bytes(approval["fingerprint"])
    body = {"approval": str(approval["approval_id"]), "fingerprint": print_.hex(), "amount_minor": str(intent["amount_minor"]),
            "currency": intent["currency"]}  # fmt: skip
    if rule:
        body["rule"] = rule
    intent_id = intent["intent_id"]
    event = next_event(case, "intent.approved", approval["approver"], body, intent_id=intent_id, move=("proposed", "approved"),
                       stage=stage if stage is not None else stage_after(db, case, intent_id, "approved"))  # fmt: skip
    request = canonical_bytes(frozen_request(intent, print_))
    values = event | transfer_of(intent, "reserve") | approval
    run_later(db, _BIND, **values, request=request.decode(), request_digest=digest_of_request(request),
              trace=trace or tracing.current(), due_at=due_at)  # fmt: skip
    case.followed_by(event)


def insert_approval(db: Connection, approval: dict[str, Any]) -> None:
    """The row alone, as the harness writes it that shows what the database refuses."""
    run_later(db, _INSERT_APPROVAL, **approval)


def decided_or_stale(db: Connection, intent: RowMapping) -> LedgerError:
    """What is said of an intent that is proposed no more: who decided it, or what took its place."""
    standing = first(db, STANDING_APPROVAL, m=intent["merchant_id"], i=intent["intent_id"])
    if standing is not None and intent["state"] != "withdrawn":
        return AlreadyDecided(approval=dict(standing), intent_id=intent["intent_id"])
    return stale(db, intent)


_CHANGE: Final = """
    SELECT e.kind, e.actor, e.at, s.name, t.name AS token_name FROM events e
    LEFT JOIN staff s ON e.actor = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = e.merchant_id AND e.actor = 'token:' || t.token_id
    WHERE e.merchant_id = :m AND e.case_id = :c
        AND e.kind NOT IN ('intent.proposed', 'intent.withdrawn', 'entitlement.derived', 'automatic.left')
    ORDER BY e.number DESC LIMIT 1
"""
_SUCCESSOR: Final = """
    SELECT intent_id, amount_minor, currency FROM intents
    WHERE merchant_id = :m AND case_id = :c AND capture_id = :capture AND state = 'proposed' AND intent_id <> :i
"""


def stale(db: Connection, intent: RowMapping) -> Stale:
    """Old and new values, who changed it and how; `new_intent_id` is None when nothing is proposed now."""
    keys = {"m": intent["merchant_id"], "c": intent["case_id"]}
    successor = first(db, _SUCCESSOR, **keys, capture=intent["capture_id"], i=intent["intent_id"])
    change = first(db, _CHANGE, **keys)
    return Stale(
        old_minor=intent["amount_minor"], currency=intent["currency"], state=intent["state"],
        new_minor=successor["amount_minor"] if successor else None,
        new_intent_id=successor["intent_id"] if successor else None,
        changed_by=(change["name"] or change["token_name"] or change["actor"]) if change else "",
        changed_kind=change["kind"] if change else "", changed_at=change["at"] if change else None,
        case_id=intent["case_id"],
    )  # fmt: skip
