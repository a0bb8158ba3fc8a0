"""Staff and their memberships: who is added, with which role, and who leaves.

A person is one row for the whole deployment, a membership one for each merchant. A merchant's admin ends the membership of
their own merchant; the person is disabled with the last one.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID
from zoneinfo import available_timezones

from sqlalchemy import Connection

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, pin_tenant, run, scalar
from ledger.errors import BadInput, NotFound
from ledger.events import SYSTEM
from ledger.ids import uuid7
from ledger.revocation import merchants_of, revoke

ROLES = ("reader", "desk", "manager", "finance", "admin")
THEMES = ("system", "light", "dark")


def as_email(text: str) -> str:
    """An e-mail address as people sign in with it. Raises BadInput."""
    email = text.strip().lower()
    wrong = any(character.isspace() or not character.isprintable() for character in email)
    if wrong or not 3 <= len(email) <= 254 or email.count("@") != 1 or email.startswith("@") or email.endswith("@"):
        raise BadInput("email", "is not an e-mail address")
    return email


def add_person(
    db: Connection, merchant_id: UUID, *, email: str, name: str, role: str, password_hash: str,
    before: Callable[[UUID], None] | None = None,
) -> UUID:  # fmt: skip
    """Makes a person a member of a merchant, or a member again; an existing person keeps their password.

    `before` is called with the person, before they are a member. Raises BadInput (e-mail, name, role). Locks the person's row.
    """
    email = as_email(email)
    if not 1 <= len(name.strip()) <= 80:
        raise BadInput("name", "has to be 1 to 80 characters")
    if role not in ROLES:
        raise BadInput("role", f"is one of {', '.join(ROLES)}")
    found = first(db, "SELECT staff_id FROM staff WHERE email = :e FOR UPDATE", e=email)
    staff_id: UUID = found["staff_id"] if found else uuid7()
    if found is None:
        run(
            db, "INSERT INTO staff (staff_id, email, name, password_hash) VALUES (:i, :e, :n, :h)",
            i=staff_id, e=email, n=name.strip(), h=password_hash,
        )  # fmt: skip
    if before is not None:
        before(staff_id)
    had = scalar(db, "SELECT role FROM memberships WHERE merchant_id = :m AND staff_id = :i", m=merchant_id, i=staff_id)
    run(
        db, "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :i, :r)"
        " ON CONFLICT (merchant_id, staff_id) DO UPDATE SET role = excluded.role, ended_at = NULL",
        m=merchant_id, i=staff_id, r=role,
    )  # fmt: skip
    if had is not None and had != role:
        revoke(db, merchant_id, staff_id, SYSTEM, f"became {role}")
    return staff_id


def change_role(db: Connection, merchant_id: UUID, staff_id: UUID, role: str, actor: str = SYSTEM) -> tuple[int, int]:
    """Gives a member another role; what they may approve no longer and was not sent is held in the same transaction (S36).

    Returns how many refunds were held, and how many that had left are listed for review. Raises NotFound, BadInput. Locks the
    membership, then their cases in turn.
    """
    if role not in ROLES:
        raise BadInput("role", f"is one of {', '.join(ROLES)}")
    changed = run(
        db, "UPDATE memberships SET role = :r WHERE merchant_id = :m AND staff_id = :s AND ended_at IS NULL",
        m=merchant_id, s=staff_id, r=role,
    )  # fmt: skip
    if not changed:
        raise NotFound
    return revoke(db, merchant_id, staff_id, actor, f"became {role}")


def set_settings(db: Connection, staff_id: UUID, *, zone: str, theme: str, shortcuts: bool, mail_work: bool) -> None:
    """How pages are for a person, and whether mail tells them of their work.

    `zone`: a name such as Europe/Berlin, or "" for the shop's. Raises BadInput (zone, theme).
    """
    if zone and zone not in available_timezones():
        raise BadInput("zone", "is a name such as Europe/Berlin")
    if theme not in THEMES:
        raise BadInput("theme", f"is one of {', '.join(THEMES)}")
    run(
        db, "UPDATE staff SET zone = :z, theme = :t, shortcuts = :k, mail_work = :w WHERE staff_id = :s",
        z=zone, t=theme, k=shortcuts, w=mail_work, s=staff_id,
    )  # fmt: skip


def let_in(db: Connection, staff_id: UUID, engineer: str, reason: str) -> bool:
    """Lets a person who was switched off sign in again, on the record; False when they were not switched off.

    Raises BadInput (engineer, reason). Locks the person.
    """
    engineer, reason = engineer.strip(), mask_card_numbers(reason.strip())
    if not 2 <= len(engineer) <= 80:
        raise BadInput("engineer", "say who you are")
    if not 1 <= len(reason) <= 200:
        raise BadInput("reason", "say in a few words why they may sign in again")
    off = scalar(db, "SELECT disabled_at FROM staff WHERE staff_id = :s FOR UPDATE", s=staff_id)
    if off is None:
        return False
    run(
        db, "INSERT INTO people_let_in (staff_id, engineer, reason, generation)"
        " SELECT :s, :e, :why, coalesce((SELECT generation FROM deployment), 1)", s=staff_id, e=engineer, why=reason,
    )  # fmt: skip
    run(db, "UPDATE staff SET disabled_at = NULL WHERE staff_id = :s", s=staff_id)
    return True


def disable(db: Connection, staff_id: UUID, lost_since: datetime | None = None) -> tuple[int, int]:
    """Switches a person off in every merchant; their unsent approvals are held in the same transaction (S10, S36). `lost_since`:
    see `revoke`.

    Returns what `change_role` returns, over all merchants; the transaction is pinned to the last of them. Locks the person,
    then their cases in turn.
    """
    run(db, "UPDATE staff SET disabled_at = coalesce(disabled_at, now()) WHERE staff_id = :s", s=staff_id)
    held = listed = 0
    for merchant_id in merchants_of(db, staff_id):
        pin_tenant(db, merchant_id)
        of_merchant = revoke(db, merchant_id, staff_id, SYSTEM, "was switched off", lost_since)
        held, listed = held + of_merchant[0], listed + of_merchant[1]
    return held, listed


def switch_off(db: Connection, merchant_id: UUID, staff_id: UUID, actor: str = SYSTEM) -> tuple[str, bool]:
    """Ends a person's membership here, and disables them when it was the last; returns their name and whether it changed.

    What they approved and was not sent yet is held at once (S36). Locks the membership, the person, then their cases in turn.
    Raises NotFound.
    """
    member = first(
        db,
        "SELECT ended_at FROM memberships WHERE merchant_id = :m AND staff_id = :s FOR UPDATE",
        m=merchant_id,
        s=staff_id,
    )
    person = first(db, "SELECT name, disabled_at FROM staff WHERE staff_id = :s FOR UPDATE", s=staff_id)
    if member is None or person is None:
        raise NotFound
    run(
        db, "UPDATE memberships SET ended_at = now() WHERE merchant_id = :m AND staff_id = :s AND ended_at IS NULL",
        m=merchant_id, s=staff_id,
    )  # fmt: skip
    if not _other_memberships(db, staff_id):
        run(db, "UPDATE staff SET disabled_at = now() WHERE staff_id = :s AND disabled_at IS NULL", s=staff_id)
    if member["ended_at"] is None:
        revoke(db, merchant_id, staff_id, actor, "left")
    return person["name"], member["ended_at"] is None


def _other_memberships(db: Connection, staff_id: UUID) -> bool:
    """Whether the person is still a member anywhere: their own rows are readable under their own name only."""
    db.exec_driver_sql("SELECT set_config('onceback.staff', %s, true)", (str(staff_id),))
    found = scalar(db, "SELECT count(*) FROM memberships WHERE staff_id = :s AND ended_at IS NULL", s=staff_id)
    db.exec_driver_sql("SELECT set_config('onceback.staff', '', true)")
    return bool(found)
