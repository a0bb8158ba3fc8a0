"""The build hook that brings htmx and Bootstrap's css into static/vendor: one altered byte fails the build (S81)."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from hatch_build import BOOTSTRAP_5_3_8, HTMX_2_0_10, VendorError, VendorFile, write

ROOT = Path(__file__).parents[1]
BUILD_EDITABLE = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
BUILD_WHEEL = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of the same build files, so that a failed build leaves nothing of ours half written."""
    folder = tmp_path / "project"
    (folder / "ledger").mkdir(parents=True)
    (folder / "ledger" / "__init__.py").touch()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    return folder


def build(project: Path, script: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PYTHONPATH": str(packages)} if packages else {})
    command = [sys.executable, "-c", script, str(project.parent)]
    return subprocess.run(command, check=False, cwd=project, env=environment, capture_output=True, text=True)


def altered_package(file: VendorFile, folder: Path) -> Path:
    """The package as installed but for one byte in the middle of its file; returns where it is importable from."""
    spec = find_spec(file.package)
    assert spec is not None
    assert spec.submodule_search_locations
    shutil.copytree(spec.submodule_search_locations[0], folder / file.package)
    path = folder / file.package / file.path
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)
    return folder


@pytest.mark.parametrize("script", [BUILD_EDITABLE, BUILD_WHEEL], ids=["editable install", "wheel"])
def test_every_kind_of_build_brings_both_files_and_their_integrity(project: Path, script: str) -> None:
    built = build(project, script)
    assert built.returncode == 0, built.stderr
    vendor = project / "static" / "vendor"
    integrity = json.loads((vendor / "integrity.json").read_text())
    assert set(integrity) == {"htmx.min.js", "bootstrap.min.css"}
    for name, value in integrity.items():
        assert value == "sha384-" + base64.b64encode(hashlib.sha384((vendor / name).read_bytes()).digest()).decode()


def test_a_wheel_carries_the_vendored_files_and_no_demo(project: Path) -> None:
    (project / "demo").mkdir()
    (project / "demo" / "__init__.py").touch()
    assert build(project, BUILD_WHEEL).returncode == 0
    (wheel,) = project.parent.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"static/vendor/htmx.min.js", "static/vendor/bootstrap.min.css", "static/vendor/integrity.json"} < set(names)
    assert not [name for name in names if name.startswith(("demo/", "hatch_build"))]


@pytest.mark.parametrize("file", [HTMX_2_0_10, BOOTSTRAP_5_3_8], ids=lambda file: file.name)
def test_an_altered_byte_fails_the_build_and_writes_nothing(project: Path, tmp_path: Path, file: VendorFile) -> None:
    packages = altered_package(file, tmp_path / "packages")
    built = build(project, BUILD_EDITABLE, packages)
    assert built.returncode != 0
    assert "is not the reviewed file: its SHA-256 is" in built.stderr
    assert not (project / "static").exists()


def test_the_file_made_of_the_source_is_checked_too(tmp_path: Path) -> None:
    other_layer = replace(BOOTSTRAP_5_3_8, css_layer="unlayered")
    with pytest.raises(VendorError, match=r"bootstrap\.min\.css is not the reviewed file"):
        write((HTMX_2_0_10, other_layer), tmp_path / "vendor")
    assert not (tmp_path / "vendor").exists()


def test_bootstrap_stands_whole_in_its_layer_without_its_charset(tmp_path: Path) -> None:
    write((BOOTSTRAP_5_3_8,), tmp_path)
    css = (tmp_path / "bootstrap.min.css").read_text(encoding="utf-8")
    assert css.startswith("@layer bootstrap {\n/*!\n * Bootstrap  v5.3.8 ")
    assert css.endswith("\n}\n")
    assert "@charset" not in css
    assert css.count("{") == css.count("}")


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    absent = replace(HTMX_2_0_10, package="absent_package")
    with pytest.raises(VendorError, match=r"absent_package is not installed: install requirements-build\.lock first"):
        write((absent,), tmp_path)
