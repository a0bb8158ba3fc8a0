"""Brings the two foreign files that the pages load into ``static/vendor/``, at every build and editable install.

htmx comes from the package django-htmx and Bootstrap's css from Bootstrap-Flask, which are build requirements only, so
no third-party text is ever committed. Each source must have the SHA-256 written here, and so must the file made of it:
one altered byte fails the build. To take a newer release, read what changed in it, then write its two hashes here.
"""

import base64
import hashlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHARSET = b'@charset "UTF-8";'


class VendorError(Exception):
    """A file that the pages load is missing or is not the one that was reviewed."""


@dataclass(frozen=True)
class VendorFile:
    """One file: package and path it comes from, its SHA-256 there, its name and SHA-256 in ``static/vendor/``."""

    package: str
    path: str
    source_sha256: str
    name: str
    result_sha256: str
    css_layer: str | None = None

    def read(self) -> bytes:
        """The text to serve. Raises VendorError when source or result is not the reviewed one."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise VendorError(f"{self.package} is not installed: install requirements-build.lock first.")
        source = Path(spec.submodule_search_locations[0], self.path)
        if not source.is_file():
            raise VendorError(f"{source} is missing: this release of {self.package} has another layout.")
        text = source.read_bytes()
        check(str(source), text, self.source_sha256)
        if self.css_layer is not None:
            text = wrap_in_layer(text, self.css_layer)
        check(self.name, text, self.result_sha256)
        return text


HTMX_2_0_10 = VendorFile(
    package="django_htmx",
    path="static/django_htmx/htmx-2.min.js",
    source_sha256="71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de",
    name="htmx.min.js",
    result_sha256="71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de",
)
BOOTSTRAP_5_3_8 = VendorFile(
    package="flask_bootstrap",
    path="static/bootstrap5/css/bootstrap.min.css",
    source_sha256="d85327d99c7a3ee1f9b5d0500d1370acea3ad2db39c163c2f51f232baedbdede",
    name="bootstrap.min.css",
    result_sha256="56a31d73809cf904cfaa7d6bf3cbcd2d1d8b8408c1461ba352303ecf042fc504",
    css_layer="bootstrap",
)


def check(name: str, text: bytes, sha256: str) -> None:
    found = hashlib.sha256(text).hexdigest()
    if found != sha256:
        raise VendorError(f"{name} is not the reviewed file: its SHA-256 is {found}, expected {sha256}.")


def wrap_in_layer(css: bytes, layer: str) -> bytes:
    """The css inside ``@layer``, so that the console's own layers win over it. No charset rule may stand in a layer."""
    return b"@layer " + layer.encode() + b" {\n" + css.removeprefix(CHARSET) + b"\n}\n"


def write(files: tuple[VendorFile, ...], folder: Path) -> dict[str, str]:
    """Writes the files and ``integrity.json``, the ``integrity`` attribute (SHA-384) for each name.

    Nothing is written unless every file is the reviewed one.
    """
    texts = {file.name: file.read() for file in files}
    integrity = {
        name: "sha384-" + base64.b64encode(hashlib.sha384(text).digest()).decode() for name, text in texts.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    (folder / "integrity.json").write_text(json.dumps(integrity, indent=2) + "\n", encoding="ascii")
    return integrity


class VendorHook(BuildHookInterface[Any]):
    """Called by Hatch before each wheel, source archive and editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        write((HTMX_2_0_10, BOOTSTRAP_5_3_8), Path(self.root, "static", "vendor"))
