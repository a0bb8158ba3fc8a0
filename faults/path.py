"""What a path of the kill matrix is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faults.place import Place
from jobs.worker import Worker


def _work(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker)


def _nothing(_place: Place, _worker: Worker, _staged: Any) -> None:
    """Nobody does anything: the jobs go on by themselves."""


@dataclass(frozen=True)
class Path:
    """`owed`: how many refunds stand at the provider when nothing goes wrong; never more do. `hooks`: the provider's hooks
    arrive also while the path runs, not only after its end."""

    name: str
    stage: Callable[[Place], Any]
    act: Callable[[Place, Worker, Any], None] = _work
    again: Callable[[Place, Worker, Any], None] = _nothing
    owed: int = 1
