"""Goods that belong to no return: put aside, matched or opened or closed by a person, once; what does not fit is said."""

import pytest

from ledger.cases import reject
from ledger.database import transaction
from ledger.unmatched_receipts import keep_unmatched
from tests import lives
from tests.database.test_receipts import report
from tests.stack import Stack
from tests.web.desk import Desk
from tests.web.pages import Page
from tests.world import World, add_order, build_world


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


def aside(stack: Stack, world: World, count: int = 1, order_ref: str = "A-20417", line: str = "TEE") -> int:
    with transaction(stack.console, world.merchant_id) as db:
        return keep_unmatched(db, world.merchant_id, report(world, line, count, order_ref))


def receipt_id(desk: Desk, number: int) -> str:
    (found,) = desk.rows("SELECT receipt_id FROM unmatched_receipts WHERE merchant_id = :m AND number = :n", n=number)
    return str(found["receipt_id"])


def received(desk: Desk) -> int:
    found = desk.rows(
        "SELECT coalesce(sum(count), 0)::int AS n FROM evidence WHERE merchant_id = :m AND kind = 'received'"
    )
    return int(found[0]["n"])


def match_page(desk: Desk, number: int, case_id: object) -> Page:
    return desk.at(desk.world.tobias).get(desk.url(f"/receipts/{receipt_id(desk, number)}/cases/{case_id}"))


def test_goods_of_an_unknown_order_wait_on_the_desk_and_beside_its_name(desk: Desk) -> None:
    number = aside(desk.stack, desk.world, 2, "A-404")
    page = desk.at(desk.world.tobias).get(desk.url("/receipts/"))
    assert f"P-{number}" in page.text
    assert "2 of TEE" in page.text
    assert "A-404" in page.text
    assert "No open return has that reference" in page.text


def test_matched_goods_are_booked_in_with_their_grade_and_make_a_refund_due(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    number = aside(desk.stack, desk.world)
    tobias = desk.at(desk.world.tobias)
    page = tobias.get(desk.url(f"/receipts/{receipt_id(desk, number)}"))
    assert any(link.endswith(f"/cases/{opened.case_id}") for link in page.links)
    form = match_page(desk, number, opened.case_id).form("/cases/")
    assert form.values["count_1"] == "1"
    assert "The goods are booked in on this case." in tobias.submit(form).text
    assert received(desk) == 1
    assert lives.intents(desk.stack, desk.world, opened.case_id)[-1]["amount_minor"] == 2490
    assert f"P-{number}" not in tobias.get(desk.url("/receipts/")).text.partition("Answered")[0]


def test_the_same_form_twice_and_a_colleague_land_on_the_first_answer(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    number = aside(desk.stack, desk.world)
    form = match_page(desk, number, opened.case_id).form("/cases/")
    jonas = desk.at(desk.world.jonas)
    theirs = jonas.get(desk.url(f"/receipts/{receipt_id(desk, number)}/cases/{opened.case_id}")).form("/cases/")
    desk.at(desk.world.tobias).submit(form)
    assert "Tobias Renk put these goods on this case before." in desk.at(desk.world.tobias).submit(form).text
    assert "They are counted once." in jonas.submit(theirs).text
    assert received(desk) == 1


def test_another_case_after_that_is_refused_and_says_which_one_has_them(desk: Desk) -> None:
    first = lives.open_case(desk.stack, desk.world)
    other = add_order(desk.stack, desk.world, "A-2").external_ref
    second = lives.open_case(desk.stack, desk.world, order_ref=other, reference="chat-2")
    number = aside(desk.stack, desk.world)
    late = match_page(desk, number, second.case_id).form("/cases/")
    desk.at(desk.world.tobias).submit(match_page(desk, number, first.case_id).form("/cases/"))
    page = desk.at(desk.world.tobias).submit(late, status=409)
    assert f"Tobias Renk put these goods on case C-{first.number}." in page.text
    assert received(desk) == 1


def test_what_does_not_fit_is_said_before_it_is_booked(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    text = match_page(desk, aside(desk.stack, desk.world, 2, "A-9"), opened.case_id).text
    assert "The parcel names order A-9; this case is of order A-20417." in text
    assert "1 of 1 of T-shirt, medium are booked in already. Is this another parcel?" in text
    assert "3 of T-shirt, medium would be here, and 1 were announced: no more is paid." in text
    text = match_page(desk, aside(desk.stack, desk.world, 1, "A-20417", "LAMP"), opened.case_id).text
    assert "1 of LAMP were reported, and this case holds no units of that. They stay off it." in text


def test_a_return_is_opened_for_goods_that_are_here_and_is_due_at_once(desk: Desk) -> None:
    number = aside(desk.stack, desk.world)
    tobias = desk.at(desk.world.tobias)
    page = tobias.get(desk.url(f"/receipts/{receipt_id(desk, number)}"))
    (link,) = [link for link in page.links if "receipt=" in link]
    form = tobias.get(link).form("/counter/orders/")
    assert form.values["quantity_1"] == "1"
    page = tobias.submit(form, reason="size")
    assert "is open" in page.text
    assert received(desk) == 1
    (answer,) = desk.rows("SELECT kind FROM receipt_answers WHERE merchant_id = :m")
    assert answer["kind"] == "opened"
    tobias.submit(form, reason="size")
    assert (desk.count("cases"), received(desk)) == (1, 1)


def test_goods_that_were_paid_for_open_nothing_and_say_what_was_paid(desk: Desk) -> None:
    paid = lives.propose(desk.stack, desk.world, (("TEE", 3),))
    desk.pay(paid["intent_id"])
    number = aside(desk.stack, desk.world)
    tobias = desk.at(desk.world.tobias)
    (link,) = [one for one in tobias.get(desk.url(f"/receipts/{receipt_id(desk, number)}")).links if "receipt=" in one]
    page = tobias.submit(tobias.get(link).form("/counter/orders/"), status=409, reason="size")
    assert "Priya Raman" in page.text
    assert desk.count("receipt_answers") == 0


def test_a_parcel_is_put_aside_by_hand_and_closed(desk: Desk) -> None:
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.url("/receipts/new")).form("/receipts/new")
    assert "write it down" in tobias.submit(form, status=422).text
    tobias.submit(form, note="a blue mug, card 4242 4242 4242 4242", parcel="JD7")
    tobias.submit(form, note="a blue mug, card 4242 4242 4242 4242", parcel="JD7")
    (kept,) = desk.rows("SELECT receipt_id, note FROM unmatched_receipts WHERE merchant_id = :m")
    assert "4242 4242" not in kept["note"]
    form = tobias.get(desk.url(f"/receipts/{kept['receipt_id']}")).form("/closing")
    assert "choose one" in tobias.submit(form, status=422).text
    tobias.submit(form, kind="not_ours")
    assert "Not goods of this shop" in tobias.get(desk.url("/receipts/")).text
    assert "closed this before" in tobias.submit(form, status=409, kind="empty").text


def test_another_shop_has_none_of_it(desk: Desk) -> None:
    northwind = build_world(desk.stack, "northwind")
    number = aside(desk.stack, desk.world)
    opened = lives.open_case(desk.stack, desk.world)
    theirs = desk.at(northwind.tobias)
    one = receipt_id(desk, number)
    assert f"P-{number}" not in theirs.get(desk.url("/receipts/", northwind)).text
    theirs.get(desk.url(f"/receipts/{one}", northwind), status=404)
    theirs.get(desk.url(f"/receipts/{one}/cases/{opened.case_id}", northwind), status=404)


def test_a_rejected_case_takes_none(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    number = aside(desk.stack, desk.world)
    form = match_page(desk, number, opened.case_id).form("/cases/")
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        reject(db, desk.world.merchant_id, opened.case_id, desk.world.priya.actor, "outside_window")
    page = desk.at(desk.world.tobias).submit(form, status=409)
    assert "This case holds no units any more." in page.text
    assert desk.count("receipt_answers") == 0
