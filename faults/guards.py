"""The guards that a run can be without, and for each the second writer that tries what the guard refuses.

`off` are statements for the scratch database, run by its administrator: nothing in the product knows of them. A rogue is a
build of ours with one fault in it. It works under a role of the product, so the guard is what it meets; it plays in every
run, and is refused in every run but the one its guard was taken from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from faults.place import Place
from jobs.worker import Worker
from ledger.database import first, run, transaction
from ledger.intents import new_provider_key

Rogue = Callable[[Place, Worker, dict[str, Any]], bool]


@dataclass(frozen=True)
class Guard:
    """`rogue` gets the row of an intent it likes (`wants`: its state) and returns whether the database let it."""

    name: str
    promise: str
    off: tuple[str, ...]
    rogue: Rogue
    wants: tuple[str, ...]


def refused(act: Callable[[], Any]) -> bool:
    """Whether the database refuses the act."""
    try:
        act()
    except DBAPIError:
        return True
    return False


def _retry_under_a_fresh_key(place: Place, worker: Worker, intent: dict[str, Any]) -> bool:
    """Mints a key for a retry, stores it as one should, and sends."""
    key, merchant_id = new_provider_key(), place.world.merchant_id

    def store() -> None:
        with transaction(place.stack.worker, merchant_id) as db:
            run(db, "UPDATE intents SET provider_key = :k WHERE merchant_id = :m AND intent_id = :i",
                k=key, m=merchant_id, i=intent["intent_id"])  # fmt: skip

    if refused(store):
        return False
    worker.gateway.refund(_request(place, intent["intent_id"]), key)
    return True


def _request(place: Place, intent_id: UUID) -> dict[str, Any]:
    with transaction(place.stack.worker, place.world.merchant_id) as db:
        row = first(db, "SELECT request FROM outbox WHERE intent_id = :i", i=intent_id)
    if row is None:
        raise LookupError("an intent that is on its way has its request")
    return dict(row["request"])


GUARDS = {
    guard.name: guard
    for guard in (
        Guard(
            "one_key", "P8",
            ("GRANT UPDATE (provider_key) ON intents TO onceback_worker", "DROP TRIGGER exact ON intents"),
            _retry_under_a_fresh_key, ("submitting", "unknown"),
        ),
    )
}  # fmt: skip
