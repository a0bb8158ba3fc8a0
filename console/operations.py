"""A second submit of a page lands on its first result: the page's operation key, kept with what it led to (CONSOLE rule 2).

    with writing() as db:
        earlier = first_result(db, operation)
        if earlier is None:
            keep_result(db, operation, {"case": …})

The row and the work commit together; the second of a double click waits for the first.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import request
from sqlalchemy import Connection

from console.access import current
from console.installation import installed
from ledger.database import scalar, transaction
from ledger.errors import BadInput, LedgerError, WrongState
from ledger.idempotency import Kept, Key, keep_answer, request_digest, take_key
from ledger.refused_acts import count_refused, kind_of


@dataclass(frozen=True)
class Result:
    """What the first submit led to; `same` when this one asks for exactly the same."""

    answer: dict[str, Any]
    same: bool


def first_result(db: Connection, operation: str, *, changed_too: bool = False) -> Result | None:
    """The result of an earlier submit of this page by this person, or None when the work is to be done.

    Holds the key until the transaction ends. The address is part of what was asked: a key of another page is refused. Raises
    WrongState for a form that was gone back to and changed, for that was not done; `changed_too`: the caller says so itself.
    """
    key = _key(operation)
    scalar(db, "SELECT pg_advisory_xact_lock(:n)", n=key.number())
    kept = take_key(db, key, _act())
    if kept is None:
        return None
    found = Result(kept.answer["result"], kept.answer["asked"] == _asked())
    if not (found.same or changed_too):
        raise WrongState(
            "This form was sent before with something else in it, and that is stored. What you changed is not: look at what is"
            " there, then send it again."
        )
    return found


def keep_result(db: Connection, operation: str, result: dict[str, Any]) -> None:
    """Keeps `result` (JSON) for the next submit with the same key, in the transaction that did the work."""
    keep_answer(db, _key(operation), _act(), Kept(303, {"result": result, "asked": _asked()}))


def count_refusal(refused: LedgerError) -> None:
    """Counts an act that was refused because it was done already or had changed, once its own transaction is undone."""
    if kind_of(refused) is not None:
        with transaction(installed().engine, current.merchant_id) as db:
            count_refused(db, current.merchant_id, current.actor, refused)


def operation_id(operation: str) -> UUID:
    """The operation key as the id of the one row it makes. Raises BadInput for a key that no page of ours gave out."""
    try:
        return UUID(operation)
    except ValueError as error:
        raise BadInput("operation", "reload the page, then send the form again") from error


def _key(operation: str) -> Key:
    return Key(current.merchant_id, f"staff:{current.staff_id}", operation)


def _act() -> bytes:
    return request_digest(request.path, {})


def _asked() -> str:
    fields = {name: values for name, values in request.form.lists() if name not in ("csrf_token", "operation")}
    return request_digest(request.path, fields).hex()
