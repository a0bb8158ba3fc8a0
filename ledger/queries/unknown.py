"""Refunds that were sent and have no final answer: what is known of each, and when the provider is asked next."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows

MOST_OUTCOMES: Final = 200


@dataclass(frozen=True)
class Outcome:
    """One refund in submitting, unknown, pending or needs_review. Amounts in minor units of `currency`.

    `since` is when it came into its state; `sends` and `looks` count what was tried; `next_at` is None when a person decides.
    `differs`: the alarm about an answer that is not what was asked for, which names both, or "".
    """

    intent_id: UUID
    number: int
    case_id: UUID
    case_number: int
    order_ref: str
    customer: str
    state: str
    state_reason: str
    since: datetime
    act: str
    amount_minor: int
    currency: str
    destination_kind: str
    destination_brand: str
    destination_last4: str
    approved_by: str
    approved_at: datetime
    sent_at: datetime | None
    provider_key: str
    provider_refund_ref: str | None
    sends: int
    looks: int
    last_outcome: str
    last_code: str
    differs: str
    next_at: datetime | None


_OUTCOMES: Final = """
    SELECT i.intent_id, i.number, i.case_id, c.number AS case_number, o.external_ref AS order_ref,
        coalesce(cu.name, '') AS customer, i.state, i.state_reason, i.state_at AS since, i.act,
        i.amount_minor, i.currency, i.destination_kind, i.destination_brand, i.destination_last4,
        coalesce(s.name, policy_in_words(a.merchant_id, a.approver)) AS approved_by, a.approved_at,
        last.started_at AS sent_at, i.provider_key,
        i.provider_refund_ref, ob.attempts AS sends,
        (SELECT count(*) FROM looks l WHERE l.merchant_id = i.merchant_id AND l.intent_id = i.intent_id)::int AS looks,
        coalesce(last.outcome, '') AS last_outcome, coalesce(last.code, '') AS last_code,
        CASE WHEN i.state = 'needs_review' THEN coalesce((SELECT al.text FROM alarms al WHERE al.merchant_id = i.merchant_id
            AND al.intent_id = i.intent_id AND al.kind = 'answer_differs' ORDER BY al.raised_at DESC LIMIT 1), '')
            ELSE '' END AS differs,
        CASE WHEN ob.due_at < 'infinity' AND i.state <> 'needs_review' THEN ob.due_at END AS next_at
    FROM intents i
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    JOIN outbox ob ON ob.merchant_id = i.merchant_id AND ob.intent_id = i.intent_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    LEFT JOIN LATERAL (SELECT at.started_at, r.outcome, r.code FROM attempts at
        LEFT JOIN attempt_results r ON r.merchant_id = at.merchant_id AND r.intent_id = at.intent_id
            AND r.attempt_no = at.attempt_no
        WHERE at.merchant_id = i.merchant_id AND at.intent_id = i.intent_id ORDER BY at.attempt_no DESC LIMIT 1) last ON true
    WHERE i.merchant_id = :m AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review')
    ORDER BY i.state_at, i.intent_id LIMIT :most
"""


def read_outcomes(db: Connection, merchant_id: UUID) -> list[Outcome]:
    """Longest first, at most MOST_OUTCOMES."""
    return [Outcome(**row) for row in rows(db, _OUTCOMES, m=merchant_id, most=MOST_OUTCOMES)]
