"""The path on which the database goes back in time: an old backup is restored and taken up again (S84-S87)."""

import json
import time
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from faults import snapshot
from faults.path import Path, approved_one
from faults.place import Place
from jobs.recover import recover
from jobs.worker import Worker
from ledger.errors import AlreadyRefunded, LedgerError, MoreThanLeft
from tests import lives
from tests.orders import TEE
from tests.refunds import Proposed, paid_order

TRIES = 4


@dataclass(frozen=True)
class Restored:
    """`kept` was approved when the backup was taken and paid after it; of `lost` the backup knows nothing but the order."""

    kept: Proposed
    lost: Proposed


def _went_back(place: Place) -> Restored:
    order = paid_order(place.stack, place.world, place.sandbox)
    kept = approved_one(place)
    with place.stack.admin() as admin:
        backup = snapshot.take(admin)
    lost = approved_one(place, units=2, order=order)
    with place.worker() as worker:
        place.work(worker)
    with place.stack.admin() as admin:
        snapshot.put_back(admin, backup)
    return Restored(kept, lost)


def _take_up(place: Place, worker: Worker, staged: Restored) -> None:
    """Two engineers take the books up while no worker runs, let everybody in, and the worker starts."""
    worker.close()
    _recover(place)
    _let_in(place)
    with place.worker(in_flight=1) as restarted:
        place.work(restarted)
    _ask_again(place, staged)


def _take_up_again(place: Place, worker: Worker, staged: Restored) -> None:
    """What was begun is gone on with; a command that was done is done again."""
    worker.liveness.close()
    _recover(place)
    worker.liveness.connect()
    _let_in(place)
    _ask_again(place, staged)


def _recover(place: Place) -> None:
    """The engineers' command, again while the provider does not answer or the last worker's connection is still seen."""
    environment: dict[str, Any] = {
        "ENVIRONMENT": "test", "DATABASE_URL": place.stack.owner_url, "PROVIDER_BASE_URL": place.sandbox.base_url,
        "PROVIDER_KEYS": json.dumps({place.world.slug: place.sandbox.secret_key}), "SEAL_KEY": None,
        "PROVIDER_READ_SECONDS": "0.6",
    }  # fmt: skip
    said = ""
    for _ in range(TRIES):
        done = CliRunner().invoke(recover, ["--engineers", "Ute", "Ravi"], env=environment)
        if done.exit_code == 0:
            return
        said = f"{done.output} {done.exception!r}"
        time.sleep(0.1)
    raise RuntimeError(f"the recovery did not end: {said}")


def _let_in(place: Place) -> None:
    """What the engineers do by command after it, and the two people who start again."""
    place.as_administrator("UPDATE staff SET disabled_at = NULL")
    place.as_administrator("UPDATE api_tokens SET revoked_at = NULL")
    place.as_administrator("UPDATE merchant_brakes SET paused_at = NULL, paused_by = NULL, paused_reason = NULL")


def _ask_again(place: Place, staged: Restored) -> None:
    """A customer asks once more for what was refunded after the backup; whoever let that pass would pay it twice."""
    try:
        lives.open_case(
            place.stack, place.world, ((TEE, 2),), order_ref=staged.lost.order.external_ref, reference="chat-after"
        )
    except (AlreadyRefunded, MoreThanLeft):
        return
    except LedgerError as refused:
        raise RuntimeError(f"refused for another reason: {refused!r}") from refused
    raise RuntimeError("what was refunded after the backup may be returned again")


PATHS: tuple[Path, ...] = (
    Path("an old backup is restored and taken up again", _went_back, _take_up, _take_up_again, owed=2),
)  # fmt: skip
