"""How a return stands, for the channel that opened or joined it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound

_CASE: Final = """
    SELECT c.case_id, c.number, c.kind, c.stage, c.reason, c.opened_at, c.closed_at, c.received, o.external_ref,
        EXISTS (SELECT 1 FROM conversations v WHERE v.merchant_id = c.merchant_id AND v.case_id = c.case_id
            AND v.actor = :actor AND says_who(v.customer_verified)) AS proven,
        coalesce((SELECT f.reason FROM charge_findings f WHERE f.merchant_id = c.merchant_id AND f.case_id = c.case_id
            ORDER BY f.n DESC LIMIT 1), '') AS found
    FROM cases c JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    WHERE c.merchant_id = :m AND c.number = :n AND (c.opened_by = :actor OR EXISTS (
        SELECT 1 FROM conversations v WHERE v.merchant_id = c.merchant_id AND v.case_id = c.case_id AND v.actor = :actor))
"""
_LINES: Final = """
    SELECT l.line_ref, l.position, sum(upper(ci.units) - lower(ci.units))::int AS quantity
    FROM case_items ci JOIN order_lines l ON l.merchant_id = ci.merchant_id AND l.line_id = ci.line_id
    WHERE ci.merchant_id = :m AND ci.case_id = :c GROUP BY l.line_ref, l.position ORDER BY l.position
"""
_REFUNDS: Final = """
    SELECT number, act, amount_minor, currency, state, state_reason, state_at, destination_kind, destination_last4,
        provider_refund_ref,
        provider_reference
    FROM intents WHERE merchant_id = :m AND case_id = :c AND state <> 'withdrawn'
    UNION ALL
    SELECT NULL, 'refund', sum(a.amount_minor)::bigint, e.currency, 'succeeded', '', e.created_at,
        cp.destination_kind, cp.destination_last4,
        e.refund_ref, ''
    FROM external_allocations a
    JOIN external_refunds e ON e.merchant_id = a.merchant_id AND e.refund_ref = a.refund_ref
    JOIN captures cp ON cp.merchant_id = e.merchant_id AND cp.provider_account_id = e.provider_account_id
        AND cp.charge_ref = e.charge_ref
    WHERE a.merchant_id = :m AND a.case_id = :c
    GROUP BY e.refund_ref, e.currency, e.created_at, cp.destination_kind, cp.destination_last4 HAVING sum(a.amount_minor) > 0
    ORDER BY number
"""


@dataclass(frozen=True)
class ReturnStanding:
    """One return, or case about charges. `refunds` are its intents but for withdrawn ones, oldest first; amounts in minor units.
    `proven`: whether the one who asks has ever proven the customer in a conversation about it (S63). `found`: why charges were
    found to be what they are, "" before that."""

    number: int
    stage: str
    order_ref: str
    reason: str
    opened_at: datetime
    closed_at: datetime | None
    received: int
    lines: tuple[tuple[str, int], ...]
    refunds: tuple[dict[str, Any], ...]
    proven: bool
    kind: str = "return"
    found: str = ""


def return_of_token(db: Connection, merchant_id: UUID, number: int, actor: str) -> ReturnStanding:
    """A return that `actor` opened or joined. Raises NotFound for every other, whether it exists or not."""
    case = first(db, _CASE, m=merchant_id, n=number, actor=actor)
    if case is None:
        raise NotFound
    lines = rows(db, _LINES, m=merchant_id, c=case["case_id"])
    refunds = rows(db, _REFUNDS, m=merchant_id, c=case["case_id"])
    return ReturnStanding(
        case["number"], case["stage"], case["external_ref"], case["reason"], case["opened_at"], case["closed_at"],
        case["received"], tuple((line["line_ref"], line["quantity"]) for line in lines), tuple(dict(row) for row in refunds),
        case["proven"], case["kind"], case["found"],
    )  # fmt: skip
