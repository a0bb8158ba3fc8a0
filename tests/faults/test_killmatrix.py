"""A sample of the kill matrix, and its control: with a guard taken out of the scratch database a cell is red."""

import re
import subprocess
import sys
from pathlib import Path

from faults.paths import ROGUE

ROOT = Path(__file__).parents[2]


def killmatrix(report: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own, for it forks and this one has threads."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.killmatrix", "--out", str(report), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_sample_of_the_kill_matrix_ends_with_one_refund_or_none_in_every_cell(tmp_path: Path) -> None:
    status, said = killmatrix(tmp_path / "matrix.html", "--sample", "56")
    assert status == 0, said
    found = re.search(r"(\d+) kills \((\d+) by SIGKILL at their point\) and (\d+) whole courses; 0 red", said)
    assert found is not None, said
    kills, by_signal, courses = map(int, found.groups())
    assert 30 <= kills <= 56, "so many as the chosen courses have, of which some meet no fault"
    assert by_signal >= kills - 4, "a busy machine may take a course that ends before its point; most do not"
    assert courses >= 10
    page = (tmp_path / "matrix.html").read_text()
    assert page.count("<i ") + page.count("<i>") >= kills


def test_with_the_key_of_an_intent_free_to_change_the_matrix_finds_the_second_refund(tmp_path: Path) -> None:
    status, said = killmatrix(tmp_path / "red.html", "--path", ROGUE, "--fault", "none", "--guard", "one_key")
    assert status == 1, said
    assert "was refunded 2 times at the provider" in said
    assert "class=red" in (tmp_path / "red.html").read_text()
