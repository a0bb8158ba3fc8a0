"""The audit trail: the events of every case of a merchant, newest first, one page by a key.

Event ids are ordered by time, so a page is a range at one end of an index. A filter looks at LOOKED_AT events at most and
says where it stopped: of ten million events a page costs as of a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, scalar
from ledger.errors import NotFound
from ledger.ids import ids_between
from ledger.queries.case import EVENT_NAMES, EVENT_SAYS, Event

PAGE_ROWS: Final = 50
# An index scan of some tens of milliseconds.
LOOKED_AT: Final = 50_000


@dataclass(frozen=True)
class Wanted:
    """Which events. `actor`: as events name who acted, its first part alone ("token:") for all of that sort, "" for anybody.

    `kinds`: one of these, none for all. `case_number`: of this case. From `since` on, before `until`. `before`: older than this
    event, None to begin with the newest.
    """

    actor: str = ""
    kinds: tuple[str, ...] = ()
    case_number: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: UUID | None = None

    @property
    def narrowed(self) -> bool:
        """Whether events are looked at that may not be shown."""
        return bool(self.actor or self.kinds)


@dataclass(frozen=True)
class TrailRow:
    """An event with its case, and the hash that binds it to everything before it in that case."""

    event_id: UUID
    case_id: UUID
    case_number: int
    intent_id: UUID | None
    hash: bytes
    event: Event


@dataclass(frozen=True)
class TrailPage:
    """Rows newest first. `older`: where the next page begins, None at the end. `looked_back_to`: when a filter stopped early."""

    rows: tuple[TrailRow, ...]
    older: UUID | None
    looked_back_to: datetime | None


# Of one case the events are few and have an index of their own; else the range of ids decides.
_FROM: Final = """
    FROM events e WHERE e.merchant_id = :m AND e.event_id < :before AND e.event_id >= :floor
        AND (CAST(:case AS uuid) IS NULL OR e.case_id = :case)
"""
_PAGE: Final = f"""
    SELECT e.event_id, e.case_id, c.number AS case_number, e.intent_id, e.hash, {EVENT_SAYS}
    FROM (SELECT e.* {_FROM}
            AND (:actor = '' OR e.actor = :actor OR right(:actor, 1) = ':' AND starts_with(e.actor, :actor))
            AND (cardinality(CAST(:kinds AS text[])) = 0 OR e.kind = ANY(:kinds))
            AND (CAST(:since AS timestamptz) IS NULL OR e.at >= :since) AND (CAST(:until AS timestamptz) IS NULL OR e.at < :until)
        ORDER BY e.event_id DESC LIMIT :most) e
    JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id {EVENT_NAMES}
    ORDER BY e.event_id DESC
"""  # noqa: S608 - constants
_STOP: Final = f"SELECT e.event_id, e.at {_FROM} ORDER BY e.event_id DESC OFFSET :looked LIMIT 1"


def read_trail(db: Connection, merchant_id: UUID, wanted: Wanted) -> TrailPage:
    """One page of at most PAGE_ROWS. A case that does not exist has no events."""
    floor, ceiling = ids_between(wanted.since, wanted.until)
    keys: dict[str, Any] = {
        "m": merchant_id,
        "before": min(wanted.before or ceiling, ceiling),
        "floor": floor,
        "case": None,
    }
    if wanted.case_number is not None:
        keys["case"] = case_of(db, merchant_id, wanted.case_number)
        if keys["case"] is None:
            return TrailPage((), None, None)
    stop = first(db, _STOP, looked=LOOKED_AT, **keys) if wanted.narrowed else None
    if stop is not None:
        keys["floor"] = stop["event_id"]
    found = rows(db, _PAGE, **keys, actor=wanted.actor, kinds=list(wanted.kinds), since=wanted.since, until=wanted.until,
                 most=PAGE_ROWS + 1)  # fmt: skip
    shown = tuple(_row(row) for row in found[:PAGE_ROWS])
    if len(found) > PAGE_ROWS:
        return TrailPage(shown, shown[-1].event_id, None)
    return TrailPage(shown, stop["event_id"] if stop else None, stop["at"] if stop else None)


def _row(row: RowMapping) -> TrailRow:
    event = Event(**{name: row[name] for name in Event.__dataclass_fields__})
    return TrailRow(row["event_id"], row["case_id"], row["case_number"], row["intent_id"], bytes(row["hash"]), event)


def case_of(db: Connection, merchant_id: UUID, number: int) -> UUID | None:
    """The id of a case by its number; None for an absent one and for another merchant's alike."""
    found: UUID | None = scalar(
        db, "SELECT case_id FROM cases WHERE merchant_id = :m AND number = :n", m=merchant_id, n=number
    )
    return found


@dataclass(frozen=True)
class Member:
    """Who acted or may have: members of the merchant, former ones too."""

    staff_id: UUID
    name: str
    former: bool


_MEMBERS: Final = """
    SELECT s.staff_id, s.name, m.ended_at IS NOT NULL OR s.disabled_at IS NOT NULL AS former
    FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m ORDER BY former, s.name, s.staff_id
    LIMIT :most
"""
MOST_MEMBERS: Final = 500


def read_members(db: Connection, merchant_id: UUID) -> Sequence[Member]:
    """Those who work here, then those who left; at most MOST_MEMBERS."""
    return [Member(**row) for row in rows(db, _MEMBERS, m=merchant_id, most=MOST_MEMBERS)]


MOST_BROKEN: Final = 20


def broken_chains(db: Connection, merchant_id: UUID) -> list[str]:
    """What the checks of the ledger against itself said of chains, where nobody has closed the alarm yet; newest first."""
    found = rows(
        db, "SELECT text FROM alarms WHERE merchant_id = :m AND kind = 'self_check_chain' AND closed_at IS NULL"
        " ORDER BY raised_at DESC, alarm_id LIMIT :most", m=merchant_id, most=MOST_BROKEN,
    )  # fmt: skip
    return [row["text"] for row in found]


@dataclass(frozen=True)
class Head:
    """How many events a case says it has, and the hash of the last; None before the first."""

    number: int
    hash: bytes | None


def read_head(db: Connection, merchant_id: UUID, case_id: UUID) -> Head:
    """The end of a case's chain as the case's own row keeps it. Raises NotFound."""
    row = first(
        db, "SELECT head_number, head_hash FROM cases WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id
    )
    if row is None:
        raise NotFound
    return Head(row["head_number"], bytes(row["head_hash"]) if row["head_hash"] is not None else None)
