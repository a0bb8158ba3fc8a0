"""Money without a return, and amounts other than computed: a person asks from a sheet, another approves, and it is sent."""

import json

from faults.path import Path, press
from faults.place import Place
from jobs.worker import Worker
from ledger.errors import LedgerError
from tests import lives
from tests.refunds import paid_order, proposed
from tests.web.pages import Form, Page

GENEROUS = {"goodwill": {"max_minor": {"GBP": 2000}}}


def _on_sheet(page: Page) -> Form:
    return next(form for form in page.forms if form.values.get("step") == "give")


def _goodwill_sheet(place: Place) -> Form:
    """Priya has the sheet of a goodwill open."""
    place.as_administrator("UPDATE policies SET document = document || %s::jsonb", json.dumps(GENEROUS))
    order = paid_order(place.stack, place.world, place.sandbox)
    priya = place.browser(place.world.priya)
    form = priya.get(f"/{place.world.slug}/orders/{order.order_id}/allowances/goodwill").form("/allowances/goodwill")
    return _on_sheet(priya.submit(form, status=200, line="TEE", amount="15.00", entry="gross", reason="service"))


def _override_sheet(place: Place) -> Form:
    """Priya has the sheet of another amount than the 24.90 open, the return having arrived."""
    one = proposed(place.stack, place.world, place.sandbox)
    priya = place.browser(place.world.priya)
    form = priya.get(f"/{place.world.slug}/cases/{one.case_id}/override").form("/override")
    return _on_sheet(priya.submit(form, status=200, amount="20.00", reason="other", note="agreed"))


def _approve_what_was_asked(place: Place) -> None:
    """Mara approves what Priya asked for, and nothing else."""
    waiting = place.as_administrator(
        "SELECT intent_id FROM intents WHERE state = 'proposed' AND requester = %s", place.world.priya.actor
    )
    for row in waiting:
        try:
            lives.approve_as(place.stack, place.world, place.world.mara, row["intent_id"])
        except LedgerError:
            continue


def _ask_and_approve(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)
    _approve_what_was_asked(place)


def _ask_approve_and_work(place: Place, worker: Worker, form: Form) -> None:
    _ask_and_approve(place, worker, form)
    place.work(worker)


PATHS: tuple[Path, ...] = (
    Path("goodwill is asked for and approved, both again", _goodwill_sheet, _ask_approve_and_work, _ask_and_approve, warm=True),
    Path("another amount is asked for and approved, both again", _override_sheet, _ask_approve_and_work, _ask_and_approve,
         warm=True),
)  # fmt: skip
