"""The ways a refund can go. A path sets its stage, then runs under the knife; what a person does after a restart is its own.

A new path is an entry of PATHS, or of one of the files this one gathers: see `Path`.
"""

from faults import (
    paths_automatic,
    paths_charges,
    paths_desks,
    paths_forms,
    paths_kinds,
    paths_outside,
    paths_people,
    paths_recovery,
)
from faults.guards import GUARDS, attempt
from faults.path import Path, approved_one, hear, press
from faults.paths_people import paid_and_told
from faults.place import Place
from jobs.worker import Worker
from ledger.settlement import Unknown
from tests import lives
from tests.orders import Line
from tests.refunds import Proposed, paid_order, proposed
from tests.web.pages import Form

# Pages of the web process


def _confirm_sheet(place: Place) -> Form:
    """Priya has the confirm sheet open."""
    one = proposed(place.stack, place.world, place.sandbox)
    page = place.browser(place.world.priya).get(f"/{place.world.slug}/refunds/{one.intent_id}/approval")
    return page.form("/approval")


def _withdraw_sheet(place: Place) -> Form:
    """Approved, due in a while, and Priya has the case open with its button to call the refund back."""
    one = approved_one(place, window=300)
    page = place.browser(place.world.priya).get(f"/{place.world.slug}/cases/{one.case_id}")
    return page.form("/withdrawal")


def _press(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)


def _press_then_work(place: Place, worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)
    place.work(worker)


# Outcomes


def _left_unknown(place: Place, *, acted: bool) -> Proposed:
    """A call was made and its answer never came; the provider acted, or did not."""
    one = approved_one(place)
    with place.worker() as worker:
        (claimed,) = lives.claim(place.stack, place.world)
        if acted:
            worker.gateway.refund(claimed.request, claimed.key)
    lives.record(place.stack, claimed, Unknown("no_answer", "ReadTimeout"))
    return one


def _refused(place: Place) -> Proposed:
    one = approved_one(place)
    place.sandbox.fault("insufficient_balance", refuse=True, path="/v1/refunds")
    return one


def _pending(place: Place) -> Proposed:
    one = approved_one(place)
    place.sandbox.fault("refund_settles_late", after_seconds=90, path="/v1/refunds")
    return one


def _over_the_cap(place: Place) -> Proposed:
    """Approved when the day's cap was used up: held. Then the next business day opens."""
    place.as_administrator("UPDATE caps SET limit_minor = 3000 WHERE currency = 'GBP'")
    approved_one(place)
    held = approved_one(place)
    with place.worker() as worker:
        place.work(worker)
    place.next_business_day()
    return held


def _two_on_one_charge(place: Place) -> tuple[Proposed, Proposed]:
    order = paid_order(place.stack, place.world, place.sandbox, (Line("HAT", 1, 1500), Line("COAT", 1, 6000)))
    return approved_one(place, order=order, line="HAT"), approved_one(place, order=order, line="COAT")


def _evidence_changes(place: Place) -> Proposed:
    """Approved and due in a while; then the warehouse finds another unit of the same return in the parcel."""
    order = paid_order(place.stack, place.world, place.sandbox, (Line("SOCK", 2, 2000),))
    opened = lives.open_case(place.stack, place.world, (("SOCK", 2),), order_ref=order.external_ref, reference="chat-2")
    lives.arrive(place.stack, place.world, opened.case_id, ("SOCK", 1))
    row = lives.intents(place.stack, place.world, opened.case_id)[-1]
    lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"], window=300)
    return Proposed(
        opened.case_id, row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"], "GBP",
        row["provider_key"], order,
    )  # fmt: skip


def _another_parcel(place: Place, worker: Worker, one: Proposed) -> None:
    lives.arrive(place.stack, place.world, one.case_id, ("SOCK", 1))
    live = [row for row in lives.intents(place.stack, place.world, one.case_id) if row["state"] == "proposed"]
    for row in live:
        lives.approve_as(place.stack, place.world, place.world.tobias, row["intent_id"])
    place.work(worker)


def _another_build_retries(place: Place, worker: Worker, one: Proposed) -> None:
    """What was left in the air is sent again by a build that mints a key for each attempt, if the database lets it."""
    guard = GUARDS["one_key"]
    (row,) = place.as_administrator("SELECT * FROM intents WHERE intent_id = %s", one.intent_id)
    if row["state"] in ("submitting", "unknown"):
        attempt(guard, place, worker.gateway, row)


ROGUE = "a second build retries under a key of its own"
PATHS: tuple[Path, ...] = (
    Path("an approved refund is sent", approved_one),
    Path("approving, pressed again after the restart", _confirm_sheet, _press_then_work, _press, warm=True),
    Path("approving, not pressed again", _confirm_sheet, _press_then_work, warm=True),
    Path("calling back before it leaves, pressed again", _withdraw_sheet, _press_then_work, _press, owed=0, warm=True),
    Path("calling back, and nobody presses again", _withdraw_sheet, _press_then_work, warm=True),
    Path("refused by name", _refused, warm=True),
    Path("pending, then settled", _pending, hear, warm=True),
    Path("unknown, found and adopted", lambda place: _left_unknown(place, acted=True), warm=True),
    Path(
        "unknown, proven absent, sent again",
        lambda place: _left_unknown(place, acted=False),
        call=("POST", "/v1/refunds"),
        warm=True,
    ),
    Path("held by the day's cap, released the next day", _over_the_cap, owed=2, warm=True),
    Path("the bank sends it back days later", paid_and_told, hear),
    Path("two refunds of one charge", _two_on_one_charge, owed=2, warm=True),
    Path("evidence changes an approved refund", _evidence_changes, _another_parcel, warm=True),
    Path(ROGUE, approved_one, again=_another_build_retries, warm=True),
    *paths_forms.PATHS,
    *paths_outside.PATHS,
    *paths_people.PATHS,
    *paths_recovery.PATHS,
    *paths_automatic.PATHS,
    *paths_charges.PATHS,
    *paths_kinds.PATHS,
    *paths_desks.PATHS,
)
