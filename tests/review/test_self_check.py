"""The ledger against itself: whatever is changed past the guards, by somebody whom no trigger binds, is named."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from sqlalchemy import Engine, create_engine, text

from jobs import self_check
from ledger.self_check import ALL_CHECKS, FIRST_KEY, Fault, check_step
from ledger.self_check_sql import MEANINGS
from tests import lives
from tests.jobs.processes import ROOT
from tests.refunds import alarms, as_administrator
from tests.stack import CONSOLE, Server, Stack, fresh_stack
from tests.web.desk import pay
from tests.world import World, add_order, build_world


@dataclass(frozen=True)
class Books:
    """One merchant: a return that was paid, one that is approved and waits, one that was called back."""

    stack: Stack
    world: World
    admin: Engine

    def faults_after(self, *statements: str) -> list[Fault]:
        """What the console finds after changes that nobody may make; they are undone."""
        with self.admin.connect() as db:
            db.execute(text("SET LOCAL session_replication_role = replica"))
            for statement in statements:
                assert db.execute(text(statement)).rowcount != 0, statement
            db.execute(text(f"SET LOCAL ROLE {CONSOLE}"))
            db.execute(text("SELECT set_config('onceback.merchant', :m, true)"), {"m": str(self.world.merchant_id)})
            found: list[Fault] = []
            for check in ALL_CHECKS:
                after: UUID | None = FIRST_KEY
                while after is not None:
                    step = check_step(db, self.world.merchant_id, check, after)
                    found += step.faults
                    after = step.after
            db.rollback()
        return found


@pytest.fixture(scope="module")
def books(server: Server) -> Iterator[Books]:
    with fresh_stack(server) as stack:
        world = build_world(stack)
        paid = lives.propose(stack, world)
        pay(stack, world, paid["intent_id"])
        other = add_order(stack, world, "A-20418")
        waits = lives.propose(stack, world, order=other, reference="chat-2")
        lives.approve_as(stack, world, world.priya, waits["intent_id"])
        admin = create_engine(stack.admin_url.replace("postgresql://", "postgresql+psycopg://"))
        yield Books(stack, world, admin)
        admin.dispose()


def test_healthy_books_show_no_fault(books: Books) -> None:
    assert books.faults_after("SELECT 1") == []
    assert [fault for _, step in self_check.walk(books.stack.console, books.world.merchant_id) for fault in step] == []


# What the changes below are about.
WHOSE = {
    "of_paid": "intent_id = (SELECT intent_id FROM intents WHERE state = 'succeeded')",
    "of_waiting": "intent_id = (SELECT intent_id FROM intents WHERE state = 'approved')",
}
FREED = (
    "ALTER TABLE intents DROP CONSTRAINT intents_merchant_id_provider_refund_ref_key",
    "ALTER TABLE case_items DROP CONSTRAINT units_returned_once",
)
CHANGES: dict[str, tuple[str, set[str]]] = {
    "money moved between balances": (
        ("UPDATE captures SET refunded_minor = refunded_minor - 1, available_minor = available_minor + 1"
        " WHERE refunded_minor > 0"), {"balance"},
    ),
    "money set aside for nobody": (
        "UPDATE captures SET reserved_minor = reserved_minor + 1, available_minor = available_minor - 1", {"balance", "reserved"},
    ),
    "a settlement taken out": ("DELETE FROM transfers WHERE step = 'settle'", {"balance", "money"}),
    "a transfer made larger": ("UPDATE transfers SET amount_minor = amount_minor + 1 WHERE step = 'settle'", {"balance", "money"}),
    "a line that looks less refunded": (
        "UPDATE order_lines SET claimed_minor = claimed_minor - 1 WHERE claimed_minor > 0", {"claimed"},
    ),
    "a claim taken out": ("DELETE FROM line_claims WHERE of_paid", {"claimed", "unbound"}),
    "a cap that looks less used": ("UPDATE cap_days SET used_minor = used_minor - 1", {"cap_day"}),
    "a cap entry taken out": ("DELETE FROM cap_entries WHERE of_paid", {"cap_day", "unbound"}),
    "a cap day taken out": ("DELETE FROM cap_days", {"cap_day"}),
    "a state written over": ("UPDATE intents SET state = 'held' WHERE state = 'approved'", {"state"}),
    "a paid refund that looks failed": (
        "UPDATE intents SET state = 'failed' WHERE state = 'succeeded'", {"state", "money", "not_given_back"},
    ),
    "an approval taken out": ("DELETE FROM approvals WHERE of_paid", {"unbound", "person_limit"}),
    "a person who looks to have approved less": (
        "UPDATE reviewer_windows SET used_count = used_count - 1 WHERE span = 'hour'", {"person_limit"},
    ),
    "a frozen request taken out": ("DELETE FROM outbox WHERE of_waiting", {"unbound"}),
    "units let go that were paid": ("UPDATE case_items SET live = false", {"units"}),
    "an attempt under another number": ("UPDATE attempts SET attempt_no = 2", {"attempts"}),
    "an attempt taken out": ("DELETE FROM attempts", {"attempts"}),
    "an event edited": ("UPDATE events SET reason = 'by phone' WHERE kind = 'intent.approved'", {"chain"}),
    "an event taken out of the middle": ("DELETE FROM events WHERE kind = 'intent.proposed'", {"chain"}),
    "the tail of a case cut off": ("DELETE FROM events WHERE kind = 'intent.succeeded'", {"chain", "state"}),
    "the head of a case written over": ("UPDATE cases SET head_hash = sha256('x')", {"chain"}),
    "a case that vanished": ("DELETE FROM cases", {"orphans"}),
    "a payment that vanished": ("DELETE FROM captures", {"orphans"}),
    "a refund that vanished": ("DELETE FROM intents WHERE state = 'succeeded'", {"orphans"}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_past_the_guards_is_named(books: Books, change: str) -> None:
    statement, expected = CHANGES[change]

    for name, condition in WHOSE.items():
        statement = statement.replace(name, condition)
    found = books.faults_after(statement)

    assert {fault.kind for fault in found} == expected
    assert all(MEANINGS[fault.kind] in fault.line() and fault.about for fault in found)


def test_with_the_constraint_gone_one_unit_in_two_cases_is_named(books: Books) -> None:
    found = books.faults_after(
        FREED[1], "INSERT INTO case_items SELECT merchant_id, gen_random_uuid(), case_id, order_id, line_id, line_quantity, units"
        " FROM case_items LIMIT 1",
    )  # fmt: skip

    assert [fault.kind for fault in found] == ["held_twice"]


def test_with_the_constraint_gone_one_refund_of_the_provider_in_two_of_ours_is_named(books: Books) -> None:
    found = books.faults_after(
        FREED[0], "UPDATE intents SET provider_refund_ref = (SELECT provider_refund_ref FROM intents WHERE state = 'succeeded')"
    )  # fmt: skip

    assert [fault.kind for fault in found] == ["refund_twice"]


def test_a_refund_made_outside_whose_place_was_written_over_is_named(books: Books) -> None:
    found = books.faults_after(
        "INSERT INTO external_refunds (merchant_id, refund_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor,"
        " currency, created_at, found_by, kind, placed_minor) SELECT merchant_id, 're_outside', provider_account_id, charge_ref,"
        " payment_intent_ref, 5, currency, now(), 'poll', 'outside', 5 FROM captures LIMIT 1"
    )  # fmt: skip

    assert [fault.kind for fault in found] == ["placed"]


def test_every_kind_of_fault_is_one_that_a_test_has_seen() -> None:
    seen = set().union(*(expected for _, expected in CHANGES.values()), {"held_twice", "refund_twice", "placed"})

    assert seen == set(MEANINGS)


def test_small_steps_find_what_one_finds(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    change = "UPDATE order_lines SET claimed_minor = claimed_minor - 1 WHERE claimed_minor > 0"
    whole = books.faults_after(change)
    monkeypatch.setattr("ledger.self_check.BATCH", 1)
    monkeypatch.setattr("ledger.self_check.CHAIN_BATCH", 1)

    assert len(whole) == 2
    assert sorted(map(repr, books.faults_after(change))) == sorted(map(repr, whole))


def verify(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    given = {"FLASK_APP": "app:application", "DATABASE_URL": stack.worker_url, "ENVIRONMENT": "test"}
    command = [sys.executable, "-m", "flask", "ledger", "verify", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env=os.environ | given
    )


def test_the_command_ends_with_0_when_healthy_and_with_1_a_sentence_and_one_alarm_a_kind_when_not(books: Books) -> None:
    healthy = verify(books.stack)
    assert (healthy.returncode, "harbour: 0 faults" in healthy.stdout) == (0, True), healthy.stdout + healthy.stderr
    assert alarms(books.stack) == set()

    as_administrator(books.stack, "UPDATE order_lines SET claimed_minor = claimed_minor - 1 WHERE claimed_minor > 0")
    as_administrator(books.stack, "UPDATE cap_days SET used_minor = used_minor - 1")
    for _ in range(2):
        found = verify(books.stack, "--merchant", books.world.slug)

        assert found.returncode == 1
        assert found.stdout.count("claimed: order line") == 2
        assert "cap_day: cap of" in found.stdout
        assert MEANINGS["claimed"] in found.stdout
        assert alarms(books.stack) == {"self_check_claimed", "self_check_cap_day"}
    as_administrator(books.stack, "UPDATE order_lines SET claimed_minor = claimed_minor + 1 WHERE claimed_minor > 0")
    as_administrator(books.stack, "UPDATE cap_days SET used_minor = used_minor + 1")
    assert as_administrator(books.stack, "SELECT count(*)::int AS n FROM alarms") == [{"n": 2}]
