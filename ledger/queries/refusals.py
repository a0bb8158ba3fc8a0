"""What was already paid for a unit: the facts a refused second attempt explains itself with (P18)."""

from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows

_REFUNDS: Final = """
    SELECT DISTINCT i.number, i.intent_id, i.case_id, c.number AS case_number, i.act, i.amount_minor, i.currency, i.state,
        i.state_at, i.destination_kind, i.destination_brand, i.destination_last4, i.units, i.provider_refund_ref,
        c.channel, coalesce(s.name, policy_in_words(a.merchant_id, a.approver)) AS approver_name, a.approved_at
    FROM case_items ci
    JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    JOIN intents i ON i.merchant_id = ci.merchant_id AND i.case_id = ci.case_id
    LEFT JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    WHERE ci.merchant_id = :m AND ci.line_id = ANY(:lines) AND ci.live AND i.state = 'succeeded'
    UNION ALL
    SELECT DISTINCT NULL::bigint, NULL::uuid, r.case_id, c.number, 'refund', r.amount_minor, r.currency, 'succeeded', r.refunded_at,
        cp.destination_kind, cp.destination_brand, cp.destination_last4, r.units, r.refund_ref, c.channel, NULL, NULL::timestamptz
    FROM case_items ci
    JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    JOIN recovered_refunds r ON r.merchant_id = ci.merchant_id AND r.case_id = ci.case_id AND r.outcome = 'rebuilt'
    JOIN captures cp ON cp.merchant_id = r.merchant_id AND cp.capture_id = r.capture_id
    WHERE ci.merchant_id = :m AND ci.line_id = ANY(:lines) AND ci.live
    ORDER BY number
"""


# What finance found to be paid for these lines by a refund made in the provider's dashboard; its number and intent are NULL.
_OUTSIDE: Final = """
    SELECT NULL::bigint AS number, NULL::uuid AS intent_id, a.case_id, c.number AS case_number, 'refund' AS act,
        sum(a.amount_minor)::bigint AS amount_minor, e.currency, 'succeeded' AS state, e.created_at AS state_at,
        cp.destination_kind, cp.destination_brand, cp.destination_last4, e.refund_ref AS provider_refund_ref,
        'dashboard' AS channel, NULL::text AS approver_name, NULL::timestamptz AS approved_at,
        (SELECT jsonb_agg(jsonb_build_object('line', l.line_ref, 'from', lower(ci.units), 'to', upper(ci.units))
                ORDER BY l.position, lower(ci.units))
            FROM case_items ci JOIN order_lines l ON l.merchant_id = ci.merchant_id AND l.line_id = ci.line_id
            WHERE ci.merchant_id = :m AND ci.case_id = a.case_id AND ci.live AND ci.line_id = ANY(:lines)) AS units
    FROM external_allocations a
    JOIN external_refunds e ON e.merchant_id = a.merchant_id AND e.refund_ref = a.refund_ref
    JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    JOIN captures cp ON cp.merchant_id = e.merchant_id AND cp.provider_account_id = e.provider_account_id
        AND cp.charge_ref = e.charge_ref
    WHERE a.merchant_id = :m AND EXISTS (SELECT 1 FROM external_allocations b WHERE b.merchant_id = a.merchant_id
        AND b.refund_ref = a.refund_ref AND b.case_id = a.case_id AND b.line_id = ANY(:lines))
        AND NOT EXISTS (SELECT 1 FROM recovered_refunds r WHERE r.merchant_id = a.merchant_id AND r.refund_ref = a.refund_ref
            AND r.outcome = 'rebuilt')
    GROUP BY a.case_id, c.number, e.refund_ref, e.currency, e.created_at, cp.destination_kind, cp.destination_brand,
        cp.destination_last4
    HAVING sum(a.amount_minor) > 0 ORDER BY e.created_at, e.refund_ref
"""


def refunds_of_lines(db: Connection, merchant_id: UUID, line_ids: list[UUID]) -> list[dict[str, Any]]:
    """Paid refunds that cover units of these lines: what, when, through which channel, by whom, under which reference.

    One made in the provider's dashboard has the channel `dashboard`, the provider's reference, and no number and intent.

    `act` is `cancel_payment` for what was never taken and was released. `amount_minor` is
    the whole refund; `units` names the units of every line it covered. `approver_name` is for pages of
    the merchant's own staff only: an API answer says the desk and the channel (S63). One that was rebuilt after a recovery has
    no `number`, `intent_id` or approver; its reference is the provider's.
    """
    paid = [dict(row) for row in rows(db, _REFUNDS, m=merchant_id, lines=line_ids)]
    return paid + [dict(row) for row in rows(db, _OUTSIDE, m=merchant_id, lines=line_ids)]
