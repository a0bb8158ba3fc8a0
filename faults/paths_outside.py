"""Paths on which somebody else acts as well: the dashboard, the bank, the shop, a second person, the nightly comparison."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from faults.path import Path
from faults.place import Place
from jobs.worker import Worker
from ledger.approvals import Seen
from ledger.approvals_together import approve_together
from ledger.by_hand import Recorded, record
from ledger.database import transaction
from ledger.errors import LedgerError
from ledger.reconciliation_run import ask_run
from ledger.review import ask_again
from ledger.settlement import Unknown
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Refund
from tests.jobs import settling
from tests.orders import LAMP, TEE
from tests.refunds import Proposed, approved, grow_old
from tests.world import add_order


def _desk(place: Place) -> Desk:
    """Its verbs that need no worker and no hooks."""
    return Desk(place.stack, place.world, place.sandbox, cast("Worker", None), "")


def _approved(place: Place, **more: Any) -> Proposed:
    return approved(place.stack, place.world, place.sandbox, **more)


def _hear(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker, hooks=True)


# The dashboard


def _some_of_it_in_the_dashboard(place: Place) -> Proposed:
    one = _approved(place)
    place.sandbox.dashboard_refund(one.payment_intent, 2000)
    return one


def _all_of_it_in_the_dashboard(place: Place) -> Proposed:
    one = _approved(place)
    place.sandbox.dashboard_refund(one.payment_intent)
    return one


# The bank


def _disputed(place: Place) -> str:
    one = _approved(place)
    return str(place.sandbox.open_dispute(one.payment_intent)["id"])


def _hear_then_won(place: Place, worker: Worker, dispute: str) -> None:
    place.work(worker, hooks=True)
    place.sandbox.close_dispute(dispute, "won")
    place.work(worker, hooks=True)


# Money that was only authorised, and money that no provider holds


def _only_authorised(place: Place) -> Refund:
    desk = _desk(place)
    return desk.approve(desk.owed(desk.sold(58_00, payments=[desk.held(58_00)]), ("L1", 1)))


def _gift_card(place: Place) -> UUID:
    order = add_order(
        place.stack, place.world, f"G-{place.number()}", captured={"gift_card": 13760}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    row = lives.propose(place.stack, place.world, ((TEE, 3), (LAMP, 1)), order=order, reference=order.external_ref)
    lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"])
    return UUID(str(row["intent_id"]))


def _say_it_was_paid(place: Place, _worker: Worker, intent_id: UUID) -> None:
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            record(db, place.world.merchant_id, intent_id, place.world.jonas.staff_id, Recorded("till 4, slip 7", ""))
    except LedgerError:
        return


def _say_it_then_work(place: Place, worker: Worker, intent_id: UUID) -> None:
    _say_it_was_paid(place, worker, intent_id)
    place.work(worker)


# Two payments, approved together


def _split(place: Place) -> tuple[UUID, dict[UUID, Seen]]:
    desk = _desk(place)
    sale = desk.sold(130_00, payments=desk.paid(80_00, 50_00))
    case_id = desk.returned(sale, ("L1", 1))
    key = secrets.token_hex(16)
    return case_id, {
        one.intent_id: Seen(lives.see(place.stack, place.world, one.intent_id).fingerprint, key)
        for one in desk.refunds_of(case_id)
    }


def _press(place: Place, _worker: Worker, split: tuple[UUID, dict[UUID, Seen]]) -> None:
    case_id, seen = split
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            approve_together(
                db, place.world.merchant_id, case_id, place.world.priya.staff_id, seen, lives.sealer(),
                cancel_window_seconds=0,
            )  # fmt: skip
    except LedgerError:
        return


def _press_then_work(place: Place, worker: Worker, split: tuple[UUID, dict[UUID, Seen]]) -> None:
    _press(place, worker, split)
    place.work(worker)


# What nobody knows is settled by two


def _nobody_knows(place: Place) -> Proposed:
    """The call was made and its answer lost, and the key's safe age went by before anybody knew."""
    place.sandbox.fault("list_lag", seconds=7200)
    one = _approved(place)
    with place.worker() as worker:
        (claimed,) = lives.claim(place.stack, place.world)
        worker.gateway.refund(claimed.request, claimed.key)
        lives.record(place.stack, claimed, Unknown("no_answer", "ReadTimeout"))
        grow_old(place.stack, one, hours=23)
        place.work(worker)
        place.time_passes(7300)
    return one


def _two_settle(place: Place, worker: Worker, one: Proposed) -> None:
    """The provider is asked once more; Mara proposes what its list shows, Farah confirms, the worker carries it out."""
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            ask_again(db, place.world.merchant_id, one.intent_id)
        place.work(worker)
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
    place.work(worker)


# The books beside the provider's


def _paid_and_to_be_compared(place: Place) -> None:
    """One paid, one given back in the dashboard, and a run over the whole of it is asked for."""
    paid = _approved(place)
    place.sandbox.dashboard_refund(paid.payment_intent, 1500)
    with place.worker() as worker:
        place.work(worker)
        place.time_passes(3600)
    now = datetime.now(UTC)
    with transaction(place.stack.worker, place.world.merchant_id) as db:
        ask_run(db, place.world.merchant_id, now - timedelta(days=2), now + timedelta(hours=1), "command")


MORE: tuple[Path, ...] = (
    Path("some of it is given back in the dashboard", _some_of_it_in_the_dashboard, _hear),
    Path("all of it is given back in the dashboard", _all_of_it_in_the_dashboard, _hear, owed=0),
    Path("disputed before it leaves, then won", _disputed, _hear_then_won),
    Path("only authorised: let go, not refunded", _only_authorised, owed=0),
    Path("a gift card is paid back by hand, said again", _gift_card, _say_it_then_work, _say_it_was_paid, owed=0),
    Path("two payments approved together, pressed again", _split, _press_then_work, _press, owed=2),
    Path("nobody knows, and two people settle it", _nobody_knows, _two_settle, _two_settle),
    Path("the books are compared with the provider's", _paid_and_to_be_compared, _hear),
)
