"""What is over is erased, and whom two admins agreed to forget: nothing of the person remains, and the money proves itself."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql
from sqlalchemy.exc import IntegrityError

from jobs import erasure, self_check
from jobs.worker import Worker
from ledger.cases import reject
from ledger.database import rows, run, scalar, transaction
from ledger.entitlement_audit import NOTES, prove
from ledger.entitlement_store import read_pages
from ledger.erasure import answer_erasure, ask_erasure, erase_texts
from ledger.errors import BadInput, SamePerson, WrongState
from ledger.events import broken_link
from ledger.evidence import Arrival, Graded, Parcel, ReceivedLine, add_photo, report_arrival, report_parcel
from ledger.ids import uuid7
from ledger.notes import add_note
from ledger.orders import UPSERT_CUSTOMER
from ledger.unmatched_receipts import Unmatched, keep_unmatched, match_receipt
from tests import lives
from tests.orders import sha256
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import pay
from tests.world import World

# Each is written in one place that takes words or contact.
MARK = "Xanthippe"
PICTURE = b"\x89PNG the seam, photographed by Xanthippe"


@pytest.fixture
def world(world: World, stack: Stack) -> World:
    """Jonas keeps people too, and Ilse has a name that stands nowhere else."""
    as_administrator(stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", world.jonas.staff_id)
    as_administrator(
        stack, "UPDATE customers SET name = %s, email = %s WHERE customer_id = %s", f"{MARK} Brandt", f"{MARK}@example.org",
        world.ilse,
    )  # fmt: skip
    return world


_CLAIMANT = """
    INSERT INTO case_facts (merchant_id, fact_id, case_id, number, kind, order_id, said, customer_ref, note, channel, actor)
    SELECT merchant_id, :id, case_id, 1, 'claimant', order_id, 'buyer', :mark, :mark, 'chat', :who FROM cases
    WHERE merchant_id = :m AND case_id = :c
"""


def told(stack: Stack, world: World) -> UUID:
    """A return with the mark in every place that takes words: asked, received, looked at, noted, photographed."""
    opened = lives.open_case(
        stack,
        world,
        customer_text=f"{MARK} says: too small",
        reference=f"chat-{MARK}",
        customer_verified="order_and_email",
    )
    case_id = opened.case_id
    with transaction(stack.console, world.merchant_id) as db:
        sent = Parcel(f"JD-{MARK}", scalar(db, "SELECT now()"), "customer", False, "chat", world.chat.actor)
        report_parcel(db, world.merchant_id, case_id, sent)
        add_photo(
            db,
            world.merchant_id,
            case_id,
            PICTURE,
            "image/png",
            sha256(PICTURE),
            sha256(b"o"),
            f"by {MARK}",
            world.priya.actor,
        )
        add_note(db, world.merchant_id, case_id, world.priya.staff_id, uuid7(), f"{MARK} called")
        graded = (Graded(1, "A", f"label of {MARK}"),)
        aside = Arrival((ReceivedLine("TEE", 1, graded),), "warehouse", world.warehouse.actor, f"box {MARK}")
        keep_unmatched(db, world.merchant_id, Unmatched(aside, "nothing_named", note=f"from {MARK}", order_ref=MARK))
        receipt_id = scalar(db, "SELECT receipt_id FROM unmatched_receipts WHERE merchant_id = :m", m=world.merchant_id)
        run(db, _CLAIMANT, m=world.merchant_id, c=case_id, id=uuid7(), who=world.chat.actor, mark=f"{MARK}@example.org")
        match_receipt(db, world.merchant_id, receipt_id, case_id, world.priya.staff_id, [("TEE", 1)])
        again = Arrival(
            (ReceivedLine("TEE", 0, (Graded(1, "A", f"{MARK} again"),)),), "warehouse", world.warehouse.actor, MARK
        )
        with pytest.raises(BadInput):
            report_arrival(db, world.merchant_id, case_id, again)
    return case_id


def forget(stack: Stack, world: World, customer: str = "C-1001") -> UUID:
    """Ada asks and Jonas agrees."""
    erasure_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        ask_erasure(db, world.merchant_id, erasure_id, customer, "a letter, signed", world.ada.staff_id)
    with transaction(stack.console, world.merchant_id) as db:
        assert answer_erasure(db, world.merchant_id, erasure_id, world.jonas.staff_id, granted=True)
    return erasure_id


def places(stack: Stack, mark: str) -> set[str]:
    """Every column of the database in which the mark stands: text, JSON, bytes and all others, as text."""
    found = set()
    with stack.admin() as db:
        columns = db.execute(
            "SELECT c.relname, a.attname, a.atttypid = 'bytea'::regtype FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped"
        ).fetchall()
        for table, column, is_bytes in columns:
            as_text = sql.SQL("encode({}, 'escape')" if is_bytes else "{}::text").format(sql.Identifier(column))
            where = sql.SQL("position(lower(%s) in lower({})) > 0").format(as_text)
            statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(sql.Identifier(table), where)
            count = db.execute(statement, [mark]).fetchone()
            if count and count[0]:
                found.add(f"{table}.{column}")
    return found


def closed_long_ago(stack: Stack, case_id: UUID, days: int) -> None:
    """Time passes for one case."""
    as_administrator(
        stack, "UPDATE cases SET closed_at = closed_at - make_interval(days => %s) WHERE case_id = %s", days, case_id
    )
    with stack.past_guards() as db:
        db.execute("UPDATE photos SET at = at - make_interval(days => %s) WHERE case_id = %s", [days, case_id])


def proofs(stack: Stack, world: World, case_id: UUID) -> list[str]:
    """What speaks against chain, entitlements and books."""
    found: list[str] = []
    with transaction(stack.worker, world.merchant_id, read_only=True) as db:
        link = broken_link(db, world.merchant_id, case_id)
    found += [f"chain broken at {link}"] if link else []
    found += [fault.kind for _, faults in self_check.walk(stack.worker, world.merchant_id) for fault in faults]
    for page in read_pages(stack.worker, world.merchant_id):
        found += [one.name for stored in page for one in prove(stored) if one.name not in NOTES]
    return found


_MONEY = """
    SELECT intent_id, amount_minor, state, destination_last4, fingerprint FROM intents i LEFT JOIN approvals a
        USING (merchant_id, intent_id) ORDER BY 1;
    SELECT transfer_id, step, amount_minor FROM transfers ORDER BY 1;
    SELECT entitlement_id, record::text, digest FROM entitlements ORDER BY 1
"""


def money(stack: Stack, world: World) -> list[dict[str, Any]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [dict(row) for statement in _MONEY.split(";") for row in rows(db, statement)]


def test_nothing_of_a_person_remains_and_the_money_still_proves_itself(
    worker: Worker, stack: Stack, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    case_id = told(stack, world)
    pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
    before = money(stack, world)
    assert {
        "customers.name", "customers.email", "conversations.customer_text", "conversations.reference", "evidence.note",
        "notes.text", "photos.caption", "photos.content", "parcels.tracking", "case_facts.note", "case_facts.customer_ref",
            "unmatched_receipts.note",
        "unmatched_receipts.parcel", "unmatched_receipts.lines", "unmatched_receipts.order_ref",
    } <= places(stack, MARK)  # fmt: skip
    forget(stack, world)
    counts = erasure.run_once(worker)
    assert counts["requests"] == 1
    assert places(stack, MARK) == set()
    assert proofs(stack, world, case_id) == []
    assert money(stack, world) == before
    out = capsys.readouterr()
    assert MARK not in out.out + out.err
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        kinds = rows(
            db, "SELECT kind, body FROM events WHERE merchant_id = :m ORDER BY number DESC LIMIT 2", m=world.merchant_id
        )
        done = rows(db, "SELECT cases, photos FROM erasures WHERE done_at IS NOT NULL")
    assert [row["kind"] for row in kinds] == ["photos.erased", "texts.erased"]
    assert [dict(row) for row in done] == [{"cases": 1, "photos": 1}]
    assert not erasure.run_once(worker)


def test_an_old_file_does_not_bring_a_person_back(worker: Worker, stack: Stack, world: World) -> None:
    forget(stack, world)
    erasure.run_once(worker)
    with transaction(stack.console, world.merchant_id) as db:
        run(
            db,
            UPSERT_CUSTOMER,
            m=world.merchant_id,
            id=uuid7(),
            ref="C-1001",
            name=f"{MARK} Brandt",
            email=MARK,
            stated=True,
        )
    assert places(stack, MARK) == set()


def test_an_open_case_keeps_what_was_said_until_it_is_closed(worker: Worker, stack: Stack, world: World) -> None:
    case_id = told(stack, world)
    forget(stack, world)
    assert not erasure.run_once(worker)
    assert "notes.text" in places(stack, MARK)
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, case_id, world.priya.actor, "outside_window")
    assert erasure.run_once(worker)["requests"] == 1
    assert places(stack, MARK) == set()


def test_texts_and_photos_go_each_when_its_own_time_is_over(worker: Worker, stack: Stack, world: World) -> None:
    case_id = told(stack, world)
    pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
    assert not erasure.run_once(worker)
    closed_long_ago(stack, case_id, 600)
    assert dict(erasure.run_once(worker)) == {"photos": 1}
    assert "photos.content" not in places(stack, MARK)
    assert "notes.text" in places(stack, MARK)
    closed_long_ago(stack, case_id, 200)
    assert dict(erasure.run_once(worker)) == {"texts": 1}
    assert places(stack, MARK) == {"customers.name", "customers.email"}
    as_administrator(
        stack, "UPDATE customers SET created_at = created_at - interval '3 years' WHERE customer_id = %s", world.ilse
    )
    as_administrator(stack, "UPDATE orders SET placed_at = placed_at - interval '3 years'")
    assert erasure.run_once(worker)["contacts"] == 1
    assert places(stack, MARK) == set()
    assert proofs(stack, world, case_id) == []


def test_a_shop_keeps_words_for_as_long_as_it_set(worker: Worker, stack: Stack, world: World) -> None:
    case_id = told(stack, world)
    pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
    as_administrator(stack, "INSERT INTO retention (merchant_id, text_months) VALUES (%s, 60)", world.merchant_id)
    closed_long_ago(stack, case_id, 1000)
    assert dict(erasure.run_once(worker)) == {"photos": 1}


def test_the_database_takes_no_other_change_of_what_was_said(worker: Worker, stack: Stack, world: World) -> None:
    case_id = told(stack, world)
    for change in (
        "UPDATE notes SET text = 'I never said so'",
        "DELETE FROM notes",
        "UPDATE notes SET text = 'Erased.'",
    ):
        with pytest.raises(IntegrityError), transaction(stack.owner, world.merchant_id) as db:
            run(db, change)
    with pytest.raises(IntegrityError), transaction(stack.worker, world.merchant_id) as db:
        erase_texts(db, world.merchant_id, case_id, "request")
    pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
    for change in (
        "UPDATE notes SET text = 'I never said so'", "UPDATE notes SET text = 'Erased.', at = now()",
        "UPDATE evidence SET note = 'as new', grade = 'A'", "UPDATE photos SET content = 'x'", "DELETE FROM photos",
        "UPDATE entitlements SET evidence = '{}'", "UPDATE conversations SET reference = 'other'",
    ):  # fmt: skip
        with pytest.raises(IntegrityError), transaction(stack.owner, world.merchant_id) as db:
            run(db, change)


def test_it_takes_two_admins(stack: Stack, world: World) -> None:
    erasure_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        with pytest.raises(BadInput):
            ask_erasure(db, world.merchant_id, erasure_id, "C-404", "a letter", world.ada.staff_id)
        ask_erasure(db, world.merchant_id, erasure_id, f"{MARK}@example.org", "a letter", world.ada.staff_id)
        ask_erasure(db, world.merchant_id, erasure_id, "C-1001", "a letter", world.ada.staff_id)
        with pytest.raises(WrongState):
            ask_erasure(db, world.merchant_id, uuid7(), "C-1001", "a letter", world.ada.staff_id)
        with pytest.raises(SamePerson):
            answer_erasure(db, world.merchant_id, erasure_id, world.ada.staff_id, granted=True)
    decide = "UPDATE erasures SET decided_by = :who, decided_at = now(), granted = true WHERE merchant_id = :m"
    for who in (world.ada, world.mara):
        with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
            run(db, decide, who=who.staff_id, m=world.merchant_id)


def test_nothing_free_is_in_the_chain(stack: Stack, world: World) -> None:
    """The control of all of this: what a person wrote is beside the events, in none of them."""
    case_id = told(stack, world)
    pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        bodies = rows(db, "SELECT body, reason, actor FROM events WHERE merchant_id = :m", m=world.merchant_id)
    assert bodies
    assert MARK not in json.dumps([dict(row) for row in bodies])
