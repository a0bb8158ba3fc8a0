"""P17: money is a whole number of minor units; no float can reach it, because there is none where it is worked out."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Integer, SmallInteger

from ledger.tables.base import metadata

ROOT = Path(__file__).parents[2]
# Where amounts are computed, converted or written. Times in seconds are measured elsewhere.
MONEY = sorted(path for path in (ROOT / "ledger").rglob("*.py") if "migrations" not in path.parts)
MONEY += [ROOT / "jobs" / "stripe_amounts.py", ROOT / "jobs" / "submitter.py", ROOT / "jobs" / "reconciler.py"]


@pytest.mark.parametrize("path", MONEY, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_float_and_no_true_division_where_money_is_worked_out(path: Path) -> None:
    assert floats(path.read_text(encoding="utf-8")) == []


def test_the_look_for_floats_finds_them() -> None:
    slips = "half = total / 2\nrate = 0.5\nminor = float(text)\ntotal /= 100\n"
    assert floats(slips) == [1, 2, 3, 4]


def test_every_amount_in_the_database_is_a_whole_number() -> None:
    columns = [
        column for table in metadata.tables.values() for column in table.columns if column.name.endswith("_minor")
    ]
    assert len(columns) > 20
    assert [str(column) for column in columns if not isinstance(column.type, (BigInteger, Integer, SmallInteger))] == []


def floats(text: str) -> list[int]:
    """The lines of a module on which a float is written, made or divided into being."""
    found = []
    for node in ast.walk(ast.parse(text)):
        literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
        divided = isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div)
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "Decimal")
        if (literal or divided or called) and isinstance(node, (ast.expr, ast.stmt)):
            found.append(node.lineno)
    return sorted(found)
