"""“I was charged twice”: a case that claims the payments of an order until a finding says which of them goes back, if any.

Opening and asking again only write down that a reading is wanted; the worker reads and finds (`charge_readings`). What was
proposed on an earlier finding is withdrawn before another reading, so nothing is approved on figures that are being looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.card_numbers import mask_card_numbers
from ledger.conversations import Talk, add_conversation
from ledger.database import first, rows, run, scalar
from ledger.duplicate_record import KIND
from ledger.errors import AlreadyRefunded, BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_case, lock_order_and_cases
from ledger.ids import uuid7
from ledger.intents import live_intents, withdraw
from ledger.policy_of_sale import Asked, pay_within
from ledger.reservation import give_back

UNSENT: Final = ("proposed", "approved", "held")
ASKED_AGAIN: Final = "evidence_changed"


@dataclass(frozen=True)
class ChargeRequest:
    """Who says they were charged twice for an order. What they say only opens the case; fields as in `ReturnRequest`."""

    order_ref: str
    channel: str
    reference: str
    actor: str
    customer: str | None = None
    customer_verified: str = ""
    customer_text: str = ""


def open_duplicate_case(db: Connection, merchant_id: UUID, request: ChargeRequest) -> tuple[UUID, int, str]:
    """Opens a case about the charges of an order and asks for their reading, or joins the open one: id, number and
    `opened` or `joined`.

    Raises NotFound (no such order, or another customer's), BadInput (reference, an order without a payment at the provider),
    AlreadyRefunded when a charge was paid back and the order has none too much any more. Locks the order and its cases.
    """
    if not request.reference.strip() or len(request.reference) > 120:
        raise BadInput("conversation.reference", "give the reference of the conversation, 1 to 120 characters")
    order = first(db, _ORDER, m=merchant_id, ref=request.order_ref)
    if order is None or (request.customer is not None and request.customer.casefold() not in _names(order)):
        raise NotFound("No order of this shop has that reference. Check the number on the confirmation.")
    cases = lock_order_and_cases(db, merchant_id, order["order_id"])
    open_ = [case for case in cases.values() if case.kind == KIND and case.closed_at is None]
    if open_:
        case = min(open_, key=lambda case: case.number)
        _add_conversation(db, case, request, joined=True)
        return case.case_id, case.number, "joined"
    _refuse_paid(db, merchant_id, order["order_id"])
    free = rows(db, _FREE, m=merchant_id, o=order["order_id"])
    if not free:
        raise BadInput("order", "this order has no payment at the provider that could be read")
    return _open(db, order, [row["capture_id"] for row in free], request)


_ORDER: Final = """
    SELECT o.merchant_id, o.order_id, o.external_ref, o.customer_id, o.currency, o.placed_at, c.external_ref AS customer_ref,
        c.email
    FROM orders o LEFT JOIN customers c ON c.merchant_id = o.merchant_id AND c.customer_id = o.customer_id
    WHERE o.merchant_id = :m AND o.external_ref = :ref
"""
# Payments that no case about charges holds: one that was paid back as a duplicate is held for ever.
_FREE: Final = """
    SELECT cp.capture_id FROM captures cp WHERE cp.merchant_id = :m AND cp.order_id = :o AND NOT EXISTS (SELECT 1
        FROM charge_claims k WHERE k.merchant_id = cp.merchant_id AND k.capture_id = cp.capture_id AND k.live)
        AND EXISTS (SELECT 1 FROM captures p WHERE p.merchant_id = cp.merchant_id AND p.order_id = cp.order_id
            AND p.charge_ref IS NOT NULL)
    ORDER BY cp.position
"""


def _names(order: RowMapping) -> list[str]:
    return [one.casefold() for one in (order["customer_ref"], order["email"]) if one]


_PAID_BACK: Final = """
    SELECT i.intent_id, i.number, i.act, i.amount_minor, i.currency, i.state, i.state_at, c.case_id, c.number AS case_number,
        c.channel, i.destination_kind, i.destination_brand, i.destination_last4, i.provider_refund_ref, i.units,
        (SELECT coalesce(s.name, a.approver) FROM approvals a LEFT JOIN staff s ON s.staff_id = a.staff_id
            WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1) AS approver_name
    FROM intents i JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    WHERE i.merchant_id = :m AND i.order_id = :o AND c.kind = 'duplicate_charge'
        AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
    ORDER BY i.number
"""
_LEFT_OVER: Final = """
    SELECT sum(cp.available_minor) - max(o.total_minor) + coalesce((SELECT sum(i.order_minor) FROM intents i
        JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id WHERE i.merchant_id = :m AND i.order_id = :o
            AND c.kind <> 'duplicate_charge' AND i.state NOT IN ('proposed', 'withdrawn', 'failed', 'reversed')), 0)
    FROM captures cp JOIN orders o ON o.merchant_id = cp.merchant_id AND o.order_id = cp.order_id
    WHERE cp.merchant_id = :m AND cp.order_id = :o
"""


def _refuse_paid(db: Connection, merchant_id: UUID, order_id: UUID) -> None:
    paid = rows(db, _PAID_BACK, m=merchant_id, o=order_id)
    if paid and int(scalar(db, _LEFT_OVER, m=merchant_id, o=order_id) or 0) <= 0:
        raise AlreadyRefunded(
            "Already refunded: one of the charges of this order was paid back, and no other is too much.",
            refunds=[dict(row) for row in paid], lines=[],
        )  # fmt: skip


_INSERT_CASE: Final = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, opened_at, due_at, stage,
        summary, currency, signals)
    VALUES (:m, :c, :o, :customer, :kind, 'other', :actor, :channel, now(), now() + :due, 'reading',
        'Charged twice?', :currency, 0)
"""
_CLAIM: Final = """
    INSERT INTO charge_claims (merchant_id, claim_id, case_id, order_id, capture_id) VALUES (:m, :id, :c, :o, :capture)
"""


def _open(db: Connection, order: RowMapping, captures: Sequence[UUID], request: ChargeRequest) -> tuple[UUID, int, str]:
    merchant_id, case_id = order["merchant_id"], uuid7()
    due = pay_within(db, Asked(merchant_id, order["order_id"], order["placed_at"]))
    run(
        db, _INSERT_CASE, m=merchant_id, c=case_id, o=order["order_id"], customer=order["customer_id"], kind=KIND,
        actor=request.actor, channel=request.channel, due=due,
        currency=order["currency"],
    )  # fmt: skip
    case = lock_case(db, merchant_id, case_id)
    for capture_id in captures:
        run(db, _CLAIM, m=merchant_id, id=uuid7(), c=case_id, o=order["order_id"], capture=capture_id)
    append(db, case, "case.opened", request.actor, {"channel": request.channel, "reason": KIND})
    _add_conversation(db, case, request, joined=False)
    _want(db, case, request.actor)
    return case_id, case.number, "opened"


def _add_conversation(db: Connection, case: LockedCase, request: ChargeRequest, *, joined: bool) -> None:
    reference, text = mask_card_numbers(request.reference)[:120], mask_card_numbers(request.customer_text)[:4000]
    talk = Talk(request.channel, reference, request.actor, request.customer_verified, text)
    if add_conversation(db, case, talk, joined=joined) and joined:
        append(db, case, "conversation.joined", request.actor, {"channel": request.channel})


def _want(db: Connection, case: LockedCase, actor: str) -> None:
    run(
        db, "INSERT INTO charge_readings (merchant_id, reading_id, case_id, asked_by) VALUES (:m, :r, :c, :actor)"
        " ON CONFLICT (merchant_id, case_id) WHERE done_at IS NULL DO NOTHING",
        m=case.merchant_id, r=uuid7(), c=case.case_id, actor=actor,
    )  # fmt: skip
    append(db, case, "charges.asked", actor, stage="reading")


def read_again(db: Connection, case: LockedCase, actor: str, *, because: str = ASKED_AGAIN) -> bool:
    """Asks for another reading of a case whose order is locked with it; what waits on the last finding is withdrawn.

    False, and nothing done, while a refund is on its way: what becomes of it is known first. Locks the live intents, then what
    withdrawing gives back. Raises WrongState for a closed case.
    """
    if case.closed_at is not None:
        raise WrongState("This case is closed. Open a new one about the charges of the order.")
    live = live_intents(db, case)
    unsent = [intent for intent in live if intent["state"] in UNSENT]
    if len(live) > len(unsent):
        return False
    withdraw(db, case, unsent, actor, because)
    _want(db, case, actor)
    give_back(db, unsent)
    return True


def ask_again(db: Connection, merchant_id: UUID, case_id: UUID, actor: str) -> LockedCase:
    """A person wants the charges read anew. Raises NotFound, WrongState (closed, or a refund is on its way).

    Locks the order and its cases, then what `read_again` locks.
    """
    case = lock_duplicate_case(db, merchant_id, case_id)
    if not read_again(db, case, actor):
        raise WrongState("A refund of this case is on its way. Its answer comes first.")
    return case


def lock_duplicate_case(db: Connection, merchant_id: UUID, case_id: UUID) -> LockedCase:
    """The order of a case about charges, with all its cases locked; returns that one. Raises NotFound."""
    order_id = scalar(
        db, "SELECT order_id FROM cases WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id
    )
    case = lock_order_and_cases(db, merchant_id, order_id).get(case_id) if order_id else None
    if case is None or case.kind != KIND:
        raise NotFound
    return case


def release_claims(db: Connection, case: LockedCase) -> None:
    """The payments of a case that comes to nothing are free for another."""
    run(db, "UPDATE charge_claims SET live = false WHERE merchant_id = :m AND case_id = :c AND live",
        m=case.merchant_id, c=case.case_id)  # fmt: skip
