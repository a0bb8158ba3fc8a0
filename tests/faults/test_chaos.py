"""A small run of faulted lives, and its control: the same run without one guard finds the duplicate."""

import re
import subprocess
import sys
from pathlib import Path

from faults.guards import GUARDS
from faults.lives import plan

ROOT = Path(__file__).parents[2]


def chaos(*arguments: str) -> tuple[int, str]:
    """In a process of its own, for it forks and this one has threads."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.chaos", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_sixty_lives_under_every_fault_end_with_no_duplicate_none_lost_and_all_accounted_for() -> None:
    status, said = chaos("--lives", "60")
    assert status == 0, said
    assert "duplicates 0, ledger against provider 0, lost or stuck 0; seed 20261130" in said
    refunds = re.search(r"(\d+) refunds of ours", said)
    tried = re.search(r"refused (\d+) times and let 0 times", said)
    assert refunds is not None, said
    assert tried is not None, said
    assert int(refunds[1]) > 30
    assert int(tried[1]) > 50
    for disturbed in ("worker killed", "web killed", "people killed", "connections cut", "clock jumps"):
        assert re.search(rf"[1-9]\d* {disturbed}", said), said


def test_the_same_run_without_the_exclusion_of_units_finds_the_unit_that_two_cases_have() -> None:
    """Whether the second case was paid as well depends on how far it came; later guards stand behind this one."""
    status, said = chaos("--lives", "30", "--guard", "units")
    assert status == 1, said
    assert re.search("was paid twice|one unit is live in two cases", said), said
    assert "FOUND: what units (P1) keeps out" in said


def test_a_guard_that_no_second_writer_tries_is_missed_by_the_ordinary_course_of_a_few_lives() -> None:
    """Books whose balances do not move never come to rest: the run ends once what is wrong stands."""
    assert GUARDS["transfers"].rogue is None
    status, said = chaos("--lives", "12", "--guard", "transfers")
    assert status == 1, said
    assert "its moves make" in said
    assert "not quiet after" not in said
    assert "FOUND: what transfers (P3) keeps out" in said


def test_the_plan_is_the_seeds() -> None:
    assert plan(50, 7, 2) == plan(50, 7, 2)
    assert plan(50, 7, 2) != plan(50, 8, 2)


def test_every_guard_says_which_promise_it_keeps_and_what_is_taken_away() -> None:
    assert len(GUARDS) >= 10
    for guard in GUARDS.values():
        assert guard.off
        assert re.fullmatch(r"P\d+", guard.promise)
        assert (guard.rogue is None) == (guard.wants == ())
