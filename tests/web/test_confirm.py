"""What is approved is what was seen (S23, S25, P6, P7): the confirm sheet, its one form, and each way it refuses."""

import secrets

import pytest

from ledger.database import run, transaction
from ledger.evidence import add_photo
from tests import lives
from tests.orders import Line, sha256
from tests.web.desk import Desk
from tests.world import add_order


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


SOFA = (Line("SOFA", 1, 30000, title="Sofa"),)


def test_priya_approves_what_the_sheet_says_and_lands_on_its_receipt(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world, (("TEE", 2),))
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    sheet = desk.at(desk.world.priya).shown
    assert "Approve refund of 49.80 GBP to Visa ending 4242" in sheet.text
    assert "Ilse Brandt" in sheet.text
    assert "A-20417" in sheet.text
    assert "line 1, units 1 and 2 of 3" in sheet.text
    assert f"{desk.world.policy_id}@1" in sheet.text
    receipt = desk.at(desk.world.priya).submit(form, note="seen the tags")
    assert "Refund approved" in receipt.text
    assert "seen the tags" in receipt.text
    assert "already approved" not in receipt.text
    approval = desk.rows("SELECT * FROM approvals WHERE merchant_id = :m")
    assert [row["staff_id"] for row in approval] == [desk.world.priya.staff_id]
    assert bytes(approval[0]["fingerprint"]).hex() == form.values["fingerprint"]
    assert desk.state(intent["intent_id"]) == "approved"


def test_the_sheet_holds_nothing_foreign_and_no_way_elsewhere(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    desk.confirm(desk.world.priya, intent["intent_id"])
    sheet = desk.at(desk.world.priya).shown
    assert "T-shirt" not in sheet.text
    assert [link for link in sheet.links if "/cases/" not in link] == []
    assert [form.method for form in sheet.forms] == ["post"]
    shown = set(sheet.forms[0].values)
    assert shown == {"csrf_token", "operation", "fingerprint", "note"}


def test_a_name_that_turns_the_text_round_shows_its_character(desk: Desk) -> None:
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        run(db, "UPDATE customers SET name = :name WHERE customer_id = :c", name="Ilse \u202e00.5 <b>approved</b>",
            c=desk.world.ilse)  # fmt: skip
    intent = lives.propose(desk.stack, desk.world)
    desk.confirm(desk.world.priya, intent["intent_id"])
    sheet = desk.at(desk.world.priya).shown
    assert "U+202E" in sheet.text
    assert "\u202e" not in sheet.html
    assert "<b>approved" not in sheet.html


def test_the_warehouse_reports_between_page_and_press(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    first = lives.intents(desk.stack, desk.world, opened.case_id)[-1]
    form = desk.confirm(desk.world.priya, first["intent_id"])
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))

    page = desk.at(desk.world.priya).submit(form, status=409, note="rang her, she agrees")
    assert "the amount changed from 24.90 GBP to 49.80 GBP" in page.text
    assert "Nothing was sent" in page.text
    assert "warehouse" in page.text
    assert "rang her, she agrees" in page.html
    assert desk.count("approvals") == desk.count("outbox") == desk.count("transfers") == 0

    receipt = desk.at(desk.world.priya).submit(page.form("/approval"))
    assert "49.80 GBP" in receipt.text
    second = lives.intents(desk.stack, desk.world, opened.case_id)[-1]
    assert [desk.state(first["intent_id"]), desk.state(second["intent_id"])] == ["withdrawn", "approved"]


def test_a_photo_that_came_meanwhile_is_a_change_too(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    image = b"not looked at by this test"
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        add_photo(db, desk.world.merchant_id, intent["case_id"], image, "image/png", sha256(image), sha256(image), "torn",
                  desk.world.warehouse.actor)  # fmt: skip
    page = desk.at(desk.world.priya).submit(form, status=409)
    assert "the evidence changed" in page.text
    assert "A photo was added" in page.text
    assert desk.count("approvals") == 0


def test_evidence_that_comes_after_the_approval_voids_it(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    intent = lives.intents(desk.stack, desk.world, opened.case_id)[-1]
    desk.at(desk.world.priya).submit(desk.confirm(desk.world.priya, intent["intent_id"]))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    assert desk.state(intent["intent_id"]) == "withdrawn"
    assert lives.claim(desk.stack, desk.world) == []
    page = desk.at(desk.world.priya).get(desk.refund(intent["intent_id"]))
    assert "Refund withdrawn" in page.text


def test_going_back_and_pressing_again_shows_the_first_decision(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    priya, form = desk.at(desk.world.priya), desk.confirm(desk.world.priya, intent["intent_id"])
    priya.submit(form)
    again = priya.submit(form)
    assert "This refund was already approved, by you, at" in again.text
    assert "Your second click changed nothing" in again.text
    assert desk.count("approvals") == desk.count("outbox") == 1


def test_the_second_reviewer_sees_the_first_ones_decision(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    one, other = (desk.confirm(person, intent["intent_id"]) for person in (desk.world.priya, desk.world.tobias))
    desk.at(desk.world.priya).submit(one)
    seen = desk.at(desk.world.tobias).submit(other)
    assert "This refund was already approved, by Priya Raman, at" in seen.text
    assert "Nothing was sent twice" in seen.text
    assert desk.count("approvals") == 1


def test_opening_the_sheet_of_an_approved_refund_shows_its_decision(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    page = desk.at(desk.world.tobias).get(f"{desk.refund(intent['intent_id'])}/approval")
    assert "Refund approved" in page.text


def test_who_opened_the_case_has_no_button_and_is_refused_without_one(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world, channel="counter", actor=desk.world.priya.actor)
    priya = desk.at(desk.world.priya)
    case = priya.get(desk.case(intent["case_id"]))
    assert "You asked for this, so another person has to approve it." in case.text
    assert not [link for link in case.links if link.endswith("/approval")]

    page = priya.get(f"{desk.refund(intent['intent_id'])}/approval", status=403)
    assert "another person has to approve it" in page.text
    assert not page.forms

    seen = lives.see(desk.stack, desk.world, intent["intent_id"])
    form = desk.confirm(desk.world.tobias, intent["intent_id"])
    token = priya.get(desk.case(intent["case_id"])).form("/notes").values["csrf_token"]
    forced = {
        "csrf_token": token,
        "operation": secrets.token_hex(16),
        "fingerprint": seen.fingerprint.hex(),
        "note": "",
    }
    assert priya.ask("POST", form.action, data=forced).status_code == 403
    assert desk.count("approvals") == 0
    assert "Refund approved" in desk.at(desk.world.tobias).submit(form).text


def test_a_refund_above_the_limit_is_handed_to_a_manager(desk: Desk) -> None:
    order = add_order(desk.stack, desk.world, "A-30001", lines=SOFA)
    intent = lives.propose(desk.stack, desk.world, (("SOFA", 1),), order=order)
    page = desk.at(desk.world.priya).get(f"{desk.refund(intent['intent_id'])}/approval", status=403)
    assert "300.00 GBP is above the 249.99 GBP you may approve. Hand it to a manager." in page.text
    assert not page.forms
    case = desk.at(desk.world.priya).get(desk.case(intent["case_id"]))
    assert "Hand it to a manager" in case.text
    receipt = desk.at(desk.world.jonas).submit(desk.confirm(desk.world.jonas, intent["intent_id"]))
    assert "Refund approved" in receipt.text


def test_a_note_that_is_too_long_comes_back_with_its_words(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    page = desk.at(desk.world.priya).submit(form, status=422, note="x" * 2001)
    assert "Write at most 2,000 characters" in page.text
    assert "x" * 2001 in page.html
    assert desk.count("approvals") == 0


def test_a_card_number_in_a_note_is_not_kept(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    desk.at(desk.world.priya).submit(form, note="she read out 4242 4242 4242 4242")
    note = desk.rows("SELECT note FROM approvals WHERE merchant_id = :m")[0]["note"]
    assert note == "she read out [card number ending 4242]"


def test_a_fingerprint_that_no_page_gave_approves_nothing(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    desk.at(desk.world.priya).submit(form, status=422, fingerprint="nonsense")
    desk.at(desk.world.priya).submit(form, status=409, fingerprint="0" * 64)
    assert desk.count("approvals") == 0


def test_a_payment_that_has_less_left_by_now_is_a_refusal_in_words(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    with transaction(desk.stack.owner, desk.world.merchant_id) as db:
        run(
            db, "INSERT INTO external_refunds (merchant_id, refund_ref, provider_account_id, charge_ref, payment_intent_ref,"
            " amount_minor, currency, created_at, kind, found_by) SELECT merchant_id, 're_dashboard', provider_account_id,"
            " charge_ref, payment_intent_ref, available_minor, currency, now(), 'outside', 'poll' FROM captures"
            " WHERE merchant_id = :m AND capture_id = :c", m=desk.world.merchant_id, c=intent["capture_id"],
        )  # fmt: skip
    page = desk.at(desk.world.priya).submit(form, status=409)
    assert "The payment has less left on it than this refund" in page.text
    assert desk.count("approvals") == 0


def test_a_refund_of_an_order_in_question_is_not_approved(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        run(db, "UPDATE orders SET blocked = true, discrepancies = ARRAY['import_changed'] WHERE merchant_id = :m",
            m=desk.world.merchant_id)  # fmt: skip
    priya = desk.at(desk.world.priya)
    page = priya.submit(form, status=409, note="all is well")
    assert "The figures of this order are in question." in page.text
    assert "all is well" in page.html
    assert "Approve refund" not in page.text
    priya.get(f"{desk.refund(intent['intent_id'])}/approval", status=409)
    assert "Check and approve" not in priya.get(desk.case(intent["case_id"])).text
    assert desk.count("approvals") == 0
