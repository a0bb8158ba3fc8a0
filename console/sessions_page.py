"""A person's own sessions: where they are signed in, and ending one or all of them (S14)."""

from ipaddress import ip_address, ip_network
from typing import Any

from flask import Blueprint, Response, g, url_for
from sqlalchemy import RowMapping

from console import sessions
from console.access import permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from console.sessions import own
from console.sign_in import leave_session, signed_out_response

blueprint = Blueprint("sessions", __name__, url_prefix="/<merchant_slug>/sessions")


@blueprint.get("")
@permission("own_session")
def index() -> Response:
    with reading() as db:
        found = [_row(row) for row in sessions.open_sessions(db, g.person.staff_id)]
        everywhere = {"url": url_for("sessions.end_all"), "operation": new_operation()}
        return page("sessions.html", sessions=found, everywhere=everywhere)


@blueprint.get("/stay")
@permission("own_session")
def stay() -> Response:
    """204. The gate has already counted it as activity."""
    return Response(status=204)


@blueprint.post("/<mark>/end")
@permission("own_session")
def end_one(mark: str) -> Response:
    """Ends one session of one's own; one that has ended already is no error."""
    ConsoleForm().require()
    with writing() as db:
        open_rows = sessions.open_sessions(db, g.person.staff_id)
        digest = next((row["session_hash"] for row in open_rows if sessions.mark_of(row["session_hash"]) == mark), None)
        if digest is not None:
            sessions.end_of_person(db, g.person.staff_id, digest)
    log.info("session_ended", staff_id=g.person.staff_id)
    if digest == own().digest:
        leave_session()
        return signed_out_response()
    say("ok", "That session has ended.")
    return see_other("sessions.index")


@blueprint.post("/end-all")
@permission("own_session")
def end_all() -> Response:
    """Signs the person out everywhere, here too."""
    ConsoleForm().require()
    with writing() as db:
        count = sessions.end_of_person(db, g.person.staff_id)
    log.info("sessions_ended", staff_id=g.person.staff_id, count=count)
    leave_session()
    return signed_out_response()


def _row(row: RowMapping) -> dict[str, Any]:
    mark = sessions.mark_of(row["session_hash"])
    return {
        "here": row["session_hash"] == own().digest,
        "device_text": row["device"] or "A browser",
        "network": _network(row["address"]),
        "started_at": row["created_at"],
        "last_seen_at": row["seen_at"],
        "ends_at": row["ends_at"],
        "end_url": url_for("sessions.end_one", mark=mark),
        "operation": new_operation(),
    }


def _network(address: str) -> str:
    try:
        at = ip_address(address)
    except ValueError:
        return address
    return str(ip_network(f"{at}/{24 if at.version == 4 else 48}", strict=False))
