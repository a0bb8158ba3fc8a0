"""The path on which nobody presses anything: a policy approves by itself what it names (S38)."""

import json

from faults.path import Path
from faults.place import ORIGIN, Place
from jobs.worker import Worker
from tests import lives
from tests.orders import TEE
from tests.refunds import paid_order


def _small_and_plain(place: Place) -> tuple[str, str]:
    """A policy names small refunds, the chat verified who asks, and the warehouse has the goods in its hands."""
    place.as_administrator(
        "UPDATE policies SET document = document || %s::jsonb",
        json.dumps({"automatic": {"GBP": {"most_minor": 2500, "day_minor": 50_000}}}),
    )
    with place.worker() as worker:
        place.work(worker)
    ref = place.number()
    order = paid_order(place.stack, place.world, place.sandbox)
    opened = lives.open_case(
        place.stack, place.world, order_ref=order.external_ref, reference=f"auto-{ref}", customer_verified="signed_in"
    )
    return f"C-{opened.number}", f"receipt-{ref}"


def _report(place: Place, _worker: Worker, parcel: tuple[str, str]) -> None:
    case, key = parcel
    arrived = {"line": TEE, "received": 1, "grades": [{"grade": "A", "units": 1}]}
    answer = place.app.test_client(use_cookies=False).post(
        "/api/v1/receipts", base_url=ORIGIN, json={"case": case, "lines": [arrived]},
        headers={"Authorization": f"Bearer {place.world.warehouse.text}", "Idempotency-Key": key},
    )  # fmt: skip
    if answer.status_code != 201:
        raise RuntimeError(f"the receipt was answered with {answer.status_code}")


def _report_then_work(place: Place, worker: Worker, parcel: tuple[str, str]) -> None:
    _report(place, worker, parcel)
    place.work(worker)


PATHS: tuple[Path, ...] = (
    Path("a policy approves by itself, reported again", _small_and_plain, _report_then_work, _report),
)
