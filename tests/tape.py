"""Orders, policies and returns out of a string of bytes: one draw of Hypothesis an example, and smaller bytes are simpler orders.

Drawing every number on its own costs more than the engine under test. A tape that runs out gives zeros, the simplest choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeVar

from ledger.allocation import Allocation, allocate
from ledger.entitlement_facts import CaptureState, CaseUnits, Evidence, Grade, Inspected, Received
from ledger.order_facts import CaptureFacts, OrderFacts
from ledger.policy_terms import PolicyTerms
from tests.engine import terms

T = TypeVar("T")
GRADES: tuple[Grade, ...] = ("A", "B", "C", "D")
PLACED = datetime(2026, 4, 20, 18, 2, 11, tzinfo=UTC)
CURRENCIES = (("EUR", 1), ("JPY", 1), ("KWD", 10), ("BHD", 1))


@dataclass
class Tape:
    data: bytes
    at: int = 0

    def pick(self, below: int) -> int:
        """A number from 0 to `below` − 1."""
        size = 1 if below <= 256 else 2 if below <= 65_536 else 3
        chunk = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(chunk, "big") % below if chunk else 0

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.pick(len(choices))]

    def chance(self, of: int) -> bool:
        """True once in `of` times, never on an empty tape."""
        return self.pick(of) == of - 1


@dataclass(frozen=True)
class Made:
    """An order with its captures, the policy it is returned under, and its parts in their order of return."""

    allocation: Allocation
    captures: list[CaptureState]
    policy: PolicyTerms
    parts: list[tuple[str, int, int]]
    tape: Tape


def _quantity(tape: Tape) -> int:
    return tape.pick(9) + 1 if not tape.chance(4) else tape.pick(80_000) + 1


def _line(tape: Tape, number: int, kind: str, step: int, exclusive: bool) -> dict[str, Any]:
    quantity = _quantity(tape) if kind == "goods" else 1
    price = tape.pick(6000) * step if quantity < 10 else tape.pick(300) * step
    found: dict[str, Any] = {
        "line_ref": f"L{number}", "position": number, "kind": kind, "sku": f"S{number}",
        "title": TITLES[price % len(TITLES)], "quantity": quantity, "unit_price_minor": price,
        "list_price_minor": price + price % 97 * step,
    }  # fmt: skip
    worth = quantity * price
    if tape.chance(4) and worth:
        off = tape.pick(min(worth, 60_000)) // step * step
        found["discounts"] = ({"id": "own", "minor": off},)
        worth -= off
    rates = (0, 70_000, 190_000, 210_000)
    if tape.chance(4):
        found["taxes"] = tuple({"code": code, "rate_ppm": tape.one_of(rates)} for code in ("A", "B"))
    else:
        rate = tape.one_of(rates)
        tax = (worth * rate // 1_000_000 if exclusive else worth * rate // (1_000_000 + rate)) // step * step
        found["taxes"] = ({"code": "VAT", "rate_ppm": rate, "minor": tax},)
    return found


RULES: tuple[dict[str, Any], ...] = (
    {"type": "threshold_amount", "min_goods_minor": 5000, "off_bps": 1000},
    {"type": "buy_get", "buy": 2, "get": 1},
    {"type": "mix_match", "count": 3, "price_minor": 4000},
    {"type": "threshold_amount", "min_goods_minor": 9000, "off_minor": 700},
    {"type": "buy_get", "buy": 1, "get": 1, "off_bps": 5000},
    {
        "type": "quantity_break",
        "tiers": ({"from_quantity": 3, "unit_minor": 2000}, {"from_quantity": 9, "unit_minor": 900}),
    },
    {"type": "free_shipping", "min_goods_minor": 4000, "shipping_minor": 490},
    {"type": "free_gift", "gift_line": "L7"},
)
TITLES = ("Thing", "Teekanne »Größe 2«", "كوب أزرق", "砂時計")


def _policy(tape: Tape, plain: bool) -> PolicyTerms:
    key = (
        tape.one_of(("on_last_unit", "with_first_unit", "pro_rata_value", "pro_rata_unless_flat")),
        tape.one_of(("external_first", "last_paid_first", "store_value_first", "smallest_first", "pro_rata")),
        "keep" if plain else tape.one_of(("keep", "reprice_kept")),
        0 if plain else tape.one_of((0, 1000, 5000)),
        0 if plain else tape.one_of((0, 390)),
        "keep" if plain else tape.one_of(("keep", "hold", "deduct_value")),
    )
    if key not in _POLICIES:
        partial, tenders, broken, rate, label, gift = key
        _POLICIES[key] = terms(
            shipping={"full_return": "full", "partial_return": partial},
            tender_order=tenders,
            promo=dict.fromkeys(BREAKABLE, broken) | {"gift_kept": gift},
            restocking={"bps": rate, "flat_minor": {"EUR": 50} if rate else {}},
            label={"minor": {"EUR": label}},
            grade_bps={"C": 3000, "D": 10_000},
            routes={"manager_from_minor": {}},
        )
    return _POLICIES[key]


BREAKABLE = ("threshold", "quantity_break", "buy_get", "free_shipping")
_POLICIES: dict[tuple[str, str, str, int, int, str], PolicyTerms] = {}


def make(data: bytes, *, plain: bool = False) -> Made:
    """The order and policy of a tape. `plain`: nothing is deducted and no promotion repriced."""
    tape = Tape(data)
    currency, step = tape.one_of(CURRENCIES)
    exclusive = tape.chance(3)
    lines = [_line(tape, n + 1, "goods", step, exclusive) for n in range(tape.pick(3) + 1)]
    if tape.chance(2):
        lines.append(_line(tape, 8, "shipping", step, exclusive))
    if tape.chance(4):
        lines.append(_line(tape, 9, "fee", step, exclusive) | {"fee": {"type": tape.one_of(("gift_wrap", "eco"))}})
    goods = [one for one in lines if one["kind"] == "goods"]
    worth = sum(
        one["quantity"] * one["unit_price_minor"] - sum(d["minor"] for d in one.get("discounts", ())) for one in goods
    )
    discounts: tuple[dict[str, Any], ...] = ()
    if tape.chance(2) and worth:
        refs = tuple(one["line_ref"] for one in goods)
        method = tape.one_of(("value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1"))
        off = tape.pick(min(worth, 60_000)) // step * step
        rule = tape.one_of(RULES)
        if rule["type"] == "free_gift":
            gift = _line(tape, 7, "goods", step, exclusive) | {"quantity": 1, "discounts": ()}
            gift["taxes"] = ({"code": "VAT", "rate_ppm": 0, "minor": 0},)
            lines.append(gift)
            refs, off = (*refs, "L7"), gift["unit_price_minor"]
        discounts = ({"id": "P", "minor": off, "applies_to": refs, "method": method, "promo": rule},)
    facts: dict[str, Any] = {
        "external_ref": "A-1", "currency": currency, "total_minor": 0, "placed_at": PLACED, "zone": "Europe/Berlin",
        "disclosures": dict.fromkeys(("restocking_fee", "return_cost_on_consumer", "gift_condition"), True),
        "channel": "web", "price_mode": "exclusive" if exclusive else "inclusive", "lines": tuple(lines),
        "order_discounts": discounts,
    }  # fmt: skip
    # What the lines come to is not known before they are allocated: the total follows from them.
    stated = OrderFacts.model_validate(facts)
    first = allocate(stated)
    wanted = sum(one.gross_minor for one in first.lines if one.line_id != "rounding")
    if first.discrepancies and first.discrepancies[0].name == "line_gap_large":
        wanted = int(dict(first.discrepancies[0].facts)["lines_minor"])
    total = wanted - wanted % step
    split = tape.pick(total // step + 1) * step if total // step < 60_000 else total // 3 // step * step
    captures: list[dict[str, Any]] = []
    states = []
    for position, (minor, tender) in enumerate(
        ((split, tape.one_of(("card", "gift_card"))), (total - split, "card")), 1
    ):
        if minor:
            ref = f"c{position}"
            captures.append({"capture_ref": ref, "tender": tender, "currency": currency, "captured_minor": minor,
                             "captured_at": PLACED, "step_minor": step})  # fmt: skip
            states.append(CaptureState(ref, tender, currency, minor, minor, minor, 0, step, position=position))
    paid = tuple(CaptureFacts(**one) for one in captures)
    allocation = allocate(stated.model_copy(update={"total_minor": total, "captures": paid}))
    return Made(allocation, states, _policy(tape, plain), _parts(tape, allocation), tape)


def _parts(tape: Tape, allocation: Allocation) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for line in allocation.lines:
        if line.kind == "goods":
            cut = tape.pick(line.quantity) if line.quantity < 65_536 else line.quantity // 2
            edges = sorted({0, cut, line.quantity})
            found += [(line.line_id, a, b) for a, b in pairwise(edges)]
    return sorted(found, key=lambda _: tape.pick(256))


def returned(tape: Tape, case: str, parts: Sequence[tuple[str, int, int]], *, plain: bool = False) -> Evidence:
    """The parts in one case, all received; perhaps worn, perhaps on a label of ours."""
    rows = tuple(Inspected(line, a, b, tape.one_of(GRADES), photos=1, note="worn") for line, a, b in parts)
    counts: dict[str, int] = {}
    for line, a, b in parts:
        counts[line] = counts.get(line, 0) + b - a
    return Evidence(
        case,
        tuple(CaseUnits(*part, reason="changed_mind") for part in parts),
        tuple(Received(line, count) for line, count in counts.items()),
        () if plain or tape.chance(2) else rows,
        parcels_on_our_label=0 if plain else tape.pick(2),
    )
