"""The desk for orders in question: what does not add up is named with both figures, one proposes, another confirms."""

from uuid import UUID

import pytest

from tests import in_question as asked
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk


def page_of(desk: Desk, order_id: UUID) -> str:
    return desk.url(f"/orders-in-question/{order_id}")


def typed(key: str, **changes: str) -> dict[str, str]:
    return {"choice": key, "reason": "shop_confirmed", "note": "Mail of the shop, 3 October.", **changes}


def test_an_order_that_does_not_add_up_is_settled_by_one_who_proposes_and_another_who_confirms(desk: Desk) -> None:
    order_id = asked.amiss(desk.stack, desk.world)
    mara, farah = desk.at(desk.world.mara), desk.at(desk.world.farah)
    listed = mara.get(desk.url("/orders-in-question/"))
    assert "The lines do not come to the total" in listed.text
    page = mara.get(page_of(desk, order_id))
    for words in ("Total stated", "66.00", "Lines together", "72.00", "6.00"):
        assert words in page.text
    done = mara.send(page.form("/proposal"), **typed("first/total"))
    assert done.status_code == 303
    own = mara.get(page_of(desk, order_id))
    assert "You proposed this" in own.text
    assert not [form for form in own.forms if form.action.endswith("/confirmation")]
    other = farah.get(page_of(desk, order_id))
    assert "Mail of the shop, 3 October." in other.text
    form = other.form("/confirmation")
    assert farah.send(form).status_code == 303
    assert farah.send(form).status_code == 303
    assert asked.line_grosses(desk.stack, desk.world, order_id) == {"TEE": 5500, "MUG": 1100}
    assert "Two people settled it" in farah.get(page_of(desk, order_id)).text
    assert "Mara Velthuis" in farah.get(desk.url("/orders-in-question/")).text


def test_two_statements_stand_side_by_side_and_either_can_be_proposed(desk: Desk) -> None:
    order_id = asked.twice(desk.stack, desk.world)
    page = desk.at(desk.world.farah).get(page_of(desk, order_id))
    for words in ("Stated again", "Charged, tax in", "12.00 GBP", "10.00 GBP"):
        assert words in page.text
    newer = asked.in_question(desk.stack, desk.world, order_id).others[0].conflict_id
    assert desk.at(desk.world.farah).send(page.form("/proposal"), **typed(str(newer))).status_code == 303
    assert "10.00" in desk.at(desk.world.mara).get(page_of(desk, order_id)).text


def test_a_stale_proposal_says_what_was_and_what_is(desk: Desk) -> None:
    order_id = asked.twice(desk.stack, desk.world)
    asked.propose(desk.stack, desk.world, order_id, "first", desk.world.mara)
    farah = desk.at(desk.world.farah)
    form = farah.get(page_of(desk, order_id)).form("/confirmation")
    asked.state(desk.stack, desk.world, asked.stated(**asked.cheaper(900)))
    refused = farah.submit(form, status=409)
    assert "changed since this was proposed" in refused.text
    assert "stated 2 times" in refused.text
    assert "stated 3 times" in refused.text
    assert not [one for one in refused.forms if one.action.endswith("/confirmation")]
    down = refused.form("/refusal")
    assert farah.send(down, reason="A third statement came.").status_code == 303


def test_what_is_missing_in_a_proposal_is_said_at_its_field_and_kept(desk: Desk) -> None:
    order_id = asked.amiss(desk.stack, desk.world)
    mara = desk.at(desk.world.mara)
    page = mara.get(page_of(desk, order_id))
    again = mara.submit(page.form("/proposal"), status=422, **typed("first/total", reason="", note="kept"))
    assert "Choose why" in again.text
    assert "kept" in again.text
    assert as_administrator(desk.stack, "SELECT 1 FROM order_settlements") == []


def test_a_proposal_sent_twice_is_one(desk: Desk) -> None:
    order_id = asked.amiss(desk.stack, desk.world)
    mara = desk.at(desk.world.mara)
    page = mara.get(page_of(desk, order_id))
    for _ in range(2):
        assert mara.send(page.form("/proposal"), **typed("first/total")).status_code == 303
    assert len(as_administrator(desk.stack, "SELECT 1 FROM order_settlements")) == 1


def test_a_case_of_the_order_leads_to_its_desk_who_may_settle_and_only_says_so_to_others(desk: Desk) -> None:
    order_id = asked.amiss(desk.stack, desk.world)
    opened = lives.open_case(desk.stack, desk.world, (("MUG", 1),), order_ref=asked.REF)
    address = page_of(desk, order_id)
    assert address in desk.at(desk.world.mara).get(desk.case(opened.case_id)).links
    plain = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    assert "The lines do not come to the total" in plain.text
    assert address not in plain.links


@pytest.mark.parametrize("currency", ["XTS", "GBP"])
def test_an_order_that_nothing_mends_says_what_to_ask_of_the_shop(desk: Desk, currency: str) -> None:
    mixed = asked.card(7200) | {"currency": "EUR"}
    mixed.pop("order_minor")
    order_id = asked.state(desk.stack, desk.world, asked.stated(currency=currency, captures=[mixed])).order_id
    page = desk.at(desk.world.mara).get(page_of(desk, order_id))
    assert "Have the shop state it again" in page.text
    assert not [form for form in page.forms if form.action.endswith("/proposal")]


def test_an_order_that_never_was_in_question_has_no_page(desk: Desk) -> None:
    desk.at(desk.world.mara).get(page_of(desk, desk.world.order.order_id), status=404)
