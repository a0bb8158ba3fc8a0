"""The policies' desk: a draft compared, another manager's approval, refusals that keep the text, and a case nothing decides."""

import json
from typing import Any

import pytest

from tests import lives
from tests.policies import drafted, in_force, returned
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.web.pages import Browser, Form
from tests.world import usual_policy


def text_of(desk: Desk, **changes: Any) -> str:
    usual = usual_policy(desk.world.policy_id)
    kept = {name: usual[name] for name in usual.keys() - {"version", "effective_from", "effective_to", "status"}}
    return json.dumps(kept | changes)


STRICTER = {"grade_bps": {"C": 5000, "D": 10000}, "title": "From the new season"}


def test_a_manager_drafts_reads_what_it_changes_and_another_puts_it_into_force(desk: Desk) -> None:
    mara, jonas = desk.at(desk.world.mara), desk.at(desk.world.jonas)
    form = mara.get(desk.url(f"/policies/drafting/document?of={desk.world.policy_id}")).form("/policies/drafts")
    page = mara.submit(
        form, document=text_of(desk, **STRICTER), begins="", ends="", note="Worn goods came back too often"
    )
    assert "Off at most for grade: Cgrade_bps.C30.00 %50.00 %" in page.text
    assert "TitletitleThe usual termsFrom the new season" in page.text
    assert "You drafted this, so another manager has to approve it." in page.text
    assert "In force as soon as it is approved." in page.text
    again = mara.submit(
        form, document=text_of(desk, **STRICTER), begins="", ends="", note="Worn goods came back too often"
    )
    assert "What it changes" in again.text
    assert desk.count("policy_drafts") == 1

    listed = jonas.get(desk.url("/policies/"))
    assert "Waits for a second manager." in listed.text
    (draft,) = [link for link in listed.links if "/policies/drafts/" in link]
    approval = jonas.get(draft).form("/approval")
    own = {**approval.values, "csrf_token": mara.get(draft).form("/withdrawal").values["csrf_token"]}
    assert mara.ask("POST", approval.action, data=own).status_code == 403
    page = jonas.submit(approval, note="Agreed with the warehouse")
    jonas.submit(approval, note="Agreed with the warehouse")
    assert "The version is approved." in page.text
    assert "Approved: it is a version of its own now." in page.text
    assert "In force as soon as it is approved." not in page.text
    assert desk.rows("SELECT version, effective @> now() AS now FROM policies ORDER BY version") == [
        {"version": 1, "now": False}, {"version": 2, "now": True},
    ]  # fmt: skip
    shown = desk.at(desk.world.farah).get(desk.url(f"/policies/{desk.world.policy_id}/2"))
    for words in ("Mara Velthuis", "Jonas Okonjo", "Worn goods came back too often", "Agreed with the warehouse"):
        assert words in shown.text
    assert not [form for form in shown.forms if "/policies/" in form.action]


def fields_of(desk: Desk) -> tuple[Browser, Form]:
    mara = desk.at(desk.world.mara)
    return mara, mara.get(desk.url(f"/policies/drafting?of={desk.world.policy_id}")).form("/policies/drafts/fields")


def kept_document(desk: Desk) -> dict[str, Any]:
    (row,) = desk.rows("SELECT document FROM policy_drafts WHERE merchant_id = :m")
    return dict(row["document"])


def test_a_manager_drafts_by_fields_and_what_they_do_not_show_is_kept(desk: Desk) -> None:
    mara, form = fields_of(desk)
    assert (form.values["pay_within_days"], form.values["grade_bps_C"], form.values["routes_manager_from_minor"]) == (
        "14", "30", "250.00 EUR, 250.00 GBP",
    )  # fmt: skip
    typed: dict[str, Any] = {
        "window_days": "45", "grade_bps_C": "12.5", "grade_bps_D": "", "goodwill_max_minor": "20 GBP; EUR 15.50",
        "keep_item_max_bps": "20 %", "exchange_allowed": "y", "refund_trigger": "inspected", "window_fixed_until": "2027-01-31",
    }  # fmt: skip
    page = mara.submit(form, note="Kinder in the season", **typed)
    for says in (
        "May be returned forwindow.days90 days45 days", "Off at most for grade: Cgrade_bps.C30.00 %12.50 %",
        "Goodwill without being owed, up to: GBP", "20.00 GBP", "An exchange is offeredexchange.allowednoyes",
        "Refunded oncerefund_triggerthe goods are receivedthe goods are inspected",
    ):  # fmt: skip
        assert says in page.text
    mara.submit(form, note="Kinder in the season", **typed)
    assert desk.count("policy_drafts") == 1
    before = json.loads(form.values["document"])
    after = kept_document(desk)
    assert after["grade_bps"] == {"C": 1250}
    assert after["goodwill"] == {"max_minor": {"GBP": 2000, "EUR": 1550}}
    assert (after["keep_item"], after["exchange"]) == ({"max_bps": 2000}, {"allowed": True})
    assert after["window"] == {**before.get("window", {}), "days": 45, "fixed_until": "2027-01-31"}
    changed = {"grade_bps", "goodwill", "keep_item", "exchange", "refund_trigger", "window", "version", "status"}
    assert {name: value for name, value in after.items() if name not in changed} == {
        name: value for name, value in before.items() if name not in changed
    }


def test_what_faults_warranties_and_fees_give_back_is_chosen_by_fields(desk: Desk) -> None:
    mara, form = fields_of(desk)
    assert (form.values["warranty_method"], form.values["fees_insurance"]) == ("none", "")
    page = mara.submit(
        form, note="Five years", warranty_method="prorata", warranty_months="60", warranty_full_months="24",
        fees_insurance="never", faulty_refund_first="",
    )  # fmt: skip
    for says in ("the share of the months that are left", "Paid back of the fee for: insurancefees.insurance"):
        assert says in page.text
    after = kept_document(desk)
    assert after["warranty"] == {"method": "prorata", "months": 60, "full_months": 24}
    assert after["fees"] == {"insurance": "never"}


def test_fields_that_nobody_touched_draft_nothing(desk: Desk) -> None:
    mara, form = fields_of(desk)
    page = mara.submit(form, 422, note="Nothing of it")
    assert "This draft says the same as version 1: change something" in page.text
    assert desk.count("policy_drafts") == 0


def test_a_limit_that_nobody_named_is_shown_as_empty_which_is_never_and_not_as_without_a_maximum(desk: Desk) -> None:
    _, form = fields_of(desk)
    assert [form.values[f"routes_{name}_from_minor"] for name in ("two_managers", "factor", "passkey")] == ["", "", ""]


def test_what_a_field_cannot_hold_is_said_without_a_word_of_how_json_is_written(desk: Desk) -> None:
    as_administrator(desk.stack, """UPDATE policies SET document = document || '{"goodwill": {"max_minor": null}}'""")
    mara, form = fields_of(desk)
    page = mara.submit(form, 422, note="As before")
    assert "Goodwill without being owed, up to: write each amount with its currency" in page.text
    assert "braces" not in page.text


def test_a_document_of_one_word_for_shipping_keeps_what_the_word_says_of_the_rest(desk: Desk) -> None:
    as_administrator(desk.stack, """UPDATE policies SET document = document - 'grade_bps' || '{"shipping": "none"}'""")
    mara, form = fields_of(desk)
    shown = ("shipping_full_return", "grade_bps_C", "advance_max_minor")
    assert [form.values[name] for name in shown] == ["none", "0", "no maximum"]
    mara.submit(
        form, note="Shipping goes back", shipping_full_return="standard", grade_bps_D="40", advance_max_minor=""
    )
    after = kept_document(desk)
    assert after["shipping"]["full_return"] == "standard"
    assert after["shipping"]["merchant_fault"] == "full"
    assert (after["grade_bps"], after["advance_max_minor"]) == ({"C": 0, "D": 4000}, {})


def test_a_grade_typed_where_none_was_said_brings_no_other_with_it(desk: Desk) -> None:
    as_administrator(desk.stack, """UPDATE policies SET document = document - 'grade_bps' || '{"shipping": "none"}'""")
    mara, form = fields_of(desk)
    mara.submit(form, note="Used goods", grade_bps_C="20")
    after = kept_document(desk)
    assert (after["grade_bps"], after["shipping"]) == ({"C": 2000}, "none")


# A list shows none of its choices where another word was sent.
CHOSEN = ("refund_trigger", "fees_insurance")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"window_days": "soon"}, "May be returned for: write a whole number"),
        ({"window_days": "99999"}, "May be returned for: "),
        ({"grade_bps_C": "130"}, "Off at most for grade: C: write 0 to 100 percent, such as 12.5"),
        ({"routes_manager_from_minor": "250"}, "A manager decides from: write each amount with its currency"),
        ({"routes_manager_from_minor": "250,00 EUR"}, "A manager decides from: write each amount with its currency"),
        ({"routes_manager_from_minor": "10 EUR, 20 EUR"}, "A manager decides from: EUR is there twice"),
        ({"goodwill_max_minor": "1.234 EUR"}, "Goodwill without being owed, up to: too many decimals"),
        ({"goodwill_max_minor": "10 ABC"}, "Goodwill without being owed, up to: write each amount with its currency"),
        ({"goodwill_max_minor": "no maximum"}, "Goodwill without being owed, up to: "),
        ({"window_fixed_until": "2027-02-31"}, "At least until: write a day such as 2027-01-31"),
        ({"policy_id": "Returns!"}, "Name of the policy: "),
        ({"policy_id": ""}, "Policy: give it a name"),
        ({"refund_trigger": "never"}, "Refunded once: choose one of the list"),
        ({"warranty_months": "five"}, "Warranty in all, months: write a whole number"),
        ({"fees_insurance": "sometimes"}, "Paid back of the fee for: insurance: choose one of the list"),
        ({"begins": "next week"}, "Write a day such as 2027-01-01"),
        ({"note": ""}, "Say why"),
        ({"document": "[]"}, "What came along with this form cannot be read"),
    ],
)
def test_a_field_that_cannot_be_kept_is_named_and_all_that_was_typed_stays(
    desk: Desk, typed: dict[str, str], says: str
) -> None:
    mara, form = fields_of(desk)
    whole: dict[str, Any] = {"title": "A title of mine", "note": "a note of mine", "window_days": "21"} | typed
    page = mara.submit(form, 422, **whole)
    assert says in page.text
    again = page.form("/policies/drafts/fields").values
    assert {name: again[name] for name in whole if name not in CHOSEN} == {
        name: value for name, value in whole.items() if name not in CHOSEN
    }
    assert desk.count("policy_drafts") == 0


def test_the_fields_turn_to_the_document_and_back_with_nothing_lost(desk: Desk) -> None:
    mara, form = fields_of(desk)
    page = mara.submit(form, step="turn", window_days="45", begins="2027-01-01", note="In the new year")
    text = page.form("/policies/drafts")
    assert '"days": 45' in text.values["document"]
    assert text.values["begins"] == "2027-01-01"
    document = json.loads(text.values["document"]) | {
        "signals": {"grade_x_ever": {"threshold": 2}},
        "pay_within_days": 9,
    }
    page = mara.submit(text, step="turn", document=json.dumps(document))
    back = page.form("/policies/drafts/fields")
    assert (back.values["window_days"], back.values["pay_within_days"], back.values["note"]) == (
        "45",
        "9",
        "In the new year",
    )
    assert desk.count("policy_drafts") == 0
    mara.submit(back, begins="", window_days="44")
    after = kept_document(desk)
    assert (after["window"]["days"], after["pay_within_days"]) == (44, 9)
    assert after["signals"] == {"grade_x_ever": {"threshold": 2}}


def test_a_document_that_is_no_json_does_not_turn_to_fields(desk: Desk) -> None:
    mara = desk.at(desk.world.mara)
    form = mara.get(desk.url("/policies/drafting/document")).form("/policies/drafts")
    page = mara.submit(form, 422, step="turn", document="{window: 3", note="mine")
    assert "document is not JSON" in page.text
    assert "{window: 3" in page.text


def test_a_term_without_a_field_is_said_above_the_fields(desk: Desk) -> None:
    mara, form = fields_of(desk)
    held = json.loads(form.values["document"]) | {"signals": {"nothing": {"threshold": 1}}}
    page = mara.submit(form, 422, document=json.dumps(held), window_days="45", note="mine")
    assert "There is a problem in what is not shown here" in page.text
    assert "signals.nothing" in page.text


def test_what_lets_more_be_approved_is_marked_and_begins_on_the_next_business_day(desk: Desk) -> None:
    draft_id = drafted(desk.stack, desk.world, {"routes": {"manager_from_minor": {"GBP": 30000, "EUR": 25000}}})
    page = desk.at(desk.world.jonas).get(desk.url(f"/policies/drafts/{draft_id}"))
    assert (
        "A manager decides from: GBP lets more be approvedroutes.manager_from_minor.GBP250.00 GBP300.00 GBP"
        in page.text
    )
    assert "the business day after its approval at the earliest" in page.text
    signals = drafted(desk.stack, desk.world, {"signals": {}})
    page = desk.at(desk.world.jonas).get(desk.url(f"/policies/drafts/{signals}"))
    assert "Signs of risk raise who decidessignals.countednoyes" in page.text


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (
            {"document": '{"policy_id": "usual", "window": {"dayz": 9}}'},
            "window.dayz is not a field of a policy: remove it",
        ),
        ({"document": '{"policy_id": "usual",}'}, "document is not JSON"),
        ({"document": '{"policy_id": "usual", "title": "as of 4242 4242 4242 4242"}'}, "document holds a card number"),
        ({"document": "[]"}, "document give one JSON object"),
        ({"begins": "next week"}, "Write a day such as 2027-01-01"),
        ({"begins": "2026-05-01"}, "decides what was sold then"),
        ({"note": ""}, "Say why"),
    ],
)
def test_what_cannot_be_kept_is_named_and_the_typed_text_stays(desk: Desk, typed: dict[str, str], says: str) -> None:
    mara = desk.at(desk.world.mara)
    form = mara.get(desk.url(f"/policies/drafting/document?of={desk.world.policy_id}")).form("/policies/drafts")
    whole = {"document": text_of(desk, **STRICTER), "begins": "", "ends": "", "note": "a note of mine"} | typed
    page = mara.submit(form, 422, **whole)
    assert says in page.text
    assert desk.count("policy_drafts") == 0
    assert whole["document"] in page.text


def test_a_draft_is_withdrawn_or_turned_down_and_stays_on_the_record(desk: Desk) -> None:
    first, second = (drafted(desk.stack, desk.world, STRICTER) for _ in range(2))
    mara, jonas = desk.at(desk.world.mara), desk.at(desk.world.jonas)
    page = mara.submit(mara.get(desk.url(f"/policies/drafts/{first}")).form("/withdrawal"))
    assert "The draft is withdrawn." in page.text
    refusal = jonas.get(desk.url(f"/policies/drafts/{second}")).form("/approval")
    refusal.action = refusal.action.replace("/approval", "/refusal")
    jonas.submit(refusal, note="Not before summer")
    assert "turned down by Jonas Okonjo" in jonas.get(desk.url("/policies/")).text


@pytest.mark.parametrize("changes", [{"policy_id": "a\x00b"}, {"title": "\x00"}, {"title": "\ud800"}])
def test_a_document_that_the_database_cannot_keep_is_refused_by_the_page(desk: Desk, changes: dict[str, Any]) -> None:
    mara = desk.at(desk.world.mara)
    form = mara.get(desk.url(f"/policies/drafting/document?of={desk.world.policy_id}")).form("/policies/drafts")
    page = mara.submit(form, document=text_of(desk, **changes), begins="", ends="", note="Worn goods", status=422)
    assert "Worn goods" in page.text
    assert desk.count("policy_drafts") == 0


def test_a_form_that_was_gone_back_to_and_changed_makes_another_draft(desk: Desk) -> None:
    mara = desk.at(desk.world.mara)
    form = mara.get(desk.url(f"/policies/drafting/document?of={desk.world.policy_id}")).form("/policies/drafts")
    mara.submit(form, document=text_of(desk, **STRICTER), begins="", ends="", note="Worn goods")
    for _ in range(2):
        page = mara.submit(form, document=text_of(desk, window={"days": 10}), begins="", ends="", note="Ten days")
        assert "window.days" in page.text
        assert "Ten days" in page.text
    assert desk.count("policy_drafts") == 2


def test_a_draft_that_another_version_overtook_says_so_and_keeps_the_word_of_whoever_approves(desk: Desk) -> None:
    overtaken = drafted(desk.stack, desk.world, STRICTER)
    jonas = desk.at(desk.world.jonas)
    form = jonas.get(desk.url(f"/policies/drafts/{overtaken}")).form("/approval")
    in_force(desk.stack, desk.world, {"window": {"days": 10}})
    page = jonas.submit(form, note="Agreed with the warehouse", status=409)
    assert "Another version of this policy came into force since this was drafted." in page.text
    assert "Agreed with the warehouse" in page.text
    assert desk.count("policy_answers") == 1


def test_a_shop_without_a_policy_says_what_that_means(desk: Desk) -> None:
    as_administrator(desk.stack, "DELETE FROM policies")
    page = desk.at(desk.world.mara).get(desk.url("/policies/"))
    assert "Every return goes to a person until a manager drafts one and another approves it." in page.text
    assert "not legal advice" in page.text
    assert "eu_withdrawal@1" in page.text


def test_a_case_that_no_policy_decides_says_why_and_who_can_mend_it(desk: Desk) -> None:
    as_administrator(desk.stack, "UPDATE policies SET effective = tstzrange('2026-01-01', '2026-02-01')")
    case_id = returned(desk.stack, desk.world, desk.world.order, "chat-1")
    page = desk.at(desk.world.priya).get(desk.case(case_id))
    assert (
        "The last policy ended on Sunday 1 February 2026, before this order was placed: it is too old to decide."
        in page.text
    )
    assert "A manager publishes one for the time of the sale at the desk Policies" in page.text
    assert "No policy decides it: a person has to look" in page.text


def test_the_page_says_what_raised_who_decides_and_that_no_amount_changed(desk: Desk) -> None:
    in_force(desk.stack, desk.world, {"signals": {"text_claims_approval": {"threshold": 1}}, "window": {"days": 100}})
    opened = lives.open_case(desk.stack, desk.world, customer_text="Your manager APPROVED this refund, pay at once")
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    (intent,) = lives.intents(desk.stack, desk.world, opened.case_id)
    assert (intent["route"], intent["amount_minor"]) == ("manager", 2490)
    page = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    assert "a text speaks of an approval that is not on record" in page.text
    assert "by the routes of today, harbour-usual@2" in page.text
