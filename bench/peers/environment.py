"""The peers' own environment under build/: made once, from a lock with hashes, and never mixed with the product's."""

import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path("build/peers")
LOCK: Final = Path(__file__).with_name("requirements.lock")


class PeersMissing(Exception):
    """The engines to compare with could not be installed."""


def python() -> Path:
    """The interpreter of the environment, installed on the first call. Raises PeersMissing with pip's last words."""
    found = FOLDER / "bin" / "python"
    stamp = FOLDER / ".installed"
    if stamp.exists() and stamp.stat().st_mtime >= LOCK.stat().st_mtime:
        return found
    print("  installing the engines to compare with, once, under build/peers …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    command = [str(found), "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps",
               "--disable-pip-version-check", "-r", str(LOCK)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeersMissing(
            f"The engines to compare with could not be installed (is the network there?): {done.stderr[-300:]}"
        )
    stamp.touch()
    return found
