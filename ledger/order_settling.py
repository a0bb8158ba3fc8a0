"""An order in question: what each statement of it says, and by which choices it would add up again.

An order is blocked when its facts do not add up, or when the shop stated it again otherwise. Nobody types a figure: a person
picks which statement stands, and where that does not add up, which figure of it and by which named method the rest follows.
Only choices after which the order adds up are offered; `why_not` says what stands in the way of one.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation import allocate
from ledger.allocation_checks import order_minor_of
from ledger.allocation_lines import AllocatedLine, Allocation
from ledger.allocation_methods import DiscountMethod, Methods, Settlement, Stands
from ledger.canonical import canonical_bytes
from ledger.database import first, rows
from ledger.errors import NotFound, WrongState
from ledger.methods_of_sale import methods_of_sales
from ledger.order_document import order_facts
from ledger.order_facts import LineFacts, OrderFacts

_TAG: Final = b"onceback.order-in-question.v1\0"
# A line below zero is taken off all goods, or off one of so many lines that a person can still choose among.
MOST_TARGETS: Final = 8
_SPREADS: Final[tuple[DiscountMethod, ...]] = (
    "value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1",
)  # fmt: skip
_STANDS: Final[tuple[Stands | None, ...]] = (None, "total", "captured", "lines")


@dataclass(frozen=True)
class Statement:
    """What the shop stated once. `conflict_id` is None for the statement the order has."""

    conflict_id: UUID | None
    customer_id: UUID | None
    facts: OrderFacts
    stored: Mapping[str, Any]
    facts_digest: bytes
    at: Any


@dataclass(frozen=True)
class InQuestion:
    """A blocked order. `allocation` is the one it has, `lines` and `captures` are its rows by reference."""

    merchant_id: UUID
    order: RowMapping
    allocation: Allocation
    first: Statement
    others: tuple[Statement, ...]
    lines: Mapping[str, RowMapping]
    captures: Mapping[str, RowMapping]
    methods: tuple[Methods, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.first, *self.others)

    @property
    def seen(self) -> bytes:
        """SHA-256 of what a person has to have seen: the allocation, the names, and every statement."""
        document = {
            "order": str(self.order["order_id"]), "before": bytes(self.order["allocation_digest"]).hex(),
            "discrepancies": list(self.order["discrepancies"]), "statements": [one.facts_digest.hex() for one in self.statements],
            "lines": [[ref, str(row["gross_minor"]), str(row["kept_minor"])] for ref, row in sorted(self.lines.items())],
        }  # fmt: skip
        return hashlib.sha256(_TAG + canonical_bytes(document)).digest()


@dataclass(frozen=True)
class Choice:
    """One way out, and what the order is worth by it (`total_minor`). `why_not`: what stands in the way, or ""."""

    key: str
    statement: Statement
    settle: Settlement
    allocation: Allocation
    total_minor: int
    why_not: str


_ORDER: Final = """
    SELECT o.order_id, o.external_ref, o.customer_id, cu.external_ref AS customer_ref, o.currency, o.total_minor, o.facts,
        o.facts_digest, o.allocation, o.allocation_digest, o.discrepancies, o.blocked, o.imported_at,
        EXISTS (SELECT 1 FROM cases c WHERE c.merchant_id = o.merchant_id AND c.order_id = o.order_id) AS has_cases
    FROM orders o LEFT JOIN customers cu ON cu.merchant_id = o.merchant_id AND cu.customer_id = o.customer_id
    WHERE o.merchant_id = :m AND o.order_id = :o
"""
_OTHERS: Final = """
    SELECT c.conflict_id, c.customer_id, cu.external_ref AS customer_ref, c.facts, c.facts_digest, c.found_at
    FROM order_conflicts c LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    WHERE c.merchant_id = :m AND c.order_id = :o AND c.conflict_id = ANY (open_conflicts(:m, :o)) ORDER BY c.conflict_id
"""
# What waits is called back before anything is settled, so what it claims of a line keeps nothing.
_LINES: Final = """
    SELECT l.line_id, l.line_ref, l.kind, l.sku, l.title, l.quantity, l.gross_minor, l.claimed_minor - coalesce((
            SELECT sum(k.amount_minor) FROM line_claims k JOIN intents i ON i.merchant_id = k.merchant_id
                AND i.intent_id = k.intent_id AND i.state IN ('proposed', 'approved', 'held')
                AND NOT EXISTS (SELECT 1 FROM manual_settlements h WHERE h.merchant_id = i.merchant_id
                    AND h.intent_id = i.intent_id)
            WHERE k.merchant_id = l.merchant_id AND k.line_id = l.line_id), 0)::bigint AS kept_minor,
        EXISTS (SELECT 1 FROM case_items i WHERE i.merchant_id = l.merchant_id AND i.line_id = l.line_id)
            OR EXISTS (SELECT 1 FROM case_asks a WHERE a.merchant_id = l.merchant_id AND a.line_id = l.line_id) AS asked
    FROM order_lines l WHERE l.merchant_id = :m AND l.order_id = :o ORDER BY l.position, l.line_ref
"""
_CAPTURES: Final = """
    SELECT k.capture_ref, k.tender, k.currency, k.captured_minor, k.order_minor, EXISTS (SELECT 1 FROM intents i
        WHERE i.merchant_id = k.merchant_id AND i.capture_id = k.capture_id
            AND i.state NOT IN ('proposed', 'withdrawn', 'failed', 'reversed')) AS drawn
    FROM captures k WHERE k.merchant_id = :m AND k.order_id = :o ORDER BY k.position
"""


def read_in_question(db: Connection, merchant_id: UUID, order_id: UUID, *, lock: bool = False) -> InQuestion:
    """A blocked order with its statements; with `lock` its row is locked, so that none comes in. Raises NotFound, WrongState."""
    keys = {"m": merchant_id, "o": order_id}
    if lock:
        first(db, "SELECT 1 FROM orders WHERE merchant_id = :m AND order_id = :o FOR NO KEY UPDATE", **keys)
    order = first(db, _ORDER, **keys)
    if order is None:
        raise NotFound
    if not order["blocked"]:
        raise WrongState("This order is not in question.")
    told = _statement(order, None, order["customer_ref"], order["imported_at"])
    others = tuple(
        _statement(row, row["conflict_id"], row["customer_ref"], row["found_at"]) for row in rows(db, _OTHERS, **keys)
    )
    methods = methods_of_sales(db, merchant_id, [one.facts for one in (told, *others)])
    return InQuestion(
        merchant_id, order, Allocation.from_document(order["allocation"]), told, others,
        {row["line_ref"]: row for row in rows(db, _LINES, **keys)},
        {row["capture_ref"]: row for row in rows(db, _CAPTURES, **keys)}, tuple(methods),
    )  # fmt: skip


def _statement(row: RowMapping, conflict_id: UUID | None, customer_ref: str | None, at: Any) -> Statement:
    """The facts as they are stored, with who bought by reference only: contact is not part of them."""
    document = dict(row["facts"])
    if customer_ref is not None:
        document["customer"] = {"external_ref": customer_ref, "name": customer_ref}
    facts = order_facts(document)
    return Statement(conflict_id, row["customer_id"], facts, row["facts"], bytes(row["facts_digest"]), at)


def choices(asked: InQuestion, by: str = "staff", reason: str = "other") -> list[Choice]:
    """Every choice after which the order adds up, statement by statement, the plainest first. `by` and `reason` are stored."""
    found: list[Choice] = []
    for statement, methods in zip(asked.statements, asked.methods, strict=True):
        seen: set[tuple[Any, ...]] = set()
        for key, settle, allocation in _ways(asked, statement, methods, Settlement(by, reason)):
            same = (allocation.total_minor, *((line.line_id, line.gross_minor) for line in allocation.lines))
            if same in seen:
                continue
            seen.add(same)
            whole = replace(allocation, lines=(*allocation.lines, *_dropped(asked, allocation)))
            total = allocation.total_minor if settle.stands in ("lines", "captured") else statement.facts.total_minor
            name = str(statement.conflict_id or "first")
            why = _why_not(asked, statement, whole)
            found.append(Choice(f"{name}/{key}" if key else name, statement, settle, whole, total, why))
    return found


def _ways(
    asked: InQuestion, statement: Statement, methods: Methods, plain: Settlement
) -> Iterator[tuple[str, Settlement, Allocation]]:
    """Allocations of a statement that add up, by what was chosen for them; one that adds up as it is has no others."""
    if statement.conflict_id is None and not asked.allocation.blocked_by:
        # It was shared out at import, and is not again.
        yield "", plain, replace(asked.allocation, settled=plain.document())
        return
    unsettled = allocate(statement.facts, methods)
    named = [found.name for found in unsettled.blocked_by]
    wrong = [str(dict(found.facts)["discount"]) for found in unsettled.blocked_by if found.name == "explicit_mismatch"]
    spreads: list[dict[str, DiscountMethod]] = [dict.fromkeys(wrong, method) for method in _SPREADS] if wrong else [{}]
    targets = _targets(statement.facts) if "negative_line" in named else [{}]
    for spread, target in product(spreads, targets):
        for stands in _STANDS:
            settle = replace(plain, stands=stands, methods=spread, targets=target)
            allocation = allocate(statement.facts, methods, settle)
            if allocation.blocked_by:
                continue
            yield _key(stands, spread, target), settle, allocation
            if stands is None:
                break


def _targets(facts: OrderFacts) -> list[dict[str, tuple[str, ...]]]:
    """Where lines below zero may be taken off: all goods by value, or one line."""
    below = [line.line_ref for line in facts.lines if line.bundle is None and _worth(line) < 0]
    above = [line for line in facts.lines if line.bundle is None and _worth(line) > 0]
    goods = tuple(line.line_ref for line in above if line.kind == "goods")
    alone = [(line.line_ref,) for line in above[:MOST_TARGETS]]
    offered = [refs for refs in dict.fromkeys([goods, *alone]) if refs]
    return [dict.fromkeys(below, refs) for refs in offered] if below else [{}]


def _worth(line: LineFacts) -> int:
    return line.quantity * line.unit_price_minor - sum(cut.minor for cut in line.discounts)


def _key(stands: str | None, spread: Mapping[str, str], targets: Mapping[str, tuple[str, ...]]) -> str:
    parts = [*sorted(set(spread.values())), *(",".join(refs) for refs in sorted(set(targets.values())))]
    return "/".join([*parts, *([stands] if stands else [])])


def _dropped(asked: InQuestion, allocation: Allocation) -> list[AllocatedLine]:
    """Lines that the standing statement has not: they stay, and nothing is on them."""
    return [
        AllocatedLine(row["line_ref"], 1_000_000 + place, row["kind"], row["sku"], row["title"], row["quantity"], 0, 0)
        for place, row in enumerate(asked.lines.values())
        if allocation.line(row["line_ref"]) is None
    ]


def _why_not(asked: InQuestion, statement: Statement, allocation: Allocation) -> str:
    """What the database would refuse about a choice, in words, or ""."""
    if allocation.currency != asked.order["currency"]:
        return f"The order is in {asked.order['currency']}, and stays so. Have the shop send it under another number."
    if statement.customer_id != asked.order["customer_id"] and asked.order["has_cases"]:
        return "It names another customer, and somebody asked for a return of this order already."
    return _why_no_lines(asked, allocation) or _why_no_payments(asked, statement)


def _why_no_lines(asked: InQuestion, allocation: Allocation) -> str:
    claimed = any(row["kept_minor"] > 0 for row in asked.lines.values())
    for line in allocation.lines:
        row = asked.lines.get(line.line_id)
        if row is None:
            continue
        if claimed and line.gross_minor < row["gross_minor"]:
            return f"Money of this order went back already, so line {line.line_id} cannot be worth less than it was."
        other = (line.kind, line.sku, line.quantity) != (row["kind"], row["sku"], row["quantity"])
        if other and (claimed or row["asked"]):
            return f"Somebody asked for line {line.line_id} back already, so it stays the goods and the number it is."
    return ""


def _why_no_payments(asked: InQuestion, statement: Statement) -> str:
    """A payment is what the provider says: a statement adds payments, and says what part of the order one paid."""
    if statement.conflict_id is None:
        return ""
    before = {one.capture_ref: one for one in asked.first.facts.captures}
    stated = {one.capture_ref: one for one in statement.facts.captures}
    for ref, row in asked.captures.items():
        one = stated.get(ref)
        if one is None:
            return f"It leaves out payment {ref}, which is in the books. What was taken is the provider's word."
        again = one.model_copy(update={"order_minor": None})
        if ref in before and again != before[ref].model_copy(update={"order_minor": None}):
            return f"It states payment {ref} otherwise than before. What was taken is the provider's word."
        if row["drawn"] and (order_minor_of(one, asked.order["currency"]) or 0) != row["order_minor"]:
            return f"Money of payment {ref} went back already, so its part of the order stays."
    return ""


@dataclass(frozen=True)
class Change:
    """A figure or word that two statements differ in. `about` is "order", or a part with its reference, such as "lines TEE"."""

    about: str
    field: str
    old: Any
    new: Any


_PARTS: Final = {"lines": "line_ref", "captures": "capture_ref", "order_discounts": "id"}


def changes(old: Statement, new: Statement) -> list[Change]:
    """What another statement says otherwise, in the order of the statement; a part that only one has is None on the other side."""
    found = [
        Change("order", name, old.stored.get(name), new.stored.get(name))
        for name in dict.fromkeys([*old.stored, *new.stored])
        if name not in _PARTS and old.stored.get(name) != new.stored.get(name)
    ]
    if old.customer_id != new.customer_id:
        refs = [one.facts.customer.external_ref if one.facts.customer else None for one in (old, new)]
        found.insert(0, Change("order", "customer", *refs))
    for part, key in _PARTS.items():
        before, after = ({one[key]: one for one in side.stored.get(part, ())} for side in (old, new))
        for ref in dict.fromkeys([*before, *after]):
            one, other = before.get(ref), after.get(ref)
            if one is None or other is None:
                found.append(Change(f"{part} {ref}", "", one, other))
                continue
            found += [
                Change(f"{part} {ref}", name, one.get(name), other.get(name))
                for name in dict.fromkeys([*one, *other])
                if one.get(name) != other.get(name)
            ]
    return found
