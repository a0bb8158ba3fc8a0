"""The same questions to every act of the desks: does it work, does it refuse GET, a stranger, a reader, an admin and a form
without a token, and does it do nothing when it is already done."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pytest

from ledger.caps import ask_raise
from ledger.database import transaction
from tests import lives
from tests.web.desk import Desk, token_of
from tests.web.pages import Browser
from tests.world import Person, build_world


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


@dataclass(frozen=True)
class Act:
    """A POST: where it goes and with which fields once `prepare` made what it is about, who may do it, what it changes."""

    name: str
    prepare: Callable[[Desk], tuple[str, dict[str, str]]]
    changes: str
    manager: bool = False

    def who(self, desk: Desk) -> Person:
        return desk.world.jonas if self.manager else desk.world.priya


def _approve(desk: Desk) -> tuple[str, dict[str, str]]:
    intent = lives.propose(desk.stack, desk.world)
    seen = lives.see(desk.stack, desk.world, intent["intent_id"])
    return f"/refunds/{intent['intent_id']}/approval", {"fingerprint": seen.fingerprint.hex(), "note": "looked at"}


def _withdraw(desk: Desk) -> tuple[str, dict[str, str]]:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.tobias, intent["intent_id"], window=300)
    return f"/refunds/{intent['intent_id']}/withdrawal", {}


def _reject(desk: Desk) -> tuple[str, dict[str, str]]:
    return f"/cases/{lives.open_case(desk.stack, desk.world).case_id}/rejection", {"reason": "not_returned"}


def _note(desk: Desk) -> tuple[str, dict[str, str]]:
    return f"/cases/{lives.open_case(desk.stack, desk.world).case_id}/notes", {"note": "Ilse rang about it."}


def _work_out(desk: Desk) -> tuple[str, dict[str, str]]:
    return f"/cases/{lives.propose(desk.stack, desk.world)['case_id']}/entitlements", {}


def _close(desk: Desk) -> tuple[str, dict[str, str]]:
    opened = lives.open_case(desk.stack, desk.world, (("TEE", 2),))
    lives.arrive(desk.stack, desk.world, opened.case_id, ("TEE", 1))
    desk.pay(lives.intents(desk.stack, desk.world, opened.case_id)[-1]["intent_id"])
    return f"/cases/{opened.case_id}/closing", {}


def _open_return(desk: Desk) -> tuple[str, dict[str, str]]:
    fields = {"quantity_1": "1", "quantity_2": "", "reason": "size", "conversation": "", "note": "", "answer": ""}
    return f"/counter/orders/{desk.world.order.order_id}", fields


def _report(desk: Desk) -> tuple[str, dict[str, str]]:
    case_id = lives.open_case(desk.stack, desk.world).case_id
    return f"/goods-in/{case_id}", {"received_1": "1", "grade_1_0": "A", "found_1_0": "tags on", "bench": "7"}


def _ask_raise(desk: Desk) -> tuple[str, dict[str, str]]:
    return "/cap/raises", {"currency": "GBP", "limit": "12,000.00", "reason": "A recall"}


def _raise_asked_by_mara(desk: Desk) -> UUID:
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        return ask_raise(db, desk.world.merchant_id, desk.world.mara.staff_id, "GBP", 12_000_00, "A recall")


def _grant(desk: Desk) -> tuple[str, dict[str, str]]:
    return f"/cap/raises/{_raise_asked_by_mara(desk)}/grant", {}


def _turn_down(desk: Desk) -> tuple[str, dict[str, str]]:
    return f"/cap/raises/{_raise_asked_by_mara(desk)}/refusal", {}


_ROWS = "SELECT count(*) AS n FROM {} WHERE merchant_id = :m"
ACTS = (
    Act("approve", _approve, _ROWS.format("approvals")),
    Act("withdraw", _withdraw, _ROWS.format("events") + " AND to_state = 'withdrawn'"),
    Act("reject", _reject, _ROWS.format("cases") + " AND stage = 'rejected'"),
    Act("note", _note, _ROWS.format("notes")),
    Act("work out again", _work_out, _ROWS.format("entitlements")),
    Act("close the rest", _close, _ROWS.format("events") + " AND kind = 'case.rest_closed'"),
    Act("open a return", _open_return, _ROWS.format("cases")),
    Act("report goods", _report, _ROWS.format("evidence")),
    Act("ask for a raise", _ask_raise, _ROWS.format("cap_raises"), manager=True),
    Act("grant a raise", _grant, _ROWS.format("cap_raises") + " AND granted", manager=True),
    Act("turn a raise down", _turn_down, _ROWS.format("cap_raises") + " AND NOT granted", manager=True),
)
each_act = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)


def post(desk: Desk, browser: Browser, path: str, fields: dict[str, str], **more: str) -> int:
    """Sends the act with a fresh operation key and the browser's own token."""
    given = {"csrf_token": token_of(browser.shown), "operation": secrets.token_hex(16), **fields, **more}
    return browser.ask("POST", path, data=given).status_code


@each_act
def test_it_works_once_however_often_it_is_sent(desk: Desk, act: Act) -> None:
    path, fields = act.prepare(desk)
    before = desk.rows(act.changes)[0]["n"]
    browser, operation = desk.at(act.who(desk)), secrets.token_hex(16)
    for _ in range(3):
        assert post(desk, browser, desk.url(path), fields, operation=operation) == 303
    expected = {"report goods": 2}.get(act.name, 1)
    assert desk.rows(act.changes)[0]["n"] == before + expected


@each_act
def test_it_refuses_get(desk: Desk, act: Act) -> None:
    path, fields = act.prepare(desk)
    before = desk.rows(act.changes)[0]["n"]
    browser = desk.at(act.who(desk))
    answer = browser.ask("GET", desk.url(path), query_string=fields)
    assert answer.status_code in (200, 405)
    assert desk.rows(act.changes)[0]["n"] == before


@each_act
def test_a_stranger_finds_nothing(desk: Desk, act: Act) -> None:
    path, fields = act.prepare(desk)
    before = desk.rows(act.changes)[0]["n"]
    north = build_world(desk.stack, f"north-{desk.world.slug}")
    stranger = desk.at(north.jonas)
    assert post(desk, stranger, desk.url(path), fields) == 404
    if path != "/cap/raises":
        assert post(desk, stranger, desk.url(path, north), fields) == 404
    assert desk.rows(act.changes)[0]["n"] == before


@each_act
def test_a_reader_and_an_admin_are_refused(desk: Desk, act: Act) -> None:
    path, fields = act.prepare(desk)
    before = desk.rows(act.changes)[0]["n"]
    refused = [desk.world.rita, desk.world.ada, *([desk.world.priya] if act.manager else [])]
    for person in refused:
        assert post(desk, desk.at(person), desk.url(path), fields) == 403
    assert desk.rows(act.changes)[0]["n"] == before


@each_act
def test_it_refuses_a_form_without_a_token_and_one_with_a_field_too_many(desk: Desk, act: Act) -> None:
    path, fields = act.prepare(desk)
    before = desk.rows(act.changes)[0]["n"]
    browser = desk.at(act.who(desk))
    assert post(desk, browser, desk.url(path), fields, csrf_token="") == 400
    for field in ("amount_minor", "destination", "actor", "role", "merchant_id"):
        assert post(desk, browser, desk.url(path), {**fields, field: "1"}) == 422
    assert desk.rows(act.changes)[0]["n"] == before


def test_somebody_who_lost_their_role_between_page_and_post_is_refused(desk: Desk) -> None:
    path, fields = _approve(desk)
    priya = desk.at(desk.world.priya)
    with transaction(desk.stack.owner, desk.world.merchant_id) as db:
        db.exec_driver_sql("UPDATE memberships SET role = 'reader' WHERE staff_id = %s", (desk.world.priya.staff_id,))
    assert post(desk, priya, desk.url(path), fields) == 403
    assert desk.count("approvals") == 0
