"""Which sale a return belongs to when it names none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ledger.online_retail_rows import ReturnLine
from ledger.return_match import Matched, MatchedPart, Purchase, Unmatched, match_return

NOON = datetime(2010, 12, 20, 12, tzinfo=UTC)

RETURN = ReturnLine(9, "C540000", "22423", "CAKESTAND", "goods", 4, 1275, NOON, "17850", "GB")


def sold(ref: str, days_before: int, free: int, quantity: int | None = None, position: int = 1) -> Purchase:
    bought = free if quantity is None else quantity
    return Purchase(ref, f"L{position}", position, "17850", "22423", NOON - timedelta(days_before), bought, free)


def test_the_newest_sale_comes_first_and_older_ones_give_the_rest() -> None:
    found = match_return(RETURN, [sold("536001", 9, 10), sold("536003", 1, 3), sold("536002", 4, 0, 6)])
    assert found == Matched((MatchedPart("536003", "L1", 3), MatchedPart("536001", "L1", 1)))


def test_two_lines_of_one_invoice_give_in_their_order() -> None:
    found = match_return(RETURN, [sold("536003", 1, 3, position=7), sold("536003", 1, 3, position=2)])
    assert found == Matched((MatchedPart("536003", "L2", 3), MatchedPart("536003", "L7", 1)))


def test_another_customer_another_code_and_a_later_sale_are_left_out() -> None:
    others = [
        replace(sold("1", 1, 9), customer_ref="13047"),
        replace(sold("2", 1, 9), stock_code="22424"),
        replace(sold("3", 1, 9), placed_at=NOON + timedelta(minutes=1)),
        replace(sold("4", 1, 9), customer_ref=None),
    ]
    found = match_return(RETURN, others)
    assert isinstance(found, Unmatched)
    assert found.reason == "no_earlier_purchase"


def test_a_code_in_other_capitals_is_the_same_code() -> None:
    capital = replace(sold("1", 1, 9), stock_code="85123A")
    assert isinstance(match_return(replace(RETURN, stock_code="85123a"), [capital]), Matched)


def test_more_than_is_left_is_refused_whole_and_says_what_is_left() -> None:
    found = match_return(RETURN, [sold("1", 1, 2, 5), sold("2", 2, 1)])
    assert found == Unmatched("more_than_bought", "4 came back, 6 were bought, 3 are returned already", 6, 3)


def test_the_same_return_entered_twice_finds_nothing_left_the_second_time() -> None:
    assert isinstance(match_return(RETURN, [sold("1", 1, 4)]), Matched)
    again = match_return(RETURN, [sold("1", 1, 0, 4)])
    assert isinstance(again, Unmatched)
    assert again.reason == "more_than_bought"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (replace(RETURN, customer_ref=None), "no_customer"),
        (replace(RETURN, stock_code="D", kind="fee"), "not_goods"),
        (replace(RETURN, stock_code="POST", kind="shipping", customer_ref=None), "not_goods"),
    ],
)
def test_a_return_without_customer_or_goods_belongs_to_no_sale(line: ReturnLine, reason: str) -> None:
    found = match_return(line, [sold("1", 1, 9), replace(sold("2", 1, 9), customer_ref=None)])
    assert isinstance(found, Unmatched)
    assert found.reason == reason
