"""Money back with the goods kept: keep it, price reduction or adjustment, goodwill, shipping alone. Each is a case of its kind.

It goes the one way of all money: what was asked for, an entitlement, an intent, an approval. Above what is left nothing is
stored. The database guards the same: the line (P4), the units (`claimed_within_units`, `units_returned_once`, `adjusted_once`).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, NoReturn
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.assessment import Asker, reassess, route_of
from ledger.assessment_asks import asks_of, opinions_of
from ledger.calendar_days import text
from ledger.card_numbers import mask_card_numbers
from ledger.conversations import Talk, add_conversation
from ledger.database import run, scalar
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_facts import CaseUnits, Evidence
from ledger.entitlement_working import RuleResult
from ledger.errors import BadInput
from ledger.events import LockedCase, append, lock_case
from ledger.ids import uuid7
from ledger.money import MAX_MINOR, format_minor
from ledger.room import KINDS, Kind, LineRoom, OrderRoom, read_room
from ledger.unit_ranges import Range, size

REASONS: Final = ("faulty", "damaged", "wrong_item", "late", "lower_price", "service", "other")
ENTRIES: Final = ("gross", "net")
BY_UNIT: Final = frozenset({"keep_item", "price_reduction", "price_adjustment"})
"""The kinds that are about units; the others are about a whole line."""


@dataclass(frozen=True)
class AllowanceRequest:
    """What a person asks for on one line. `minor`: the amount, or the new price of one unit, in minor units of `currency`, with
    tax (`gross`) or without (`net`). `units`: how many, for the kinds that are about units. Of a price reduction `minor` is what
    one unit is worth with its defect, and `conform_minor` without it: their ratio counts."""

    order_id: UUID
    kind: Kind
    line_ref: str
    minor: int
    currency: str
    entry: Literal["gross", "net"]
    reason: str
    actor: str
    reference: str
    units: int = 1
    note: str = ""
    conform_minor: int | None = None


@dataclass(frozen=True)
class Given:
    """The case an allowance is, and what it comes to with tax."""

    case_id: UUID
    number: int
    minor: int
    currency: str


@dataclass(frozen=True)
class Preview:
    """What an allowance would come to: minor units of `currency`, with tax; `left_minor` is what would still be left of the line
    (or of its units), `route` who would decide, `span` the units [a,b) it is about, `captures` where the money would go."""

    minor: int
    tax_minor: int
    currency: str
    left_minor: int
    route: str
    span: Range | None
    captures: tuple[UUID, ...]


def work_out(db: Connection, merchant_id: UUID, request: AllowanceRequest) -> Preview:
    """The same as `open_allowance` would do, nothing stored. Raises as it does."""
    room = read_room(db, merchant_id, request.order_id, [request.line_ref], reason=request.reason)
    line = _check(room, request)
    span = _span(room, line, request)
    _check_amount(room, line, span, request)
    a, b = span or (0, line.quantity)
    typed = {"kind": request.kind, "line_id": "it", "a": a, "b": b, "minor": request.minor, "entry": request.entry,
             "conform_minor": request.conform_minor}  # fmt: skip
    refs = {"it": line.line_ref}
    units = (CaseUnits(line.line_ref, a, b, request.reason, text(room.at)),) if span else ()
    evidence = Evidence("new", units, kind=request.kind, asks=asks_of(typed, refs), opinions=opinions_of(typed, refs))
    result = derive(room.working.allocation, evidence, room.working.priors, room.terms, room.at)
    if result.total_minor != _wanted(room, line, request, result):
        _refused(request, result)
    left = room.worth(line, span) if span is not None else line.left_minor
    by = Asker(None, request.actor, opinion=True)
    route = route_of(db, merchant_id, room.order_id, room.today, room.working.priors, result, by)
    return Preview(result.total_minor, result.tax_minor, room.currency, left - result.total_minor, route, span,
                   tuple(UUID(draw.capture_id) for draw in result.draws))  # fmt: skip


def open_allowance(db: Connection, merchant_id: UUID, request: AllowanceRequest) -> Given:
    """Opens the case of an allowance and proposes its refund. Locks the order, then the case and what `reassess` locks.

    Raises NotFound (order), NoPolicy, BadInput naming the field: kind, line, units, amount, new_price, worth, conform, currency,
    entry, reason.
    """
    room = read_room(db, merchant_id, request.order_id, [request.line_ref], lock=True, reason=request.reason)
    line = _check(room, request)
    span = _span(room, line, request)
    _check_amount(room, line, span, request)
    case = _open(db, merchant_id, room, line, span, request)
    try:
        result = reassess(db, case, request.actor)
    except IntegrityError as error:
        if "claimed_within" in f"{error.orig} {getattr(getattr(error.orig, 'diag', None), 'constraint_name', '')}":
            _too_much(request, line.left_minor)
        raise
    if result is None or result.total_minor != _wanted(room, line, request, result):
        _refused(request, result)
    return Given(case.case_id, case.number, result.total_minor, room.currency)


def _check(room: OrderRoom, request: AllowanceRequest) -> LineRoom:
    if request.kind not in KINDS:
        raise BadInput("kind", f"choose one of {', '.join(KINDS)}")
    line = room.line(request.line_ref)
    if line is None:
        raise BadInput("line", f"this order has no line {request.line_ref!r}")
    goods = request.kind != "shipping_only"
    if (line.kind == "goods") != goods:
        raise BadInput("line", "choose a line of goods" if goods else "choose a line of shipping or of a fee")
    if goods and not room.working.line(line.line_ref).returnable:
        raise BadInput("line", "this is a bundle: choose one of the lines it is made of")
    if request.currency != room.currency:
        raise BadInput("currency", f"this order was paid in {room.currency}")
    if request.entry not in ENTRIES:
        raise BadInput("entry", "say whether tax is in the amount: gross or net")
    if request.reason not in REASONS:
        raise BadInput("reason", f"choose one of {', '.join(REASONS)}")
    if not request.reference.strip() or len(request.reference) > 120:
        raise BadInput("conversation", "give the reference of the conversation, 1 to 120 characters")
    return line


def _span(room: OrderRoom, line: LineRoom, request: AllowanceRequest) -> Range | None:
    """The lowest units that are free side by side; None for a kind that is about the whole line."""
    if request.kind not in BY_UNIT:
        return None
    if not 1 <= request.units <= line.quantity:
        raise BadInput("units", f"a number from 1 to {line.quantity}: so many were bought")
    free, once = {
        "keep_item": (line.free, ""),
        "price_adjustment": (line.unadjusted, ", or their price was adjusted before"),
        "price_reduction": (line.unreduced, ", or their price was reduced before"),
    }[request.kind]
    found = next(((a, a + request.units) for a, b in free if b - a >= request.units), None)
    if found is None:
        raise BadInput(
            "units", f"only {size(free)} of {line.quantity} are free: the others are in a request or paid{once}"
        )
    return found


def _gross(room: OrderRoom, line: LineRoom, request: AllowanceRequest) -> int:
    """A typed amount with tax: net x is (2·x·G + N) // (2·N) in the line's own ratio, on the order's step."""
    if request.entry != "net" or not line.net_minor:
        return request.minor
    step = room.working.step
    gross = (2 * request.minor * line.gross_minor + line.net_minor) // (2 * line.net_minor)
    return (2 * gross + step) // (2 * step) * step


def _check_amount(room: OrderRoom, line: LineRoom, span: Range | None, request: AllowanceRequest) -> None:
    if request.kind == "price_adjustment":
        if not 0 <= request.minor <= MAX_MINOR:
            raise BadInput("new_price", "the new price of one unit is 0 or more")
        return
    if request.kind == "price_reduction":
        if request.conform_minor is None or not 0 < request.conform_minor <= MAX_MINOR:
            raise BadInput("conform", "what one unit is worth without its defect is more than 0")
        if not 0 <= request.minor < request.conform_minor:
            raise BadInput("worth", "with its defect it is worth less than without, and not less than 0")
        return
    if request.conform_minor is not None:
        raise BadInput("conform", "only a price reduction says what a unit is worth without its defect")
    if not 0 < request.minor <= MAX_MINOR:
        raise BadInput("amount", "an amount is more than 0")
    if _gross(room, line, request) % room.working.step:
        step = format_minor(room.working.step, room.currency)
        raise BadInput("amount", f"this payment goes back in steps of {step} {room.currency}")
    left = room.worth(line, span) if span is not None else line.left_minor
    if _gross(room, line, request) > left:
        _too_much(request, left)


def _too_much(request: AllowanceRequest, left: int) -> NoReturn:
    of = "these units" if request.kind in BY_UNIT else "this line"
    raise BadInput(
        _field(request),
        f"only {format_minor(left, request.currency)} {request.currency} is left of {of}",
        left_minor=left,
    )


_INSERT_CASE: Final = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, opened_at, due_at, stage,
        summary, currency)
    VALUES (:m, :c, :o, :customer, :kind, :reason, :actor, 'counter', now(), now() + :due, 'needs_person', :summary, :currency)
"""
_INSERT_ASK: Final = """
    INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, units, minor, conform_minor, entry,
        asked_by)
    VALUES (:m, :c, :kind, :o, :l, :q, CASE WHEN CAST(:a AS integer) IS NOT NULL THEN int4range(:a, :b) END, :minor, :conform,
        :entry, :actor)
"""


def _open(
    db: Connection, merchant_id: UUID, room: OrderRoom, line: LineRoom, span: Range | None, request: AllowanceRequest
) -> LockedCase:
    case_id = uuid7()
    keys = {"m": merchant_id, "c": case_id, "o": room.order_id}
    run(
        db, _INSERT_CASE, **keys, customer=room.customer_id, kind=request.kind, reason=request.reason, actor=request.actor,
        due=timedelta(days=room.policy.pay_within_days), currency=room.currency,
        summary=f"{request.kind.replace('_', ' ').capitalize()} · {line.title or line.sku or line.line_ref}"[:200],
    )  # fmt: skip
    case = lock_case(db, merchant_id, case_id)
    a, b = span or (None, None)
    run(
        db, _INSERT_ASK, **keys, kind=request.kind, l=line.line_id, q=line.quantity, a=a, b=b, minor=request.minor,
        conform=request.conform_minor, entry=request.entry, actor=request.actor,
    )  # fmt: skip
    if span is not None and request.kind == "keep_item" and room.terms.keep_item.closes_unit:
        run(
            db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
            " VALUES (:m, :id, :c, :o, :l, :q, int4range(:a, :b))", **keys, id=uuid7(), l=line.line_id, q=line.quantity, a=a, b=b,
        )  # fmt: skip
    _keep_conversation(db, case, request)
    units = [{"line": line.line_ref, "from": span[0], "to": span[1]}] if span else []
    body = {"channel": "counter", "kind": request.kind, "reason": request.reason, "units": units, "line": line.line_ref,
            "asked_minor": str(request.minor), "entry": request.entry, "currency": room.currency}  # fmt: skip
    append(db, case, "case.opened", request.actor, body)
    return case


def _keep_conversation(db: Connection, case: LockedCase, request: AllowanceRequest) -> None:
    reference, text = mask_card_numbers(request.reference)[:120], mask_card_numbers(request.note)[:4000]
    add_conversation(db, case, Talk("counter", reference, request.actor, "in person", text), joined=False)


def _wanted(room: OrderRoom, line: LineRoom, request: AllowanceRequest, result: Entitlement) -> int:
    """What it has to come to; what is worked out of two prices to all of it, but never to nothing."""
    if request.kind in ("price_adjustment", "price_reduction"):
        clipped: int = sum(minor for _, _, minor in result.record["clipped"])
        return (result.total_minor or 1) + clipped
    return _gross(room, line, request)


def _refused(request: AllowanceRequest, result: Entitlement | None) -> NoReturn:
    """Why the engine gives another amount than was asked for: by the policy, for the line was looked at before."""
    field = _field(request)
    found = [one for one in result.rules if one.status != "pass" and one.id.startswith("allowances.")] if result else []
    for one in found:
        facts = dict(fact.split(":", 1) for fact in one.facts if ":" in fact)
        raise BadInput(_FIELDS.get(one.reason_code, field), _sentence(one, facts, request.currency))
    said = {"new_price": "the new price is not below what the units still are worth",
            "worth": "it comes to nothing, or to more than is left of these units"}  # fmt: skip
    raise BadInput(field, said.get(field, "the policy or the payment does not allow this amount"))


def _field(request: AllowanceRequest) -> str:
    """Where the figure that the amount follows from is typed."""
    return {"price_adjustment": "new_price", "price_reduction": "worth"}.get(request.kind, "amount")


_FIELDS: Final = {"excluded_from_price_adjustment": "line", "asked_too_late": "line"}


def _sentence(found: RuleResult, facts: dict[str, str], currency: str) -> str:
    if found.reason_code == "asked_too_late":
        return f"a lower price was made good until {facts['last_day']}"
    if found.reason_code == "excluded_from_price_adjustment":
        return "the policy makes no lower price good for these goods"
    most = format_minor(int(facts.get("given_minor", "0")), currency)
    return f"the policy gives at most {most} {currency} for this"


def open_asks(
    db: Connection, merchant_id: UUID, order_id: UUID, spans: list[tuple[UUID, int, int]]
) -> list[LockedCase]:
    """The open cases that give something on any of these units, locked by id; the order is locked."""
    found = set()
    for line_id, a, b in spans:
        found |= set(scalar(db, _OPEN_ASKS, m=merchant_id, o=order_id, l=line_id, a=a, b=b) or ())
    return [lock_case(db, merchant_id, case_id) for case_id in sorted(found)]


_OPEN_ASKS: Final = """
    SELECT array_agg(a.case_id) FROM case_asks a JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    WHERE a.merchant_id = :m AND a.order_id = :o AND a.line_id = :l AND a.live AND a.units && int4range(:a, :b)
        AND c.closed_at IS NULL
"""
