"""What a machine reads about this API: `GET /openapi.json`, and one page per kind of problem.

The schemas of bodies are those of the models that read them, so the description cannot say what the code does not do.
"""

import json
from functools import cache
from typing import Any, Final

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import MethodNotAllowed

from console import access
from console.api import problems
from console.api.answers import STAGE_WORDS
from console.api.bodies import Body, ChargesBody, FactBody, ParcelBody, PhotoBody, ReceiptBody, ReturnBody
from console.api.problem_kinds import KINDS
from console.gate import without_form
from ledger.errors import NotFound
from ledger.order_facts import OrderFacts

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
_COMMON: Final = (
    "bad-token",
    "two-identities",
    "token-in-address",
    "not-allowed",
    "too-many-guesses",
    "internal",
    "try-again",
)
_BODY: Final = ("malformed-json", "other-merchant", "too-large", "not-json", "bad-input")
_KEY: Final = ("key-missing", "idempotency-key-in-use", "idempotency-key-reused")
_CASE: Final = {"type": "string", "pattern": "^C-[0-9]{1,15}$"}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string"}
_STAGE: Final = {"type": "string", "enum": sorted(STAGE_WORDS)}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_MONEY: Final = {"amount_minor": _COUNT, "currency": {"type": "string", "pattern": "^[A-Z]{3}$"}}
# Paid back through the provider, released because it was never taken, or paid back by hand.
_ACT: Final = {"enum": ["refund", "cancel_payment", "manual"]}
_PAID_EARLIER: Final = _object(
    {"act": _ACT, **_MONEY, "paid_at": _INSTANT, "channel": _TEXT, "desk": _TEXT, "case": _CASE, "reference": _TEXT}
)
_OLDER_CASE: Final = _object({"case": _CASE, "channel": _TEXT, "opened_at": _INSTANT})
_REFUND: Final = _object(
    {
        "reference": _TEXT,
        "bank_reference": {"type": ["string", "null"]},
        "act": _ACT,
        **_MONEY,
        "state": _TEXT,
        "since": _INSTANT,
    }
)
SCHEMAS: Final[dict[str, Any]] = {
    "OrderResult": _object(
        {"order": _TEXT, "result": {"enum": ["created", "updated", "unchanged"]}, "discrepancies": _list(_TEXT)}
    ),
    "Opened": _object({"case": _CASE, "result": {"enum": ["opened", "joined"]}, "order": _TEXT}),
    "Reported": _object({"case": _CASE, "stage": _STAGE, "stage_words": _TEXT}),
    "PutAside": _object({"receipt": {"type": "string", "pattern": "^P-[0-9]{1,15}$"}, "matched": {"const": False}, "to_do": _TEXT}),
    "Standing": _object({
        "case": _CASE, "order": _TEXT, "stage": _STAGE, "stage_words": _TEXT, "to_customer": _TEXT,
        "lines": _list(_object({"line": _TEXT, "quantity": _COUNT})), "received": _COUNT, "opened_at": _INSTANT,
    }, paid=_list(_object(_MONEY)), refunds=_list(_REFUND), closed_at={"type": ["string", "null"]}, withheld=_TEXT),
    "Problem": {
        "type": "object", "required": ["type", "title", "status", "detail", "code", "what_to_do"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"}, "title": _TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599}, "detail": _TEXT,
            "code": {"enum": sorted(KINDS)}, "what_to_do": _TEXT, "reference": _TEXT,
            "errors": _list(_object({"field": _TEXT, "say": _TEXT})), "cases": _list(_OLDER_CASE),
            "refunds": _list(_PAID_EARLIER), "lines": _list({"type": "object"}),
        },
    },
}  # fmt: skip


_REFUSED_REPORT: Final = ("not-found", "wrong-state", "refused")
_REPORTS: Final[tuple[tuple[str, str, str, type[Body]], ...]] = (
    ("parcels", "report_a_parcel", "Say that a parcel is on its way back", ParcelBody),
    ("facts", "state_a_fact", "Say what else is known of a case", FactBody),
    ("photos", "add_a_photo", "Add a picture of what comes back", PhotoBody),
)


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    schemas = dict(SCHEMAS)
    for model in (OrderFacts, ReturnBody, ChargesBody, ReceiptBody, ParcelBody, PhotoBody, FactBody):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    # The reference of an order may be left out: the address has it.
    schemas["OrderFacts"]["required"].remove("external_ref")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Onceback", "version": "1", "description": "Orders and returns of one merchant, and their goods."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": {
            "/api/v1/orders/{external_ref}": {"put": _put_order()},
            "/api/v1/returns": {"post": _post("open_a_return", "Open a return, or join the one that is open", ReturnBody, "Opened",
                (200, 201), ("not-found", "ask-customer", "already-refunded", "more-than-left", "refused"))},
            "/api/v1/returns/{number}": {"get": _get_return()},
            "/api/v1/duplicate-charges": {"post": _post("open_about_charges", "Open a case about charges, or join it",
                ChargesBody, "Opened", (200, 201), ("not-found", "already-refunded", "refused"))},
            **{f"/api/v1/{address}": {"post": _post(name, summary, body, "Reported", (201,), _REFUSED_REPORT)}
               for address, name, summary, body in _REPORTS},
            "/api/v1/receipts": {"post": _post_receipt()},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "ob_<environment>_<id>_<secret>"}},
        },
    }  # fmt: skip


def _path(name: str, pattern: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": pattern}}


def _put_order() -> dict[str, Any]:
    refusals = _refusals(*_COMMON, *_BODY, "order-conflict", "payment-taken", "no-provider-account")
    return {
        "operationId": "put_order", "summary": "State an order; the same again changes nothing",
        "parameters": [_path("external_ref", "^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")],
        "requestBody": _content("OrderFacts"),
        "responses": {"201": _answer("OrderResult"), "200": _answer("OrderResult"), **refusals},
    }  # fmt: skip


def _get_return() -> dict[str, Any]:
    return {
        "operationId": "show_return", "summary": "How a return stands that this token opened or joined",
        "parameters": [_path("number", "^C-[0-9]{1,15}$")],
        "responses": {"200": _answer("Standing"), **_refusals(*_COMMON, "not-found")},
    }  # fmt: skip


def _post_receipt() -> dict[str, Any]:
    found = _post("report_receipt", "Say what arrived", ReceiptBody, "Reported", (201,), ("refused",))
    found["responses"]["202"] = _answer("PutAside")
    return found


def _post(
    name: str, summary: str, body: type[Body], answer: str, statuses: tuple[int, ...], refusals: tuple[str, ...]
) -> dict[str, Any]:
    key = {"name": "Idempotency-Key", "in": "header", "required": True,
           "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
           "description": "A new random key for each request, and the same one when it is repeated."}  # fmt: skip
    return {
        "operationId": name, "summary": summary, "parameters": [key], "requestBody": _content(body.__name__),
        "responses": {**{str(status): _answer(answer) for status in statuses}, **_refusals(*_COMMON, *_BODY, *_KEY, *refusals)},
    }  # fmt: skip


def _content(name: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}


def _answer(name: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {"description": name, "content": content}


def _refusals(*codes: str) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for code in codes:
        found.setdefault(str(KINDS[code].status), []).append(code)
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": ", ".join(sorted(named)), "content": content} for status, named in found.items()}


@access.public("describes the API and holds nothing of a merchant")
def show_openapi() -> Response:
    """The description as JSON."""
    return Response(json.dumps(openapi()), content_type="application/json")


@access.public("describes a kind of problem and holds nothing of a merchant")
def show_problem(code: str) -> Response:
    """One kind of problem: status, title and what to do. Raises NotFound."""
    kind = KINDS.get(code)
    if kind is None:
        raise NotFound
    told = {"code": code, "status": kind.status, "title": kind.title, "what_to_do": kind.what_to_do}
    return Response(json.dumps(told), content_type="application/json")


@without_form
@access.public("answers for addresses of the API that do not exist")
def show_nothing(path: str = "") -> Response:
    """404, or 405 for an address that takes other methods. Raises either."""
    addresses = current_app.url_map.bind("api.invalid")
    own = f"{request.blueprint}.show_nothing"
    known = [
        method
        for method in METHODS
        if addresses.test(request.path, method) and addresses.match(request.path, method)[0] != own
    ]
    if known:
        raise MethodNotAllowed(known)
    raise NotFound


def add_to(blueprint: Blueprint) -> None:
    """Adds the routes of the description, and what answers for every other address of the API."""
    off: dict[str, Any] = {"provide_automatic_options": False}
    blueprint.add_url_rule("/openapi.json", "show_openapi", show_openapi, methods=["GET"], **off)
    blueprint.add_url_rule("/problems/<code>", "show_problem", show_problem, methods=["GET"], **off)
    blueprint.add_url_rule("/", "show_nothing", show_nothing, methods=METHODS, **off)
    blueprint.add_url_rule("/<path:path>", "show_nothing", show_nothing, methods=METHODS, **off)
