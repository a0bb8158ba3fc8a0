"""Opening a return: the same request joins, what is gone is refused with its reason, what is unclear is asked (DESIGN §2).

The order row is locked first, so two channels asking in the same instant meet there; the exclusion constraint on units
is the guard behind it (P1).
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allowances import open_asks
from ledger.asked_lines import AskedLine, line_facts, read_asked_lines, settled
from ledger.assessment import reassess
from ledger.calendar_days import text
from ledger.card_numbers import mask_card_numbers
from ledger.charge_cases import release_claims
from ledger.conversations import Talk, add_conversation
from ledger.database import first, rows, run, scalar
from ledger.errors import AlreadyRefunded, AskCustomer, BadInput, MoreThanLeft, NotFound, WrongState
from ledger.events import LockedCase, append, lock_case
from ledger.evidence import add_announced
from ledger.ids import uuid7
from ledger.intents import live_intents, withdraw
from ledger.policy_of_sale import Asked, pay_within
from ledger.queries.refusals import refunds_of_lines
from ledger.reservation import give_back
from ledger.statement_time import check_stated

REASONS: Final = ("changed_mind", "size", "faulty", "damaged", "wrong_item", "other")
NEVER_ARRIVED: Final = ("cancelled", "not_delivered")
"""Reasons of goods that are not with the customer: called off before they were sent, or lost. Such a request is a cancellation."""
REJECT_REASONS: Final = (
    "outside_window",
    "not_our_item",
    "not_returned",
    "duplicate_request",
    "no_duplicate_charge",
    "it_arrived",
    "cured",
    "other",
)
MAX_LINES: Final = 200


@dataclass(frozen=True)
class ReturnRequest:
    """What a channel or the counter asks; an exchange and a warranty are the counter's alone. `lines` are (line reference,
    quantity); `relation` is the customer's own answer to "the existing request, or a separate item?": `existing`, `separate`, or
    None when nobody asked yet. `customer` is the shop's reference or the e-mail of who asks, to be compared with the order's; None
    when the caller knows who asks. `stated_at` (aware): when the customer said it, None: now."""

    order_ref: str
    lines: tuple[tuple[str, int], ...]
    reason: str
    channel: str
    reference: str
    actor: str
    relation: Literal["existing", "separate"] | None = None
    customer: str | None = None
    customer_verified: str = ""
    customer_text: str = ""
    kind: Literal["return", "exchange", "cancellation", "warranty"] = "return"
    stated_at: datetime | None = None


@dataclass(frozen=True)
class Opened:
    """The case a request ended in; `status` is `opened` or `joined`."""

    case_id: UUID
    number: int
    status: Literal["opened", "joined"]


def open_return(db: Connection, merchant_id: UUID, request: ReturnRequest) -> Opened:
    """Opens a case for the request, or joins the open one that holds these units. Locks the order, then the case.

    Raises NotFound (order, or it is not of the customer who is given), BadInput (a field), AskCustomer (rule 4),
    AlreadyRefunded (rule 3, with P18's facts), MoreThanLeft. Units are taken lowest first.
    """
    _check(request)
    request = _without_card_numbers(request)
    if request.reason in NEVER_ARRIVED:
        request = replace(request, kind="cancellation")
    order = first(
        db, "SELECT * FROM orders WHERE merchant_id = :m AND external_ref = :ref FOR NO KEY UPDATE",
        m=merchant_id, ref=request.order_ref,
    )  # fmt: skip
    if order is None or (request.customer is not None and not _is_of(db, order, request.customer)):
        raise NotFound("No order of this shop has that reference. Check the number on the confirmation.")
    check_stated(db, order["placed_at"], request.stated_at)
    lines = read_asked_lines(db, order, request.lines)
    joined = _same_request(db, order, lines, request)
    if joined is not None:
        return _join(db, lock_case(db, merchant_id, joined), request)
    _refuse_or_ask(db, order, lines, request)
    return _open(db, order, lines, request)


def _without_card_numbers(request: ReturnRequest) -> ReturnRequest:
    """What a channel or a person wrote freely; references of orders and lines are the shop's own and stay (S76)."""
    reference, text = mask_card_numbers(request.reference)[:120], mask_card_numbers(request.customer_text)[:4000]
    return replace(request, reference=reference, customer_text=text)


def _is_of(db: Connection, order: RowMapping, customer: str) -> bool:
    known = first(
        db, "SELECT external_ref, email FROM customers WHERE merchant_id = :m AND customer_id = :c",
        m=order["merchant_id"], c=order["customer_id"],
    )  # fmt: skip
    stated = [known["external_ref"], known["email"]] if known else []
    return customer.casefold() in [one.casefold() for one in stated if one]


def _check(request: ReturnRequest) -> None:
    if not request.lines:
        raise BadInput("lines", "name at least one line of the order")
    if len(request.lines) > MAX_LINES:
        raise BadInput("lines", f"name at most {MAX_LINES} lines in one request")
    refs = [ref for ref, _ in request.lines]
    if len(set(refs)) != len(refs):
        raise BadInput("lines", "name each line once and add its quantities up")
    for ref, quantity in request.lines:
        if quantity < 1:
            raise BadInput(f"lines.{ref}.quantity", "a quantity is a whole number of at least 1")
    reasons = (*REASONS, *NEVER_ARRIVED) if request.kind == "return" else REASONS
    if request.reason not in reasons:
        raise BadInput("reason", f"choose one of {', '.join(reasons)}")
    if not request.reference.strip() or len(request.reference) > 120:
        raise BadInput("conversation.reference", "give the reference of the conversation, 1 to 120 characters")


def _same_request(db: Connection, order: RowMapping, lines: list[AskedLine], request: ReturnRequest) -> UUID | None:
    """The open case this request is the same as, if any (rule 2)."""
    if request.relation == "separate":
        return None
    holding = [
        case for case in lines[0].open_by_case if all(line.open_by_case.get(case, 0) >= line.asked for line in lines)
    ]
    if not holding:
        return None
    if request.relation == "existing":
        return min(holding)
    known = scalar(
        db, "SELECT case_id FROM conversations WHERE merchant_id = :m AND case_id = ANY(:cases) AND channel = :ch"
        " AND reference = :ref ORDER BY at LIMIT 1", m=order["merchant_id"], cases=holding, ch=request.channel,
        ref=request.reference,
    )  # fmt: skip
    if known is not None:
        return UUID(str(known))
    if any(line.left < line.asked for line in lines):
        return min(holding)
    return None


def _refuse_or_ask(db: Connection, order: RowMapping, lines: list[AskedLine], request: ReturnRequest) -> None:
    touched = [line for line in lines if line.open_by_case or line.closed_units]
    facts = [line_facts(line) for line in lines]
    gone = [line for line in lines if line.left == 0 and not line.open_by_case]
    short = [line for line in lines if line.left < line.asked]
    if gone or (request.relation == "existing" and not any(line.open_by_case for line in lines)):
        refunds = refunds_of_lines(db, order["merchant_id"], [line.row["line_id"] for line in gone or lines])
        if refunds:
            raise AlreadyRefunded(refunds=refunds, lines=facts)
    if short:
        paid = refunds_of_lines(db, order["merchant_id"], [line.row["line_id"] for line in short if line.closed_units])
        raise MoreThanLeft(settled(short), lines=facts, cases=_case_numbers(db, order, lines), refunds=paid)
    if touched and request.relation is None:
        refunds = refunds_of_lines(db, order["merchant_id"], [line.row["line_id"] for line in touched])
        raise AskCustomer(lines=facts, cases=_case_numbers(db, order, lines), refunds=refunds)
    if request.relation == "existing":
        raise NotFound(
            "No open request holds these units. Open it as a new request, without saying it is an existing one."
        )


def _case_numbers(db: Connection, order: RowMapping, lines: list[AskedLine]) -> list[dict[str, Any]]:
    ids = sorted({case for line in lines for case in line.open_by_case})
    found = rows(
        db, "SELECT case_id, number, channel, opened_at, stage FROM cases WHERE merchant_id = :m AND case_id = ANY(:ids)"
        " ORDER BY number",
        m=order["merchant_id"], ids=ids,
    )  # fmt: skip
    return [{"case": f"C-{row['number']}", "case_id": row["case_id"], "channel": row["channel"], "opened_at": row["opened_at"],
             "stage": row["stage"]} for row in found]  # fmt: skip


def _join(db: Connection, case: LockedCase, request: ReturnRequest) -> Opened:
    if _add_conversation(db, case, request, joined=True):
        append(db, case, "conversation.joined", request.actor, {"channel": request.channel})
    return Opened(case.case_id, case.number, "joined")


def _add_conversation(db: Connection, case: LockedCase, request: ReturnRequest, *, joined: bool) -> bool:
    talk = Talk(request.channel, request.reference, request.actor, request.customer_verified, request.customer_text)
    return add_conversation(db, case, talk, joined=joined)


_INSERT_CASE: Final = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, separate, opened_by, channel, opened_at, due_at,
        summary, announced, currency, signals, stated_at)
    VALUES (:m, :c, :o, :customer, :kind, :reason, :separate, :actor, :channel, now(), coalesce(:stated, now()) + :due, :summary,
        :announced, :currency, :signals, :stated)
"""


def _open(db: Connection, order: RowMapping, lines: list[AskedLine], request: ReturnRequest) -> Opened:
    merchant_id, case_id = order["merchant_id"], uuid7()
    separate = request.relation == "separate"
    refs = [line.row["line_ref"] for line in lines]
    due = pay_within(db, Asked(merchant_id, order["order_id"], order["placed_at"], refs, request.reason))
    run(
        db, _INSERT_CASE, m=merchant_id, c=case_id, o=order["order_id"], customer=order["customer_id"], kind=request.kind,
        reason=request.reason, separate=separate, actor=request.actor, channel=request.channel,
        due=due, summary=_summary(lines),
        announced=sum(line.asked for line in lines), currency=order["currency"],
        signals=_signals(db, order, separate), stated=request.stated_at,
    )  # fmt: skip
    case = lock_case(db, merchant_id, case_id)
    taken = [(line, *unit) for line in lines for unit in _lowest(line)]
    for line, a, b in taken:
        run(
            db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
            " VALUES (:m, :id, :c, :o, :l, :q, int4range(:a, :b))", m=merchant_id, id=uuid7(), c=case_id, o=order["order_id"],
            l=line.row["line_id"], q=line.row["quantity"], a=a, b=b,
        )  # fmt: skip
    _add_conversation(db, case, request, joined=False)
    units = [{"line": line.row["line_ref"], "from": a, "to": b} for line, a, b in taken]
    body: dict[str, Any] = {
        "channel": request.channel, "reason": request.reason, "units": units, "separate": separate,
    }  # fmt: skip
    if request.stated_at is not None:
        body["statement_sent_at"] = text(request.stated_at)
    append(db, case, "case.opened", request.actor, body)
    # What would be given for keeping these units is worked out again first: it may be for nothing now.
    for ask in open_asks(db, merchant_id, order["order_id"], [(line.row["line_id"], a, b) for line, a, b in taken]):
        reassess(db, ask, request.actor)
    add_announced(db, case, [(line.row["line_id"], line.asked) for line in lines], request.channel, request.actor)
    reassess(db, case, request.actor)
    return Opened(case_id, case.number, "opened")


def _lowest(line: AskedLine) -> list[tuple[int, int]]:
    need, taken = line.asked, []
    for a, b in line.free:
        if need:
            taken.append((a, min(b, a + need)))
            need -= taken[-1][1] - a
    return taken


def _summary(lines: list[AskedLine]) -> str:
    head = lines[0]
    more = f" +{len(lines) - 1}" if len(lines) > 1 else ""
    return f"{head.asked} of {head.row['quantity']} · {head.row['title'] or head.row['sku']}{more}"[:200]


# Signals raise attention and never change a figure: an earlier refund to the customer in 30 days, another open case of
# theirs, an explicitly separate request.
_SIGNALS: Final = """
    SELECT (EXISTS (SELECT 1 FROM cases c JOIN intents i ON i.merchant_id = c.merchant_id AND i.case_id = c.case_id
                WHERE c.merchant_id = :m AND c.customer_id = :customer AND i.state = 'succeeded'
                AND i.state_at > now() - interval '30 days'))::int
         + (EXISTS (SELECT 1 FROM cases WHERE merchant_id = :m AND customer_id = :customer AND closed_at IS NULL))::int
"""


def _signals(db: Connection, order: RowMapping, separate: bool) -> int:
    return int(scalar(db, _SIGNALS, m=order["merchant_id"], customer=order["customer_id"])) + int(separate)


def reject(db: Connection, merchant_id: UUID, case_id: UUID, actor: str, reason: str) -> LockedCase:
    """Closes a case without paying and frees its units. Raises NotFound, BadInput, WrongState once money may have left.

    Locks case, intents and what withdrawing releases.
    """
    if reason not in REJECT_REASONS:
        raise BadInput("reason", f"choose one of {', '.join(REJECT_REASONS)}")
    case = lock_case(db, merchant_id, case_id)
    if case.stage == "rejected":
        return case
    if case.closed_at is not None:
        raise WrongState("This case is closed.")
    live = live_intents(db, case)
    withdraw(db, case, live, actor, "rejected")
    give_back(db, live)
    paid = scalar(
        db,
        "SELECT 1 FROM intents WHERE merchant_id = :m AND case_id = :c AND state = 'succeeded' UNION ALL"
        " (SELECT 1 FROM external_allocations WHERE merchant_id = :m AND case_id = :c HAVING sum(amount_minor) > 0) LIMIT 1",
        m=merchant_id,
        c=case_id,
    )
    if paid:
        raise WrongState("Part of this case was paid, so it cannot be rejected as a whole.")
    append(db, case, "case.rejected", actor, reason=reason, stage="rejected")
    run(
        db,
        "UPDATE case_asks SET live = false WHERE merchant_id = :m AND case_id = :c AND live",
        m=merchant_id,
        c=case_id,
    )
    run(
        db,
        "UPDATE case_items SET live = false WHERE merchant_id = :m AND case_id = :c AND live",
        m=merchant_id,
        c=case_id,
    )
    release_claims(db, case)
    run(db, "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id)
    return case
