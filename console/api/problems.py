"""Problem documents (RFC 9457): every refusal of the API in one shape, saying what to do, with the facts it rests on.

`type` is the path of this API where the kind of problem is described. Nothing of the database, no header and no stack is
ever in one; an error nobody expected carries a reference that the log has too (S61).
"""

import json
import secrets
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Response, request
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from console.api.problem_kinds import KINDS
from console.log import log
from console.sessions import COOKIE
from ledger.errors import (
    AlreadyRefunded,
    AskCustomer,
    BadInput,
    KeyInUse,
    KeyReused,
    LedgerError,
    MoreThanLeft,
    NotAllowed,
    NotFound,
    WrongState,
)
from ledger.orders import NoProviderAccount

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Exception):
    """A refusal that the API itself makes; `code` is one of KINDS."""

    def __init__(self, code: str, detail: str, *, headers: dict[str, str] | None = None, **facts: Any) -> None:
        self.code, self.detail, self.facts, self.headers = code, detail, facts, headers or {}
        super().__init__(detail)


def document(code: str, detail: str, **facts: Any) -> dict[str, Any]:
    """The problem document of one refusal, as JSON values."""
    kind = KINDS[code]
    return {
        "type": f"/api/v1/problems/{code}", "title": kind.title, "status": kind.status, "detail": detail, "code": code,
        "what_to_do": kind.what_to_do, **facts,
    }  # fmt: skip


def respond(problem: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """The response that carries a problem document."""
    answer = Response(json.dumps(problem), status=problem["status"], content_type=MEDIA_TYPE)
    answer.headers.update(headers or {})
    return answer


def of_problem(problem: Problem) -> Response:
    return respond(document(problem.code, problem.detail, **problem.facts), problem.headers)


# In the order they are asked: a subclass comes before its base.
_CODES: Final[tuple[tuple[type[LedgerError], str], ...]] = (
    (BadInput, "bad-input"), (NotFound, "not-found"), (NotAllowed, "not-allowed"), (KeyInUse, "idempotency-key-in-use"),
    (KeyReused, "idempotency-key-reused"), (AskCustomer, "ask-customer"), (AlreadyRefunded, "already-refunded"),
    (MoreThanLeft, "more-than-left"), (WrongState, "wrong-state"), (NoProviderAccount, "no-provider-account"),
)  # fmt: skip


def ledger_document(error: LedgerError, *, proven: bool = False) -> dict[str, Any]:
    """The problem document of a refusal of the ledger, with those of its facts that a channel may know.

    Without the customer's proof it counts units and says no more: no case, amount, time or reference (S63).
    """
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "refused")
    if isinstance(error, NotFound):
        return document(code, KINDS[code].what_to_do)
    facts: dict[str, Any] = {}
    if isinstance(error, BadInput):
        field, _, say = error.sentence.partition(": ")
        facts["errors"] = [{"field": field, "say": say}]
    if "lines" in error.facts and not proven:
        facts["lines"] = [{name: line[name] for name in _COUNTS if name in line} for line in error.facts["lines"]]
        return document(code, error.sentence, **facts, **_WITHHELD.get(code, {}))
    if "lines" in error.facts:
        facts["lines"] = error.facts["lines"]
    if "cases" in error.facts:
        facts["cases"] = [_plain(case, ("case", "channel", "opened_at")) for case in error.facts["cases"]]
    if "refunds" in error.facts:
        facts["refunds"] = [_refund(refund) for refund in error.facts["refunds"]]
    return document(code, error.sentence, **facts)


_COUNTS: Final = ("line", "asked", "bought", "left", "in_open_cases", "refunded")
_PROVE: Final = "Details are for a proven customer: send `customer` or conversation.customer_verified with a new key."
_WITHHELD: Final[dict[str, dict[str, str]]] = {
    "already-refunded": {"what_to_do": f"Nothing is sent again. {_PROVE}"},
    "ask-customer": {"what_to_do": f"{KINDS['ask-customer'].what_to_do} {_PROVE}"},
    "more-than-left": {"what_to_do": f"{KINDS['more-than-left'].what_to_do} {_PROVE}"},
}


def of_ledger(error: LedgerError) -> Response:
    return respond(ledger_document(error), {"Retry-After": "1"} if error.again else {})


def _refund(refund: dict[str, Any]) -> dict[str, Any]:
    """P18 for a channel: what, when, through which channel, by which desk, under which reference. Never the person (S63)."""
    return {
        "act": refund["act"], "amount_minor": refund["amount_minor"], "currency": refund["currency"],
        "paid_at": _json(refund["state_at"]),
        "channel": refund["channel"], "case": f"C-{refund['case_number']}",
        "desk": "returns desk" if refund["intent_id"] else "outside Onceback, in the provider's dashboard",
        "reference": refund["provider_refund_ref"] or f"R-{refund['number']}",
    }  # fmt: skip


def _plain(fact: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _json(fact[name]) for name in names}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, UUID) else value


_HTTP: Final = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}


def of_http(error: HTTPException) -> Response:
    """What the framework refuses, in our words."""
    code = _HTTP.get(error.code or 500, "malformed-json" if (error.code or 500) < 500 else "internal")
    if error.code == 400 and COOKIE in request.cookies:
        code = "two-identities"
    detail = f"{request.method} is not taken here." if code == "method-not-allowed" else KINDS[code].title + "."
    allowed = getattr(error, "valid_methods", None)
    return respond(document(code, detail), {"Allow": ", ".join(sorted(allowed))} if allowed else {})


# Another request was in the way, or the server is going down or up: the same call may be made again, under its key.
_PASSING: Final = ("40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "25P03", "53300")


def of_database(error: DBAPIError) -> Response:
    """A database that was busy or away is 503; anything else is an error of ours.

    A connection that is lost while it commits does not tell whether it did: the same call under its key does.
    """
    state = getattr(error.orig, "sqlstate", None)
    if error.connection_invalidated or state in _PASSING or (state is None and not isinstance(error, IntegrityError)):
        log.warning("api_try_again", reason=state or "connection")
        lost = error.connection_invalidated or state is None
        said = "Whether the request was carried out is not known here." if lost else "The request was not carried out."
        return respond(document("try-again", said), {"Retry-After": "1"})
    return of_unexpected(error)


def of_full_pool(_error: PoolTimeout) -> Response:
    """Every connection of this process is in use."""
    log.warning("api_try_again", reason="pool")
    return respond(document("try-again", "The request was not carried out."), {"Retry-After": "1"})


def of_unexpected(error: Exception) -> Response:
    """An error nobody expected: a reference for the caller, the kind of error for the log, nothing else."""
    reference = secrets.token_hex(6)
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    log.error("api_error", reference=reference, reason=type(error).__name__, sqlstate=state)
    return respond(document("internal", f"The reference is {reference}.", reference=reference))
