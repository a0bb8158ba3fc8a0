"""What every job is given, and the few things all of them do: list merchants, wait out a busy database, run in threads."""

import contextvars
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, Self, TypeVar
from uuid import UUID

import stamina
import stamina.instrumentation
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobs.busy import BUSY, sqlstate
from jobs.liveness import Liveness
from jobs.post import Post
from jobs.recorder import Recorder
from jobs.standing import Standing
from jobs.stripe_gateway import StripeGateway
from jobs.switch import Recent, Switch
from ledger.brakes import may_send
from ledger.database import WORKER_STATEMENT_SECONDS, connect, rows, transaction
from ledger.outbox import Claimed
from ledger.passkey_proof import Party
from ledger.seals import SealVerifier
from settings import Settings

__all__ = ["BUSY", "PATIENCE_SECONDS", "Counts", "Worker", "running_worker", "sqlstate"]

P = ParamSpec("P")
R = TypeVar("R")
Counts = Counter[str]

# Long enough for a server to restart, short enough that a call's result is written well inside its lease.
PATIENCE_SECONDS = 15

# A pause that lands between claim and call is seen within this, as the liveness lock is: a call that starts within it was
# started when the pause was not yet known to be there.
BRAKES_SECONDS = 0.5

# Its default would log the arguments of what is tried again.
stamina.instrumentation.set_on_retry_hooks([])


class ChargeLocks:
    """One call at a time per charge in this process: two at once would be turned away with `lock_timeout` (STRIPE.md §6)."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def holding(self, charge: str) -> Iterator[None]:
        """Waits for whoever calls about this charge."""
        with self._guard:
            lock, waiting = self._locks.get(charge, (threading.Lock(), 0))
            self._locks[charge] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._locks.pop(charge)
                if waiting > 1:
                    self._locks[charge] = (lock, waiting - 1)


@dataclass
class Worker:
    """One worker process. `in_flight` is in calls; `consistency_seconds` is how late the provider's lists may be.

    `standing` says whether it may send; `running_worker` always gives one. `post` is None while mail is off.
    """

    engine: Engine
    gateway: StripeGateway
    liveness: Liveness
    verifier: SealVerifier
    in_flight: int = 16
    consistency_seconds: int = 60
    standing: Standing | None = None
    post: Post | None = None
    switch: Switch = field(default_factory=Switch)
    stopping: threading.Event = field(default_factory=threading.Event)
    charges: ChargeLocks = field(default_factory=ChargeLocks)

    def __post_init__(self) -> None:
        self._braked = Recent(BRAKES_SECONDS)
        self._threads = ThreadPoolExecutor(self.in_flight, thread_name_prefix="call")
        self.recorder = Recorder(self.engine, self.patiently)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets calls under way end and be recorded, then gives back threads, lock and connections."""
        self.stopping.set()
        self._threads.shutdown(wait=True)
        self.recorder.close()
        self.liveness.close()
        self.engine.dispose()

    def may_send(self) -> bool:
        """Whether this is the database this worker is for, and as new as it was (S84). Raises what a busy database raises."""
        return self.standing is None or self.standing.good()

    def keeps_mark_of(self, claimed: Claimed) -> bool:
        """Notes an attempt outside the database before it is sent; False when it must not be sent."""
        return self.standing is None or self.standing.note(claimed)

    def braked(self, merchant_id: UUID) -> bool:
        """Whether the switch outside the database or a brake in it stops this merchant; asks the database twice a second.

        For the moment before a call: what was claimed before the pause is given back. A database that does not answer stops too.
        """
        return self.switch.on() or self._braked.stopped(merchant_id, self._ask_brakes)

    def _ask_brakes(self, merchant_id: UUID) -> bool:
        try:
            with transaction(self.engine, merchant_id, read_only=True) as db:
                return not may_send(db, merchant_id)
        except SQLAlchemyError:
            return True

    def merchants(self) -> list[UUID]:
        """Every merchant, in another order each time, so that several workers do not meet at each of them."""
        with transaction(self.engine) as db:
            found = [row["id"] for row in rows(db, "SELECT id FROM merchants")]
        random.shuffle(found)
        return found

    def in_thread(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Runs a call in one of the threads; it sees an open transaction of its caller, so P12 holds across threads."""
        context = contextvars.copy_context()
        return self._threads.submit(lambda: context.run(call, *args, **kwargs))

    def patiently(self, transact: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs one transaction, again while the database is busy or away. Raises what it raises in the end."""
        for attempt in stamina.retry_context(
            on=BUSY, attempts=None, timeout=PATIENCE_SECONDS, wait_initial=0.05, wait_max=2
        ):
            with attempt:
                return transact(*args, **kwargs)
        raise AssertionError("the last try raises")


@contextmanager
def running_worker(settings: Settings) -> Iterator[Worker]:
    """A worker of this configuration whose lock is held. Raises ValueError for a value that is missing or cannot be."""
    gateway = StripeGateway(
        settings.provider_keys, settings.provider_base_url, settings.provider_connect_seconds, settings.provider_read_seconds
    )  # fmt: skip
    verifier = SealVerifier(settings.seal_public_keys, settings.automatic_seal_public, Party.of(settings.public_origin))
    url = settings.database_url.get_secret_value()
    engine = connect(
        url, pool_size=settings.worker_pool_size, statement_seconds=WORKER_STATEMENT_SECONDS, name="worker"
    )  # fmt: skip
    with (
        Liveness(url) as liveness,
        Worker(
            engine, gateway, liveness, verifier, settings.submitter_in_flight, settings.consistency_seconds,
            standing_of(engine, settings),
            Post.of(settings),
            Switch(settings.pause_file),
        ) as worker,
    ):  # fmt: skip
        yield worker


def standing_of(engine: Engine, settings: Settings) -> Standing:
    """The guard of a configured worker. Raises ValueError when the deployment or its generation is not given."""
    if settings.deployment_id is None or settings.generation is None:
        raise ValueError("DEPLOYMENT_ID and GENERATION are missing: `flask db deployment` prints them.")
    return Standing(engine, settings.deployment_id, settings.generation, settings.state_dir)
