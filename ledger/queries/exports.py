"""The statements behind the files that finance takes out. Each is bounded by ids or days, and read through a server's cursor."""

from typing import Final

from ledger.queries.case import EVENT_NAMES, EVENT_SAYS

# Dated by the approval: its id is minted with it, so the period is a range of the key with a minute to either side.
_APPROVED: Final = """
    SELECT DISTINCT ON (a.intent_id) a.intent_id, a.approved_at AS dated_at FROM approvals a
    WHERE a.merchant_id = :m AND a.approval_id >= :floor AND a.approval_id < :ceiling
        AND a.approved_at >= :since AND a.approved_at < :until ORDER BY a.intent_id, a.seat DESC
"""
# Dated by the movement of the money: what was settled in the period, and what came back in it.
_PAID: Final = """
    SELECT t.intent_id, min(t.at) AS dated_at FROM transfers t
    WHERE t.merchant_id = :m AND t.transfer_id >= :floor AND t.transfer_id < :ceiling AND t.at >= :since AND t.at < :until
        AND t.step IN ('settle', 'reverse') AND t.intent_id IS NOT NULL GROUP BY t.intent_id
"""
_REFUNDS: Final = """
    SELECT d.dated_at, i.number, c.number AS case_number, o.external_ref AS order_ref, coalesce(cu.name, '') AS customer,
        c.summary, c.kind AS case_kind, c.reason, c.channel, i.state, i.state_reason, i.act, i.amount_minor, i.currency,
        i.destination_kind, i.destination_brand, i.destination_last4, i.computed_minor, i.policy_id, i.policy_version,
        coalesce(q.name, t.name, i.requester) AS asked_by, ap.first_by, ap.second_by, ap.approved_at, m.paid_at, m.came_back_at,
        coalesce(i.provider_refund_ref, '') AS provider_refund_ref, i.provider_reference
    FROM ({dated}) d
    JOIN intents i ON i.merchant_id = :m AND i.intent_id = d.intent_id
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    LEFT JOIN staff q ON i.requester = 'staff:' || q.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = i.merchant_id AND i.requester = 'token:' || t.token_id
    LEFT JOIN LATERAL (SELECT max(coalesce(s.name, policy_in_words(a.merchant_id, a.approver), a.approver))
                FILTER (WHERE a.seat = f.seat) AS first_by,
            max(s.name) FILTER (WHERE a.seat > f.seat) AS second_by, max(a.approved_at) AS approved_at
        FROM approvals a LEFT JOIN staff s ON s.staff_id = a.staff_id
        CROSS JOIN LATERAL (SELECT min(b.seat) AS seat FROM approvals b WHERE b.merchant_id = a.merchant_id
            AND b.intent_id = a.intent_id) f
        WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id) ap ON true
    LEFT JOIN LATERAL (SELECT min(x.at) FILTER (WHERE x.step = 'settle') AS paid_at,
            max(x.at) FILTER (WHERE x.step = 'reverse') AS came_back_at
        FROM transfers x WHERE x.merchant_id = i.merchant_id AND x.intent_id = i.intent_id) m ON true
    ORDER BY d.dated_at, i.number LIMIT :most
"""
REFUNDS: Final = {"approved": _REFUNDS.format(dated=_APPROVED), "paid": _REFUNDS.format(dated=_PAID)}

# Dated by the day of the repayment; a refund that came back has two entries, which cancel one another.
CREDITS: Final = """
    SELECT i.number, c.step, c.dated_on, o.external_ref AS order_ref, c.invoice_ref, k.number AS case_number, c.reason, r.rule,
        r.line_ref, r.units, r.code, r.rate_ppm, r.gross_minor, r.net_minor, r.tax_minor, c.order_currency, c.amount_minor,
        c.currency, coalesce(i.provider_refund_ref, '') AS provider_refund_ref, c.person
    FROM credit_entries c
    JOIN credit_rows r ON r.merchant_id = c.merchant_id AND r.intent_id = c.intent_id AND r.step = c.step
    JOIN intents i ON i.merchant_id = c.merchant_id AND i.intent_id = c.intent_id
    JOIN cases k ON k.merchant_id = c.merchant_id AND k.case_id = c.case_id
    JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    WHERE c.merchant_id = :m AND c.dated_on BETWEEN :since AND :until
    ORDER BY c.dated_on, i.number, c.step DESC, r.place LIMIT :most
"""

DISCREPANCIES: Final = """
    SELECT d.number, d.kind, d.about, d.refund_ref, d.occurrence, i.number AS intent_number, d.ours, d.theirs, d.dated_at,
        d.found_at, coalesce((SELECT s.name FROM discrepancy_acts a JOIN staff s ON s.staff_id = a.staff_id
            WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id AND a.kind = 'taken'
            ORDER BY a.at DESC, a.act_id DESC LIMIT 1), '') AS taken_by,
        coalesce(r.code, '') AS code, coalesce(r.note, '') AS note, coalesce(rs.name, '') AS resolved_by, r.at AS resolved_at
    FROM discrepancies d
    LEFT JOIN intents i ON i.merchant_id = d.merchant_id AND i.intent_id = d.intent_id
    LEFT JOIN discrepancy_acts r ON r.merchant_id = d.merchant_id AND r.discrepancy_id = d.discrepancy_id AND r.kind = 'resolved'
    LEFT JOIN staff rs ON rs.staff_id = r.staff_id
    WHERE d.merchant_id = :m AND EXISTS (SELECT 1 FROM reconciliation_findings f WHERE f.merchant_id = d.merchant_id
        AND f.discrepancy_id = d.discrepancy_id AND f.run_id = :run)
    ORDER BY d.found_at, d.discrepancy_id LIMIT :most
"""

TRAIL: Final = f"""
    SELECT c.number AS case_number, e.actor, e.from_state, e.hash, {EVENT_SAYS}
    FROM (SELECT * FROM events WHERE merchant_id = :m AND event_id >= :floor AND event_id < :ceiling
            AND at >= :since AND at < :until
            AND (:actor = '' OR actor = :actor OR right(:actor, 1) = ':' AND starts_with(actor, :actor))
            AND (cardinality(CAST(:kinds AS text[])) = 0 OR kind = ANY(:kinds))
        ORDER BY event_id LIMIT :most) e
    JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id {EVENT_NAMES}
    ORDER BY e.event_id
"""  # noqa: S608 - constants
