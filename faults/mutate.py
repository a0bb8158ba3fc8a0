"""`make mutate`: change one sign, rounding, bound or expression of the engine at a time, and see that a test fails.

Each change is made in memory in a process of its own, which then runs the tests of what is owed. A change that no test sees is
printed with its place, and the command ends with 1. For development only; nothing here is ever imported by the product.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    "money", "allocation", "allocation_shares", "allocation_bundles", "allocation_gaps", "allocation_tax", "allocation_lines",
    "promo_value", "calendar_days", "entitlement_pieces", "entitlement_promo", "entitlement_shipping",
    "entitlement_deductions", "entitlement_allowances", "entitlement_draws", "entitlement_windows",
    "entitlement_facts", "entitlement_products", "entitlement_conflicts", "entitlement_rules", "entitlement_tracks",
    "entitlement_verdict", "entitlement_override", "entitlement_deadlines", "entitlement", "duplicate_charges",
)  # fmt: skip
TESTS = (
    "tests/unit/test_owed_examples.py", "tests/unit/test_owed_cases.py", "tests/unit/test_owed_rules.py",
    "tests/unit/test_owed_import.py", "tests/unit/test_money.py", "tests/unit/test_allocation.py",
    "tests/unit/test_entitlement.py", "tests/unit/test_owed_law.py",
    "tests/unit/test_owed_findings.py", "tests/unit/test_owed_terms.py", "tests/unit/test_owed_parts.py",
    "tests/unit/test_duplicate_charges.py", "tests/unit/test_owed_planted.py", "tests/unit/test_owed_properties.py",
    "tests/unit/test_owed_properties_terms.py", "tests/unit/test_owed_properties_records.py",
    "tests/unit/test_owed_properties_together.py",
)  # fmt: skip
SWAPPED_NAMES = {"min": "max", "max": "min"}
SWAPPED_EXPRESSIONS = {"sub": "sum", "neg": "int", "min": "sum", "max0": "int", "sum": "sub"}
SWAPPED_SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
SWAPPED_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Change:
    """The `number`-th place of a module that can be changed, and what is done there."""

    module: str
    number: int
    line: int
    say: str


class _Changer(ast.NodeTransformer):
    """Walks a module and changes the place of a number; without one it only lists the places."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.places: list[tuple[int, str]] = []

    def _here(self, node: ast.expr, say: str) -> bool:
        self.places.append((node.lineno, say))
        return self.at == len(self.places) - 1

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swapped = SWAPPED_SIGNS.get(type(node.op))
        text = any(
            isinstance(side, (ast.Constant, ast.JoinedStr)) and not _number(side) for side in (node.left, node.right)
        )
        if (
            swapped is not None
            and not text
            and self._here(node, f"{type(node.op).__name__} becomes {swapped.__name__}")
        ):
            node.op = swapped()
        if isinstance(node.op, ast.FloorDiv) and self._here(node, "rounds up instead"):
            negated = ast.UnaryOp(ast.USub(), node.left)
            return ast.copy_location(ast.UnaryOp(ast.USub(), ast.BinOp(negated, ast.FloorDiv(), node.right)), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and self._here(node, "minus sign is lost"):
            return node.operand
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in SWAPPED_NAMES and self._here(node, f"{name} becomes {SWAPPED_NAMES[name]}"):
            node.func = ast.copy_location(ast.Name(SWAPPED_NAMES[name], ast.Load()), node.func)
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        first = node.elts[0] if node.elts else None
        name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        if name in SWAPPED_EXPRESSIONS and self._here(node, f'"{name}" becomes "{SWAPPED_EXPRESSIONS[name]}"'):
            node.elts[0] = ast.copy_location(ast.Constant(SWAPPED_EXPRESSIONS[name]), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swapped = SWAPPED_BOUNDS.get(type(node.ops[0]))
        if swapped is not None and self._here(node, f"{type(node.ops[0]).__name__} becomes {swapped.__name__}"):
            node.ops[0] = swapped()
        return node


def _number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _source(module: str) -> str:
    return (ROOT / "ledger" / f"{module}.py").read_text()


def changes(modules: Sequence[str]) -> Iterator[Change]:
    """Every change of every module, in order."""
    for module in modules:
        lister = _Changer()
        lister.visit(ast.parse(_source(module)))
        for number, (line, say) in enumerate(lister.places):
            yield Change(module, number, line, say)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the ledger with one change in it."""

    def __init__(self, change: Change) -> None:
        self.name = f"ledger.{change.module}"
        tree = _Changer(change.number).visit(ast.parse(_source(change.module)))
        path = str(ROOT / "ledger" / f"{change.module}.py")
        self.code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec")

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)  # noqa: S102 our own source with one operator changed


def seen(change: Change | None, seconds: float) -> bool:
    """Whether a test fails (or never ends) with this change, in a process of its own."""
    child = os.fork()
    if child == 0:
        _run(change)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return True


def _run(change: Change | None) -> None:
    import pytest  # noqa: PLC0415 loaded before the forks, so this costs nothing

    with Path(os.devnull).open("w") as nowhere, contextlib.suppress(Exception):
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    os.environ |= {"OWED_EXAMPLES": "150", "HYPOTHESIS_PROFILE": "quick"}
    os.chdir(ROOT)
    code = 1
    try:
        if change is not None:
            sys.meta_path.insert(0, _Changed(change))
        there = [test for test in TESTS if (ROOT / test).exists()]
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *there]))
    finally:
        os._exit(code)


def main() -> int:
    """Runs the changes asked for; returns 1 when one was seen by no test."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument(
        "--module", action="append", choices=MODULES, help="only this module of the ledger (repeatable)"
    )
    parser.add_argument("--sample", type=int, help="only so many changes, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0, help="a change that runs longer counts as seen")
    options = parser.parse_args()
    import hypothesis  # noqa: F401, PLC0415 loaded once for every fork
    import pydantic  # noqa: F401, PLC0415
    import pytest  # noqa: F401, PLC0415

    if seen(None, 600):
        print("The tests fail without any change: mend them first.")
        return 2
    todo = list(changes(options.module or MODULES))
    if options.sample is not None:
        todo = random.Random(options.seed).sample(todo, min(options.sample, len(todo)))
    missed = []
    for number, change in enumerate(todo, start=1):
        if not seen(change, options.seconds):
            missed.append(change)
            print(f"NOT SEEN  ledger/{change.module}.py:{change.line}  {change.say}", flush=True)
        if number % 25 == 0 or number == len(todo):
            print(f"{number} of {len(todo)} changes, {len(missed)} not seen", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
