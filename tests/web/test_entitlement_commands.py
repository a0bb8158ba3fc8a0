"""`flask entitlement explain` and `audit`: the arithmetic printed, and its proof from storage."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledger.database import scalar, transaction
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.test_commands import flask
from tests.world import World, build_world

ROOT = Path(__file__).parents[2]
UNGUARDED = "ALTER TABLE entitlements DROP CONSTRAINT inputs_are_stored_as_bound"


@pytest.fixture
def case(stack: Stack, world: World) -> str:
    """Ilse's return of two T-shirts, both here and graded."""
    opened = lives.open_case(stack, world, (("TEE", 2),))
    lives.arrive(stack, world, opened.case_id, ("TEE", 2))
    return f"C-{_number(stack, world, opened.case_id)}"


def _number(stack: Stack, world: World, case_id: Any) -> int:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return int(
            scalar(
                db, "SELECT number FROM cases WHERE merchant_id = :m AND case_id = :c", m=world.merchant_id, c=case_id
            )
        )


def test_the_arithmetic_of_a_case_is_printed_and_proved_from_what_was_stored(stack: Stack, case: str) -> None:
    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--recompute")

    lines = told.splitlines()
    assert (status, lines[0]) == (0, f"{case}, entitlement 2")
    assert any(line.startswith("1. 2 of 3 ") and "49.80 GBP" in line for line in lines), told
    assert "   cut(7470, 3, 2, 1) − cut(7470, 3, 0, 1)   [goods.units, TEE[0,2)]" in lines
    assert any(line.startswith("total 49.80 GBP = net ") for line in lines)
    assert any(line.startswith("to ") and "49.80 GBP for 49.80 GBP   min(" in line for line in lines)
    assert any(line.startswith("due ") for line in lines)
    assert any(line.startswith("outcome payable, decided by staff, because ") for line in lines)
    assert lines[-1] == "proved: its stored inputs give the same record, to the byte"


def test_a_case_is_named_as_the_console_does_by_its_bare_number_or_by_its_id(
    stack: Stack, world: World, case: str
) -> None:
    told = flask(stack.console_url, "entitlement", "explain", case)
    (row,) = as_administrator(stack, "SELECT case_id FROM cases")

    assert told[0] == 0
    for name in (case.removeprefix("C-"), case.lower(), str(row["case_id"])):
        assert flask(stack.console_url, "entitlement", "explain", name, "--merchant", world.slug) == told


def test_an_earlier_entitlement_is_printed_when_it_is_asked_for(stack: Stack, case: str) -> None:
    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--version", "1", "--recompute")

    assert status == 0
    assert told.splitlines()[0] == f"{case}, entitlement 1"
    assert "outcome wait until " in told


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("C-1",), "There is no case C-1 of harbour."),
        ((str(uuid4()),), "There is no case "),
        (("my case",), "CASE is a number such as C-20431, or an id; 'my case' is neither."),
        (("C-1", "--merchant", "nobody"), "There is no merchant nobody."),
    ],
)
def test_a_case_that_is_not_there_is_said_so(stack: Stack, world: World, words: tuple[str, ...], say: str) -> None:
    status, told = flask(stack.owner_url, "entitlement", "explain", *words)
    assert (status, say in told) == (1, True), told


def test_another_merchant_s_case_is_not_there_and_a_version_that_is_none_is_said(
    stack: Stack, world: World, case: str
) -> None:
    northwind = build_world(stack, slug="northwind")
    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--merchant", northwind.slug)
    assert (status, told) == (1, f"Error: There is no case {case} of northwind.\n")

    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--version", "9")
    assert (status, told) == (1, f"Error: Case {case} has no entitlement 9.\n")


def test_a_record_that_cannot_be_read_is_an_error_with_what_to_do(stack: Stack, case: str) -> None:
    as_administrator(stack, "UPDATE entitlements SET record = record - 'route'")
    status, told = flask(stack.owner_url, "entitlement", "explain", case)

    assert status == 1
    assert f"Error: Entitlement 2 of {case} cannot be read (KeyError: 'route')" in told


def test_an_audit_proves_every_entitlement_of_every_merchant(stack: Stack, world: World, case: str) -> None:
    build_world(stack, slug="northwind")
    status, told = flask(stack.owner_url, "entitlement", "audit")

    assert status == 0
    assert "harbour: 2 entitlements, 2 proved, in " in told
    assert "northwind: 0 entitlements, 0 proved, in " in told


def test_an_audit_looks_at_a_period_in_the_merchant_s_days(stack: Stack, case: str) -> None:
    as_administrator(stack, "UPDATE entitlements SET at = '2026-11-30T23:30:00Z' WHERE n = 1")

    def proved(*words: str) -> str:
        status, told = flask(stack.owner_url, "entitlement", "audit", "--merchant", "harbour", *words)
        assert status == 0, told
        return told.split(", in ")[0]

    assert "harbour: 0 entitlements" in proved("--to", "2026-11-29")
    assert "harbour: 0 entitlements" in proved("--from", "2200-01-01")
    status, told = flask(stack.owner_url, "entitlement", "audit", "--from", "2026-12-02", "--to", "2026-12-01")
    assert (status, "--to is before --from" in told) == (2, True)


def test_an_audit_lists_each_difference_with_its_name_and_ends_with_1(stack: Stack, case: str) -> None:
    without(stack, UNGUARDED)
    as_administrator(stack, "UPDATE entitlements SET record = jsonb_set(record, '{lines,0,minor}', '9999') WHERE n = 2")
    as_administrator(stack, "UPDATE entitlements SET evidence = '{}' WHERE n = 1")
    status, told = flask(stack.owner_url, "entitlement", "audit")

    assert status == 1
    assert (
        f"harbour: {case}, entitlement 1: inputs changed: the stored evidence is not what the record is bound to"
        in told
    )
    assert f"harbour: {case}, entitlement 2: record changed: the record is not the one its digest was made of" in told
    assert "harbour: 2 entitlements, 0 proved, 1 does not add up, 1 inputs changed, 1 record changed, in " in told
    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--recompute")
    assert status == 1
    assert "not proved: record changed: the record is not the one its digest was made of" in told


def test_what_was_stored_before_inputs_were_is_counted_named_when_asked_for_and_no_fault(
    stack: Stack, case: str
) -> None:
    without(stack, UNGUARDED)
    as_administrator(
        stack, "UPDATE entitlements SET evidence = NULL, priors = NULL, allocation_digest = NULL WHERE n = 1"
    )

    assert flask(stack.owner_url, "entitlement", "audit", "--list-notes")[0] == 0
    status, told = flask(stack.owner_url, "entitlement", "audit", "--list-notes")
    assert status == 0
    assert f"harbour: {case}, entitlement 1: inputs not stored: " in told
    assert "harbour: 2 entitlements, 1 proved, 1 inputs not stored, in " in told
    status, told = flask(stack.owner_url, "entitlement", "explain", case, "--version", "1", "--recompute")
    assert (status, "not proved: inputs not stored: " in told) == (1, True)


def test_make_runs_the_audit() -> None:
    assert "flask entitlement audit $(ARGS)" in (ROOT / "Makefile").read_text()
