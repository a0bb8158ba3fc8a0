"""The log of the worker: one JSON object a line, with the fields of this list and no others (S74).

A field that is not listed is dropped, so a careless call cannot write a name, a note, an address, a key or a body.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import structlog

ALLOWED: Final = frozenset((
    "event", "level", "timestamp", "job", "merchant", "intent", "attempt", "outcome", "code", "http_status", "request",
    "state", "counts", "worker", "error", "where", "seconds", "trace", "reason", "signal",
))  # fmt: skip
_LONGEST: Final = 200


def only_allowed(_logger: Any, _method: str, entry: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Drops what is not listed; cuts and escapes what is. Objects other than numbers become text by their type."""
    return {key: _plain(value) for key, value in entry.items() if key in ALLOWED}


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case str():
            return value[:_LONGEST]
        case dict():
            return {str(key)[:_LONGEST]: number for key, number in value.items() if isinstance(number, int)}
        case BaseException():
            return type(value).__name__
    return str(value)[:_LONGEST]


def configure() -> None:
    """JSON lines on standard output; libraries only speak from WARNING on, in the same form and without their text."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_allowed,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler(logging.WARNING)]
    logging.captureWarnings(capture=True)
    # Its own reports of missed and failed runs carry tracebacks; jobs.schedule listens for both and says what may be said.
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL + 1)


class _LibraryHandler(logging.Handler):
    """A library's message may hold anything: only who said something, how bad, and where, is kept."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("library", where=f"{record.name}:{record.lineno}", reason=record.levelname)


log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
