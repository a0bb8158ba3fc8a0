"""Settling an order in question: one person proposes which figures stand, a second one confirms exactly that.

Settling adds: the settlement with its reason, and an allocation of the next number (`order_allocations`); what was stated and
shared out before stays. The triggers of 0003_settled refuse the same from the rows; what is here also explains why not. Locks
are taken in the order order, its open cases, their live intents, then what calling those back gives back.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.assessment import NEW_EVIDENCE, UNSENT, reassess
from ledger.canonical import canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.errors import BadInput, LedgerError, NotAllowed, NotFound, SamePerson, Stale, WrongState
from ledger.events import SYSTEM, LockedCase, append, lock_open_cases
from ledger.ids import uuid7
from ledger.intents import live_intents, withdraw
from ledger.order_repeats import learn_of
from ledger.order_settling import Choice, InQuestion, choices, read_in_question
from ledger.orders import capture_row, credit_sources, provider_account
from ledger.reservation import give_back

ROLES: Final = ("manager", "finance")
REASONS: Final = (
    "shop_confirmed", "invoice_seen", "provider_shows", "price_typed_wrong", "rounding", "corrected_later", "sent_by_mistake",
    "other",
)  # fmt: skip
MOST_NOTE: Final = 500
# Kept on a settled order: what people had to settle, no policy approves by itself.
SETTLED: Final = "settled_by_people"
_TAG: Final = b"onceback.order-settlement.v1\0"


@dataclass(frozen=True)
class Typed:
    """What the proposer chose. `key` is a `Choice`'s; `seen` the digest of the order as it was shown."""

    key: str
    reason: str
    note: str
    seen: bytes


_PROPOSE: Final = """
    INSERT INTO order_settlements (merchant_id, settlement_id, order_id, before_digest, discrepancies, conflicts, conflict_id,
        choice, reason, note, total_minor, allocation_digest, names_after, line_ids, captures, parts, proposed_by,
        proposed_role, digest)
    VALUES (:m, :id, :o, :before, :names, CAST(:conflicts AS uuid[]), :conflict, CAST(:choice AS jsonb), :reason, :note,
        :total, :allocation, :after, CAST(:line_ids AS jsonb), CAST(:captures AS jsonb), CAST(:parts AS jsonb), :who, :role,
        :digest)
"""
_SOURCE: Final = """
    INSERT INTO entitlement_sources (merchant_id, digest, tag, document) VALUES (:m, :digest, 'allocation@1', :document)
    ON CONFLICT DO NOTHING
"""


def propose_settlement(
    db: Connection, merchant_id: UUID, order_id: UUID, settlement_id: UUID, staff_id: UUID, typed: Typed
) -> None:
    """Keeps what somebody proposes for a second person to confirm; nothing is payable yet.

    Locks the order, then its open cases. Raises NotFound, WrongState (not in question, or one waits already), Stale, NotAllowed,
    BadInput (choice, reason, note).
    """
    if typed.reason not in REASONS:
        raise BadInput("reason", "choose why it is settled so")
    if not 1 <= len(typed.note.strip()) <= MOST_NOTE:
        raise BadInput("note", f"say how you know, in 1 to {MOST_NOTE} characters")
    role = _role(db, merchant_id, staff_id)
    asked = read_in_question(db, merchant_id, order_id, lock=True)
    if asked.seen != typed.seen:
        raise Stale("The order changed while you were reading. Nothing was proposed: look at what is there now.")
    actor = f"staff:{staff_id}"
    chosen = next((one for one in choices(asked, actor, typed.reason) if one.key == typed.key), None)
    if chosen is None:
        raise BadInput("choice", "choose what stands")
    if chosen.why_not:
        raise BadInput("choice", chosen.why_not)
    row = _row(db, asked, chosen, staff_id, role, typed) | {"id": settlement_id}
    digest = bytes.fromhex(chosen.allocation.digest.removeprefix("sha256:"))
    run(db, _SOURCE, m=merchant_id, digest=digest, document=chosen.allocation.canonical)
    _insert(db, _PROPOSE, row)
    for case in lock_open_cases(db, merchant_id, [order_id]):
        append(db, case, "order.settlement_proposed", actor, _body(settlement_id, row["digest"], typed.reason))


def _row(db: Connection, asked: InQuestion, chosen: Choice, staff_id: UUID, role: str, typed: Typed) -> dict[str, Any]:
    facts, currency = chosen.statement.facts, asked.order["currency"]
    account_id = provider_account(db, asked.merchant_id)
    sources = credit_sources(db, asked.merchant_id, [facts])
    made = [capture_row(asked.merchant_id, asked.order["order_id"], place, one, facts, account_id, sources)
            for place, one in enumerate(facts.captures, 1)]  # fmt: skip
    names = [found.name for found in chosen.allocation.discrepancies]
    row = {
        "m": asked.merchant_id, "o": asked.order["order_id"], "before": bytes(asked.order["allocation_digest"]),
        "names": list(asked.order["discrepancies"]), "conflicts": [str(one.conflict_id) for one in asked.others],
        "conflict": chosen.statement.conflict_id, "choice": _text(chosen.settle.document()), "reason": typed.reason,
        "note": mask_card_numbers(typed.note.strip())[:MOST_NOTE], "total": chosen.total_minor,
        "allocation": bytes.fromhex(chosen.allocation.digest.removeprefix("sha256:")), "after": [*names, SETTLED],
        "line_ids": _text({line.line_id: str(uuid7()) for line in chosen.allocation.lines if line.line_id not in asked.lines}),
        "captures": _text([_plain(one) for one in made if one["capture_ref"] not in asked.captures]),
        "parts": _text({one["capture_ref"]: str(one["order_minor"]) for one in made if _moved(asked, one, currency)}),
        "who": staff_id, "role": role,
    }  # fmt: skip
    bound = {name: _said(value) for name, value in row.items()}
    return row | {"digest": hashlib.sha256(_TAG + canonical_bytes(bound)).digest()}


def _moved(asked: InQuestion, capture: dict[str, Any], currency: str) -> bool:
    there = asked.captures.get(capture["capture_ref"])
    return there is not None and there["order_minor"] != capture["order_minor"]


def _plain(capture: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value is None or isinstance(value, int) else str(value) for name, value in capture.items()}


def _text(document: Any) -> str:
    return canonical_bytes(document).decode()


def _said(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, list) else str(value)


def _body(settlement_id: UUID, digest: bytes, reason: str) -> dict[str, Any]:
    return {"settlement": str(settlement_id), "digest": digest.hex(), "reason": reason}


_WAITS: Final = """
    SELECT s.* FROM order_settlements s WHERE s.merchant_id = :m AND s.settlement_id = :s
"""
_STANDING: Final = "SELECT confirmed FROM order_settlement_answers WHERE merchant_id = :m AND settlement_id = :s"
_ANSWER: Final = """
    INSERT INTO order_settlement_answers (merchant_id, settlement_id, digest, proposed_by, decided_by, decided_role, confirmed,
        reason)
    VALUES (:m, :s, :digest, :by, :who, :role, :confirmed, :reason)
"""


def answer_settlement(
    db: Connection,
    merchant_id: UUID,
    settlement_id: UUID,
    staff_id: UUID,
    seen: bytes,
    *,
    confirmed: bool,
    reason: str = "",
) -> bool:
    """A second person confirms exactly what was proposed, or anybody who may settle turns it down with a reason.

    Confirmed, the order has its next allocation and is payable, and its open cases are worked out again: what waited is called
    back and asked for anew. False when it was answered so before. Locks the order, its open cases, their live intents. Raises
    NotFound, NotAllowed, SamePerson, Stale, WrongState, BadInput (reason).
    """
    found = first(db, _WAITS, m=merchant_id, s=settlement_id)
    if found is None:
        raise NotFound
    role = _role(db, merchant_id, staff_id)
    run(db, "SELECT 1 FROM orders WHERE merchant_id = :m AND order_id = :o FOR NO KEY UPDATE",
        m=merchant_id, o=found["order_id"])  # fmt: skip
    cases = lock_open_cases(db, merchant_id, [found["order_id"]])
    standing = first(db, _STANDING, m=merchant_id, s=settlement_id)
    if standing is not None:
        if standing["confirmed"] == confirmed:
            return False
        raise WrongState("Somebody else answered this a moment ago.")
    if confirmed:
        _may_confirm(db, found, staff_id, seen)
    elif not 1 <= len(reason.strip()) <= MOST_NOTE:
        raise BadInput("reason", f"say why in 1 to {MOST_NOTE} characters")
    actor = f"staff:{staff_id}"
    if confirmed:
        _call_back(db, cases, actor)
    _insert(db, _ANSWER, {
        "m": merchant_id, "s": settlement_id, "digest": bytes(found["digest"]), "by": found["proposed_by"], "who": staff_id,
        "role": role, "confirmed": confirmed, "reason": mask_card_numbers(reason.strip())[:MOST_NOTE],
    })  # fmt: skip
    kind = "order.settled" if confirmed else "order.settlement_turned_down"
    for case in cases:
        append(db, case, kind, actor, _body(settlement_id, bytes(found["digest"]), found["reason"]))
    if confirmed:
        facts = scalar(db, "SELECT facts FROM orders WHERE merchant_id = :m AND order_id = :o",
                       m=merchant_id, o=found["order_id"])  # fmt: skip
        learn_of(db, merchant_id, found["order_id"], facts["lines"])
        for case in cases:
            reassess(db, case, SYSTEM)
    return True


def _may_confirm(db: Connection, found: RowMapping, staff_id: UUID, seen: bytes) -> None:
    if staff_id == found["proposed_by"]:
        raise SamePerson("You proposed this, so another person has to confirm it.")
    if bytes(found["digest"]) != seen:
        raise Stale("This is not what was shown to you. Nothing was settled.")
    if not still_as_proposed(db, found["merchant_id"], found["settlement_id"]):
        raise Stale("The order changed since this was proposed. Nothing was settled: turn it down and propose anew.")


def still_as_proposed(db: Connection, merchant_id: UUID, settlement_id: UUID) -> bool:
    """Whether the order is what it was when this was proposed. In a transaction that writes, its row is locked."""
    return bool(scalar(db, _STILL, m=merchant_id, s=settlement_id))


_STILL: Final = """
    SELECT o.blocked AND o.allocation_digest = s.before_digest AND o.discrepancies = s.discrepancies
        AND open_conflicts(s.merchant_id, s.order_id) = s.conflicts
    FROM order_settlements s JOIN orders o ON o.merchant_id = s.merchant_id AND o.order_id = s.order_id
    WHERE s.merchant_id = :m AND s.settlement_id = :s
"""


def _call_back(db: Connection, cases: list[LockedCase], actor: str) -> None:
    """What waits of the order is withdrawn first, so that what it claims of the lines does not stand in the way."""
    unsent: list[RowMapping] = []
    for case in cases:
        if case.kind == DUPLICATE_CHARGE:
            continue  # its charges are read again, which calls back by itself
        waiting = [one for one in live_intents(db, case) if one["state"] in UNSENT and not one["recorded_by_hand"]]
        withdraw(db, case, waiting, actor, NEW_EVIDENCE)
        unsent += waiting
    give_back(db, unsent)


def _role(db: Connection, merchant_id: UUID, staff_id: UUID) -> str:
    role: str | None = scalar(db, "SELECT brake_role(:m, :s)", m=merchant_id, s=staff_id)
    if role not in ROLES:
        raise NotAllowed("Managers and finance settle what an order says.")
    return role


# What the database refused, in words; its guards hold also where two act at once.
_REFUSALS: Final[dict[str, LedgerError]] = {
    "settles_in_role": NotAllowed("Managers and finance settle what an order says."),
    "another_person_confirms": SamePerson("You proposed this, so another person has to confirm it."),
    "as_it_was_shown": Stale("The order changed since this was proposed. Nothing was settled: turn it down and propose anew."),
    "one_waits": WrongState("A settlement of this order waits already: have it confirmed or turned down first."),
    "claimed_lines_stay": WrongState(
        "Money of this order went back, or was asked for, since this was proposed, and a line would be worth less than that."
        " Turn it down and propose anew."
    ),
    "drawn_payments_stay": WrongState("Money of a payment went back since this was proposed. Turn it down and propose anew."),
    "same_customer": WrongState("Somebody asked for a return of this order since, so it keeps its customer."),
}  # fmt: skip


def _insert(db: Connection, statement: str, row: dict[str, Any]) -> None:
    try:
        run(db, statement, **row)
    except IntegrityError as error:
        name = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
        if name in _REFUSALS:
            raise _REFUSALS[name] from error
        if name == "captures_merchant_id_provider_account_id_charge_ref_key":
            raise WrongState("A payment it names belongs to another order.") from error
        raise


def waiting_settlement(db: Connection, merchant_id: UUID, order_id: UUID) -> RowMapping | None:
    """The settlement of an order that waits for its second person."""
    found = rows(db, _OPEN, m=merchant_id, o=order_id)
    return found[0] if found else None


_OPEN: Final = """
    SELECT s.*, f.name AS by FROM order_settlements s JOIN staff f ON f.staff_id = s.proposed_by
    WHERE s.merchant_id = :m AND s.order_id = :o AND NOT EXISTS (SELECT 1 FROM order_settlement_answers a
        WHERE a.merchant_id = s.merchant_id AND a.settlement_id = s.settlement_id)
"""
