"""S47: what was written stays written. Each verb, by each role, the owner among them."""

from collections.abc import Iterator

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, scalar, transaction
from tests.database.conftest import As
from tests.database.filled import fill
from tests.stack import CONSOLE, OWNER, WORKER, Server, Stack, fresh_stack, without
from tests.world import World, build_world

JOURNALS = (
    "alarm_closings", "alarm_endings", "approval_assertions", "approval_entries", "approvals", "attempt_results", "attempts",
    "brake_answers", "brake_asks", "brake_pulls", "cap_entries", "capture_facts", "case_facts", "charge_findings", "conversations",
    "credit_entries", "credit_rows",
    "discrepancies", "discrepancy_acts",
    "dispute_rulings", "dispute_states", "entitlement_sources", "entitlements", "events", "evidence", "external_allocations",
    "exchanges", "export_ends", "exports", "external_refund_states", "idempotency_keys", "intent_transitions", "invitation_ends",
    "invitation_links", "line_claims", "listed_refunds", "looks",
    "manual_settlements", "notes", "order_allocations", "order_conflicts", "order_deliveries", "order_invoices",
    "order_settlement_answers", "order_settlements", "overrides", "parcels", "people_let_in", "photos",
    "policies", "policy_answers", "policy_drafts", "provider_lists", "receipt_answers",
    "reconciliation_findings",
    "recovered_cap_entries", "recovered_refunds", "refused_acts",
    "self_checks", "settlement_decisions", "settlement_results", "settlements", "shadow_sends",
    "transfers", "void_approvals",
)  # fmt: skip
VERBS = {"change": "UPDATE {0} SET {1} = {1}", "remove": "DELETE FROM {0}", "empty": "TRUNCATE {0} CASCADE"}


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        yield made


@pytest.fixture(scope="module")
def harbour(shared: Stack) -> World:
    world = build_world(shared)
    fill(shared, world)
    return world


def _verb(verb: str, table: str) -> str:
    column = {"intent_transitions": "from_state", "people_let_in": "reason"}.get(table, "merchant_id")
    return VERBS[verb].format(table, column)


def test_the_list_is_that_of_the_database(shared: Stack) -> None:
    with shared.admin() as db:
        found = db.execute(
            "SELECT DISTINCT relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE tgname = 'append_only'"
        ).fetchall()

    assert sorted(name for (name,) in found) == sorted(JOURNALS)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("table", JOURNALS)
def test_no_run_time_role_may_change_remove_or_empty(undone: As, harbour: World, table: str, verb: str) -> None:
    for role in (CONSOLE, WORKER):
        with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            run(db, _verb(verb, table))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("table", JOURNALS)
def test_the_owner_is_refused_too(undone: As, harbour: World, table: str, verb: str) -> None:
    with undone(OWNER, harbour.merchant_id) as db:
        assert scalar(db, f"SELECT count(*) FROM {table}") > 0  # noqa: S608 - of the list above

        with pytest.raises(IntegrityError, match="is append-only"):
            run(db, _verb(verb, table))


@pytest.mark.parametrize("table", ["intents", "outbox"])
@pytest.mark.parametrize("verb", ["remove", "empty"])
def test_an_intent_and_its_request_are_never_removed(undone: As, harbour: World, table: str, verb: str) -> None:
    with undone(OWNER, harbour.merchant_id) as db, pytest.raises(IntegrityError, match="is append-only"):
        run(db, _verb(verb, table))


@pytest.mark.parametrize("column", ["request = '{\"amount\": 1}'", "request_digest = sha256('x')", "trace = 'other'",
                                    "approved_at = now() - interval '1 day'"])  # fmt: skip
def test_the_frozen_request_of_an_approved_intent_never_changes(undone: As, harbour: World, column: str) -> None:
    with undone(OWNER, harbour.merchant_id) as db, pytest.raises(IntegrityError, match="never changes"):
        run(db, f"UPDATE outbox SET {column}")  # noqa: S608 - of the list above


def test_without_the_trigger_history_could_be_written_again(stack: Stack, world: World) -> None:
    fill(stack, world)
    without(stack, "DROP TRIGGER append_only ON events")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, "UPDATE events SET reason = 'nothing happened'") > 0
