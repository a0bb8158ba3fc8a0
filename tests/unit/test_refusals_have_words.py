"""Every code that the product gives a refund has its row of words: read from the code itself, so that a new one fails here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.automatic_rule import HELD, OBSTACLES
from ledger.refusals import SITUATIONS

ROOT = Path(__file__).parents[2]
# What is worked out right before a send, and the functions it asks.
BEFORE_A_SEND = {
    "ledger/approvals.py": {"fault_before_send", "_fault_of_approver"},
    "ledger/two_managers.py": {"fault_of_second"},
    "ledger/fingerprint.py": {"not_sendable"},
}
OUTCOMES = {"NotAccepted", "Refused", "Unknown"}


def returned() -> Iterator[tuple[str, str]]:
    """(function, code) of each text that a check before a send returns."""
    for path, names in BEFORE_A_SEND.items():
        found = {
            node.name: node
            for node in ast.walk(ast.parse((ROOT / path).read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        for name in names:
            for node in ast.walk(found[name]):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield from ((name, code) for code in texts(node.value))


def texts(node: ast.expr) -> Iterator[str]:
    """What an expression may come to, as far as it is written there."""
    match node:
        case ast.Constant(value=str(code)) if code:
            yield code
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts(body)
            yield from texts(orelse)


def outcomes() -> Iterator[tuple[str, str]]:
    """(file, code) of each outcome of a call that a job makes up itself."""
    for path in sorted((ROOT / "jobs").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in OUTCOMES
                and node.args
            ):
                yield from ((path.name, code) for code in texts(node.args[0]))


@pytest.mark.parametrize(("where", "code"), sorted({*returned(), *outcomes()}))
def test_a_code_has_a_sentence_and_says_what_to_do(where: str, code: str) -> None:
    assert code in SITUATIONS, f"{where} returns {code}: give it a row in ledger/refusals.py"
    assert SITUATIONS[code].sentence.endswith(".")
    assert SITUATIONS[code].then.endswith(".")


@pytest.mark.parametrize("obstacle", sorted(OBSTACLES))
def test_a_policy_that_may_approve_no_more_is_named_as_the_reason(obstacle: str) -> None:
    assert OBSTACLES[obstacle] in SITUATIONS[HELD + obstacle].sentence


def test_the_checks_before_a_send_are_all_read() -> None:
    assert {code for _, code in returned()} >= {"seal", "generation", "expired", "fingerprint", "left", "strength", "reservation",
                                                "blocked", "disputed", "charges", "multicapture", "account"}  # fmt: skip
