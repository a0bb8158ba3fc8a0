"""One case: records in the order of CONSOLE rule 5, the arithmetic, photos, notes, and the acts each role has."""

import hashlib

from ledger.database import run, transaction
from ledger.evidence import add_photo
from ledger.ids import uuid7
from ledger.settlement import Refused
from tests import lives
from tests.orders import LAMP
from tests.refunds import as_administrator
from tests.web.desk import Desk, token_of
from tests.web.pages import Browser
from tests.world import add_order, build_world

PNG = b"\x89PNG\r\n\x1a\n as the encoder of ours wrote it"
HOSTILE = "</q><script>alert(1)</script> \u202eapproved 5.00 EUR {{ 7 * 7 }}"


def photo_of(desk: Desk, case_id: object, content: bytes = PNG) -> str:
    digest = hashlib.sha256(content).digest()
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        photo_id = add_photo(db, desk.world.merchant_id, case_id, content, "image/png", digest, digest, "the collar",  # type: ignore[arg-type]
                             desk.world.warehouse.actor, unit=0)  # fmt: skip
    return desk.url(f"/photos/{photo_id}")


def test_the_page_reads_from_claim_to_intent(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2), ("LAMP", 1)), customer_text="too small for me")
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 2), ("LAMP", 1))
    page = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    places = [page.text.index(words) for words in (
        "What was claimed", "2 of 3 · T-shirt, medium", "Units 1 and 2 of line 1", "too small for me", "Evidence",
        "Entitlement", "added up again by the checker", "2 of 3 TEE-M at what was paid", "2 of 3 units of 74.70",
        "Owed now107.80 GBP", "Earlier refunds and signals", "Intent R-", "Timeline", "Check and approve 107.80 GBP",
    )]  # fmt: skip
    assert places == sorted(places)
    for fact in ("Authorised", "Received", "Waits for approval", "Not paid"):
        assert fact in page.text


def test_each_amount_says_what_it_was_made_of_and_how_it_was_derived(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2), ("LAMP", 1)))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 2), ("LAMP", 1))
    page = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    record = as_administrator(desk.stack, "SELECT record FROM entitlements ORDER BY n DESC LIMIT 1")[0]["record"]
    bound = [record["bound"][name] for name in ("allocation", "evidence", "priors", "terms")]
    told = (
        "OfTEE[0,2)Formulacut(7470, 3, 2, 1) − cut(7470, 3, 0, 1) in minor units", "Tax8.30 GBP tax: the share of 12.45 in 49.80",
        "peel(1245, 7470, 4980) − peel(1245, 7470, 0)", "goods.units49.80", "OfLAMP[0,1)", "Inputs, rules and versions",
        "engine 2.", "Owed bythe shop's own terms", "Goods107.80 GBP", "Payment107.80 GBP: the smaller of 137.60 and 107.80",
        "Decided bythe returns desk", *bound, "The order is this customer's: yes order.owner",
    )  # fmt: skip
    assert [words for words in told if words not in page.text] == []
    places = [page.text.index(words) for words in told]
    assert places == sorted(places)


def test_an_amount_that_was_taken_away_again_is_shown_with_what_took_it(desk: Desk) -> None:
    as_administrator(desk.stack, """UPDATE policies SET document = document || '{"grade_bps": {"D": 10000}}'""")
    opened = lives.open_case(desk.stack, desk.world)
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1), grade="D")
    page = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    assert "100.00 % of 24.90" in page.text
    assert "deductions.diminished−24.90" in page.text
    assert "Owed now0.00 GBP" in page.text


def test_an_entitlement_that_does_not_add_up_is_said_in_red(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    as_administrator(desk.stack, "UPDATE entitlements SET record = jsonb_set(record, '{lines,0,minor}', '9999')")
    page = desk.at(desk.world.priya).get(desk.case(intent["case_id"]))
    assert "does not add up" in page.text
    assert "added up again" not in page.text


def test_a_case_without_goods_says_what_is_missing(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    page = desk.at(desk.world.priya).get(desk.case(opened.case_id))
    assert "Units that were announced are not here yet. It is worked out again when that is here." in page.text
    assert "No refund has been asked for." in page.text
    assert "Waiting: warehouse" in page.text


def test_what_customers_and_warehouses_write_is_text(desk: Desk) -> None:
    world = desk.world
    opened = lives.open_case(desk.stack, world, customer_text=HOSTILE)
    with transaction(desk.stack.console, world.merchant_id) as db:
        run(db, "UPDATE customers SET name = :name WHERE customer_id = :c", name=HOSTILE, c=world.ilse)
    lives.arrive(desk.stack, world, opened.case_id, ("TEE", 1))
    priya = desk.at(world.priya)
    priya.get(desk.case(opened.case_id))
    page = priya.submit(priya.shown.form("/notes"), note=HOSTILE)
    assert "<script>alert" not in page.html
    assert "\u202e" not in page.html
    assert page.html.count("U+202E") == 3
    assert "{{ 7 * 7 }}" in page.text
    assert "<script>alert" not in priya.get(desk.url("/queue/")).html


def test_a_photo_is_served_as_what_we_encoded_and_can_do_nothing(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    url = photo_of(desk, intent["case_id"])
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(intent["case_id"]))
    assert url in page.links
    answer = priya.ask("GET", url)
    assert (answer.status_code, answer.data, answer.mimetype) == (200, PNG, "image/png")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["Content-Disposition"] == f'inline; filename="{url.rpartition("/")[2]}.png"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_photo_of_another_merchant_or_one_that_was_swapped_is_not_there(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    url = photo_of(desk, intent["case_id"])
    north = build_world(desk.stack, "northwind")
    assert desk.at(north.priya).ask("GET", url).status_code == 404
    assert desk.at(north.priya).ask("GET", url.replace("harbour", "northwind")).status_code == 404
    assert desk.at(desk.world.ada).ask("GET", url).status_code == 403
    as_administrator(desk.stack, "UPDATE photos SET content = %s", b"another picture")
    assert desk.at(desk.world.priya).ask("GET", url).status_code == 404


def test_a_reader_sees_the_case_and_no_act(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    page = desk.at(desk.world.rita).get(desk.case(intent["case_id"]))
    assert "I. B." in page.text
    assert "Brandt" not in page.html
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]
    assert not [link for link in page.links if "approval" in link or "rejection" in link]
    assert desk.at(desk.world.rita).ask("GET", f"{desk.refund(intent['intent_id'])}/approval").status_code == 403


def test_the_page_learns_that_the_case_changed(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(opened.case_id))
    poll = page.html.partition('id="stale"')[2].partition('hx-get="')[2].partition('"')[0]
    assert priya.part(poll).status_code == 204
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    part = priya.part(poll)
    assert part.status_code == 200
    assert "This case changed while you were reading." in part.text
    assert "<html" not in part.text
    assert "<html" in priya.ask("GET", poll).text


def test_rejecting_asks_why_and_frees_the_units(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    page = priya.get(f"{desk.case(intent['case_id'])}/rejection")
    page = priya.submit(page.form("/rejection"), status=422)
    assert "Choose why" in page.text
    page = priya.submit(page.form("/rejection"), reason="not_our_item")
    assert "is rejected" in page.text
    assert "Nothing was paid" in page.text
    assert desk.state(intent["intent_id"]) == "withdrawn"
    assert lives.open_case(desk.stack, desk.world, reference="chat-2").status == "opened"


def test_a_refused_refund_is_asked_for_again_and_another_person_approves(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    (claimed,) = lives.claim(desk.stack, desk.world)
    lives.record(desk.stack, claimed, Refused("insufficient_funds", "the balance is too low", 400))
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(intent["case_id"]))
    assert "Ask for approval of 24.90 GBP" in page.text
    page = priya.submit(page.form("/entitlements"))
    assert "You asked for this, so another person has to approve it." in page.text
    again = lives.intents(desk.stack, desk.world, intent["case_id"])[-1]
    assert again["replaces"] == intent["intent_id"]
    receipt = desk.at(desk.world.tobias).submit(desk.confirm(desk.world.tobias, again["intent_id"]))
    assert "Asked byPriya Raman" in receipt.text


def test_an_earlier_refund_of_the_customer_is_a_signal(desk: Desk) -> None:
    first = lives.propose(desk.stack, desk.world)
    desk.pay(first["intent_id"])
    order = add_order(desk.stack, desk.world, "B-2", customer_id=desk.world.ilse)
    second = lives.propose(desk.stack, desk.world, ((LAMP, 1),), order=order, reference="chat-2")
    page = desk.at(desk.world.priya).get(desk.case(second["case_id"]))
    assert "24.90 GBP for unit 1 of TEE of another order" in page.text
    assert f"R-{first['number']}" in page.text
    row = desk.at(desk.world.priya).get(desk.url("/queue/?view=ready"))
    assert "an earlier refund in 30 days" in row.text


def test_the_rest_is_not_coming(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 3),))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 2))
    desk.pay(lives.intents(desk.stack, desk.world, opened.case_id)[-1]["intent_id"])
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(opened.case_id))
    assert "Reject this case" not in page.text
    page = priya.submit(page.form("/closing"))
    assert "is closed" in page.text
    assert "Close the rest" not in page.text


def test_a_note_comes_once_and_a_card_number_never(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    form = priya.get(desk.case(opened.case_id)).form("/notes")
    priya.submit(form, status=422, note="  ")
    priya.submit(form, note="her card is 4242-4242-4242-4242")
    page = priya.submit(form, note="her card is 4242-4242-4242-4242")
    assert page.text.count("her card is [card number ending 4242]") == 1
    assert desk.rows("SELECT staff_id FROM notes WHERE merchant_id = :m") == [{"staff_id": desk.world.priya.staff_id}]
    # Gone back to and written anew, it is another note.
    assert "She called once more" in priya.submit(form, note="She called once more").text
    assert desk.count("notes") == 2


def test_absent_and_foreign_cases_are_the_same_404(desk: Desk) -> None:
    north = build_world(desk.stack, "northwind")
    opened = lives.open_case(desk.stack, desk.world)
    stranger = desk.at(north.priya)
    absent = uuid7()
    paths = (
        f"/cases/{opened.case_id}", f"/cases/{absent}", f"/cases/{opened.case_id}/rejection", f"/goods-in/{opened.case_id}",
        f"/counter/orders/{desk.world.order.order_id}", f"/unknown/{absent}", f"/refunds/{absent}",
        f"/refunds/{absent}/approval", f"/cases/{opened.case_id}/stale",
    )  # fmt: skip
    for path in paths:
        assert answer(stranger, desk.url(path, north)) == 404, path
        assert answer(stranger, desk.url(path)) == 404, path
    assert token_of(stranger.shown)


def answer(browser: Browser, path: str) -> int:
    return browser.ask("GET", path, headers={"HX-Request": "true"} if path.endswith("stale") else {}).status_code


def test_a_held_refund_is_called_back_from_its_case(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    as_administrator(desk.stack, "UPDATE caps SET limit_minor = 1000")
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    assert desk.state(intent["intent_id"]) == "held"
    tobias = desk.at(desk.world.tobias)
    page = tobias.get(desk.case(intent["case_id"]))
    page = tobias.submit(page.form("/withdrawal"))
    assert "before it was sent. Nothing was paid." in page.text
    assert desk.state(intent["intent_id"]) == "withdrawn"
    page = tobias.get(desk.case(intent["case_id"]))
    assert "No refund is under way." in page.text
    assert "Money is owed and nothing asks for it now: ask for approval of it." in page.text


def test_the_case_leads_on_to_the_next_ready_one(desk: Desk) -> None:
    first = lives.propose(desk.stack, desk.world)
    second = lives.propose(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2")
    priya = desk.at(desk.world.priya)
    answer = priya.send(priya.get(desk.case(first["case_id"])).form("/queue/next"))
    assert answer.headers["Location"] == desk.case(second["case_id"])
    answer = priya.send(priya.get(desk.case(second["case_id"])).form("/queue/next"))
    assert answer.headers["Location"].endswith("/queue/?view=ready")
