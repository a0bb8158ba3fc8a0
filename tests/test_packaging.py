"""What holds the project together: lock files, the first command's refusals, import rules, the browser."""

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest

from demo import browser, venv

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<marker> ;.*?)? \\$", re.MULTILINE)
ADDRESS = re.compile(r"https?:|file:|\bindex\b|--find-links|\w+\.(org|com|io|net)\b", re.IGNORECASE)


def pins(lock: str) -> set[tuple[str, str]]:
    return {(found["name"], found["version"]) for found in PINNED.finditer((ROOT / lock).read_text())}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_versions_and_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert not ADDRESS.findall(text)
    entries = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(entries) > 10
    for entry in entries:
        assert PINNED.match(entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_the_lock_of_the_tests_has_all_of_the_others(lock: str) -> None:
    assert pins(lock) <= pins("requirements-dev.lock")


@pytest.mark.parametrize("module", ["app.py", "settings.py"])
def test_the_top_modules_know_neither_local_provider_nor_demo_nor_tests(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported
    assert not {name.partition(".")[0] for name in imported} & {"sandbox", "demo", "bench", "tests", "e2e"}


def test_the_first_script_is_read_by_a_python_too_old_for_the_rest() -> None:
    source = (ROOT / "demo" / "venv.py").read_text()
    ast.parse(source, feature_version=(3, 5))
    # feature_version does not refuse the literals that came with 3.6.
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]


def test_an_old_python_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(venv.InstallError, match=r"needs Python 3\.11 or newer and this is 3\.9: install a newer one"):
        venv.check_python()


def test_a_python_without_venv_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(venv.InstallError, match=r"no venv module: install it .*python3-venv"):
        venv.check_python()


def test_a_full_disk_is_said_before_the_packages_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(venv.InstallError, match=r"has 5 MB free and \.venv needs about 1300 MB: make room"):
        venv.check_disk(["requirements-dev.lock"])


def executable(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_browser_that_was_asked_for_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = executable(tmp_path / "mine", "echo Chromium 1.0")
    monkeypatch.setenv("ONCEBACK_CHROMIUM", str(mine))
    assert browser.find() == mine


def test_a_browser_that_was_asked_for_and_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBACK_CHROMIUM", str(tmp_path / "absent"))
    with pytest.raises(browser.BrowserError, match="absent, which does not run: correct or unset it"):
        browser.find()


def test_a_placeholder_that_only_points_elsewhere_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "chromium", "echo 'Install it with snap' >&2; exit 1")
    real = executable(tmp_path / "google-chrome", "echo Google Chrome 150")
    monkeypatch.delenv("ONCEBACK_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.find() == real


def test_a_machine_where_no_browser_can_be_installed_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "find", lambda: None)
    monkeypatch.setattr(browser, "_run", lambda _: None)
    with pytest.raises(browser.BrowserError, match=r"could not be installed: install it .* or name one"):
        browser.ensure()
