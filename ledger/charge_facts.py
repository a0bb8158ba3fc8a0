"""The inputs of a finding about charges: our rows of the order's payments, beside what the provider has just shown of them.

Read under the lock of the order and all its cases. What only the provider shows is kept as a row of its own; it is tied to an
order by a capture of ours alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, scalar
from ledger.duplicate_charges import Charge, Inputs, OtherOrder
from ledger.errors import NotFound

# Two purchases that a customer may take for one were made within days of each other.
NEAR: Final = timedelta(days=30)


@dataclass(frozen=True)
class ShownCharge:
    """A charge as the provider shows it now; amounts in our minor units of `currency`. `customer` is the provider's id of one,
    "" without. `created_at` is RFC 3339 text in UTC. Whether it is disputed is read from the list of disputes: a charge says
    that it was, also once the bank has decided for the shop."""

    charge_ref: str
    payment_intent_ref: str
    customer: str
    currency: str
    captured_minor: int
    refunded_minor: int
    created_at: str


# What of a capture is known to have left, or to be leaving, is what the provider may show as refunded. A refund made outside is
# open until it is on a case, whole; one that was for nothing of the order is open too unless the whole charge went back with it.
_CAPTURES: Final = """
    SELECT cp.capture_id, cp.charge_ref, cp.capture_ref, cp.payment_intent_ref, cp.tender, cp.currency, cp.captured_minor,
        cp.refunded_minor, cp.reserved_minor, cp.disputed_minor, cp.held_minor + cp.releasing_minor AS held_minor, cp.step_minor,
        cp.available_minor,
        coalesce(cp.provider_account_id::text, '') AS account, to_char(cp.captured_at AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS captured_at,
        (SELECT c->>'plan' FROM jsonb_array_elements(o.facts->'captures') c WHERE c->>'capture_ref' = cp.capture_ref) AS plan,
        coalesce((SELECT c->>'linked' FROM jsonb_array_elements(o.facts->'captures') c
            WHERE c->>'capture_ref' = cp.capture_ref), 'true') <> 'false' AS linked,
        EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = cp.merchant_id AND d.charge_ref = cp.charge_ref
            AND d.provider_account_id = cp.provider_account_id AND d.status NOT IN ('won', 'prevented', 'warning_closed'))
            AS disputed,
        outside.open_minor + outside.unplaced_minor AS open_refund_minor,
        coalesce((SELECT sum(i.amount_minor) FROM intents i WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id
            AND i.state IN ('unknown', 'needs_review')), 0)::bigint AS unresolved_minor,
        cp.refunded_minor + outside.unplaced_minor + coalesce((SELECT sum(i.amount_minor) FROM intents i
            WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id AND i.act = 'refund'
                AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review')), 0)::bigint AS leaving_minor
    FROM captures cp JOIN orders o ON o.merchant_id = cp.merchant_id AND o.order_id = cp.order_id
    CROSS JOIN LATERAL (SELECT coalesce(sum(e.amount_minor - e.placed_minor), 0)::bigint AS unplaced_minor,
            coalesce(sum(e.amount_minor - coalesce((SELECT sum(a.amount_minor) FROM external_allocations a
                WHERE a.merchant_id = e.merchant_id AND a.refund_ref = e.refund_ref AND a.kind = 'case'), 0)), 0)::bigint
                AS open_minor
        FROM external_refunds e WHERE e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id AND e.status NOT IN ('failed', 'canceled')) outside
    WHERE cp.merchant_id = :m AND cp.order_id = :o ORDER BY cp.position, cp.capture_id
"""
# Settled and reserved payments of the order's other cases, and what refunds made outside paid for on them.
_PAID: Final = """
    SELECT (coalesce((SELECT sum(i.order_minor) FROM intents i
            JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
            WHERE i.merchant_id = :m AND i.order_id = :o AND c.kind <> 'duplicate_charge'
                AND i.state NOT IN ('proposed', 'withdrawn', 'failed', 'reversed')), 0)
        + coalesce((SELECT sum(a.order_minor) FROM external_allocations a JOIN cases c ON c.merchant_id = a.merchant_id
            AND c.case_id = a.case_id WHERE a.merchant_id = :m AND c.order_id = :o), 0))::bigint
"""
_OTHERS: Final = """
    SELECT o.external_ref, o.currency, o.total_minor, cp.captured_minor,
        EXISTS (SELECT 1 FROM jsonb_array_elements(o.facts->'lines') l WHERE l->>'delivered_at' IS NOT NULL)
            OR EXISTS (SELECT 1 FROM order_deliveries d WHERE d.merchant_id = o.merchant_id AND d.order_id = o.order_id
                AND d.delivered_at IS NOT NULL) AS shipped
    FROM orders mine JOIN orders o ON o.merchant_id = mine.merchant_id AND o.customer_id = mine.customer_id
        AND o.order_id <> mine.order_id AND o.placed_at BETWEEN mine.placed_at - :near AND mine.placed_at + :near
    JOIN captures cp ON cp.merchant_id = o.merchant_id AND cp.order_id = o.order_id
    WHERE mine.merchant_id = :m AND mine.order_id = :o AND cp.captured_minor > 0 AND EXISTS (SELECT 1 FROM captures k
        WHERE k.merchant_id = mine.merchant_id AND k.order_id = mine.order_id AND k.captured_minor = cp.captured_minor)
    ORDER BY o.placed_at, o.external_ref LIMIT 20
"""


def captures_of(db: Connection, merchant_id: UUID, order_id: UUID) -> list[RowMapping]:
    """The payments of an order as the books have them, and what is known around them."""
    return rows(db, _CAPTURES, m=merchant_id, o=order_id)


def read_inputs(
    db: Connection, merchant_id: UUID, order_id: UUID, shown: Sequence[ShownCharge], unread: tuple[str, ...]
) -> Inputs:
    """What is found from. `shown` is everything the provider listed for these payments and their customer. Raises NotFound."""
    order = first(
        db, "SELECT external_ref, currency, total_minor FROM orders WHERE merchant_id = :m AND order_id = :o",
        m=merchant_id, o=order_id,
    )  # fmt: skip
    if order is None:
        raise NotFound
    captures = captures_of(db, merchant_id, order_id)
    by_ref = {one.charge_ref: one for one in shown}
    ours = [_charge(row, order["external_ref"], by_ref.get(row["charge_ref"]), bool(unread)) for row in captures]
    others = tuple(
        OtherOrder(row["external_ref"], row["currency"], row["total_minor"], row["captured_minor"], row["shipped"])
        for row in rows(db, _OTHERS, m=merchant_id, o=order_id, near=NEAR)
    )
    return Inputs(
        order["external_ref"], order["currency"], order["total_minor"], int(scalar(db, _PAID, m=merchant_id, o=order_id)),
        (*ours, *_only_shown(db, merchant_id, captures, shown)), others, unread,
    )  # fmt: skip


def _charge(row: RowMapping, order_ref: str, shown: ShownCharge | None, unread: bool) -> Charge:
    whole = row["captured_minor"] > 0 and not row["available_minor"] and not row["reserved_minor"]
    return Charge(
        row["charge_ref"] or f"capture {row['capture_ref']}", str(row["capture_id"]), order_ref if row["linked"] else "",
        row["currency"], row["captured_minor"], row["captured_at"], row["tender"], row["account"], row["refunded_minor"],
        row["reserved_minor"], row["disputed_minor"], row["held_minor"], row["step_minor"], row["plan"],
        row["disputed"], row["unresolved_minor"] + (0 if whole else row["open_refund_minor"]),
        row["charge_ref"] is not None and not unread and (shown is None or _differs(row, shown)),
    )  # fmt: skip


def _differs(row: RowMapping, shown: ShownCharge) -> bool:
    """Whether the provider shows another currency, another amount taken, or more paid back than the books know to be gone."""
    taken = (row["currency"], row["captured_minor"])
    return taken != (shown.currency, shown.captured_minor) or bool(shown.refunded_minor > row["leaving_minor"])


_ORDER_OF: Final = """
    SELECT cp.charge_ref, cp.capture_id, o.external_ref FROM captures cp JOIN orders o ON o.merchant_id = cp.merchant_id
        AND o.order_id = cp.order_id WHERE cp.merchant_id = :m AND cp.charge_ref = ANY(:refs)
"""


def _only_shown(
    db: Connection, merchant_id: UUID, captures: Sequence[RowMapping], shown: Sequence[ShownCharge]
) -> list[Charge]:
    """Charges that are no capture of this order: on one of its payments, or the same customer's and of the same amount."""
    mine = {row["charge_ref"] for row in captures}
    payments = {row["payment_intent_ref"] for row in captures}
    amounts = {(row["currency"], row["captured_minor"]) for row in captures if row["captured_minor"]}
    near = [
        one for one in shown
        if one.charge_ref not in mine
        and (one.payment_intent_ref in payments or (one.currency, one.captured_minor) in amounts)
    ]  # fmt: skip
    refs = [one.charge_ref for one in near]
    known = {row["charge_ref"]: row for row in rows(db, _ORDER_OF, m=merchant_id, refs=refs)} if refs else {}
    return [
        Charge(
            one.charge_ref, str(known[one.charge_ref]["capture_id"]) if one.charge_ref in known else "",
            known[one.charge_ref]["external_ref"] if one.charge_ref in known else "", one.currency, one.captured_minor,
            one.created_at, refunded_minor=one.refunded_minor,
        )
        for one in near
    ]  # fmt: skip
