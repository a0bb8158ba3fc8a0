"""The daily cap: what is used and waits, and a raise that takes two managers (P7, P11)."""

from datetime import timedelta

from ledger.caps import release_held
from ledger.database import transaction
from ledger.queries.caps import business_day
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import Desk, Opened
from tests.world import add_order, build_world


def full(stack: Stack, open_browser: Opened) -> Desk:
    """A cap of 60.00 GBP with 24.90 approved and a lamp of 58.00 held, then a shirt of 24.90."""
    desk = Desk(stack, build_world(stack, "tight", cap_minor={"GBP": 6000}), open_browser)
    for number, (line, person) in enumerate((("TEE", "priya"), ("LAMP", "tobias"))):
        order = add_order(stack, desk.world, f"T-{number}")
        intent = lives.propose(stack, desk.world, ((line, 1),), order=order, reference=f"chat-{number}")
        lives.approve_as(stack, desk.world, getattr(desk.world, person), intent["intent_id"])
    return desk


def test_the_page_shows_used_left_and_what_waits(stack: Stack, open_browser: Opened) -> None:
    desk = full(stack, open_browser)
    page = desk.at(desk.world.rita).get(desk.url("/cap/"))
    assert "0.00 GBP used, 24.90 GBP reserved, 35.10 GBP left of 60.00 GBP" in page.html
    assert all(f">{amount} GBP<" in page.html for amount in ("24.90", "35.10", "60.00"))
    assert "Full. 1 refund waits." in page.text
    assert "58.00 GBP" in page.text
    assert "Tobias Renk" in page.text
    assert "I. B." in page.text
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]
    held = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m AND state = 'held'")[0]["intent_id"]
    receipt = desk.at(desk.world.priya).get(desk.refund(held))
    assert "Approved, held by the daily cap." in receipt.text
    assert "Nobody has to approve it again." in receipt.text


def test_a_held_refund_whose_approval_ends_before_the_business_day_says_what_to_do(
    stack: Stack, open_browser: Opened
) -> None:
    """As on a day of 25 hours: without a raise its approval runs out first."""
    desk = full(stack, open_browser)
    with transaction(stack.console, desk.world.merchant_id) as db:
        ends_at = business_day(db, desk.world.merchant_id).ends_at
    (held,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m AND state = 'held'")
    as_administrator(
        stack, "UPDATE approvals SET approved_at = %s, expires_at = %s WHERE intent_id = %s",
        ends_at - timedelta(hours=24, minutes=1), ends_at - timedelta(minutes=1), held["intent_id"],
    )  # fmt: skip
    text = desk.at(desk.world.priya).get(desk.refund(held["intent_id"])).text
    assert "It goes only if the cap is raised before; else call it back, choose “Work out again” on its case" in text
    assert "Nobody has to approve it again." not in text


def test_one_manager_asks_and_another_makes_the_raise(stack: Stack, open_browser: Opened) -> None:
    desk = full(stack, open_browser)
    jonas, mara = desk.at(desk.world.jonas), desk.at(desk.world.mara)
    form = jonas.get(desk.url("/cap/")).form("/cap/raises")
    jonas.submit(form, currency="GBP", limit="100.00", reason="A recall of lamps")
    page = jonas.submit(form, currency="GBP", limit="100.00", reason="A recall of lamps")
    assert desk.count("cap_raises") == 1
    assert "You asked for this, so another person has to activate it." in page.text
    assert not [form for form in page.forms if form.action.endswith("/grant")]

    grant = mara.get(desk.url("/cap/")).form("/grant")
    assert (
        jonas.ask("POST", grant.action, data={**grant.values, "csrf_token": form.values["csrf_token"]}).status_code
        == 403
    )
    mara.submit(grant)
    page = mara.submit(grant)
    assert "The cap is raised for today." in page.text
    assert "100.00" in page.text
    with transaction(stack.worker, desk.world.merchant_id) as db:
        assert release_held(db, desk.world.merchant_id)
    assert desk.rows("SELECT DISTINCT state FROM intents WHERE merchant_id = :m") == [{"state": "approved"}]


def test_a_manager_turns_a_raise_down(stack: Stack, open_browser: Opened) -> None:
    desk = full(stack, open_browser)
    jonas, mara = desk.at(desk.world.jonas), desk.at(desk.world.mara)
    jonas.submit(jonas.get(desk.url("/cap/")).form("/cap/raises"), currency="GBP", limit="100", reason="A recall")
    page = mara.get(desk.url("/cap/"))
    grant = page.form("/grant")
    mara.submit(page.form("/refusal"))
    assert mara.send(grant).status_code == 409
    assert desk.rows("SELECT granted FROM cap_raises WHERE merchant_id = :m") == [{"granted": False}]
    assert desk.rows("SELECT DISTINCT limit_minor FROM cap_days WHERE merchant_id = :m") == [{"limit_minor": 6000}]


def test_a_raise_needs_an_amount_above_the_cap_and_a_reason(stack: Stack, open_browser: Opened) -> None:
    desk = full(stack, open_browser)
    jonas = desk.at(desk.world.jonas)
    form = jonas.get(desk.url("/cap/")).form("/cap/raises")
    for limit in ("", "much", "12.345", "-5", "1e6", "99999999999999999"):
        page = jonas.submit(form, status=422, currency="GBP", limit=limit, reason="A recall")
        assert "Write" in page.text, limit
    assert "above today" in jonas.submit(form, status=422, currency="GBP", limit="60.00", reason="A recall").text
    assert "Say why" in jonas.submit(form, status=422, currency="GBP", limit="100.00", reason=" ").text
    assert desk.count("cap_raises") == 0


def test_a_desk_person_sees_the_cap_and_no_raise(stack: Stack, open_browser: Opened) -> None:
    desk = full(stack, open_browser)
    jonas = desk.at(desk.world.jonas)
    jonas.submit(jonas.get(desk.url("/cap/")).form("/cap/raises"), currency="GBP", limit="100", reason="A recall")
    page = desk.at(desk.world.priya).get(desk.url("/cap/"))
    assert "A recall" in page.text
    assert not [form for form in page.forms if "/cap/" in form.action]
