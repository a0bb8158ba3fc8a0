"""What one call makes another wait for, or turns away: the payment it holds, and the rate of an account."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.errors import lock_timeout, rate_limited


class ObjectLocks:
    """Which payments a call holds right now."""

    def __init__(self) -> None:
        self._freed = threading.Condition()
        self._held: set[str] = set()

    @contextmanager
    def holding(self, name: str | None, wait_seconds: float) -> Iterator[None]:
        """Hold an object; raises 429 ``lock_timeout`` when another call holds it all through the wait."""
        if name is None:
            yield
            return
        with self._freed:
            if not self._freed.wait_for(lambda: name not in self._held, wait_seconds):
                raise lock_timeout()
            self._held.add(name)
        try:
            yield
        finally:
            with self._freed:
                self._held.discard(name)
                self._freed.notify_all()


class Rates:
    """How many calls each account made in the last second (§6)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, deque[float]] = {}

    def count(self, account: str, most: int) -> None:
        """One more call; raises 429 ``rate_limit`` when there were ``most`` within a second."""
        now = time.monotonic()
        with self._lock:
            calls = self._calls.setdefault(account, deque())
            while calls and calls[0] <= now - 1:
                calls.popleft()
            if len(calls) >= most:
                raise rate_limited()
            calls.append(now)
