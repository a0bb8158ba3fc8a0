"""What happens before any view, in this order: who asks, was the form ours, may they, then the request counts as activity.

A view that states `public` sees no row of a session; a `token` view (API) ignores cookies altogether. For the rest the
session, its person and the membership in the merchant of the path are read in one READ ONLY transaction. An act on money
from another network than the session began in is answered as if the session were over; reading goes on (S13).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from flask import Flask, Response, abort, current_app, g, make_response, redirect, request, url_for
from flask_login import LoginManager
from flask_wtf.csrf import CSRFProtect, validate_csrf
from sqlalchemy import RowMapping
from wtforms import ValidationError

from console import sessions
from console.access import MERCHANT, MONEY_ACTS, PERMISSIONS, Member, Stated, stated
from console.forms import KEPT
from console.fragments import asked_for_part
from console.installation import installed
from console.log import log
from console.networks import same_network
from console.routes import known_path, path_of
from console.sessions import ConsoleSession, Person, Visit
from ledger.database import commit_later, run_later, together, transaction
from ledger.errors import NotAllowed, NotFound

POLL_HEADER: Final = "Onceback-Poll"
LONGEST_NOTE: Final = 2000
KEEP_NOTE: Final = "sign_in.keep_note"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

csrf = CSRFProtect()


def guard(app: Flask) -> None:
    """Puts the gate before every view of the app."""
    csrf.init_app(app)
    logins = LoginManager(app)
    # 0.6.3 would hash the first X-Forwarded-For, which anyone can send; `sessions.visit` compares the browser instead.
    app.config["SESSION_PROTECTION"] = None
    logins.request_loader(lambda _request: g.get("person"))
    app.url_value_preprocessor(_take_merchant)
    app.before_request(_enter)


def _take_merchant(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    g.merchant_slug = (values or {}).pop(MERCHANT, None)


def _enter() -> Response | None:
    if request.endpoint is None:
        return None
    if any("\0" in text for text in (request.path, *request.args.values())):
        # No address of ours has it, and no row: else the database would be asked, and say no more than "try again".
        abort(400)
    said = stated(current_app.view_functions[request.endpoint])
    if said is None:
        raise RuntimeError(f"{request.endpoint} states no access")
    g.stated = said
    if said.kind == "token":
        return None
    if request.method not in _SAFE and not _exempt():
        _refuse_foreign_origin()
    if said.kind == "public":
        if not _exempt():
            csrf.protect()
        return None
    return _enter_as_person(said)


def _enter_as_person(said: Stated) -> Response | None:
    asked = sessions.own()
    if asked.digest is None:
        return _to_sign_in(asked, None)
    with transaction(installed().engine, read_only=True) as db, together(db):
        visit = sessions.visit_later(db, asked.digest, request.user_agent.string)
        memberships = run_later(db, _MEMBER, slug=g.merchant_slug or "")
        commit_later(db)
    found = sessions.as_visit(visit.first())
    if found is None or found.fault:
        return _to_sign_in(asked, found)
    memberships_row = memberships.first()
    member = _member(found, memberships_row)
    asked.adopt(found.content)
    g.person = Person(found)
    if found.waits_for not in said.half:
        return _to_its_step(found.waits_for)
    if said.most_bytes and member is not None and member.role in PERMISSIONS[said.text]:
        # The check below reads the body; the rest of the form needs no more than any other does.
        request.max_content_length = said.most_bytes + int(current_app.config["MAX_CONTENT_LENGTH"])
    csrf.protect()
    if g.merchant_slug:
        if member is None:
            raise NotFound
        if found.waits_for == "" and _lacks_factor(memberships_row):
            return _to_sign_in(asked, replace(found, fault="factor"))
        g.member = member
        if member.role not in PERMISSIONS[said.text]:
            raise NotAllowed
    if said.text in MONEY_ACTS and request.method not in _SAFE and _moved(found):
        log.warning("network_changed", staff_id=found.staff_id, address=request.remote_addr, reason=said.text)
        return _to_sign_in(asked, replace(found, fault="network"))
    if found.rested and not (said.polling or request.headers.get(POLL_HEADER)):
        with transaction(installed().engine) as db:
            sessions.touch(db, asked.digest)
    return None


def _to_its_step(waits_for: str) -> Response:
    """To the page of what a session waits for; a whole one has nothing to do there."""
    address = url_for(_STEPS[waits_for])
    if request.headers.get("HX-Request") == "true":
        return Response(status=401, headers={"HX-Redirect": address})
    return make_response(redirect(address, 303))


_STEPS: Final = {"": "home.index", "factor": "second_factor.index", "enrolment": "enrolment.index"}


def _lacks_factor(row: RowMapping | None) -> bool:
    return row is not None and bool(row["lacks_factor"])


def _moved(found: Visit) -> bool:
    return not same_network(found.address, request.remote_addr or "")


def _member(visit: Visit, row: RowMapping | None) -> Member | None:
    if row is None:
        return None
    return Member(
        visit.staff_id, visit.name, visit.email, row["role"], row["id"], row["slug"], row["name"], row["zone"],
        row["livemode"],
    )  # fmt: skip


# Of the person whom `sessions.visit_later` pinned.
_MEMBER: Final = """
    SELECT m.role, t.id, t.slug, t.name, t.zone, coalesce((SELECT livemode FROM deployment), false) AS livemode,
        asks_for_factor(t.second_factor, m.role) AND NOT has_factor(m.staff_id) AS lacks_factor
    FROM memberships m JOIN merchants t ON t.id = m.merchant_id
    WHERE m.staff_id = NULLIF(current_setting('onceback.staff', true), '')::uuid AND m.ended_at IS NULL AND t.slug = :slug
"""


def _to_sign_in(asked: ConsoleSession, found: Visit | None) -> Response:
    """To the sign-in page and back: htmx by 401 and HX-Redirect, a browser by 303. A typed note is kept for its author."""
    if found is not None and found.fault in ("idle", "over", "network", "factor"):
        kept = _keep_note(asked, found)
        if request.endpoint == KEEP_NOTE:
            # The sign-in page may be open by now: its cookie is left alone.
            return Response(status=204)
        asked["ended"] = {"kept": kept, "fault": found.fault}
    elif asked.digest is not None:
        asked.drop_cookie = True
        if found is not None and found.fault == "slow":
            asked["ended"] = {"kept": "", "fault": "slow"}
        if found is not None and found.fault == "agent":
            with transaction(installed().engine) as db:
                sessions.end(db, asked.digest)
    address = url_for("sign_in.sign_in", next=_page_asked_for())
    if request.headers.get("HX-Request") == "true":
        return Response(status=401, headers={"HX-Redirect": address})
    return make_response(redirect(address, 303))


def _page_asked_for() -> str | None:
    """The page to come back to: this one, or for a form or a part the page that it stood on."""
    if request.method in ("GET", "HEAD") and not asked_for_part():
        asked: str | None = request.full_path.rstrip("?")
    else:
        asked = path_of(request.headers.get("HX-Current-URL") or request.headers.get("Referer"))
    return known_path(asked) if asked != "/" else None


def _keep_note(asked: ConsoleSession, found: Visit) -> str:
    """Keeps the `note` of a form whose token is that of the session that ran out; returns what to call it.

    Afterwards the request has the content of the door, and its session's row is left as it is.
    """
    note = request.form.get("note", "").strip()[:LONGEST_NOTE] if request.method == "POST" else ""
    path = known_path(path_of(request.headers.get("Referer")))
    door = {} if asked.live else dict(asked)
    if not note or not path or asked.digest is None:
        _back_to_door(asked, door)
        return "Your note" if KEPT in found.content else ""
    asked_content = found.content
    asked.adopt(asked_content)
    try:
        validate_csrf(request.form.get("csrf_token"))
    except ValidationError:
        note = ""
    finally:
        _back_to_door(asked, door)
    if not note:
        return ""
    with transaction(installed().engine) as db:
        sessions.keep_note(db, asked.digest, urlsplit(path).path, note)
    return "Your note"


def _back_to_door(asked: ConsoleSession, door: dict[str, Any]) -> None:
    asked.adopt(door)
    asked.live = False


def _refuse_foreign_origin() -> None:
    """S54: what the browser itself says about where a request came from, beside the token in the form."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site != "same-origin":
            abort(400)
        return
    if request.headers.get("Origin") != installed().settings.public_origin:
        abort(400)


def _exempt() -> bool:
    return getattr(current_app.view_functions[str(request.endpoint)], "without_form", False) is True


def without_form(view: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a public view that the browser or a provider posts to without a form of ours: no CSRF token, no origin."""
    view.without_form = True  # type: ignore[attr-defined]
    return view
