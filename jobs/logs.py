"""The log of the worker: one JSON object a line, with the fields of ledger.log_fields and no others (S74)."""

import logging
import sys

import structlog

from ledger.log_fields import only_allowed


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
        cache_logger_on_first_use=False,
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
