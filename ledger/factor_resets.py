"""Resetting what a person proves themselves with, once all of it is lost: one admin asks, another decides, both on the record (S8).

A reset ends app, passkeys and recovery codes, and holds what was approved since they were lost and was not sent (S36). It gives
nobody a factor: the person adds new ones with their password, and for a day those sign nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger import factors
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.passkeys import end_key, passkeys_of
from ledger.revocation import revoke_proofs

LONGEST_REASON: Final = 300
# Nothing older waits to be sent: an approval is good for a day, and what the cap or a dispute holds is looked at within weeks.
MOST_DAYS: Final = 90


@dataclass(frozen=True)
class Reset:
    """One reset that was asked for. `granted` None: it waits for a second admin."""

    reset_id: UUID
    staff_id: UUID
    name: str
    reason: str
    lost_since: datetime
    asked_by: UUID
    asked_by_name: str
    asked_at: datetime
    decided_by_name: str | None
    decided_at: datetime | None
    granted: bool | None


def ask_reset(
    db: Connection, merchant_id: UUID, reset_id: UUID, staff_id: UUID, asked_by: UUID, reason: str, lost_since: datetime
) -> None:
    """Asks under `reset_id`; the same id again changes nothing.

    Raises SamePerson (one's own), NotFound (no member here), BadInput (reason, lost_since), WrongState while one waits.
    """
    if asked_by == staff_id:
        raise SamePerson("Another admin has to ask for yours.")
    if first(db, "SELECT 1 FROM factor_resets WHERE merchant_id = :m AND reset_id = :r", m=merchant_id, r=reset_id):
        return
    said = mask_card_numbers(" ".join(reason.split()))
    if not 1 <= len(said) <= LONGEST_REASON:
        raise BadInput("reason", "say what was lost, and how you know who asks")
    member = "SELECT 1 FROM memberships WHERE merchant_id = :m AND staff_id = :s AND ended_at IS NULL"
    if not scalar(db, member, m=merchant_id, s=staff_id):
        raise NotFound
    in_time = "SELECT CAST(:at AS timestamptz) BETWEEN now() - make_interval(days => :d) AND now()"
    if not scalar(db, in_time, at=lost_since, d=MOST_DAYS):
        raise BadInput("lost_since", f"give a time that is past, and not more than {MOST_DAYS} days ago")
    waiting = "SELECT 1 FROM factor_resets WHERE merchant_id = :m AND staff_id = :s AND decided_at IS NULL"
    if scalar(db, waiting, m=merchant_id, s=staff_id):
        raise WrongState("A reset of this person waits already. A second admin decides it.")
    run(
        db, "INSERT INTO factor_resets (merchant_id, reset_id, staff_id, reason, lost_since, asked_by)"
        " VALUES (:m, :r, :s, :why, :since, :by)",
        m=merchant_id, r=reset_id, s=staff_id, why=said, since=lost_since, by=asked_by,
    )  # fmt: skip


def answer_reset(
    db: Connection, merchant_id: UUID, reset_id: UUID, decided_by: UUID, *, granted: bool
) -> tuple[UUID, int] | None:
    """Grants or refuses a reset; None when it was decided before. Returns the person, and how many refunds are held now.

    Raises NotFound, SamePerson (who asked, or the person). Locks the reset, then cases in turn; the transaction is pinned to the
    last merchant of the person.
    """
    row = first(
        db, "SELECT * FROM factor_resets WHERE merchant_id = :m AND reset_id = :r FOR NO KEY UPDATE", m=merchant_id, r=reset_id
    )  # fmt: skip
    if row is None:
        raise NotFound
    if row["decided_at"] is not None:
        return None
    if granted and decided_by in (row["asked_by"], row["staff_id"]):
        raise SamePerson("A second admin has to decide this.")
    run(
        db, "UPDATE factor_resets SET decided_by = :by, decided_at = now(), granted = :g WHERE merchant_id = :m AND reset_id = :r",
        by=decided_by, g=granted, m=merchant_id, r=reset_id,
    )  # fmt: skip
    staff_id: UUID = row["staff_id"]
    if not granted:
        return staff_id, 0
    factors.end_app(db, staff_id)
    factors.end_codes(db, staff_id)
    for key in passkeys_of(db, staff_id):
        end_key(db, staff_id, key.credential_id, "reset")
    return staff_id, revoke_proofs(db, staff_id, f"staff:{decided_by}", since=row["lost_since"])


_RESETS: Final = """
    SELECT r.reset_id, r.staff_id, p.name, r.reason, r.lost_since, r.asked_by, a.name AS asked_by_name, r.asked_at,
        d.name AS decided_by_name, r.decided_at, r.granted
    FROM factor_resets r JOIN staff p ON p.staff_id = r.staff_id JOIN staff a ON a.staff_id = r.asked_by
    LEFT JOIN staff d ON d.staff_id = r.decided_by
    WHERE r.merchant_id = :m ORDER BY r.decided_at IS NOT NULL, r.asked_at DESC LIMIT 50
"""


def resets(db: Connection, merchant_id: UUID) -> list[Reset]:
    """The last fifty resets of a merchant's people, those that wait first."""
    return [Reset(**row) for row in rows(db, _RESETS, m=merchant_id)]
