"""What a refund made outside was for: a person of finance puts it on the units of a case, or says that it was for none.

The refund's own row never changes; each answer is a row beside it, with its reason and its event. Money that is put on a case
counts as paid to it, and its lines are claimed, so the same units are refused like those we paid for (P18).
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import UNSENT, reassess
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run
from ledger.errors import BadInput, NotFound, WrongState
from ledger.events import LockedCase, append
from ledger.ids import uuid7
from ledger.intents import live_intents, withdraw
from ledger.money import cut, part
from ledger.outside_places import LockedCharge, lock_charge, place
from ledger.reservation import give_back

LONGEST_REASON: Final = 500


@dataclass(frozen=True)
class Matched:
    """How much of a refund was put where, and what of it nobody has answered for yet, in minor units of its currency."""

    placed_minor: int
    left_minor: int


_REFUND: Final = "SELECT * FROM external_refunds WHERE merchant_id = :m AND refund_ref = :r"
_ALLOCATE: Final = """
    INSERT INTO external_allocations (merchant_id, allocation_id, refund_ref, step, kind, case_id, line_id, amount_minor,
        order_minor, reason, actor)
    VALUES (:m, :id, :r, 'claim', :kind, :case, :line, :minor, :order_minor, :reason, :actor)
"""


def match_to_case(
    db: Connection, merchant_id: UUID, refund_ref: str, case_number: int, actor: str, reason: str
) -> Matched:
    """Puts what is left of a refund on the units a case of its order holds, line by line, up to what those were sold for.

    Then works out anew what the order's cases owe. Raises NotFound (refund, or no such case of this order), BadInput (reason),
    WrongState when nothing of the refund is left, it came to nothing, or the case's units are paid for whole. Locks the order
    and all its cases, then what working out locks.
    """
    refund, charge = _open_refund(db, merchant_id, refund_ref, reason)
    case = next((case for case in charge.cases.values() if case.number == case_number), None)
    if case is None:
        raise NotFound("This refund's order has no such case.")
    left = refund["amount_minor"] - refund["allocated_minor"]
    _call_back(db, case, actor)
    shares = _shares(db, charge, case, left)
    if not shares:
        raise WrongState("The units of this case are paid for whole. Choose another case, or say that it was for none.")
    for line_id, minor, order_minor in shares:
        run(
            db, _ALLOCATE, m=merchant_id, id=uuid7(), r=refund_ref, kind="case", case=case.case_id, line=line_id, minor=minor,
            order_minor=order_minor, reason=mask_card_numbers(reason.strip())[:LONGEST_REASON], actor=actor,
        )  # fmt: skip
    put = sum(minor for _, minor, _ in shares)
    body = {"refund": refund_ref, "amount_minor": str(put), "currency": refund["currency"]}
    append(db, case, "outside.matched", actor, body)
    result = reassess(db, case, actor, because="refunded_outside")
    if result is not None and result.outcome == "nothing_due" and case.closed_at is None:
        append(db, case, "outside.settled", actor, stage="paid")
        run(
            db,
            "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = :c",
            m=merchant_id,
            c=case.case_id,
        )
        case.closed_at = case.at
    place(db, charge, freed=put == left, takes=False)
    return Matched(put, left - put)


def mark_unrelated(db: Connection, merchant_id: UUID, refund_ref: str, actor: str, reason: str) -> Matched:
    """Says that what is left of a refund was for no unit: goodwill, or a payment made twice. Its money is gone all the same.

    Raises NotFound, BadInput (reason), WrongState as `match_to_case`. Locks the same.
    """
    refund, charge = _open_refund(db, merchant_id, refund_ref, reason)
    left = refund["amount_minor"] - refund["allocated_minor"]
    run(
        db, _ALLOCATE, m=merchant_id, id=uuid7(), r=refund_ref, kind="unrelated", case=None, line=None, minor=left,
        order_minor=left, reason=mask_card_numbers(reason.strip())[:LONGEST_REASON], actor=actor,
    )  # fmt: skip
    body = {"refund": refund_ref, "amount_minor": str(left), "currency": refund["currency"]}
    for case in charge.cases.values():
        if case.closed_at is None:
            append(db, case, "outside.unrelated", actor, body)
    place(db, charge, freed=True, takes=False)
    return Matched(left, 0)


def _open_refund(db: Connection, merchant_id: UUID, refund_ref: str, reason: str) -> tuple[RowMapping, LockedCharge]:
    """The refund with its order locked, while something of it is left to answer for."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise BadInput("reason", f"say why, in up to {LONGEST_REASON} characters")
    found = first(db, _REFUND, m=merchant_id, r=refund_ref)
    if found is None:
        raise NotFound
    charge = lock_charge(db, merchant_id, found["provider_account_id"], found["charge_ref"])
    found = first(db, _REFUND, m=merchant_id, r=refund_ref)
    if charge is None or found is None:
        raise WrongState("The order of this payment is not here yet. It can be matched once it is imported.")
    if found["status"] in ("failed", "canceled"):
        raise WrongState("This refund came to nothing at the provider. There is nothing to match.")
    if found["allocated_minor"] == found["amount_minor"]:
        raise WrongState("This refund is already matched.")
    return found, charge


def _call_back(db: Connection, case: LockedCase, actor: str) -> None:
    """What waits in the case would claim its lines a second time; it is worked out anew afterwards."""
    waiting = [
        intent for intent in live_intents(db, case) if intent["state"] in UNSENT and not intent["recorded_by_hand"]
    ]
    withdraw(db, case, waiting, actor, "refunded_outside")
    give_back(db, waiting)


# What the case holds of each line, or gives something on, in the order of its lines, and what of the line is claimed already: by
# the case itself and by all. A line's units are worth what was charged for them.
_LINES: Final = """
    SELECT l.line_id, l.quantity, l.gross_minor, l.step_minor, l.claimed_minor,
        array_agg(ARRAY[lower(ci.units), upper(ci.units)] ORDER BY lower(ci.units)) AS units,
        coalesce((SELECT sum(lc.amount_minor) FROM line_claims lc JOIN intents i ON i.merchant_id = lc.merchant_id
            AND i.intent_id = lc.intent_id WHERE lc.merchant_id = :m AND lc.line_id = l.line_id AND i.case_id = :c
            AND i.state NOT IN ('proposed', 'approved', 'held')), 0)::bigint AS sent_minor,
        coalesce((SELECT sum(a.order_minor) FROM external_allocations a WHERE a.merchant_id = :m AND a.line_id = l.line_id
            AND a.case_id = :c), 0)::bigint AS outside_minor
    FROM (SELECT merchant_id, line_id, units FROM case_items WHERE merchant_id = :m AND case_id = :c AND live
        UNION ALL SELECT merchant_id, line_id, coalesce(units, int4range(0, line_quantity)) FROM case_asks a
            WHERE merchant_id = :m AND case_id = :c AND live AND NOT EXISTS (SELECT 1 FROM case_items i
                WHERE i.merchant_id = a.merchant_id AND i.case_id = a.case_id AND i.live)) ci
    JOIN order_lines l ON l.merchant_id = ci.merchant_id AND l.line_id = ci.line_id
    GROUP BY l.line_id, l.merchant_id, l.quantity, l.gross_minor, l.step_minor, l.claimed_minor, l.position ORDER BY l.position
"""


def _shares(db: Connection, charge: LockedCharge, case: LockedCase, left: int) -> list[tuple[UUID, int, int]]:
    """(line, minor units of the refund, minor units of the order) until the refund or the case's units are used up."""
    ratio = first(db, "SELECT captured_minor, order_minor FROM captures WHERE merchant_id = :m AND capture_id = :c",
                  m=charge.merchant_id, c=charge.capture_id)  # fmt: skip
    if ratio is None or not ratio["captured_minor"] or not ratio["order_minor"]:
        return []
    whole, share = ratio["captured_minor"], ratio["order_minor"]
    left_order, used, found = cut(share, whole, min(left, whole)), 0, []
    for line in rows(db, _LINES, m=charge.merchant_id, c=case.case_id):
        worth = sum(part(line["gross_minor"], line["quantity"], a, b, line["step_minor"]) for a, b in line["units"])
        room = min(
            worth - line["sent_minor"] - line["outside_minor"],
            line["gross_minor"] - line["claimed_minor"],
        )
        take = min(max(0, room), left_order - used)
        if take:
            # Cumulative, so that the parts of one refund are the refund exactly.
            minor = min(left, cut(whole, share, used + take)) - min(left, cut(whole, share, used))
            used += take
            if minor:
                found.append((line["line_id"], minor, take))
    return found
