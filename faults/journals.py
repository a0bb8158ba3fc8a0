"""What has to be so in our rows alone, as statements that find what is not: each returns `what`, a name for it.

Nothing here trusts a balance or a state: each is held against the journal it came from.
"""

from typing import Final

JOURNALS: Final = {
    "a line's claims are not the sum of its entries": """
        SELECT l.line_ref AS what FROM order_lines l LEFT JOIN (
            SELECT merchant_id, line_id, amount_minor AS minor FROM line_claims
            UNION ALL SELECT merchant_id, line_id, order_minor FROM external_allocations) c
            ON c.merchant_id = l.merchant_id AND c.line_id = l.line_id
        GROUP BY l.merchant_id, l.line_id, l.line_ref, l.claimed_minor
        HAVING l.claimed_minor <> coalesce(sum(c.minor), 0)""",
    "a line is claimed above what was allocated": "SELECT line_ref AS what FROM order_lines WHERE claimed_minor > gross_minor",
    "a day's cap is not the sum of its entries": """
        SELECT d.currency AS what FROM cap_days d LEFT JOIN (
                SELECT merchant_id, currency, business_day, amount_minor FROM cap_entries
                UNION ALL SELECT merchant_id, currency, business_day, counted_minor FROM recovered_cap_entries) e
            ON e.merchant_id = d.merchant_id AND e.currency = d.currency AND e.business_day = d.business_day
        GROUP BY d.merchant_id, d.currency, d.business_day, d.used_minor HAVING d.used_minor <> coalesce(sum(e.amount_minor), 0)""",
    "a day's cap is passed": """
        SELECT e.currency || ' ' || e.business_day AS what FROM cap_entries e
        JOIN caps c ON c.merchant_id = e.merchant_id AND c.currency = e.currency
        LEFT JOIN cap_days d ON d.merchant_id = e.merchant_id AND d.currency = e.currency AND d.business_day = e.business_day
        GROUP BY e.merchant_id, e.currency, e.business_day, c.limit_minor, d.limit_minor
        HAVING sum(e.amount_minor) > coalesce(d.limit_minor, c.limit_minor)""",
    "a day's limit is not the standing one and nobody raised it": """
        SELECT d.currency || ' ' || d.business_day AS what FROM cap_days d
        JOIN caps c ON c.merchant_id = d.merchant_id AND c.currency = d.currency
        WHERE d.limit_minor <> c.limit_minor AND NOT EXISTS (SELECT 1 FROM cap_raises r WHERE r.merchant_id = d.merchant_id
            AND r.currency = d.currency AND r.to_minor = d.limit_minor AND r.granted AND r.decided_by <> r.asked_by)""",
    "an intent is of another amount than was set aside for it": """
        SELECT 'R-' || i.number AS what FROM intents i JOIN transfers t USING (merchant_id, intent_id)
        WHERE t.step = 'reserve' AND t.amount_minor <> i.amount_minor""",
    "a case has more paid, or to be paid, than its entitlement says in all": """
        SELECT 'C-' || c.number AS what FROM cases c JOIN intents i USING (merchant_id, case_id)
        JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
        WHERE i.state NOT IN ('withdrawn', 'failed', 'reversed') GROUP BY c.merchant_id, c.case_id, c.number
        HAVING sum(i.order_minor) > max(e.total_minor)""",
    "a refund in review was settled by one person alone": """
        SELECT settlement_id::text AS what FROM settlement_decisions
        WHERE confirmed AND (decided_by = proposed_by OR decided_role = proposed_role)""",
    "a refund left review without anybody's word": """
        SELECT 'R-' || i.number AS what FROM events e JOIN intents i USING (merchant_id, intent_id)
        WHERE e.from_state = 'needs_review' AND NOT EXISTS (SELECT 1 FROM settlements s JOIN settlement_decisions d
            USING (merchant_id, settlement_id) WHERE s.merchant_id = e.merchant_id AND s.intent_id = e.intent_id AND d.confirmed
            AND s.outcome = e.to_state)""",
    # A second beside: two transactions that overlap may have begun in one order and been right in the other.
    "a refund was sent while its charge was known to be disputed": """
        SELECT 'R-' || i.number AS what FROM events e JOIN intents i USING (merchant_id, intent_id)
        JOIN disputes d ON d.merchant_id = i.merchant_id AND d.charge_ref = i.charge_ref
            AND d.provider_account_id = i.provider_account_id
        CROSS JOIN LATERAL (SELECT status FROM dispute_states s WHERE s.merchant_id = d.merchant_id
            AND s.dispute_ref = d.dispute_ref AND s.at < e.at - interval '1 second' ORDER BY s.n DESC LIMIT 1) then_
        WHERE e.to_state = 'submitting' AND then_.status NOT IN ('won', 'prevented', 'warning_closed')
            AND (dispute_takes(then_.status) OR NOT EXISTS (SELECT 1 FROM dispute_rulings r WHERE r.merchant_id = d.merchant_id
                AND r.dispute_ref = d.dispute_ref AND r.at < e.at))
            AND NOT EXISTS (SELECT 1 FROM dispute_states s WHERE s.merchant_id = d.merchant_id AND s.dispute_ref = d.dispute_ref
                AND s.at BETWEEN e.at - interval '1 second' AND e.at)""",
    "an intent was approved twice for one seat": """
        SELECT intent_id::text AS what FROM approvals GROUP BY intent_id, seat HAVING count(*) > 1""",
    "somebody approved what they asked for": """
        SELECT intent_id::text AS what FROM approvals WHERE approver IN (requester, case_opener)""",
    "an attempt has two results": """
        SELECT intent_id::text AS what FROM attempt_results GROUP BY intent_id, attempt_no HAVING count(*) > 1""",
    "an intent settled twice": """
        SELECT intent_id::text AS what FROM transfers WHERE intent_id IS NOT NULL GROUP BY intent_id, step HAVING count(*) > 1""",
    "one key is of two intents": "SELECT provider_key AS what FROM intents GROUP BY provider_key HAVING count(*) > 1",
    "one unit is live in two cases": """
        SELECT a.line_id::text AS what FROM case_items a JOIN case_items b ON b.merchant_id = a.merchant_id
            AND b.line_id = a.line_id AND b.item_id > a.item_id AND b.units && a.units AND a.live AND b.live""",
    "a case has two live intents on one capture": """
        SELECT case_id::text AS what FROM intents WHERE state IN ('proposed', 'approved', 'held', 'submitting', 'unknown',
            'pending', 'needs_review') GROUP BY case_id, capture_id HAVING count(*) > 1""",
    "units that are kept for money have more paid for them than they cost": """
        SELECT l.line_ref AS what FROM case_asks a
        JOIN order_lines l ON l.merchant_id = a.merchant_id AND l.line_id = a.line_id
        JOIN LATERAL (SELECT array_agg(u.case_id) AS cases, range_agg(u.units) AS units
            FROM units_of_line(a.merchant_id, a.line_id) u WHERE u.units && a.units) held ON true
        CROSS JOIN LATERAL (SELECT sum(c.amount_minor) AS minor FROM line_claims c JOIN intents i USING (merchant_id, intent_id)
            WHERE c.merchant_id = a.merchant_id AND c.line_id = a.line_id AND i.case_id = ANY (held.cases)) claimed
        CROSS JOIN LATERAL (SELECT sum(upper(r) - lower(r)) AS count FROM unnest(held.units) r) many
        WHERE a.live AND a.units IS NOT NULL AND claimed.minor > (l.gross_minor * many.count + l.quantity) / l.quantity""",
    "a unit was exchanged and its case has a refund": """
        SELECT 'C-' || c.number AS what FROM exchanges x JOIN cases c USING (merchant_id, case_id)
        JOIN intents i USING (merchant_id, case_id) WHERE i.state NOT IN ('withdrawn', 'failed', 'reversed')""",
    "a refund that takes two managers was approved by one": """
        SELECT 'R-' || i.number AS what FROM intents i WHERE i.route = 'two_managers' AND i.state NOT IN ('proposed', 'withdrawn')
            AND (SELECT count(DISTINCT a.staff_id) FROM approvals a WHERE a.merchant_id = i.merchant_id
                AND a.intent_id = i.intent_id) < 2""",
    "an intent does not say what was computed beside its amount": """
        SELECT 'R-' || i.number AS what FROM intents i JOIN entitlements e USING (merchant_id, entitlement_id)
        WHERE (e.record->'override'->>'id') IS DISTINCT FROM i.override_id::text
            OR (e.record->'override'->>'computed_minor')::bigint IS DISTINCT FROM i.computed_minor""",
    "the state of an intent is not where its events left it": """
        SELECT i.number::text AS what FROM intents i CROSS JOIN LATERAL (SELECT to_state FROM events e WHERE
            e.merchant_id = i.merchant_id AND e.intent_id = i.intent_id AND e.to_state IS NOT NULL ORDER BY e.number DESC LIMIT 1) l
        WHERE l.to_state <> i.state""",
}

# Once everything is quiet nothing may stand like this.
STUCK: Final = {
    "an attempt is open": """
        SELECT a.intent_id::text AS what FROM attempts a LEFT JOIN attempt_results r USING (merchant_id, intent_id, attempt_no)
        WHERE r.attempt_no IS NULL""",
    "a refund is still on its way": """
        SELECT 'R-' || number || ' ' || state AS what FROM intents WHERE state IN ('approved', 'submitting', 'unknown')""",
    "an end was reached and its outbox row is not done": """
        SELECT i.number::text AS what FROM outbox o JOIN intents i USING (merchant_id, intent_id)
        WHERE o.done_at IS NULL AND i.state IN ('succeeded', 'failed', 'withdrawn', 'reversed')""",
    "an outbox row is done and its refund is not": """
        SELECT i.number::text AS what FROM outbox o JOIN intents i USING (merchant_id, intent_id)
        WHERE o.done_at IS NOT NULL AND i.state NOT IN ('succeeded', 'failed', 'withdrawn', 'reversed')""",
    # One about a refund that no list shows yet is kept for ten minutes, and only then is it late.
    "a hint was not read": """
        SELECT event_ref AS what FROM provider_events WHERE done_at IS NULL AND received_at < now() - interval '11 minutes'""",
    "a closed case has a refund that is not": """
        SELECT i.number::text AS what FROM cases c JOIN intents i USING (merchant_id, case_id) WHERE c.closed_at IS NOT NULL
            AND i.state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review')""",
}
