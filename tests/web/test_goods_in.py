"""What arrived: counted in all, graded unit by unit, recorded once. Received is the ceiling, facts are never refused."""

from uuid import UUID

import pytest

from tests import lives
from tests.web.desk import Desk
from tests.web.pages import Browser, Form


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


def at_bench(desk: Desk, case_id: UUID) -> tuple[Browser, Form]:
    tobias = desk.at(desk.world.tobias)
    return tobias, tobias.get(desk.url(f"/goods-in/{case_id}")).form("/goods-in/")


def evidence(desk: Desk) -> list[tuple[str, int | None, int | None, str | None]]:
    found = desk.rows("SELECT kind, count, lower(units) AS a, grade FROM evidence WHERE merchant_id = :m AND kind <> 'announced'"
                      " ORDER BY number")  # fmt: skip
    return [(row["kind"], row["count"], row["a"], row["grade"]) for row in found]


def test_a_case_is_found_by_its_number_or_its_order(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    tobias = desk.at(desk.world.tobias)
    assert f"C-{opened.number}" in tobias.get(desk.url("/goods-in/")).text
    for text in (f"C-{opened.number}", str(opened.number), "A-20417"):
        page = tobias.get(desk.url("/goods-in/"), query_string={"q": text})
        assert any(link.endswith(f"/goods-in/{opened.case_id}") for link in page.links), text
    assert "No open case matches." in tobias.get(desk.url("/goods-in/?q=C-1")).text


def test_a_photo_and_a_parcel_are_one_step_from_the_bench(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    tobias, _ = at_bench(desk, opened.case_id)
    at = desk.url(f"/goods-in/{opened.case_id}")
    assert {f"{at}/photos", f"{at}/parcel"} <= set(tobias.shown.links)
    assert "Add a photo" in tobias.get(f"{at}/photos").text


def test_three_were_announced_and_two_came(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 3),))
    tobias, form = at_bench(desk, opened.case_id)
    page = tobias.submit(
        form, received_1="2", grade_1_0="A", grade_1_1="C", found_1_1="stain on the front", bench="bench 7"
    )
    assert "Recorded what arrived." in page.text
    assert "2 of 3 received" in page.text
    assert "stain on the front" in page.text
    assert evidence(desk) == [("received", 2, None, None), ("inspected", None, 0, "A"), ("inspected", None, 1, "C")]
    intent = lives.intents(desk.stack, desk.world, opened.case_id)[-1]
    assert intent["amount_minor"] == 2490 + 2490 - 747  # grade C is 30 % off


def test_the_count_is_of_all_that_came_so_far(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 3),))
    tobias, form = at_bench(desk, opened.case_id)
    priya = desk.at(desk.world.priya)
    other = priya.get(desk.url(f"/goods-in/{opened.case_id}")).form("/goods-in/")
    tobias.submit(form, received_1="2")
    page = priya.submit(other, status=422, received_1="2")
    assert "this is what was recorded before" in page.text
    priya.submit(page.form("/goods-in/"), received_1="3")
    assert evidence(desk) == [("received", 2, None, None), ("received", 1, None, None)]
    _, form = at_bench(desk, opened.case_id)
    page = tobias.submit(form, status=422, received_1="1")
    assert "3 were received before; what is recorded stays" in page.text


def test_an_empty_parcel_is_a_fact(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    tobias, form = at_bench(desk, opened.case_id)
    tobias.submit(form, received_1="0")
    assert evidence(desk) == [("received", 0, None, None)]


def test_units_are_graded_in_their_order(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 3),))
    tobias, form = at_bench(desk, opened.case_id)
    page = tobias.submit(form, status=422, received_1="3", grade_1_1="A")
    assert "grade the units in their order, without a gap" in page.text
    assert page.form("/goods-in/").values["received_1"] == "3"
    assert "choose a grade of the list" in tobias.submit(form, status=422, received_1="3", grade_1_0="Z").text
    assert "a finding needs a grade" in tobias.submit(form, status=422, received_1="3", found_1_0="fine").text
    assert "write a whole number" in tobias.submit(form, status=422, received_1="two").text
    assert evidence(desk) == []


def test_a_unit_that_was_graded_meanwhile_is_not_graded_for_another(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    tobias, form = at_bench(desk, opened.case_id)
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1), grade="B")
    page = tobias.submit(form, status=422, received_1="2", grade_1_0="A")
    assert "Unit 1 of line 1 was graded meanwhile, B. Look at it again." in page.text
    assert evidence(desk) == [("received", 1, None, None), ("inspected", None, 0, "B")]


def test_the_same_form_twice_records_once(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    tobias, form = at_bench(desk, opened.case_id)
    for _ in range(2):
        tobias.submit(form, received_1="1", grade_1_0="A")
    assert evidence(desk) == [("received", 1, None, None), ("inspected", None, 0, "A")]


def test_a_form_that_was_gone_back_to_and_changed_is_not_said_to_be_recorded(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    tobias, form = at_bench(desk, opened.case_id)
    tobias.submit(form, received_1="1")
    page = tobias.submit(form, status=409, received_1="2")
    assert "This form was sent before with something else in it" in page.text
    assert evidence(desk) == [("received", 1, None, None)]


def test_a_rejected_case_takes_no_goods_and_says_what_to_do(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    tobias, form = at_bench(desk, opened.case_id)
    tobias.submit(tobias.get(f"{desk.case(opened.case_id)}/rejection").form("/rejection"), reason="other")
    answer = tobias.send(form, received_1="1")
    assert answer.status_code == 409
    assert "Open a new return for what arrived." in answer.text
