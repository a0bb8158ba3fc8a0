"""Refunds without an answer: what is known, when the provider is asked next, and no button that sends again."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ledger.by_hand import Recorded, carry_out, record
from ledger.database import scalar, transaction
from ledger.reconciliation import WholeList, record_for_people
from ledger.review_by_hand import carry_out_by_hand
from ledger.settlement import Confirmed, ProviderRefund, Unknown
from tests import lives
from tests.orders import TEE
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.world import add_order


def unknown(desk: Desk, line: str = "TEE", *, person: bool = False, answered: dict[str, Any] | None = None) -> UUID:
    """Sent, with no clear answer, or with one that shows another refund than was asked for."""
    intent = lives.propose(desk.stack, desk.world, ((line, 1),), reference=f"chat-{line}")["intent_id"]
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent)
    (claimed,) = lives.claim(desk.stack, desk.world)
    no_answer = Unknown("timeout", "no answer came", needs_person=person)
    refund = made(desk, intent, "re_ours", **answered) if answered else None
    lives.record(desk.stack, claimed, Confirmed(refund) if refund else no_answer)
    return UUID(str(intent))


def test_the_list_says_how_long_what_happened_and_when_it_is_asked_next(desk: Desk) -> None:
    intent = unknown(desk)
    page = desk.at(desk.world.priya).get(desk.url("/unknown/"))
    for fact in ("1 refund, 24.90 GBP", "no answer in time", "Do not repeat by hand.", "It was sent once under one key",
                 "Whether the provider acted on it.", "of the 23 hours", "Sent, no clear answer"):  # fmt: skip
        assert fact in page.text or fact in page.html, fact
    key = desk.rows("SELECT provider_key FROM intents WHERE merchant_id = :m AND intent_id = :i", i=intent)[0][
        "provider_key"
    ]
    assert key in page.text
    assert [form.action.rpartition("/")[2] for form in page.forms if form.method == "post"] == ["sign-out", "question"]


def test_each_refund_has_its_own_address_and_the_list_answers_as_a_part(desk: Desk) -> None:
    first, second = unknown(desk), unknown(desk, "LAMP")
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/unknown/{second}"))
    assert "58.00 GBP" in page.text
    part = priya.part(desk.url(f"/unknown/{first}"), **{"Onceback-Poll": "1"})
    assert (part.status_code, "<html" in part.text, part.text.count("<h1")) == (200, False, 1)


def test_what_people_have_to_settle_stands_apart(desk: Desk) -> None:
    unknown(desk, person=True)
    page = desk.at(desk.world.mara).get(desk.url("/unknown/"))
    assert "Every refund that was sent has a clear answer." in page.text
    assert (
        "Nothing is sent again. A manager and somebody of finance settle it, on what the provider lists." in page.text
    )
    assert "No list has been read yet." in page.text
    assert [form.action.rpartition("/")[2] for form in page.forms if form.method == "post"] == ["sign-out", "question"]
    assert "Needs a person" in page.text


def listed(desk: Desk, intent: UUID, *refunds: ProviderRefund) -> None:
    """The worker has read this list of the provider for a refund that needs review; the last attempt is long over."""
    as_administrator(desk.stack, "UPDATE attempt_results SET at = at - interval '1 hour'")
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        asked_at = scalar(db, "SELECT now()")
        assert record_for_people(db, desk.world.merchant_id, intent, WholeList(refunds, asked_at)) in (
            "waits",
            "settled",
            "void",
        )


def test_an_answer_of_another_amount_stands_beside_what_was_asked_for_until_it_is_settled(desk: Desk) -> None:
    """The provider answered 0.01 GBP; its list is not read yet."""
    intent = unknown(desk, answered={"amount_minor": 1})
    compared = "Asked for 24.90 GBP, the provider shows 0.01 GBP."
    page = desk.at(desk.world.mara).get(desk.url(f"/unknown/{intent}"))
    assert page.text.count(compared) == 2, "in what is known of it, and in the list of what needs a person"
    alarm = "amount differs: asked for 24.90 GBP, the provider shows 0.01 GBP"
    assert alarm in desk.at(desk.world.farah).get(desk.url("/brakes")).text
    listed(desk, intent, made(desk, intent, "re_ours"))
    form = desk.at(desk.world.mara).get(desk.url(f"/unknown/{intent}")).form("/proposal")
    desk.at(desk.world.mara).submit(form, choice="succeeded:re_ours", note="The list has the whole amount.")
    farah = desk.at(desk.world.farah)
    farah.submit(farah.get(desk.url(f"/unknown/{intent}")).form("/confirmation"))
    listed(desk, intent, made(desk, intent, "re_ours"))
    assert desk.state(intent) == "succeeded"
    page = farah.get(desk.url("/brakes"))
    assert "No alarm is open." in page.text
    assert "A manager and somebody of finance settled the refund." in page.text


def made(desk: Desk, intent: UUID, ref: str, **other: Any) -> ProviderRefund:
    (row,) = desk.rows("SELECT * FROM intents WHERE merchant_id = :m AND intent_id = :i", i=intent)
    usual = {"refund_ref": ref, "status": "succeeded", "amount_minor": row["amount_minor"], "currency": row["currency"],
             "payment_intent_ref": row["payment_intent_ref"], "charge_ref": row["charge_ref"], "intent_id": str(intent),
             "created_at": datetime(2026, 11, 30, 9, 0, tzinfo=UTC)}  # fmt: skip
    return ProviderRefund(**(usual | other))


def test_two_people_settle_on_what_the_page_shows_beside_our_intent(desk: Desk) -> None:
    intent = unknown(desk, person=True)
    listed(desk, intent, made(desk, intent, "re_ours"), made(desk, intent, "re_else", amount_minor=1, intent_id=""))
    mara, farah = desk.at(desk.world.mara), desk.at(desk.world.farah)
    page = mara.get(desk.url(f"/unknown/{intent}"))
    for fact in ("re_ours", "24.90 GBP", "re_else", "0.01 GBP differs", "2 refunds, asked", "what we asked for"):
        assert fact in page.text, fact
    assert "data-poll" not in page.html.split('id="outcomes"')[1].split(">")[0]
    form = page.form("/proposal")
    assert "choice" not in form.values, "nothing is chosen beforehand"
    page = mara.submit(form, choice="succeeded:re_ours", note="Same amount, same mark.")
    assert "Proposed: It is paid: re_ours." in page.text
    assert "You proposed this, so somebody of the other role confirms it." in page.text
    assert [one.action for one in page.forms if "confirmation" in one.action] == []
    jonas = desk.at(desk.world.jonas).get(desk.url(f"/unknown/{intent}"))
    assert "settle it together, one of each" in jonas.text
    page = farah.get(desk.url(f"/unknown/{intent}"))
    assert "Confirm: it is paid, 24.90 GBP" in page.text
    form = page.form("/confirmation")
    assert "The provider is asked once more" in farah.submit(form).text
    assert "Confirmed by Farah Osei" in farah.submit(form).text, "the second click of a double click changes nothing"
    assert desk.state(intent) == "needs_review"
    listed(desk, intent, made(desk, intent, "re_ours"), made(desk, intent, "re_else", amount_minor=1, intent_id=""))
    assert desk.state(intent) == "succeeded"
    assert "Refund paid" in farah.get(desk.url(f"/unknown/{intent}")).text
    assert [row["n"] for row in desk.rows("SELECT count(*) AS n FROM settlement_decisions WHERE merchant_id = :m")] == [
        1
    ]


def test_a_page_whose_list_has_changed_is_409_and_keeps_what_was_typed(desk: Desk) -> None:
    intent = unknown(desk, person=True)
    listed(desk, intent)
    mara = desk.at(desk.world.mara)
    form = mara.get(desk.url(f"/unknown/{intent}")).form("/proposal")
    listed(desk, intent, made(desk, intent, "re_late"))
    page = mara.submit(form, status=409, choice="failed:", note="Nothing there at nine.")
    assert "list changed while you were reading. Nothing was proposed." in page.text
    assert "Nothing there at nine." in page.html
    assert "re_late" in page.text
    assert desk.count("settlements") == 0


def test_a_proposal_without_a_word_of_what_was_compared_is_422(desk: Desk) -> None:
    intent = unknown(desk, person=True)
    listed(desk, intent)
    mara = desk.at(desk.world.mara)
    page = mara.submit(
        mara.get(desk.url(f"/unknown/{intent}")).form("/proposal"), status=422, choice="failed:", note=" "
    )
    assert "Say what you compared" in page.text
    assert page.title.startswith("Error:")
    assert desk.count("settlements") == 0


def test_a_proposal_is_turned_down_with_a_reason_and_made_anew(desk: Desk) -> None:
    intent = unknown(desk, person=True)
    listed(desk, intent)
    mara, farah = desk.at(desk.world.mara), desk.at(desk.world.farah)
    where = desk.url(f"/unknown/{intent}")
    mara.submit(mara.get(where).form("/proposal"), choice="failed:", note="It is not there.")
    listed(desk, intent, made(desk, intent, "re_late"))
    page = farah.get(where)
    assert "list has changed since. Turn this down and propose anew." in page.text
    assert [one.action for one in page.forms if "confirmation" in one.action] == []
    farah.submit(page.form("/refusal"), status=422, reason="")
    page = farah.submit(farah.get(where).form("/refusal"), reason="It is there now.")
    assert "turned down by Farah Osei: It is there now." in page.text
    assert "It is paid: re_late" in page.text
    assert desk.state(intent) == "needs_review"


def test_the_desk_has_the_provider_asked_and_a_reader_does_not(desk: Desk) -> None:
    intent = unknown(desk)
    as_administrator(desk.stack, "UPDATE outbox SET due_at = now() + interval '1 hour'")
    where = desk.url(f"/unknown/{intent}")
    assert [form.action for form in desk.at(desk.world.rita).get(where).forms if form.method == "post"] == ["/sign-out"]
    priya = desk.at(desk.world.priya)
    page = priya.submit(priya.get(where).form("/question"))
    assert "The provider is asked." in page.text
    assert "The provider is being asked. Its list shows here in a moment." in page.text
    assert "asked a moment ago" in priya.submit(page.form("/question")).text


def test_what_is_past_its_limit_is_listed_with_its_owner(desk: Desk) -> None:
    intent = unknown(desk)
    priya = desk.at(desk.world.priya)
    assert "None is overdue." in priya.get(desk.url("/unknown/")).text
    as_administrator(
        desk.stack, "UPDATE intents SET state_at = now() - interval '25 hours' WHERE intent_id = %s", intent
    )
    page = priya.get(desk.url("/unknown/"))
    assert "1 h past its limit. Owner: worker." in page.text
    assert "1 d 1 h" in page.text


def test_an_empty_desk_says_why(desk: Desk) -> None:
    page = desk.at(desk.world.rita).get(desk.url("/unknown/"))
    assert "Every refund that was sent has a clear answer." in page.text
    assert "Nobody is needed." in page.text


def test_a_payment_by_hand_in_doubt_is_settled_on_its_record_and_never_on_a_list(desk: Desk) -> None:
    order = add_order(desk.stack, desk.world, "G-1", captured={"gift_card": 137_60}, by_hand=frozenset({"gift_card"}))
    intent = UUID(str(lives.propose(desk.stack, desk.world, ((TEE, 3),), order=order, reference="G-1")["intent_id"]))
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent)
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        record(db, desk.world.merchant_id, intent, desk.world.tobias.staff_id, Recorded(reference="GC-<b>7"))
    as_administrator(desk.stack, "UPDATE approvals SET note = 'edited' WHERE intent_id = %s", intent)
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        assert carry_out(db, desk.world.merchant_id, intent, lives.verifier()) == "needs_review"
    mara, farah, where = desk.at(desk.world.mara), desk.at(desk.world.farah), desk.url(f"/unknown/{intent}")
    page = mara.get(where)
    for fact in ("Recorded by hand", "GC-<b>7", "gift card", "Tobias Renk", "Its approval does not bear our seal.",
                 "Pay nothing more. A manager and somebody of finance settle it, on what was recorded."):  # fmt: skip
        assert fact in page.text, fact
    for absent in ("provider's list", "Provider key", "Do not repeat by hand", "Ask the provider"):
        assert absent not in page.text, absent
    assert "<b>7" not in page.html
    assert "two people settle what became of it" in mara.get(desk.refund(intent)).text
    page = mara.submit(page.form("/proposal"), choice="failed:", note="Taken back at the till, slip 4.")
    assert "Nothing was paid, or GC-<b>7 was taken back" in page.text
    assert "Confirm: nothing was paid" not in page.text
    page = farah.submit(farah.get(where).form("/confirmation"))
    assert "It is verified once more; then it is carried out" in page.text
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        assert carry_out_by_hand(db, desk.world.merchant_id, intent) == "failed"
    after = farah.get(desk.refund(intent)).text
    assert "Two people found that it was not paid, or was taken back." in after
    assert "it was not paid by hand, or taken back, say two people" in farah.get(desk.case(case_of(desk, intent))).text


def case_of(desk: Desk, intent: UUID) -> UUID:
    (row,) = desk.rows("SELECT case_id FROM intents WHERE merchant_id = :m AND intent_id = :i", i=intent)
    return UUID(str(row["case_id"]))
