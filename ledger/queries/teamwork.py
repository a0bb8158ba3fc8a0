"""What the team did with cases: for the rows of a page of the queue, and for one case."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, of_each, rows, scalar
from ledger.errors import NotFound
from ledger.leases import Lease, read_lease
from ledger.presence import HERE_SECONDS, Present, read_present

MOST_TAGS_LISTED: Final = 30


@dataclass(frozen=True)
class RowTeam:
    """Beside a row: who has it in hand, who else has it open (names, and whether they decide), its tags."""

    lease: Lease | None
    present: tuple[tuple[UUID, str, str], ...]
    tags: tuple[str, ...]


_ROWS: Final = of_each(
    leases="SELECT l.case_id, l.staff_id, s.name, l.taken_at, l.until FROM case_leases l JOIN staff s ON s.staff_id = l.staff_id"
    " WHERE l.merchant_id = :m AND l.case_id = ANY(CAST(:cases AS uuid[])) AND l.until > now()",
    present="SELECT p.case_id, p.staff_id, s.name, p.doing FROM case_presence p JOIN staff s ON s.staff_id = p.staff_id"
    " WHERE p.merchant_id = :m AND p.case_id = ANY(CAST(:cases AS uuid[]))"
    " AND p.seen_at > now() - make_interval(secs => :here) ORDER BY s.name",
    tags="SELECT case_id, tag FROM case_tags WHERE merchant_id = :m AND case_id = ANY(CAST(:cases AS uuid[])) AND gone_at IS NULL"
    " ORDER BY tag",
)


def teams(db: Connection, merchant_id: UUID, case_ids: list[UUID]) -> dict[UUID, RowTeam]:
    """The team of each case of a page, in one statement."""
    found: dict[str, list[dict[str, Any]]] = dict(
        first(db, _ROWS, m=merchant_id, cases=case_ids, here=HERE_SECONDS) or {}
    )
    leases = {row["case_id"]: _lease(row) for row in found["leases"]}
    present: dict[str, list[tuple[UUID, str, str]]] = {}
    tags: dict[str, list[str]] = {}
    for row in found["present"]:
        present.setdefault(row["case_id"], []).append((UUID(row["staff_id"]), row["name"], row["doing"]))
    for row in found["tags"]:
        tags.setdefault(row["case_id"], []).append(row["tag"])
    return {
        case_id: RowTeam(
            leases.get(str(case_id)), tuple(present.get(str(case_id), ())), tuple(tags.get(str(case_id), ()))
        )
        for case_id in case_ids
    }


def _lease(row: dict[str, Any]) -> Lease:
    return Lease(
        UUID(row["case_id"]), UUID(row["staff_id"]), row["name"], datetime.fromisoformat(row["taken_at"]),
        datetime.fromisoformat(row["until"]),
    )  # fmt: skip


@dataclass(frozen=True)
class Unread:
    """A note that speaks to this person and was not read by them."""

    by: str
    at: datetime


@dataclass(frozen=True)
class CaseTeam:
    """What the case page says about the team. `present` has this person too."""

    number: int
    customer: str
    summary: str
    order_ref: str
    due_at: datetime
    closed_at: datetime | None
    assigned_to: UUID | None
    assigned_name: str
    snoozed_until: datetime | None
    snooze_reason: str
    lease: Lease | None
    present: list[Present]
    tags: list[str]
    unread: list[Unread]


_CASE: Final = """
    SELECT c.number, coalesce(u.name, '') AS customer, c.summary, o.external_ref AS order_ref, c.due_at, c.closed_at,
        c.assigned_to, coalesce(s.name, '') AS assigned_name,
        CASE WHEN c.snoozed_until > now() THEN c.snoozed_until END AS snoozed_until, c.snooze_reason,
        ARRAY(SELECT t.tag FROM case_tags t WHERE t.merchant_id = c.merchant_id AND t.case_id = c.case_id
            AND t.gone_at IS NULL ORDER BY t.tag) AS tags
    FROM cases c JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    LEFT JOIN customers u ON u.merchant_id = c.merchant_id AND u.customer_id = c.customer_id
    LEFT JOIN staff s ON s.staff_id = c.assigned_to
    WHERE c.merchant_id = :m AND c.case_id = :c
"""
_UNREAD: Final = """
    SELECT s.name AS by, n.at FROM mentions n JOIN notes t ON t.merchant_id = n.merchant_id AND t.note_id = n.note_id
    JOIN staff s ON s.staff_id = t.staff_id
    WHERE n.merchant_id = :m AND n.staff_id = :s AND n.case_id = :c AND n.read_at IS NULL ORDER BY n.at DESC LIMIT 20
"""


def case_team(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID) -> CaseTeam:
    """Whose it is, who has it in hand, who looks, until when it rests, and what notes say to this person. Raises NotFound."""
    keys = {"m": merchant_id, "c": case_id}
    found = first(db, _CASE, **keys)
    if found is None:
        raise NotFound
    return CaseTeam(
        **found,
        lease=read_lease(db, merchant_id, case_id),
        present=read_present(db, merchant_id, case_id),
        unread=[Unread(**row) for row in rows(db, _UNREAD, **keys, s=staff_id)],
    )


# From one tag to the next in the index, whatever the number of cases that have it.
_TAGS: Final = """
    WITH RECURSIVE each (tag, n) AS (
        (SELECT tag, 1 FROM case_tags WHERE merchant_id = :m AND gone_at IS NULL ORDER BY tag LIMIT 1)
        UNION ALL
        SELECT (SELECT t.tag FROM case_tags t WHERE t.merchant_id = :m AND t.tag > each.tag AND t.gone_at IS NULL
            ORDER BY t.tag LIMIT 1), n + 1
        FROM each WHERE each.tag IS NOT NULL AND n < :most
    )
    SELECT coalesce(array_agg(tag ORDER BY tag), '{}') FROM each WHERE tag IS NOT NULL
"""


def known_tags(db: Connection, merchant_id: UUID) -> list[str]:
    """The merchant's tags in their order, MOST_TAGS_LISTED at most."""
    return list(scalar(db, _TAGS, m=merchant_id, most=MOST_TAGS_LISTED))
