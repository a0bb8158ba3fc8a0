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
from ledger.database import scalar
from ledger.errors import BadInput
from ledger.idempotency import Kept, Key, keep_answer, request_digest, take_key


@dataclass(frozen=True)
class Result:
    """What the first submit led to; `same` when this one asks for exactly the same."""

    answer: dict[str, Any]
    same: bool


def first_result(db: Connection, operation: str) -> Result | None:
    """The result of an earlier submit of this page by this person, or None when the work is to be done.

    Holds the key until the transaction ends. The address is part of what was asked: a key of another page is refused.
    """
    key = _key(operation)
    scalar(db, "SELECT pg_advisory_xact_lock(:n)", n=key.number())
    kept = take_key(db, key, _act())
    return Result(kept.answer["result"], kept.answer["asked"] == _asked()) if kept else None


def keep_result(db: Connection, operation: str, result: dict[str, Any]) -> None:
    """Keeps `result` (JSON) for the next submit with the same key, in the transaction that did the work."""
    keep_answer(db, _key(operation), _act(), Kept(303, {"result": result, "asked": _asked()}))


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
