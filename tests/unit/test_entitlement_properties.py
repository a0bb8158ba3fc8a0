"""Generated orders, returned in generated parts: what must hold whatever the order of events."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.allocation import Allocation
from ledger.entitlement import derive
from ledger.entitlement_check import check
from ledger.entitlement_facts import Allowance, CaptureState, Evidence, Priors
from tests.engine import (
    ALL_BACK,
    NOON,
    TERMS,
    Shop,
    allocated,
    back,
    capture,
    entitled,
    inspected,
    line,
    received,
    state,
    terms,
    units,
)

quantities = st.one_of(st.integers(1, 9), st.integers(1, 80_000))


@st.composite
def order_lines(draw: st.DrawFn, step: int) -> list[dict[str, Any]]:
    found = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        gross = draw(st.integers(0, 50_000)) * step
        taxes = {"tax_minor": draw(st.integers(0, gross)), "gross_minor": gross}
        found.append(line(number, 0, draw(quantities), **taxes))
    if draw(st.booleans()):
        shipping = draw(st.integers(0, 2000)) * step
        found.append(line(9, 0, kind="shipping", gross_minor=shipping, tax_minor=draw(st.integers(0, shipping))))
    return found


@st.composite
def orders(draw: st.DrawFn) -> tuple[Allocation, list[CaptureState]]:
    """An order in one of three currencies, sometimes a little off its total, captured in one or two parts."""
    currency, step = draw(st.sampled_from([("EUR", 1), ("JPY", 1), ("KWD", 10)]))
    lines = draw(order_lines(step))
    total = sum(one["gross_minor"] for one in lines)
    if step == 1 and any(one["gross_minor"] for one in lines if one["kind"] == "goods"):
        total += draw(st.integers(0, len(lines)))
    first = draw(st.integers(0, total // step)) * step
    parts = [("c1", first, draw(st.sampled_from(["card", "gift_card"]))), ("c2", total - first, "card")]
    paid = [(ref, minor, tender) for ref, minor, tender in parts if minor]
    facts = [capture(ref, minor, currency, tender=tender, step_minor=step) for ref, minor, tender in paid]
    allocation = allocated(lines, total, currency=currency, captures=facts)
    states = [state(ref, minor, tender=tender, currency=currency, step_minor=step) for ref, minor, tender in paid]
    return allocation, states


@st.composite
def parts_of(draw: st.DrawFn, allocation: Allocation) -> list[tuple[str, int, int]]:
    """All goods units of an order in consecutive ranges, in some order of return."""
    found: list[tuple[str, int, int]] = []
    for one in allocation.lines:
        if one.kind == "goods":
            inner = draw(st.lists(st.integers(1, max(1, one.quantity - 1)), max_size=3, unique=True))
            edges = sorted({0, one.quantity, *(edge for edge in inner if edge < one.quantity)})
            found += [(one.line_id, a, b) for a, b in pairwise(edges)]
    return draw(st.permutations(found))


@given(orders(), st.data())
def test_any_returns_in_any_order_end_at_what_was_charged(
    made: tuple[Allocation, list[CaptureState]], data: st.DataObject
) -> None:
    allocation, states = made
    shop = Shop(allocation, states, ALL_BACK)
    for number, part in enumerate(data.draw(parts_of(allocation))):
        shop.take_back(back(part, case=f"R-{number}"))
        assert shop.paid_minor() <= allocation.total_minor
        assert all(held.available_minor >= 0 for held in shop.captures)
    assert shop.paid_minor() == allocation.total_minor
    assert sum(shop.tax.values()) == sum(one.tax_minor for one in allocation.lines)
    assert all(held.available_minor == 0 for held in shop.captures)
    assert all(paid.minor % allocation.step_minor == 0 for payments in shop.paid.values() for paid in payments)


@given(orders(), st.data())
def test_one_case_growing_range_by_range_ends_like_all_at_once(
    made: tuple[Allocation, list[CaptureState]], data: st.DataObject
) -> None:
    allocation, states = made
    shop, grown = Shop(allocation, states, ALL_BACK), []
    for part in data.draw(parts_of(allocation)):
        grown.append(part)
        entitlement = shop.take_back(back(*grown))
        assert shop.derive(back(*grown)).payable_now_minor == 0
        assert entitlement.overpaid_minor == 0
    assert shop.paid_minor() == entitled(allocation, back(*grown), states, ALL_BACK).total_minor


@given(orders(), st.data())
def test_allowances_disputes_and_outside_refunds_never_let_more_out_than_was_charged_or_captured(
    made: tuple[Allocation, list[CaptureState]], data: st.DataObject
) -> None:
    allocation, states = made
    shop = Shop(allocation, states, ALL_BACK)
    given_back = 0
    for one in allocation.lines:
        if one.kind == "goods" and one.gross_minor and data.draw(st.booleans()):
            a = data.draw(st.integers(0, one.quantity - 1))
            minor = data.draw(st.integers(0, one.gross_minor // one.quantity)) // 10 * 10
            shop.allowances.append(Allowance(one.line_id, minor, a, a + 1))
            given_back += minor
    lost = [data.draw(st.integers(0, held.captured_minor)) for held in states]
    shop.captures = [
        replace(held, available_minor=held.captured_minor - out, disputed_minor=out)
        for held, out in zip(states, lost, strict=True)
    ]
    for number, part in enumerate(data.draw(parts_of(allocation))):
        entitlement = shop.take_back(back(part, case=f"R-{number}"))
        assert 0 <= entitlement.tax_minor <= entitlement.total_minor
    assert shop.paid_minor() + given_back <= allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)
    for one in allocation.lines:
        claimed = sum(c.minor for claims in shop.claims.values() for c in claims if c.line_id == one.line_id)
        allowed = sum(row.minor for row in shop.allowances if row.line_id == one.line_id)
        assert claimed + allowed <= one.gross_minor


@given(orders(), st.data())
def test_what_was_announced_never_beats_what_was_booked_in(
    made: tuple[Allocation, list[CaptureState]], data: st.DataObject
) -> None:
    allocation, states = made
    goods = [one for one in allocation.lines if one.kind == "goods"]
    booked = {one.line_id: data.draw(st.integers(0, one.quantity)) for one in goods}
    graded = [
        (one.line_id, 0, data.draw(st.integers(0, one.quantity)), data.draw(st.sampled_from("ACX"))) for one in goods
    ]
    evidence = Evidence(
        "R-1",
        units(*((one.line_id, 0, one.quantity) for one in goods)),
        received(*booked.items()),
        inspected(*(row for row in graded if row[2])),
    )
    for trigger in ("announced", "received", "inspected"):
        entitlement = entitled(allocation, evidence, states, terms(refund_trigger=trigger))
        paid_units = {one.line_id: 0 for one in goods}
        for line_id, a, b in entitlement.record["units"]:
            paid_units[line_id] += b - a
        assert all(paid_units[line_id] <= booked[line_id] for line_id in booked)
        foreign = {line_id: end for line_id, _, end, grade in graded if grade == "X"}
        assert all(a >= foreign.get(line_id, 0) for line_id, a, _ in entitlement.record["units"])


@given(orders(), st.data())
def test_deriving_twice_or_after_a_trip_through_json_gives_the_same_bytes(
    made: tuple[Allocation, list[CaptureState]], data: st.DataObject
) -> None:
    allocation, states = made
    evidence = back(*data.draw(parts_of(allocation))[:2])
    stored = Allocation.from_document(json.loads(json.dumps(allocation.document())))
    first = derive(allocation, evidence, Priors(tuple(states)), TERMS, NOON)
    assert derive(stored, evidence, Priors(tuple(states)), TERMS, NOON).canonical() == first.canonical()
    assert check(json.loads(first.canonical())) == []


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.lists(st.integers(1, 10**6), max_size=6))
def test_a_full_draw_on_a_foreign_capture_is_the_capture_exactly(captured: int, worth: int, edges: list[int]) -> None:
    facts = [capture("c1", captured, "USD", order_minor=worth)]
    allocation = allocated([line(1, 0, worth, gross_minor=worth)], worth, captures=facts)
    shop = Shop(allocation, [state("c1", captured, currency="USD", order_minor=worth)])
    cuts = sorted({0, worth, *(edge for edge in edges if edge < worth)})
    for number, (a, b) in enumerate(pairwise(cuts)):
        shop.take_back(back(("L1", a, b), case=f"R-{number}"))
    drawn = sum(paid.minor for payments in shop.paid.values() for paid in payments)
    assert drawn <= captured
    if shop.paid_minor() == worth:
        assert drawn == captured
