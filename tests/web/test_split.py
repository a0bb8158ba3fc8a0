"""A case paid by card and gift card: one sheet approves both or none, and the gift card is paid back by hand at its desk."""

from collections.abc import Callable
from uuid import UUID

import pytest

from ledger.approvals_together import approve_together
from ledger.by_hand import carry_out
from ledger.database import transaction
from ledger.errors import WrongState
from tests import lives
from tests.orders import LAMP, TEE
from tests.stack import Stack
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import add_order, build_world, usual_policy


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


def split(desk: Desk, ref: str = "A-77") -> UUID:
    """Everything comes back: the case with its two proposed refunds, 47.60 to the card and 85.10 to the gift card."""
    order = add_order(
        desk.stack, desk.world, ref, captured={"card": 4760, "gift_card": 9000}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    row = lives.propose(desk.stack, desk.world, ((TEE, 3), (LAMP, 1)), order=order, reference=ref)
    return UUID(str(row["case_id"]))


def by_hand(desk: Desk, case_id: UUID) -> UUID:
    (one,) = [row for row in lives.intents(desk.stack, desk.world, case_id) if row["act"] == "manual"]
    return UUID(str(one["intent_id"]))


def test_one_button_approves_both_and_says_each_amount_and_where_it_goes(desk: Desk) -> None:
    case_id = split(desk)
    tab = desk.at(desk.world.priya)
    assert "Check and approve 2 refunds" in tab.get(desk.case(case_id)).text
    sheet = tab.get(f"{desk.case(case_id)}/approval")
    amounts = {
        row["act"]: f"{row['amount_minor'] / 100:.2f} GBP" for row in lives.intents(desk.stack, desk.world, case_id)
    }
    assert (
        f"Approve 2 refunds: {amounts['refund']} to Visa ending 4242 and {amounts['manual']} to Gift card by hand"
        in sheet.text
    )
    assert "a person pays it back by hand and records the reference" in sheet.text
    form = sheet.form("/approval")
    assert set(form.values) == {"csrf_token", "operation", "seen", "note"}
    case = tab.submit(form, note="both tags on")
    assert "2 refunds approved" in case.text
    assert desk.count("approvals") == desk.count("outbox") == desk.count("transfers") == 2
    again = tab.submit(form)
    assert "already approved" in again.text
    assert desk.count("approvals") == 2


def test_a_refusal_for_the_persons_hour_names_what_is_left_of_it_and_when_it_frees(
    stack: Stack, open_browser: Callable[..., Browser]
) -> None:
    hour = {"desk": {"GBP": {"hour": {"count": 5, "minor": 100_00}}}}
    world = build_world(stack, "quay", policy={**usual_policy("quay-usual"), "limits": hour})
    desk = Desk(stack, world, open_browser)
    case_id = split(desk)
    priya = desk.at(world.priya)
    page = priya.submit(priya.get(f"{desk.case(case_id)}/approval").form("/approval"), 403, note="both tags on")
    assert "None was approved." in page.text
    assert (
        "This is more than you may approve in one hour: 5 of 5 approvals and 100.00 GBP of 100.00 GBP are left until"
        in page.text
    )
    assert "Your note is kept." in page.text
    assert desk.count("approvals") == 0


def test_who_asked_for_a_return_is_told_that_another_approves_both_refunds_of_it(desk: Desk) -> None:
    priya = desk.world.priya
    order = add_order(
        desk.stack, desk.world, "A-78", captured={"card": 4760, "gift_card": 9000}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    row = lives.propose(desk.stack, desk.world, ((TEE, 3), (LAMP, 1)), order=order, reference="A-78", actor=priya.actor)
    page = desk.at(priya).get(f"{desk.case(row['case_id'])}/approval", 403)
    assert "You asked for this, so another person has to approve it." in page.text
    assert [form.action for form in page.forms if "approval" in form.action] == []


def test_one_return_paid_back_to_two_cards_is_no_sign_of_a_refund_split_into_many(desk: Desk) -> None:
    case_id = split(desk, "A-76")
    desk.at(desk.world.priya).submit(desk.at(desk.world.priya).get(f"{desk.case(case_id)}/approval").form("/approval"))
    assert "refunds to this customer in 24 h" not in desk.at(desk.world.priya).get(desk.case(case_id)).text
    assert (
        "refunds to this customer in 24 h" not in desk.at(desk.world.priya).get(desk.url("/queue/?filter=every")).text
    )


def test_a_change_of_one_refuses_both_and_shows_old_and_new(desk: Desk) -> None:
    order = add_order(
        desk.stack, desk.world, "A-78", captured={"card": 4000, "gift_card": 9760}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    opened = lives.open_case(
        desk.stack, desk.world, ((TEE, 3), (LAMP, 1)), order_ref=order.external_ref, reference="A-78"
    )
    lives.arrive(desk.stack, desk.world, opened.case_id, (TEE, 1), (LAMP, 1))
    tab = desk.at(desk.world.priya)
    form = tab.get(f"{desk.case(opened.case_id)}/approval").form("/approval")
    lives.arrive(desk.stack, desk.world, opened.case_id, (TEE, 1))
    page = tab.submit(form, status=409, note="she waits")
    assert "None was approved." in page.text
    assert "she waits" in page.html
    assert desk.count("approvals") == desk.count("outbox") == 0
    tab.submit(page.form("/approval"))
    assert desk.count("approvals") == 2


def test_a_form_that_names_a_refund_of_another_case_approves_nothing(desk: Desk) -> None:
    one, other = split(desk), split(desk, "A-79")
    tab = desk.at(desk.world.priya)
    form = tab.get(f"{desk.case(one)}/approval").form("/approval")
    theirs = tab.get(f"{desk.case(other)}/approval").form("/approval")
    tab.submit(form, status=404, seen=theirs.values["seen"])
    assert desk.count("approvals") == 0


def test_tobias_pays_the_gift_card_by_hand_and_its_decision_says_so(desk: Desk) -> None:
    intent_id = by_hand(desk, split(desk))
    desk.confirm(desk.world.priya, intent_id)
    assert "goes back to Gift card by hand" in desk.at(desk.world.priya).shown.text
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent_id)
    receipt = desk.at(desk.world.priya).get(desk.refund(intent_id))
    assert "to pay by hand" in receipt.text
    assert "Nothing leaves by itself" in receipt.text
    tab = desk.at(desk.world.tobias)
    assert "To pay by hand" in tab.get(desk.url("/by-hand/")).text
    wrong = tab.submit(
        tab.get(desk.url(f"/by-hand/{intent_id}")).form("/settlement"), status=422, reference="4242424242424242"
    )
    assert "card number" in wrong.text
    shown = tab.submit(wrong.form("/settlement"), reference="GC-2026-11")
    assert "Recorded as paid back by hand" in shown.text
    assert "GC-2026-11" in shown.text
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        assert carry_out(db, desk.world.merchant_id, intent_id, lives.verifier()) == "succeeded"
    paid = tab.get(desk.refund(intent_id))
    assert "Refund paid by hand" in paid.text
    assert "is paid." in paid.text
    assert "Nothing waits to be paid by hand" in tab.get(desk.url("/by-hand/")).text


def test_mara_comes_second_and_learns_who_recorded_it(desk: Desk) -> None:
    intent_id = by_hand(desk, split(desk))
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent_id)
    forms = {
        person: desk.at(person).get(desk.url(f"/by-hand/{intent_id}")).form("/settlement")
        for person in (desk.world.tobias, desk.world.mara)
    }
    desk.at(desk.world.tobias).submit(forms[desk.world.tobias], reference="GC-1")
    second = desk.at(desk.world.mara).submit(forms[desk.world.mara], reference="GC-2")
    assert "Tobias Renk recorded this already" in second.text
    assert [
        row["reference"] for row in desk.rows("SELECT reference FROM manual_settlements WHERE merchant_id = :m")
    ] == ["GC-1"]


def test_one_that_could_not_be_paid_says_why(desk: Desk) -> None:
    intent_id = by_hand(desk, split(desk))
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent_id)
    tab = desk.at(desk.world.tobias)
    page = tab.get(desk.url(f"/by-hand/{intent_id}"))
    shown = tab.submit(page.form("/failure"), reason="the card was thrown away")
    assert "the card was thrown away" in shown.text


def test_a_refund_that_goes_by_itself_has_no_page_there(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    desk.at(desk.world.tobias).get(desk.url(f"/by-hand/{intent['intent_id']}"), status=404)


def test_two_that_take_a_code_together_are_approved_one_by_one(
    stack: Stack, open_browser: Callable[..., Browser]
) -> None:
    policy = usual_policy("quay-usual")
    routes = policy["routes"] | {"factor_from_minor": {"GBP": 10000}}
    desk = Desk(stack, build_world(stack, "quay", policy=policy | {"routes": routes}), open_browser)
    case_id = split(desk)
    page = desk.at(desk.world.priya).get(f"{desk.case(case_id)}/approval", status=403)
    assert "approve each refund by itself, with your code or passkey" in page.text
    assert page.forms == []
    intents = lives.intents(stack, desk.world, case_id)
    seen = {row["intent_id"]: lives.see(stack, desk.world, row["intent_id"]) for row in intents}
    with transaction(stack.console, desk.world.merchant_id) as db, pytest.raises(WrongState, match="by itself"):
        approve_together(
            db, desk.world.merchant_id, case_id, desk.world.priya.staff_id, seen, lives.sealer(), cancel_window_seconds=0
        )  # fmt: skip
    assert desk.count("approvals") == 0
