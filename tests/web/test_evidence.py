"""Evidence decides: grades of ranges with what was found, serials, parcels, and contradictions that a person settles."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from console import conflicts
from ledger.approvals import insert_approval, sealed_approval
from ledger.assessment import work_out_again
from ledger.database import transaction
from ledger.entitlement_conflicts import CONTRADICTIONS
from ledger.errors import BadInput, NotAllowed
from ledger.evidence import Arrival, Graded, ReceivedLine, report_arrival
from ledger.fingerprint import read_intent
from tests import lives
from tests.orders import Line
from tests.stack import without
from tests.web.desk import Desk
from tests.web.pages import Form
from tests.world import add_order


def announced(desk: Desk, units: int = 3) -> UUID:
    return lives.open_case(desk.stack, desk.world, (("TEE", units),)).case_id


def bench(desk: Desk, case_id: UUID) -> Form:
    return desk.at(desk.world.tobias).get(desk.url(f"/goods-in/{case_id}")).form(f"/goods-in/{case_id}")


def arrive(desk: Desk, case_id: UUID, count: int, *found: Graded) -> None:
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        report_arrival(
            db, desk.world.merchant_id, case_id,
            Arrival((ReceivedLine("TEE", count, found),), "warehouse", desk.world.warehouse.actor),
        )  # fmt: skip


def test_one_unit_has_a_serial_and_a_reason_and_the_rest_is_graded_as_a_range(desk: Desk) -> None:
    case_id = announced(desk)
    page = desk.at(desk.world.tobias).submit(
        bench(desk, case_id), received_1="3", grade_1_0="M", found_1_0="seam open", reason_1_0="faulty", serial_1_0="SN-4410",
        alike_1="2", alikegrade_1="A", alikereason_1="size",
    )  # fmt: skip

    found = desk.rows(
        "SELECT lower(units) AS a, upper(units) AS b, grade, reason_found, serial FROM evidence WHERE merchant_id = :m"
        " AND kind = 'inspected' ORDER BY number"
    )
    assert found == [
        {"a": 0, "b": 1, "grade": "M", "reason_found": "faulty", "serial": "SN-4410"},
        {"a": 1, "b": 3, "grade": "A", "reason_found": "size", "serial": None},
    ]
    for text in ("seam open Reason found: faulty. Serial SN-4410.", "2–3", "Reason found: size."):
        assert text in page.text


def test_a_loss_in_value_comes_off_as_it_was_assessed_and_stands_beside_the_grade(desk: Desk) -> None:
    case_id = announced(desk)
    tobias = desk.at(desk.world.tobias)
    page = tobias.submit(
        bench(desk, case_id), received_1="3", grade_1_0="C", found_1_0="stain", loss_1_0="12.5 %", alike_1="2",
        alikegrade_1="C", alikeloss_1="0",
    )  # fmt: skip
    found = desk.rows("SELECT assessed_bps FROM evidence WHERE merchant_id = :m AND kind = 'inspected' ORDER BY number")
    assert [row["assessed_bps"] for row in found] == [1250, 0]
    assert "stain Loss in value assessed: 12.5 %." in page.text
    assert "Loss in value assessed: 0 %." in page.text
    (intent,) = desk.rows("SELECT amount_minor FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    assert intent["amount_minor"] == 3 * 2490 - 311  # 12.5 % of one T-shirt


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"received_1": "3", "alike_1": "0", "alikegrade_1": "A"}, "write a whole number of at least 1"),
        ({"received_1": "3", "alike_1": "2"}, "choose a grade"),
        ({"received_1": "3", "alikegrade_1": "A"}, "say how many units have this grade"),
        ({"received_1": "3", "serial_1_0": "SN-1"}, "a finding needs a grade"),
        ({"received_1": "3", "loss_1_0": "40"}, "a finding needs a grade"),
        ({"received_1": "3", "grade_1_0": "A", "loss_1_0": "40"}, "only grades c and d have a loss"),
        ({"received_1": "3", "grade_1_0": "C", "loss_1_0": "-4"}, "write 0 to 100 percent"),
        ({"received_1": "3", "grade_1_0": "C", "loss_1_0": "100.01"}, "write 0 to 100 percent"),
        ({"received_1": "3", "grade_1_0": "C", "loss_1_0": "12.345"}, "write 0 to 100 percent"),
        ({"received_1": "3", "grade_1_0": "D", "loss_1_0": "half"}, "write 0 to 100 percent"),
        (
            {"received_1": "3", "alike_1": "3", "alikegrade_1": "B", "alikeloss_1": "4"},
            "only grades c and d have a loss",
        ),
        ({"received_1": "3", "alikeloss_1": "4"}, "say how many units have this grade"),
        ({"received_1": "3", "grade_1_0": "A", "reason_1_0": "magic"}, "choose a reason of the list"),
        ({"received_1": "3", "alike_1": "9", "alikegrade_1": "A"}, "more units are graded than"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field_and_nothing_is_stored(
    desk: Desk, typed: dict[str, str], said: str
) -> None:
    case_id = announced(desk)
    page = desk.at(desk.world.tobias).submit(bench(desk, case_id), 422, **typed)
    assert said in page.text.lower() or said in page.text
    assert desk.rows("SELECT 1 FROM evidence WHERE merchant_id = :m AND kind <> 'announced'") == []


def test_a_parcel_that_is_on_its_way_is_recorded_once_and_shown(desk: Desk) -> None:
    case_id = announced(desk)
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.url(f"/goods-in/{case_id}/parcel")).form("/parcel")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    typed = {"tracking": "JD014 600", "sent_on": yesterday, "proof": "carrier", "our_label": "y"}
    tobias.submit(form, 200, **typed)
    page = tobias.submit(form, 200, **typed)
    assert "JD014 600" in page.text
    assert "scanned by the carrier, with our label" in page.text
    assert desk.count("parcels") == 1
    (record,) = desk.rows("SELECT record->'bound'->>'evidence' AS bound, evidence FROM entitlements WHERE merchant_id = :m"
                          " ORDER BY n DESC LIMIT 1")  # fmt: skip
    assert '"by_carrier":true' in record["evidence"]
    assert '"parcels_on_our_label":1' in record["evidence"]


@pytest.mark.parametrize("day", ["yesterday", "2026-02-31", "2126-01-01"])
def test_a_day_that_is_none_or_lies_ahead_is_refused(desk: Desk, day: str) -> None:
    case_id = announced(desk)
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.url(f"/goods-in/{case_id}/parcel")).form("/parcel")
    assert "Error:" in tobias.submit(form, 422, tracking="JD014", sent_on=day, proof="customer").title
    assert desk.count("parcels") == 0


def contradicting(desk: Desk) -> dict[str, Any]:
    """Two were announced and three came: the refund of two waits for a manager."""
    case_id = announced(desk, 2)
    arrive(desk, case_id, 3, Graded(2, "A"))
    (intent,) = desk.rows("SELECT intent_id, case_id, route FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    assert intent["route"] == "manager"
    return intent


def test_a_contradiction_is_stated_and_settled_by_a_manager_with_a_reason(desk: Desk) -> None:
    intent = contradicting(desk)
    jonas = desk.at(desk.world.jonas)
    page = jonas.get(desk.case(intent["case_id"]))
    assert "The records contradict one another." in page.text
    assert "Line TEE: 3 arrived, 2 were announced." in page.text

    sheet = desk.confirm(desk.world.jonas, intent["intent_id"])
    page = jonas.submit(sheet, 422)
    assert "The records of this case contradict one another: say how you settled that." in page.text
    assert desk.state(intent["intent_id"]) == "proposed"
    jonas.submit(
        desk.confirm(desk.world.jonas, intent["intent_id"]), note="the third is Omar's, it lay in the same box"
    )
    assert desk.state(intent["intent_id"]) == "approved"


def test_the_desk_is_told_that_a_contradiction_is_why_a_manager_decides_and_not_the_amount(desk: Desk) -> None:
    intent = contradicting(desk)
    priya = desk.at(desk.world.priya)
    said = "A manager decides this refund: more arrived than was announced. Hand it to a manager."
    sheet = f"{desk.refund(intent['intent_id'])}/approval"
    for page in (priya.get(desk.case(intent["case_id"])), priya.get(sheet, status=403)):
        assert said in page.text
        assert "above" not in page.text
    seen = lives.see(desk.stack, desk.world, intent["intent_id"])
    with pytest.raises(NotAllowed, match="A manager decides this refund"):
        lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"], seen)


def test_the_database_refuses_a_silent_approval_of_a_contradiction_and_takes_it_without_the_trigger(desk: Desk) -> None:
    intent = contradicting(desk)
    silent = lives.see(desk.stack, desk.world, intent["intent_id"], "")

    def written() -> None:
        with transaction(desk.stack.console, desk.world.merchant_id) as db:
            row = read_intent(db, desk.world.merchant_id, intent["intent_id"])
            assert row is not None
            insert_approval(db, sealed_approval(row, desk.world.jonas.staff_id, silent, lives.sealer()))

    with pytest.raises(BadInput, match="the records of this case contradict"):
        lives.approve_as(desk.stack, desk.world, desk.world.jonas, intent["intent_id"], silent)
    with pytest.raises(IntegrityError, match="a conflict is settled with a reason"):
        written()
    without(desk.stack, "DROP TRIGGER of_what_stands ON approvals")
    written()
    assert desk.count("approvals") == 1


def test_a_serial_that_came_back_in_another_case_is_seen_before(desk: Desk) -> None:
    first = announced(desk, 1)
    arrive(desk, first, 1, Graded(1, "A", serial="SN-1"))
    second = lives.open_case(
        desk.stack, desk.world, (("TEE", 1),), reference="chat-2", relation="separate", reason="size"
    ).case_id
    arrive(desk, second, 1, Graded(1, "A", serial="SN-1"))
    (row,) = desk.rows("SELECT priors FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1",
                       c=second)  # fmt: skip
    assert '"serials_back":["SN-1"]' in row["priors"]
    page = desk.at(desk.world.jonas).get(desk.case(second))
    assert "Units TEE[1,2): the serial SN-1 came back in another case before." in page.text


def came_back(desk: Desk, order_ref: str, serial: str, *, grade: str = "A") -> UUID:
    order = add_order(desk.stack, desk.world, order_ref)
    case_id = lives.open_case(
        desk.stack, desk.world, (("TEE", 1),), order_ref=order.external_ref, reference=order_ref
    ).case_id
    arrive(desk, case_id, 1, Graded(1, grade, serial=serial))
    return case_id


def test_a_serial_that_came_back_on_another_order_goes_to_a_manager_who_reads_where_it_was_seen(desk: Desk) -> None:
    first = came_back(desk, "A-1", "SN-7")
    other = came_back(desk, "A-2", "SN-8")
    second = came_back(desk, "A-3", "SN-7")
    said = "the serial SN-7 came back in another case before."
    jonas = desk.at(desk.world.jonas)
    assert f"Units TEE[0,1): {said}" in jonas.get(desk.case(second)).text
    for plain in (first, other):
        assert "The records contradict one another." not in jonas.get(desk.case(plain)).text
    routes = desk.rows("SELECT case_id, route FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    assert {row["case_id"]: row["route"] for row in routes} == {first: "desk", other: "desk", second: "manager"}


def test_what_was_none_of_ours_or_was_rejected_is_no_earlier_return_of_a_serial(desk: Desk) -> None:
    came_back(desk, "A-1", "SN-7", grade="X")
    rejected = came_back(desk, "A-2", "SN-7")
    tobias = desk.at(desk.world.tobias)
    tobias.submit(tobias.get(f"{desk.case(rejected)}/rejection").form("/rejection"), reason="other")
    second = came_back(desk, "A-3", "SN-7")
    assert "came back in another case" not in desk.at(desk.world.jonas).get(desk.case(second)).text


def test_the_earlier_return_is_not_doubted_when_it_is_worked_out_again_after_the_later_one(desk: Desk) -> None:
    first = came_back(desk, "A-1", "SN-7")
    came_back(desk, "A-2", "SN-7")
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        work_out_again(db, desk.world.merchant_id, first, desk.world.tobias.actor)
    assert "came back in another case" not in desk.at(desk.world.jonas).get(desk.case(first)).text


def test_the_queue_marks_a_contradiction_in_words_and_has_a_view_of_them(desk: Desk) -> None:
    plain = lives.open_case(desk.stack, desk.world, (("LAMP", 1),), reference="chat-9")
    case_id = contradicting(desk)["case_id"]
    (number,) = (row["number"] for row in desk.rows("SELECT number FROM cases WHERE case_id = :c", c=case_id))
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url("/queue/"))
    assert page.text.count("Contradicting") == 2  # the view, and one row
    view = priya.get(next(link for link in page.links if "view=contradicting" in link))
    assert f"C-{number}" in view.text
    assert f"C-{plain.number}" not in view.text
    assert "1–1 of 1" in view.text

    jonas = desk.at(desk.world.jonas)
    jonas.submit(jonas.get(f"{desk.case(case_id)}/rejection").form("/rejection"), reason="other")
    assert "No records contradict." in priya.get(desk.url("/queue/?view=contradicting")).text


def test_every_contradiction_that_the_engine_finds_has_its_sentence() -> None:
    assert set(conflicts.SAID) == CONTRADICTIONS


def test_a_unit_that_was_scanned_wrongly_is_offered_again_and_pays_once_it_is_scanned_right(desk: Desk) -> None:
    drill = Line("DRILL", 1, 5000, sku="DRILL", title="Drill", serials=("S1",))
    add_order(desk.stack, desk.world, "D-1", lines=(drill,))
    case_id = lives.open_case(desk.stack, desk.world, (("DRILL", 1),), order_ref="D-1", reference="d-1").case_id
    tobias = desk.at(desk.world.tobias)
    tobias.submit(bench(desk, case_id), received_1="1", grade_1_0="A", serial_1_0="S9")
    newest = (
        "SELECT outcome, total_minor FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1"
    )
    assert desk.rows(newest, c=case_id) == [{"outcome": "refused", "total_minor": 0}]
    tobias.submit(bench(desk, case_id), grade_1_0="A", serial_1_0="S1")
    assert desk.rows(newest, c=case_id) == [{"outcome": "payable", "total_minor": 5000}]
    assert "grade_1_0" not in bench(desk, case_id).values
