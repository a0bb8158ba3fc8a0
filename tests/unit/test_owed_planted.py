"""Property 19: import is idempotent, and each planted mismatch gets its one named discrepancy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.allocation import allocate
from ledger.order_document import parse_order
from ledger.order_facts import OrderFacts
from ledger.orders import money_digest
from tests.engine import capture, document, line
from tests.tape import Tape

Document = dict[str, Any]


def clean(tape: Tape) -> Document:
    """An order whose figures agree: one to four lines with their tax, each worth something, paid by one card."""
    lines = []
    for number in range(1, tape.pick(4) + 2):
        price, quantity = 2 * (tape.pick(20_000) + 1), tape.pick(12) + 1
        lines.append(line(number, price, quantity, tax_minor=price * quantity * tape.pick(22) // 121))
    return document(lines, sum(one["unit_price_minor"] * one["quantity"] for one in lines))


def _paid(order: Document, minor: int, **facts: Any) -> Document:
    return order | {"captures": [capture("c1", minor, order["currency"], **facts)]}


def _charged(order: Document, minor: int) -> Document:
    return _paid(order | {"total_minor": minor}, minor)


def _first_line(order: Document, **facts: Any) -> Document:
    return order | {"lines": [order["lines"][0] | facts, *order["lines"][1:]]}


def _discount(order: Document, minor: int, total: int, **facts: Any) -> Document:
    refs = [one["line_ref"] for one in order["lines"]]
    return _charged(order | {"order_discounts": [{"id": "P", "minor": minor, "applies_to": refs} | facts]}, total)


def _in_dollars(order: Document, tape: Tape) -> Document:
    return order | {"captures": [capture("c1", order["total_minor"] + tape.pick(50), "USD")]}


def _in_cash(order: Document, tape: Tape) -> Document:
    """One line that is a little above the coin of 5 it was paid in; several lines would be re-spread, which has its own name."""
    paid = 5 * order["total_minor"]
    total = paid + 1 + tape.pick(2)
    return _paid(order | {"lines": [line(1, total)], "total_minor": total}, paid, tender="cash", step_minor=5)


def _off_step(order: Document, _tape: Tape) -> Document:
    """Two lines that are off the step of 10 together make a total that is on it."""
    lines = [line(1, 10 * order["total_minor"] + 5), line(2, 10 * len(order["lines"]) + 5)]
    total = sum(one["unit_price_minor"] for one in lines)
    return _paid(order | {"lines": lines, "total_minor": total}, total, step_minor=10)


def _total_off_step(order: Document, tape: Tape) -> Document:
    total = 10 * order["total_minor"] + 1 + tape.pick(9)
    return _paid(order | {"lines": [line(1, total)], "total_minor": total}, total, step_minor=10)


PLANTED: dict[str, Callable[[Document, Tape], Document]] = {
    "line_gap_small": lambda order, tape: _charged(order, order["total_minor"] + 1 + tape.pick(len(order["lines"]))),
    "line_gap_large": lambda order, tape: _charged(
        order, order["total_minor"] + len(order["lines"]) + 1 + tape.pick(5000)
    ),
    "explicit_mismatch": lambda order, tape: _discount(
        order, 2, order["total_minor"] - 2, shares={"L1": tape.one_of((0, 1))}
    ),
    "negative_line": lambda order, tape: _discount(order, order["total_minor"] + 1 + tape.pick(900), 1),
    "tax_gap": lambda order, tape: order
    | {"tax_total_minor": sum(one["tax_minor"] for one in order["lines"]) + 1 + tape.pick(900)},
    "tax_over_gross": lambda order, tape: _first_line(
        order, tax_minor=order["lines"][0]["unit_price_minor"] * order["lines"][0]["quantity"] + 1 + tape.pick(900)
    ),
    "tax_unallocated": lambda order, _tape: _first_line(order, tax_minor=None),
    "under_captured": lambda order, _tape: _paid(order, order["total_minor"] - 1),
    "over_captured": lambda order, tape: _paid(order, order["total_minor"] + 1 + tape.pick(5000)),
    "capture_unlinked": lambda order, tape: order
    | {"captures": [*order["captures"], capture("c2", 1 + tape.pick(5000), linked=False)]},
    "currency_mixed": _in_dollars,
    "no_exponent": lambda order, _tape: _paid(order | {"currency": "XTS"}, order["total_minor"]),
    "cash_rounding": _in_cash,
    "off_step": _off_step,
    "total_off_step": _total_off_step,
}  # fmt: skip


def read(order: Document) -> OrderFacts:
    return parse_order(json.dumps(order))


def names(order: Document) -> list[str]:
    return [found.name for found in allocate(read(order)).discrepancies]


@settings(max_examples=400)
@given(st.binary(max_size=24), st.sampled_from(sorted(PLANTED)))
def test_an_order_that_agrees_has_no_discrepancy_and_each_planted_mismatch_has_its_one(data: bytes, name: str) -> None:
    tape = Tape(data)
    order = clean(tape)
    assert names(order) == []
    assert names(PLANTED[name](order, tape)) == [name]


@settings(max_examples=200)
@given(st.binary(max_size=24))
def test_the_same_order_again_is_the_same_however_it_is_written_and_another_amount_is_another(data: bytes) -> None:
    tape = Tape(data)
    order = clean(tape)
    facts = read(order)
    again = parse_order(json.dumps(dict(reversed(order.items())), indent=tape.pick(3)))
    renamed = read(order | {"customer": {"external_ref": "c_881", "name": "Ilse Brandt-Roth"}})
    assert money_digest(facts) == money_digest(again) == money_digest(renamed)
    assert allocate(facts).canonical == allocate(again).canonical
    other = PLANTED[tape.one_of(("line_gap_small", "tax_gap", "over_captured"))](order, tape)
    assert money_digest(read(other)) != money_digest(facts)
    assert allocate(read(other)).digest != allocate(facts).digest
