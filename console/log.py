"""The console's log: one JSON object a line, with the fields of ledger.log_fields and no others (S74).

No field holds what a person typed, a name, an address of the browser's bar, a cookie or a body. An exception is logged by
its kind and by where it was raised, never by its text: a database's message repeats the values it was given.
"""

import logging
import sys
from typing import Any, Final

import structlog

from ledger.log_fields import only_allowed

NAME: Final = "onceback"


def configure(*, beside_output: bool = False) -> None:
    """JSON lines on standard output; of a command whose output is for a person, on standard error beside it."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_allowed,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        logger_factory=LinesBeside if beside_output else Lines,
        cache_logger_on_first_use=False,
    )
    framework = logging.getLogger(NAME)
    framework.handlers[:] = [_FrameworkHandler(logging.WARNING)]
    framework.propagate = False


class Lines:
    """Writes each entry to standard output as it is when the entry is made."""

    def __init__(self, *_: Any) -> None: ...

    def msg(self, message: str) -> None:
        """One line, at once."""
        print(message, flush=True)

    debug = info = warning = error = critical = msg


class LinesBeside:
    """The same on standard error."""

    def __init__(self, *_: Any) -> None: ...

    def msg(self, message: str) -> None:
        """One line, at once."""
        print(message, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


class _FrameworkHandler(logging.Handler):
    """Flask logs an exception that even the error page could not answer: its kind is kept, its text is not."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        log.error(
            "framework", error=kind.__name__ if kind else record.levelname, where=f"{record.module}:{record.lineno}"
        )


log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
