"""The policies' desk: versions with their ranges, drafts that wait, and one of either with what it is compared with."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound

MOST_VERSIONS: Final = 200
MOST_ANSWERED: Final = 20


@dataclass(frozen=True)
class Version:
    """A version in its range. `stands`: now, coming, over. `note` is the drafter's, "" for one that was set up by command."""

    policy_id: str
    version: int
    title: str
    begins: datetime | None
    ends: datetime | None
    stands: str
    author: str
    approver: str
    note: str
    approval_note: str
    at: datetime


_WHO: Final = "coalesce((SELECT s.name FROM staff s WHERE {who} = 'staff:' || s.staff_id::text), {who})"
_VERSION: Final = f"""
    SELECT p.policy_id, p.version, coalesce(p.document->>'title', '') AS title, lower(p.effective) AS begins,
        upper(p.effective) AS ends, CASE WHEN p.effective @> now() THEN 'now' WHEN lower(p.effective) > now() THEN 'coming'
            ELSE 'over' END AS stands,
        {_WHO.format(who="p.author")} AS author, {_WHO.format(who="p.approver")} AS approver,
        coalesce(d.note, '') AS note, coalesce(n.note, '') AS approval_note, p.created_at AS at
    FROM policies p
    LEFT JOIN (policy_answers n JOIN policy_drafts d ON d.merchant_id = n.merchant_id AND d.draft_id = n.draft_id)
        ON n.merchant_id = p.merchant_id AND n.answer = 'approved' AND d.policy_id = p.policy_id AND d.version = p.version
    WHERE p.merchant_id = :m
"""  # noqa: S608 - constants


def read_versions(db: Connection, merchant_id: UUID) -> list[Version]:
    """Every version, by policy, the newest first; at most MOST_VERSIONS."""
    found = rows(db, _VERSION + " ORDER BY p.policy_id, p.version DESC LIMIT :most", m=merchant_id, most=MOST_VERSIONS)
    return [Version(**row) for row in found]


def read_version(db: Connection, merchant_id: UUID, policy_id: str, version: int) -> tuple[Version, dict[str, Any]]:
    """One version and its document. Raises NotFound."""
    row = first(db, _VERSION + " AND p.policy_id = :p AND p.version = :v", m=merchant_id, p=policy_id, v=version)
    document = read_text(db, merchant_id, policy_id, version)
    if row is None or document is None:
        raise NotFound
    return Version(**row), document


def read_text(db: Connection, merchant_id: UUID, policy_id: str, version: int) -> dict[str, Any] | None:
    """The document of a version; None where there is none."""
    row = first(db, "SELECT document FROM policies WHERE merchant_id = :m AND policy_id = :p AND version = :v",
                m=merchant_id, p=policy_id, v=version)  # fmt: skip
    return row["document"] if row is not None else None


@dataclass(frozen=True)
class Draft:
    """A draft; `answer` is "" while it waits. `begins` None: as soon as it is approved."""

    draft_id: UUID
    policy_id: str
    version: int
    title: str
    begins: datetime | None
    ends: datetime | None
    raises: bool
    staff_id: UUID
    by: str
    note: str
    at: datetime
    answer: str
    answered_by: str
    answer_note: str
    answered_at: datetime | None


_DRAFT: Final = """
    SELECT d.draft_id, d.policy_id, d.version, coalesce(d.document->>'title', '') AS title, d.effective_from AS begins,
        d.effective_to AS ends, d.raises, d.staff_id, s.name AS by, d.note, d.at, coalesce(n.answer, '') AS answer,
        coalesce(a.name, '') AS answered_by, coalesce(n.note, '') AS answer_note, n.at AS answered_at
    FROM policy_drafts d JOIN staff s ON s.staff_id = d.staff_id
    LEFT JOIN policy_answers n ON n.merchant_id = d.merchant_id AND n.draft_id = d.draft_id
    LEFT JOIN staff a ON a.staff_id = n.staff_id
    WHERE d.merchant_id = :m
"""


def waiting_drafts(db: Connection, merchant_id: UUID) -> list[Draft]:
    """Those that nobody answered yet, oldest first."""
    found = rows(db, _DRAFT + " AND n.answer IS NULL ORDER BY d.at LIMIT :most", m=merchant_id, most=MOST_VERSIONS)
    return [Draft(**row) for row in found]


def unused_drafts(db: Connection, merchant_id: UUID) -> list[Draft]:
    """The last that were withdrawn or turned down, newest first."""
    found = rows(db, _DRAFT + " AND n.answer IN ('withdrawn', 'turned_down') ORDER BY n.at DESC LIMIT :most",
                 m=merchant_id, most=MOST_ANSWERED)  # fmt: skip
    return [Draft(**row) for row in found]


def read_draft(db: Connection, merchant_id: UUID, draft_id: UUID) -> tuple[Draft, dict[str, Any]]:
    """One draft and its document. Raises NotFound."""
    row = first(db, _DRAFT + " AND d.draft_id = :d", m=merchant_id, d=draft_id)
    text = first(
        db, "SELECT document FROM policy_drafts WHERE merchant_id = :m AND draft_id = :d", m=merchant_id, d=draft_id
    )
    if row is None or text is None:
        raise NotFound
    return Draft(**row), text["document"]


def has_draft(db: Connection, merchant_id: UUID, draft_id: UUID) -> bool:
    """Whether a draft was kept, whatever became of it."""
    return (
        first(db, "SELECT 1 FROM policy_drafts WHERE merchant_id = :m AND draft_id = :d", m=merchant_id, d=draft_id)
        is not None
    )
