"""A return at the counter: the same request joins, what is gone explains itself, what is unclear is asked (DESIGN §2, P18)."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests import lives
from tests.web.desk import Desk
from tests.web.pages import Browser, Form, Page
from tests.world import build_world


def at_order(desk: Desk) -> tuple[Browser, Form]:
    priya = desk.at(desk.world.priya)
    return priya, priya.get(desk.url(f"/counter/orders/{desk.world.order.order_id}")).form("/counter/orders/")


def test_priya_finds_the_order_and_opens_a_return(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    for text in ("A-20417", "ilse.harbour@example.org", "ILSE.harbour@EXAMPLE.org"):
        page = priya.get(desk.url("/counter/"), query_string={"q": text})
        assert "Ilse Brandt" in page.text
    page = priya.get(next(link for link in page.links if "/counter/orders/" in link))
    assert "T-shirt, medium" in page.text
    page = priya.submit(page.form("/counter/orders/"), quantity_1="2", reason="faulty", note="the seam came open")
    assert "Case C-20001 is open." in page.text
    assert "the seam came open" in page.text
    case = desk.rows("SELECT channel, opened_by, reason, announced FROM cases WHERE merchant_id = :m")[0]
    assert case == {"channel": "counter", "opened_by": desk.world.priya.actor, "reason": "faulty", "announced": 2}


def test_nothing_is_found_for_a_part_of_a_number_or_another_shops_order(desk: Desk) -> None:
    build_world(desk.stack, "northwind")
    priya = desk.at(desk.world.priya)
    for text in ("A-2041", "%", "ilse.northwind@example.org"):
        assert "No order matches." in priya.get(desk.url("/counter/"), query_string={"q": text}).text


def test_a_double_click_opens_one_case_and_both_land_on_it(desk: Desk) -> None:
    priya, form = at_order(desk)
    form.values |= {"quantity_1": "1", "reason": "size"}
    raced = lives.race(*[lambda: twin(desk, priya, form)] * 2)
    assert raced.refusals == []
    assert {status for status, _ in raced.results} == {303}
    assert len({where for _, where in raced.results}) == 1
    assert desk.count("cases") == 1
    assert desk.count("evidence") == 1


def twin(desk: Desk, priya: Browser, form: Form) -> tuple[int, str]:
    """Another request of the same browser, with its cookies."""
    other = desk.open_browser()
    cookie = priya.cookie("__Host-onceback")
    other.client.set_cookie("__Host-onceback", cookie or "", domain="console.example", secure=True)
    answer = other.send(form)
    return answer.status_code, answer.headers["Location"]


def test_a_conversation_without_a_reference_gets_a_short_one_of_its_own(desk: Desk) -> None:
    for units in ("1", "2"):
        priya, form = at_order(desk)
        priya.submit(form, quantity_1=units, reason="size", answer="separate")
    found = [
        row["reference"] for row in desk.rows("SELECT reference FROM conversations WHERE merchant_id = :m ORDER BY at")
    ]
    assert [bool(re.fullmatch(r"counter-[A-Z2-7]{4}-[A-Z2-7]{4}", one)) for one in found] == [True, True]
    assert len(set(found)) == 2
    assert found[1] in desk.at(desk.world.priya).shown.text


def test_going_back_and_changing_the_form_opens_nothing_more(desk: Desk) -> None:
    priya, form = at_order(desk)
    priya.submit(form, quantity_1="1", reason="size")
    page = priya.submit(form, quantity_1="3", reason="faulty")
    assert "This form had opened case C-20001 already." in page.text
    assert "was not taken" in page.text
    assert desk.count("cases") == 1


def test_what_the_chat_has_opened_is_joined(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 3),))
    priya, form = at_order(desk)
    assert f"C-{opened.number}" in priya.shown.text
    page = priya.submit(form, quantity_1="2", reason="size")
    assert f"This joined case C-{opened.number}." in page.text
    assert desk.count("cases") == 1
    assert [row["channel"] for row in desk.rows("SELECT channel FROM conversations WHERE merchant_id = :m ORDER BY at")] == [
        "chat", "counter",
    ]  # fmt: skip


def asked(desk: Desk) -> Page:
    """One of three is in the chat's case; the counter asks for one more."""
    lives.open_case(desk.stack, desk.world, (("TEE", 1),))
    priya, form = at_order(desk)
    return priya.submit(form, status=409, quantity_1="1", reason="faulty", note="another one")


def test_units_left_beside_an_open_case_are_asked_about_and_nothing_typed_is_lost(desk: Desk) -> None:
    page = asked(desk)
    assert "2 of 3 units are left." in page.text
    assert "Ask the customer: is this the request we already have, or a separate item?" in page.text
    assert "C-20001" in page.text
    assert desk.count("cases") == 1
    page = desk.at(desk.world.priya).submit(page.form("/counter/orders/"), status=409)
    assert "Choose what the customer said" in page.text
    assert page.title.startswith("Error:")
    page = desk.at(desk.world.priya).submit(page.form("/counter/orders/"), answer="separate")
    assert "Case C-20002 is open." in page.text
    assert "another one" in page.text
    cases = desk.rows("SELECT separate, reason FROM cases WHERE merchant_id = :m ORDER BY number")
    assert cases[1] == {"separate": True, "reason": "faulty"}


def test_the_existing_request_is_joined_when_the_customer_says_so(desk: Desk) -> None:
    page = asked(desk)
    page = desk.at(desk.world.priya).submit(page.form("/counter/orders/"), answer="existing")
    assert "This joined case C-20001." in page.text
    assert desk.count("cases") == 1


def test_a_unit_that_was_paid_is_asked_about_as_refunded_and_not_as_opened(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world, (("TEE", 1),))
    desk.pay(intent["intent_id"])
    priya, form = at_order(desk)
    page = priya.submit(form, status=409, quantity_1="1", reason="size")
    assert "C-20001, refunded" in page.text
    assert "C-20001, opened" not in page.text


def test_a_refused_second_attempt_says_what_was_paid_when_to_whom_and_by_whom(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world, (("LAMP", 1),))
    desk.pay(intent["intent_id"])
    priya, form = at_order(desk)
    page = priya.submit(form, status=409, quantity_2="1", reason="size")
    for fact in ("Already refunded.", "Unit 1 of this line was refunded on", "58.00 GBP to Visa ending 4242", "through Chat",
                 "by Priya Raman", f"reference R-{intent['number']}"):  # fmt: skip
        assert fact in page.text, fact
    assert desk.count("cases") == 1


def test_more_than_is_left_is_said_beside_the_line(desk: Desk) -> None:
    priya, form = at_order(desk)
    page = priya.submit(form, status=409, quantity_1="4", reason="size")
    assert "only 3 of 3 left" in page.text
    assert page.title.startswith("Error:")
    assert page.form("/counter/orders/").values["quantity_1"] == "4"
    assert desk.count("cases") == 0


def test_a_form_without_units_reason_or_a_number_says_so(desk: Desk) -> None:
    priya, form = at_order(desk)
    assert "Say how many units of at least one line come back." in priya.submit(form, status=422, reason="size").text
    assert "Choose the reason the customer gives" in priya.submit(form, status=422, quantity_1="1").text
    assert "write a whole number" in priya.submit(form, status=422, quantity_1="one", reason="size").text
    assert desk.count("cases") == 0


def test_a_card_number_that_the_customer_reads_out_is_not_kept(desk: Desk) -> None:
    priya, form = at_order(desk)
    page = priya.submit(form, quantity_1="1", reason="size", note="my card 4242 4242 4242 4242")
    assert "4242 4242 4242 4242" not in page.html
    assert "[card number ending 4242]" in page.text


def test_what_was_said_on_an_earlier_day_counts_from_that_day(desk: Desk) -> None:
    priya, form = at_order(desk)
    day = datetime.now(ZoneInfo("Europe/London")).date() - timedelta(days=3)
    page = priya.submit(form, quantity_1="1", reason="size", said_on=day.isoformat())
    assert "Case C-20001 is open." in page.text
    (row,) = desk.rows("SELECT (stated_at AT TIME ZONE 'Europe/London')::date AS day FROM cases WHERE merchant_id = :m")
    assert row["day"] == day


@pytest.mark.parametrize(
    ("day", "says"),
    [
        ("yesterday", "Write the day as year, month and day"),
        ("2199-01-01", "The customer said it today or before"),
        ("2001-01-01", "The customer said it after the order was placed"),
    ],
)
def test_a_day_that_is_none_or_cannot_be_is_said_at_its_field_and_nothing_is_opened(
    desk: Desk, day: str, says: str
) -> None:
    priya, form = at_order(desk)
    page = priya.submit(form, 422, quantity_1="1", reason="size", said_on=day)
    assert says in page.text
    assert desk.count("cases") == 0
