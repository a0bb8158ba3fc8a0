"""Faults other shops had with the amount of a refund, each with the right answer: percentages, odd cents, taxes, steps.

Every row is an order, the returns in turn, and what each must pay; the returns are paid one after the other.
"""

from __future__ import annotations

from typing import Any

import pytest

from ledger.entitlement_facts import Evidence
from ledger.money import format_minor, parse_major
from tests.engine import ALL_BACK, Shop, allocated, back, capture, captured_once, line, received, state, units

Lines = list[dict[str, Any]]


def off(minor: int, *lines: str, method: str = "value.cumulative@1") -> dict[str, Any]:
    return {"order_discounts": [{"id": "CODE", "minor": minor, "applies_to": list(lines), "method": method}]}


def rated(number: int, price: int, rate_ppm: int, quantity: int = 1, **facts: Any) -> dict[str, Any]:
    taxes: dict[str, Any] = {"tax_minor": None, "taxes": [{"code": "VAT", "rate_ppm": rate_ppm}]}
    return line(number, price, quantity, **(taxes | facts))


NET = {"price_mode": "exclusive"}
KUWAIT = {"currency": "KWD", "captures": [capture("c1", 15370, "KWD", step_minor=10)]}

FAULTS: dict[str, tuple[Lines, int, dict[str, Any], list[tuple[str, int, int]], list[int]]] = {
    "the whole order discount is not taken off one returned product": (
        [line(1, 15_000), line(2, 6000)],
        16_800,
        off(4200, "L1", "L2"),
        [("L1", 0, 1), ("L2", 0, 1)],
        [12_000, 4800],
    ),
    "a discount leaves with the line it was given on": (
        [line(1, 6000), line(2, 4000)],
        8000,
        off(2000, "L1", "L2"),
        [("L1", 0, 1)],
        [4800],
    ),
    "a broken minimum spend keeps each unit at what was paid": (
        [line(1, 5000, 6)],
        27_000,
        off(3000, "L1"),
        [("L1", 0, 5)],
        [22_500],
    ),
    "a quantity break stays at the price that was paid": ([line(1, 300, 5)], 1500, {}, [("L1", 0, 4)], [1200]),
    "a discount for one unit of three is never taken off twice": (
        [line(1, 2000, 3, discounts=[{"id": "one", "minor": 500}])],
        5500,
        {},
        [("L1", 0, 2), ("L1", 2, 3)],
        [3667, 1833],
    ),
    "three shares of a ten sum to ten": (
        [line(1, 1000), line(2, 1000), line(3, 1000)],
        2000,
        off(1000, "L1", "L2", "L3"),
        [("L1", 0, 1), ("L2", 0, 1), ("L3", 0, 1)],
        [667, 666, 667],
    ),
    "a cheap item keeps its worth under a large coupon": (
        [line(1, 100_000), line(2, 1000)],
        91_000,
        off(10_000, "L1", "L2"),
        [("L2", 0, 1), ("L1", 0, 1)],
        [901, 90_099],
    ),
    "a coupon spread evenly per unit stops at the cheap item": (
        [line(1, 100_000), line(2, 1000)],
        91_000,
        off(10_000, "L1", "L2", method="quantity.cumulative@1"),
        [("L1", 0, 1), ("L2", 0, 1)],
        [91_000, 0],
    ),
    "a line total that does not divide comes back whole": (
        [line(1, 0, 3, gross_minor=8113)],
        8113,
        {},
        [("L1", 0, 1), ("L1", 1, 2), ("L1", 2, 3)],
        [2704, 2705, 2704],
    ),
    "a line total that divides never differs by unit": (
        [rated(1, 10_000, 190_000, 3)],
        35_700,
        NET,
        [("L1", 0, 1), ("L1", 1, 2), ("L1", 2, 3)],
        [11_900, 11_900, 11_900],
    ),
    "the price of the sale counts and not today's": ([line(1, 5000, 10)], 50_000, {}, [("L1", 0, 5)], [25_000]),
    "dinars stay on the step of ten fils": (
        [line(1, 0, 3, gross_minor=15370)],
        15_370,
        KUWAIT,
        [("L1", 0, 1), ("L1", 1, 2), ("L1", 2, 3)],
        [5120, 5130, 5120],
    ),
    "shipping on a full return is in the amount that is sent": (
        [rated(1, 1000, 210_000), rated(2, 500, 210_000, kind="shipping")],
        1815,
        NET,
        [("L1", 0, 1)],
        [1815],
    ),
    "shipping waits for the last line and is paid once": (
        [line(1, 3000), line(2, 2000), line(3, 800, kind="shipping")],
        5800,
        {},
        [("L1", 0, 1), ("L2", 0, 1)],
        [3000, 2800],
    ),
    "a shipping discount does not lower the goods": (
        [line(1, 5000), line(2, 1000), line(3, 1000, kind="shipping", discounts=[{"id": "ship", "minor": 400}])],
        6600,
        {},
        [("L1", 0, 1)],
        [5000],
    ),
    "free shipping gives nothing back for shipping": (
        [line(1, 3500), line(2, 495, kind="shipping", discounts=[{"id": "free", "minor": 495}])],
        3500,
        {},
        [("L1", 0, 1)],
        [3500],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_refunds_come_out_right_where(fault: str) -> None:
    lines, total, facts, returns, expected = FAULTS[fault]
    allocation = allocated(lines, total, **facts)
    assert not allocation.discrepancies
    shop = Shop(allocation, captured_once(allocation), ALL_BACK)
    paid = [shop.take_back(back(part, case=f"R-{n}")).total_minor for n, part in enumerate(returns)]
    assert paid == expected


@pytest.mark.parametrize(
    ("lines", "total", "facts", "gross", "tax"),
    [
        ([rated(1, 2390, 200_000, 10)], 17_925, off(5975, "L1"), 17_925, 2988),
        ([rated(1, 750, 210_000)], 908, NET, 908, 158),
        ([rated(1, 210, 240_000)], 210, {}, 210, 41),
        ([rated(1, 12_000, 200_000, discounts=[{"id": "x", "minor": 1200}])], 10_800, {}, 10_800, 1800),
    ],
)
def test_one_part_is_rounded_and_the_other_is_what_is_left(
    lines: Lines, total: int, facts: dict[str, Any], gross: int, tax: int
) -> None:
    allocation = allocated(lines, total, **facts)
    quantity = allocation.lines[0].quantity
    record = Shop(allocation, captured_once(allocation)).take_back(back(("L1", 0, quantity))).record
    assert (record["total"], record["tax"], record["net"]) == (gross, tax, gross - tax)


def test_each_credit_carries_its_own_units_and_tax_and_never_a_running_total() -> None:
    allocation = allocated([rated(1, 1000, 80_000, 5)], 5400, price_mode="exclusive")
    shop = Shop(allocation, captured_once(allocation))
    first, second = (shop.take_back(back(part, case=f"R-{part[1]}")) for part in (("L1", 0, 2), ("L1", 2, 3)))
    assert [(one.record["net"], one.tax_minor) for one in (first, second)] == [(2000, 160), (1000, 80)]
    assert second.record["units"] == [["L1", 2, 3]]


def test_the_last_cents_of_a_capture_can_be_paid_back() -> None:
    allocation = allocated([line(1, 1596), line(2, 399)], 1995)
    shop = Shop(allocation, captured_once(allocation))
    paid = [shop.take_back(back((name, 0, 1), case=name)).total_minor for name in ("L1", "L2")]
    assert (paid, shop.captures[0].available_minor) == ([1596, 399], 0)


def test_units_already_returned_are_not_returned_again_under_any_row() -> None:
    allocation = allocated([line(1, 200, 10)], 2000)
    shop = Shop(allocation, captured_once(allocation))
    assert shop.take_back(back(("L1", 0, 10))).total_minor == 2000
    again = shop.take_back(back(("L1", 4, 5), case="R-2"))
    assert (again.outcome, again.total_minor) == ("refused", 0)


def test_two_open_returns_share_the_units_of_a_line_and_no_more() -> None:
    allocation = allocated([line(1, 1000, 10)], 10_000)
    shop = Shop(allocation, captured_once(allocation))
    shop.take_back(back(("L1", 0, 6)))
    assert shop.take_back(back(("L1", 4, 10), case="R-2")).total_minor == 4000


def test_units_broken_by_the_carrier_are_paid_like_the_others() -> None:
    allocation = allocated([line(1, 2500, 2)], 5000)
    evidence = Evidence("R-1", units(("L1", 0, 2)), received(("L1", 2)))
    assert Shop(allocation, captured_once(allocation)).take_back(evidence).total_minor == 5000


def test_an_order_in_euros_charged_in_kronor_is_paid_back_in_kronor() -> None:
    kronor = capture("c1", 112_500, "SEK", order_minor=10_000)
    allocation = allocated([line(1, 4000), line(2, 6000)], 10_000, captures=[kronor])
    shop = Shop(allocation, [state("c1", 112_500, currency="SEK", order_minor=10_000)])
    draw = shop.take_back(back(("L1", 0, 1))).draws[0]
    assert (draw.currency, draw.minor) == ("SEK", 45_000)
    assert shop.captures[0].available_minor == 67_500


def test_a_second_credit_gives_only_the_rest_of_store_credit() -> None:
    credit = capture("sc", 8000, tender="store_credit")
    allocation = allocated([line(1, 3000), line(2, 5000)], 8000, captures=[credit])
    shop = Shop(allocation, [state("sc", 8000, tender="store_credit")])
    paid = [shop.take_back(back((name, 0, 1), case=name)).draws[0].minor for name in ("L1", "L2")]
    assert (paid, shop.captures[0].available_minor) == ([3000, 5000], 0)


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("1.13", "INR", 113),
        ("9899", "JPY", 9899),
        ("5800", "JPY", 5800),
        ("5.120", "KWD", 5120),
        ("1034.45", "EUR", 103_445),
    ],
)
def test_what_is_shown_and_what_is_sent_are_the_same_number(text: str, currency: str, minor: int) -> None:
    assert parse_major(text, currency) == minor
    assert format_minor(minor, currency) == text
