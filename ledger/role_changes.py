"""Another role for a member: one admin asks, a second one decides, both on the record (SECURITY section 2).

What the person may approve no longer and was not sent is held in the same transaction (S36). The database gives no role to the
console in any other way.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.people import ROLES, change_role

LONGEST_REASON: Final = 300


@dataclass(frozen=True)
class RoleChange:
    """One change that was asked for. `granted` None: it waits for a second admin."""

    change_id: UUID
    staff_id: UUID
    name: str
    was: str
    role: str
    reason: str
    asked_by: UUID
    asked_by_name: str
    asked_at: datetime
    decided_by_name: str | None
    decided_at: datetime | None
    granted: bool | None


def ask_role(
    db: Connection, merchant_id: UUID, change_id: UUID, staff_id: UUID, asked_by: UUID, role: str, reason: str
) -> None:
    """Asks under `change_id`; the same id again changes nothing.

    Raises SamePerson (one's own), NotFound (no member here), BadInput (role, reason), WrongState while one waits.
    """
    if asked_by == staff_id:
        raise SamePerson("Another admin has to ask for another role of yours.")
    if first(db, "SELECT 1 FROM role_changes WHERE merchant_id = :m AND change_id = :c", m=merchant_id, c=change_id):
        return
    was = scalar(
        db, "SELECT role FROM memberships WHERE merchant_id = :m AND staff_id = :s AND ended_at IS NULL",
        m=merchant_id, s=staff_id,
    )  # fmt: skip
    if was is None:
        raise NotFound
    if role not in ROLES or role == was:
        raise BadInput("role", "choose another role than the one they have")
    said = mask_card_numbers(" ".join(reason.split()))
    if not 1 <= len(said) <= LONGEST_REASON:
        raise BadInput("reason", "say why, in up to 300 characters")
    waiting = "SELECT 1 FROM role_changes WHERE merchant_id = :m AND staff_id = :s AND decided_at IS NULL"
    if scalar(db, waiting, m=merchant_id, s=staff_id):
        raise WrongState("Another role of this person waits already. A second admin decides it.")
    run(
        db, "INSERT INTO role_changes (merchant_id, change_id, staff_id, was, role, reason, asked_by)"
        " VALUES (:m, :c, :s, :was, :r, :why, :by)",
        m=merchant_id, c=change_id, s=staff_id, was=was, r=role, why=said, by=asked_by,
    )  # fmt: skip


def answer_role(
    db: Connection, merchant_id: UUID, change_id: UUID, decided_by: UUID, *, granted: bool
) -> tuple[UUID, int, str] | None:
    """Grants or refuses a change; None when it was decided before. Returns the person, how many refunds are held now, and the role.

    Raises NotFound, SamePerson (who asked, or the person), WrongState when they have another role by now or left. Locks the
    change, the membership, then cases in turn.
    """
    row = first(
        db, "SELECT * FROM role_changes WHERE merchant_id = :m AND change_id = :c FOR NO KEY UPDATE",
        m=merchant_id, c=change_id,
    )  # fmt: skip
    if row is None:
        raise NotFound
    if row["decided_at"] is not None:
        return None
    staff_id: UUID = row["staff_id"]
    if granted and decided_by in (row["asked_by"], staff_id):
        raise SamePerson("A second admin has to decide this.")
    run(
        db, "UPDATE role_changes SET decided_by = :by, decided_at = now(), granted = :g WHERE merchant_id = :m AND change_id = :c",
        by=decided_by, g=granted, m=merchant_id, c=change_id,
    )  # fmt: skip
    if not granted:
        return staff_id, 0, row["was"]
    has = scalar(
        db, "SELECT role FROM memberships WHERE merchant_id = :m AND staff_id = :s AND ended_at IS NULL FOR UPDATE",
        m=merchant_id, s=staff_id,
    )  # fmt: skip
    if has != row["was"]:
        raise WrongState("This person left, or has another role by now. Do not change it, and ask anew.")
    return staff_id, change_role(db, merchant_id, staff_id, row["role"], f"staff:{decided_by}")[0], row["role"]


_CHANGES: Final = """
    SELECT c.change_id, c.staff_id, p.name, c.was, c.role, c.reason, c.asked_by, a.name AS asked_by_name, c.asked_at,
        d.name AS decided_by_name, c.decided_at, c.granted
    FROM role_changes c JOIN staff p ON p.staff_id = c.staff_id JOIN staff a ON a.staff_id = c.asked_by
    LEFT JOIN staff d ON d.staff_id = c.decided_by
    WHERE c.merchant_id = :m ORDER BY c.decided_at IS NOT NULL, c.asked_at DESC LIMIT 20
"""


def role_changes(db: Connection, merchant_id: UUID) -> list[RoleChange]:
    """The last twenty changes of roles, those that wait first."""
    return [RoleChange(**row) for row in rows(db, _CHANGES, m=merchant_id)]
