"""The embedded PostgreSQL of the demo and the tests, and the roles it is given: real servers, started and killed."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from sqlalchemy.engine import make_url

from demo import roles
from demo.postgres import EmbeddedPostgres, PostgresError

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def no_server_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not tmp_path: its parents are closed to every other account, and for root that is another case.
    with tempfile.TemporaryDirectory(prefix="onceback-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)
        EmbeddedPostgres(Path(name)).destroy()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with tempfile.TemporaryDirectory(prefix="onceback-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        outside = os.environ.pop("DATABASE_URL", None)
        server = EmbeddedPostgres(Path(name))
        if outside is not None:
            os.environ["DATABASE_URL"] = outside
        with server:
            yield server
        server.destroy()


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    return tmp_path / "role-passwords.json"


def connect(url: str, **changes: Any) -> psycopg.Connection[Any]:
    address = make_url(url).set(drivername="postgresql", **changes).render_as_string(hide_password=False)
    return psycopg.connect(address, autocommit=True)


def ask(url: str, statement: str, **changes: Any) -> Any:
    with connect(url, **changes) as connection:
        row = connection.execute(statement).fetchone()
    return row if row is None or len(row) > 1 else row[0]


def run(url: str, *statements: str) -> None:
    with connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_server_writes_durably_and_has_what_the_migrations_need(server: EmbeddedPostgres) -> None:
    assert ask(server.admin_url, "SELECT current_setting('server_version_num')::int / 10000") == 18
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert ask(server.admin_url, f"SELECT current_setting('{setting}')") == "on", setting
    assert ask(server.admin_url, "SELECT name FROM pg_available_extensions WHERE name = 'btree_gist'") == "btree_gist"


def test_it_listens_on_its_own_socket_and_on_no_port(server: EmbeddedPostgres) -> None:
    assert ask(server.admin_url, "SELECT current_setting('listen_addresses')") == ""
    assert mode(server.socket_folder) == 0o700
    assert len(str(server.socket_folder / ".s.PGSQL.5432")) < 60


def test_nobody_enters_without_the_password_and_only_the_owner_reads_it(server: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(server.admin_url, password="guess")
    assert mode(server.directory / "admin.password") == 0o600


def test_a_second_run_finds_the_rows_of_the_first(directory: Path) -> None:
    with EmbeddedPostgres(directory) as first:
        run(first.admin_url, "CREATE TABLE kept AS SELECT 1 AS n")
    with pytest.raises(psycopg.OperationalError):
        connect(first.admin_url)
    with EmbeddedPostgres(directory) as second:
        assert second.admin_url == first.admin_url
        assert ask(second.admin_url, "SELECT n FROM kept") == 1


def test_cut_off_at_once_it_keeps_what_was_committed_and_only_that(directory: Path) -> None:
    with EmbeddedPostgres(directory) as server:
        run(server.admin_url, "CREATE TABLE written (n int)", "INSERT INTO written VALUES (1)")
        open_transaction = connect(server.admin_url)
        open_transaction.execute("BEGIN")
        open_transaction.execute("INSERT INTO written VALUES (2)")
        server.kill_immediate()
        with pytest.raises(psycopg.OperationalError):
            open_transaction.execute("COMMIT")
        server.start()
        assert ask(server.admin_url, "SELECT array_agg(n) FROM written") == [1]


def start_in_a_run_that_is_killed(directory: Path) -> int:
    """Starts the server in a process that then dies by kill -9, and returns the pid of the server left behind."""
    script = (
        "import os, signal, sys; from pathlib import Path; from demo.postgres import EmbeddedPostgres\n"
        "EmbeddedPostgres(Path(sys.argv[1])).start(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, directory], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    left = EmbeddedPostgres(directory)._postmaster()
    assert left is not None
    return left.pid


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_server_left_by_a_killed_run_is_stopped_and_its_data_taken_over(directory: Path) -> None:
    left = start_in_a_run_that_is_killed(directory)
    server = EmbeddedPostgres(directory)
    run(server.admin_url, "CREATE TABLE kept AS SELECT 1 AS n")
    worker_of_the_killed_run = connect(server.admin_url)
    with server:
        assert not is_running(left)
        assert ask(server.admin_url, "SELECT n FROM kept") == 1
        with pytest.raises(psycopg.OperationalError):
            worker_of_the_killed_run.execute("SELECT 1")


def test_a_killed_postmaster_does_not_keep_the_next_run_from_starting(directory: Path) -> None:
    left = start_in_a_run_that_is_killed(directory)
    idle_child = connect(EmbeddedPostgres(directory).admin_url)
    os.kill(left, signal.SIGKILL)
    with EmbeddedPostgres(directory) as server:
        assert ask(server.admin_url, "SELECT 1") == 1
    idle_child.close()


def test_two_runs_never_share_one_directory(directory: Path) -> None:
    with EmbeddedPostgres(directory) as server:
        with pytest.raises(PostgresError, match=f"in use by process {os.getpid()}: stop that one first"):
            EmbeddedPostgres(directory).start()
        with pytest.raises(PostgresError, match="stop that one first"):
            EmbeddedPostgres(directory).destroy()
        assert ask(server.admin_url, "SELECT 1") == 1


def test_half_a_cluster_of_an_interrupted_first_run_is_made_anew(directory: Path) -> None:
    (directory / "data.new").mkdir()
    (directory / "data.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(directory) as server:
        assert ask(server.admin_url, "SELECT 1") == 1


@pytest.mark.parametrize(
    ("found", "sentence"),
    [("15\n", "holds data of PostgreSQL 15, not 18: .*demo-reset"), (None, "holds no PostgreSQL data: .*demo-reset")],
)
def test_files_of_another_kind_are_left_alone_and_named(directory: Path, found: str | None, sentence: str) -> None:
    (directory / "data").mkdir()
    (directory / "data" / "precious.txt").write_text("keep me")
    if found is not None:
        (directory / "data" / "PG_VERSION").write_text(found)
    with pytest.raises(PostgresError, match=sentence):
        EmbeddedPostgres(directory).start()
    assert (directory / "data" / "precious.txt").read_text() == "keep me"


def test_a_lost_password_is_said_in_one_sentence(directory: Path) -> None:
    with EmbeddedPostgres(directory):
        pass
    (directory / "admin.password").unlink()
    with pytest.raises(PostgresError, match=r"admin.password is missing, .*demo-reset"):
        EmbeddedPostgres(directory).start()


def test_a_full_disk_is_said_before_anything_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(directory)._replace(free=12_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(PostgresError, match="has 12 MB free and the database needs 300 MB: make room"):
        EmbeddedPostgres(directory).start()
    assert not (directory / "data").exists()


def test_a_disk_that_fills_up_while_starting_is_named_as_the_reason(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedPostgres(directory)
    refused = subprocess.CompletedProcess(["initdb"], 1, "", "initdb: error: could not write: No space left on device")
    monkeypatch.setattr(server, "_run", lambda *_: refused)
    with pytest.raises(PostgresError, match=r"the disk of .* is full; make room"):
        server.start()


def test_a_server_that_cannot_start_quotes_its_own_reason(directory: Path) -> None:
    with EmbeddedPostgres(directory) as server:
        pass
    with (server.data / "postgresql.conf").open("a") as configuration:
        configuration.write("no_such_setting = 1\n")
    with pytest.raises(PostgresError, match=r"did not start .*server.log has the whole of it"):
        server.start()


def test_a_socket_folder_laid_by_somebody_else_is_not_used(directory: Path, tmp_path: Path) -> None:
    server = EmbeddedPostgres(directory)
    server.socket_folder.symlink_to(tmp_path)
    try:
        with pytest.raises(PostgresError, match="belongs to somebody else"):
            server.start()
    finally:
        server.socket_folder.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for the server")
def test_root_in_a_closed_folder_gets_a_server_all_the_same(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(closed / "postgres")
    with server:
        owner = ask(server.admin_url, "SELECT pg_read_file('postmaster.pid')").splitlines()[1]
        assert owner == str(server.data)
        assert not server.data.is_relative_to(closed)
        postmaster = server._postmaster()
        assert postmaster is not None
        assert postmaster.uids().effective != 0
    server.destroy()
    assert not server.data.exists()


def test_destroying_forgets_rows_and_password(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    with server:
        run(server.admin_url, "CREATE TABLE forgotten (n int)")
        before = server.admin_url
    server.destroy()
    with server:
        assert server.admin_url != before
        assert ask(server.admin_url, "SELECT to_regclass('forgotten')") is None


def test_database_url_takes_the_place_of_the_embedded_server(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", server.admin_url.replace("postgresql+psycopg://", "postgres://"))
    with EmbeddedPostgres(tmp_path / "unused") as other:
        assert other.admin_url == server.admin_url
        with pytest.raises(PostgresError, match="not ours to cut off"):
            other.kill_immediate()
    assert ask(server.admin_url, "SELECT 1") == 1
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize("address", ["postgresql://nobody:hush-hush@/postgres?host=/nowhere", "hush-hush"])
def test_a_wrong_database_url_is_refused_without_repeating_its_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", address)
    with pytest.raises(PostgresError, match="DATABASE_URL") as refused:
        EmbeddedPostgres(tmp_path).start()
    assert "hush-hush" not in str(refused.value)


def test_each_role_signs_in_and_has_no_right_beyond_its_grants(server: EmbeddedPostgres, passwords: Path) -> None:
    urls = roles.prepare(server.admin_url, "granted", passwords)
    assert set(urls) == {"onceback_owner", "onceback_console", "onceback_worker"}
    for role, url in urls.items():
        assert ask(url, "SELECT current_user::text || ' in ' || current_database()") == f"{role} in granted"
        rights = ask(
            url,
            "SELECT rolsuper, rolbypassrls, rolinherit, rolcreaterole, rolcreatedb, rolreplication "
            "FROM pg_roles WHERE rolname = current_user",
        )
        assert not any(rights), role
    assert ask(server.admin_url, "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'granted'") == (
        "onceback_owner"
    )
    assert ask(server.admin_url, "SELECT count(*) FROM pg_auth_members WHERE roleid::regrole::text ~ 'onceback'") == 0


@pytest.mark.parametrize("role", [roles.CONSOLE, roles.WORKER])
@pytest.mark.parametrize("statement", ["CREATE TABLE t (n int)", "CREATE TEMPORARY TABLE t (n int)", "CREATE SCHEMA s"])
def test_neither_console_nor_worker_can_make_a_table_or_schema(
    server: EmbeddedPostgres, passwords: Path, role: str, statement: str
) -> None:
    urls = roles.prepare(server.admin_url, "shut", passwords)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(urls[role], statement)


def test_the_owner_can_forbid_overlapping_units(server: EmbeddedPostgres, passwords: Path) -> None:
    owner = roles.prepare(server.admin_url, "units", passwords)[roles.OWNER]
    run(owner, "CREATE TABLE c (line uuid, units int4range, EXCLUDE USING gist (line WITH =, units WITH &&))")
    with connect(owner) as connection:
        claim = "INSERT INTO c VALUES ('01936f4e-0000-7000-8000-000000000001', %s)"
        connection.execute(claim, ["[0,2)"])
        connection.execute(claim, ["[2,3)"])
        with pytest.raises(psycopg.errors.ExclusionViolation):
            connection.execute(claim, ["[1,2)"])


def test_preparing_again_keeps_rows_and_passwords_and_mends_what_was_changed(
    server: EmbeddedPostgres, passwords: Path
) -> None:
    before = roles.prepare(server.admin_url, "mended", passwords)
    run(before[roles.OWNER], "CREATE TABLE kept AS SELECT 1 AS n")
    run(server.admin_url, "ALTER ROLE onceback_console SUPERUSER BYPASSRLS PASSWORD 'changed'")
    run(server.admin_url, "ALTER DATABASE mended OWNER TO postgres", "GRANT CREATE ON DATABASE mended TO PUBLIC")
    assert roles.prepare(server.admin_url, "mended", passwords) == before
    assert ask(before[roles.OWNER], "SELECT n FROM kept") == 1
    rights = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    assert ask(before[roles.CONSOLE], rights) is False
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(before[roles.CONSOLE], "CREATE SCHEMA s")


def test_the_passwords_of_the_roles_are_kept_where_only_their_owner_reads(
    server: EmbeddedPostgres, passwords: Path
) -> None:
    urls = roles.prepare(server.admin_url, "secret", passwords)
    assert mode(passwords) == 0o600
    chosen = {make_url(url).password for url in urls.values()}
    assert len(chosen) == 3
    assert all(len(str(password)) >= 32 for password in chosen)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(urls[roles.OWNER], password=make_url(urls[roles.WORKER]).password)


def test_an_administrator_who_is_no_superuser_is_enough(server: EmbeddedPostgres, passwords: Path) -> None:
    run(
        server.admin_url,
        *(f"DROP DATABASE IF EXISTS {name}" for name in ("granted", "shut", "units", "mended", "secret")),
        *(f"DROP ROLE IF EXISTS {role}" for role in roles.ROLES),
        "CREATE ROLE hosted LOGIN CREATEROLE CREATEDB PASSWORD 'hosted-password'",
    )
    hosted = make_url(server.admin_url).set(username="hosted", password="hosted-password")
    urls = roles.prepare(hosted.render_as_string(hide_password=False), "hosted", passwords)
    run(urls[roles.OWNER], "CREATE TABLE made (n int)")
    assert ask(urls[roles.WORKER], "SELECT current_user::text") == roles.WORKER


def test_two_preparations_at_once_end_like_one(server: EmbeddedPostgres, passwords: Path) -> None:
    roles.prepare(server.admin_url, "first", passwords)
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: roles.prepare(server.admin_url, "together", passwords), range(4)))
    assert all(urls == ended[0] for urls in ended)
    assert ask(ended[0][roles.CONSOLE], "SELECT 1") == 1


def test_a_server_that_refuses_is_quoted_without_its_password(server: EmbeddedPostgres, passwords: Path) -> None:
    wrong = make_url(server.admin_url).set(password="hush-hush").render_as_string(hide_password=False)
    with pytest.raises(PostgresError, match=r"The database refused could not be prepared: .*password") as refused:
        roles.prepare(wrong, "refused", passwords)
    assert "hush-hush" not in str(refused.value)
