"""From what went wrong to the page that says so. No page shows a stack, SQL, a constraint or a header (S61)."""

import secrets
import traceback
from typing import Final

from flask import Flask, Response, g, make_response, render_template, request, url_for
from flask_wtf.csrf import CSRFError
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException, InternalServerError

from console.api import problems
from console.log import log
from console.routes import known_path, path_of
from ledger.errors import (
    AlreadyDecided,
    AlreadyRefunded,
    AskCustomer,
    BadInput,
    KeyInUse,
    KeyReused,
    LedgerError,
    MoreThanLeft,
    NotAllowed,
    NotEnoughMoneyLeft,
    NotFound,
    SamePerson,
    Stale,
    WrongState,
)

STATUS: Final[dict[type[LedgerError], int]] = {
    NotFound: 404, NotAllowed: 403, SamePerson: 403, Stale: 409, WrongState: 409, AlreadyDecided: 409, AlreadyRefunded: 409,
    AskCustomer: 409, MoreThanLeft: 409, NotEnoughMoneyLeft: 409, KeyInUse: 409, KeyReused: 422, BadInput: 422,
}  # fmt: skip
_SHOWN: Final = frozenset({400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503})
RETRY_SECONDS: Final = 5
# Somebody else was in the way, or the server goes down or comes up: nothing was done.
_PASSING: Final = frozenset(
    {"40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "25P03", "53300", "08006", "08001", "08003"}
)


def answer_errors(app: Flask) -> None:
    """Registers a page for everything that can go wrong in a view."""
    app.register_error_handler(LedgerError, _of_ledger)
    app.register_error_handler(CSRFError, _of_csrf)
    app.register_error_handler(HTTPException, _of_http)
    app.register_error_handler(DBAPIError, _of_database)
    app.register_error_handler(PoolTimeout, _of_full_pool)
    app.register_error_handler(Exception, _of_unexpected)


def error_page(
    status: int, detail: str = "", *, reference: str = "", retry_after_seconds: int | None = None
) -> Response:
    """The page of one error; `detail` is a sentence of ours about this very case, or "" for the usual one."""
    text = render_template(
        "error.html",
        error={
            "status": status,
            "reference": reference or new_reference(),
            "detail": detail,
            "retry_after_seconds": retry_after_seconds,
            "home_url": _home(status),
            "back_url": _back(status),
        },
    )
    response = make_response(text, status)
    if retry_after_seconds:
        response.headers["Retry-After"] = str(retry_after_seconds)
    return response


def new_reference() -> str:
    """What a person reads out to find the record of an error."""
    return secrets.token_hex(5).upper()


def _of_ledger(error: LedgerError) -> Response:
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 409)
    if status == 404:
        return error_page(404)
    log.info("refused", reason=error.code, status=status, endpoint=request.endpoint, **_who())
    return error_page(status, error.sentence, retry_after_seconds=RETRY_SECONDS if error.again else None)


def _of_csrf(_error: CSRFError) -> Response:
    log.warning("refused", reason="csrf", status=400, endpoint=request.endpoint, **_who())
    return error_page(400)


def _of_http(error: HTTPException) -> Response:
    if error.response is not None:
        return make_response(error.response)
    if request.path.startswith("/api/"):
        return problems.of_http(error)
    status = error.code or 500
    if status == 405:
        response = error_page(405)
        response.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return response
    if status in (301, 302, 303, 307, 308):
        return make_response(error.get_response())
    return error_page(status if status in _SHOWN else (400 if status < 500 else 500))


def _of_database(error: DBAPIError) -> Response:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if isinstance(error, IntegrityError):
        # A guard of the database held where the code did not foresee it: nothing of this request was kept.
        log.error("guard_held", sqlstate=state, where=_where(error), endpoint=request.endpoint, **_who())
        return error_page(409)
    if error.connection_invalidated or state in _PASSING or not state:
        log.warning("try_again", sqlstate=state, endpoint=request.endpoint, **_who())
        return error_page(503, retry_after_seconds=RETRY_SECONDS)
    return _of_unexpected(error)


def _of_full_pool(_error: PoolTimeout) -> Response:
    log.warning("try_again", reason="pool", endpoint=request.endpoint, **_who())
    return error_page(503, retry_after_seconds=RETRY_SECONDS)


def _of_unexpected(error: Exception) -> Response:
    if isinstance(error, InternalServerError) and isinstance(error.original_exception, Exception):
        error = error.original_exception
    reference = new_reference()
    log.error(
        "unexpected", reference=reference, error=type(error).__name__, where=_where(error), endpoint=request.endpoint,
        method=request.method, **_who(),
    )  # fmt: skip
    return error_page(500, reference=reference)


def _where(error: BaseException) -> str:
    """Files and lines from the raise outwards, without any value."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))


def _who() -> dict[str, str]:
    member = g.get("member")
    return {"staff_id": str(member.staff_id), "merchant": member.slug} if member else {}


def _home(status: int) -> str | None:
    """The start, which asks whoever is signed out to sign in; a wrong address is met before anybody is known."""
    return url_for("home.index") if g.get("person") or status == 404 else None


def _back(status: int) -> str | None:
    if status == 401:
        return url_for("sign_in.sign_in")
    return known_path(path_of(request.headers.get("Referer")))
