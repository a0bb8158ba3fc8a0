"""Paths of the forms of payment: authorised money, platforms and their sellers, split payments, what is paid back by hand."""

from typing import Any
from uuid import UUID

import requests

from faults.path import Path, approve_what_waits, desk_of, hear, press
from faults.place import Place
from jobs.worker import Worker
from ledger.assessment import work_out_again
from ledger.by_hand import Recorded, record
from ledger.database import transaction
from ledger.errors import LedgerError
from tests import lives
from tests.cases.platform import SELLER, balance_of, on_platform, paid_direct, paid_to_seller
from tests.cases.sale import Refund, Sale
from tests.orders import LAMP, TEE, Line
from tests.refunds import Proposed
from tests.web.pages import Form
from tests.world import add_order

CANCELS = ("POST", "/v1/payment_intents/")


# Money that was only authorised


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


def _held(place: Place) -> tuple[Sale, Refund]:
    """The same, as the shop's own import states it."""
    desk = desk_of(place)
    sale = desk.sold(58_00, payments=[desk.held(58_00)])
    return sale, desk.approved(sale, ("L1", 1))


def _captured_elsewhere(place: Place) -> tuple[Sale, Refund]:
    """Approved to be let go; then the shop captures the payment itself."""
    sale, one = _held(place)
    desk_of(place).at_provider(f"payment_intents/{sale.payment.payment_intent}/capture")
    return sale, one


def _refund_instead(place: Place, worker: Worker, _staged: Any) -> None:
    place.work(worker, hooks=True)
    _approve_instead(place, worker, _staged)
    place.work(worker)


def _approve_instead(place: Place, worker: Worker, _staged: Any) -> None:
    """What the jobs find out after the restart is what Priya then approves."""
    place.work(worker, hooks=True)
    approve_what_waits(place)


def _lapsed(place: Place) -> tuple[Sale, Refund]:
    """Nobody approved it in time: a week later the bank let the money go."""
    desk = desk_of(place)
    sale = desk.sold(58_00, payments=[desk.held(58_00)])
    one = desk.owed(sale, ("L1", 1))
    place.sandbox.advance(8 * 24 * 3600)
    return sale, one


def _captured_in_parts(place: Place) -> Refund:
    """60.00 of 100.00 were taken and more may come; 40.00 of it goes back meanwhile."""
    desk = desk_of(place)
    held = desk.held(100_00)
    sale = desk.sold(40_00, 60_00, payments=[held])
    desk.at_provider(f"payment_intents/{held.payment_intent}/capture", amount_to_capture=60_00, final_capture="false")
    with place.worker() as worker:
        place.work(worker, hooks=True)
    return desk.approved(sale, ("L1", 1))


# Platforms


def _direct(place: Place) -> Refund:
    desk = desk_of(place)
    on_platform(desk, "direct", SELLER)
    return desk.approved(desk.sold(40_00, payments=[paid_direct(desk, 40_00)]), ("L1", 1))


def _on_the_sellers_account(place: Place) -> list[str]:
    accounts = {call["account"] for call in place.sandbox.requests(method="POST", path="/v1/refunds")}
    return [f"a refund was asked for on {account}" for account in accounts - {SELLER}]


def _destination(place: Place) -> Refund:
    """100.00 with a fee of 10.00, of which the policy takes along transfer and fee; half of it comes back."""
    desk = desk_of(place)
    on_platform(desk, "destination", reverse_transfer=True, refund_application_fee=True)
    sale = desk.sold(50_00, 50_00, payments=[paid_to_seller(desk, 100_00, fee=10_00)])
    return desk.approved(sale, ("L1", 1))


def _seller_gave_back_once(place: Place) -> list[str]:
    """The seller got 90.00, and gives back half of that and once."""
    (payment,) = place.sandbox.all_money()["payments"]
    paid = sum(one["status"] in ("succeeded", "pending", "requires_action") for one in payment["refunds"])
    owns = balance_of(desk_of(place), SELLER)
    least = 90_00 - 45_00 * min(1, len(payment["refunds"]))
    right = owns >= least and (paid == 0 or owns == 45_00)
    return [] if right else [f"the seller owns {owns} after {paid} refunds"]


def _seller_without_funds(place: Place) -> Refund:
    desk = desk_of(place)
    on_platform(desk, "destination", reverse_transfer=True)
    one = desk.approved(desk.sold(40_00, payments=[paid_to_seller(desk, 40_00)]), ("L1", 1))
    place.sandbox.pay_out(SELLER, 35_00)
    return one


def _refused_then_funded(place: Place, worker: Worker, one: Refund) -> None:
    place.work(worker)
    _funded(place, worker, one)
    place.work(worker)


def _funded(place: Place, _worker: Worker, one: Refund) -> None:
    """The seller has money again; Tobias asks for what is owed, and Priya approves it."""
    desk = desk_of(place)
    if balance_of(desk, SELLER) < 35_00:
        paid_to_seller(desk, 35_00)
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            work_out_again(db, place.world.merchant_id, one.case_id, place.world.tobias.actor)
    except LedgerError:
        pass
    approve_what_waits(place)


# Several payments of one order


def _split(place: Place) -> Form:
    """Paid by two cards; Priya has the one sheet open that approves both."""
    desk = desk_of(place)
    sale = desk.sold(130_00, payments=desk.paid(80_00, 50_00))
    case_id = desk.returned(sale, ("L1", 1))
    return place.browser(place.world.priya).get(f"/{place.world.slug}/cases/{case_id}/approval").form("/approval")


def _split_with_gift_card(place: Place) -> Form:
    """Paid by card and gift card: one of the two is paid back by hand."""
    order = add_order(
        place.stack, place.world, f"H-{place.number()}", captured={"card": 4760, "gift_card": 9000},
        by_hand=frozenset({"gift_card"}),
    )  # fmt: skip
    made = place.sandbox.create_payment(4760, "gbp")
    place.as_administrator(
        "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s WHERE capture_id = %s", made["payment_intent"],
        made["charge"], order.captures["card"],
    )  # fmt: skip
    row = lives.propose(place.stack, place.world, ((TEE, 3), (LAMP, 1)), order=order, reference=order.external_ref)
    page = place.browser(place.world.priya).get(f"/{place.world.slug}/cases/{row['case_id']}/approval")
    return page.form("/approval")


def _press(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)


def _press_then_work(place: Place, worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)
    place.work(worker)


def _press_and_pay_by_hand(place: Place, worker: Worker, form: Form) -> None:
    _press_and_say(place, worker, form)
    place.work(worker)


def _press_and_say(place: Place, worker: Worker, form: Form) -> None:
    press(place, place.world.priya, form)
    for row in place.as_administrator("SELECT intent_id FROM intents WHERE act = 'manual'"):
        say_it_was_paid(place, row["intent_id"])


# What no provider holds


def gift_card(place: Place) -> Proposed:
    """All of an order paid by gift card comes back, and its refund is approved."""
    order = add_order(
        place.stack, place.world, f"G-{place.number()}", captured={"gift_card": 13760}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    row = lives.propose(place.stack, place.world, ((TEE, 3), (LAMP, 1)), order=order, reference=order.external_ref)
    lives.approve_as(place.stack, place.world, place.world.priya, row["intent_id"])
    return Proposed(
        row["case_id"], row["intent_id"], "", "", row["amount_minor"], row["currency"], row["provider_key"], order
    )  # fmt: skip


def _to_pay_by_hand(place: Place) -> Form:
    """A gift card's refund is approved, and Tobias has its page open with the reference written."""
    one = gift_card(place)
    page = place.browser(place.world.tobias).get(f"/{place.world.slug}/by-hand/{one.intent_id}")
    form = page.form("/settlement")
    form.values["reference"] = f"GC-{place.number()}"
    return form


def _record(place: Place, _worker: Worker, form: Form) -> None:
    press(place, place.world.tobias, form)


def _record_then_work(place: Place, worker: Worker, form: Form) -> None:
    _record(place, worker, form)
    place.work(worker)


def say_it_was_paid(place: Place, intent_id: UUID) -> None:
    """Jonas records by the ordinary command that he paid it at the till."""
    try:
        with transaction(place.stack.console, place.world.merchant_id) as db:
            record(db, place.world.merchant_id, intent_id, place.world.jonas.staff_id, Recorded("till 4, slip 7", ""))
    except LedgerError:
        return


def _say_it(place: Place, _worker: Worker, one: Proposed) -> None:
    say_it_was_paid(place, one.intent_id)


def _say_it_then_work(place: Place, worker: Worker, one: Proposed) -> None:
    say_it_was_paid(place, one.intent_id)
    place.work(worker)


PATHS: tuple[Path, ...] = (
    Path("an uncaptured payment is canceled", _uncaptured, owed=0, call=CANCELS),
    Path("only authorised: let go, not refunded", _held, owed=0, call=("GET", "/v1/payment_intents/")),
    Path("captured elsewhere: refunded instead", _captured_elsewhere, _refund_instead, _approve_instead),
    Path(
        "an authorisation lapses before anybody approves", _lapsed, hear, owed=0, call=("GET", "/v1/payment_intents/")
    ),
    Path("captured in parts, and some of it goes back", _captured_in_parts, warm=True),
    Path("a direct charge, on the seller's account", _direct, check=_on_the_sellers_account, warm=True),
    Path("a destination charge, with its transfer and fee", _destination, check=_seller_gave_back_once, warm=True),
    Path("a seller without funds, then funded", _seller_without_funds, _refused_then_funded, _funded, warm=True),
    Path("two payments approved together, pressed again", _split, _press_then_work, _press, owed=2, warm=True),
    Path(
        "card and gift card approved together, one by hand",
        _split_with_gift_card,
        _press_and_pay_by_hand,
        _press_and_say,
        warm=True,
    ),
    Path("a gift card is paid back by hand, recorded again", _to_pay_by_hand, _record_then_work, _record, owed=0),
    Path("a gift card is paid back by hand, said again", gift_card, _say_it_then_work, _say_it, owed=0),
)
