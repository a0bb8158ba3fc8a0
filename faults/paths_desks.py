"""Paths that begin or end at a desk or in a channel: a return is asked for, a case is ended, somebody leaves, a discrepancy is
resolved. The page or the call itself is under the knife, and pressed or sent again after the restart."""

import sqlite3
from dataclasses import dataclass
from typing import Any

from faults.path import Path, approve_what_waits, approved_one, press
from faults.paths_forms import gift_card
from faults.paths_outside import compare_the_books
from faults.place import ORIGIN, Place
from jobs.worker import Worker
from tests import lives
from tests.orders import TEE, Order
from tests.refunds import Proposed, paid_order, proposed
from tests.web.pages import Form
from tests.world import Person, Token

# A return is asked for


@dataclass(frozen=True)
class Asked:
    """What a channel sends, under keys of its own."""

    order: Order
    number: int


def _customer_writes(place: Place) -> Asked:
    return Asked(paid_order(place.stack, place.world, place.sandbox), place.number())


def _send(place: Place, token: Token, address: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = place.app.test_client(use_cookies=False).post(
        f"/api/v1/{address}", base_url=ORIGIN, json=body,
        headers={"Authorization": f"Bearer {token.text}", "Idempotency-Key": key},
    )  # fmt: skip
    if answer.status_code not in (200, 201):
        raise RuntimeError(f"{address} was answered with {answer.status_code}: {answer.text[:300]}")
    told: dict[str, Any] = answer.get_json()
    return told


def _ask_and_report(place: Place, _worker: Worker, asked: Asked) -> None:
    """The chat asks, the warehouse reports what came, each under the key it had before; Priya approves."""
    told = _send(
        place, place.world.chat, "returns", f"return-{asked.number}",
        {"order": asked.order.external_ref, "lines": [{"line": TEE, "quantity": 1}], "reason": "size",
         "conversation": {"reference": f"chat-{asked.number}", "customer_verified": "signed_in"}},
    )  # fmt: skip
    _send(
        place, place.world.warehouse, "receipts", f"receipt-{asked.number}",
        {"case": told["case"], "lines": [{"line": TEE, "received": 1, "grades": [{"grade": "A", "units": 1}]}]},
    )  # fmt: skip
    approve_what_waits(place)


def _ask_report_and_work(place: Place, worker: Worker, asked: Asked) -> None:
    _ask_and_report(place, worker, asked)
    place.work(worker)


def _at_the_counter(place: Place) -> Form:
    """Tobias has the order on his screen, and one T-shirt typed."""
    order = paid_order(place.stack, place.world, place.sandbox)
    page = place.browser(place.world.tobias).get(f"/{place.world.slug}/counter/orders/{order.order_id}")
    form = page.form(f"/counter/orders/{order.order_id}")
    form.values |= {"quantity_1": "1", "reason": "size"}
    return form


def _open_and_take_in(place: Place, _worker: Worker, form: Form) -> None:
    """The form is sent, the goods lie on the counter and are booked in, and Priya approves."""
    press(place, place.world.tobias, form)
    for row in place.as_administrator("SELECT case_id FROM cases WHERE received = 0"):
        lives.arrive(place.stack, place.world, row["case_id"], (TEE, 1))
    approve_what_waits(place)


def _open_take_in_and_work(place: Place, worker: Worker, form: Form) -> None:
    _open_and_take_in(place, worker, form)
    place.work(worker)


def _one_case(place: Place) -> list[str]:
    """Whatever was sent twice opened one case."""
    cases = place.as_administrator("SELECT number FROM cases")
    return [] if len(cases) <= 1 else [f"{len(cases)} cases were opened for one request"]


# A case ends without its money, or with a part of it


def _pressing(who: str) -> tuple[Any, Any]:
    """What a person does under the knife, and what they do after the restart."""

    def again(place: Place, _worker: Worker, form: Form) -> None:
        press(place, _person(place, who), form)

    def act(place: Place, worker: Worker, form: Form) -> None:
        again(place, worker, form)
        place.work(worker)

    return act, again


def _person(place: Place, who: str) -> Person:
    person: Person = getattr(place.world, who)
    return person


def _to_reject(place: Place) -> Form:
    """Approved and due in a while; then Jonas has the sheet open that rejects the case."""
    one = approved_one(place, window=3000)
    page = place.browser(place.world.jonas).get(f"/{place.world.slug}/cases/{one.case_id}/rejection")
    form = page.form("/rejection")
    form.values["reason"] = "not_returned"
    return form


def _rest_not_coming(place: Place) -> Form:
    """Two T-shirts were announced, one came and is paid; Jonas has the case open with its button to close it."""
    order = paid_order(place.stack, place.world, place.sandbox)
    opened = lives.open_case(place.stack, place.world, ((TEE, 2),), order_ref=order.external_ref)
    lives.arrive(place.stack, place.world, opened.case_id, (TEE, 1))
    approve_what_waits(place)
    with place.worker() as worker:
        place.work(worker)
    page = place.browser(place.world.jonas).get(f"/{place.world.slug}/cases/{opened.case_id}")
    return page.form("/closing")


def _not_to_be_paid_by_hand(place: Place) -> Form:
    """A gift card's refund is approved, and Tobias has its page open: the card does not exist any more."""
    one = gift_card(place)
    page = place.browser(place.world.tobias).get(f"/{place.world.slug}/by-hand/{one.intent_id}")
    form = page.form("/failure")
    form.values["reason"] = "the card was handed in"
    return form


# Somebody leaves


def _approver_leaves(place: Place) -> tuple[Form, Proposed]:
    """Priya approved what is due in a while, Ada has the page of people open, and Mara is signed in."""
    one = approved_one(place, window=3000)
    place.browser(place.world.mara)
    page = place.browser(place.world.ada).get(f"/{place.world.slug}/people")
    return page.form(f"/{place.world.priya.staff_id}/leave"), one


def _leaves_and_others_go_on(place: Place, worker: Worker, staged: tuple[Form, Proposed]) -> None:
    _leaves(place, worker, staged)
    place.work(worker)


def _leaves(place: Place, _worker: Worker, staged: tuple[Form, Proposed]) -> None:
    """What Priya approved waits; Mara asks for it anew at the case, and Jonas approves that."""
    form, one = staged
    press(place, place.world.ada, form)
    if place.as_administrator("SELECT 1 FROM intents WHERE state = 'held' AND state_reason = 'left'"):
        page = place.browser(place.world.mara).get(f"/{place.world.slug}/cases/{one.case_id}")
        press(place, place.world.mara, page.form("/entitlements"))
    for row in place.as_administrator("SELECT intent_id FROM intents WHERE state = 'proposed' ORDER BY number"):
        lives.approve_as(place.stack, place.world, place.world.jonas, row["intent_id"])


# The books


def _to_be_resolved(place: Place) -> Form:
    """The provider showed another amount than the books had, for as long as they were compared; Farah has that open with her
    answer written, and a return beside it waits for its approval."""
    approved_one(place)
    with place.worker() as worker:
        place.work(worker)
    _an_hour_ago(place)
    compare_the_books(place)
    _at_provider(place, "UPDATE refunds SET amount = amount + 7")
    with place.worker() as worker:
        place.work(worker)
    _at_provider(place, "UPDATE refunds SET amount = amount - 7")
    proposed(place.stack, place.world, place.sandbox)
    (found,) = place.as_administrator("SELECT discrepancy_id AS id FROM discrepancies")
    page = place.browser(place.world.farah).get(f"/{place.world.slug}/reconciliation/discrepancies/{found['id']}")
    form = page.form("/resolution")
    form.values |= {"code": "provider_error", "reason": "their list was wrong for an hour"}
    return form


def _an_hour_ago(place: Place) -> None:
    """On both sides: what was paid a moment ago is not compared yet."""
    for table in ("refunds", "balance_transactions"):
        _at_provider(place, f"UPDATE {table} SET created = created - 3600")  # noqa: S608
    place.as_administrator("UPDATE transfers SET at = at - interval '1 hour'")


def _at_provider(place: Place, statement: str) -> None:
    with sqlite3.connect(place.sandbox.db, timeout=10) as db:
        db.execute(statement)


def _resolve_and_pay(place: Place, worker: Worker, form: Form) -> None:
    """The resolution moves no money; the return beside it is approved and paid."""
    _resolve(place, worker, form)
    place.work(worker)


def _resolve(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.farah, form)
    approve_what_waits(place)


def _resolved_once(place: Place) -> list[str]:
    acts = place.as_administrator("SELECT 1 FROM discrepancy_acts WHERE kind = 'resolved'")
    return [] if len(acts) <= 1 else [f"one discrepancy was resolved {len(acts)} times"]


_REJECT, _REJECT_AGAIN = _pressing("jonas")
_BY_HAND, _BY_HAND_AGAIN = _pressing("tobias")
PATHS: tuple[Path, ...] = (
    Path("asked for and reported by the API, sent again", _customer_writes, _ask_report_and_work, _ask_and_report,
         check=_one_case, warm=True),
    Path("opened at the counter, pressed again", _at_the_counter, _open_take_in_and_work, _open_and_take_in, check=_one_case,
         warm=True),
    Path("a case is rejected, pressed again", _to_reject, _REJECT, _REJECT_AGAIN, owed=0, warm=True),
    Path("the rest is not coming, pressed again", _rest_not_coming, _REJECT, _REJECT_AGAIN, warm=True),
    Path("by hand it could not be paid, recorded again", _not_to_be_paid_by_hand, _BY_HAND, _BY_HAND_AGAIN, owed=0),
    Path("who approved it leaves, and it is approved anew", _approver_leaves, _leaves_and_others_go_on, _leaves, warm=True),
    Path("a discrepancy is resolved, pressed again", _to_be_resolved, _resolve_and_pay, _resolve, owed=2, check=_resolved_once,
         warm=True),
)  # fmt: skip
