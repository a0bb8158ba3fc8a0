"""The reconciliation desk: finance asks and resolves, a manager reads, and what is resolved is added beside and stays."""

from typing import Any
from uuid import UUID

import pytest

from ledger.database import run, transaction
from ledger.errors import WrongState
from ledger.ids import uuid7
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk, token_of

HERE = "/reconciliation/"


def discrepancy(desk: Desk, kind: str = "amount", refund_ref: str = "re_1<b>") -> UUID:
    """A finished run and what it found, as a worker writes them."""
    run_id, found = uuid7(), uuid7()
    names: dict[str, Any] = {
        "m": desk.world.merchant_id, "r": run_id, "a": desk.world.provider_account_id, "d": found, "kind": kind, "ref": refund_ref,
        "ours": '{"amount_minor": "2490", "currency": "GBP", "state": "succeeded"}',
        "theirs": '{"amount_minor": "2497", "currency": "GBP", "status": "succeeded"}',
    }  # fmt: skip
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        for statement in _FOUND.split(";"):
            run(db, statement, **names)
    return found


_FOUND = """
    INSERT INTO reconciliation_runs (merchant_id, run_id, provider_account_id, from_at, to_at, asked_by, started_at, finished_at)
        VALUES (:m, :r, :a, now() - interval '9 days', now(), 'command', now(), now());
    INSERT INTO reconciliation_sides (merchant_id, run_id, side, position, pages, rows_read, done_at)
        VALUES (:m, :r, 'refunds', 0, 3, 201, now());
    INSERT INTO reconciliation_totals (merchant_id, run_id, part, currency, ours_minor, theirs_minor, ours_count, theirs_count)
        VALUES (:m, :r, 'refunds', 'GBP', 502490, 502497, 201, 201);
    INSERT INTO discrepancies (merchant_id, discrepancy_id, provider_account_id, run_id, kind, refund_ref, occurrence, ours,
        theirs, dated_at) VALUES (:m, :d, :a, :r, :kind, :ref, 1, CAST(:ours AS jsonb), CAST(:theirs AS jsonb), now());
    INSERT INTO reconciliation_findings (merchant_id, run_id, discrepancy_id, part, source_ref, currency, difference_minor)
        VALUES (:m, :r, :d, 'refunds', :ref, 'GBP', 7)
"""


def address(desk: Desk, found: UUID) -> str:
    return desk.url(f"{HERE}discrepancies/{found}")


def test_an_empty_desk_says_why_and_what_comes_next(desk: Desk) -> None:
    page = desk.at(desk.world.farah).get(desk.url(HERE))

    assert "Nothing was compared yet." in page.text
    assert "No run yet." in page.text
    assert "has not been checked against itself yet" in page.text


def test_finance_asks_for_a_run_and_a_second_submit_lands_on_it(desk: Desk) -> None:
    farah = desk.at(desk.world.farah)
    form = farah.get(desk.url(HERE)).form("/reconciliation/runs")

    page = farah.submit(form, since="2026-10-01", until="2026-10-31")
    again = farah.submit(form, since="2026-10-01", until="2026-10-31")

    (row,) = desk.rows("SELECT * FROM reconciliation_runs WHERE merchant_id = :m")
    assert row["asked_by"] == desk.world.farah.actor
    # Midnight in London, at either end of summer time.
    assert [row["from_at"].isoformat(), row["to_at"].isoformat()] == [
        "2026-09-30T23:00:00+00:00",
        "2026-11-01T00:00:00+00:00",
    ]
    for shown in (page, again):
        assert "Asked by Farah Osei" in shown.text
        assert "Queued, 0 %" in shown.text
    assert "Queued" in farah.get(desk.url(HERE)).text


def test_days_that_are_no_period_are_refused_beside_the_field(desk: Desk) -> None:
    farah = desk.at(desk.world.farah)
    form = farah.get(desk.url(HERE)).form("/reconciliation/runs")

    assert "Begin the period earlier" in farah.submit(form, status=422, since="2026-10-31", until="2026-10-01").text
    assert "covers at most 400 days" in farah.submit(form, status=422, since="2020-10-31", until="2026-10-01").text
    assert desk.count("reconciliation_runs") == 0


def test_the_list_shows_both_sides_by_kind_and_the_run_adds_up(desk: Desk) -> None:
    discrepancy(desk)
    farah = desk.at(desk.world.farah)

    page = farah.get(desk.url(HERE))

    assert "24.90" in page.text
    assert "24.97" in page.text
    assert "re_1<b>" in page.text
    assert "1 open" in page.text
    assert "Nothing differs of this kind." in farah.get(desk.url(f"{HERE}?kind=late")).text
    run_id = desk.rows("SELECT run_id FROM reconciliation_runs")[0]["run_id"]
    run_page = farah.get(desk.url(f"{HERE}runs/{run_id}"))
    assert "5,024.90 GBP" in run_page.text
    assert "201 rows on 3 pages read" in run_page.text
    assert "Every difference is the sum of the discrepancies below." in run_page.text


def test_a_difference_that_no_discrepancy_explains_is_said(desk: Desk) -> None:
    discrepancy(desk)
    as_administrator(desk.stack, "UPDATE reconciliation_totals SET theirs_minor = theirs_minor + 1")
    run_id = desk.rows("SELECT run_id FROM reconciliation_runs")[0]["run_id"]

    page = desk.at(desk.world.farah).get(desk.url(f"{HERE}runs/{run_id}"))

    assert "A part of a difference is explained by no discrepancy." in page.text
    assert "not all explained" in desk.at(desk.world.farah).get(desk.url(HERE)).text


def test_finance_takes_notes_and_resolves_and_each_is_one_row_more(desk: Desk) -> None:
    found = discrepancy(desk)
    farah = desk.at(desk.world.farah)
    page = farah.get(address(desk, found))
    take, note, resolve = page.form("/taking"), page.form("/notes"), page.form("/resolution")
    before = desk.rows("SELECT * FROM discrepancies WHERE merchant_id = :m")

    for form in (take, take):
        assert "you have it" in farah.submit(form).text
    for _ in range(2):
        assert (
            "Their statement shows 24.90"
            in farah.submit(note, note="Their statement shows 24.90, card 4242 4242 4242 4242").text
        )
    farah.submit(resolve, code="written_off", reason="Seven pence")
    done = farah.submit(resolve, code="written_off", reason="Seven pence")

    assert "Resolved: Written off" in done.text
    acts = desk.rows("SELECT kind, code, note, actor FROM discrepancy_acts WHERE merchant_id = :m ORDER BY at")
    assert [act["kind"] for act in acts] == ["taken", "noted", "resolved"]
    assert {act["actor"] for act in acts} == {desk.world.farah.actor}
    assert "4242 4242 4242" not in acts[1]["note"]
    assert desk.rows("SELECT * FROM discrepancies WHERE merchant_id = :m") == before
    assert not [form for form in done.forms if "/discrepancies/" in form.action]
    assert "Nothing differs." in farah.get(desk.url(HERE)).text


def test_a_code_that_gives_money_up_needs_its_reason(desk: Desk) -> None:
    found = discrepancy(desk)
    farah = desk.at(desk.world.farah)
    form = farah.get(address(desk, found)).form("/resolution")

    assert "Say why" in farah.submit(form, status=422, code="written_off", reason=" ").text
    assert farah.send(form, code="healed", reason="by itself").status_code == 422
    assert desk.count("discrepancy_acts") == 0


def test_of_two_who_resolve_the_first_stands_and_the_second_is_told(desk: Desk) -> None:
    found = discrepancy(desk)
    farah = desk.at(desk.world.farah)
    first, second = (farah.get(address(desk, found)).form("/resolution") for _ in range(2))

    farah.submit(first, code="timing", reason="")
    answer = farah.send(second, code="our_error", reason="Entered twice")

    assert answer.status_code == 409
    assert "Somebody has resolved this meanwhile" in answer.get_data(as_text=True)
    assert [row["code"] for row in desk.rows("SELECT code FROM discrepancy_acts WHERE merchant_id = :m")] == ["timing"]


@pytest.mark.parametrize("who", ["priya", "rita", "ada"])
def test_the_desk_is_not_everybodys(desk: Desk, who: str) -> None:
    found = discrepancy(desk)
    for path in (HERE, f"{HERE}discrepancies/{found}"):
        assert desk.at(getattr(desk.world, who)).ask("GET", desk.url(path)).status_code == 403


def test_a_manager_reads_and_changes_nothing(desk: Desk) -> None:
    found = discrepancy(desk)
    jonas = desk.at(desk.world.jonas)

    page = jonas.get(address(desk, found))

    assert not [form for form in page.forms if "/discrepancies/" in form.action]
    assert not [form for form in jonas.get(desk.url(HERE)).forms if "/reconciliation/" in form.action]
    token = token_of(page)
    for act in ("taking", "notes", "resolution"):
        answer = jonas.ask("POST", f"{address(desk, found)}/{act}", data={"csrf_token": token})
        assert answer.status_code == 403
    assert desk.count("discrepancy_acts") == 0


@pytest.mark.parametrize(
    ("about", "kind", "says"),
    [
        ("dispute", "missing_here", "The provider shows a dispute that the books did not have."),
        ("payment", "amount", "The provider took another amount than the books say: nothing of it is approved"),
        ("refund", "unreadable", "The provider's answer about it could not be read."),
    ],
)
def test_a_discrepancy_says_what_it_is_about_and_what_that_means(
    shared_desk: Desk, about: str, kind: str, says: str
) -> None:
    desk = shared_desk
    found = discrepancy(desk, kind, f"ref_of_{about}")
    as_administrator(
        desk.stack, "UPDATE discrepancies SET about = %s, run_id = CASE WHEN %s = 'payment' THEN NULL ELSE run_id END"
        " WHERE discrepancy_id = %s", about, about, found,
    )  # fmt: skip
    farah = desk.at(desk.world.farah)
    assert f"{about.capitalize()} ref_of_{about}" in farah.get(desk.url(HERE)).text
    assert says in farah.get(desk.url(f"{HERE}discrepancies/{found}")).text
    if about == "payment":
        refused_for_its_payment(desk, found)


def refused_for_its_payment(desk: Desk, found: UUID) -> None:
    """The confirm sheet names the discrepancy, and the database takes no approval."""
    intent = lives.propose(desk.stack, desk.world)
    as_administrator(
        desk.stack, "UPDATE discrepancies SET refund_ref = %s WHERE discrepancy_id = %s", intent["charge_ref"], found
    )
    as_administrator(
        desk.stack, "UPDATE captures SET verified_generation = 0 WHERE charge_ref = %s", intent["charge_ref"]
    )
    page = desk.at(desk.world.priya).get(f"{desk.refund(intent['intent_id'])}/approval", status=403)
    assert "The provider does not show this payment as the books have it (D-" in page.text
    assert "until finance has settled that" in page.text
    with pytest.raises(WrongState, match="is read again at the provider first"):
        lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
