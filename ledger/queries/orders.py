"""Orders for the counter, and cases for the goods-in desk: found by a reference or by the customer, then line by line."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound

MOST_FOUND: Final = 20
# One person grades a handful of units at a time; more of a large line follow with the next report.
MOST_UNITS_AT_ONCE: Final = 25


@dataclass(frozen=True)
class FoundOrder:
    """An order in a list. `paid_minor` in minor units of `currency`."""

    order_id: UUID
    external_ref: str
    customer: str
    placed_at: datetime
    paid_minor: int
    currency: str
    lines: int


_FIND: Final = """
    SELECT o.order_id, o.external_ref, coalesce(cu.name, '') AS customer, o.placed_at, o.total_minor AS paid_minor, o.currency,
        (SELECT count(*) FROM order_lines l WHERE l.merchant_id = o.merchant_id AND l.order_id = o.order_id
            AND l.kind = 'goods')::int AS lines
    FROM orders o LEFT JOIN customers cu ON cu.merchant_id = o.merchant_id AND cu.customer_id = o.customer_id
    WHERE o.merchant_id = :m AND {which} ORDER BY o.placed_at DESC, o.order_id LIMIT :most
"""
_BY_REFERENCE: Final = _FIND.format(which="o.external_ref = :text")
_BY_EMAIL: Final = _FIND.format(
    which="o.customer_id IN (SELECT customer_id FROM customers WHERE merchant_id = :m AND lower(email) = lower(:text))"
)


def find_orders(db: Connection, merchant_id: UUID, text: str) -> list[FoundOrder]:
    """The order with this reference; with an @ in it, the orders of the customer with this e-mail. Newest first."""
    sql = _BY_EMAIL if "@" in text else _BY_REFERENCE
    return [FoundOrder(**row) for row in rows(db, sql, m=merchant_id, text=text, most=MOST_FOUND)]


@dataclass(frozen=True)
class OrderLine:
    """A goods line at the counter. `taken` units are held by cases or were refunded; `gross_minor` is the whole line."""

    line_ref: str
    position: int
    title: str
    sku: str
    quantity: int
    gross_minor: int
    taken: int


@dataclass(frozen=True)
class CaseOfOrder:
    """A case to know of before another is opened."""

    case_id: UUID
    number: int
    kind: str
    stage: str


@dataclass(frozen=True)
class OrderAtCounter:
    """One order with its goods lines, its open cases, and every case about its charges, oldest first."""

    order_id: UUID
    external_ref: str
    customer: str
    placed_at: datetime
    paid_minor: int
    currency: str
    lines: tuple[OrderLine, ...]
    cases: tuple[CaseOfOrder, ...]


_ORDER: Final = """
    SELECT o.order_id, o.external_ref, coalesce(cu.name, '') AS customer, o.placed_at, o.total_minor AS paid_minor, o.currency
    FROM orders o
    LEFT JOIN customers cu ON cu.merchant_id = o.merchant_id AND cu.customer_id = o.customer_id
    WHERE o.merchant_id = :m AND o.order_id = :o
"""
_CASES_OF_ORDER: Final = """
    SELECT case_id, number, kind, stage FROM cases WHERE merchant_id = :m AND order_id = :o
        AND (closed_at IS NULL OR kind = 'duplicate_charge') ORDER BY number LIMIT :most
"""
_ORDER_LINES: Final = """
    SELECT l.line_ref, l.position, l.title, l.sku, l.quantity, l.gross_minor,
        coalesce((SELECT sum(upper(i.units) - lower(i.units)) FROM case_items i
            WHERE i.merchant_id = l.merchant_id AND i.line_id = l.line_id AND i.live), 0)::int AS taken
    FROM order_lines l WHERE l.merchant_id = :m AND l.order_id = :o AND l.kind = 'goods' ORDER BY l.position
"""


def read_order(db: Connection, merchant_id: UUID, order_id: UUID) -> OrderAtCounter:
    """Raises NotFound for an absent order and for another merchant's alike."""
    row = first(db, _ORDER, m=merchant_id, o=order_id)
    if row is None:
        raise NotFound
    lines = tuple(OrderLine(**line) for line in rows(db, _ORDER_LINES, m=merchant_id, o=order_id))
    cases = tuple(CaseOfOrder(**case) for case in rows(db, _CASES_OF_ORDER, m=merchant_id, o=order_id, most=MOST_FOUND))
    return OrderAtCounter(**row, lines=lines, cases=cases)


@dataclass(frozen=True)
class WaitingCase:
    """A case in the goods-in list."""

    case_id: UUID
    number: int
    order_ref: str
    customer: str
    summary: str
    opened_at: datetime


_WAITING: Final = """
    SELECT c.case_id, c.number, o.external_ref AS order_ref, coalesce(cu.name, '') AS customer, c.summary, c.opened_at
    FROM cases c
    JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    WHERE c.merchant_id = :m AND {which} ORDER BY {order} LIMIT :most
"""
# By the due time: it is the index of the stage, and cases of one policy come due in the order they were opened in.
_ANNOUNCED: Final = _WAITING.format(which="c.stage = 'waiting_goods'", order="c.due_at, c.case_id")
_BY_NUMBER: Final = _WAITING.format(which="c.number = :number", order="c.case_id")
_OF_ORDER: Final = _WAITING.format(
    which="c.closed_at IS NULL AND c.order_id IN (SELECT order_id FROM orders WHERE merchant_id = :m AND external_ref = :text)",
    order="c.opened_at, c.case_id",
)


def waiting_for_goods(db: Connection, merchant_id: UUID) -> list[WaitingCase]:
    """What is announced and not all here, soonest due first, at most MOST_FOUND."""
    return [WaitingCase(**row) for row in rows(db, _ANNOUNCED, m=merchant_id, most=MOST_FOUND)]


def find_cases(db: Connection, merchant_id: UUID, text: str) -> list[WaitingCase]:
    """The case with this number (C-20431 or 20431), else the open cases of the order with this reference."""
    values: dict[str, Any] = {"m": merchant_id, "most": MOST_FOUND}
    number = text.upper().removeprefix("C-")
    if number.isascii() and number.isdigit() and len(number) <= 15:
        found = rows(db, _BY_NUMBER, number=int(number), **values)
        if found:
            return [WaitingCase(**row) for row in found]
    return [WaitingCase(**row) for row in rows(db, _OF_ORDER, text=text, **values)]


@dataclass(frozen=True)
class LineAtBench:
    """A line of a case at the bench: what was announced and received so far, and the units it holds as ranges.

    Not `graded` is what was looked at under none of the serials that the line was sold with, where that is why nothing is owed.
    """

    line_id: UUID
    line_ref: str
    position: int
    title: str
    sku: str
    announced: int
    received: int
    held: list[list[int]]
    graded: list[dict[str, Any]]


_BENCH: Final = """
    WITH scan AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM jsonb_array_elements((SELECT t.record->'rules' FROM entitlements t
            WHERE t.merchant_id = :m AND t.case_id = :c ORDER BY t.n DESC LIMIT 1)) r
        WHERE r->>'id' = 'serial.match' AND r->>'status' = 'fail') AS refused)
    SELECT l.line_id, l.line_ref, l.position, l.title, l.sku,
        coalesce((SELECT sum(e.count) FROM evidence e WHERE e.merchant_id = l.merchant_id AND e.case_id = :c
            AND e.line_id = l.line_id AND e.kind = 'announced'), 0)::int AS announced,
        coalesce((SELECT sum(e.count) FROM evidence e WHERE e.merchant_id = l.merchant_id AND e.case_id = :c
            AND e.line_id = l.line_id AND e.kind = 'received'), 0)::int AS received,
        array_agg(ARRAY[lower(i.units), upper(i.units)] ORDER BY lower(i.units)) AS held,
        coalesce((SELECT jsonb_agg(jsonb_build_object('a', lower(e.units), 'b', upper(e.units), 'grade', e.grade, 'at', e.at)
                ORDER BY e.number)
            FROM evidence e WHERE e.merchant_id = l.merchant_id AND e.case_id = :c AND e.line_id = l.line_id
            AND e.kind = 'inspected' AND NOT coalesce((SELECT NOT sold->'serials' ? coalesce(e.serial, '') FROM orders o
                CROSS JOIN LATERAL jsonb_array_elements(o.allocation->'lines') sold WHERE o.merchant_id = l.merchant_id
                AND o.order_id = l.order_id AND sold->>'line_id' = l.line_ref AND (SELECT refused FROM scan)), false)
            ), '[]') AS graded
    FROM case_items i JOIN order_lines l ON l.merchant_id = i.merchant_id AND l.line_id = i.line_id
    WHERE i.merchant_id = :m AND i.case_id = :c AND i.live
    GROUP BY l.merchant_id, l.order_id, l.line_id, l.line_ref, l.position, l.title, l.sku ORDER BY l.position
"""


def lines_at_bench(db: Connection, merchant_id: UUID, case_id: UUID) -> list[LineAtBench]:
    """The lines whose units the case holds, by position; none when it was rejected."""
    return [LineAtBench(**row) for row in rows(db, _BENCH, m=merchant_id, c=case_id)]
