"""One refund intent for the confirm page and for the receipt of its decision, from ledger rows only (S23)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound
from ledger.queries.case import POLICIES


@dataclass(frozen=True)
class Decision:
    """The intent with its approval, its sending and its settlement; None where that has not happened.

    `computed_minor` stands beside `override_minor`, both of the whole case in the order's currency. `asked_position`: the line
    that money is given on with its goods kept. `decided_by`: the route as the entitlement has it, with its reasons.
    `second_name`: the second of two managers who approved.
    Amounts in minor units of `currency`. `units` are [{line, from, to}] by line reference. `at` is the database's time.
    """

    intent_id: UUID
    number: int
    case_id: UUID
    case_number: int
    case_stage: str
    case_open: bool
    order_ref: str
    customer: str
    merchant_name: str
    state: str
    state_reason: str
    state_at: datetime
    amount_minor: int
    currency: str
    destination_kind: str
    destination_brand: str
    destination_last4: str
    units: list[dict[str, Any]]
    policy: str
    entitlement_n: int
    route: str
    decided_by: dict[str, Any]
    requester: str
    requester_name: str
    case_opener: str
    created_at: datetime
    provider_key: str
    provider_refund_ref: str | None
    provider_reference: str
    approval_id: UUID | None
    approver_id: UUID | None
    approver_name: str | None
    approved_at: datetime | None
    good_until: datetime | None
    approval_note: str | None
    operation_key: str | None
    strength: str | None
    fingerprint: bytes | None
    due_at: datetime | None
    sent_at: datetime | None
    attempts: int
    withdrawn_by: str | None
    blocked: bool
    paused_at: datetime | None
    paused_by: str | None
    act: str
    charge_type: str
    by_hand_reference: str | None
    by_hand_reason: str | None
    by_hand_by: str | None
    by_hand_at: datetime | None
    order_currency: str
    computed_minor: int | None
    override_minor: int | None
    override_reason: str | None
    asked_position: int | None
    second_name: str | None
    at: datetime


_DECISION: Final = f"""
    SELECT i.intent_id, i.number, i.case_id, c.number AS case_number, c.stage AS case_stage,
        c.closed_at IS NULL AS case_open, o.external_ref AS order_ref,
        coalesce(cu.name, '') AS customer, m.name AS merchant_name, i.state, i.state_reason, i.state_at, i.amount_minor,
        i.currency, i.destination_kind, i.destination_brand, i.destination_last4, i.units, {POLICIES} AS policy,
        e.n AS entitlement_n, i.route, e.record->'route' AS decided_by,
        i.requester, coalesce(s.name, t.name, i.requester) AS requester_name, i.case_opener, i.created_at, i.provider_key,
        i.provider_refund_ref, i.provider_reference, a.approval_id, a.staff_id AS approver_id,
        coalesce(sa.name, policy_in_words(a.merchant_id, a.approver)) AS approver_name,
        a.approved_at, least(a.expires_at, a2.expires_at) AS good_until,
        a.note AS approval_note, a.operation_key, a.strength, a.fingerprint,
        CASE WHEN ob.due_at < 'infinity' AND ob.done_at IS NULL THEN ob.due_at END AS due_at,
        (SELECT max(at.started_at) FROM attempts at WHERE at.merchant_id = i.merchant_id AND at.intent_id = i.intent_id) AS sent_at,
        coalesce(ob.attempts, 0) AS attempts,
        (SELECT coalesce(sw.name, '') FROM events w LEFT JOIN staff sw ON w.actor = 'staff:' || sw.staff_id::text
            WHERE w.merchant_id = i.merchant_id AND w.intent_id = i.intent_id AND w.to_state = 'withdrawn' LIMIT 1) AS withdrawn_by,
        o.blocked, coalesce(al.paused_at, br.paused_at) AS paused_at, coalesce(al.paused_by, br.paused_by) AS paused_by,
        i.act, coalesce(pa.charge_type, 'own') AS charge_type,
        ms.reference AS by_hand_reference, ms.reason AS by_hand_reason, sm.name AS by_hand_by, ms.recorded_at AS by_hand_at,
        c.currency AS order_currency, i.computed_minor, ov.minor AS override_minor, ov.reason AS override_reason,
        sl.position AS asked_position, s2.name AS second_name, now() AS at
    FROM intents i
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN merchants m ON m.id = i.merchant_id
    JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    LEFT JOIN merchant_brakes br ON br.merchant_id = i.merchant_id
    LEFT JOIN deployment_brakes al ON true
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    LEFT JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    LEFT JOIN outbox ob ON ob.merchant_id = i.merchant_id AND ob.intent_id = i.intent_id
    LEFT JOIN provider_accounts pa ON pa.merchant_id = i.merchant_id AND pa.provider_account_id = i.provider_account_id
    LEFT JOIN manual_settlements ms ON ms.merchant_id = i.merchant_id AND ms.intent_id = i.intent_id
    LEFT JOIN staff sm ON sm.staff_id = ms.recorded_by
    LEFT JOIN staff sa ON sa.staff_id = a.staff_id
    LEFT JOIN staff s ON i.requester = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = i.merchant_id AND i.requester = 'token:' || t.token_id
    LEFT JOIN overrides ov ON ov.merchant_id = i.merchant_id AND ov.override_id = i.override_id
    LEFT JOIN case_asks ask ON ask.merchant_id = i.merchant_id AND ask.case_id = i.case_id
    LEFT JOIN order_lines sl ON sl.merchant_id = ask.merchant_id AND sl.line_id = ask.line_id
    LEFT JOIN approvals a2 ON a2.merchant_id = i.merchant_id AND a2.intent_id = i.intent_id AND a2.seat = 2
    LEFT JOIN staff s2 ON s2.staff_id = a2.staff_id
    WHERE i.merchant_id = :m AND i.intent_id = :i
"""  # noqa: S608 - a constant


def read_decision(db: Connection, merchant_id: UUID, intent_id: UUID) -> Decision:
    """One statement. Raises NotFound for an absent intent and for another merchant's alike."""
    row = first(db, _DECISION, m=merchant_id, i=intent_id)
    if row is None:
        raise NotFound
    return Decision(**row)


@dataclass(frozen=True)
class UnitLine:
    """An order line named in the units of an intent: its reference, its place on the order, how many were bought."""

    line_ref: str
    position: int
    quantity: int
    title: str


_UNIT_LINES: Final = """
    SELECT l.line_ref, l.position, l.quantity, l.title FROM order_lines l
    JOIN intents i ON i.merchant_id = l.merchant_id AND i.order_id = l.order_id
    WHERE i.merchant_id = :m AND i.intent_id = :i AND l.line_ref IN (SELECT unit->>'line' FROM jsonb_array_elements(i.units) unit)
    ORDER BY l.position
"""


def read_unit_lines(db: Connection, merchant_id: UUID, intent_id: UUID) -> dict[str, UnitLine]:
    """The lines of the intent's units, by reference, in the order's order."""
    return {row["line_ref"]: UnitLine(**row) for row in rows(db, _UNIT_LINES, m=merchant_id, i=intent_id)}


@dataclass(frozen=True)
class Try:
    """One attempt or one look at the provider; `outcome` as recorded, "" while an attempt has no result."""

    kind: str
    at: datetime
    outcome: str
    code: str
    detail: str


_TRIES: Final = """
    SELECT 'attempt' AS kind, a.started_at AS at, coalesce(r.outcome, '') AS outcome, coalesce(r.code, '') AS code,
        coalesce(r.detail, '') AS detail
    FROM attempts a
    LEFT JOIN attempt_results r ON r.merchant_id = a.merchant_id AND r.intent_id = a.intent_id AND r.attempt_no = a.attempt_no
    WHERE a.merchant_id = :m AND a.intent_id = :i
    UNION ALL
    SELECT 'look', l.at, l.found, '', l.detail FROM looks l WHERE l.merchant_id = :m AND l.intent_id = :i
    ORDER BY at DESC LIMIT 50
"""


def read_tries(db: Connection, merchant_id: UUID, intent_id: UUID) -> list[Try]:
    """What was sent and what was asked about it, newest first."""
    return [Try(**row) for row in rows(db, _TRIES, m=merchant_id, i=intent_id)]


@dataclass(frozen=True)
class Answer:
    """The last thing the provider said about a refund: `outcome` of the attempt, our `code`, its own words in `detail`."""

    outcome: str
    code: str
    detail: str
    status: str


_ANSWER: Final = """
    SELECT r.outcome, r.code, r.detail, coalesce(r.refund_status, '') AS status FROM attempt_results r
    WHERE r.merchant_id = :m AND r.intent_id = :i ORDER BY r.attempt_no DESC LIMIT 1
"""


def read_answer(db: Connection, merchant_id: UUID, intent_id: UUID) -> Answer | None:
    """The result of the newest attempt that has one."""
    row = first(db, _ANSWER, m=merchant_id, i=intent_id)
    return Answer(**row) if row else None
