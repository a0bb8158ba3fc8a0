"""The description against the code: requests made from it, good and bad, are answered as it says."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from console.api.openapi import openapi
from ledger import api_tokens
from tests.api.conftest import Caller, fact, wish
from tests.api.paying import paid
from tests.api.web import web_app
from tests.lives import count
from tests.stack import Server, Stack, fresh_stack
from tests.world import Token, World, build_world

# Enough that each field is once wrong in each way, within some seconds.
EXAMPLES = 25
CHECKS: list[Any] = [
    schemathesis.checks.not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, negative_data_rejection,
]  # fmt: skip
GOOD, BAD = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
OPERATIONS = {
    "put_order": ("PUT", "/api/v1/orders/{external_ref}", "shop"),
    "open_a_return": ("POST", "/api/v1/returns", "chat"),
    "open_about_charges": ("POST", "/api/v1/duplicate-charges", "chat"),
    "show_return": ("GET", "/api/v1/returns/{number}", "chat"),
    "report_receipt": ("POST", "/api/v1/receipts", "warehouse"),
    "report_a_parcel": ("POST", "/api/v1/parcels", "warehouse"),
    "state_a_fact": ("POST", "/api/v1/facts", "warehouse"),
    "add_a_photo": ("POST", "/api/v1/photos", "warehouse"),
}


@pytest.fixture(scope="module")
def stack(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        yield made


@pytest.fixture(scope="module")
def world(stack: Stack) -> World:
    return build_world(stack)


@pytest.fixture(scope="module")
def app(stack: Stack, world: World) -> Flask:
    assert world.slug
    return web_app(stack, public_origin="http://localhost")


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up references are all unknown; their limit has a test of its own."""
    monkeypatch.setattr(api_tokens, "MAX_MISSES", 10**9)


def test_every_operation_of_the_description_is_tried(app: Flask) -> None:
    described = {
        operation["operationId"]: (method.upper(), path)
        for path, item in openapi()["paths"].items()
        for method, operation in item.items()
    }
    assert described == {name: (method, path) for name, (method, path, _) in OPERATIONS.items()}
    served = fact(Caller(app, None).get("/openapi.json"))
    assert served == openapi()


@pytest.mark.parametrize("mode", [GOOD, BAD], ids=["good", "bad"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("unlimited")
def test_made_up_requests_are_answered_as_described(app: Flask, world: World, name: str, mode: Any) -> None:
    method, path, channel = OPERATIONS[name]
    token: Token = getattr(world, channel)
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    strategy = schema[path][method].as_strategy(mode)

    @seed(20417)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def tried(case: Any) -> None:
        # Another host is refused at the door, in plain words, before it is known to be a call of the API (S57).
        for made_up in [header for header in case.headers or () if header.lower() == "host"]:
            del case.headers[made_up]
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {token.text}"}, checks=CHECKS)
        statuses[answer.status_code] += 1

    statuses: Counter[int] = Counter()
    tried()
    # What answered was the operation itself. Bad requests may be bad in their token, or no JSON, too.
    answered = statuses[200] + statuses[201] + statuses[404] + statuses[422]
    assert answered >= EXAMPLES // (8 if mode is BAD else 4)
    assert mode is BAD or not statuses.keys() & {401, 403, 429}


@pytest.mark.usefixtures("unlimited")
def test_what_a_channel_really_gets_has_the_shape_described(app: Flask, stack: Stack, world: World) -> None:
    """Made-up requests seldom find an order; these do."""
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    chat, warehouse = Caller(app, world.chat), Caller(app, world.warehouse)
    opened = chat.post("/returns", wish(("TEE", 1), reference="r-1"))
    case = fact(opened)["case"]
    proven = fact(chat.open(("LAMP", 1), reference="r-5", customer="C-1001"))["case"]
    paid(stack, world, proven, ("LAMP", 1))
    answers = {
        ("POST", "/api/v1/returns"): [opened, chat.post("/returns", wish(("TEE", 1), reference="r-2")),
                                      chat.post("/returns", wish(("TEE", 9), reference="r-3")),
                                      chat.post("/returns", wish(("TEE", 1), reference="r-4", customer="C-1001"))],
        ("GET", "/api/v1/returns/{number}"): [chat.get(f"/returns/{case}"), chat.get(f"/returns/{proven}")],
        ("POST", "/api/v1/receipts"): [warehouse.post("/receipts", {"case": case, "lines": [{"line": "TEE", "received": 1}]})],
    }  # fmt: skip
    assert [answer.status_code for found in answers.values() for answer in found] == [201, 409, 409, 409, 200, 200, 201]
    for (method, path), found in answers.items():
        for answer in found:
            schema[path][method].validate_response(answer)
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") >= 1
