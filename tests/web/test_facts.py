"""What is stated of a case beside goods and parcels, from the form to the refund: each fact with its figure."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.database import run, transaction
from ledger.entitlement_audit import prove
from ledger.entitlement_store import read_record
from ledger.errors import SamePerson
from ledger.ids import uuid7
from tests import lives
from tests.allowances import generous_policy, record_of
from tests.refunds import as_administrator
from tests.sales import lamps, sold
from tests.stack import Stack, without
from tests.web.desk import Desk, pay_due
from tests.world import World, build_world

POLICY = {
    "refund_trigger": "received", "label": {"minor": {"EUR": 395}}, "faulty": {"refund_first": False},
    "warranty": {"months": 60, "full_months": 24, "method": "prorata"}, "shipping": {"full_return": "full"},
}  # fmt: skip


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy(**POLICY))


def asked(desk: Desk, *lines: tuple[str, int], **changes: Any) -> UUID:
    return lives.open_case(desk.stack, desk.world, lines, order_ref="SALE-1", **changes).case_id


def state(desk: Desk, case_id: UUID, kind: str, status: int = 200, **values: str) -> Any:
    """Priya states a fact on its form."""
    priya = desk.at(desk.world.priya)
    form = priya.get(desk.url(f"/cases/{case_id}/facts/{kind}")).form(f"/facts/{kind}")
    return priya.submit(form, status, **values)


def owed(desk: Desk, case_id: UUID) -> tuple[str, int]:
    record = record_of(desk.stack, desk.world, case_id)
    return record["outcome"], record["total"]


def found(desk: Desk, case_id: UUID) -> set[str]:
    return {rule["reason_code"] for rule in record_of(desk.stack, desk.world, case_id)["rules"]}


def paid(desk: Desk, case_id: UUID) -> int:
    """Tobias approves what was proposed, and it is paid."""
    intent = lives.intents(desk.stack, desk.world, case_id)[-1]
    lives.approve_as(desk.stack, desk.world, desk.world.tobias, intent["intent_id"])
    pay_due(desk.stack, desk.world)
    return int(intent["amount_minor"])


def test_goods_that_were_lost_are_paid_whole_with_shipping_once_somebody_found_that(desk: Desk) -> None:
    sold(desk.stack, desk.world, lamps(delivered_at=None))
    case_id = asked(desk, ("LAMP", 2), reason="not_delivered")
    assert owed(desk, case_id) == ("wait", 0)
    assert "Not known where the goods are" in desk.at(desk.world.priya).get(desk.case(case_id)).text
    page = state(desk, case_id, "not_delivered", line="LAMP", said="lost", happened_on="2026-11-28", note="trace 4711")
    for text in ("Desk lamp: They were lost on the way, 28 Nov", "trace 4711", "They were lost on the way"):
        assert text in page.text
    assert owed(desk, case_id) == ("payable", 10_000 + 490 + 600)
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        stored = read_record(db, desk.world.merchant_id, case_id)
    assert stored is not None
    assert prove(stored) == []
    assert paid(desk, case_id) == 11_090


def test_what_was_cancelled_and_did_arrive_is_not_paid_and_an_arrival_on_record_is_a_conflict(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1), reason="cancelled")
    state(desk, case_id, "not_delivered", line="LAMP", said="not_dispatched")
    # Half of the insurance goes with one of two lamps; shipping waits for the other.
    assert owed(desk, case_id) == ("payable", 5300)
    assert "said_to_be_delivered" in found(desk, case_id)
    state(desk, case_id, "not_delivered", line="LAMP", said="delivered")
    assert owed(desk, case_id) == ("refused", 0)
    assert [row["state"] for row in desk.rows("SELECT state FROM intents WHERE merchant_id = :m")] == ["withdrawn"]


def test_a_repair_comes_first_and_one_that_did_not_help_leaves_it_to_the_refund(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1), reason="faulty")
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 1), grade="M")
    assert (owed(desk, case_id), "cure_comes_first" in found(desk, case_id)) == (("wait", 0), True)
    state(desk, case_id, "cure", line="LAMP", said="failed", cure="repair", happened_on="2026-11-28")
    assert owed(desk, case_id)[0] == "payable"
    assert paid(desk, case_id) == owed(desk, case_id)[1] >= 5000


def test_what_was_repaired_ends_the_claim_and_a_second_fault_of_the_unit_needs_no_second_repair(desk: Desk) -> None:
    sold(desk.stack, desk.world, lamps(quantity=1, unit_price_minor=10_000))
    case_id = asked(desk, ("LAMP", 1), reason="faulty")
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 1), grade="M")
    state(desk, case_id, "cure", line="LAMP", said="done", cure="repair", happened_on="2026-11-28")
    assert (owed(desk, case_id), "cured" in found(desk, case_id)) == (("refused", 0), True)
    priya = desk.at(desk.world.priya)
    priya.submit(priya.get(desk.url(f"/cases/{case_id}/rejection")).form("/rejection"), reason="cured")
    again = asked(desk, ("LAMP", 1), reason="faulty", reference="chat-2")
    lives.arrive(desk.stack, desk.world, again, ("LAMP", 1), grade="M")
    assert owed(desk, again)[0] == "payable"
    assert "cure_comes_first" not in found(desk, again)


@pytest.mark.parametrize(("said", "minor"), [("unused", 11_090), ("used", 10_490)])
def test_an_insurance_goes_back_unused_and_until_somebody_knows_a_person_looks(
    desk: Desk, said: str, minor: int
) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 2))
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 2))
    assert "not_known_whether_it_was_used" in found(desk, case_id)
    state(desk, case_id, "fee_use", line="COVER", said=said)
    assert owed(desk, case_id) == ("payable", minor)
    assert "not_known_whether_it_was_used" not in found(desk, case_id)
    assert paid(desk, case_id) == minor


def test_who_fetches_the_goods_bears_that_and_the_money_may_not_wait(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 2))
    assert record_of(desk.stack, desk.world, case_id)["due_at"] is None
    state(desk, case_id, "collection", said="offered")
    record = record_of(desk.stack, desk.world, case_id)
    assert record["due_at"] is not None
    assert (record["outcome"], "to_be_collected_and_not_booked_in" in found(desk, case_id)) == ("needs_review", True)
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 2))
    assert owed(desk, case_id)[0] == "payable"


@pytest.mark.parametrize(("collects", "minor"), [(False, 10_490 - 395), (True, 10_490)])
def test_no_label_comes_off_what_the_shop_fetches(desk: Desk, collects: bool, minor: int) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 2))
    priya = desk.at(desk.world.priya)
    form = priya.get(desk.url(f"/goods-in/{case_id}/parcel")).form("/parcel")
    priya.submit(form, tracking="JD014", sent_on="2026-11-30", our_label="y")
    if collects:
        state(desk, case_id, "collection", said="offered")
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 2))
    assert owed(desk, case_id) == ("payable", minor)


def test_who_is_not_the_buyer_is_paid_nothing_until_it_turns_out_that_it_was_the_buyer(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1))
    lives.arrive(desk.stack, desk.world, case_id, ("LAMP", 1))
    page = state(desk, case_id, "claimant", customer="nils@example.org")
    assert "Somebody else asks, not the buyer" in page.text
    assert (owed(desk, case_id), "another_customer's_order" in found(desk, case_id)) == (("refused", 0), True)
    state(desk, case_id, "claimant", customer="Ilse@Example.org")
    assert owed(desk, case_id)[0] == "payable"


def test_a_warranty_pays_the_months_that_are_left_once_the_laws_time_is_over(desk: Desk) -> None:
    as_administrator(desk.stack, "ALTER TABLE policies DISABLE TRIGGER append_only")
    as_administrator(desk.stack, "UPDATE policies SET effective = tstzrange('2022-01-01', upper(effective))")
    sold(desk.stack, desk.world, lamps(delivered_at="2022-11-20T10:00:00Z"), placed_at="2022-11-16T09:30:00Z")
    page, form = warranty(desk)
    page = page.submit(form, line="LAMP", units="1", failed_on="2026-11-25")
    (row,) = desk.rows("SELECT case_id FROM cases WHERE merchant_id = :m")
    # 48 of 60 months are over of a lamp of 50.00.
    assert owed(desk, row["case_id"]) == ("payable", 1000)
    assert "Warranty" in page.text
    assert paid(desk, row["case_id"]) == 1000


def test_while_the_laws_time_runs_a_warranty_pays_nothing_and_says_to_open_a_return(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    priya, form = warranty(desk)
    page = priya.submit(form, line="LAMP", units="1", failed_on="2026-11-25")
    assert "open a return for the fault instead" in page.text
    assert (
        lives.intents(
            desk.stack, desk.world, desk.rows("SELECT case_id FROM cases WHERE merchant_id = :m")[0]["case_id"]
        )
        == []
    )


LOST = {"line": "LAMP", "said": "lost"}


def warranty(desk: Desk) -> tuple[Any, Any]:
    priya = desk.at(desk.world.priya)
    (row,) = desk.rows("SELECT order_id FROM orders WHERE merchant_id = :m AND external_ref = 'SALE-1'")
    return priya, priya.get(desk.url(f"/orders/{row['order_id']}/warranty/")).form("/warranty/")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"failed_on": "2036-01-01"}, "The fault showed on: it happened today or before"),
        ({"failed_on": "soon"}, "The fault showed on: write the day as year, month and day"),
        ({"units": "0"}, "How many units: write a whole number"),
        ({"units": "9"}, "LAMP"),
        ({"line": "NONE"}, "Line: this order has no such line"),
    ],
)
def test_a_warranty_that_cannot_be_is_refused_by_its_field(desk: Desk, values: dict[str, str], says: str) -> None:
    sold(desk.stack, desk.world)
    priya, form = warranty(desk)
    page = priya.submit(
        form,
        status=409 if "9" in values.values() else 422,
        **{"line": "LAMP", "units": "1", "failed_on": "2026-11-25"} | values,
    )
    assert says in page.text
    assert desk.count("cases") == 0


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        ("not_delivered", {"line": "LAMP"}, "What is known: choose one"),
        ("not_delivered", {"line": "TEE", "said": "lost"}, "Line: the order of this case has no line"),
        (
            "not_delivered",
            {"line": "LAMP", "said": "lost", "happened_on": "2036-01-01"},
            "On which day: it happened today or before",
        ),
        (
            "not_delivered",
            {"line": "LAMP", "said": "lost", "happened_on": "yesterday"},
            "On which day: write the day as year, month and day",
        ),
        ("cure", {"line": "LAMP", "said": "done"}, "What was done: say what was done, and when"),
        ("cure", {"line": "LAMP", "said": "done", "cure": "repair"}, "On which day: say what was done, and when"),
        ("claimant", {"customer": ""}, "Who asks: write the number or the e-mail"),
        ("collection", {"note": "x" * 501, "said": "offered"}, "Note"),
    ],
)
def test_a_fact_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    desk: Desk, kind: str, values: dict[str, str], says: str
) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1), reason="faulty")
    assert says in state(desk, case_id, kind, status=422, **values).text
    assert desk.count("case_facts") == 0


def test_the_same_fact_twice_is_one_and_a_case_about_charges_takes_none(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1))
    for _ in range(2):
        state(desk, case_id, "collection", said="offered")
    assert desk.count("case_facts") == 1
    assert "State a fact…" in desk.at(desk.world.priya).get(desk.case(case_id)).text
    assert "We fetch the goods" in desk.at(desk.world.priya).get(desk.url(f"/cases/{case_id}/facts/")).text
    desk.at(desk.world.priya).get(desk.url(f"/cases/{case_id}/facts/fee_use"))
    kept = as_administrator(desk.stack, "SELECT count(*) AS n FROM events WHERE kind = 'fact.stated'")
    assert kept == [{"n": 1}]


@pytest.mark.parametrize("guarded", [True, False])
def test_whoever_stated_a_fact_does_not_approve_what_it_pays_and_without_the_guard_they_would(
    desk: Desk, guarded: bool
) -> None:
    sold(desk.stack, desk.world, lamps(delivered_at=None))
    case_id = asked(desk, ("LAMP", 2), reason="not_delivered")
    state(desk, case_id, "not_delivered", line="LAMP", said="lost")
    intent_id = lives.intents(desk.stack, desk.world, case_id)[-1]["intent_id"]
    assert "You stated a fact that this rests on" in desk.at(desk.world.priya).get(desk.case(case_id)).text
    if guarded:
        with pytest.raises(SamePerson, match="You stated a fact"):
            lives.approve_as(desk.stack, desk.world, desk.world.priya, intent_id)
        assert lives.state(desk.stack, desk.world, intent_id) == "proposed"
    else:
        without(desk.stack, "DROP TRIGGER not_on_their_own_word ON approvals")
        assert lives.approve_as(desk.stack, desk.world, desk.world.priya, intent_id).state == "approved"


def test_a_fact_that_is_stated_after_the_approval_calls_the_refund_back(desk: Desk) -> None:
    sold(desk.stack, desk.world, lamps(delivered_at=None))
    case_id = asked(desk, ("LAMP", 2), reason="cancelled")
    state(desk, case_id, "not_delivered", line="LAMP", said="not_dispatched")
    intent = lives.intents(desk.stack, desk.world, case_id)[-1]
    lives.approve_as(desk.stack, desk.world, desk.world.tobias, intent["intent_id"], window=300)
    state(desk, case_id, "not_delivered", line="LAMP", said="delivered")
    assert lives.state(desk.stack, desk.world, intent["intent_id"]) == "withdrawn"


def test_the_database_keeps_a_fact_as_its_kind_is_said_whoever_writes_it(desk: Desk) -> None:
    sold(desk.stack, desk.world)
    case_id = asked(desk, ("LAMP", 1))
    with pytest.raises(IntegrityError, match="said_as_its_kind_is_said"), desk_transaction(desk) as db:
        write_fact(db, desk, case_id, "collection", "lost")
    with pytest.raises(IntegrityError, match="of_a_line_or_the_case"), desk_transaction(desk) as db:
        write_fact(db, desk, case_id, "not_delivered", "lost")


def desk_transaction(desk: Desk) -> Any:
    return transaction(desk.stack.console, desk.world.merchant_id)


def write_fact(db: Any, desk: Desk, case_id: UUID, kind: str, said: str) -> None:
    run(db, "INSERT INTO case_facts (merchant_id, fact_id, case_id, number, kind, order_id, said, channel, actor)"
        " SELECT merchant_id, :id, case_id, 1, :kind, order_id, :said, 'counter', :who FROM cases WHERE merchant_id = :m"
        " AND case_id = :c", id=uuid7(), kind=kind, said=said, who=desk.world.priya.actor, m=desk.world.merchant_id,
        c=case_id)  # fmt: skip
