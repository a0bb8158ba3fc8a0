"""Property 20: whatever policies are in force, at most one wins, whatever their order, if none were let in that tie."""

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ledger.policy_choice import About, Candidate, choose, ties
from ledger.policy_terms import Select

REGIONS = ("DE", "US", "US-NY", "US-CA")
FACTS = {"categories": ("apparel", "lamps"), "reasons": ("faulty", "size"), "payment_methods": ("card", "gift_card"),
         "channels": ("web", "shop"), "sale_modes": ("distance", "in_store")}  # fmt: skip


def _some(values: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    """Nothing, one of them, or two."""
    pairs = [frozenset(pair) for pair in combinations(values, 2)]
    return st.sampled_from([frozenset(), *(frozenset({value}) for value in values), *pairs])


SALES = st.builds(
    About, tenant=st.sampled_from(("harbour", "quay")), category=st.sampled_from((None, *FACTS["categories"])),
    reason=st.sampled_from(FACTS["reasons"]), region=st.sampled_from((None, "FR", *REGIONS)),
    payment_method=st.sampled_from((None, *FACTS["payment_methods"])), channel=st.sampled_from((None, *FACTS["channels"])),
    sale_mode=st.sampled_from((None, *FACTS["sale_modes"])),
)  # fmt: skip
SELECTS = st.builds(
    Select, tenant=st.sampled_from((None, "harbour")), regions=_some(REGIONS),
    **{name: _some(values) for name, values in FACTS.items()},
)  # fmt: skip


@st.composite
def let_in(draw: st.DrawFn) -> list[Candidate[int]]:
    """Policies that came into force one after the other, those that tie with an earlier one refused."""
    kept: list[Candidate[int]] = []
    for number, (select, priority) in enumerate(draw(st.lists(st.tuples(SELECTS, st.integers(0, 1)), max_size=5))):
        one = Candidate(number, select, priority)
        if not any(ties(one, other) for other in kept):
            kept.append(one)
    return kept


@given(let_in(), SALES, st.randoms(use_true_random=False))
def test_selection_is_total_and_order_free(kept: list[Candidate[int]], sale: About, order: Random) -> None:
    found = choose(kept, sale)
    assert len(found) <= 1
    assert choose(order.sample(kept, len(kept)), sale) == found
    if any(one.select == Select() for one in kept):
        assert found


@given(st.lists(st.tuples(SELECTS, st.integers(0, 1)), min_size=2, max_size=4), SALES)
def test_two_that_both_win_were_two_that_tie(made: list[tuple[Select, int]], sale: About) -> None:
    candidates = [Candidate(number, *one) for number, one in enumerate(made)]
    winners = choose(candidates, sale)
    for one, other in combinations([one for one in candidates if one.named in winners], 2):
        assert ties(one, other)
        assert ties(other, one)


def test_a_state_goes_before_its_country_and_a_category_before_everything() -> None:
    country, state = (
        Candidate("US", Select(regions=frozenset({"US"}))),
        Candidate("NY", Select(regions=frozenset({"US-NY"}))),
    )
    lamps = Candidate("lamps", Select(categories=frozenset({"lamps"})), -5)
    everything = Candidate("usual", Select(), 99)
    all_of_them = (country, state, lamps, everything)
    assert not any(ties(one, other) for one, other in combinations(all_of_them, 2))
    assert choose(all_of_them, About("h", region="US-NY")) == ["NY"]
    assert choose(all_of_them, About("h", region="US-TX")) == ["US"]
    assert choose(all_of_them, About("h", region="US-NY", category="lamps")) == ["lamps"]
    assert choose(all_of_them, About("h")) == ["usual"]


def test_what_is_not_known_is_in_no_set() -> None:
    assert choose([Candidate("web", Select(channels=frozenset({"web"})))], About("h")) == []
