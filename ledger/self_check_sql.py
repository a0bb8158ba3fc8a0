"""The statements of the self-check. Each names what is wrong in the range (:after, :until] of its table's key.

A row of an answer is (about, text). What a balance has to be comes from its journal; what a state has to have behind it comes
from the promises (DESIGN §1).
"""

from dataclasses import dataclass
from typing import Final

# From here on money is bound: an approval, a frozen request, claims. What comes before, or was called back, has no need of it.
_APPROVED: Final = (
    "('approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review', 'succeeded', 'failed', 'reversed')"
)
_RESERVING: Final = "('approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review')"
_SENT: Final = "('submitting', 'unknown', 'pending', 'needs_review', 'succeeded', 'reversed')"
_ENDED: Final = "('withdrawn', 'failed', 'reversed')"


@dataclass(frozen=True)
class Check:
    """One question to the ledger. `table` is walked by `key` (a uuid); None: one statement over little."""

    kind: str
    table: str | None
    key: str
    sql: str

    def bound(self) -> str:
        """The statement that finds the key a step ends at. Table and key are constants of this module."""
        return (
            f"SELECT {self.key} FROM {self.table} WHERE merchant_id = :m AND {self.key} > :after"  # noqa: S608
            f" ORDER BY {self.key} LIMIT 1 OFFSET :most"
        )


_IN_CAPTURES: Final = "c.merchant_id = :m AND c.capture_id > :after AND c.capture_id <= :until"
_IN_INTENTS: Final = "i.merchant_id = :m AND i.intent_id > :after AND i.intent_id <= :until"
# What was charged twice claims its payment, and no line.
_OF_CHARGES: Final = """EXISTS (SELECT 1 FROM charge_claims k WHERE k.merchant_id = i.merchant_id AND k.case_id = i.case_id
    AND k.capture_id = i.capture_id AND k.live)"""
_R: Final = "'R-' || i.number || ' (' || i.intent_id || ')'"

_BALANCES: Final = f"""
    SELECT 'capture ' || c.capture_ref || ' (' || c.capture_id || ')' AS about,
        b.name || ' is ' || b.kept || ' ' || c.currency || ' minor units, its transfers add up to ' || b.journal AS text
    FROM captures c
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(CASE 'reserved' WHEN to_balance THEN amount_minor
                WHEN from_balance THEN -amount_minor END), 0) AS reserved,
            coalesce(sum(CASE 'refunded' WHEN to_balance THEN amount_minor
                WHEN from_balance THEN -amount_minor END), 0) AS refunded,
            coalesce(sum(CASE 'disputed' WHEN to_balance THEN amount_minor
                WHEN from_balance THEN -amount_minor END), 0) AS disputed
        FROM transfers t WHERE t.merchant_id = c.merchant_id AND t.capture_id = c.capture_id) t
    CROSS JOIN LATERAL (VALUES
        ('reserved', c.reserved_minor, t.reserved), ('refunded', c.refunded_minor, t.refunded),
        ('disputed', c.disputed_minor, t.disputed),
        ('available', c.available_minor, c.captured_minor - t.reserved - t.refunded - t.disputed)) AS b(name, kept, journal)
    WHERE {_IN_CAPTURES} AND b.kept <> b.journal
"""  # noqa: S608 - of constants, as all here
_RESERVED: Final = f"""
    SELECT 'capture ' || c.capture_ref || ' (' || c.capture_id || ')' AS about,
        'reserved is ' || c.reserved_minor || ' ' || c.currency || ' minor units, its live refunds need ' || n.needed AS text
    FROM captures c
    CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount_minor), 0) AS needed FROM intents i WHERE i.merchant_id = c.merchant_id
        AND i.capture_id = c.capture_id AND i.state IN {_RESERVING} AND i.act <> 'cancel_payment') n
    WHERE {_IN_CAPTURES} AND c.reserved_minor <> n.needed
"""  # noqa: S608
_LINES: Final = """
    SELECT 'order line ' || l.line_ref || ' (' || l.line_id || ')' AS about,
        'claimed is ' || l.claimed_minor || ' minor units, its claims add up to ' || n.claimed AS text
    FROM order_lines l
    CROSS JOIN LATERAL (SELECT (SELECT coalesce(sum(k.amount_minor), 0) FROM line_claims k
            WHERE k.merchant_id = l.merchant_id AND k.line_id = l.line_id)
        + (SELECT coalesce(sum(x.order_minor), 0) FROM external_allocations x
            WHERE x.merchant_id = l.merchant_id AND x.line_id = l.line_id) AS claimed) n
    WHERE l.merchant_id = :m AND l.line_id > :after AND l.line_id <= :until AND l.claimed_minor <> n.claimed
"""
_CAP_DAYS: Final = """
    SELECT 'cap of ' || coalesce(d.business_day, n.business_day) || ' in ' || coalesce(d.currency, n.currency) AS about,
        'used is ' || coalesce(d.used_minor, 0) || ' minor units, its entries add up to ' || coalesce(n.used, 0) AS text
    FROM (SELECT * FROM cap_days WHERE merchant_id = :m) d
    FULL JOIN (SELECT currency, business_day, sum(minor) AS used FROM (
            SELECT currency, business_day, amount_minor AS minor FROM cap_entries WHERE merchant_id = :m
            UNION ALL SELECT currency, business_day, counted_minor FROM recovered_cap_entries WHERE merchant_id = :m) e
        GROUP BY currency, business_day) n ON n.currency = d.currency AND n.business_day = d.business_day
    WHERE coalesce(d.used_minor, 0) <> coalesce(n.used, 0) AND CAST(:after AS uuid) < CAST(:until AS uuid)
"""
_PLACED: Final = """
    SELECT x.what || ' ' || x.ref AS about,
        x.placed_minor || ' minor units of it are placed, its transfers add up to ' || n.placed AS text
    FROM (SELECT 'refund made outside' AS what, refund_ref AS ref, placed_minor FROM external_refunds WHERE merchant_id = :m
        UNION ALL SELECT 'dispute', dispute_ref, placed_minor FROM disputes WHERE merchant_id = :m) x
    CROSS JOIN LATERAL (SELECT coalesce(sum(CASE WHEN t.from_balance = 'available' THEN t.amount_minor ELSE -t.amount_minor END), 0)
        AS placed FROM transfers t WHERE t.merchant_id = :m AND t.source_ref = x.ref) n
    WHERE x.placed_minor <> n.placed AND CAST(:after AS uuid) < CAST(:until AS uuid)
"""
# Hours are counted for every role that approves; a day may begin in another role. What is older has no limit any more.
_PEOPLE: Final = """
    SELECT 'hour from ' || w.starts_at || ' of ' || w.staff_id || ' in ' || w.currency AS about,
        'it counts ' || w.used_count || ' approvals over ' || w.used_minor || ' minor units, its entries are '
            || coalesce(n.number, 0) || ' over ' || coalesce(n.minor, 0) AS text
    FROM (SELECT * FROM reviewer_windows WHERE merchant_id = :m AND span = 'hour' AND starts_at > now() - interval '35 days') w
    LEFT JOIN (SELECT e.staff_id, e.currency, date_trunc('hour', a.approved_at) AS hour, count(*) AS number,
            sum(e.amount_minor) AS minor FROM approval_entries e JOIN approvals a ON a.merchant_id = e.merchant_id
            AND a.approval_id = e.approval_id WHERE e.merchant_id = :m AND a.approved_at > now() - interval '36 days'
        GROUP BY e.staff_id, e.currency, date_trunc('hour', a.approved_at)) n
        ON n.staff_id = w.staff_id AND n.currency = w.currency AND n.hour = w.starts_at
    WHERE (w.used_count, w.used_minor) IS DISTINCT FROM (coalesce(n.number, 0), coalesce(n.minor, 0))
        AND CAST(:after AS uuid) < CAST(:until AS uuid)
    UNION ALL
    SELECT 'automatic day ' || d.business_day || ' in ' || d.currency, 'it counts ' || d.used_count || ' approvals over '
        || d.used_minor || ' minor units, its entries are ' || n.number || ' over ' || n.minor
    FROM automatic_days d JOIN merchants g ON g.id = d.merchant_id
    CROSS JOIN LATERAL (SELECT count(*) AS number, coalesce(sum(e.amount_minor), 0) AS minor FROM approval_entries e
        JOIN approvals a ON a.merchant_id = e.merchant_id AND a.approval_id = e.approval_id
        WHERE e.merchant_id = :m AND e.staff_id IS NULL AND e.currency = d.currency
            AND (a.approved_at AT TIME ZONE g.zone)::date = d.business_day) n
    WHERE d.merchant_id = :m AND d.business_day > (now() AT TIME ZONE g.zone)::date - 35
        AND (d.used_count, d.used_minor) IS DISTINCT FROM (n.number, n.minor)
"""
_STATES: Final = f"""
    SELECT {_R} AS about, 'it is ' || i.state || ', its last move was to ' || coalesce(e.to_state, 'nothing') AS text
    FROM intents i
    LEFT JOIN LATERAL (SELECT e.to_state FROM events e WHERE e.merchant_id = i.merchant_id AND e.intent_id = i.intent_id
        AND e.to_state IS NOT NULL ORDER BY e.number DESC LIMIT 1) e ON true
    WHERE {_IN_INTENTS} AND i.state IS DISTINCT FROM e.to_state
"""  # noqa: S608
_BOUND: Final = f"""
    SELECT {_R} AS about, 'it is ' || i.state || ' and has no ' || n.name AS text
    FROM intents i
    CROSS JOIN LATERAL (VALUES
        ('approval', EXISTS (SELECT 1 FROM approvals a WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id)),
        ('outbox row', EXISTS (SELECT 1 FROM outbox o WHERE o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id)),
        ('reservation', EXISTS (SELECT 1 FROM transfers t WHERE t.merchant_id = i.merchant_id AND t.intent_id = i.intent_id
            AND t.step = 'reserve' AND t.amount_minor = i.amount_minor)),
        ('whole claim on its order''s lines', {_OF_CHARGES} OR i.order_minor = (SELECT sum(k.amount_minor) FROM line_claims k
            WHERE k.merchant_id = i.merchant_id AND k.intent_id = i.intent_id AND k.step = 'claim')),
        ('count against a daily cap', i.state NOT IN {_SENT} OR EXISTS (SELECT 1 FROM cap_entries p
            WHERE p.merchant_id = i.merchant_id AND p.intent_id = i.intent_id AND p.step = 'reserve'))
    ) AS n(name, there)
    WHERE {_IN_INTENTS} AND i.state IN {_APPROVED} AND n.there IS NOT TRUE
"""  # noqa: S608
_MONEY: Final = f"""
    SELECT {_R} AS about, 'it is ' || i.state || ', and its transfers say ' || CASE WHEN n.paid > 0 THEN 'paid'
        WHEN n.set_aside > 0 THEN 'set aside' ELSE 'nothing paid' END AS text
    FROM intents i
    CROSS JOIN LATERAL (SELECT
        coalesce(sum(CASE WHEN t.to_balance IN ('refunded', 'released') THEN t.amount_minor
            WHEN t.from_balance IN ('refunded', 'released') THEN -t.amount_minor ELSE 0 END), 0) AS paid,
        coalesce(sum(CASE WHEN t.to_balance IN ('reserved', 'releasing') THEN t.amount_minor
            WHEN t.from_balance IN ('reserved', 'releasing') THEN -t.amount_minor ELSE 0 END), 0) AS set_aside
        FROM transfers t WHERE t.merchant_id = i.merchant_id AND t.intent_id = i.intent_id) n
    WHERE {_IN_INTENTS} AND (n.paid, n.set_aside) IS DISTINCT FROM (
        CASE WHEN i.state = 'succeeded' THEN i.amount_minor ELSE 0 END,
        CASE WHEN i.state IN {_RESERVING} THEN i.amount_minor ELSE 0 END)
"""  # noqa: S608
_GIVEN_BACK: Final = f"""
    SELECT {_R} AS about, 'it is ' || i.state || ' and still claims ' || n.claimed || ' minor units of its order''s lines' AS text
    FROM intents i
    CROSS JOIN LATERAL (SELECT coalesce(sum(k.amount_minor), 0) AS claimed FROM line_claims k
        WHERE k.merchant_id = i.merchant_id AND k.intent_id = i.intent_id) n
    WHERE {_IN_INTENTS} AND i.state IN {_ENDED} AND n.claimed <> 0
"""  # noqa: S608
_UNITS: Final = f"""
    SELECT {_R} AS about, 'it is for units ' || (u->>'from') || ' to ' || (u->>'to') || ' of line ' || (u->>'line')
        || ', which its case does not hold' AS text
    FROM intents i
    CROSS JOIN LATERAL jsonb_array_elements(i.units) u
    LEFT JOIN order_lines l ON l.merchant_id = i.merchant_id AND l.order_id = i.order_id AND l.line_ref = u->>'line'
    WHERE {_IN_INTENTS} AND i.state NOT IN {_ENDED} AND NOT coalesce((
        SELECT range_agg(h.units) @> int4range((u->>'from')::int, (u->>'to')::int) FROM case_items h
        WHERE h.merchant_id = i.merchant_id AND h.case_id = i.case_id AND h.line_id = l.line_id AND h.live), false)
"""  # noqa: S608
_OVERLAPS: Final = """
    SELECT 'line (' || a.line_id || ')' AS about, 'its units ' || (a.units * b.units)::text || ' are held twice, by cases '
        || a.case_id || ' and ' || b.case_id AS text
    FROM case_items a JOIN case_items b ON b.merchant_id = a.merchant_id AND b.line_id = a.line_id AND b.live
        AND b.item_id > a.item_id AND b.units && a.units
    WHERE a.merchant_id = :m AND a.item_id > :after AND a.item_id <= :until AND a.live
"""
_ATTEMPTS: Final = f"""
    SELECT {_R} AS about, 'its outbox row counts ' || o.attempts || ' attempts; there are ' || n.there || ', the last is number '
        || n.last AS text
    FROM intents i JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    CROSS JOIN LATERAL (SELECT count(*) AS there, coalesce(max(a.attempt_no), 0) AS last FROM attempts a
        WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id) n
    WHERE {_IN_INTENTS} AND (n.there <> o.attempts OR n.last <> o.attempts)
"""  # noqa: S608
_TWICE: Final = f"""
    SELECT {_R} AS about, 'the provider''s refund ' || i.provider_refund_ref || ' is also that of R-' || j.number AS text
    FROM intents i JOIN intents j ON j.merchant_id = i.merchant_id AND j.provider_refund_ref = i.provider_refund_ref
        AND j.intent_id > i.intent_id
    WHERE {_IN_INTENTS}
"""  # noqa: S608


def _orphans(table: str, key: str, column: str, parent: str, parent_key: str | None = None) -> Check:
    """Rows of `table` whose `column` names no row of `parent`."""
    of = parent_key or column
    return Check(
        "orphans", table, key, f"""
        SELECT '{table} (' || x.{key} || ')' AS about, 'it names {column} ' || x.{column} || ', which is not in {parent}' AS text
        FROM {table} x WHERE x.merchant_id = :m AND x.{key} > :after AND x.{key} <= :until AND x.{column} IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE p.merchant_id = x.merchant_id AND p.{of} = x.{column})
        """,  # noqa: S608
    )  # fmt: skip


CHAIN: Final = Check("chain", "cases", "case_id", "")
CHECKS: Final = (
    Check("balance", "captures", "capture_id", _BALANCES),
    Check("reserved", "captures", "capture_id", _RESERVED),
    Check("claimed", "order_lines", "line_id", _LINES),
    Check("cap_day", None, "", _CAP_DAYS),
    Check("placed", None, "", _PLACED),
    Check("person_limit", None, "", _PEOPLE),
    Check("state", "intents", "intent_id", _STATES),
    Check("unbound", "intents", "intent_id", _BOUND),
    Check("money", "intents", "intent_id", _MONEY),
    Check("not_given_back", "intents", "intent_id", _GIVEN_BACK),
    Check("units", "intents", "intent_id", _UNITS),
    Check("held_twice", "case_items", "item_id", _OVERLAPS),
    Check("attempts", "intents", "intent_id", _ATTEMPTS),
    Check("refund_twice", "intents", "intent_id", _TWICE),
    _orphans("events", "case_id", "case_id", "cases"),
    _orphans("intents", "intent_id", "case_id", "cases"),
    _orphans("intents", "intent_id", "capture_id", "captures"),
    _orphans("case_items", "item_id", "case_id", "cases"),
    _orphans("evidence", "evidence_id", "case_id", "cases"),
    _orphans("entitlements", "entitlement_id", "case_id", "cases"),
    _orphans("transfers", "transfer_id", "capture_id", "captures"),
    _orphans("transfers", "transfer_id", "intent_id", "intents"),
    _orphans("line_claims", "claim_id", "intent_id", "intents"),
    _orphans("line_claims", "claim_id", "line_id", "order_lines"),
    _orphans("cap_entries", "intent_id", "intent_id", "intents"),
    _orphans("approvals", "approval_id", "intent_id", "intents"),
    _orphans("outbox", "intent_id", "intent_id", "intents"),
    _orphans("attempts", "intent_id", "intent_id", "outbox"),
)
MEANINGS: Final = {
    "balance": "A balance was changed past its journal: what is left to refund of this payment cannot be trusted.",
    "reserved": "Money is set aside for no refund, or a refund waits without its money.",
    "claimed": "What is left to refund of this line cannot be trusted.",
    "cap_day": "The daily cap let through more, or less, than was counted.",
    "person_limit": "A person, or a policy by itself, could approve more, or less, than their limit.",
    "placed": "What left outside, or is disputed, is not what the balances say of it.",
    "state": "A state was changed without its event, or an event is gone.",
    "unbound": "It went past the approval: stop this merchant and look at who sent it.",
    "money": "The state and the money of this refund do not agree.",
    "not_given_back": "It came to nothing and keeps what it claimed: the customer's line looks refunded.",
    "units": "Units are paid that nobody holds: the same goods could be returned again.",
    "held_twice": "The same goods can be refunded twice.",
    "attempts": "An attempt is missing, or was added by hand: what was sent cannot be told from the books.",
    "refund_twice": "Two refunds in the books stand for one at the provider.",
    "orphans": "A row was deleted past every guard.",
    "chain": "The history of this case was edited, has a hole, or lost its end.",
}
