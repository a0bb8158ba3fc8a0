"""“I was charged twice”, at the counter and on the case page. The web process only asks; what is read here comes from rows."""

from uuid import UUID

import pytest

from ledger.charge_facts import ShownCharge
from ledger.charge_readings import record_reading, take_readings
from ledger.database import transaction
from ledger.ids import uuid7
from tests import lives
from tests.charges import LAMP_58_40
from tests.orders import Order
from tests.refunds import as_administrator
from tests.web.desk import Desk, pay_due
from tests.web.pages import Form, Page
from tests.world import add_order


@pytest.fixture
def order(desk: Desk) -> Order:
    """58.40, charged twice."""
    made = add_order(desk.stack, desk.world, "2841", lines=(LAMP_58_40,), captured={"card": 5840, "wallet": 5840})
    as_administrator(
        desk.stack, "UPDATE captures SET tender = 'card', captured_at = captured_at + interval '1 minute' WHERE capture_id = %s",
        made.captures["wallet"],
    )  # fmt: skip
    return made


def form_of(desk: Desk, order: Order) -> Form:
    page = desk.at(desk.world.priya).get(desk.url(f"/counter/orders/{order.order_id}"))
    (link,) = [link for link in page.links if link.endswith("/charges")]
    return desk.at(desk.world.priya).get(link).form("/charges")


def opened(desk: Desk, order: Order) -> Page:
    return desk.at(desk.world.priya).submit(form_of(desk, order), note="I was charged twice for order 2841")


def read(desk: Desk, order: Order, *unread: str) -> UUID:
    """The worker reads what the provider shows: both charges as the books have them."""
    shown = [
        ShownCharge(f"ch_2841_{name}", f"pi_2841_{name}", "", "GBP", 5840, 0, "2026-10-12T09:30:00Z")
        for name in order.captures
    ]
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        (reading,) = take_readings(db, desk.world.merchant_id, 5)
        record_reading(db, desk.world.merchant_id, reading, [] if unread else shown, unread)
    return UUID(str(reading["case_id"]))


def test_priya_opens_it_and_the_page_says_that_the_charges_are_read(desk: Desk, order: Order) -> None:
    page = opened(desk, order)

    assert "Case C-20001 is open." in page.text
    assert "Reading the charges at the provider…" in page.text
    assert "I was charged twice for order 2841" in page.text
    assert "Check and approve" not in page.text
    case = desk.rows("SELECT kind, stage, channel, opened_by FROM cases WHERE merchant_id = :m")[0]
    assert case == {
        "kind": "duplicate_charge", "stage": "reading", "channel": "counter", "opened_by": desk.world.priya.actor,
    }  # fmt: skip


def test_a_second_click_and_a_second_clerk_land_on_the_first_case(desk: Desk, order: Order) -> None:
    form = form_of(desk, order)
    priya = desk.at(desk.world.priya)
    priya.submit(form, note="twice")

    assert "Your second click changed nothing." in priya.submit(form, note="twice").text
    tobias = desk.at(desk.world.tobias)
    theirs = tobias.get(desk.url(f"/counter/orders/{order.order_id}/charges")).form("/charges")
    assert "This joined case C-20001." in tobias.submit(theirs, note="charged two times").text
    assert desk.count("cases") == 1


def test_a_verified_one_shows_its_figures_and_a_manager_approves_it(desk: Desk, order: Order) -> None:
    opened(desk, order)
    case_id = read(desk, order)

    page = desk.at(desk.world.jonas).get(desk.case(case_id))
    assert "Charged twice" in page.text
    assert "goes back" in page.text
    for figure in ("116.80", "−58.40", "58.40"):
        assert figure in page.text
    assert "Paying the second charge of 58.40 GBP back to your" in page.text
    assert "added up again by the checker" in page.text
    assert "Charged a second time: what is left of that payment" in page.text
    assert "0 of 0" not in desk.at(desk.world.jonas).get(desk.url("/queue/")).text
    (intent,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m")
    confirm = desk.confirm(desk.world.jonas, intent["intent_id"])
    answer = desk.at(desk.world.jonas).submit(confirm)
    assert "58.40" in answer.text
    assert "no units of this order" in answer.text
    assert desk.state(intent["intent_id"]) == "approved"


def test_a_finding_that_is_read_again_while_its_sheet_is_open_is_not_approved_and_says_so(
    desk: Desk, order: Order
) -> None:
    opened(desk, order)
    case_id = read(desk, order)
    (intent,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m")
    confirm = desk.confirm(desk.world.jonas, intent["intent_id"])
    as_administrator(
        desk.stack, "INSERT INTO charge_readings (merchant_id, reading_id, case_id, asked_by) VALUES (%s, %s, %s, 'system')",
        desk.world.merchant_id, uuid7(), case_id,
    )  # fmt: skip
    answer = desk.at(desk.world.jonas).submit(confirm, status=409)
    assert "Not approved. The charges are being read again." in answer.text
    assert desk.state(intent["intent_id"]) == "proposed"


def test_one_that_is_none_says_why_and_what_the_customer_is_told(desk: Desk, order: Order) -> None:
    as_administrator(
        desk.stack, "UPDATE captures SET captured_minor = 0, available_minor = 0, held_minor = 5840 WHERE capture_id = %s",
        order.captures["wallet"],
    )  # fmt: skip
    opened(desk, order)
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        (reading,) = take_readings(db, desk.world.merchant_id, 5)
        shown = [
            ShownCharge(f"ch_2841_{name}", f"pi_2841_{name}", "", "GBP", minor, 0, "2026-10-12T09:30:00Z")
            for name, minor in (("card", 5840), ("wallet", 0))
        ]
        record_reading(db, desk.world.merchant_id, reading, shown, ())

    page = desk.at(desk.world.priya).get(desk.case(reading["case_id"]))
    assert "Not charged twice" in page.text
    assert "is only reserved by your bank and was not taken" in page.text
    assert "58.40 GBP only held" in page.text
    (link,) = [link for link in page.links if link.endswith("/rejection")]
    page = desk.at(desk.world.priya).get(link)
    desk.at(desk.world.priya).submit(page.form("/rejection"), reason="no_duplicate_charge")
    assert desk.rows("SELECT stage FROM cases WHERE merchant_id = :m") == [{"stage": "rejected"}]


def test_one_for_a_person_is_read_again_when_somebody_asks(desk: Desk, order: Order) -> None:
    opened(desk, order)
    case_id = read(desk, order, "no_answer")
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(case_id))
    assert "could not be read to the end: the provider did not answer." in page.text

    page = priya.submit(page.form(f"/cases/{case_id}/charges"))
    assert "The charges are read again." in page.text
    assert "Reading the charges at the provider…" in page.text
    assert desk.count("charge_readings") == 2


@pytest.mark.parametrize(
    ("code", "why", "what_to_do"),
    [
        ("not_recorded", "after five tries it was given up.", "tell the engineers: the worker's log says"),
        ("refund_lost", "a refund of ours that the books do not have.", "Engineers run `flask recover` first"),
        ("no_credential", "there is no key for this account.", "Engineers put the key right first"),
        ("api_error", "the provider answered api_error.", "Next: Read the charges again."),
    ],
)
def test_a_reading_that_was_given_up_says_why_and_what_to_do(
    desk: Desk, order: Order, code: str, why: str, what_to_do: str
) -> None:
    opened(desk, order)
    page = desk.at(desk.world.priya).get(desk.case(read(desk, order, code)))
    assert "could not be read to the end: " in page.text
    assert why in page.text
    assert what_to_do in page.text
    assert "not_recorded" not in page.text


def test_the_order_at_the_counter_shows_its_case_about_charges_and_calls_it_no_return(desk: Desk, order: Order) -> None:
    priya, at = desk.at(desk.world.priya), desk.url(f"/counter/orders/{order.order_id}")
    assert "Charged twice? C-" not in priya.get(at).text
    opened(desk, order)
    page = priya.get(at)
    assert "Charged twice? C-20001 Reading charges" in page.text
    assert "A return is open" not in page.text

    lives.open_case(desk.stack, desk.world, (("LAMP", 1),), order_ref=order.external_ref)
    page = priya.get(at)
    assert "A return is open on this order: C-20002" in page.text
    assert "Charged twice? C-20001" in page.text


def test_a_charge_that_was_paid_back_is_not_asked_for_again(desk: Desk, order: Order) -> None:
    opened(desk, order)
    read(desk, order)
    (intent,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m")
    lives.approve_as(desk.stack, desk.world, desk.world.jonas, intent["intent_id"])
    pay_due(desk.stack, desk.world)
    page = desk.at(desk.world.priya).submit(form_of(desk, order), 409, note="again")
    assert "one of the charges of this order was paid back" in page.text
    assert "58.40 GBP in case C-20001" in page.text
    assert desk.count("cases") == 1
