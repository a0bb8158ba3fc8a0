"""What left outside takes its place in the books, and what waited to be paid makes room for it.

A refund made at the provider moves `available` to `refunded`, a formal dispute `available` to `disputed`; whole or in parts, as
the capture comes to hold it. Refunds that wait and were not sent are called back and worked out anew, or held; what was sent
is never touched, and until its answer is known the rest stays unplaced, is said aloud, and is tried again.

Everything here works from the state of the rows, so running it again changes nothing. Lock order: the order of the charge,
all its cases by id, then the intents. Whoever locks a line or a capture of an order holds one of its cases, so what comes
after (lines, captures, cap day, in whatever turn) meets nobody.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.approvals import hold
from ledger.assessment import UNSENT, reassess
from ledger.database import first, rows, run, scalar
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.events import LockedCase, append, lock_order_and_cases
from ledger.fingerprint import read_intent
from ledger.ids import uuid7
from ledger.intents import withdraw
from ledger.outbox import KEY_SAFE_HOURS, raise_alarm
from ledger.policy_of_sale import blocks_outside_refunds
from ledger.reservation import give_back

SYSTEM: Final = "system"
REFUNDED_OUTSIDE: Final = "refunded_outside"
DISPUTED: Final = "disputed"
DISPUTE_OVER: Final = "dispute_over"


@dataclass(frozen=True)
class LockedCharge:
    """A capture by its charge at the provider, with its order and all cases of that locked."""

    merchant_id: UUID
    account_id: UUID
    charge_ref: str
    capture_id: UUID
    currency: str
    order_id: UUID
    cases: dict[UUID, LockedCase]


@dataclass(frozen=True)
class _Intent:
    case: LockedCase
    row: RowMapping


def lock_charge(db: Connection, merchant_id: UUID, account_id: UUID, charge_ref: str) -> LockedCharge | None:
    """Locks the order whose payment this charge is, then every case of it by id. None for a payment we do not know (yet)."""
    capture = first(
        db, "SELECT capture_id, order_id, currency FROM captures WHERE merchant_id = :m AND provider_account_id = :a"
        " AND charge_ref = :charge", m=merchant_id, a=account_id, charge=charge_ref,
    )  # fmt: skip
    if capture is None:
        return None
    cases = lock_order_and_cases(db, merchant_id, capture["order_id"])
    return LockedCharge(
        merchant_id, account_id, charge_ref, capture["capture_id"], capture["currency"], capture["order_id"], cases
    )


def place(db: Connection, charge: LockedCharge, *, freed: bool = False, takes: bool = True) -> None:
    """Brings the books of a locked charge to what was found there. `freed`: something stopped blocking the order just now.

    `takes`: whether its money is moved as well. What a person says moves none, for the console's role may not: what there is
    room for by it the worker takes seconds later (`place_waiting`), and until then nobody is promised it.
    """
    freed = (takes and _take_back(db, charge)) or freed
    touched = _make_room(db, charge)
    if takes:
        _take(db, charge)
    touched |= _let_go_on(db, charge)
    if freed:
        stopped = rows(db, _STOPPED, m=charge.merchant_id, o=charge.order_id)
        touched = {row["case_id"]: REFUNDED_OUTSIDE for row in stopped} | touched
    _work_out(db, charge, touched)


_UNPLACED: Final = """
    SELECT * FROM (
        SELECT 'external' AS step, refund_ref AS ref, created_at, currency, amount_minor - placed_minor AS left_minor
        FROM external_refunds WHERE merchant_id = :m AND charge_ref = :charge AND provider_account_id = :a
            AND status NOT IN ('failed', 'canceled') AND placed_minor < amount_minor
        UNION ALL
        SELECT 'dispute', dispute_ref, created_at, currency, amount_minor - placed_minor
        FROM disputes WHERE merchant_id = :m AND charge_ref = :charge AND provider_account_id = :a
            AND dispute_takes(status) AND placed_minor < amount_minor) found
    ORDER BY step DESC, created_at, ref
"""
_MOVE: Final = """
    INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, source_ref, step, part, from_balance, to_balance,
        amount_minor)
    VALUES (:m, :t, :capture, :currency, :ref, :step, :part, :from_balance, :to_balance, :minor)
"""
_BALANCES: Final = {
    "external": ("available", "refunded"), "external_reverse": ("refunded", "available"),
    "dispute": ("available", "disputed"), "dispute_won": ("disputed", "available"),
}  # fmt: skip


def _move(db: Connection, charge: LockedCharge, step: str, ref: str, part: int, minor: int) -> None:
    from_balance, to_balance = _BALANCES[step]
    run(
        db, _MOVE, m=charge.merchant_id, t=uuid7(), capture=charge.capture_id, currency=charge.currency, ref=ref, step=step,
        part=part, from_balance=from_balance, to_balance=to_balance, minor=minor,
    )  # fmt: skip


def _keys(charge: LockedCharge) -> dict[str, object]:
    return {"m": charge.merchant_id, "a": charge.account_id, "charge": charge.charge_ref}


def _take(db: Connection, charge: LockedCharge) -> None:
    """Takes what is not placed yet, oldest first and refunds before disputes, as far as the capture still holds it."""
    for found in rows(db, _UNPLACED, **_keys(charge)):
        balances = first(
            db, "SELECT available_minor, reserved_minor FROM captures WHERE merchant_id = :m AND capture_id = :c FOR NO KEY UPDATE",
            m=charge.merchant_id, c=charge.capture_id,
        )  # fmt: skip
        held: int = balances["available_minor"] if balances and found["currency"] == charge.currency else 0
        minor = min(found["left_minor"], held)
        if minor:
            number = scalar(
                db, "SELECT count(*) + 1 FROM transfers WHERE merchant_id = :m AND source_ref = :ref AND step = :step",
                m=charge.merchant_id, ref=found["ref"], step=found["step"],
            )  # fmt: skip
            _move(db, charge, found["step"], found["ref"], number, minor)
        short: int = found["left_minor"] - minor
        if short:
            _say_short(db, charge, found, short, reserved=bool(balances and balances["reserved_minor"]))


def _say_short(db: Connection, charge: LockedCharge, found: RowMapping, short: int, *, reserved: bool) -> None:
    amount = f"{short} minor units of {found['currency']}"
    if found["step"] == "external":
        text = f"{found['ref']} was refunded outside; {amount} of it are not left on {charge.charge_ref}"
        raise_alarm(db, charge.merchant_id, "outside_unplaced", None, text[:300])
    elif not reserved:
        # A refund and a chargeback of the same money: the bank has to be told that it was refunded.
        text = f"{found['ref']} disputes money that was refunded before: {amount} on {charge.charge_ref}"
        raise_alarm(db, charge.merchant_id, "disputed_after_refund", None, text[:300])


_STANDING_PARTS: Final = """
    SELECT t.source_ref AS ref, t.step, t.part, t.amount_minor FROM transfers t
    WHERE t.merchant_id = :m AND t.capture_id = :c AND t.step IN ('external', 'dispute')
        AND NOT EXISTS (SELECT 1 FROM transfers b WHERE b.merchant_id = t.merchant_id AND b.source_ref = t.source_ref
            AND b.part = t.part AND b.step = CASE t.step WHEN 'external' THEN 'external_reverse' ELSE 'dispute_won' END)
        AND (EXISTS (SELECT 1 FROM external_refunds e WHERE e.merchant_id = t.merchant_id AND e.refund_ref = t.source_ref
                AND t.step = 'external' AND e.status IN ('failed', 'canceled'))
            OR EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = t.merchant_id AND d.dispute_ref = t.source_ref
                AND t.step = 'dispute' AND NOT dispute_takes(d.status)))
    ORDER BY t.source_ref, t.part
"""
_STANDING_CLAIMS: Final = """
    SELECT a.* FROM external_allocations a JOIN external_refunds e ON e.merchant_id = a.merchant_id AND e.refund_ref = a.refund_ref
    WHERE a.merchant_id = :m AND e.charge_ref = :charge AND e.provider_account_id = :a AND e.status IN ('failed', 'canceled')
        AND a.step = 'claim' AND NOT EXISTS (SELECT 1 FROM external_allocations b WHERE b.merchant_id = a.merchant_id
            AND b.releases = a.allocation_id)
    ORDER BY a.line_id, a.allocation_id
"""
_RELEASE: Final = """
    INSERT INTO external_allocations (merchant_id, allocation_id, refund_ref, step, kind, releases, case_id, line_id, amount_minor,
        order_minor, reason, actor)
    VALUES (:m, :id, :ref, 'release', :kind, :releases, :case, :line, :minor, :order_minor, 'the refund came to nothing', 'system')
"""


def _take_back(db: Connection, charge: LockedCharge) -> bool:
    """A refund there that failed, a dispute that was won: the money is available again; whether there was any."""
    claims = rows(db, _STANDING_CLAIMS, **_keys(charge))
    for claim in claims:
        run(
            db, _RELEASE, m=charge.merchant_id, id=uuid7(), ref=claim["refund_ref"], kind=claim["kind"],
            releases=claim["allocation_id"], case=claim["case_id"], line=claim["line_id"], minor=-claim["amount_minor"],
            order_minor=-claim["order_minor"],
        )  # fmt: skip
    for case_id in {claim["case_id"] for claim in claims if claim["case_id"]}:
        case = charge.cases[case_id]
        run(
            db,
            "UPDATE cases SET closed_at = NULL WHERE merchant_id = :m AND case_id = :c",
            m=case.merchant_id,
            c=case_id,
        )
        case.closed_at = None
        refunds = sorted({claim["refund_ref"] for claim in claims if claim["case_id"] == case_id})
        append(db, case, "outside.came_back", SYSTEM, {"refunds": refunds}, stage="needs_person")
    parts = rows(db, _STANDING_PARTS, m=charge.merchant_id, c=charge.capture_id)
    for part in parts:
        step = "external_reverse" if part["step"] == "external" else "dispute_won"
        _move(db, charge, step, part["ref"], part["part"], part["amount_minor"])
    return bool(parts or claims)


_WAITING: Final = """
    SELECT intent_id, case_id FROM intents WHERE merchant_id = :m AND order_id = :o AND state = ANY(:unsent)
    ORDER BY case_id, number
"""
# `open`: a refund of the order made outside that nobody has put on lines yet. `takes` and `asks`: what the bank does here.
_SITUATION: Final = """
    SELECT o.placed_at,
        EXISTS (SELECT 1 FROM captures cp JOIN external_refunds e ON e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id
            WHERE cp.merchant_id = :m AND cp.order_id = o.order_id AND e.status NOT IN ('failed', 'canceled')
                AND e.allocated_minor < e.amount_minor) AS open,
        coalesce((SELECT sum(e.amount_minor - e.placed_minor) FROM external_refunds e WHERE e.merchant_id = :m
            AND e.charge_ref = :charge AND e.provider_account_id = :a AND e.status NOT IN ('failed', 'canceled')), 0)::bigint
            AS unplaced_minor,
        EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = :m AND d.charge_ref = :charge AND d.provider_account_id = :a
            AND dispute_takes(d.status)) AS takes,
        EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = :m AND d.charge_ref = :charge AND d.provider_account_id = :a
            AND d.status LIKE 'warning\\_%' AND d.status <> 'warning_closed' AND NOT EXISTS (SELECT 1 FROM dispute_rulings r
                WHERE r.merchant_id = d.merchant_id AND r.dispute_ref = d.dispute_ref)) AS asks
    FROM orders o WHERE o.merchant_id = :m AND o.order_id = :o
"""


def _make_room(db: Connection, charge: LockedCharge) -> dict[UUID, str]:
    """Calls back or holds what waits and may not go now; in which cases something was called back, and why."""
    now = first(db, _SITUATION, **_keys(charge), o=charge.order_id)
    if now is None or not (now["open"] or now["unplaced_minor"] or now["takes"] or now["asks"]):
        return {}
    waiting = _unsent(db, charge)
    gone = _called_back(db, charge, now, waiting)
    for one, reason in gone:
        withdraw(db, one.case, [one.row], SYSTEM, reason)
    give_back(db, [one.row for one, _ in gone])
    left = {one.row["intent_id"] for one, _ in gone}
    for one in waiting:
        mine = one.row["capture_id"] == charge.capture_id and one.row["intent_id"] not in left
        if (now["takes"] or now["asks"]) and mine and one.row["state"] == "approved":
            hold(db, one.case, one.row, SYSTEM, DISPUTED)
    return {one.case.case_id: reason for one, reason in gone}


def _unsent(db: Connection, charge: LockedCharge) -> list[_Intent]:
    found = rows(db, _WAITING, m=charge.merchant_id, o=charge.order_id, unsent=list(UNSENT))
    locked = [(row, read_intent(db, charge.merchant_id, row["intent_id"], lock=True)) for row in found]
    # What a person has paid back by hand has left, whatever its state is until that is settled.
    return [
        _Intent(charge.cases[row["case_id"]], intent)
        for row, intent in locked
        if intent is not None and not intent["recorded_by_hand"]
    ]


def _called_back(
    db: Connection, charge: LockedCharge, now: RowMapping, waiting: list[_Intent]
) -> list[tuple[_Intent, str]]:
    if now["open"] and blocks_outside_refunds(db, charge.merchant_id, now["placed_at"]):
        return [(one, REFUNDED_OUTSIDE) for one in waiting]
    # A charge is one too many only beside the order's others, so what happens to any of them is a new reading.
    reason = REFUNDED_OUTSIDE if now["open"] or now["unplaced_minor"] else DISPUTED
    twice = [one for one in waiting if one.case.kind == DUPLICATE_CHARGE]
    gone = [(one, reason) for one in twice]
    here = [one for one in waiting if one.row["capture_id"] == charge.capture_id and one not in twice]
    if now["unplaced_minor"]:
        available = scalar(
            db, "SELECT available_minor FROM captures WHERE merchant_id = :m AND capture_id = :c FOR NO KEY UPDATE",
            m=charge.merchant_id, c=charge.capture_id,
        )  # fmt: skip
        missing = now["unplaced_minor"] - available
        missing -= sum(
            one.row["amount_minor"] for one in twice
            if one.row["capture_id"] == charge.capture_id and one.row["state"] != "proposed"
        )  # fmt: skip
        gone += [(one, REFUNDED_OUTSIDE) for one in here if one.row["state"] == "proposed"]
        # The youngest make room first: what was promised earlier goes earlier.
        for one in sorted(here, key=lambda one: -one.row["number"]):
            if missing > 0 and one.row["state"] != "proposed":
                gone.append((one, REFUNDED_OUTSIDE))
                missing -= one.row["amount_minor"]
    elif now["takes"]:
        gone += [(one, DISPUTED) for one in here if one.row["state"] == "proposed"]
    return gone


_HELD: Final = """
    SELECT i.intent_id, i.case_id, a.expires_at > now() AND o.approved_at > now() - :safe AS good FROM intents i
    JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    WHERE i.merchant_id = :m AND i.capture_id = :c AND i.state = 'held' AND i.state_reason = 'disputed' ORDER BY i.case_id, i.number
"""


def _let_go_on(db: Connection, charge: LockedCharge) -> dict[UUID, str]:
    """What a dispute held goes on its way once nothing holds it; too old an approval is called back, for a new one."""
    now = first(db, _SITUATION, **_keys(charge), o=charge.order_id)
    if now is None or now["takes"] or now["asks"]:
        return {}
    touched = {}
    safe = timedelta(hours=KEY_SAFE_HOURS)
    for held in rows(db, _HELD, m=charge.merchant_id, c=charge.capture_id, safe=safe):
        case = charge.cases[held["case_id"]]
        intent = read_intent(db, charge.merchant_id, held["intent_id"], lock=True)
        if intent is None:
            continue
        if held["good"]:
            append(db, case, "intent.released", SYSTEM, intent_id=held["intent_id"], move=("held", "approved"))
            run(db, "UPDATE outbox SET due_at = now() WHERE merchant_id = :m AND intent_id = :i",
                m=charge.merchant_id, i=held["intent_id"])  # fmt: skip
        else:
            withdraw(db, case, [intent], SYSTEM, DISPUTE_OVER)
            give_back(db, [intent])
            touched[case.case_id] = DISPUTE_OVER
    return touched


_STOPPED: Final = """
    SELECT c.case_id FROM cases c WHERE c.merchant_id = :m AND c.order_id = :o AND c.closed_at IS NULL
        AND c.stage IN ('needs_person', 'nothing_due')
        AND NOT EXISTS (SELECT 1 FROM intents i WHERE i.merchant_id = c.merchant_id AND i.case_id = c.case_id
            AND i.state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review'))
    ORDER BY c.case_id
"""


def _work_out(db: Connection, charge: LockedCharge, touched: dict[UUID, str]) -> None:
    """Works out anew what the touched cases owe, in the order of their ids."""
    for case_id in sorted(touched):
        reassess(db, charge.cases[case_id], SYSTEM, because=touched[case_id])
