"""People of the merchant: their roles, when they were last seen, what they sign in with, and the leaver switch.

Inviting and another role take a second admin: `invitations`, `roles`. Switching off and signing out take one, and a manager does
both for the desk. Switching on again is a command of an engineer, on the record: `flask staff enable`.
"""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection, RowMapping

from console import sessions, words
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from console.shell import initials
from ledger.database import rows, scalar
from ledger.errors import NotAllowed, NotFound
from ledger.invitations import Invitation, invitations
from ledger.people import switch_off
from ledger.role_changes import RoleChange, role_changes

blueprint = Blueprint("people", __name__, url_prefix="/<merchant_slug>/people")

_ASKS: Final = {
    "own": "This shop asks nobody for a second factor; whoever has one shows it at sign-in.",
    "money": "This shop asks everybody but readers for a second factor.",
    "all": "This shop asks everybody for a second factor.",
}


@blueprint.get("")
@permission("see_people")
def index() -> Response:
    with reading() as db:
        keeps = current.may("keep_people")
        found = rows(db, _PEOPLE, m=current.merchant_id, idle=sessions.IDLE_MINUTES)
        return page(
            "people.html",
            people=[_row(row) for row in found],
            asks_text=_ASKS[str(scalar(db, "SELECT second_factor FROM merchants WHERE id = :m", m=current.merchant_id))],
            invite_url=url_for("invitations.invite") if keeps else "",
            factors_url=url_for("resets.index") if current.may("reset_factors") else "",
            invitations=[_invitation(one) for one in invitations(db, current.merchant_id)] if keeps else [],
            changes=[_change(one) for one in role_changes(db, current.merchant_id)] if keeps else [],
        )  # fmt: skip


@blueprint.post("/<uuid:staff_id>/leave")
@permission("switch_people")
def leave(staff_id: UUID) -> Response:
    """Switches a person off here and ends their sessions; a second press changes nothing."""
    if staff_id == current.staff_id:
        raise NotAllowed("Another admin has to switch you off.")
    ConsoleForm().require()
    with writing() as db:
        _may_act_on(db, staff_id)
        name, changed = switch_off(db, current.merchant_id, staff_id, current.actor)
        sessions.end_of_person(db, staff_id)
    if changed:
        log.warning("person_switched_off", staff_id=current.staff_id, kind="leaver", merchant=current.slug)
    say(
        "ok",
        f"{name} is switched off.",
        "Every session of theirs has ended, and what they approved and was not sent is held.",
    )
    return see_other("people.index")


@blueprint.post("/<uuid:staff_id>/sign-out")
@permission("switch_people")
def sign_out(staff_id: UUID) -> Response:
    """Ends every session of a person; they may sign in again."""
    ConsoleForm().require()
    with writing() as db:
        name = _may_act_on(db, staff_id)
        count = sessions.end_of_person(db, staff_id)
    log.warning("sessions_ended", staff_id=current.staff_id, kind="by another", merchant=current.slug, count=count)
    say("ok", f"{name} is signed out everywhere.", f"{words.counted(count, 'session', 'sessions')} ended.")
    return see_other("people.index")


def _may_act_on(db: Connection, staff_id: UUID) -> str:
    """The name of a person of this merchant whom the signed-in one may switch off and sign out. Raises NotFound, NotAllowed."""
    found = rows(
        db, "SELECT s.name, m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s", m=current.merchant_id, s=staff_id,
    )  # fmt: skip
    if not found:
        raise NotFound
    if not _acts_on(found[0]["role"]):
        raise NotAllowed("A manager switches off and signs out the returns desk only. Ask an admin.")
    return str(found[0]["name"])


def _acts_on(role: str) -> bool:
    return current.may("keep_people") or (current.may("switch_people") and role == "desk")


def _row(row: RowMapping) -> dict[str, Any]:
    mine, active, staff_id = row["staff_id"] == current.staff_id, row["active"], row["staff_id"]
    acts = active and not mine and _acts_on(row["role"])
    app, keys = row["app"], row["passkeys"]
    has = [*(["app"] if app else []), *([words.counted(keys, "passkey", "passkeys")] if keys else [])]
    return {
        "person": {"name": row["name"], "initials": initials(row["name"]), "me": mine},
        "email": row["email"],
        "role_text": ROLE_TEXTS[row["role"]],
        "role_url": url_for("roles.ask", staff_id=staff_id) if active and not mine and current.may("keep_people") else "",
        "last_seen": row["last_seen_at"],
        "factors": {"text": ", ".join(has) or "none", "lacks": row["asked"] and not has and active},
        "sessions": row["sessions"],
        "active": active,
        "sign_out": _act("people.sign_out", staff_id) if acts and row["sessions"] else None,
        "leave": _act("people.leave", staff_id) if acts else None,
    }  # fmt: skip


def _act(endpoint: str, staff_id: UUID) -> dict[str, str]:
    return {"url": url_for(endpoint, staff_id=staff_id), "operation": new_operation()}


def _invitation(one: Invitation) -> dict[str, Any]:
    urls = {
        name: url_for(f"invitations.{name}", invitation_id=one.invitation_id)
        for name in ("grant", "refuse", "call_back")
    }
    return {
        "name": one.name, "email": one.email, "role_text": ROLE_TEXTS[one.role], "asked_by": one.asked_by_name,
        "asked_at": one.asked_at, "granted_by": one.decided_by_name, "until": one.until,
        "grant_url": urls["grant"] if one.granted is None and one.asked_by != current.staff_id else "",
        "refuse_url": urls["refuse"] if one.granted is None else "",
        "call_back_url": urls["call_back"] if one.granted else "", "operation": new_operation(),
    }  # fmt: skip


def _change(one: RoleChange) -> dict[str, Any]:
    others = current.staff_id not in (one.asked_by, one.staff_id)
    waits = one.granted is None
    return {
        "name": one.name, "was_text": ROLE_TEXTS[one.was], "role_text": ROLE_TEXTS[one.role], "reason": one.reason,
        "asked_by": one.asked_by_name, "asked_at": one.asked_at, "decided_by": one.decided_by_name,
        "decided_at": one.decided_at, "granted": one.granted,
        "grant_url": url_for("roles.grant", change_id=one.change_id) if waits and others else "",
        "refuse_url": url_for("roles.refuse", change_id=one.change_id) if waits else "", "operation": new_operation(),
    }  # fmt: skip


_PEOPLE: Final = """
    SELECT s.staff_id, s.name, s.email, m.role, (m.ended_at IS NULL AND s.disabled_at IS NULL) AS active,
        greatest(s.last_sign_in_at, (SELECT max(o.seen_at) FROM sessions o WHERE o.staff_id = s.staff_id
            AND o.waits_for IS NULL)) AS last_seen_at,
        (SELECT count(*) FROM sessions o WHERE o.staff_id = s.staff_id AND o.ended_at IS NULL AND o.waits_for IS NULL
            AND o.seen_at + make_interval(mins => :idle) > now()) AS sessions,
        EXISTS (SELECT 1 FROM totp_factors f WHERE f.staff_id = s.staff_id AND f.ended_at IS NULL
            AND f.confirmed_at IS NOT NULL) AS app,
        (SELECT count(*) FROM passkeys k WHERE k.staff_id = s.staff_id AND k.ended_at IS NULL) AS passkeys,
        asks_for_factor(t.second_factor, m.role) AS asked
    FROM memberships m JOIN staff s ON s.staff_id = m.staff_id JOIN merchants t ON t.id = m.merchant_id
    WHERE m.merchant_id = :m ORDER BY active DESC, s.name, s.staff_id
"""
