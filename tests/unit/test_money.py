"""The six roundings, and text into minor units and back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.money import MAX_MINOR, MoneyError, bps, cut, exponent, format_minor, parse_major, part, peel, scale, spread

amounts = st.integers(0, 10**10)
quantities = st.one_of(st.integers(1, 12), st.integers(1, 80_000))


def unit_values(total: int, quantity: int, step: int = 1) -> list[int]:
    return [part(total, quantity, unit, unit + 1, step) for unit in range(quantity)]


def test_five_cents_over_eight_units_never_end_on_a_negative_unit() -> None:
    assert unit_values(5, 8) == [1, 0, 1, 1, 0, 1, 0, 1]


def test_units_of_a_us_order_keep_whole_net_prices() -> None:
    gross = unit_values(5863, 3)
    taxes = [peel(478, 5863, cut(5863, 3, k + 1)) - peel(478, 5863, cut(5863, 3, k)) for k in range(3)]
    assert gross == [1954, 1955, 1954]
    assert taxes == [159, 160, 159]
    assert [g - t for g, t in zip(gross, taxes, strict=True)] == [1795, 1795, 1795]


def test_kuwaiti_units_stay_on_the_step_of_ten_fils() -> None:
    assert unit_values(22450, 4, 10) == [5610, 5620, 5610, 5610]
    assert unit_values(15370, 3, 10) == [5120, 5130, 5120]


def test_yen_have_no_smaller_part() -> None:
    assert unit_values(10_000, 3) == [3333, 3334, 3333]


def test_a_coupon_spreads_by_value_in_line_order() -> None:
    assert spread(1000, [1999, 749, 3400]) == [325, 122, 553]
    assert spread(400, [900, 900, 900]) == [133, 134, 133]


def test_a_reduction_follows_the_ratio_of_what_it_is_worth() -> None:
    assert scale(16200, 180, 60) == 5400
    assert scale(14900, 60, 19) == 4718
    assert [scale(7753, 8400, k * 2800) - scale(7753, 8400, (k - 1) * 2800) for k in (1, 2, 3)] == [2584, 2585, 2584]
    assert bps(5900, 4000) == 2360


@given(amounts, quantities, st.sampled_from([1, 10]), st.data())
def test_any_partition_of_a_line_sums_to_it(total: int, quantity: int, step: int, data: st.DataObject) -> None:
    total -= total % step
    edges = sorted({0, quantity, *data.draw(st.lists(st.integers(0, quantity), max_size=8))})
    parts = [part(total, quantity, a, b, step) for a, b in pairwise(edges)]
    assert sum(parts) == total
    assert all(share >= 0 and share % step == 0 for share in parts)


@given(amounts, quantities, st.data())
def test_tax_of_every_part_is_inside_it_and_the_parts_sum_to_the_tax(
    gross: int, quantity: int, data: st.DataObject
) -> None:
    tax = data.draw(st.integers(0, gross))
    edges = sorted({0, quantity, *data.draw(st.lists(st.integers(0, quantity), max_size=8))})
    reached = [(cut(gross, quantity, k), peel(tax, gross, cut(gross, quantity, k))) for k in edges]
    parts = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(reached)]
    assert sum(t for _, t in parts) == tax
    assert all(0 <= t <= g for g, t in parts)


@given(amounts, quantities, st.data())
def test_more_units_are_never_worth_less(total: int, quantity: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, quantity - 1))
    assert cut(total, quantity, k) <= cut(total, quantity, k + 1)


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=30), st.data())
def test_shares_sum_and_stay_below_their_weight(weights: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(0, sum(weights)))
    shares = spread(total, weights)
    assert sum(shares) == total
    assert all(0 <= share <= weight for share, weight in zip(shares, weights, strict=True))


@given(st.integers(0, MAX_MINOR), st.sampled_from(["EUR", "JPY", "KWD", "CLF"]))
def test_an_amount_written_out_reads_back_the_same(minor: int, currency: str) -> None:
    assert parse_major(format_minor(minor, currency), currency) == minor


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("12.30", "EUR", 1230),
        (" 12.3 ", "EUR", 1230),
        ("12", "EUR", 1200),
        ("1.13", "INR", 113),
        ("0.29", "USD", 29),
        ("1034.45", "EUR", 103445),
        ("9899", "JPY", 9899),
        ("5.12", "KWD", 5120),
        ("0", "EUR", 0),
    ],
)
def test_typed_amounts_become_exact_minor_units(text: str, currency: str, minor: int) -> None:
    assert parse_major(text, currency) == minor


@pytest.mark.parametrize(
    ("text", "currency", "hint"),
    [
        ("6,95", "EUR", "point"),
        ("1,034.45", "EUR", "thousand"),
        ("1'034.45", "CHF", "thousand"),
        ("1 034.45", "EUR", "thousand"),
        ("-5.00", "EUR", "sign"),
        ("+5.00", "EUR", "sign"),
        ("\u22125.00", "EUR", "sign"),
        ("5.001", "EUR", "too many decimals"),
        ("100.00", "JPY", "no decimals"),
        ("", "EUR", "no amount"),
        ("5.", "EUR", "digits and a point"),
        (".5", "EUR", "digits and a point"),
        ("5e3", "EUR", "digits and a point"),
        ("1.2.3", "EUR", "digits and a point"),
        ("\u0661\u0662", "EUR", "digits and a point"),
        ("NaN", "EUR", "digits and a point"),
        ("100000000000.01", "EUR", "too large"),
        ("9" * 400, "EUR", "too large"),
        ("5.00", "eur", "ISO 4217"),
        ("5.00", "XXX", "ISO 4217"),
    ],
)
def test_amounts_that_could_be_misread_are_refused_with_what_to_write(text: str, currency: str, hint: str) -> None:
    with pytest.raises(MoneyError, match=hint):
        parse_major(text, currency)


def test_a_negative_amount_shows_a_true_minus() -> None:
    assert format_minor(-1230, "EUR") == "\u221212.30"
    assert format_minor(5, "KWD") == "0.005"
    assert format_minor(5120, "JPY") == "5120"


def test_exponents_are_those_of_iso_4217_and_not_of_a_provider_or_locale_table() -> None:
    assert {code: exponent(code) for code in ("UGX", "ISK", "IQD", "LBP", "MGA", "CLF", "EUR")} == {
        "UGX": 0,
        "ISK": 0,
        "IQD": 3,
        "LBP": 2,
        "MGA": 2,
        "CLF": 4,
        "EUR": 2,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cut(100, 3, 4),
        lambda: cut(105, 3, 1, 10),
        lambda: cut(-1, 3, 1),
        lambda: cut(100, 0, 0),
        lambda: cut(1.0, 3, 1),  # type: ignore[arg-type]
        lambda: cut(True, 3, 1),
        lambda: part(100, 3, 2, 1),
        lambda: peel(5, 4, 1),
        lambda: peel(1, 4, 5),
        lambda: scale(5, 0, 0),
        lambda: scale(5, 3, 4),
        lambda: bps(-1, 100),
        lambda: spread(5, [0, 0]),
        lambda: spread(5, [3, -1]),
        lambda: format_minor(1.5, "EUR"),  # type: ignore[arg-type]
    ],
)
def test_a_primitive_refuses_what_it_cannot_round_exactly(wrong: object) -> None:
    with pytest.raises(MoneyError):
        wrong()  # type: ignore[operator]


def test_nothing_shares_out_to_nothing() -> None:
    assert spread(0, [0, 0]) == [0, 0]
    assert peel(0, 0, 0) == 0


def test_no_units_are_worth_nothing_wherever_they_lie() -> None:
    assert [part(5918, 3, at, at) for at in range(4)] == [0, 0, 0, 0]
