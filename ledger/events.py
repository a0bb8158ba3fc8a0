"""The history of a case: append-only, hash-chained, and the only way an intent changes its state.

Inserting an event with a move *is* the move: a trigger applies it to the intent and to the case's head, or the insert
fails. So no state changes without its event, and no event lies about a state (P5).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes
from ledger.database import Later, first, rows, run_later, scalar, together
from ledger.errors import NotFound
from ledger.ids import uuid7
from ledger.states import STAGE

TAG: Final = b"onceback.event.v1\0"
SYSTEM: Final = "system"


@dataclass
class LockedCase:
    """A case whose row this transaction holds, with the head of its chain. `at` is the database's transaction time."""

    merchant_id: UUID
    case_id: UUID
    number: int
    order_id: UUID
    kind: str
    currency: str
    opened_by: str
    stage: str
    separate: bool
    closed_at: datetime | None
    head_number: int
    head_hash: bytes | None
    at: datetime

    def followed_by(self, row: Mapping[str, Any]) -> None:
        """Takes a row of `next_event` that is being written as the new head."""
        self.head_number, self.head_hash = row["number"], row["hash"]
        self.stage = row["case_stage"] or self.stage


# The columns of `LockedCase`, of a case that is named `c`.
LOCKED_CASE: Final = """
    c.merchant_id, c.case_id, c.number, c.order_id, c.kind, c.currency, c.opened_by, c.stage, c.separate, c.closed_at,
    c.head_number, c.head_hash, now() AS at
"""
_LOCK: Final = """
    SELECT {columns} FROM cases c WHERE merchant_id = :merchant_id AND case_id = {which} FOR NO KEY UPDATE
"""
_LOCK_CASE: Final = _LOCK.format(columns=LOCKED_CASE, which=":case_id")
_LOCK_OF_INTENT: Final = _LOCK.format(
    columns=LOCKED_CASE,
    which="(SELECT case_id FROM intents WHERE merchant_id = :merchant_id AND intent_id = :intent_id)",
)

_LOCK_ITS_ORDER: Final = """
    SELECT 1 FROM orders WHERE merchant_id = :m
        AND order_id = (SELECT order_id FROM cases WHERE merchant_id = :m AND case_id = :c) FOR NO KEY UPDATE
"""


def lock_case(db: Connection, merchant_id: UUID, case_id: UUID) -> LockedCase:
    """Locks the case row (second in the lock order, after its order) and reads the head of its chain.

    Raises NotFound for an absent case and for another merchant's alike.
    """
    return locked_case(first(db, _LOCK_CASE, merchant_id=merchant_id, case_id=case_id))


def lock_case_of_intent(db: Connection, merchant_id: UUID, intent_id: UUID) -> LockedCase:
    """The same for the case an intent belongs to, in one round trip. Raises NotFound."""
    return locked_case(lock_case_of_intent_later(db, merchant_id, intent_id).first())


def lock_case_of_intent_later(db: Connection, merchant_id: UUID, intent_id: UUID) -> Later:
    """The same together with what is read under the lock: give its first row to `locked_case`."""
    return run_later(db, _LOCK_OF_INTENT, merchant_id=merchant_id, intent_id=intent_id)


def locked_case(row: RowMapping | dict[str, Any] | None) -> LockedCase:
    """The case of a row that was locked. Raises NotFound without one."""
    if row is None:
        raise NotFound
    return LockedCase(**row)


def lock_order_and_case(db: Connection, merchant_id: UUID, case_id: UUID) -> LockedCase:
    """Locks the case's order, then the case: for commands that work an amount out, which depends on the order's other cases.

    Raises NotFound.
    """
    with together(db):
        run_later(db, _LOCK_ITS_ORDER, m=merchant_id, c=case_id)
        found = run_later(db, _LOCK_CASE, merchant_id=merchant_id, case_id=case_id)
    return locked_case(found.first())


EVENT_COLUMNS: Final = """
    merchant_id, case_id, number, event_id, kind, actor, at, intent_id, from_state, to_state, reason, case_stage, body,
    previous_number, previous_hash, hash
"""
EVENT_VALUES: Final = """
    :merchant_id, :case_id, :number, :event_id, :kind, :actor, :at, :intent_id, :from_state, :to_state, :reason,
    :case_stage, CAST(:body AS jsonb), :previous_number, :previous_hash, :hash
"""
_INSERT: Final = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({EVENT_VALUES})"  # noqa: S608 - two constants


_INSERT_ALL: Final = f"""
    INSERT INTO events ({EVENT_COLUMNS})
    SELECT :merchant_id, case_id, number, event_id, kind, actor, at, intent_id, from_state, to_state, reason, case_stage,
        CAST(body AS jsonb), previous_number, previous_hash, hash
    FROM unnest(CAST(:case_id AS uuid[]), CAST(:number AS bigint[]), CAST(:event_id AS uuid[]), CAST(:kind AS text[]),
        CAST(:actor AS text[]), CAST(:at AS timestamptz[]), CAST(:intent_id AS uuid[]), CAST(:from_state AS text[]),
        CAST(:to_state AS text[]), CAST(:reason AS text[]), CAST(:case_stage AS text[]), CAST(:body AS text[]),
        CAST(:previous_number AS bigint[]), CAST(:previous_hash AS bytea[]), CAST(:hash AS bytea[]))
        AS e(case_id, number, event_id, kind, actor, at, intent_id, from_state, to_state, reason, case_stage, body,
            previous_number, previous_hash, hash)
"""  # noqa: S608 - two constants
_EACH: Final = tuple(name.strip() for name in EVENT_COLUMNS.split(",") if name.strip() != "merchant_id")


def lock_order_and_cases(db: Connection, merchant_id: UUID, order_id: UUID) -> dict[UUID, LockedCase]:
    """Locks an order, then all its cases by id, and returns those."""
    keys = {"m": merchant_id, "o": order_id}
    first(db, "SELECT 1 FROM orders WHERE merchant_id = :m AND order_id = :o FOR NO KEY UPDATE", **keys)
    found = rows(db, "SELECT case_id FROM cases WHERE merchant_id = :m AND order_id = :o ORDER BY case_id", **keys)
    return {row["case_id"]: lock_case(db, merchant_id, row["case_id"]) for row in found}


def lock_open_cases(db: Connection, merchant_id: UUID, order_ids: Sequence[UUID]) -> list[LockedCase]:
    """Locks the open cases of orders that are locked, by id, and returns them."""
    found = rows(db, _OPEN_CASES, m=merchant_id, orders=list(order_ids))
    return [lock_case(db, merchant_id, row["case_id"]) for row in found]


_OPEN_CASES: Final = """
    SELECT case_id FROM cases WHERE merchant_id = :m AND order_id = ANY(:orders) AND closed_at IS NULL ORDER BY case_id
"""


def append_all(db: Connection, merchant_id: UUID, events: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows of `next_event` in one statement, in their order; what follows in a chain stands after what it follows."""
    if events:
        run_later(db, _INSERT_ALL, merchant_id=merchant_id, **{name: [row[name] for row in events] for name in _EACH})


def append(
    db: Connection,
    case: LockedCase,
    kind: str,
    actor: str,
    body: dict[str, Any] | None = None,
    *,
    intent_id: UUID | None = None,
    move: tuple[str, str] | None = None,
    reason: str = "",
    stage: str | None = None,
) -> None:
    """Adds the next event of a locked case; with `move` also changes the intent's state, from and to.

    `body` is JSON of strings, integers and lists; amounts are strings. Free text does not go in: it would be in the chain
    for ever. `stage` is the case's new stage; a move brings its own unless one is given, but a case of which another
    refund still waits for its approval stays ready. Raises IntegrityError for a move
    that is not listed, and OperationalError (serialization failure) if the intent is not in the state the move starts from:
    inside `together` at its end.
    """
    if stage is None and move is not None:
        stage = stage_after(db, case, intent_id, move[1])
    row = next_event(case, kind, actor, body, intent_id=intent_id, move=move, reason=reason, stage=stage)
    run_later(db, _INSERT, **row)
    case.followed_by(row)


def next_event(
    case: LockedCase,
    kind: str,
    actor: str,
    body: dict[str, Any] | None = None,
    *,
    intent_id: UUID | None = None,
    move: tuple[str, str] | None = None,
    reason: str = "",
    stage: str | None = None,
) -> dict[str, Any]:
    """The row that would follow the last event of a locked case, for EVENT_COLUMNS and EVENT_VALUES; writes nothing."""
    row = {
        "merchant_id": case.merchant_id, "case_id": case.case_id, "number": case.head_number + 1, "event_id": uuid7(),
        "kind": kind, "actor": actor, "at": case.at, "intent_id": intent_id, "from_state": move[0] if move else None,
        "to_state": move[1] if move else None, "reason": reason, "case_stage": stage, "body": body or {},
        "previous_number": case.head_number or None, "previous_hash": case.head_hash,
    }  # fmt: skip
    digest = event_hash(case.head_hash, event_content(row))
    return row | {"body": canonical_bytes(body or {}).decode(), "hash": digest}


# Where a refund goes by itself. What a person has to look at shows, whatever else of its case waits.
_GOES_ON: Final = frozenset({"approved", "held", "submitting", "unknown", "pending"})


_ANOTHER_WAITS: Final = """
    SELECT 1 FROM intents WHERE merchant_id = :m AND case_id = :c AND intent_id <> :i AND state = 'proposed' LIMIT 1
"""


def stage_after(db: Connection, case: LockedCase, intent_id: UUID | None, state: str) -> str | None:
    """The stage a move of an intent to `state` brings its case to; None when it stays."""
    # A case with a proposal is ready, so one in any other stage has none to look for.
    if (
        case.stage == STAGE["proposed"]
        and state in _GOES_ON
        and scalar(db, _ANOTHER_WAITS, m=case.merchant_id, c=case.case_id, i=intent_id)
    ):
        return case.stage
    return STAGE.get(state)


def held_stage(case: LockedCase) -> str:
    """The stage of a case whose refund was approved just now and is held: as `append` would work it out, without reading."""
    return case.stage if case.stage == STAGE["proposed"] else STAGE["held"]


def event_hash(previous: bytes | None, content: dict[str, Any]) -> bytes:
    """SHA-256(tag ‖ previous hash, 32 zero bytes for the first ‖ canonical content)."""
    return hashlib.sha256(TAG + (previous or bytes(32)) + canonical_bytes(content)).digest()


def event_content(row: Mapping[str, Any] | RowMapping) -> dict[str, Any]:
    """What the hash of an event covers: its own columns, in the form that is the same before and after the database."""
    move = [row["from_state"], row["to_state"]] if row["to_state"] else None
    return {
        "merchant": str(row["merchant_id"]), "case": str(row["case_id"]), "number": row["number"], "event": str(row["event_id"]),
        "kind": row["kind"], "actor": row["actor"], "at": row["at"].astimezone(UTC).isoformat(),
        "intent": str(row["intent_id"]) if row["intent_id"] else None, "move": move, "reason": row["reason"],
        "stage": row["case_stage"], "body": row["body"],
    }  # fmt: skip


def broken_link(db: Connection, merchant_id: UUID, case_id: UUID) -> int | None:
    """The number of the first event of a case that is not as it was written, or is missing; None when the chain holds (S48).

    Computes every hash again and ends at the head that the case's own row keeps, so a cut tail shows too. Locks nothing.
    Raises NotFound.
    """
    found = broken_links(db, merchant_id, [case_id])
    if case_id not in found:
        raise NotFound
    return found[case_id]


# One statement, so that head and events are of one moment while others go on writing.
_CHAINS: Final = """
    SELECT c.case_id AS of_case, c.head_number, c.head_hash, e.* FROM cases c
    LEFT JOIN events e ON e.merchant_id = c.merchant_id AND e.case_id = c.case_id
    WHERE c.merchant_id = :m AND c.case_id = ANY(CAST(:cases AS uuid[])) ORDER BY c.case_id, e.number
"""


def broken_links(db: Connection, merchant_id: UUID, case_ids: Sequence[UUID]) -> dict[UUID, int | None]:
    """The same for many cases at once; a case that is not there is not in the answer."""
    read = rows(db, _CHAINS, m=merchant_id, cases=list(case_ids))
    return {UUID(str(case_id)): _broken(list(chain)) for case_id, chain in groupby(read, key=itemgetter("of_case"))}


def _broken(chain: list[RowMapping]) -> int | None:
    number, previous = 0, None
    for row in chain if chain[0]["number"] is not None else ():
        number += 1
        if row["number"] != number or bytes(row["hash"]) != event_hash(previous, event_content(row)):
            return number
        previous = bytes(row["hash"])
    kept = bytes(chain[0]["head_hash"]) if chain[0]["head_hash"] is not None else None
    return None if (number, previous) == (chain[0]["head_number"], kept) else number + 1
