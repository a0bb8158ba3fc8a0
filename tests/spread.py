"""How a run in several processes shares the tests out: file by file, the longest files first, the browser's tests together.

The tests of one file share a database, a provider or a web process; those of the browser share one whole shop.
"""

from typing import Final

from xdist.scheduler import LoadFileScheduling

BROWSER: Final = "e2e"
# Begun last, one of these would go on alone when all else is done. By length; what is not named here takes seconds.
LONGEST: Final = (
    BROWSER,
    "tests/faults/test_killmatrix.py",
    "tests/faults/test_chaos.py",
    "tests/review/test_any_order.py",
    "tests/faults/test_ledger_model.py",
    "tests/database/test_order_import.py",
    "tests/jobs/test_provider_situations.py",
    "tests/jobs/test_settling.py",
    "tests/api/test_openapi.py",
    "tests/race/test_two_reviewers.py",
    "tests/test_replay.py",
    "tests/test_embedded_postgres.py",
    "tests/web/test_commands.py",
    "tests/jobs/test_commands.py",
    "tests/cases/test_every_case.py",
    "tests/web/test_access.py",
)
_TURN: Final = {part: turn for turn, part in enumerate(LONGEST)}


def part_of(nodeid: str) -> str:
    """What of the tests is done in one process."""
    file = nodeid.partition("::")[0]
    return BROWSER if file.startswith(f"{BROWSER}/") else file


def turn_of(nodeid: str) -> int:
    """Lower comes first."""
    return _TURN.get(part_of(nodeid), len(_TURN))


class ByPart(LoadFileScheduling):
    """xdist's scheduling by files, with all of the browser's in one."""

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)
