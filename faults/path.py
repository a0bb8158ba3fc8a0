"""What a path of the kill matrix is, and the steps that several of them share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from faults.place import Place
from jobs.worker import Worker
from ledger.errors import LedgerError
from tests import lives
from tests.cases.desk import Desk
from tests.refunds import Proposed, approved
from tests.web.pages import Form
from tests.world import Person


def work(place: Place, worker: Worker, _staged: Any) -> None:
    """Every job until nothing is due."""
    place.work(worker)


def hear(place: Place, worker: Worker, _staged: Any) -> None:
    """The same, while the provider's hooks arrive."""
    place.work(worker, hooks=True)


def nothing(_place: Place, _worker: Worker, _staged: Any) -> None:
    """Nobody does anything: the jobs go on by themselves."""


def as_owed(_place: Place) -> list[str]:
    """Nothing more to look at than what every audit looks at."""
    return []


@dataclass(frozen=True)
class Path:
    """`stage` sets the scene in the parent and is not watched; what it returns is handed on. `act` runs under the knife.
    `again` is what people do after a kill, before the jobs run.

    `owed`: how many refunds stand at the provider when nothing goes wrong; never more do. `call`: which calls meet the
    provider's fault, as method ("" for any) and beginning of the address. `warm`: the worker ran before, so the account's lists
    are read when the course begins; else reading them is part of it. `wrong`
    is what the calls that meet the fault say when they answer wrongly. `check` says what else does not hold at the end.
    """

    name: str
    stage: Callable[[Place], Any]
    act: Callable[[Place, Worker, Any], None] = work
    again: Callable[[Place, Worker, Any], None] = nothing
    owed: int = 1
    call: tuple[str, str] = ("", "/v1/refunds")
    check: Callable[[Place], list[str]] = as_owed
    warm: bool = False
    wrong: Mapping[str, Any] = field(default_factory=lambda: {"currency": "eur"})


def desk_of(place: Place) -> Desk:
    """The desk's verbs that need no worker and no hooks of its own."""
    return Desk(place.stack, place.world, place.sandbox, cast("Worker", None), "")


def approved_one(place: Place, **more: Any) -> Proposed:
    """One return, received, and its refund approved by Priya."""
    return approved(place.stack, place.world, place.sandbox, **more)


def approve_what_waits(place: Place) -> None:
    """Priya approves every refund that waits for it."""
    for row in place.as_administrator("SELECT intent_id FROM intents WHERE state = 'proposed' ORDER BY number"):
        try:
            lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"])
        except LedgerError:
            continue


def press(place: Place, person: Person, form: Form) -> None:
    """A person sends a form that they have open; somebody may have been quicker."""
    answer = place.browser(person).send(form)
    if answer.status_code not in (200, 303, 409):
        raise RuntimeError(f"{form.action} answered {answer.status_code}")
