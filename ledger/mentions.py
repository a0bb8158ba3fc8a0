"""Whom a note speaks to: "@Tobias" in the text shows the case to that person, until they say they have read it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows, run, run_many

# After a word, as in an e-mail address, it speaks to nobody.
_AT: Final = re.compile(r"(?<![\w@.])@(?=\w)")
_WORD: Final = re.compile(r"\w+(?:[.'-]\w+)*")
MOST_UNKNOWN: Final = 5


@dataclass(frozen=True)
class Colleague:
    """Somebody who may see the merchant's cases. `handle` is what stands before the @ of their e-mail address."""

    staff_id: UUID
    name: str
    role: str
    handle: str

    @property
    def first_name(self) -> str:
        return self.name.split()[0]


@dataclass(frozen=True)
class Spoken:
    """Whom a text speaks to, and the words after an @ that are the name of nobody, or of more than one."""

    people: tuple[Colleague, ...]
    nobody: tuple[str, ...]
    several: tuple[str, ...]


def colleagues(db: Connection, merchant_id: UUID) -> list[Colleague]:
    """Everybody who may see cases here, by name."""
    found = rows(
        db, "SELECT s.staff_id, s.name, m.role, split_part(s.email, '@', 1) AS handle FROM memberships m"
        " JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m AND m.ended_at IS NULL AND s.disabled_at IS NULL"
        " AND m.role <> 'admin' ORDER BY s.name, s.staff_id", m=merchant_id,
    )  # fmt: skip
    return [Colleague(**row) for row in found]


def spoken_to(text: str, people: Sequence[Colleague]) -> Spoken:
    """Reads a text: a whole name after an @ counts, then a first name or a handle that only one of `people` has."""
    found: dict[UUID, Colleague] = {}
    nobody: list[str] = []
    several: list[str] = []
    for at in _AT.finditer(text):
        named = _named(text[at.end() :], people)
        if len(named) == 1:
            found[named[0].staff_id] = named[0]
        else:
            word = _WORD.match(text, at.end())
            (several if named else nobody).append(word[0] if word else "")
    return Spoken(tuple(found.values()), tuple(dict.fromkeys(nobody))[:MOST_UNKNOWN], tuple(dict.fromkeys(several)))


def _named(rest: str, people: Sequence[Colleague]) -> list[Colleague]:
    whole = [one for one in people if re.match(rf"{re.escape(one.name)}(?!\w)", rest, re.IGNORECASE)]
    if whole:
        longest = max(len(one.name) for one in whole)
        return [one for one in whole if len(one.name) == longest]
    word = _WORD.match(rest)
    said = word[0].casefold() if word else ""
    return [one for one in people if said in (one.first_name.casefold(), one.handle.casefold())]


def mention(
    db: Connection, merchant_id: UUID, case_id: UUID, note_id: UUID, author: UUID, people: Sequence[Colleague]
) -> None:
    """Shows the case to everybody a stored note speaks to, but for its author; again changes nothing."""
    run_many(
        db, "INSERT INTO mentions (merchant_id, note_id, staff_id, case_id) VALUES (:m, :n, :s, :c) ON CONFLICT DO NOTHING",
        [{"m": merchant_id, "n": note_id, "s": one.staff_id, "c": case_id} for one in people if one.staff_id != author],
    )  # fmt: skip


def read_mentions(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID) -> int:
    """The person has read what the notes of a case say to them; returns how many of them were new."""
    return run(
        db, "UPDATE mentions SET read_at = now() WHERE merchant_id = :m AND staff_id = :s AND case_id = :c AND read_at IS NULL",
        m=merchant_id, s=staff_id, c=case_id,
    )  # fmt: skip
