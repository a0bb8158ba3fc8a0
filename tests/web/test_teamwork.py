"""Claims, presence, assignment, rest, due dates, tags and mentions at the desks: plain forms, and what each role may."""

from uuid import UUID, uuid4

import pytest

from ledger.database import transaction
from ledger.evidence import add_photo
from tests import lives
from tests.orders import sha256
from tests.refunds import as_administrator
from tests.web.desk import Desk, token_of
from tests.web.pages import Browser, Form
from tests.world import Person, add_order


@pytest.fixture
def case_id(desk: Desk) -> UUID:
    case: UUID = lives.propose(desk.stack, desk.world)["case_id"]
    return case


def page_form(desk: Desk, person: Person, case_id: UUID, action: str) -> Form:
    return desk.at(person).get(desk.case(case_id)).form(action)


def work_form(desk: Desk, person: Person, case_id: UUID, action: str) -> Form:
    return desk.at(person).get(f"{desk.case(case_id)}/work").form(action)


def row(desk: Desk, case_id: UUID) -> dict[str, object]:
    return desk.rows("SELECT * FROM cases WHERE case_id = :c", c=case_id)[0]


def case_of(desk: Desk, order: str) -> UUID:
    made = add_order(desk.stack, desk.world, order)
    return lives.open_case(desk.stack, desk.world, order_ref=made.external_ref, reference=order).case_id


def test_a_claim_is_said_to_both_and_released_by_its_owner_alone(desk: Desk, case_id: UUID) -> None:
    priya, tobias = desk.at(desk.world.priya), desk.at(desk.world.tobias)
    late = page_form(desk, desk.world.tobias, case_id, "/claim")
    page = priya.submit(page_form(desk, desk.world.priya, case_id, "/claim"))
    assert "In your hand" in page.text
    page = tobias.submit(late)
    assert "Priya Raman has this case in hand since" in page.text
    assert "You can read and decide it all the same." in page.text
    assert not [form for form in page.forms if "/claim" in form.action]
    assert tobias.ask("POST", f"{desk.case(case_id)}/claim/release", data=late.values).status_code == 303
    assert "In your hand" in priya.get(desk.case(case_id)).text
    page = priya.submit(priya.shown.form("/claim/release"))
    assert "In your hand" not in page.text


def test_a_case_that_closed_meanwhile_is_not_claimed_and_the_page_says_so(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)
    form = page_form(desk, desk.world.priya, case_id, "/claim")
    as_administrator(desk.stack, "UPDATE cases SET closed_at = now() WHERE case_id = %s", case_id)
    page = priya.submit(form)
    assert "This case is closed: there is nothing to claim." in page.text
    assert desk.count("case_leases") == 0


def test_a_manager_takes_over_and_the_desk_does_not(desk: Desk, case_id: UUID) -> None:
    desk.at(desk.world.priya).submit(page_form(desk, desk.world.priya, case_id, "/claim"))
    tobias, jonas = desk.at(desk.world.tobias), desk.at(desk.world.jonas)
    values = {"csrf_token": token_of(tobias.get(desk.case(case_id))), "operation": "a" * 32}
    assert tobias.ask("POST", f"{desk.case(case_id)}/claim/takeover", data=values).status_code == 403
    page = jonas.submit(page_form(desk, desk.world.jonas, case_id, "/claim/takeover"))
    assert "In your hand" in page.text


def test_the_confirm_page_only_says_who_works_on_it_and_the_approval_goes_through(desk: Desk, case_id: UUID) -> None:
    intent = desk.rows("SELECT intent_id FROM intents WHERE case_id = :c", c=case_id)[0]["intent_id"]
    desk.at(desk.world.tobias).submit(page_form(desk, desk.world.tobias, case_id, "/claim"))
    sheet = desk.confirm(desk.world.priya, intent)
    assert "Tobias Renk has this case in hand since" in desk.at(desk.world.priya).shown.text
    desk.at(desk.world.priya).submit(sheet)
    assert desk.state(intent) == "approved"


def test_two_on_the_confirm_page_see_each_other(desk: Desk, case_id: UUID) -> None:
    intent = desk.rows("SELECT intent_id FROM intents WHERE case_id = :c", c=case_id)[0]["intent_id"]
    desk.confirm(desk.world.tobias, intent)
    desk.confirm(desk.world.priya, intent)
    assert "Tobias Renk has this approval open too." in desk.at(desk.world.priya).shown.text


def test_whoever_is_shown_no_sheet_has_the_case_open_and_not_the_approval(desk: Desk, case_id: UUID) -> None:
    """It is a manager's: Tobias of the desk looked, and Mara is not to wait for him."""
    intent = desk.rows("SELECT intent_id FROM intents WHERE case_id = :c", c=case_id)[0]["intent_id"]
    as_administrator(desk.stack, "UPDATE intents SET route = 'manager'")
    refused = desk.at(desk.world.tobias).ask("GET", desk.url(f"/refunds/{intent}/approval"))
    assert refused.status_code == 403
    page = desk.at(desk.world.mara).get(desk.case(case_id))
    assert "Tobias Renk has it open" in page.text
    assert "has the approval open" not in page.text


def test_who_else_has_the_case_open_is_said_and_asked_again_only_when_it_changed(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(case_id))
    assert "has it open" not in page.text
    asks = page.html.partition('id="hand"')[2].partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    poll = {"Onceback-Poll": "1", "HX-Request": "true"}
    assert priya.ask("GET", asks, headers=poll).status_code == 204
    desk.at(desk.world.rita).get(desk.case(case_id))
    part = priya.part(asks, **poll)
    assert "Rita Reader" in part.text
    assert "has it open" in part.text
    assert "Rita Reader has it open" in desk.at(desk.world.tobias).get(desk.url("/queue/")).text
    assert priya.ask("GET", asks).status_code == 303


def test_reading_a_case_writes_presence_at_most_every_twenty_seconds(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)
    priya.get(desk.case(case_id))

    def seen() -> object:
        return desk.rows("SELECT seen_at FROM case_presence")[0]["seen_at"]

    as_administrator(desk.stack, "UPDATE case_presence SET seen_at = now() + interval '1 hour'")
    before = seen()
    priya.get(desk.case(case_id))
    assert seen() == before
    as_administrator(desk.stack, "UPDATE case_presence SET seen_at = now() - interval '30 seconds'")
    before = seen()
    priya.get(desk.case(case_id))
    assert seen() != before


def test_a_case_is_given_rests_is_tagged_and_shows_so_in_the_views(desk: Desk, case_id: UUID) -> None:
    w, priya, tobias = desk.world, desk.at(desk.world.priya), desk.at(desk.world.tobias)
    reference = f"C-{row(desk, case_id)['number']}"
    assert reference in priya.get(desk.url("/queue/?view=unassigned")).text
    page = priya.submit(work_form(desk, w.priya, case_id, "/assignment"), to=str(w.tobias.staff_id))
    assert "Assigned." in page.text
    assert reference not in priya.get(desk.url("/queue/?view=unassigned")).text
    assert reference in tobias.get(desk.url("/queue/?view=mine")).text
    assert reference not in priya.get(desk.url("/queue/?view=mine")).text
    assert reference in priya.get(desk.url(f"/queue/?who={w.tobias.staff_id}")).text
    priya.submit(work_form(desk, w.priya, case_id, "/tags"), tag="Fragile")
    assert reference in priya.get(desk.url("/queue/?tag=fragile")).text
    assert reference not in priya.get(desk.url("/queue/?tag=other")).text
    day = desk.rows("SELECT ((now() AT TIME ZONE 'Europe/London')::date + 2)::text AS d")[0]["d"]
    page = priya.submit(work_form(desk, w.priya, case_id, "/snooze"), until=day, reason="customer")
    assert "the customer answers" in page.text
    assert reference in tobias.get(desk.url("/queue/?view=snoozed")).text
    for view in ("mine", "ready"):
        assert reference not in tobias.get(desk.url(f"/queue/?view={view}")).text, view
    page = priya.submit(priya.get(desk.case(case_id)).form("/snooze/end"))
    assert "It rests no more." in page.text
    assert reference in tobias.get(desk.url("/queue/?view=mine")).text
    for words in ("Assigned to Tobias Renk", "Tagged fragile", "Rests until", "Rests no more"):
        assert words in priya.get(desk.case(case_id)).text


def test_a_snoozed_case_that_is_late_is_still_in_late(desk: Desk, case_id: UUID) -> None:
    as_administrator(
        desk.stack, "UPDATE cases SET snoozed_until = now() + interval '2 days', snooze_reason = 'parcel',"
        " due_at = now() - interval '1 day' WHERE case_id = %s", case_id,
    )  # fmt: skip
    assert f"C-{row(desk, case_id)['number']}" in desk.at(desk.world.priya).get(desk.url("/queue/?view=late")).text


def test_next_case_passes_over_what_rests_and_what_is_a_colleagues(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)

    def pressed() -> str:
        answer = priya.send(priya.get(desk.url("/queue/")).form("/queue/next"))
        as_administrator(desk.stack, "UPDATE case_leases SET until = taken_at")
        return answer.headers["Location"]

    assert pressed().endswith(f"/cases/{case_id}")
    as_administrator(desk.stack, "UPDATE cases SET assigned_to = %s", desk.world.tobias.staff_id)
    assert pressed().endswith("view=ready")
    as_administrator(
        desk.stack,
        "UPDATE cases SET assigned_to = NULL, snoozed_until = now() + interval '1 day', snooze_reason = 'other'",
    )
    assert pressed().endswith("view=ready")
    as_administrator(desk.stack, "UPDATE cases SET snoozed_until = now()")
    assert pressed().endswith(f"/cases/{case_id}")


def test_a_wrong_day_and_a_missing_reason_are_said_in_the_form_and_what_was_typed_stays(
    desk: Desk, case_id: UUID
) -> None:
    priya = desk.at(desk.world.priya)
    page = priya.submit(work_form(desk, desk.world.priya, case_id, "/snooze"), 422, until="2001-01-01", reason="parcel")
    assert "Rests until: choose a day from tomorrow on" in page.text
    assert 'value="2001-01-01"' in page.html
    page = priya.submit(work_form(desk, desk.world.priya, case_id, "/snooze"), 422, until="", reason="")
    assert "Rests until: choose a day" in page.text
    assert "What it waits for: choose one" in page.text
    page = priya.submit(work_form(desk, desk.world.priya, case_id, "/tags"), 422, tag="no_good")
    assert "Tag: write 1 to 24 letters" in page.text
    assert row(desk, case_id)["snoozed_until"] is None


def test_a_manager_sets_a_due_date_and_says_why(desk: Desk, case_id: UUID) -> None:
    jonas = desk.at(desk.world.jonas)
    day = desk.rows("SELECT ((now() AT TIME ZONE 'Europe/London')::date + 9)::text AS d")[0]["d"]
    page = jonas.submit(work_form(desk, desk.world.jonas, case_id, "/due"), 422, due=day, why="")
    assert "Why: write it down" in page.text
    page = jonas.submit(work_form(desk, desk.world.jonas, case_id, "/due"), due=day, why="Agreed with the customer")
    assert "Agreed with the customer" in page.text
    found = desk.rows("SELECT (due_at AT TIME ZONE 'Europe/London')::text AS at FROM cases")[0]["at"]
    assert found == f"{day} 23:59:59"
    assert not [
        form for form in desk.at(desk.world.priya).get(f"{desk.case(case_id)}/work").forms if "/due" in form.action
    ]


def test_a_mention_is_in_the_persons_own_view_until_they_are_done(desk: Desk, case_id: UUID) -> None:
    priya, rita = desk.at(desk.world.priya), desk.at(desk.world.rita)
    page = priya.submit(
        page_form(desk, desk.world.priya, case_id, "/notes"), note="@Rita is this the same coat? @Nobody"
    )
    assert "Rita Reader sees it in their mentions." in page.text
    assert "Nobody here is called @Nobody." in page.text
    assert "for Rita Reader" in page.text
    reference = f"C-{row(desk, case_id)['number']}"
    assert reference not in priya.get(desk.url("/queue/?view=mentions")).text
    page = rita.get(desk.url("/queue/?view=mentions"))
    assert reference in page.text
    assert "Mentions 1" in page.text
    page = rita.get(desk.case(case_id))
    assert "Priya Raman mentioned you" in page.text
    page = rita.submit(page.form("/mentions/read"))
    assert "mentioned you" not in page.text
    assert "No note waits for you." in rita.get(desk.url("/queue/?view=mentions")).text


def test_a_name_that_two_people_have_is_asked_for_in_full_and_the_note_stays(desk: Desk, case_id: UUID) -> None:
    as_administrator(desk.stack, "UPDATE staff SET name = 'Jonas Berg' WHERE staff_id = %s", desk.world.mara.staff_id)
    priya = desk.at(desk.world.priya)
    page = priya.submit(page_form(desk, desk.world.priya, case_id, "/notes"), 422, note="@Jonas please look")
    assert "Several people are called @Jonas: write the whole name" in page.text
    assert "@Jonas please look" in page.html
    priya.submit(page.form("/notes"), note="@Jonas Berg please look")
    assert [one["staff_id"] for one in desk.rows("SELECT staff_id FROM mentions")] == [desk.world.mara.staff_id]


def test_work_of_colleagues_does_not_make_a_page_stale_and_evidence_does(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(case_id))
    asks = page.html.partition('id="stale"')[2].partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    poll = {"Onceback-Poll": "1", "HX-Request": "true"}
    desk.at(desk.world.tobias).submit(work_form(desk, desk.world.tobias, case_id, "/tags"), tag="fragile")
    assert priya.ask("GET", asks, headers=poll).status_code == 204
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        add_photo(
            db,
            desk.world.merchant_id,
            case_id,
            b"x",
            "image/png",
            sha256(b"a"),
            sha256(b"b"),
            "seam",
            desk.world.chat.actor,
        )
    assert "This case changed while you were reading." in priya.part(asks, **poll).text


def picked(browser: Browser, address: str, cases: list[UUID], **values: object) -> dict[str, object]:
    form = browser.get(address).form("/queue/picked")
    return {**form.values, "pick": [str(case) for case in cases], **values}


def test_picked_cases_are_assigned_snoozed_and_tagged_at_once_and_stay_in_their_view(desk: Desk) -> None:
    priya, w = desk.at(desk.world.priya), desk.world
    cases = [case_of(desk, f"P-{n}") for n in range(3)]
    address = desk.url("/queue/?view=warehouse&channel=chat")
    url = desk.url("/queue/picked?view=warehouse&channel=chat")
    day = desk.rows("SELECT ((now() AT TIME ZONE 'Europe/London')::date + 2)::text AS d")[0]["d"]
    for values, words in (
        ({"act": "assign", "to": str(w.tobias.staff_id)}, "2 cases assigned."),
        ({"act": "snooze", "until": day, "reason": "parcel"}, "2 cases rest until"),
        ({"act": "tag", "tag": "fragile"}, "2 cases tagged fragile."),
    ):
        answer = priya.ask("POST", url, data=picked(priya, address, cases[:2], **values))
        assert answer.status_code == 303
        assert answer.headers["Location"].endswith("/queue/?view=warehouse&channel=chat")
        assert words in priya.get(answer.headers["Location"]).text
    changed = [row(desk, case) for case in cases]
    assert [one["assigned_to"] for one in changed] == [w.tobias.staff_id, w.tobias.staff_id, None]
    assert [one["snooze_reason"] for one in changed] == ["parcel", "parcel", ""]
    assert desk.count("case_tags") == 2


def test_enter_in_a_field_does_what_that_field_says_and_nothing_when_two_say_something(desk: Desk) -> None:
    priya, case = desk.at(desk.world.priya), case_of(desk, "P-1")
    url, address = desk.url("/queue/picked"), desk.url("/queue/")
    answer = priya.ask("POST", url, data=picked(priya, address, [case], act="typed", tag="fragile"))
    assert answer.status_code == 303
    both = {"act": "typed", "tag": "other", "to": "nobody"}
    answer = priya.ask("POST", url, data=picked(priya, address, [case], **both))
    assert answer.status_code == 422
    assert [one["tag"] for one in desk.rows("SELECT tag FROM case_tags")] == ["fragile"]


@pytest.mark.parametrize(
    ("values", "words"),
    [({"act": "assign", "to": ""}, "Choose somebody, or nobody"), ({"act": "snooze", "until": ""}, "Choose a day"),
     ({"act": "tag", "tag": "a b c d_"}, "Write 1 to 24 letters"), ({"act": "approve"}, "Choose what to do"),
     ({"act": "tag", "tag": "x", "pick": []}, "Pick at least one case"),
     ({"act": "tag", "tag": "x", "pick": "seven"}, "Pick cases of this page")],
)  # fmt: skip
def test_what_is_wrong_with_a_form_about_many_is_said_over_the_same_page(
    desk: Desk, values: dict[str, object], words: str
) -> None:
    priya, case = desk.at(desk.world.priya), case_of(desk, "P-1")
    answer = priya.ask("POST", desk.url("/queue/picked"), data=picked(priya, desk.url("/queue/"), [case], **values))
    assert answer.status_code == 422
    assert words in answer.text
    assert "<title>Error:" in answer.text
    if "pick" not in values:
        assert f'value="{case}" aria-label="Pick' in answer.text
        assert " checked" in answer.text
    assert desk.count("case_tags") == 0


def test_many_are_never_approved_and_the_form_names_no_money(desk: Desk, case_id: UUID) -> None:
    priya = desk.at(desk.world.priya)
    form = priya.get(desk.url("/queue/")).form("/queue/picked")
    assert set(form.values) <= {"csrf_token", "operation", "to", "until", "reason", "tag", "act"}
    answer = priya.ask(
        "POST", desk.url("/queue/picked"), data={**form.values, "fingerprint": "0" * 64, "pick": str(case_id)}
    )
    assert answer.status_code == 422
    assert desk.count("approvals") == 0


def test_a_reader_has_no_forms_for_this_and_a_foreign_case_is_not_there(desk: Desk, case_id: UUID) -> None:
    rita = desk.at(desk.world.rita)
    for address in (desk.url("/queue/"), desk.case(case_id)):
        page = rita.get(address)
        assert not [
            form for form in page.forms if "picked" in form.action or "claim" in form.action or "next" in form.action
        ]
    assert rita.ask("GET", f"{desk.case(case_id)}/work").status_code == 403
    priya = desk.at(desk.world.priya)
    for path in ("/work", "/presence"):
        assert priya.ask("GET", f"{desk.case(uuid4())}{path}", headers={"HX-Request": "true"}).status_code == 404
