"""What managers measure a period by, day by day in the merchant's zone, and what is open as it stands now.

Each statement is a range of an index and reads MOST_READ rows at most, the newest: a page over a million decisions costs what
that many rows cost, and says so. Approvals, overrides, refusals and conversations are found by their ids, which are in the order
of time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import run_later, together
from ledger.ids import ids_between

MOST_READ: Final = 200_000
_DAY: Final = "(x.{at} AT TIME ZONE :zone)::date AS day"
_RANGE: Final = """(SELECT * FROM {table} WHERE merchant_id = :m AND {key} >= :floor AND {key} < :ceiling
        AND {at} >= :since AND {at} < :until{more} ORDER BY {key} DESC LIMIT :most_read) x"""
_OPENED: Final = f"""
    SELECT {_DAY.format(at="opened_at")}, count(*)::int AS number
    FROM (SELECT opened_at FROM cases WHERE merchant_id = :m AND opened_at >= :since AND opened_at < :until
        ORDER BY opened_at DESC, case_id DESC LIMIT :most_read) x GROUP BY 1
"""  # noqa: S608 - of constants, as all here
# Of two managers the second decides. In time by when the case is due now: it is due anew when its refund comes back.
_APPROVED: Final = f"""
    SELECT {_DAY.format(at="approved_at")}, x.approver AS actor, count(*)::int AS number,
        count(*) FILTER (WHERE i.computed_minor IS NOT NULL)::int AS overridden,
        count(*) FILTER (WHERE i.route <> 'two_managers' OR x.seat > 1)::int AS decided,
        count(*) FILTER (WHERE (i.route <> 'two_managers' OR x.seat > 1) AND x.approved_at <= c.due_at)::int AS in_time
    FROM {_RANGE.format(table="approvals", key="approval_id", at="approved_at", more="")}
    JOIN intents i ON i.merchant_id = x.merchant_id AND i.intent_id = x.intent_id
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id GROUP BY 1, 2
"""  # noqa: S608
_REJECTED: Final = f"""
    SELECT {_DAY.format(at="at")}, x.actor, count(*)::int AS number, 0 AS overridden, count(*)::int AS decided,
        count(*) FILTER (WHERE x.at <= c.due_at)::int AS in_time
    FROM {_RANGE.format(table="events", key="event_id", at="at", more=" AND kind = 'case.rejected'")}
    JOIN cases c ON c.merchant_id = x.merchant_id AND c.case_id = x.case_id GROUP BY 1, 2
"""  # noqa: S608
_ASKED_OTHERWISE: Final = f"""
    SELECT {_DAY.format(at="at")}, x.asked_by AS actor, count(*)::int AS number
    FROM {_RANGE.format(table="overrides", key="override_id", at="at", more=" AND minor IS NOT NULL")} GROUP BY 1, 2
"""  # noqa: S608
_REFUSED: Final = f"""
    SELECT {_DAY.format(at="at")}, x.kind, count(*)::int AS number
    FROM {_RANGE.format(table="refused_acts", key="refusal_id", at="at", more="")} GROUP BY 1, 2
    UNION ALL
    SELECT {_DAY.format(at="at")}, 'joined', count(*)::int
    FROM {_RANGE.format(table="conversations", key="conversation_id", at="at", more=" AND joined")} GROUP BY 1
"""  # noqa: S608
_CAPS: Final = """
    SELECT d.business_day AS day, d.currency, d.used_minor, d.limit_minor FROM caps c
    JOIN cap_days d ON d.merchant_id = c.merchant_id AND d.currency = c.currency
        AND d.business_day >= :first_day AND d.business_day <= :last_day
    WHERE c.merchant_id = :m
"""
# Brackets are half-open and counted from 0; the last has no end.
AGE_DAYS: Final = (1, 3, 7, 14, 30)
# A key is safe for 23 hours; what is unknown for longer is a person's.
UNKNOWN_MINUTES: Final = (15, 60, 360, 1380)
_BRACKET: Final = """
    (SELECT count(*)::int FROM unnest(CAST(:{limits} AS int[])) l WHERE now() - x.{at} >= make_interval({unit} => l))
"""
_AGES: Final = f"""
    SELECT {_BRACKET.format(limits="age_days", at="opened_at", unit="days")} AS bracket, count(*)::int AS number
    FROM (SELECT opened_at FROM cases WHERE merchant_id = :m AND closed_at IS NULL LIMIT :most_read) x GROUP BY 1
"""  # noqa: S608
_UNKNOWN: Final = f"""
    SELECT {_BRACKET.format(limits="unknown_minutes", at="state_at", unit="mins")} AS bracket, x.state, count(*)::int AS number
    FROM (SELECT state, state_at FROM intents WHERE merchant_id = :m AND state IN ('unknown', 'needs_review') LIMIT :most_read) x
    GROUP BY 1, 2
"""  # noqa: S608
_NAMES: Final = """
    SELECT 'staff:' || s.staff_id AS actor, s.name FROM memberships m JOIN staff s ON s.staff_id = m.staff_id
    WHERE m.merchant_id = :m
"""


@dataclass(frozen=True)
class Period:
    """Business days, both included, in a zone; `since` and `until` are the midnights around them."""

    first_day: date
    last_day: date
    since: datetime
    until: datetime
    zone: str


@dataclass(frozen=True)
class Measures:
    """Rows as the statements above name their columns. `names`: people by how events name them. `cut`: more was there than read."""

    opened: list[RowMapping]
    approved: list[RowMapping]
    rejected: list[RowMapping]
    asked_otherwise: list[RowMapping]
    refused: list[RowMapping]
    caps: list[RowMapping]
    ages: list[RowMapping]
    unknown: list[RowMapping]
    names: Mapping[str, str]
    cut: bool


def values_of(merchant_id: UUID, period: Period) -> dict[str, Any]:
    """What the statements take."""
    floor, ceiling = ids_between(period.since, period.until)
    return {
        "m": merchant_id, "zone": period.zone, "since": period.since, "until": period.until, "floor": floor, "ceiling": ceiling,
        "first_day": period.first_day, "last_day": period.last_day, "most_read": MOST_READ, "age_days": list(AGE_DAYS),
        "unknown_minutes": list(UNKNOWN_MINUTES),
    }  # fmt: skip


_STATEMENTS: Final = {
    "opened": _OPENED, "approved": _APPROVED, "rejected": _REJECTED, "asked_otherwise": _ASKED_OTHERWISE, "refused": _REFUSED,
    "caps": _CAPS, "ages": _AGES, "unknown": _UNKNOWN,
}  # fmt: skip


def read_measures(db: Connection, merchant_id: UUID, period: Period) -> Measures:
    """All of a period in one round trip. Locks nothing."""
    values = values_of(merchant_id, period)
    with together(db):
        asked = {name: run_later(db, sql, **values) for name, sql in _STATEMENTS.items()}
        people = run_later(db, _NAMES, m=merchant_id)
    found = {name: later.rows() for name, later in asked.items()}
    cut = any(sum(row["number"] for row in found[name]) >= MOST_READ for name in found if name != "caps")
    return Measures(**found, names={row["actor"]: row["name"] for row in people.rows()}, cut=cut)


# The same figures as rows of a file.
AS_ROWS: Final = f"""
    SELECT f.measure, f.day, f.currency, f.number, f.of, coalesce(s.name, f.who) AS who FROM (
        SELECT 'opened' AS measure, day, '' AS who, '' AS currency, number::bigint AS number, NULL::bigint AS of FROM ({_OPENED}) q
        UNION ALL SELECT 'approved', day, actor, '', number, NULL FROM ({_APPROVED}) q
        UNION ALL SELECT 'approved in time', day, actor, '', in_time, decided FROM ({_APPROVED}) q
        UNION ALL SELECT 'approved with another amount', day, actor, '', overridden, number FROM ({_APPROVED}) q
        UNION ALL SELECT 'rejected', day, actor, '', number, NULL FROM ({_REJECTED}) q
        UNION ALL SELECT 'rejected in time', day, actor, '', in_time, decided FROM ({_REJECTED}) q
        UNION ALL SELECT 'asked for another amount', day, actor, '', number, NULL FROM ({_ASKED_OTHERWISE}) q
        UNION ALL SELECT CASE kind WHEN 'joined' THEN 'joined an open case' WHEN 'stale' THEN 'stale, refused'
            ELSE 'refunded already, refused' END, day, '', '', number, NULL FROM ({_REFUSED}) q
        UNION ALL SELECT 'cap used', day, '', currency, used_minor, limit_minor FROM ({_CAPS}) q
    ) f LEFT JOIN staff s ON f.who = 'staff:' || s.staff_id::text ORDER BY f.day, f.measure, f.currency, f.who LIMIT :most
"""  # noqa: S608
