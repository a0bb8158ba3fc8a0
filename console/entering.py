"""From the password to a session that opens everything (S6): a half one first, where a second factor is in use or asked for.

A half session opens one page and is never made whole: what comes after the factor is another session with another id (S11).
"""

from typing import Any, Final
from uuid import UUID

from flask import Response, make_response, redirect, request, url_for
from sqlalchemy import Connection

from console import notices, sessions
from console.devices import known_device, remember_device
from console.log import log
from console.routes import known_path
from console.sessions import own
from ledger import factors
from ledger.database import run
from ledger.errors import NotAllowed

# Content of a half session: where the person was going, and the session that this browser had before.
_NEXT: Final = "next"
_BEFORE: Final = "before"
RECOVERED: Final = "recovered"
STEPS: Final = {"factor": "second_factor.index", "enrolment": "enrolment.index"}


def stage_of(db: Connection, staff_id: UUID) -> str:
    """What a person has to do after the password: show a `factor`, see to its `enrolment`, or nothing, ""."""
    if factors.has_factor(db, staff_id):
        return "factor"
    return "enrolment" if factors.needs_factor(db, staff_id) else ""


def wait_for(db: Connection, staff_id: UUID, stage: str, next_path: str = "", *, recovered: bool = False) -> str:
    """Begins the half session of a stage; returns its id, for `own().become` once the transaction has committed."""
    held = own()
    before = held.get(_BEFORE) or (held.digest.hex() if held.digest else "")
    content: dict[str, Any] = {_NEXT: held.get(_NEXT) or next_path, _BEFORE: before, RECOVERED: recovered}
    return sessions.begin_half(
        db, staff_id, request.user_agent.string, request.remote_addr or "", stage, content
    )  # fmt: skip


def begin_whole(db: Connection, staff_id: UUID) -> str:
    """Begins the person's session and ends what this browser had; returns its id, for `entered`. Locks the person's row.

    Raises NotAllowed for one who was switched off in the meantime.
    """
    if not run(db, "UPDATE staff SET last_sign_in_at = now() WHERE staff_id = :s AND disabled_at IS NULL", s=staff_id):
        raise NotAllowed("This account cannot sign in now.")
    if known_device(staff_id) is None:
        notices.new_browser(db, staff_id, sessions.device_text(request.user_agent.string))
    session_id = sessions.begin(db, staff_id, request.user_agent.string, request.remote_addr or "")
    for digest in {own().digest or b"", bytes.fromhex(str(own().get(_BEFORE) or ""))}:
        sessions.end(db, digest)
    return session_id


def next_path() -> str:
    """Where the person of a half session was going."""
    return known_path(str(own().get(_NEXT) or "")) or "/"


def entered(staff_id: UUID, session_id: str, path: str) -> Response:
    """The answer that hands the new session to the browser and goes where the person was going."""
    response = make_response(redirect(path, 303))
    hand_over(response, staff_id, session_id)
    return response


def hand_over(response: Response, staff_id: UUID, session_id: str) -> None:
    """This answer carries the new session, and the browser is known from now on."""
    own().become(session_id)
    remember_device(response, staff_id)
    log.info("signed_in", staff_id=staff_id, address=request.remote_addr)


def to_step(stage: str, session_id: str) -> Response:
    """The answer that hands over a half session and goes to its page."""
    own().become(session_id)
    return make_response(redirect(url_for(STEPS[stage]), 303))
