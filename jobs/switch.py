"""The second switch, outside the database (S88): a file beside the worker, for when the database is the suspect.

`PAUSE_FILE` names it; `touch` stops this worker's sending, and taking the file away lets it go on. It is asked before each
claim and before each call, so what was claimed and not yet sent is given back.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID


@dataclass(frozen=True)
class Switch:
    """`path` is None where no such file is configured."""

    path: Path | None = None

    def on(self) -> bool:
        """Whether the file is there. A place that cannot be looked at counts as on: it says nothing else."""
        if self.path is None:
            return False
        try:
            self.path.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True


@dataclass
class Recent:
    """Which merchants were free a moment ago. A free one is asked about again after `seconds`, a stopped one each time."""

    seconds: float
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _free_at: dict[UUID, float] = field(default_factory=dict)

    def stopped(self, merchant_id: UUID, question: Callable[[UUID], bool]) -> bool:
        """Whether the merchant is stopped, by an answer at most `seconds` old on the monotonic clock. One question at a time."""
        with self._guard:
            at = time.monotonic()
            if at - self._free_at.get(merchant_id, float("-inf")) < self.seconds:
                return False
            if question(merchant_id):
                self._free_at.pop(merchant_id, None)
                return True
            self._free_at[merchant_id] = at
            return False
