"""S40, S43–S45: what the catalogue says about every table, key and function, so that a new one cannot forget a rule."""

from typing import Any

import pytest

from tests.database.filled import TENANT_TABLES
from tests.stack import Stack, without

# Keys that look past the merchant: random, minted by us, and telling nothing about anybody.
RANDOM_KEYS = {("intents", "provider_key"), ("api_tokens", "token_id")}
# A credential and account at the provider serve one merchant; only the owner's set-up writes there, so only it meets this.
ONE_MERCHANTS = {("provider_accounts", "credential", "account_ref")}
# References to people, and to the generations of the deployment.
WITHOUT_MERCHANT = {
    ("memberships", "staff_id"), ("recovered_refunds", "generation"), ("void_approvals", "generation"),
}  # fmt: skip
# Tables that are nobody's: the deployment and its recoveries, the merchants, the people, their sessions and factors, the
# list of transitions.
NOBODYS = {
    "deployment", "merchants", "staff", "sessions", "sign_in_misses", "intent_transitions", "alembic_version", "recoveries",
    "deployment_brakes", "people_let_in", "totp_factors", "passkeys", "recovery_codes", "factor_acts", "key_ceremonies", "mails",
}  # fmt: skip
# S45: functions that run as their owner. Each moves what no role may update, and nothing else.
DEFINERS = {
    "apply_transfer", "apply_line_claim", "apply_cap_entry", "apply_event", "keep_paid_units", "apply_hold", "apply_capture_fact",
    "apply_external_state", "apply_external_allocation", "apply_dispute_state", "keep_units_paid_outside",
    "send_nothing_disputed",
    "apply_brake_pull", "apply_brake_answer", "apply_alarm_closing", "count_approval",
    "apply_recovered_cap_entry", "let_in_on_the_record",
    "count_automatic_approval", "apply_policy_answer", "risk_signals", "keep_charge_claim", "move_what_was_approved",
    "write_credit_entry", "apply_order_settlement",
}  # fmt: skip

KEYS = """
    SELECT c.relname, k.conname, k.contype, ARRAY(SELECT attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, i)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE c.relnamespace = 'public'::regnamespace AND k.contype IN ('p', 'u', 'f', 'x')
"""
UNIQUE_INDEXES = """
    SELECT c.relname, ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) n)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique AND NOT i.indisprimary
"""
POLICIES = """
    SELECT tablename, policyname, permissive, roles::text[], cmd, qual, with_check FROM pg_policies WHERE schemaname = 'public'
"""
FUNCTIONS = """
    SELECT p.proname, p.prosecdef, p.proleakproof, p.proconfig, pg_get_userbyid(p.proowner),
        has_function_privilege('public', p.oid, 'EXECUTE'), p.prosqlbody IS NOT NULL
    FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
"""


@pytest.fixture(scope="module")
def tables(shared: Stack) -> set[str]:
    return {name for (name,) in _ask(shared, TENANT_TABLES)}


def _ask(stack: Stack, statement: str) -> list[tuple[Any, ...]]:
    with stack.admin() as db:
        return db.execute(statement.encode()).fetchall()


def test_a_table_is_a_merchants_or_on_the_list_of_those_that_are_nobodys(shared: Stack, tables: set[str]) -> None:
    every = {name for (name,) in _ask(shared, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}

    assert every - tables == NOBODYS


def test_row_level_security_is_enabled_and_forced_on_every_merchants_table(shared: Stack, tables: set[str]) -> None:
    bare = _ask(
        shared, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        " AND NOT (relrowsecurity AND relforcerowsecurity)",
    )  # fmt: skip

    assert {name for (name,) in bare} & tables == set()


def test_every_merchants_table_has_one_tenant_policy_for_all_commands_and_roles(
    shared: Stack, tables: set[str]
) -> None:
    pin = "(merchant_id = (NULLIF(current_setting('onceback.merchant'::text, true), ''::text))::uuid)"
    policies = _ask(shared, POLICIES)
    pinned = {
        table: (using, check)
        for table, name, kind, roles, command, using, check in policies
        if (name, kind, roles, command) == ("tenant", "RESTRICTIVE", ["public"], "ALL")
    }
    permissive = {(table, name) for table, name, kind, *_ in policies if kind == "PERMISSIVE"}

    assert set(pinned) == tables
    assert permissive == {(table, "granted") for table in tables}
    own_row = {table for table, (using, check) in pinned.items() if (using, check) != (pin, pin)}
    assert own_row == {"memberships", "api_tokens"}
    assert all(pin.strip("()") in using for using, _ in pinned.values())


def test_every_primary_key_of_a_merchants_table_begins_with_the_merchant(shared: Stack, tables: set[str]) -> None:
    first = {table: columns[0] for table, _, kind, columns in _ask(shared, KEYS) if kind == "p" and table in tables}

    assert first == dict.fromkeys(tables, "merchant_id")


def test_every_other_key_of_a_merchants_table_contains_the_merchant(shared: Stack, tables: set[str]) -> None:
    past = {
        (table, *columns)
        for table, _, kind, columns in _ask(shared, KEYS)
        if table in tables and kind in "ufx" and "merchant_id" not in columns
    }
    past |= {
        (table, *columns)
        for table, columns in _ask(shared, UNIQUE_INDEXES)
        if table in tables and "merchant_id" not in columns
    }
    lists = {(table, *columns) for table, name, kind, columns in _ask(shared, KEYS) if name == "listed_transitions"}

    assert past == RANDOM_KEYS | ONE_MERCHANTS | WITHOUT_MERCHANT | lists


def test_deleting_or_changing_a_row_never_reaches_another(shared: Stack) -> None:
    reaching = _ask(
        shared, "SELECT conname FROM pg_constraint WHERE contype = 'f' AND (confdeltype <> 'a' OR confupdtype <> 'a')"
    )

    assert reaching == []


def test_there_is_nothing_that_reads_round_the_policies(shared: Stack) -> None:
    """No views, materialised views or foreign tables; no rule but a table's own."""
    kinds = _ask(
        shared, "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind NOT IN ('r', 'i', 'S')",
    )  # fmt: skip
    rules = _ask(shared, "SELECT rulename FROM pg_rules WHERE schemaname = 'public'")

    assert (kinds, rules) == ([], [])


def test_only_the_listed_functions_run_as_their_owner(shared: Stack) -> None:
    functions = _ask(shared, FUNCTIONS)

    assert {name for name, definer, *_ in functions if definer} == DEFINERS
    assert {owner for _, _, _, _, owner, *_ in functions} == {"onceback_owner"}


def test_every_function_has_a_fixed_search_path_that_ends_in_pg_temp(shared: Stack) -> None:
    """Or none to look names up in: they were bound when it was made."""
    paths = {tuple(config or ()) for _, _, _, config, _, _, bound in _ask(shared, FUNCTIONS) if not bound}

    assert paths == {("search_path=public, pg_temp",)}


def test_no_function_of_ours_is_everybodys_or_leaks(shared: Stack) -> None:
    everybodys = [name for name, _, leaks, _, _, public, _ in _ask(shared, FUNCTIONS) if public or leaks]

    assert everybodys == []


def test_every_trigger_is_switched_on(shared: Stack) -> None:
    off = _ask(shared, "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'O'")

    assert off == []


def test_everything_belongs_to_the_owner(shared: Stack) -> None:
    owners = _ask(
        shared, "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    )

    assert owners == [("onceback_owner",)]


def test_every_time_has_a_zone_and_no_amount_is_a_float(shared: Stack) -> None:
    loose = _ask(
        shared, "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " AND data_type IN ('timestamp without time zone', 'double precision', 'real', 'numeric', 'money')",
    )  # fmt: skip
    amounts = _ask(
        shared, "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " AND column_name LIKE '%\\_minor' AND column_name <> 'step_minor'",
    )  # fmt: skip

    assert (loose, amounts) == ([], [("bigint",)])


def test_a_table_that_forgets_a_rule_is_named_by_these_tests(stack: Stack) -> None:
    """Their control: a table as somebody in a hurry would add it."""
    without(
        stack,
        "CREATE TABLE hurried (id bigint PRIMARY KEY, merchant_id uuid REFERENCES merchants (id) ON DELETE CASCADE)",
    )
    everything = {name for (name,) in _ask(stack, TENANT_TABLES)}

    with pytest.raises(AssertionError, match="hurried"):
        test_row_level_security_is_enabled_and_forced_on_every_merchants_table(stack, everything)
    with pytest.raises(AssertionError, match="hurried"):
        test_every_merchants_table_has_one_tenant_policy_for_all_commands_and_roles(stack, everything)
    with pytest.raises(AssertionError, match="hurried"):
        test_every_primary_key_of_a_merchants_table_begins_with_the_merchant(stack, everything)
    with pytest.raises(AssertionError, match="hurried"):
        test_deleting_or_changing_a_row_never_reaches_another(stack)
