"""The path of a charge that was made twice: said, read, found, approved by a manager, and paid back once."""

from faults.path import Path
from faults.place import Place
from jobs.worker import Worker
from ledger.errors import LedgerError
from tests import lives
from tests.charges import charged, claim_twice
from tests.orders import Order


def _said(place: Place) -> Order:
    """Ilse was charged twice for her lamp, and says so in the chat."""
    order = charged(place.stack, place.world, place.sandbox, 5840, 5840)
    claim_twice(place.stack, place.world, order)
    return order


def _read_and_pay(place: Place, worker: Worker, order: Order) -> None:
    place.work(worker)
    _approve(place, worker, order)
    place.work(worker)


def _approve(place: Place, worker: Worker, _order: Order) -> None:
    """Jonas approves what waits, once the charges are read."""
    place.work(worker)
    for row in place.as_administrator("SELECT intent_id FROM intents WHERE state = 'proposed'"):
        try:
            lives.approve_as(place.stack, place.world, place.world.jonas, row["intent_id"])
        except LedgerError:
            continue


PATHS: tuple[Path, ...] = (
    Path(
        "a charge made twice is read and paid back once", _said, _read_and_pay, _approve, call=("", "/v1/refunds"), warm=True
    ),
    Path("reading a charge made twice meets the fault", _said, _read_and_pay, _approve, call=("GET", "/v1/charges")),
)  # fmt: skip
