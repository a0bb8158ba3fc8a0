"""Who else has a case open: advice, kept for minutes. It is written by reading a page, so it is small and seldom."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows, run

Doing = Literal["looking", "deciding"]
# A page that nobody touches asks again after a minute; half as much again, and it was closed.
HERE_SECONDS: Final = 90
# How long it is still said that somebody left.
LEFT_MINUTES: Final = 10
# A page that is used asks every five seconds; a row written as often would say no more.
AGAIN_SECONDS: Final = 20


@dataclass(frozen=True)
class Present:
    """A person with a case open, or who had it open a moment ago (`here` False). `again`: the row is old enough to be written."""

    staff_id: UUID
    name: str
    doing: Doing
    seen_at: datetime
    here: bool
    again: bool


_PRESENT: Final = """
    SELECT p.staff_id, s.name, p.doing, p.seen_at, p.seen_at > now() - make_interval(secs => :here) AS here,
        p.seen_at < now() - make_interval(secs => :again) AS again
    FROM case_presence p JOIN staff s ON s.staff_id = p.staff_id
    WHERE p.merchant_id = :m AND p.case_id = :c AND p.seen_at > now() - make_interval(mins => :left)
    ORDER BY s.name, p.staff_id
"""


def read_present(db: Connection, merchant_id: UUID, case_id: UUID) -> list[Present]:
    """Who has the case open, and who had within LEFT_MINUTES."""
    found = rows(
        db, _PRESENT, m=merchant_id, c=case_id, here=HERE_SECONDS, again=AGAIN_SECONDS, left=LEFT_MINUTES,
    )  # fmt: skip
    return [Present(**row) for row in found]


def note_present(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID, doing: Doing) -> None:
    """The person has this case before them now, and no other. Locks their one row."""
    run(
        db, "INSERT INTO case_presence (merchant_id, staff_id, case_id, doing) VALUES (:m, :s, :c, :doing)"
        " ON CONFLICT (merchant_id, staff_id) DO UPDATE SET case_id = excluded.case_id, doing = excluded.doing, seen_at = now()",
        m=merchant_id, s=staff_id, c=case_id, doing=doing,
    )  # fmt: skip
