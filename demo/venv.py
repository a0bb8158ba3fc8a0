"""Makes .venv from the lock files:  python3 demo/venv.py STAMP LOCK...

Imports only the standard library and keeps to the syntax of Python 3.5, so that an old Python can say what is wrong.
"""

import os
import shutil
import subprocess
import sys
from typing import List

OLDEST = (3, 11)
NEEDED_MB = {"requirements.lock": 700, "requirements-build.lock": 100, "requirements-dev.lock": 1300}
VENV_PYTHON = os.path.join(".venv", "bin", "python")


class InstallError(Exception):
    """One sentence for the person who typed `make`."""


def main(stamp: str, locks: List[str]) -> None:
    """Makes .venv if need be, installs exactly what the locks name and the project itself, then touches the stamp."""
    check_python()
    check_disk(locks)
    make_venv()
    for lock in locks:
        install_lock(lock)
    install_project()
    with open(stamp, "w"):
        pass


def check_python() -> None:
    if sys.version_info < OLDEST:
        raise InstallError(
            "Onceback needs Python 3.11 or newer and this is {}.{}: install a newer one, "
            "or name it with `make PYTHON=/path/to/it`.".format(*sys.version_info[:2])
        )
    try:
        import ensurepip  # noqa: F401, PLC0415
        import venv  # noqa: F401, PLC0415
    except ImportError:
        raise InstallError(
            "This Python has no venv module: install it "
            "(on Debian and Ubuntu: apt-get install python3-venv) and try again."
        ) from None


def check_disk(locks: List[str]) -> None:
    if works(VENV_PYTHON):
        return
    needed = sum(NEEDED_MB[lock] for lock in locks)
    free = shutil.disk_usage(".").free // 1000000
    if free < needed:
        raise InstallError(
            "The disk has {} MB free and .venv needs about {} MB: make room and try again.".format(free, needed)
        )


def works(python: str) -> bool:
    """Whether this interpreter exists, runs, and is new enough (a venv breaks when the Python beneath it goes)."""
    probe = "import sys; sys.exit(sys.version_info < {})".format(OLDEST)
    try:
        with open(os.devnull, "w") as nowhere:
            return subprocess.call([python, "-I", "-c", probe], stderr=nowhere) == 0
    except OSError:
        return False


def make_venv() -> None:
    if works(VENV_PYTHON):
        return
    say("Making .venv with Python {}.{}.{}".format(*sys.version_info[:3]))
    run([sys.executable, "-m", "venv", "--clear", ".venv"], "The folder .venv could not be made")


def install_lock(lock: str) -> None:
    with open(lock) as lines:
        expected = sum("==" in line and not line.lstrip().startswith("#") for line in lines)
    say("Installing what {} names, by hash".format(lock))
    command = [VENV_PYTHON, "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:", "-r", lock]
    run(
        [*command, "--no-deps", "--progress-bar", "off", "--disable-pip-version-check"],
        "The packages of {} could not be installed (is the network there?)".format(lock),
        expected,
    )


def install_project() -> None:
    say("Building the project's own part")
    command = [VENV_PYTHON, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    run([*command, "--disable-pip-version-check", "--editable", "."], "The project itself could not be built")


def run(command: List[str], refusal: str, expected: int = 0) -> None:
    """Runs a command, counts the packages it collects on one moving line, and shows its words only when it fails."""
    words, collected = [], 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    for line in process.stdout or ():
        words.append(line)
        if line.startswith("Collecting ") and sys.stdout.isatty():
            collected += 1
            name = line.split()[1].split("==")[0]
            print("\r\033[K  {} of {}  {}".format(collected, expected, name), end="", flush=True)
    if collected:
        print("\r\033[K", end="", flush=True)
    if process.wait() != 0:
        sys.stderr.write("".join(words[-15:]))
        raise InstallError("{}: read the lines above, put it right and run the same command again.".format(refusal))


def say(sentence: str) -> None:
    print(sentence + " ...")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except InstallError as refused:
        sys.exit(str(refused))
    except KeyboardInterrupt:
        sys.exit("Stopped; the same command goes on from here.")
