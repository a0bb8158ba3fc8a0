"""Inviting people: one admin asks, a second one decides, and then a link exists that lets one person in, once, for three days.

The database knows the digest of a link only. Whoever opens it chooses a password, or shows the one they have; that they are
let in and their membership are one transaction, and it skips no second factor (S8).
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.people import ROLES, add_person, as_email

# Over a weekend, and no longer: a link lies in mail.
LINK_HOURS: Final = 72


@dataclass(frozen=True)
class Invitation:
    """One invitation. `granted` None: it waits for a second admin. `until`: how long its newest link opens."""

    invitation_id: UUID
    email: str
    name: str
    role: str
    asked_by: UUID
    asked_by_name: str
    asked_at: datetime
    decided_by_name: str | None
    granted: bool | None
    until: datetime | None


def ask_invitation(
    db: Connection, merchant_id: UUID, invitation_id: UUID, asked_by: UUID, *, email: str, name: str, role: str
) -> None:
    """Asks under `invitation_id`; the same id again changes nothing.

    Raises BadInput (email, name, role), WrongState for somebody who works here, or was switched off.
    """
    if first(db, _OWN, m=merchant_id, i=invitation_id):
        return
    email, name = as_email(email), " ".join(name.split())
    if not 1 <= len(name) <= 80:
        raise BadInput("name", "has to be 1 to 80 characters")
    if role not in ROLES:
        raise BadInput("role", f"is one of {', '.join(ROLES)}")
    member = first(
        db, "SELECT m.ended_at IS NULL AS works, s.disabled_at IS NOT NULL AS off FROM memberships m"
        " JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m AND s.email = :e", m=merchant_id, e=email,
    )  # fmt: skip
    if member is not None and member["off"]:
        raise WrongState("Somebody with this e-mail address was switched off: an engineer has to let them in first.")
    if member is not None and member["works"]:
        raise WrongState("Somebody with this e-mail address works here already.")
    run(
        db, "INSERT INTO invitations (merchant_id, invitation_id, email, name, role, asked_by) VALUES (:m, :i, :e, :n, :r, :by)",
        m=merchant_id, i=invitation_id, e=email, n=name, r=role, by=asked_by,
    )  # fmt: skip


_OWN: Final = "SELECT * FROM invitations WHERE merchant_id = :m AND invitation_id = :i"


def answer_invitation(
    db: Connection, merchant_id: UUID, invitation_id: UUID, decided_by: UUID, *, granted: bool
) -> Invitation | None:
    """Grants or refuses an invitation; None when it was decided before. Raises NotFound, SamePerson. Locks the invitation."""
    row = first(db, _OWN + " FOR NO KEY UPDATE", m=merchant_id, i=invitation_id)
    if row is None:
        raise NotFound
    if row["decided_at"] is not None:
        return None
    if granted and decided_by == row["asked_by"]:
        raise SamePerson("A second admin has to decide this.")
    run(
        db, "UPDATE invitations SET decided_by = :by, decided_at = now(), granted = :g WHERE merchant_id = :m"
        " AND invitation_id = :i",
        by=decided_by, g=granted, m=merchant_id, i=invitation_id,
    )  # fmt: skip
    return next(one for one in invitations(db, merchant_id) if one.invitation_id == invitation_id)


def new_link(db: Connection, merchant_id: UUID, invitation_id: UUID) -> str:
    """A link of an invitation that was granted, 256 bit, to be shown once. Raises WrongState for one that opens nothing."""
    open_ = scalar(db, _OPEN, m=merchant_id, i=invitation_id)
    if not open_:
        raise WrongState("This invitation is not open any more.")
    text = secrets.token_urlsafe(32)
    run(
        db, "INSERT INTO invitation_links (merchant_id, link_hash, invitation_id) VALUES (:m, :h, :i)",
        m=merchant_id, h=_digest(text), i=invitation_id,
    )  # fmt: skip
    return text


_OPEN: Final = """
    SELECT 1 FROM invitations i WHERE i.merchant_id = :m AND i.invitation_id = :i AND i.granted
        AND NOT EXISTS (SELECT 1 FROM invitation_ends e WHERE e.merchant_id = i.merchant_id AND e.invitation_id = i.invitation_id)
"""


def _digest(text: str) -> bytes:
    return hashlib.sha256(b"onceback.invitation.v1\0" + text.encode("utf-8", "surrogateescape")).digest()


@dataclass(frozen=True)
class Opened:
    """What a link opens: who is asked to come, as what. `password_hash` when they sign in at another shop of this console."""

    invitation_id: UUID
    email: str
    name: str
    role: str
    password_hash: str | None


def open_link(db: Connection, merchant_id: UUID, text: str) -> Opened | None:
    """What the link opens now; None for one that is unknown, used, called back or too old, and for a person who is switched off."""
    row = first(db, _LINK, m=merchant_id, h=_digest(text), hours=LINK_HOURS)
    return Opened(**row) if row else None


_LINK: Final = """
    SELECT i.invitation_id, i.email, i.name, i.role, s.password_hash FROM invitation_links l
    JOIN invitations i ON i.merchant_id = l.merchant_id AND i.invitation_id = l.invitation_id AND i.granted
    LEFT JOIN staff s ON s.email = i.email
    WHERE l.merchant_id = :m AND l.link_hash = :h AND l.made_at > now() - make_interval(hours => :hours)
        AND s.disabled_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM invitation_ends e WHERE e.merchant_id = i.merchant_id AND e.invitation_id = i.invitation_id)
"""


def come_in(db: Connection, merchant_id: UUID, text: str, password_hash: str) -> UUID:
    """Makes the invited person a member, once; one who exists keeps their password. Returns the person.

    Raises NotFound for a link that opens nothing. Locks the invitation, then the person.
    """
    found = open_link(db, merchant_id, text)
    if found is None:
        raise NotFound
    first(db, _OWN + " FOR NO KEY UPDATE", m=merchant_id, i=found.invitation_id)
    if open_link(db, merchant_id, text) is None:
        # Two with one link: the second waited here, and finds it used.
        raise NotFound

    def ends(staff_id: UUID) -> None:
        run(
            db, "INSERT INTO invitation_ends (merchant_id, invitation_id, staff_id) VALUES (:m, :i, :s)",
            m=merchant_id, i=found.invitation_id, s=staff_id,
        )  # fmt: skip

    return add_person(
        db, merchant_id, email=found.email, name=found.name, role=found.role, password_hash=password_hash, before=ends
    )


def call_back(db: Connection, merchant_id: UUID, invitation_id: UUID, staff_id: UUID) -> bool:
    """Ends an invitation whose link opens nothing from now on; False when it had ended. Raises NotFound. Locks the invitation."""
    if first(db, _OWN + " FOR NO KEY UPDATE", m=merchant_id, i=invitation_id) is None:
        raise NotFound
    return run(
        db, "INSERT INTO invitation_ends (merchant_id, invitation_id, called_back_by) VALUES (:m, :i, :s) ON CONFLICT DO NOTHING",
        m=merchant_id, i=invitation_id, s=staff_id,
    ) == 1  # fmt: skip


_INVITATIONS: Final = """
    SELECT i.invitation_id, i.email, i.name, i.role, i.asked_by, a.name AS asked_by_name, i.asked_at,
        d.name AS decided_by_name, i.granted,
        (SELECT max(l.made_at) + make_interval(hours => :hours) FROM invitation_links l
            WHERE l.merchant_id = i.merchant_id AND l.invitation_id = i.invitation_id) AS until
    FROM invitations i JOIN staff a ON a.staff_id = i.asked_by LEFT JOIN staff d ON d.staff_id = i.decided_by
    WHERE i.merchant_id = :m AND i.granted IS DISTINCT FROM false
        AND NOT EXISTS (SELECT 1 FROM invitation_ends e WHERE e.merchant_id = i.merchant_id AND e.invitation_id = i.invitation_id)
    ORDER BY i.granted NULLS FIRST, i.asked_at DESC LIMIT 50
"""


def invitations(db: Connection, merchant_id: UUID) -> list[Invitation]:
    """The invitations that wait for a second admin or for the person, newest first."""
    return [Invitation(**row) for row in rows(db, _INVITATIONS, m=merchant_id, hours=LINK_HOURS)]
