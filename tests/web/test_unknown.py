"""Refunds without an answer: what is known, when the provider is asked next, and no button that sends again."""

from uuid import UUID

from ledger.settlement import Unknown
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk


def unknown(desk: Desk, line: str = "TEE", *, person: bool = False) -> UUID:
    intent = lives.propose(desk.stack, desk.world, ((line, 1),), reference=f"chat-{line}")["intent_id"]
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent)
    (claimed,) = lives.claim(desk.stack, desk.world)
    lives.record(desk.stack, claimed, Unknown("timeout", "no answer came", needs_person=person))
    return UUID(str(intent))


def test_the_list_says_how_long_what_happened_and_when_it_is_asked_next(desk: Desk) -> None:
    intent = unknown(desk)
    page = desk.at(desk.world.priya).get(desk.url("/unknown/"))
    for fact in ("1 refund, 24.90 GBP", "no answer in time", "Do not repeat by hand.", "It was sent 1 time under one key",
                 "Whether the provider acted on it.", "of the 23 hours", "Sent, no clear answer"):  # fmt: skip
        assert fact in page.text or fact in page.html, fact
    key = desk.rows("SELECT provider_key FROM intents WHERE merchant_id = :m AND intent_id = :i", i=intent)[0][
        "provider_key"
    ]
    assert key in page.text
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]


def test_each_refund_has_its_own_address_and_the_list_answers_as_a_part(desk: Desk) -> None:
    first, second = unknown(desk), unknown(desk, "LAMP")
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/unknown/{second}"))
    assert "58.00 GBP" in page.text
    part = priya.part(desk.url(f"/unknown/{first}"), **{"Onceback-Poll": "1"})
    assert (part.status_code, "<html" in part.text, part.text.count("<h1")) == (200, False, 1)


def test_what_a_person_has_to_settle_stands_apart(desk: Desk) -> None:
    unknown(desk, person=True)
    page = desk.at(desk.world.jonas).get(desk.url("/unknown/"))
    assert "Every refund that was sent has a clear answer." in page.text
    assert "Nothing is sent again. Compare it with the provider's own list" in page.text
    assert "this version cannot settle it from the console" in page.text
    assert "two people" not in page.text.lower()
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]
    assert "Needs a person" in page.text


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
