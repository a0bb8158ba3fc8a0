"""An order from JSON: each wrong field is named with what to do, and equal facts are equal however they are written."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from ledger.order_document import MAX_DOCUMENT_BYTES, FactsRefused, order_facts, parse_order
from ledger.order_facts import CaptureFacts
from tests.engine import capture, document, line


def good() -> dict[str, Any]:
    discount = {"id": "W15", "minor": 100, "applies_to": ["L1", "L2"]}
    return document([line(1, 2490, 3), line(2, 5800)], 13170, order_discounts=[discount])


def refusal(change: Callable[[dict[str, Any]], object]) -> str:
    changed = good()
    change(changed)
    with pytest.raises(FactsRefused) as caught:
        parse_order(json.dumps(changed))
    return str(caught.value)


def test_facts_survive_their_own_document() -> None:
    facts = parse_order(json.dumps(good()))
    assert order_facts(facts.document()) == facts


def test_equal_facts_have_equal_digests_however_they_are_spelled() -> None:
    other = dict(reversed(good().items())) | {"placed_at": "2026-04-20T20:02:11+02:00", "tax_total_minor": None}
    assert parse_order(json.dumps(other, indent=3)).digest() == parse_order(json.dumps(good())).digest()


def test_a_changed_amount_changes_the_digest() -> None:
    changed = good()
    changed["lines"][0]["tax_minor"] = 1
    assert parse_order(json.dumps(changed)).digest() != parse_order(json.dumps(good())).digest()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(total_minor="13170"), "total_minor: must be a whole number"),
        (lambda d: d.update(total_minor=131.7), "total_minor: must be a whole number"),
        (lambda d: d.update(total_minor=13170.0), "total_minor: must be a whole number"),
        (lambda d: d.update(total_minor=True), "total_minor: must be a whole number"),
        (lambda d: d.update(total_minor=-1), "total_minor"),
        (lambda d: d.update(total_minor=10**14), "total_minor"),
        (lambda d: d.update(currency="eur"), "currency"),
        (lambda d: d.update(placed_at="2026-04-20T18:02:11"), "placed_at: give an instant"),
        (lambda d: d.update(placed_at=1776700000), "placed_at: give an instant"),
        (lambda d: d.update(placed_at="2026-02-30T10:00:00Z"), "placed_at: there is no such date"),
        (lambda d: d.update(placed_at="0001-01-01T00:00:00+14:00"), "placed_at: the year"),
        (lambda d: d.update(zone="Mars/Olympus"), "zone: is not an IANA time zone"),
        (lambda d: d.update(zone="../etc/passwd"), "zone: is not an IANA time zone"),
        (lambda d: d.update(price_mode="gross"), "price_mode"),
        (lambda d: d.update(lines=[]), "lines"),
        (lambda d: d.update(surprise=1), "surprise: is not a field of an order: remove it"),
        (lambda d: d["lines"][0].pop("sku"), r"lines[0].sku: is missing: add it"),
        (lambda d: d["lines"][1].update(quantity=0), "lines[1].quantity"),
        (lambda d: d["lines"][1].update(quantity=1_000_001), "lines[1].quantity"),
        (lambda d: d["lines"][1].update(title="a\x00b"), "lines[1].title"),
        (lambda d: d["lines"][1].update(title="t" * 301), "lines[1].title"),
        (lambda d: d["lines"][1].update(line_ref="L1"), "lines[1].line_ref: is used twice"),
        (lambda d: d["lines"][1].update(position=1), "lines[1].position: is used twice"),
        (lambda d: d["lines"][0].update(quantity=10**6, unit_price_minor=10**8), "lines[0].unit_price_minor"),
        (lambda d: d["lines"][0].update(taxes=[{"code": "DE-19"}]), "lines[0].taxes[0].minor"),
        (lambda d: d["order_discounts"][0].update(applies_to=["L9"]), "order_discounts[0].applies_to"),
        (lambda d: d["order_discounts"][0].update(method="explicit@1"), "order_discounts[0].shares"),
        (lambda d: d["order_discounts"][0].update(shares={"L7": 1}), "order_discounts[0].shares"),
        (lambda d: d["captures"][0].update(order_minor=13171), "captures[0].order_minor"),
        (lambda d: d["captures"].append(capture("c1", 1)), "captures[1].capture_ref: is used twice"),
        (lambda d: d["captures"][0].update(destination={"kind": "card", "last4": "12345"}), "destination.last4"),
        (lambda d: d["customer"].update(email="not an address"), "customer.email"),
        (lambda d: d.update(channel="\ud800"), "document"),
    ],
)
def test_a_wrong_field_is_named_with_what_to_do(change: Callable[[dict[str, Any]], object], says: str) -> None:
    assert says in refusal(change)


def test_every_wrong_field_is_named_at_once_and_no_value_is_repeated() -> None:
    def spoil(changed: dict[str, Any]) -> None:
        changed["customer"]["name"] = ""
        changed["lines"][0]["quantity"] = "Ilse's secret"
        changed["lines"][1].pop("title")

    said = refusal(spoil)
    assert all(field in said for field in ("customer.name", "lines[0].quantity", "lines[1].title"))
    assert "secret" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("orders", "is not JSON"),
        ("[]", "must be an object"),
        ('{"currency":"EUR","currency":"USD"}', "currency: is given twice"),
        ('{"customer":{"name":"a","name":"b"}}', "name: is given twice"),
        ('{"total_minor":NaN}', "NaN"),
        ('{"total_minor":' + "9" * 5000 + "}", "is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "is larger than"),
    ],
)
def test_what_is_no_order_document_at_all_is_refused_in_a_sentence(text: str | bytes, says: str) -> None:
    with pytest.raises(FactsRefused, match=says):
        parse_order(text)


def test_a_byte_order_mark_is_not_part_of_the_order() -> None:
    assert parse_order(b"\xef\xbb\xbf" + json.dumps(good()).encode()).external_ref == "A-20417"


def test_a_long_list_of_wrong_fields_is_cut_with_its_count() -> None:
    def spoil(changed: dict[str, Any]) -> None:
        changed["lines"] = [line(n, 1, 0) for n in range(1, 60)]

    assert "39 more wrong fields" in refusal(spoil)


def _held(**changes: Any) -> dict[str, Any]:
    usual = {
        "capture_ref": "c1", "tender": "card", "currency": "EUR", "captured_minor": 0, "authorised_minor": 5800,
        "status": "authorised", "captured_at": "2026-04-20T18:02:11Z", "payment_intent_ref": "pi_1", "charge_ref": "ch_1",
    }  # fmt: skip
    return {name: value for name, value in (usual | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "held"),
    [({}, 5800), ({"captured_minor": 800}, 5000), ({"status": "captured", "captured_minor": 5000}, 0),
     ({"status": None, "captured_minor": 5800}, 0)],
)  # fmt: skip
def test_what_a_payment_holds_is_what_was_authorised_and_not_taken(changes: dict[str, Any], held: int) -> None:
    assert CaptureFacts.model_validate_json(json.dumps(_held(**changes))).held_minor == held


@pytest.mark.parametrize(
    "changes",
    [{"authorised_minor": None}, {"captured_minor": 5800}, {"captured_minor": 5801}, {"charge_ref": None}],
    ids=["holds nothing", "all of it taken", "more taken than authorised", "no charge"],
)
def test_an_authorised_payment_says_how_much_is_held_and_where(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CaptureFacts.model_validate_json(json.dumps(_held(**changes)))


def test_facts_without_a_hold_are_stored_as_they_were_before_there_were_holds() -> None:
    stated = _held(status=None, authorised_minor=None, captured_minor=5800)
    facts = CaptureFacts.model_validate_json(json.dumps(stated))
    assert set(facts.model_dump(mode="json", exclude_none=True)) == {*stated, "step_minor"}
