"""People of the merchant: their roles, when they last signed in, and the leaver switch.

Inviting, another role and switching on again take a second admin (SECURITY §2), so they are commands of an engineer until
that desk exists: `flask staff`.
"""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection, RowMapping

from console import sessions
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from console.shell import initials
from ledger.database import rows
from ledger.errors import NotAllowed
from ledger.people import switch_off

blueprint = Blueprint("people", __name__, url_prefix="/<merchant_slug>/people")


@blueprint.get("")
@permission("see_people")
def index() -> Response:
    with reading() as db:
        people = [_row(row) for row in rows(db, _PEOPLE, m=current.merchant_id, idle=sessions.IDLE_MINUTES)]
        roles = [{"value": role, "label": text} for role, text in ROLE_TEXTS.items()]
        return page(
            "people.html", people=people, roles=roles, add_form=None, add_url="", operation="",
            factors_url=url_for("resets.index") if current.may("reset_factors") else "",
        )  # fmt: skip


@blueprint.post("/<uuid:staff_id>/leave")
@permission("switch_people")
def leave(staff_id: UUID) -> Response:
    """Switches a person off here and ends their sessions; a second press changes nothing."""
    if staff_id == current.staff_id:
        raise NotAllowed("Another admin has to switch you off.")
    ConsoleForm().require()
    with writing() as db:
        name, changed = _switch_off(db, staff_id)
    if changed:
        log.warning("person_switched_off", staff_id=current.staff_id, kind="leaver", merchant=current.slug)
    say(
        "ok",
        f"{name} is switched off.",
        "Every session of theirs has ended, and what they approved and was not sent is held.",
    )
    return see_other("people.index")


def _switch_off(db: Connection, staff_id: UUID) -> tuple[str, bool]:
    name, changed = switch_off(db, current.merchant_id, staff_id, current.actor)
    sessions.end_of_person(db, staff_id)
    return name, changed


def _row(row: RowMapping) -> dict[str, Any]:
    me, active = row["staff_id"] == current.staff_id, row["active"]
    leave_url = url_for("people.leave", staff_id=row["staff_id"])
    may = current.may("switch_people") and active and not me
    return {
        "person": {"name": row["name"], "initials": initials(row["name"]), "me": me},
        "email": row["email"],
        "role_text": ROLE_TEXTS[row["role"]],
        "last_sign_in": row["last_sign_in_at"],
        "sessions": row["sessions"],
        "active": active,
        "role_form": None,
        "leave": {"url": leave_url, "operation": new_operation()} if may else None,
        "back": None,
    }


_PEOPLE: Final = """
    SELECT s.staff_id, s.name, s.email, s.last_sign_in_at, m.role,
        (m.ended_at IS NULL AND s.disabled_at IS NULL) AS active,
        (SELECT count(*) FROM sessions o WHERE o.staff_id = s.staff_id AND o.ended_at IS NULL
            AND o.seen_at + make_interval(mins => :idle) > now()) AS sessions
    FROM memberships m JOIN staff s ON s.staff_id = m.staff_id
    WHERE m.merchant_id = :m ORDER BY active DESC, s.name, s.staff_id
"""
