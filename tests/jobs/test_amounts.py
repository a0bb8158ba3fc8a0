"""Our minor units and the provider's (STRIPE.md §6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.stripe_amounts import NotSendable, from_provider, to_provider
from ledger.money import EXPONENTS


@pytest.mark.parametrize(
    ("minor", "currency", "sent"),
    [
        (2490, "GBP", 2490),
        (500, "JPY", 500),
        (5, "UGX", 500),
        (5, "ISK", 500),
        (5120, "KWD", 5120),
        (1050, "HUF", 1050),
        (105, "TWD", 105),
        (500, "MGA", 5),
    ],
)
def test_an_amount_is_sent_in_the_providers_units(minor: int, currency: str, sent: int) -> None:
    assert to_provider(minor, currency) == sent
    assert from_provider(sent, currency) == minor


@pytest.mark.parametrize(
    ("minor", "currency"),
    [(5124, "KWD"), (505, "MGA"), (0, "GBP"), (-1, "GBP"), (100, "CLF"), (100, "LYD"), (100, "XXX"), (100, "gbp")],
)
def test_what_the_provider_has_no_units_for_is_not_sent(minor: int, currency: str) -> None:
    with pytest.raises(NotSendable):
        to_provider(minor, currency)


@pytest.mark.parametrize(("amount", "currency"), [(550, "UGX"), (1, "ISK"), (100, "XXX")])
def test_an_answer_that_is_no_whole_number_of_our_units_is_no_amount_of_ours(amount: int, currency: str) -> None:
    assert from_provider(amount, currency) == 0


@given(st.integers(1, 10**12), st.sampled_from(sorted(EXPONENTS)))
def test_what_is_sent_is_read_back_as_the_same_amount(minor: int, currency: str) -> None:
    try:
        sent = to_provider(minor, currency)
    except NotSendable:
        return
    assert from_provider(sent, currency) == minor
