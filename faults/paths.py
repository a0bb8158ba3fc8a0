"""The ways a refund can go. A path sets its stage, then runs under the knife; what a person does after a restart is its own.

A new path is an entry of PATHS: `stage` (in the parent, before anything is watched; what it returns is handed on), `act`
(watched; default: every job until nothing is due) and `again` (after a kill, before the jobs run; default: nothing).
"""

from typing import Any
from uuid import UUID

import requests

from faults.guards import GUARDS, attempt
from faults.path import Path
from faults.paths_outside import MORE
from faults.place import Place
from jobs.worker import Worker
from ledger.settlement import Unknown
from tests import lives
from tests.orders import Line
from tests.refunds import Proposed, approved, paid_order, proposed
from tests.web.pages import Form
from tests.world import add_order


def _one(place: Place, **more: Any) -> Proposed:
    return proposed(place.stack, place.world, place.sandbox, **more)


def _approved(place: Place, **more: Any) -> Proposed:
    return approved(place.stack, place.world, place.sandbox, **more)


# Pages of the web process


def _confirm_sheet(place: Place) -> Form:
    """Priya has the confirm sheet open."""
    one = _one(place)
    page = place.browser(place.world.priya).get(f"/{place.world.slug}/refunds/{one.intent_id}/approval")
    return page.form("/approval")


def _withdraw_sheet(place: Place) -> Form:
    """Approved, due in a while, and Priya has the case open with its button to call the refund back."""
    one = _approved(place, window=300)
    page = place.browser(place.world.priya).get(f"/{place.world.slug}/cases/{one.case_id}")
    return page.form("/withdrawal")


def _press(place: Place, _worker: Worker, form: Form) -> None:
    answer = place.browser(place.world.priya).send(form)
    if answer.status_code not in (200, 303, 409):
        raise RuntimeError(f"{form.action} answered {answer.status_code}")


def _press_then_work(place: Place, worker: Worker, form: Form) -> None:
    _press(place, worker, form)
    place.work(worker)


# Outcomes


def _left_unknown(place: Place, *, acted: bool) -> Proposed:
    """A call was made and its answer never came; the provider acted, or did not."""
    one = _approved(place)
    with place.worker() as worker:
        (claimed,) = lives.claim(place.stack, place.world)
        if acted:
            worker.gateway.refund(claimed.request, claimed.key)
    lives.record(place.stack, claimed, Unknown("no_answer", "ReadTimeout"))
    return one


def _refused(place: Place) -> Proposed:
    one = _approved(place)
    place.sandbox.fault("insufficient_balance", refuse=True, path="/v1/refunds")
    return one


def _pending(place: Place) -> Proposed:
    one = _approved(place)
    place.sandbox.fault("refund_settles_late", after_seconds=90, path="/v1/refunds")
    return one


def _paid_and_told(place: Place) -> Proposed:
    """Paid; then the bank sends the money back, and the provider tells of it."""
    one = _approved(place)
    with place.worker() as worker:
        place.work(worker)
    (refund,) = place.sandbox.money(one.payment_intent)["refunds"]
    place.sandbox.change_refund(refund["id"], "failed", "lost_or_stolen_card")
    return one


def _hear(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker, hooks=True)


def _over_the_cap(place: Place) -> Proposed:
    """Approved when the day's cap was used up: held. Then the next business day opens."""
    place.as_administrator("UPDATE caps SET limit_minor = 3000 WHERE currency = 'GBP'")
    _approved(place)
    held = _approved(place)
    with place.worker() as worker:
        place.work(worker)
    place.next_business_day()
    return held


def _two_on_one_charge(place: Place) -> tuple[Proposed, Proposed]:
    order = paid_order(place.stack, place.world, place.sandbox, (Line("HAT", 1, 1500), Line("COAT", 1, 6000)))
    return _approved(place, order=order, line="HAT"), _approved(place, order=order, line="COAT")


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


# Forms of payment


def _uncaptured(place: Place) -> UUID:
    """A payment that was only authorised, all of it returned and its cancel approved."""
    order = add_order(place.stack, place.world, f"U-{place.number()}", lines=(Line("SOFA", 1, 9000),))
    made = requests.post(
        f"{place.sandbox.base_url}/v1/payment_intents", auth=(place.sandbox.secret_key, ""), timeout=10,
        data={"amount": 9000, "currency": "gbp", "confirm": "true", "capture_method": "manual", "payment_method": "pm_card_visa",
              "payment_method_types[]": "card"},
    ).json()  # fmt: skip
    place.as_administrator(
        "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s, captured_minor = 0, available_minor = 0, held_minor = 9000"
        " WHERE order_id = %s", made["id"], made["latest_charge"], order.order_id,
    )  # fmt: skip
    row = lives.propose(place.stack, place.world, (("SOFA", 1),), order=order, reference=order.external_ref)
    lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"])
    return UUID(str(row["intent_id"]))


def _to_pay_by_hand(place: Place) -> Form:
    """A gift card's refund is approved, and Tobias has its page open with the reference written."""
    ref = f"G-{place.number()}"
    order = add_order(
        place.stack, place.world, ref, lines=(Line("SOFA", 1, 9000),), captured={"gift_card": 9000},
        by_hand=frozenset({"gift_card"}),
    )  # fmt: skip
    row = lives.propose(place.stack, place.world, (("SOFA", 1),), order=order, reference=ref)
    lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"])
    page = place.browser(place.world.tobias).get(f"/{place.world.slug}/by-hand/{row['intent_id']}")
    form = page.form("/settlement")
    form.values["reference"] = f"GC-{ref}"
    return form


def _record(place: Place, _worker: Worker, form: Form) -> None:
    answer = place.browser(place.world.tobias).send(form)
    if answer.status_code not in (200, 303):
        raise RuntimeError(f"{form.action} answered {answer.status_code}")


def _record_then_work(place: Place, worker: Worker, form: Form) -> None:
    _record(place, worker, form)
    place.work(worker)


ROGUE = "a second build retries under a key of its own"
PATHS: tuple[Path, ...] = (
    Path("an approved refund is sent", _approved),
    Path("approving, pressed again after the restart", _confirm_sheet, _press_then_work, _press),
    Path("approving, not pressed again", _confirm_sheet, _press_then_work),
    Path("calling back before it leaves, pressed again", _withdraw_sheet, _press_then_work, _press, owed=0),
    Path("calling back, and nobody presses again", _withdraw_sheet, _press_then_work),
    Path("refused by name", _refused),
    Path("pending, then settled", _pending, _hear),
    Path("unknown, found and adopted", lambda place: _left_unknown(place, acted=True)),
    Path("unknown, proven absent, sent again", lambda place: _left_unknown(place, acted=False)),
    Path("held by the day's cap, released the next day", _over_the_cap, owed=2),
    Path("the bank sends it back days later", _paid_and_told, _hear),
    Path("two refunds of one charge", _two_on_one_charge, owed=2),
    Path("evidence changes an approved refund", _evidence_changes, _another_parcel),
    Path("an uncaptured payment is canceled", _uncaptured, owed=0),
    Path("a gift card is paid back by hand, recorded again", _to_pay_by_hand, _record_then_work, _record, owed=0),
    Path(ROGUE, _approved, again=_another_build_retries),
    *MORE,
)
