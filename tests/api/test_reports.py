"""Parcels and photos that systems report: once for each key, by the console's checks, never of another's case."""

import base64
import hashlib
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from PIL import Image
from werkzeug.test import TestResponse

from console.api import bodies, photos
from ledger.database import rows, transaction
from tests import lives
from tests.api.conftest import Caller, add_token, fact
from tests.pictures import picture
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, build_world

Report = Callable[..., TestResponse]


def parcel(caller: Caller, key: str | None = None, **said: Any) -> TestResponse:
    body = {"tracking": "JD014 600", "sent_at": datetime.now(UTC).isoformat(timespec="seconds"), "proof": "customer"}
    return caller.post("/parcels", body | said, key)


def photo(caller: Caller, key: str | None = None, content: bytes | None = None, **said: Any) -> TestResponse:
    sent = base64.b64encode(picture() if content is None else content).decode()
    return caller.post("/photos", {"photo": sent} | said, key)


def stored(stack: Stack, world: World, table: str) -> list[dict[str, Any]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [dict(row) for row in rows(db, f"SELECT * FROM {table} WHERE merchant_id = :m", m=world.merchant_id)]  # noqa: S608


@pytest.fixture
def case(chat: Caller) -> str:
    return str(fact(chat.open(("TEE", 2), customer="C-1001"))["case"])


@pytest.fixture
def desk_bot(stack: Stack, world: World, calls: Callable[..., Caller]) -> Caller:
    """Another channel, that opens returns and says what its customers show."""
    return calls(add_token(stack, world, "voice", ("cases:open", "evidence:write")))


def test_a_parcel_on_its_way_is_recorded_once_with_who_said_so(
    warehouse: Caller, stack: Stack, world: World, case: str
) -> None:
    sent = (datetime.now(UTC) - timedelta(days=1)).replace(microsecond=0)
    said = {"case": case, "proof": "carrier", "our_label": True, "sent_at": sent.isoformat()}
    answers = [parcel(warehouse, key, **said) for key in ("p-1", "p-1", "p-2")]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert fact(answers[0]) == fact(answers[1]) == {
        "case": case, "stage": "waiting_goods", "stage_words": "Waiting for the goods",
    }  # fmt: skip
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    (kept,) = stored(stack, world, "parcels")
    assert {name: kept[name] for name in ("tracking", "sent_at", "proof", "our_label", "channel", "actor")} == {
        "tracking": "JD014 600", "sent_at": sent, "proof": "carrier", "our_label": True, "channel": "warehouse",
        "actor": world.warehouse.actor,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"tracking": ""}, "tracking"),
        ({"tracking": "J" * 81}, "tracking"),
        ({"sent_at": "2026-11-28"}, "sent_at"),
        ({"sent_at": "2026-02-31T09:00:00Z"}, "sent_at"),
        ({"sent_at": "2126-01-01T09:00:00Z"}, "sent_at"),
        ({"sent_at": "0001-01-01T00:00:00+14:00"}, "sent_at"),
        ({"proof": "shop"}, "proof"),
        ({"our_label": "yes"}, "our_label"),
        ({"amount_minor": 100}, "amount_minor"),
        ({"order": "A-20417"}, "case"),
    ],
)
def test_a_parcel_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    warehouse: Caller, stack: Stack, world: World, case: str, said: dict[str, Any], field: str
) -> None:
    refused = parcel(warehouse, case=case, **said)
    assert (refused.status_code, fact(refused)["errors"][0]["field"]) == (422, field)
    assert stored(stack, world, "parcels") == []


def test_a_photo_is_stored_as_ours_and_the_key_says_the_same_again(
    warehouse: Caller, stack: Stack, world: World, case: str
) -> None:
    sent = picture("PNG") + b"<script>"
    said = {"case": case, "line": "TEE", "unit": 2, "caption": "collar, card 4111 1111 1111 1111"}
    answers = [photo(warehouse, "photo-1", sent, **said) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert fact(answers[0]) == fact(answers[1])
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    (kept,) = stored(stack, world, "photos")
    content = bytes(kept["content"])
    with Image.open(io.BytesIO(content)) as ours:
        assert (ours.format, ours.size) == ("JPEG", (60, 40))
    assert b"script" not in content
    assert bytes(kept["original_sha256"]) == hashlib.sha256(sent).digest()
    assert (kept["line_id"], kept["unit"], kept["actor"]) == (world.order.lines["TEE"], 1, world.warehouse.actor)
    assert "4111" not in kept["caption"]

    other = photo(warehouse, "photo-1", picture("WEBP"), **said)
    assert (other.status_code, fact(other)["code"]) == (422, "idempotency-key-reused")
    assert len(stored(stack, world, "photos")) == 1


def test_a_picture_that_was_added_is_not_read_again_for_its_key(
    warehouse: Caller, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert photo(warehouse, "photo-1", case=case).status_code == 201

    def read(_content: bytes) -> None:
        raise AssertionError("it is read once")

    monkeypatch.setattr(photos, "read_picture", read)
    assert photo(warehouse, "photo-1", case=case).status_code == 201
    assert photo(warehouse, "photo-2", case=case).status_code == 500


@pytest.mark.parametrize(
    ("content", "said", "field"),
    [
        (b"%PDF-1.7", {}, "photo"),
        (picture("GIF"), {}, "photo"),
        (picture()[:200], {}, "photo"),
        (None, {"photo": "ÿØÿà"}, "photo"),
        (None, {"photo": "AAAAA"}, "photo"),
        (None, {"line": "SOCKS"}, "line"),
        (None, {"unit": 1}, "unit"),
        (None, {"line": "TEE", "unit": 3}, "unit"),
        (None, {"line": "TEE", "unit": 0}, "unit"),
        (None, {"caption": "x" * 201}, "caption"),
    ],
)
def test_what_is_no_picture_of_the_case_is_refused_by_its_field_and_nothing_is_stored(
    warehouse: Caller, stack: Stack, world: World, case: str, content: bytes | None, said: dict[str, Any], field: str
) -> None:
    refused = photo(warehouse, None, content, case=case, **said)
    assert (refused.status_code, fact(refused)["errors"][0]["field"]) == (422, field)
    assert stored(stack, world, "photos") == []


def test_a_picture_may_be_as_long_as_in_the_console_and_no_longer(
    warehouse: Caller, chat: Caller, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "MAX_PHOTO_BODY_BYTES", 200_000)
    assert photo(warehouse, None, picture() + b"\0" * 100_000, case=case).status_code == 201
    refused = photo(warehouse, None, picture() + b"\0" * 200_000, case=case)
    assert (refused.status_code, fact(refused)["code"]) == (413, "too-large")
    assert bodies.MAX_PHOTO_BODY_BYTES == 4 * -(-10 * 1024 * 1024 // 3) + bodies.MAX_BODY_BYTES
    assert chat.post("/returns", {"order": "x" * 100_000}).status_code == 413


@pytest.mark.parametrize("report", [parcel, photo])
def test_a_token_needs_the_scope_and_another_merchants_case_is_not_there(
    report: Report, chat: Caller, warehouse: Caller, stack: Stack, calls: Callable[..., Caller], case: str
) -> None:
    refused = report(chat, case=case)
    assert (refused.status_code, fact(refused)["code"]) == (403, "not-allowed")
    foreign = calls(build_world(stack, "northwind").warehouse)
    assert report(foreign, case=case).status_code == 404
    assert report(foreign, order="A-20417").status_code == 404
    assert report(warehouse, order="A-20417").status_code == 201


@pytest.mark.parametrize("report", [parcel, photo])
def test_a_channel_that_opens_returns_reports_on_those_it_opened_or_joined_alone(
    report: Report, desk_bot: Caller, case: str
) -> None:
    assert report(desk_bot, case=case).status_code == 404
    joined = desk_bot.open(("TEE", 2), customer="C-1001", relation="existing")
    assert (joined.status_code, fact(joined)["case"]) == (200, case)
    assert report(desk_bot, case=case).status_code == 201


def test_a_channel_that_opens_returns_has_no_scan_of_the_carrier_to_show(
    desk_bot: Caller, stack: Stack, world: World
) -> None:
    case = fact(desk_bot.open(("TEE", 1), customer="C-1001"))["case"]
    refused = parcel(desk_bot, case=case, proof="carrier")
    assert (refused.status_code, fact(refused)["errors"][0]["field"]) == (422, "proof")
    assert stored(stack, world, "parcels") == []
    assert parcel(desk_bot, case=case).status_code == 201


@pytest.mark.parametrize(("report", "table"), [(parcel, "parcels"), (photo, "photos")])
def test_a_rejected_case_takes_neither_and_the_ruling_is_kept_for_its_key(
    report: Report, table: str, warehouse: Caller, stack: Stack, world: World, case: str
) -> None:
    as_administrator(stack, "UPDATE cases SET stage = 'rejected'")
    answers = [report(warehouse, "late-1", case=case) for _ in range(2)]
    assert [(answer.status_code, fact(answer)["code"]) for answer in answers] == [(409, "wrong-state")] * 2
    assert stored(stack, world, table) == []


@pytest.mark.parametrize("report", [parcel, photo])
def test_new_evidence_calls_back_what_waits_for_approval(
    report: Report, warehouse: Caller, stack: Stack, world: World
) -> None:
    intent = lives.propose(stack, world)
    number = stored(stack, world, "cases")[0]["number"]
    assert report(warehouse, case=f"C-{number}").status_code == 201
    states = [one["state"] for one in lives.intents(stack, world, intent["case_id"])]
    assert states == ["withdrawn", "proposed"]


def test_the_order_names_its_return_although_its_charges_are_looked_at_too(
    chat: Caller, warehouse: Caller, case: str
) -> None:
    talk = {"reference": "chat-2", "text": "and charged twice"}
    assert chat.post("/duplicate-charges", {"order": "A-20417", "conversation": talk}).status_code == 201
    assert fact(parcel(warehouse, order="A-20417"))["case"] == case
