"""An exchange: the customer takes other goods instead of money. It uses the claim on the units up for ever, and moves no money."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.assessment import EXCHANGED
from ledger.card_numbers import mask_card_numbers
from ledger.cases import REASONS, Opened, ReturnRequest, open_return
from ledger.database import rows, run
from ledger.errors import BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.intents import live_intents, withdraw
from ledger.policies import NoPolicy
from ledger.policy_of_sale import Asked, policy_of_sale
from ledger.policy_terms import PolicyTerms
from ledger.reservation import give_back
from ledger.room import LineRoom, OrderRoom, read_room, read_room_of_case

LONGEST_WISH: Final = 200


@dataclass(frozen=True)
class Choice:
    """What the customer takes instead, in a person's words, and that person's word that it is in stock."""

    wish: str
    in_stock: bool
    actor: str


def why_not(terms: PolicyTerms, line: LineRoom) -> str:
    """Why an exchange is not offered for a line under the terms of its return, or ""."""
    if not terms.of_line(line.line_ref).exchange.allowed:
        return "the policy offers no exchange"
    return "the shop says that no replacement is in stock" if line.in_stock is False else ""


def read_offers(db: Connection, merchant_id: UUID, order_id: UUID) -> tuple[OrderRoom, dict[str, list[str]]]:
    """The order, and by line the reasons for which it may be exchanged, in the order of REASONS; lines of none are left out.

    Each reason may have a policy of its own, and one that has none offers nothing. Locks nothing. Raises NotFound, and NoPolicy
    where no reason has any.
    """
    room: OrderRoom | None = None
    undecided: NoPolicy | None = None
    found: dict[str, list[str]] = {}
    for reason in REASONS:
        try:
            if room is None:
                room = read_room(db, merchant_id, order_id, reason=reason)
                terms = room.terms
            else:
                asked = Asked(merchant_id, order_id, room.placed_at, reason=reason)
                terms = policy_of_sale(db, asked).options[0][1]
        except NoPolicy as error:
            undecided = error
            continue
        for line in room.lines:
            if line.kind == "goods" and not why_not(terms, line):
                found.setdefault(line.line_ref, []).append(reason)
    if room is None:
        raise undecided or NotFound
    return room, found


def open_exchange(db: Connection, merchant_id: UUID, request: ReturnRequest, choice: Choice, order_id: UUID) -> Opened:
    """Claims the units and records the exchange at once; units that an open return holds are that case's.

    Raises what `open_return` raises, and BadInput (wish, in_stock, lines).
    """
    room = read_room(db, merchant_id, order_id, [ref for ref, _ in request.lines], lock=True, reason=request.reason)
    _check(room, [ref for ref, _ in request.lines], choice)
    opened = open_return(db, merchant_id, replace(request, kind="exchange"))
    held = [(row["line_ref"], row["b"] - row["a"]) for row in rows(db, _HELD, m=merchant_id, c=opened.case_id)]
    if opened.status == "joined" and _counts(held) != _counts(request.lines):
        raise BadInput(
            "lines", f"case C-{opened.number} holds these units with others: record the exchange of all of it there"
        )
    record_exchange(db, merchant_id, opened.case_id, choice)
    return opened


def _counts(lines: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for ref, count in lines:
        found[ref] = found.get(ref, 0) + count
    return found


def record_exchange(db: Connection, merchant_id: UUID, case_id: UUID, choice: Choice) -> LockedCase:
    """The customer of an open case chose an exchange: what was proposed is called back, and the case closes without money.

    A case that is exchanged already stays as it is. Locks order, case, live intents and what withdrawing them gives back. Raises
    NotFound, BadInput (wish, in_stock, lines), WrongState once money left, the case is closed, or a refund made outside
    may be of it.
    """
    case = lock_order_and_case(db, merchant_id, case_id)
    if case.stage == EXCHANGED:
        return case
    if case.closed_at is not None:
        raise WrongState("This case is closed.")
    held = rows(db, _HELD, m=merchant_id, c=case_id)
    room = read_room_of_case(db, merchant_id, case_id, [row["line_ref"] for row in held])
    _check(room, [row["line_ref"] for row in held], choice)
    _refuse_unexplained(room)
    live = live_intents(db, case)
    withdraw(db, case, live, choice.actor, EXCHANGED)
    body = {"wish": mask_card_numbers(choice.wish.strip())[:LONGEST_WISH],
            "units": [{"line": row["line_ref"], "from": row["a"], "to": row["b"]} for row in held]}  # fmt: skip
    try:
        run(
            db, "INSERT INTO exchanges (merchant_id, case_id, wish, in_stock, policy_id, policy_version, recorded_by)"
            " VALUES (:m, :c, :wish, :stock, :p, :v, :actor)", m=merchant_id, c=case_id, wish=body["wish"], stock=choice.in_stock,
            p=room.policy.policy_id, v=room.policy.version, actor=choice.actor,
        )  # fmt: skip
    except IntegrityError as error:
        if "kept or exchanged" in str(error.orig):
            raise WrongState(
                "Money was given for keeping these units, so they are not exchanged. Open a return: it pays the rest."
            ) from error
        if "never both" in str(error.orig):
            raise WrongState("Money of this case was paid, so its units cannot be exchanged.") from error
        raise
    append(db, case, "case.exchanged", choice.actor, body, stage=EXCHANGED)
    run(db, "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id)
    give_back(db, live)
    return case


def _refuse_unexplained(room: OrderRoom) -> None:
    """What was refunded outside may have been for these very units."""
    if any(terms.external_unallocated == "block" for terms in room.terms.each) and any(
        row.external_unallocated_minor for row in room.working.priors.captures
    ):
        raise WrongState(
            "A refund of this order was made outside and is on no case yet. Finance says first what it was for."
        )


_HELD: Final = """
    SELECT l.line_ref, lower(i.units) AS a, upper(i.units) AS b FROM case_items i
    JOIN order_lines l ON l.merchant_id = i.merchant_id AND l.line_id = i.line_id
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id AND c.kind IN ('return', 'exchange')
    WHERE i.merchant_id = :m AND i.case_id = :c AND i.live ORDER BY l.position, lower(i.units)
"""


def _check(room: OrderRoom, refs: list[str], choice: Choice) -> None:
    if not refs:
        raise BadInput("lines", "an exchange is for goods that go back")
    for ref in refs:
        line = room.line(ref)
        if line is None:
            raise BadInput("lines", f"this order has no line {ref!r}")
        reason = why_not(room.terms, line)
        if reason:
            raise BadInput("lines", f"line {ref}: {reason}")
    if not 1 <= len(choice.wish.strip()) <= LONGEST_WISH:
        raise BadInput("wish", f"say in 1 to {LONGEST_WISH} characters what the customer takes instead")
    if not choice.in_stock:
        raise BadInput("in_stock", "look whether the replacement is in stock, and say so")
