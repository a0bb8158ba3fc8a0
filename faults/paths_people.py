"""Paths that only people lead on: a raised cap, a pause, shadow mode, and what two of them settle."""

from typing import Any

from faults.path import Path, approve_what_waits, approved_one
from faults.paths_forms import gift_card, say_it_was_paid
from faults.place import Place
from jobs import by_hand
from jobs.worker import Worker
from ledger import brakes
from ledger.assessment import work_out_again
from ledger.caps import ask_raise, decide_raise
from ledger.database import transaction
from ledger.errors import LedgerError
from ledger.review import ask_again
from ledger.settlement import Unknown
from tests import lives
from tests.jobs import settling
from tests.refunds import Proposed, grow_old

# The cap


def _over_the_cap(place: Place) -> None:
    """Two are approved of which the day's cap takes one."""
    place.as_administrator("UPDATE caps SET limit_minor = 3000 WHERE currency = 'GBP'")
    approved_one(place)
    approved_one(place)
    with place.worker() as worker:
        place.work(worker)


def _raised(place: Place, _worker: Worker, _staged: Any) -> None:
    """Jonas asks for a higher cap, and Mara grants what was asked for."""
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            ask_raise(db, place.world.merchant_id, place.world.jonas.staff_id, "GBP", 9000, "a recall of lamps")
    except LedgerError:
        pass
    for row in place.as_administrator("SELECT raise_id FROM cap_raises WHERE decided_at IS NULL"):
        try:
            with transaction(place.stack.console, place.world.merchant_id) as db:
                decide_raise(
                    db, place.world.merchant_id, row["raise_id"], place.world.mara.staff_id, granted=True
                )  # fmt: skip
        except LedgerError:
            continue


def _raised_then_work(place: Place, worker: Worker, staged: Any) -> None:
    _raised(place, worker, staged)
    place.work(worker)


# The brakes


def _paused(place: Place, brake: str) -> None:
    """Approved, and Priya pulls a brake before it leaves."""
    approved_one(place)
    with transaction(place.stack.console, place.world.merchant_id) as db:
        brakes.pull(db, place.world.merchant_id, brake, "a look at the till", staff_id=place.world.priya.staff_id)


def _started_again(place: Place, brake: str) -> None:
    try:
        lives.start_again(place.stack, place.world, brake)
    except LedgerError:
        return


def _work_paused_then_start(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker)
    _started_again(place, "pause")
    place.work(worker)


def _work_in_shadow_then_leave(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker)
    _started_again(place, "shadow")
    place.work(worker)


# The bank sent it back


def paid_and_told(place: Place) -> Proposed:
    """Paid; then the bank sends the money back, and the provider tells of it."""
    one = approved_one(place)
    with place.worker() as worker:
        place.work(worker)
    (refund,) = place.sandbox.money(one.payment_intent)["refunds"]
    place.sandbox.change_refund(refund["id"], "failed", "lost_or_stolen_card")
    return one


def _paid_once_more(place: Place, worker: Worker, one: Proposed) -> None:
    place.work(worker, hooks=True)
    _approved_anew(place, worker, one)
    place.work(worker)


def _approved_anew(place: Place, worker: Worker, one: Proposed) -> None:
    """Once it is known, Tobias asks for what is still owed, and Priya approves that."""
    place.work(worker, hooks=True)
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            work_out_again(db, place.world.merchant_id, one.case_id, place.world.tobias.actor)
    except LedgerError:
        pass
    approve_what_waits(place)


# What nobody knows is settled by two


def _nobody_knows(place: Place, *, acted: bool) -> Proposed:
    """The call was made, or not, and its answer lost, and the key's safe age went by before anybody knew."""
    place.sandbox.fault("list_lag", seconds=7200)
    one = approved_one(place)
    with place.worker() as worker:
        (claimed,) = lives.claim(place.stack, place.world)
        if acted:
            worker.gateway.refund(claimed.request, claimed.key)
        lives.record(place.stack, claimed, Unknown("no_answer", "ReadTimeout"))
        grow_old(place.stack, one, hours=23)
        place.work(worker)
        place.time_passes(7300)
    place.sandbox.drop_faults()
    return one


def _two_settle(place: Place, worker: Worker, one: Proposed) -> None:
    """The provider is asked once more; Mara proposes what its list shows, Farah confirms, the worker carries it out."""
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            ask_again(db, place.world.merchant_id, one.intent_id)
        place.work(worker)
    except LedgerError:
        pass
    _two_say(place, one)
    place.work(worker)


def _two_say(place: Place, one: Proposed) -> None:
    try:
        choices, _ = settling.choices(place.stack, place.world, one)
        for choice in choices[:1]:
            settling.propose(place.stack, place.world, one, place.world.mara, choice)
    except LedgerError:
        pass
    for row in place.as_administrator(
        "SELECT settlement_id FROM settlements s WHERE NOT EXISTS (SELECT 1 FROM settlement_decisions d"
        " WHERE d.settlement_id = s.settlement_id)"
    ):
        try:
            settling.confirm(place.stack, place.world, row["settlement_id"], place.world.farah)
        except LedgerError:
            continue


def _two_settle_then_asked_again(place: Place, worker: Worker, one: Proposed) -> None:
    """They say that it was never paid; then it is owed again, under a new approval."""
    _two_settle(place, worker, one)
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            work_out_again(db, place.world.merchant_id, one.case_id, place.world.tobias.actor)
    except LedgerError:
        pass
    approve_what_waits(place)
    place.work(worker)


def _paid_by_hand_in_doubt(place: Place) -> Proposed:
    """A gift card was paid back by hand, and the approval behind it does not hold any more: a person has it."""
    one = gift_card(place)
    with place.worker() as worker:
        say_it_was_paid(place, one.intent_id)
        place.as_administrator("UPDATE approvals SET note = 'edited' WHERE intent_id = %s", one.intent_id)
        by_hand.run_once(worker)
    return one


def _two_say_then_work(place: Place, worker: Worker, one: Proposed) -> None:
    _two_say(place, one)
    place.work(worker)


PATHS: tuple[Path, ...] = (
    Path("held by the day's cap, raised by two", _over_the_cap, _raised_then_work, _raised, owed=2, warm=True),
    Path(
        "paused before it leaves, started again by two",
        lambda place: _paused(place, "pause"),
        _work_paused_then_start,
        lambda place, _worker, _staged: _started_again(place, "pause"),
        warm=True,
    ),
    Path(
        "shadow mode: recorded, and nothing is sent",
        lambda place: _paused(place, "shadow"),
        _work_in_shadow_then_leave,
        owed=0,
        warm=True,
    ),
    Path("the bank sends it back, and it is approved anew", paid_and_told, _paid_once_more, _approved_anew),
    Path(
        "nobody knows, and two people settle it",
        lambda place: _nobody_knows(place, acted=True),
        _two_settle,
        _two_settle,
        warm=True,
    ),
    Path(
        "nobody knows, two say it was not paid, and it is paid",
        lambda place: _nobody_knows(place, acted=False),
        _two_settle_then_asked_again,
        _two_settle_then_asked_again,
        warm=True,
    ),
    Path(
        "paid by hand, in doubt, and two people settle it",
        _paid_by_hand_in_doubt,
        _two_say_then_work,
        lambda place, _worker, one: _two_say(place, one),
        owed=0,
    ),
)
