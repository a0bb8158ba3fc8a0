"""What was already paid for a unit: the facts a refused second attempt explains itself with (P18)."""

from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows

_REFUNDS: Final = """
    SELECT DISTINCT i.number, i.intent_id, i.case_id, c.number AS case_number, i.amount_minor, i.currency, i.state,
        i.state_at, i.destination_kind, i.destination_brand, i.destination_last4, i.units, i.provider_refund_ref,
        c.channel, s.name AS approver_name, a.approved_at
    FROM case_items ci
    JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    JOIN intents i ON i.merchant_id = ci.merchant_id AND i.case_id = ci.case_id
    LEFT JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    WHERE ci.merchant_id = :m AND ci.line_id = ANY(:lines) AND ci.live AND i.state = 'succeeded'
    ORDER BY i.number
"""


def refunds_of_lines(db: Connection, merchant_id: UUID, line_ids: list[UUID]) -> list[dict[str, Any]]:
    """Paid refunds that cover units of these lines: what, when, through which channel, by whom, under which reference.

    `amount_minor` is the whole refund; `units` names the units of every line it covered. `approver_name` is for pages of
    the merchant's own staff only: an API answer says the desk and the channel (S63).
    """
    return [dict(row) for row in rows(db, _REFUNDS, m=merchant_id, lines=line_ids)]
