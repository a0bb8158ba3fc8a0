"""Sessions are rows (S11, S12): the browser holds a 256-bit id, the database its SHA-256, so a dump signs nobody in.

Before sign-in there is no row: the token of the login form lives in a signed cookie of its own. All times are judged by the
database's clock. A row that ended keeps its digest and its times for 30 days, so that a person sees where they were signed
in and an admin can follow a theft; its content is emptied and it opens nothing.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Flask, Request, Response
from flask.globals import request_ctx
from flask.sessions import SessionInterface, SessionMixin
from flask_login import UserMixin
from itsdangerous import BadSignature, URLSafeTimedSerializer
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, RowMapping
from werkzeug.datastructures import CallbackDict

from console.installation import installed
from ledger.card_numbers import mask_card_numbers
from ledger.database import Later, first, rows, run, run_later, transaction

COOKIE: Final = "__Host-onceback"
DOOR_COOKIE: Final = "__Host-onceback-door"
IDLE_MINUTES: Final = 15
ABSOLUTE_HOURS: Final = 10
MOST_OF_A_PERSON: Final = 3
# From the password to the second factor, or to the first one added.
HALF_MINUTES: Final = 15
# A page that loads its parts touches its session once, not once for each.
TOUCH_SECONDS: Final = 5
# The login form may stand open over lunch; its token is worth nothing without a password.
DOOR_SECONDS: Final = 12 * 3600
_ID: Final = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")
_MACHINE_PATHS: Final = ("/api/", "/hooks/", "/csp-report")


class ConsoleSession(CallbackDict[str, Any], SessionMixin):
    """The content of a row, or before sign-in of the signed door cookie. `digest` is set when the browser showed an id."""

    def __init__(self, content: dict[str, Any] | None = None, *, digest: bytes | None = None) -> None:
        super().__init__(content, lambda _: self._changed())
        self.digest = digest
        self.live = False
        self.new_id: str | None = None
        self.drop_cookie = False
        self.modified = False
        self.accessed = True

    def _changed(self) -> None:
        self.modified = True

    def adopt(self, content: dict[str, Any]) -> None:
        """Takes the content of the person's row."""
        self.clear()
        self.update(content)
        self.live, self.modified = True, False

    def become(self, session_id: str) -> None:
        """A new session begins with this answer: a new id, and nothing of the old content."""
        self.clear()
        self.new_id, self.live, self.modified = session_id, False, False


def own() -> ConsoleSession:
    """The session of this request."""
    found = request_ctx.session
    if not isinstance(found, ConsoleSession):
        raise TypeError("a session of another kind")
    return found


@dataclass(frozen=True)
class Visit:
    """A session row beside its person, as the database's clock sees it. `fault`: why it opens nothing, "" when it does;
    `rested`: it was not counted as activity for some seconds; `waits_for`: factor or enrolment, and nothing else is open."""

    staff_id: UUID
    content: dict[str, Any]
    now: datetime
    ends_at: datetime
    fault: str
    rested: bool
    address: str
    email: str
    name: str
    theme: str | None
    shortcuts: bool
    zone: str
    waits_for: str


class Person(UserMixin):
    """The signed-in person, for Flask-Login."""

    def __init__(self, visit: Visit) -> None:
        self.staff_id = visit.staff_id
        self.email = visit.email
        self.name = visit.name
        self.theme = visit.theme
        self.shortcuts = visit.shortcuts
        self.zone = visit.zone
        self.now = visit.now
        self.ends_at = visit.ends_at

    def get_id(self) -> str:
        return str(self.staff_id)


class RowSessions(SessionInterface):
    """Flask's session, kept in `sessions`. The row is read by the gate, once the view is known; saved here when changed."""

    def open_session(self, app: Flask, request: Request) -> ConsoleSession:
        if request.path.startswith(_MACHINE_PATHS):
            return ConsoleSession()
        return ConsoleSession(_read_door(app, request), digest=_shown_digest(request))

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        if not isinstance(session, ConsoleSession):
            raise TypeError("a session of another kind")
        if session.new_id:
            _set(response, COOKIE, session.new_id)
            response.delete_cookie(DOOR_COOKIE, secure=True, httponly=True, samesite="Lax")
        elif session.drop_cookie:
            response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="Lax")
        if not session.modified:
            return
        if session.live and session.digest:
            with transaction(installed().engine) as db:
                run(
                    db, "UPDATE sessions SET content = :c WHERE session_hash = :h AND ended_at IS NULL",
                    c=Jsonb(dict(session)), h=session.digest,
                )  # fmt: skip
        elif session:
            _set(response, DOOR_COOKIE, _door_signer(app).dumps(dict(session)))


def derived_key(secret: str, purpose: str) -> str:
    """A key of its own for each purpose of `cookie_key`, so that no signature fits another cookie."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def visit_later(db: Connection, digest: bytes, user_agent: str) -> Later:
    """The row of `as_visit` for a shown session id; one that opens something also pins its person, who sees their own
    memberships for the rest of the transaction."""
    return run_later(
        db,
        _VISIT,
        h=digest,
        agent=_agent(user_agent),
        idle=IDLE_MINUTES,
        most=ABSOLUTE_HOURS,
        half=HALF_MINUTES,
        s=TOUCH_SECONDS,
    )


def as_visit(row: RowMapping | None) -> Visit | None:
    """Who a shown session id belongs to and whether it still opens anything; None when there is no such row."""
    if row is None:
        return None
    theme = None if row["theme"] == "system" else row["theme"]
    return Visit(
        row["staff_id"], row["content"], row["now"], row["ends_at"], row["fault"], row["rested"], row["address"], row["email"],
        row["name"], theme, row["shortcuts"], row["zone"], row["waits_for"] or "",
    )  # fmt: skip


_VISIT: Final = """
    WITH shown AS MATERIALIZED (
        SELECT s.staff_id, s.content, now() AS now,
            least(s.seen_at + make_interval(mins => :idle), s.created_at + make_interval(hours => :most)) AS ends_at,
            CASE WHEN s.ended_at IS NOT NULL THEN 'ended' WHEN p.disabled_at IS NOT NULL THEN 'disabled'
                WHEN s.user_agent_hash <> :agent THEN 'agent'
                WHEN s.waits_for IS NOT NULL AND s.created_at + make_interval(mins => :half) <= now() THEN 'slow'
                WHEN s.created_at + make_interval(hours => :most) <= now() THEN 'over'
                WHEN s.seen_at + make_interval(mins => :idle) <= now() THEN 'idle' ELSE '' END AS fault,
            s.seen_at < now() - make_interval(secs => :s) AS rested, s.address, p.email, p.name, p.theme, p.shortcuts, p.zone,
            s.waits_for
        FROM sessions s JOIN staff p ON p.staff_id = s.staff_id WHERE s.session_hash = :h)
    SELECT shown.*, CASE WHEN fault = '' THEN set_config('onceback.staff', staff_id::text, true) END AS pinned FROM shown
"""


def touch(db: Connection, digest: bytes) -> None:
    """Counts this request as activity."""
    run(
        db,
        "UPDATE sessions SET seen_at = now() WHERE session_hash = :h AND ended_at IS NULL"
        " AND seen_at < now() - make_interval(secs => :s)",
        h=digest, s=TOUCH_SECONDS,
    )  # fmt: skip


def begin(db: Connection, staff_id: UUID, user_agent: str, address: str) -> str:
    """A new session of the person; returns its id, for the cookie. Ends the oldest above three.

    The content takes over the note a person had typed when an earlier session ran out.
    """
    kept = first(db, _KEPT, s=staff_id)
    run(db, _END_EXPIRED, s=staff_id, idle=IDLE_MINUTES, most=ABSOLUTE_HOURS)
    return _insert(db, staff_id, user_agent, address, {"kept": kept["kept"]} if kept else {}, None)


def begin_half(
    db: Connection, staff_id: UUID, user_agent: str, address: str, waits_for: str, content: dict[str, Any]
) -> str:
    """A session that opens nothing but the page of a second `factor`, or of its `enrolment`; returns its id, for the cookie.

    It ends no whole session: whoever has only the password signs nobody out.
    """
    return _insert(db, staff_id, user_agent, address, content, waits_for)


def _insert(
    db: Connection, staff_id: UUID, user_agent: str, address: str, more: dict[str, Any], waits_for: str | None
) -> str:
    session_id = secrets.token_urlsafe(32)
    content = {"csrf_token": secrets.token_hex(20), "device": device_text(user_agent), **more}
    run(
        db, "INSERT INTO sessions (session_hash, staff_id, user_agent_hash, address, content, waits_for)"
        " VALUES (:h, :s, :a, :n, :c, :w)",
        h=digest_of(session_id), s=staff_id, a=_agent(user_agent), n=address[:64], c=Jsonb(content), w=waits_for,
    )  # fmt: skip
    run(db, _END_OLDEST, s=staff_id, most=MOST_OF_A_PERSON, half=waits_for is not None)
    return session_id


_KEPT: Final = """
    SELECT content->'kept' AS kept FROM sessions
    WHERE staff_id = :s AND ended_at IS NULL AND content ? 'kept' AND seen_at > now() - interval '12 hours'
    ORDER BY seen_at DESC LIMIT 1
"""
_END_EXPIRED: Final = """
    UPDATE sessions SET ended_at = now(), content = '{}' WHERE staff_id = :s AND ended_at IS NULL
    AND (seen_at + make_interval(mins => :idle) <= now() OR created_at + make_interval(hours => :most) <= now())
"""
_END_OLDEST: Final = """
    UPDATE sessions SET ended_at = now(), content = '{}' WHERE session_hash IN (
        SELECT session_hash FROM sessions WHERE staff_id = :s AND ended_at IS NULL AND (waits_for IS NOT NULL) = :half
        ORDER BY created_at DESC, session_hash OFFSET :most)
"""


def keep_note(db: Connection, digest: bytes, path: str, note: str) -> None:
    """Puts what was typed on a page into its session that ran out, for the person's next one."""
    kept = Jsonb({"kept": {"path": path, "note": mask_card_numbers(note)}})
    run(
        db, "UPDATE sessions SET content = content || :kept WHERE session_hash = :h AND ended_at IS NULL",
        kept=kept, h=digest,
    )  # fmt: skip


def end(db: Connection, digest: bytes) -> None:
    """Ends one session and empties it."""
    run(
        db, "UPDATE sessions SET ended_at = coalesce(ended_at, now()), content = '{}' WHERE session_hash = :h", h=digest
    )  # fmt: skip


def end_of_person(db: Connection, staff_id: UUID, digest: bytes | None = None) -> int:
    """Ends every open session of a person, or the one of them named by `digest`; returns how many."""
    return run(
        db,
        "UPDATE sessions SET ended_at = now(), content = '{}' WHERE staff_id = :s AND ended_at IS NULL"
        " AND (CAST(:h AS bytea) IS NULL OR session_hash = :h)",
        s=staff_id, h=digest,
    )  # fmt: skip


def end_others(db: Connection, staff_id: UUID, digest: bytes) -> int:
    """Ends every open session of a person but the one named; returns how many."""
    return run(
        db, "UPDATE sessions SET ended_at = now(), content = '{}' WHERE staff_id = :s AND ended_at IS NULL"
        " AND session_hash <> :h", s=staff_id, h=digest,
    )  # fmt: skip


def open_sessions(db: Connection, staff_id: UUID) -> list[RowMapping]:
    """The person's sessions that still open something, newest first."""
    return rows(db, _OPEN, s=staff_id, idle=IDLE_MINUTES, most=ABSOLUTE_HOURS)


_OPEN: Final = """
    SELECT session_hash, created_at, seen_at, address, content->>'device' AS device,
        least(seen_at + make_interval(mins => :idle), created_at + make_interval(hours => :most)) AS ends_at
    FROM sessions WHERE staff_id = :s AND ended_at IS NULL AND waits_for IS NULL
        AND seen_at + make_interval(mins => :idle) > now() AND created_at + make_interval(hours => :most) > now()
    ORDER BY created_at DESC
"""


def digest_of(session_id: str) -> bytes:
    """What the database knows of an id."""
    return hashlib.sha256(session_id.encode("ascii")).digest()


def mark_of(digest: bytes) -> str:
    """Names a session or key in an address without showing what the database finds it by."""
    return hashlib.sha256(b"mark" + bytes(digest)).hexdigest()[:24]


def device_text(user_agent: str) -> str:
    """A browser and a system as a person would name them: "Firefox on Linux"."""
    browsers = (("Edg/", "Edge"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
    systems = (
        ("Windows", "Windows"),
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    )
    browser = next((name for mark, name in browsers if mark in user_agent), "A browser")
    system = next((name for mark, name in systems if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser


def _agent(user_agent: str) -> bytes:
    return hashlib.sha256(user_agent.encode("utf-8", "surrogateescape")).digest()


def _shown_digest(request: Request) -> bytes | None:
    # Two cookies of that name cannot come from us: a __Host- cookie is one for its host.
    shown = request.cookies.getlist(COOKIE)
    return digest_of(shown[0]) if len(shown) == 1 and _ID.match(shown[0]) else None


def _door_signer(app: Flask) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(str(app.config["DOOR_KEY"]), salt="door")


def _read_door(app: Flask, request: Request) -> dict[str, Any]:
    shown = request.cookies.getlist(DOOR_COOKIE)
    if len(shown) != 1:
        return {}
    try:
        content = _door_signer(app).loads(shown[0], max_age=DOOR_SECONDS)
    except BadSignature:
        return {}
    return content if isinstance(content, dict) else {}


def _set(response: Response, name: str, text: str, max_age: int | None = None) -> None:
    response.set_cookie(name, text, max_age=max_age, secure=True, httponly=True, samesite="Lax", path="/")
