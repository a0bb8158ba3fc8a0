"""Files for the browser, each under a name that carries its own hash, so that it may be kept for ever (DESIGN §7).

Foreign files are checked against `static/vendor/integrity.json`, which the build hook writes, before anything is served.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from whitenoise import WhiteNoise

from console.headers import STATIC_PREFIX, Application

FOLDER: Final = Path(__file__).parents[1] / "static"
# Without these no page is whole; whatever else of ours is in the folder is served too.
NEEDED: Final = ("console.css", "console.js", "passkeys.js", "icon.svg")


class StaticFiles:
    """The addresses and integrity values of the files in `folder`. RuntimeError when one is missing or not the reviewed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._integrity = _reviewed(folder)
        ours = {path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
        names = (*sorted(ours | set(NEEDED)), *(f"vendor/{name}" for name in self._integrity))
        self._addresses = {name: _address(folder, name) for name in names}

    def asset(self, name: str) -> str:
        """The hashed address of a file; KeyError for one that is not served."""
        return self._addresses[name]

    def integrity(self, name: str) -> str:
        """The `integrity` attribute of a foreign file."""
        return self._integrity[name.removeprefix("vendor/")]

    def in_front_of(self, application: Application) -> Any:
        """The application with these files before it, under their hashed names only."""
        files = WhiteNoise(application, allow_all_origins=False, immutable_file_test=lambda _path, _url: True)
        for name, address in self._addresses.items():
            files.add_file_to_dictionary(address, str(self._folder / name))
        return files


def _address(folder: Path, name: str) -> str:
    path = folder / name
    if not path.is_file():
        raise RuntimeError(f"{path} is missing: install the project again (pip install -e .).")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    stem, dot, ending = name.rpartition(".")
    return f"{STATIC_PREFIX}{stem}.{digest}{dot}{ending}"


def _reviewed(folder: Path) -> dict[str, str]:
    listed = folder / "vendor" / "integrity.json"
    if not listed.is_file():
        raise RuntimeError(f"{listed} is missing: the build hook writes it (pip install -e .).")
    integrity: dict[str, str] = json.loads(listed.read_text(encoding="ascii"))
    for name, wanted in integrity.items():
        found = "sha384-" + base64.b64encode(hashlib.sha384((folder / "vendor" / name).read_bytes()).digest()).decode()
        if found != wanted:
            raise RuntimeError(f"static/vendor/{name} is not the file that was reviewed: install the project again.")
    return integrity
