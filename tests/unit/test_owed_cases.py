"""Every handed fault about what is owed (kinds B and D), its arithmetic as the test's name, each policy that an answer names.

A row is an order, the policy, the cases in turn and what each pays. The list is compared with the shared file of cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.allocation import Allocation, allocate
from ledger.allocation_methods import Methods
from ledger.entitlement_facts import Ask, Evidence, Grade, Inspected, Received
from ledger.money import MoneyError, format_minor, parse_major
from ledger.policy_terms import PolicyTerms
from tests.engine import Shop, allocated, back, capture, captured_once, line, order, received, state, terms, units
from tests.shared import shared_file

ALL_BACK = {"full_return": "full"}
Case = list[tuple[str, int, int]] | Evidence


@dataclass(frozen=True)
class Fault:
    """Cases of `order` in turn under `policy`, and what each pays in minor units; `tax` of each where it matters."""

    order: Callable[[], Allocation]
    cases: list[Case]
    paid: list[int]
    policy: dict[str, Any] = field(default_factory=dict)
    tax: list[int] | None = None


def off(minor: int, *lines: str, **facts: Any) -> dict[str, Any]:
    return {"order_discounts": [{"id": "CODE", "minor": minor, "applies_to": list(lines)} | facts]}


def rated(number: int, price: int, rate_ppm: int, quantity: int = 1, **facts: Any) -> dict[str, Any]:
    return line(number, price, quantity, tax_minor=None, taxes=[{"code": "VAT", "rate_ppm": rate_ppm}], **facts)


def one(unit: int, line_id: str = "L1") -> Case:
    return [(line_id, unit, unit + 1)]


def asking(kind: Any, *asks: Ask) -> Evidence:
    return Evidence("R-ask", (), kind=kind, asks=asks)


def looked(count: int, *grades: Grade) -> Evidence:
    rows = tuple(Inspected("L1", k, k + 1, grade, photos=1, note="seen") for k, grade in enumerate(grades))
    return Evidence("R-1", units(("L1", 0, count)), received(("L1", count)), rows)


MINIMUM = {"type": "threshold_amount", "min_goods_minor": 30_000, "off_bps": 1000}
BREAK = {"type": "quantity_break", "tiers": [{"from_quantity": 5, "unit_minor": 300}]}
PINNED = [{"id": "one", "minor": 500, "units": 1}]


def sixes() -> Allocation:
    return allocated([line(1, 5000, 6)], 27_000, **off(3000, "L1", promo=MINIMUM))


def fives() -> Allocation:
    return allocated([line(1, 300, 5, list_price_minor=500)], 1500, **off(0, "L1", promo=BREAK))


def pinned(part_discount: Any) -> Callable[[], Allocation]:
    return lambda: allocate(order([line(1, 2000, 3, discounts=PINNED)], 5500), Methods(part_discount=part_discount))


def tens() -> Allocation:
    return allocated([line(n, 1000) for n in (1, 2, 3)], 2000, **off(1000, "L1", "L2", "L3"))


def dear_and_cheap(method: str) -> Callable[[], Allocation]:
    return lambda: allocated([line(1, 100_000), line(2, 1000)], 91_000, **off(10_000, "L1", "L2", method=method))


def two_and_shipping() -> Allocation:
    return allocated([line(1, 3000), line(2, 2000), line(3, 800, kind="shipping")], 5800)


def bundle(
    quantity: int, price: int, parts: list[tuple[int, int]], method: Any = "bundle.ssp@1", ship: int = 0
) -> Allocation:
    lines = [line(1, price, quantity)]
    for number, (per, alone) in enumerate(parts, 2):
        part = {"id": "b", "per_bundle": per, "parent_line": "L1"}
        lines.append(line(number, alone, per * quantity, bundle=part))
    if ship:
        lines.append(line(9, ship, kind="shipping"))
    return allocate(order(lines, quantity * price + ship), Methods(bundle=method))


def split() -> Allocation:
    captures = [capture("gift", 3000, tender="gift_card"), capture("card", 7000)]
    return allocated([line(1, 4000), line(2, 6000)], 10_000, captures=captures)


FAULTS: dict[str, dict[str, Fault]] = {
    "B019": {
        "150 − 20 % of 210 by value (30.00) = 120.00, the kept 60 − 12 = 48.00": Fault(
            lambda: allocated([line(1, 15_000), line(2, 6000)], 16_800, **off(4200, "L1", "L2")),
            [one(0), one(0, "L2")],
            [12_000, 4800],
        )
    },
    "B022": {
        "keep: 5 × 45.00 = 225.00": Fault(sixes, [[("L1", 0, 5)]], [22_500]),
        "clawback: 270.00 − 50.00 = 220.00, the last 50.00": Fault(
            sixes, [[("L1", 0, 5)], one(5)], [22_000, 5000], {"promo": {"threshold": "reprice_kept"}}
        ),
    },
    "B024": {
        "keep: 4 × 3.00 = 12.00": Fault(fives, [[("L1", 0, 4)]], [1200]),
        "reprice: 15.00 − 1 × 5.00 = 10.00": Fault(
            fives, [[("L1", 0, 4)]], [1000], {"promo": {"quantity_break": "reprice_kept"}}
        ),
        "all or nothing: a part is 0.00, the whole 15.00": Fault(
            fives, [[("L1", 0, 4)], [("L1", 0, 5)]], [0, 1500], {"promo": {"quantity_break": "all_or_nothing"}}
        ),
    },
    "B026": {
        "spread: 55.00 × 2/3 = 36.67, then 18.33": Fault(pinned("line_spread"), [[("L1", 0, 2)], one(2)], [3667, 1833]),
        "pinned: 15.00 + 20.00 = 35.00, then 20.00": Fault(pinned("unit_attributed"), [[("L1", 0, 2)], one(2)], [3500, 2000]),
        "pinned, the last two first: 40.00, then 15.00": Fault(pinned("unit_attributed"), [[("L1", 1, 3)], one(0)], [4000, 1500]),
    },
    "B027": {
        "10.00 over three tens: 3.33 3.34 3.33 leaves 6.67 6.66 6.67 = 20.00": Fault(
            tens, [one(0), one(0, "L2"), one(0, "L3")], [667, 666, 667]
        )
    },
    "B028": {
        "by value: 10 − 0.99 = 9.01, 1000 − 99.01 = 900.99": Fault(
            dear_and_cheap("value.cumulative@1"), [one(0, "L2"), one(0)], [901, 90_099]
        ),
        "evenly: 50 capped at 10.00 = 0.00, 1000 − 90 = 910.00": Fault(
            dear_and_cheap("quantity.cumulative@1"), [one(0, "L2"), one(0)], [0, 91_000]
        ),
    },
    "B029": {
        "60 − 12 = 48.00, the kept 40 − 8 = 32.00": Fault(
            lambda: allocated([line(1, 6000), line(2, 4000)], 8000, **off(2000, "L1", "L2")),
            [one(0), one(0, "L2")],
            [4800, 3200],
        )
    },
    "B032": {
        "239.00 × 0.75 = 179.25, tax 29.88, net 149.37": Fault(
            lambda: allocated([rated(1, 2390, 200_000, 10)], 17_925, **off(5975, "L1")), [[("L1", 0, 10)]], [17_925], tax=[2988]
        )
    },
    "B033": {
        "2.10 twice at 24 %: 2.10 with tax 0.41 each": Fault(
            lambda: allocated([rated(1, 210, 240_000), rated(2, 210, 240_000)], 420),
            [one(0), one(0, "L2")],
            [210, 210],
            tax=[41, 41],
        )
    },
    "B035": {
        "7.50 × 1.21 = 9.08, tax 1.58": Fault(
            lambda: allocated([rated(1, 750, 210_000)], 908, price_mode="exclusive"), [one(0)], [908], tax=[158]
        )
    },
    "B036": {
        "19.95 − 15.96 leaves 3.99 to the cent": Fault(
            lambda: allocated([line(1, 1596), line(2, 399)], 1995), [one(0), one(0, "L2")], [1596, 399]
        )
    },
    "B038": {
        "81.13 over three: 27.04 27.05 27.04": Fault(
            lambda: allocated([line(1, 0, 3, gross_minor=8113)], 8113), [one(0), one(1), one(2)], [2704, 2705, 2704]
        )
    },
    "B039": {
        "357.00 over three: 119.00 with tax 19.00 each": Fault(
            lambda: allocated([rated(1, 10_000, 190_000, 3)], 35_700, price_mode="exclusive"),
            [one(0), one(1), one(2)],
            [11_900] * 3,
            tax=[1900] * 3,
        )
    },
    "B040": {
        "shipping 125.00 = 113.63 + 11.37, then 780.26 − 125.00 = 655.26": Fault(
            lambda: allocated([line(1, 65_526), line(2, 0, kind="shipping", gross_minor=12_500, tax_minor=1137)], 78_026),
            [asking("shipping_only", Ask("L2", minor=12_500)), one(0)],
            [12_500, 65_526],
            {"shipping": ALL_BACK},
            tax=[1137, 0],
        )
    },
    "B042": {
        "15.00 × 1.21 = 18.15 with the shipping": Fault(
            lambda: allocated(
                [rated(1, 1000, 210_000), rated(2, 500, 210_000, kind="shipping")], 1815, price_mode="exclusive"
            ),
            [one(0)],
            [1815],
            {"shipping": ALL_BACK},
        )
    },
    "B043": {
        "with the first: 30 + 8 = 38.00, then 20.00": Fault(
            two_and_shipping,
            [one(0), one(0, "L2")],
            [3800, 2000],
            {"shipping": ALL_BACK | {"partial_return": "with_first_unit"}},
        ),
        "with the last: 30.00, then 20 + 8 = 28.00": Fault(
            two_and_shipping, [one(0), one(0, "L2")], [3000, 2800], {"shipping": ALL_BACK}
        ),
        "by value: 30 + 4.80 = 34.80, then 20 + 3.20 = 23.20": Fault(
            two_and_shipping,
            [one(0), one(0, "L2")],
            [3480, 2320],
            {"shipping": ALL_BACK | {"partial_return": "pro_rata_value"}},
        ),
    },
    "B044": {
        "shipping 4.95 − 4.95 = 0.00, never its list price": Fault(
            lambda: allocated(
                [line(1, 3500), line(2, 495, kind="shipping", discounts=[{"id": "free", "minor": 495}])], 3500
            ),
            [asking("shipping_only", Ask("L2", minor=495)), one(0)],
            [0, 3500],
            {"shipping": ALL_BACK},
        )
    },
    "B045": {
        "goods 50.00, the 4.00 off is the shipping's": Fault(
            lambda: allocated(
                [line(1, 5000), line(2, 1000, kind="shipping", discounts=[{"id": "s", "minor": 400}])], 5600
            ),
            [one(0)],
            [5000],
        )
    },
    "B048": {
        "typed net: 20.00 × 1.07 = 21.40, tax 1.40": Fault(
            lambda: allocated([rated(1, 3999, 70_000)], 4279, price_mode="exclusive"),
            [asking("goodwill", Ask("L1", minor=2000, entry="net"))],
            [2140],
            {"goodwill": {"max_minor": {"EUR": 5000}}},
            tax=[140],
        ),
        "typed gross: 20.00 / 1.07 = 18.69, tax 1.31": Fault(
            lambda: allocated([rated(1, 3999, 70_000)], 4279, price_mode="exclusive"),
            [asking("goodwill", Ask("L1", minor=2000, entry="gross"))],
            [2000],
            {"goodwill": {"max_minor": {"EUR": 5000}}},
            tax=[131],
        ),
    },
    "B050": {
        "shipping only of a bundle: 7.50, 97.50 − 7.50 = 90.00 left": Fault(
            lambda: bundle(1, 9000, [(1, 5000), (1, 4000)], ship=750),
            [asking("shipping_only", Ask("L9", minor=750)), [("L1", 0, 1)]],
            [750, 9000],
            {"shipping": ALL_BACK},
        )
    },
    "B051": {
        "0.00 is not above 0: nothing is drawn": Fault(
            lambda: allocated([line(1, 8500)], 8500),
            [asking("goodwill", Ask("L1", minor=0))],
            [0],
            {"goodwill": {"max_minor": {"EUR": 5000}}},
        )
    },
    "B053": {
        "20.00 over three parts: 6.67 6.66 6.67 = 20.00": Fault(
            lambda: bundle(1, 2000, [(1, 100), (1, 300), (1, 900)], "bundle.equal@1"),
            [one(0, "L2"), one(0, "L3"), one(0, "L4")],
            [667, 666, 667],
        ),
        "by stand-alone price 4 : 3 : 3: 8.00 6.00 6.00 = 20.00": Fault(
            lambda: bundle(1, 2000, [(1, 1200), (1, 900), (1, 900)]),
            [one(0, "L2"), one(0, "L3"), one(0, "L4")],
            [800, 600, 600],
        ),
    },
    "B060": {
        "KWD 15.370 over three in steps of 0.010: 5.120 5.130 5.120": Fault(
            lambda: allocated(
                [line(1, 0, 3, gross_minor=15_370)], 15_370, currency="KWD", captures=[capture("c1", 15_370, "KWD", step_minor=10)]
            ),
            [one(0), one(1), one(2)],
            [5120, 5130, 5120],
        )
    },
    "B064": {
        "5 × 50.00 of the sale = 250.00, not today's 375.00": Fault(
            lambda: allocated([line(1, 5000, 10)], 50_000), [[("L1", 0, 5)]], [25_000]
        )
    },
    "B069": {
        "120.00 − 12.00 = 108.00, tax 18.00, net 90.00": Fault(
            lambda: allocated([rated(1, 12_000, 200_000, discounts=[{"id": "x", "minor": 1200}])], 10_800),
            [one(0)],
            [10_800],
            tax=[1800],
        )
    },
    "B095": {
        "269.97 / 3 = 89.99, 2 × 89.99 = 179.98": Fault(
            lambda: allocated([line(1, 0, 3, gross_minor=26_997)], 26_997),
            [Evidence("R-1", units(("L1", 0, 3)), (Received("L1", 2),))],
            [17_998],
        )
    },
    "B098": {
        "5 × 8.00 = 40.00, then nothing": Fault(
            lambda: allocated([line(1, 800, 5)], 4000), [[("L1", 0, 5)], [("L1", 0, 5)]], [4000, 0]
        )
    },
    "B099": {
        "10 − 6 waiting = 4 × 10.00 = 40.00": Fault(
            lambda: allocated([line(1, 1000, 10)], 10_000), [[("L1", 0, 6)], [("L1", 4, 10)]], [6000, 4000]
        )
    },
    "B100": {
        "25 + 9 = 34.00, then 2 × 25 = 50.00": Fault(
            lambda: allocated([line(1, 2500, 3), line(2, 900, kind="shipping")], 8400),
            [one(0), [("L1", 1, 3)]],
            [3400, 5000],
            {"shipping": ALL_BACK | {"partial_return": "with_first_unit"}},
        )
    },
    "B103": {
        "10 × 2.00 = 20.00, a row added again is 0.00": Fault(
            lambda: allocated([line(1, 200, 10)], 2000), [[("L1", 0, 10)], one(4)], [2000, 0]
        )
    },
    "B105": {
        "spoilt by the customer, 100 % off: 2 × 40.00 = 80.00": Fault(
            lambda: allocated([line(1, 4000, 3)], 12_000), [looked(3, "A", "A", "D")], [8000], {"grade_bps": {"D": 10_000}}
        ),
        "nothing off: 3 × 40.00 = 120.00": Fault(
            lambda: allocated([line(1, 4000, 3)], 12_000), [looked(3, "A", "A", "D")], [12_000], {"grade_bps": {"D": 0}}
        ),
        "half off: 80.00 + 20.00 = 100.00": Fault(
            lambda: allocated([line(1, 4000, 3)], 12_000), [looked(3, "A", "A", "D")], [10_000], {"grade_bps": {"D": 5000}}
        ),
    },
    "B106": {
        "60.00 − 7.50 = 52.50": Fault(
            lambda: allocated([line(1, 6000)], 6000),
            [Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), parcels_on_our_label=1)],
            [5250],
            {"label": {"minor": {"EUR": 750}}},
        ),
        "max(0, 5.00 − 7.50) = 0.00": Fault(
            lambda: allocated([line(1, 500)], 500),
            [Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), parcels_on_our_label=1)],
            [0],
            {"label": {"minor": {"EUR": 750}}},
        ),
        "faulty: the label is the shop's, 60.00": Fault(
            lambda: allocated([line(1, 6000)], 6000),
            [Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), (Inspected("L1", 0, 1, "M", reason="faulty"),),
                      parcels_on_our_label=1)],
            [6000],
            {"label": {"minor": {"EUR": 750}}},
        ),
    },
    "B110": {
        "broken by the carrier: 2 × 25.00 = 50.00": Fault(
            lambda: allocated([line(1, 2500, 2)], 5000), [looked(2, "A", "M")], [5000]
        )
    },
    "B113": {
        "2 × 10.00 + 1.60 = 21.60, then its own 10.00 + 0.80 = 10.80": Fault(
            lambda: allocated([rated(1, 1000, 80_000, 5)], 5400, price_mode="exclusive"),
            [[("L1", 0, 2)], one(2)],
            [2160, 1080],
            tax=[160, 80],
        )
    },
    "B114": {
        "3 × 10.00 = 30.00, 100.00 − 30.00 = 70.00 left": Fault(
            lambda: bundle(2, 5000, [(1, 2000), (3, 1000)]),
            [[("L3", 0, 3)], [("L2", 0, 2), ("L3", 3, 6)]],
            [3000, 7000],
        ),
        "only whole: 3 of B wait, with 1 of A 50.00": Fault(
            lambda: bundle(2, 5000, [(1, 2000), (3, 1000)]),
            [[("L3", 0, 3)], [("L2", 0, 1), ("L3", 0, 3)]],
            [0, 5000],
            {"bundle_return": "whole_only"},
        ),
        "only whole: the first lacks 2 of its 3 of B, the second goes back for 50.00": Fault(
            lambda: bundle(2, 5000, [(1, 2000), (3, 1000)]),
            [[("L2", 0, 2), ("L3", 2, 6)]],
            [5000],
            {"bundle_return": "whole_only"},
        ),
        "only whole: the first lacks 2 in the midst of its 3 of B": Fault(
            lambda: bundle(2, 5000, [(1, 2000), (3, 1000)]),
            [[("L2", 0, 2), ("L3", 0, 1), ("L3", 3, 6)]],
            [5000],
            {"bundle_return": "whole_only"},
        ),
    },
}  # fmt: skip
ROWS = [(case, name) for case, faults in FAULTS.items() for name in faults]


def settle(fault: Fault, policy: PolicyTerms) -> tuple[list[int], list[int]]:
    """What each case paid, and its tax."""
    allocation = fault.order()
    assert not allocation.discrepancies
    shop = Shop(allocation, captured_once(allocation), policy)
    found = []
    for number, case in enumerate(fault.cases):
        found.append(shop.take_back(case if isinstance(case, Evidence) else back(*case, case=f"R-{number}")))
        assert (found[-1].draws == ()) == (found[-1].payable_now_minor == 0)
    return [one.total_minor for one in found], [one.tax_minor for one in found]


@pytest.mark.parametrize(("case", "name"), ROWS, ids=[f"{case}: {name}" for case, name in ROWS])
def test_what_is_owed(case: str, name: str) -> None:
    fault = FAULTS[case][name]
    paid, tax = settle(fault, terms(**fault.policy))
    assert paid == fault.paid
    assert tax == (fault.tax or tax)


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [("1.13", "INR", 113), ("9899", "JPY", 9899), ("5800", "JPY", 5800), ("500", "JPY", 500), ("5.130", "KWD", 5130)],
    ids=["B056: 1.13 = 113", "B057: 9899 = 9899", "B058: 5800 = 5800", "B059: 500 = 500", "B060: 5.130 = 5130"],
)
def test_minor_units_are_the_currency_s_own(text: str, currency: str, minor: int) -> None:
    assert parse_major(text, currency) == minor
    assert format_minor(minor, currency) == text
    with pytest.raises(MoneyError):
        parse_major(text + ("0001" if "." in text else ".5"), currency)


def test_b062_40_percent_of_an_order_in_euros_paid_in_1125_kronor_is_450_00_kronor() -> None:
    kronor = capture("c1", 112_500, "SEK", order_minor=10_000)
    allocation = allocated([line(1, 4000), line(2, 6000)], 10_000, captures=[kronor])
    shop = Shop(allocation, [state("c1", 112_500, currency="SEK", order_minor=10_000)])
    drawn = shop.take_back(back(("L1", 0, 1))).draws[0]
    assert (drawn.currency, drawn.minor, shop.captures[0].available_minor) == ("SEK", 45_000, 67_500)


def test_b061_what_pounds_owe_on_a_payment_in_rupees_is_paid_in_rupees_98633_00_and_never_1000_00() -> None:
    rupees = capture("c1", 9_863_300, "INR", order_minor=100_000)
    shop = Shop(
        allocated([line(1, 100_000)], 100_000, currency="GBP", captures=[rupees]),
        [state("c1", 9_863_300, currency="INR", order_minor=100_000)],
    )
    drawn = shop.take_back(back(("L1", 0, 1))).draws[0]
    assert (drawn.currency, drawn.minor) == ("INR", 9_863_300)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("first_paid_first", [{"gift": 3000, "card": 1000}, {"card": 6000}]),
        ("last_paid_first", [{"card": 4000}, {"card": 3000, "gift": 3000}]),
        ("pro_rata", [{"gift": 1200, "card": 2800}, {"gift": 1800, "card": 4200}]),
    ],
    ids=["B066: gift 30 card 10, card 60", "B066: card 40, card 30 gift 30", "B066: gift 12 card 28, gift 18 card 42"],
)
def test_which_tender_gets_the_part(turn: str, expected: list[dict[str, int]]) -> None:
    shop = Shop(
        split(),
        [state("gift", 3000, tender="gift_card", position=1), state("card", 7000, position=2)],
        terms(tender_order=turn),
    )
    found = [shop.take_back(back((name, 0, 1), case=name)) for name in ("L1", "L2")]
    assert [{draw.capture_id: draw.minor for draw in one.draws} for one in found] == expected


@pytest.mark.parametrize(("currency", "unit"), [("USD", 100), ("JPY", 1)])
def test_b067_of_80_00_store_credit_30_00_went_back_and_a_cancellation_gives_50_00(currency: str, unit: int) -> None:
    credit = capture("sc", 80 * unit, currency, tender="store_credit")
    allocation = allocated([line(1, 30 * unit), line(2, 50 * unit)], 80 * unit, currency=currency, captures=[credit])
    shop = Shop(allocation, [state("sc", 80 * unit, tender="store_credit", currency=currency)])
    shop.take_back(back(("L1", 0, 1)))
    cancelled = Evidence("R-2", units(("L2", 0, 1)), kind="cancellation", not_delivered=("L2",))
    assert shop.take_back(cancelled).total_minor == 50 * unit
    assert shop.captures[0].available_minor == 0


def serials(*names: str, price: int) -> Allocation:
    return allocated([line(1, price, len(names), serials=list(names))], price * len(names))


def with_serial(serial: str | None, unit: int = 0, case: str = "R-1") -> Evidence:
    row = Inspected("L1", unit, unit + 1, "A", serial=serial)
    return Evidence(case, units(("L1", unit, unit + 1)), received(("L1", 1)), (row,))


def test_b101_a_serial_sold_twice_comes_back_once_for_each_sale_300_00_nothing_280_00() -> None:
    first, second = serials("ABC1", price=30_000), serials("ABC1", price=28_000)
    shops = [Shop(first, captured_once(first)), Shop(second, captured_once(second))]
    found = [shops[at].take_back(with_serial("ABC1", case=f"R-{n}")).total_minor for n, at in enumerate((0, 0, 1))]
    assert found == [30_000, 0, 28_000]


@pytest.mark.parametrize("serial", [None, "S9"])
def test_b102_without_its_serial_or_with_another_nothing_of_150_00_is_owed(serial: str | None) -> None:
    allocation = serials("S1", "S2", price=15_000)
    shop = Shop(allocation, captured_once(allocation))
    assert shop.derive(with_serial(serial)).total_minor == 0
    assert shop.derive(Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)))).total_minor == 0
    assert [shop.derive(with_serial(sold)).total_minor for sold in ("S1", "S2")] == [15_000, 15_000]


ELSEWHERE = {
    "B056": "test_minor_units_are_the_currency_s_own",
    "B057": "test_minor_units_are_the_currency_s_own",
    "B058": "test_minor_units_are_the_currency_s_own",
    "B059": "test_minor_units_are_the_currency_s_own",
    "B061": "test_b061_what_pounds_owe_on_a_payment_in_rupees_is_paid_in_rupees_98633_00_and_never_1000_00",
    "B062": "test_b062_40_percent_of_an_order_in_euros_paid_in_1125_kronor_is_450_00_kronor",
    "B066": "test_which_tender_gets_the_part",
    "B067": "test_b067_of_80_00_store_credit_30_00_went_back_and_a_cancellation_gives_50_00",
    "B101": "test_b101_a_serial_sold_twice_comes_back_once_for_each_sale_300_00_nothing_280_00",
    "B102": "test_b102_without_its_serial_or_with_another_nothing_of_150_00_is_owed",
}
STOCK = {"B107"}
"""About stock alone, which this product does not keep."""


def test_every_handed_fault_of_these_kinds_is_here() -> None:
    handed = {
        one["id"] for one in json.loads(shared_file("cases", "cases.json").read_text()) if one["kind"] in ("B", "D")
    }
    assert all(callable(globals()[name]) for name in ELSEWHERE.values())
    assert handed == FAULTS.keys() | ELSEWHERE.keys() | STOCK
