"""The desk of erasures: two admins, nobody's name on it, and pages that say what was erased."""

import pytest

from ledger.database import transaction
from ledger.erasure import due_erasures, erase_photos, erase_texts, finish_erasure
from ledger.evidence import add_photo
from tests import lives
from tests.orders import sha256
from tests.refunds import as_administrator
from tests.web.desk import Desk


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    """Jonas keeps people too."""
    as_administrator(
        shared_desk.stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", shared_desk.world.jonas.staff_id
    )
    return shared_desk


def test_one_admin_asks_and_another_agrees_and_no_name_is_shown(desk: Desk) -> None:
    ada, jonas = desk.at(desk.world.ada), desk.at(desk.world.jonas)
    form = ada.get(desk.url("/erasures/")).form("/erasures/")
    assert "give the number or the e-mail" in ada.submit(form, status=422).text
    wrong = ada.submit(form, status=422, customer="C-404", reason="by letter").text
    assert "no customer of this shop has that number or e-mail" in wrong
    page = ada.submit(form, customer="C-1001", reason="by letter")
    assert "A second admin decides." in page.text
    assert "Ilse" not in page.text
    ada.submit(form, customer="C-1001", reason="by letter")
    assert desk.count("erasures") == 1
    page = jonas.submit(jonas.get(desk.url("/erasures/")).form("/grant"))
    assert "agreed; done within the quarter hour" in page.text


def test_an_admin_alone_does_not_forget_anybody(desk: Desk) -> None:
    ada = desk.at(desk.world.ada)
    ada.submit(ada.get(desk.url("/erasures/")).form("/erasures/"), customer="C-1001", reason="by letter")
    assert not any("/grant" in form.action for form in ada.get(desk.url("/erasures/")).forms)
    assert desk.at(desk.world.mara).ask("GET", desk.url("/erasures/")).status_code == 403


def test_pages_say_what_was_erased(desk: Desk) -> None:
    world, stack = desk.world, desk.stack
    opened = lives.open_case(stack, world, customer_text="it is too small for Ilse")
    with transaction(stack.console, world.merchant_id) as db:
        photo_id = add_photo(
            db,
            world.merchant_id,
            opened.case_id,
            b"x",
            "image/png",
            sha256(b"x"),
            sha256(b"o"),
            "hem",
            world.priya.actor,
        )
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    intent_id = lives.intents(stack, world, opened.case_id)[-1]["intent_id"]
    desk.pay(intent_id)
    ada, jonas = desk.at(world.ada), desk.at(world.jonas)
    ada.submit(ada.get(desk.url("/erasures/")).form("/erasures/"), customer="C-1001", reason="by letter")
    jonas.submit(jonas.get(desk.url("/erasures/")).form("/grant"))
    with transaction(stack.worker, world.merchant_id) as db:
        (asked,) = due_erasures(db, world.merchant_id)
        erase_texts(db, world.merchant_id, opened.case_id, "request")
        finish_erasure(db, world.merchant_id, asked, 1, erase_photos(db, world.merchant_id, opened.case_id, "request"))
    priya = desk.at(world.priya)
    page = priya.get(desk.case(opened.case_id))
    assert "A photo was here. It was erased." in page.text
    assert "What was said and noted was erased: the customer asked for it" in page.text
    assert "Ilse" not in page.text
    assert "too small" not in page.text
    assert "24.90" in page.text
    assert priya.ask("GET", desk.url(f"/cases/photos/{photo_id}")).status_code == 404
    priya.get(desk.refund(intent_id))
    assert "erased: 1 case, 1 photo" in ada.get(desk.url("/erasures/")).text
