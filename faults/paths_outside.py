"""Paths on which others act at the provider: the dashboard, the bank, the nightly comparison with what it lists."""

from datetime import UTC, datetime, timedelta
from typing import Any

from faults.path import Path, approve_what_waits, approved_one, hear, press
from faults.place import Place
from jobs import books, submitter
from jobs.worker import Worker
from ledger.database import transaction
from ledger.disputes import refund_anyway
from ledger.errors import LedgerError
from ledger.intents import cancel_before_send
from ledger.reconciliation_run import ask_run
from sandbox.ids import account_id
from tests.refunds import Proposed, proposed
from tests.web.pages import Form


def _some_of_it_in_the_dashboard(place: Place) -> Proposed:
    one = approved_one(place)
    place.sandbox.dashboard_refund(one.payment_intent, 2000)
    return one


def _all_of_it_in_the_dashboard(place: Place) -> Proposed:
    one = approved_one(place)
    place.sandbox.dashboard_refund(one.payment_intent)
    return one


# Finance answers for what was made outside, and the rest goes its way


def _found_outside(place: Place, answer: str) -> Form:
    """10.00 of a return's 24.90 went back in the dashboard, and Farah has its page open with her answer written."""
    one = proposed(place.stack, place.world, place.sandbox)
    made = place.sandbox.dashboard_refund(one.payment_intent, 1000)
    with place.worker() as worker:
        place.work(worker, hooks=True)
    page = place.browser(place.world.farah).get(f"/{place.world.slug}/external-refunds/{made['id']}")
    form = page.form(answer)
    form.values["reason"] = "told by the till"
    if answer == "/match":
        (case,) = place.as_administrator("SELECT number FROM cases WHERE case_id = %s", one.case_id)
        form.values["case"] = str(case["number"])
    return form


def _answer_and_pay(place: Place, worker: Worker, form: Form) -> None:
    _answer_again(place, worker, form)
    place.work(worker)


def _answer_again(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.farah, form)
    approve_what_waits(place)


# Whose account it is, and what its balance shows: read before anything is believed


def _expects_its_account(place: Place) -> Proposed:
    """The merchant was set up for the account that its key opens, and each process proves it."""
    place.as_administrator(
        "UPDATE provider_accounts SET expected_account_ref = %s", account_id(place.sandbox.secret_key)
    )
    return approved_one(place)


def _send(_place: Place, worker: Worker, _staged: Any) -> None:
    """The submitter alone; whatever it leaves is the jobs' afterwards."""
    submitter.run_once(worker)


def _turn_the_pages(_place: Place, worker: Worker, _staged: Any) -> None:
    """The books alone, page by page to the last."""
    books.run_once(worker)


# The bank


def _disputed(place: Place) -> str:
    one = approved_one(place)
    return str(place.sandbox.open_dispute(one.payment_intent)["id"])


def _hear_then_won(place: Place, worker: Worker, dispute: str) -> None:
    place.work(worker, hooks=True)
    place.sandbox.close_dispute(dispute, "won")
    place.work(worker, hooks=True)


def _hear_then_lost(place: Place, worker: Worker, dispute: str) -> None:
    place.work(worker, hooks=True)
    place.sandbox.close_dispute(dispute, "lost")
    place.work(worker, hooks=True)
    _call_back(place, worker, dispute)
    place.work(worker)


def _call_back(place: Place, _worker: Worker, _dispute: str) -> None:
    for row in place.as_administrator("SELECT intent_id FROM intents WHERE state IN ('approved', 'held')"):
        try:
            with transaction(place.stack.console, place.world.merchant_id) as db:
                cancel_before_send(db, place.world.merchant_id, row["intent_id"], place.world.mara.actor, "disputed")
        except LedgerError:
            continue


def _bank_asks(place: Place) -> str:
    one = approved_one(place)
    return str(place.sandbox.open_dispute(one.payment_intent, inquiry=True)["id"])


def _let_it_go(place: Place, _worker: Worker, dispute: str) -> None:
    """Farah rules that the refund goes although the bank asks."""
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            refund_anyway(
                db, place.world.merchant_id, dispute, place.world.farah.staff_id, "the customer has the goods"
            )
    except LedgerError:
        return


def _hear_then_let_go(place: Place, worker: Worker, dispute: str) -> None:
    place.work(worker, hooks=True)
    _let_it_go(place, worker, dispute)
    place.work(worker, hooks=True)


# The books beside the provider's


def compare_the_books(place: Place) -> None:
    """A run over all there is: the provider's clock is as far on as time was moved."""
    now = datetime.now(UTC)
    until = now + timedelta(seconds=place.moved_seconds, hours=1)
    with transaction(place.stack.worker, place.world.merchant_id) as db:
        ask_run(db, place.world.merchant_id, now - timedelta(days=2), until, "command")


def _paid_and_to_be_compared(place: Place) -> None:
    """One paid, one given back in the dashboard, and a run over the whole of it is asked for."""
    paid = approved_one(place)
    place.sandbox.dashboard_refund(paid.payment_intent, 1500)
    with place.worker() as worker:
        place.work(worker)
        place.time_passes(3600)
    compare_the_books(place)


def _sent_back_and_not_told(place: Place) -> None:
    """Paid; weeks later the bank sends it back, no hook is heard, and the books are to be compared."""
    one = approved_one(place)
    with place.worker() as worker:
        place.work(worker)
    (refund,) = place.sandbox.money(one.payment_intent)["refunds"]
    place.sandbox.change_refund(refund["id"], "failed", "lost_or_stolen_card")
    compare_the_books(place)


def _compare(place: Place, worker: Worker, _staged: Any) -> None:
    """Nothing but the comparison tells of it."""
    place.work(worker)


PATHS: tuple[Path, ...] = (
    Path("some of it is given back in the dashboard", _some_of_it_in_the_dashboard, hear),
    Path("all of it is given back in the dashboard", _all_of_it_in_the_dashboard, hear, owed=0),
    Path("a dashboard refund is matched to its case, the rest is paid", lambda place: _found_outside(place, "/match"),
         _answer_and_pay, _answer_again),
    Path("a dashboard refund was for none of the goods", lambda place: _found_outside(place, "/unrelated"),
         _answer_and_pay, _answer_again),
    Path("disputed before it leaves, then won", _disputed, _hear_then_won),
    Path("disputed before it leaves, then lost", _disputed, _hear_then_lost, _call_back, owed=0),
    Path("the bank asks, and finance lets it go", _bank_asks, _hear_then_let_go, _let_it_go),
    Path("the books are compared with the provider's", _paid_and_to_be_compared, hear),
    Path("the key is proven before it is used", _expects_its_account, _send, call=("GET", "/v1/account"),
         wrong={"id": "acct_1Another"}),
    Path("the disputes are read before it leaves", approved_one, _send, call=("GET", "/v1/disputes"),
         wrong={"data": [{"object": "dispute"}]}),
    Path("the books are compared with the provider's balance", _paid_and_to_be_compared, _turn_the_pages,
         call=("GET", "/v1/balance_transactions"), wrong={"has_more": None}),
    Path("the books find what the bank sent back", _sent_back_and_not_told, _compare, owed=0),
)  # fmt: skip
