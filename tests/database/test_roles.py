"""S39, S45, S46: who the processes are to the database, what they were granted, and that it is no more than is listed."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, transaction
from ledger.database_role import WrongRole, check_role
from tests.database import rows as put
from tests.database.conftest import As
from tests.stack import CONSOLE, OWNER, ROLES, WORKER, Server, Stack, without
from tests.world import World

LISTED = Path(__file__).with_name("grants.txt")
RUN_TIME = (CONSOLE, WORKER)

GRANTS = """
    SELECT grantee, kind, object, string_agg(DISTINCT privilege, ' ' ORDER BY privilege) AS privileges FROM (
        SELECT coalesce(r.rolname, 'PUBLIC')::text AS grantee, CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END AS kind,
            c.relname::text AS object, a.privilege_type AS privilege
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT coalesce(r.rolname, 'PUBLIC'), 'column', c.relname || '.' || attname, a.privilege_type
        FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid CROSS JOIN LATERAL aclexplode(t.attacl) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE c.relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT coalesce(r.rolname, 'PUBLIC'), 'function', p.proname::text, a.privilege_type
        FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE p.pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
        UNION ALL
        SELECT coalesce(r.rolname, 'PUBLIC'), 'schema', n.nspname, a.privilege_type
        FROM pg_namespace n CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE n.nspname = 'public'
        UNION ALL
        SELECT coalesce(r.rolname, 'PUBLIC'), 'database', 'this one', a.privilege_type
        FROM pg_database d CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE d.datname = current_database()
    ) granted
    WHERE grantee IN ('onceback_console', 'onceback_worker', 'PUBLIC')
    GROUP BY grantee, kind, object ORDER BY grantee, kind, object
"""


def test_each_role_holds_the_listed_grants_and_no_other(shared: Stack) -> None:
    """`grants.txt` is the list to read in a review; a grant that is added or lost shows as a line of it."""
    with shared.admin() as db:
        found = [f"{who} {kind} {what}: {may}" for who, kind, what, may in db.execute(GRANTS).fetchall()]

    assert found == [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]


def test_nobody_was_granted_a_right_to_empty_reference_or_trigger(shared: Stack) -> None:
    with shared.admin() as db:
        granted = db.execute(
            "SELECT grantee, table_name, privilege_type FROM information_schema.role_table_grants"
            " WHERE grantee = ANY (%s) AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')",
            [list(RUN_TIME)],
        ).fetchall()

    assert granted == []


def test_nothing_can_be_deleted_but_sign_in_misses(shared: Stack) -> None:
    with shared.admin() as db:
        granted = db.execute(
            "SELECT grantee, table_name FROM information_schema.role_table_grants"
            " WHERE grantee = ANY (%s) AND privilege_type = 'DELETE'",
            [list(RUN_TIME)],
        ).fetchall()

    assert sorted(granted) == [(CONSOLE, "sign_in_misses"), (WORKER, "sign_in_misses")]


@pytest.mark.parametrize("role", RUN_TIME)
def test_a_run_time_role_owns_nothing_and_is_nobody_else(shared: Stack, role: str) -> None:
    check_role(shared.engine(role), role)


@pytest.mark.parametrize("role", RUN_TIME)
def test_a_run_time_role_inherits_nothing(shared: Stack, role: str) -> None:
    with shared.admin() as db:
        assert db.execute("SELECT rolinherit FROM pg_roles WHERE rolname = %s", [role]).fetchone() == (False,)


def test_the_owner_is_refused_as_a_process(shared: Stack) -> None:
    with pytest.raises(WrongRole, match="onceback_owner owns a table"):
        check_role(shared.owner, OWNER)
    with pytest.raises(WrongRole, match="signed in to the database as onceback_owner: it has to be onceback_console"):
        check_role(shared.owner, CONSOLE)


@pytest.mark.parametrize(
    ("change", "undo", "sentence"),
    [("ALTER ROLE {} SUPERUSER", "ALTER ROLE {} NOSUPERUSER", "is a superuser"),
     ("ALTER ROLE {} BYPASSRLS", "ALTER ROLE {} NOBYPASSRLS", "passes row-level security"),
     ("ALTER ROLE {} CREATEROLE", "ALTER ROLE {} NOCREATEROLE", "may make roles"),
     ("GRANT onceback_owner TO {}", "REVOKE onceback_owner FROM {}", "member of another role"),
     ("ALTER TABLE notes OWNER TO {}", "ALTER TABLE notes OWNER TO onceback_owner", "owns a table")],
)  # fmt: skip
def test_a_role_that_could_step_round_the_rules_is_refused(stack: Stack, change: str, undo: str, sentence: str) -> None:
    """Tried on a role of its own: the roles belong to the whole server, and other runs use theirs."""
    role = f"test_{stack.name[-8:]}"
    without(
        stack,
        f"CREATE ROLE {role} NOINHERIT LOGIN PASSWORD 'only here'",
        f"GRANT CONNECT ON DATABASE {stack.name} TO {role}",
    )
    engine = stack.engine_as(role, "only here")
    try:
        check_role(engine, role)
        without(stack, change.format(role))
        with pytest.raises(WrongRole, match=sentence):
            check_role(engine, role)
    finally:
        engine.dispose()
        without(stack, undo.format(role), f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("role", RUN_TIME)
def test_a_temporary_table_is_refused(undone: As, role: str) -> None:
    """It could shadow a table under a function that runs as the owner."""
    with undone(role) as db, pytest.raises(DBAPIError, match="permission denied"):
        run(db, "CREATE TEMP TABLE captures (available_minor bigint)")


@pytest.mark.parametrize("role", RUN_TIME)
def test_nothing_is_made_in_the_schema(undone: As, role: str) -> None:
    with undone(role) as db, pytest.raises(DBAPIError, match="permission denied"):
        run(db, "CREATE TABLE captures_too (available_minor bigint)")


@pytest.mark.parametrize(
    "column", ["amount_minor", "currency", "state", "provider_key", "destination_last4", "case_id"]
)
def test_the_worker_changes_nothing_it_only_has_to_lock(shared: Stack, undone: As, harbour: World, column: str) -> None:
    with transaction(shared.owner, harbour.merchant_id) as db:
        put.bring(db, harbour, "approved", 1)
    with undone(WORKER, harbour.merchant_id) as db:
        assert db.execute(text("SELECT 1 FROM intents FOR NO KEY UPDATE")).first()
        with pytest.raises(DBAPIError, match="permission denied"):
            run(db, f"UPDATE intents SET {column} = {column}")  # noqa: S608 - of this list


@pytest.mark.parametrize("role", RUN_TIME)
@pytest.mark.parametrize(
    "change",
    ["UPDATE captures SET available_minor = available_minor", "UPDATE captures SET refunded_minor = 0",
     "UPDATE order_lines SET claimed_minor = 0", "UPDATE cap_days SET used_minor = 0", "UPDATE caps SET limit_minor = 1",
     "UPDATE cases SET head_number = 0", "UPDATE cases SET stage = 'paid'", "UPDATE orders SET total_minor = 0",
     "UPDATE outbox SET request = '{}'", "UPDATE policies SET document = '{}'", "DELETE FROM cap_entries"],
)  # fmt: skip
def test_balances_and_heads_move_by_their_journals_only(undone: As, harbour: World, role: str, change: str) -> None:
    with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
        run(db, change)


def test_credentials_customers_and_photos_are_not_the_workers_to_read(undone: As, harbour: World) -> None:
    for table in (
        "sessions",
        "sign_in_misses",
        "api_tokens",
        "idempotency_keys",
        "notes",
        "customers",
        "conversations",
    ):
        with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            db.execute(text(f"SELECT * FROM {table}"))  # noqa: S608 - of this list
    with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
        db.execute(text("SELECT content FROM photos"))
    with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
        db.execute(text("SELECT password_hash FROM staff"))


def test_what_has_ended_does_not_begin_again(shared: Stack, undone: As, harbour: World) -> None:
    with undone(CONSOLE, harbour.merchant_id) as db:
        run(db, "UPDATE api_tokens SET revoked_at = now() WHERE token_id = :t", t=harbour.chat.token_id)
        assert run(db, "UPDATE api_tokens SET revoked_at = NULL WHERE token_id = :t", t=harbour.chat.token_id) == 0
    with undone(CONSOLE) as db:
        run(db, "INSERT INTO sessions (session_hash, staff_id, user_agent_hash, address) VALUES (:h, :s, 'x', '127.0.0.1')",
            h=bytes(32), s=harbour.priya.staff_id)  # fmt: skip
        run(db, "UPDATE sessions SET ended_at = now()")
        run(db, "UPDATE sessions SET content = '{}'")
        with pytest.raises(IntegrityError, match="does not begin again"):
            run(db, "UPDATE sessions SET ended_at = NULL")


def test_the_roles_of_the_server_are_not_superusers(server: Server, shared: Stack) -> None:
    with shared.admin() as db:
        found = db.execute("SELECT count(*) FROM pg_roles WHERE rolname = ANY (%s) AND NOT rolsuper", [list(ROLES)])
        assert found.fetchone() == (len(ROLES),)
