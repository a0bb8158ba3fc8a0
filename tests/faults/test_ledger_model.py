"""The ledger against a plain model of it: whatever is done in whatever order, both say the same (Hypothesis, stateful).

`quick` takes the same few hundred steps each time, and as many again while a move is missing that they have to go through;
HYPOTHESIS_PROFILE=slow takes many more, chosen anew.
"""

import os
import secrets
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.machine_outside import OutsideMachine
from tests.stack import Server, Stack, fresh_stack

# The histories have to go through these, or the comparison says little.
MOVES = frozenset((
    "proposed→approved", "proposed→withdrawn", "approved→submitting", "approved→withdrawn", "approved→held", "held→approved",
    "submitting→unknown", "submitting→succeeded", "submitting→pending", "pending→succeeded", "unknown→succeeded",
    "unknown→needs_review", "unknown→submitting", "needs_review→succeeded", "needs_review→failed", "succeeded→reversed",
    "reversed, then proposed anew", "failed, then proposed anew", "withdrawn, then proposed anew",
    "refunded outside", "came to nothing outside", "matched to a case", "was for none of the goods",
    "disputed", "a question of the bank", "held for the bank", "won", "lost", "warning_closed", "let go all the same",
))  # fmt: skip
MOST_ROUNDS = 5
WITHOUT = (
    ("what moves balances", "DROP TRIGGER moves_balances ON transfers"),
    ("what a cap of a day counts", "DROP TRIGGER moves_cap ON cap_entries"),
)


@pytest.fixture(scope="module")
def stack(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        yield made


def machine_on(stack: Stack) -> type[OutsideMachine]:
    return type("Machine", (OutsideMachine,), {"stack": stack, "reached": Counter()})


def go_through(machine: type[OutsideMachine], number: int, *, examples: int, steps: int) -> None:
    """Histories that are the number's, without the search for the shortest one that fails."""
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck),
            database=None, phases=[Phase.generate],
        ),
    )  # fmt: skip


def test_the_ledger_says_what_a_plain_model_says_whatever_is_done_in_whatever_order(stack: Stack) -> None:
    machine = machine_on(stack)
    if os.environ.get("HYPOTHESIS_PROFILE") == "slow":
        go_through(machine, secrets.randbits(32), examples=400, steps=60)
    for number in range(1, MOST_ROUNDS + 1):
        if not machine.reached.keys() >= MOVES:
            go_through(machine, number, examples=12, steps=40)
    assert machine.reached.keys() >= MOVES, MOVES - machine.reached.keys()


@pytest.mark.parametrize("guard", WITHOUT, ids=lambda guard: guard[0])
def test_with_a_guard_taken_away_the_two_no_longer_say_the_same(server: Server, guard: tuple[str, str]) -> None:
    """The control: the model is a difference away from the ledger as soon as a guard does not do its part."""
    with fresh_stack(server) as stack:
        stack.server.run(guard[1].encode(), database=stack.name)
        with pytest.raises(AssertionError):
            go_through(machine_on(stack), 1, examples=12, steps=40)
