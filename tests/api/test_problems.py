"""RFC 9457 on every road out: what cannot be read, what is not there, what is too large."""

import json

import pytest
from flask import Flask

from console.access import stated
from console.api.bodies import MAX_BODY_BYTES, Grade, Reason
from console.api.openapi import openapi
from console.api.problem_kinds import KINDS
from ledger.cases import REASONS
from ledger.errors import LedgerError
from ledger.evidence import GRADES
from tests.api.conftest import Caller, fact, wish

KEY = {"Idempotency-Key": "k", "Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed-json"),
        (b"{", 400, "malformed-json"),
        (b"[]", 400, "malformed-json"),
        (b'"order"', 400, "malformed-json"),
        (b'{"order": "A-1", "order": "A-2"}', 400, "malformed-json"),
        (b'{"conversation": {"reference": "a", "reference": "b"}}', 400, "malformed-json"),
        (b'{"order": NaN}', 400, "malformed-json"),
        (b'{"order": Infinity}', 400, "malformed-json"),
        (b"\xff\xfe", 400, "malformed-json"),
        (b"[" * 20_000, 400, "malformed-json"),
        (b"{}", 422, "bad-input"),
        (b'{"order": "A\\u0000B"}', 422, "bad-input"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_words(chat: Caller, body: bytes, status: int, code: str) -> None:
    refused = chat.call("POST", "/api/v1/returns", data=body, headers=KEY)
    assert (refused.status_code, fact(refused)["code"]) == (status, code)


@pytest.mark.parametrize("quantity", [0, -1, 1.5, 1.0, "1", True, None, 10**7, 10**30])
def test_a_quantity_is_a_whole_number(chat: Caller, quantity: object) -> None:
    body = wish() | {"lines": [{"line": "TEE", "quantity": quantity}]}
    refused = chat.post("/returns", body)
    assert refused.status_code == 422
    assert fact(refused)["errors"][0]["field"] == "lines.0.quantity"


def test_hostile_text_is_stored_as_text_or_refused_never_an_error(chat: Caller) -> None:
    for text in ("'; DROP TABLE cases; --", "<script>alert(1)</script>", "line\nbreak", "🧵" * 100):
        body = wish(("TEE", 1), reference="talk-1")
        body["conversation"]["text"] = text
        assert chat.post("/returns", body).status_code in (200, 201)
    for text in ("a\u0000b", "\ud800", "x" * 4001, "bell\u0007"):
        body = wish(("TEE", 1))
        body["conversation"]["text"] = text
        assert chat.post("/returns", body).status_code == 422


def test_only_json_is_read(chat: Caller) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        refused = chat.call("POST", "/api/v1/returns", data=json.dumps(wish()), headers=KEY | {"Content-Type": kind})
        assert (refused.status_code, fact(refused)["code"]) == (415, "not-json")


def test_a_body_over_the_limit_is_refused_with_the_limit(chat: Caller) -> None:
    refused = chat.post("/returns", wish() | {"padding": "x" * MAX_BODY_BYTES})
    assert (refused.status_code, fact(refused)["code"]) == (413, "too-large")
    assert str(MAX_BODY_BYTES) in fact(refused)["detail"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_an_address_names_the_methods_it_takes(chat: Caller, method: str) -> None:
    refused = chat.call(method, "/api/v1/returns")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_an_address_that_is_not_there_is_a_problem_too(chat: Caller) -> None:
    for path in ("/api/v1/", "/api/v1/refunds", "/api/v1/returns/C-1/approve", "/api/v1/orders/A-1/x"):
        assert chat.call("POST", path, json={}).status_code == 404


def test_each_kind_of_problem_is_described_where_its_type_points(chat: Caller) -> None:
    for code, kind in KINDS.items():
        described = fact(chat.get(f"/problems/{code}"))
        assert described == {"code": code, "status": kind.status, "title": kind.title, "what_to_do": kind.what_to_do}
    assert chat.get("/problems/nothing").status_code == 404


def test_a_head_request_reads_and_writes_nothing(chat: Caller) -> None:
    case = fact(chat.open())["case"]
    answer = chat.call("HEAD", f"/api/v1/returns/{case}")
    assert (answer.status_code, answer.get_data()) == (200, b"")


def test_every_view_of_the_api_states_its_access(app: Flask) -> None:
    rules = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith(("/api/", "/hooks/"))]
    said = {rule.endpoint: stated(app.view_functions[rule.endpoint]) for rule in rules}
    assert all(said.values())
    assert {name: access.text for name, access in said.items() if access and access.kind == "token"} == {
        "api.put_order": "orders:import", "api.open_a_return": "cases:open", "api.open_about_charges": "cases:open",
        "api.show_return": "cases:read",
        "api.report_receipt": "receipts:write", "api.report_a_parcel": "evidence:write", "api.add_a_photo": "evidence:write",
        "api.state_a_fact": "evidence:write",
    }  # fmt: skip


def test_the_words_a_channel_may_use_are_those_of_the_ledger() -> None:
    assert Reason.__args__ == REASONS  # type: ignore[attr-defined]
    assert Grade.__args__ == GRADES  # type: ignore[attr-defined]


def test_every_refusal_of_the_ledger_becomes_a_whole_problem(app: Flask) -> None:
    from console.api.problems import of_ledger

    kinds, found = [LedgerError], []
    while kinds:
        kind = kinds.pop()
        found.append(kind)
        kinds += kind.__subclasses__()
    for kind in found:
        error = kind(*{"BadInput": ("field", "say"), "NoPolicy": ("missing",)}.get(kind.__name__, ()))
        with app.test_request_context():
            told = json.loads(of_ledger(error).get_data())
        assert 400 <= told["status"] < 500
        assert told["detail"]


def test_the_description_has_no_field_for_money_in_what_a_channel_sends() -> None:
    schemas = openapi()["components"]["schemas"]
    for name in (
        "ReturnBody",
        "AskedLine",
        "Conversation",
        "ReceiptBody",
        "ReceivedUnits",
        "GradedUnits",
        "ParcelBody",
        "PhotoBody",
    ):
        assert not any(
            word in field
            for field in schemas[name]["properties"]
            for word in ("amount", "minor", "currency", "destination")
        )
        assert schemas[name]["additionalProperties"] is False
