"""The Chromium of the browser tests: found on this machine, or installed.  python -m demo.browser  says which.

Imports only the standard library until it needs more, so that it may run before the packages are there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# The shell is the same engine without a browser's own windows, which cost a third of a test's processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = NAMES[:2]
# No calls home: a test has no business on the network, and a closed one answers them slowly.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


class BrowserError(Exception):
    """One sentence for who wants to run the browser tests."""


def flags() -> list[str]:
    """Arguments to start it with. Root has no sandbox in Chromium; anybody else keeps it."""
    return [*QUIET, "--no-sandbox"] if os.geteuid() == 0 else list(QUIET)


def find() -> Path | None:
    """A Chromium that answers, or None: ONCEBACK_CHROMIUM, one on the PATH, or the one that Playwright keeps.

    Raises BrowserError when ONCEBACK_CHROMIUM names one that does not answer: it was asked for, so no other is taken.
    """
    wanted = os.environ.get("ONCEBACK_CHROMIUM")
    if wanted:
        if not _answers(Path(wanted)):
            raise BrowserError(f"ONCEBACK_CHROMIUM names {wanted}, which does not run: correct or unset it.")
        return Path(wanted)
    for name in NAMES:
        path = shutil.which(name)
        if path is not None and _answers(Path(path)):
            return Path(path)
    own = _playwrights_own()
    return own if _answers(own) else None


def ensure() -> Path:
    """A Chromium that answers, installed when there is none. Raises BrowserError when it cannot be installed."""
    found = find()
    if found is not None:
        return found
    if _has_packages():
        _install_from_distribution()
    else:
        _run([sys.executable, "-m", "playwright", "install", "chromium"])
    found = find()
    if found is None:
        raise BrowserError(
            "The browser tests need Chromium and it could not be installed: install it with your system's packages, "
            "or name one in ONCEBACK_CHROMIUM."
        )
    return found


def _has_packages() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install_from_distribution() -> None:
    print("Installing Chromium from the system's packages ...", flush=True)
    _run(["apt-get", "update"])
    for package in PACKAGES:
        _run(["apt-get", "install", "--yes", "--no-install-recommends", package, "fonts-liberation"])
        if shutil.which(package):
            return


def _run(command: list[str]) -> None:
    """Runs an installer; what it said is shown only when it failed, and whether it helped is found out by looking."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)


def _answers(path: Path) -> bool:
    """Whether it runs at all: a distribution's placeholder that only points to another installer does not."""
    try:
        done = subprocess.run([path, "--version"], check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "chrom" in done.stdout.lower()


def _playwrights_own() -> Path:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a package of the tests, not of the demo

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path)


def main(arguments: list[str]) -> int:
    """`--if-missing`: installs it where only the system's packages are needed, says nothing of what it found."""
    if arguments == ["--if-missing"]:
        if not os.environ.get("ONCEBACK_CHROMIUM") and not any(map(shutil.which, NAMES)) and _has_packages():
            _install_from_distribution()
        return 0
    try:
        print(f"Browser for the tests: {ensure()}")
    except BrowserError as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
