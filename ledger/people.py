"""Staff and their memberships: who is added, with which role, and who leaves.

A person is one row for the whole deployment, a membership one for each merchant. A merchant's admin ends the membership of
their own merchant; the person is disabled with the last one.
"""

from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, run, scalar
from ledger.errors import BadInput, NotFound
from ledger.ids import uuid7

ROLES = ("reader", "desk", "manager", "finance", "admin")


def add_person(db: Connection, merchant_id: UUID, *, email: str, name: str, role: str, password_hash: str) -> UUID:
    """Makes a person a member of a merchant, or a member again; an existing person keeps their password.

    Raises BadInput (e-mail, name, role). Locks the person's row.
    """
    email = email.strip().lower()
    if not 3 <= len(email) <= 254 or email.count("@") != 1 or email.startswith("@") or email.endswith("@"):
        raise BadInput("email", "is not an e-mail address")
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
    else:
        run(db, "UPDATE staff SET disabled_at = NULL WHERE staff_id = :i", i=staff_id)
    run(
        db, "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :i, :r)"
        " ON CONFLICT (merchant_id, staff_id) DO UPDATE SET role = excluded.role, ended_at = NULL",
        m=merchant_id, i=staff_id, r=role,
    )  # fmt: skip
    return staff_id


def switch_off(db: Connection, merchant_id: UUID, staff_id: UUID) -> tuple[str, bool]:
    """Ends a person's membership here, and disables them when it was the last; returns their name and whether it changed.

    Locks the membership, then the person. What they approved and was not sent yet is refused by the worker. Raises NotFound.
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
    return person["name"], member["ended_at"] is None


def _other_memberships(db: Connection, staff_id: UUID) -> bool:
    """Whether the person is still a member anywhere: their own rows are readable under their own name only."""
    db.exec_driver_sql("SELECT set_config('onceback.staff', %s, true)", (str(staff_id),))
    found = scalar(db, "SELECT count(*) FROM memberships WHERE staff_id = :s AND ended_at IS NULL", s=staff_id)
    db.exec_driver_sql("SELECT set_config('onceback.staff', '', true)")
    return bool(found)
