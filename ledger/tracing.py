"""W3C trace context: one id from the browser's or channel's request through the outbox to the provider's call and back.

What is kept is a `traceparent` (55 characters). A caller's id is taken when it is well formed and is never believed to mean
anything; else one is made. The id names no person and no order.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# Version 00 is these fields and nothing after them; of a later version only the first four are read.
_FIELDS: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_LONGEST: Final = 512

_current: ContextVar[str] = ContextVar("traceparent", default="")


def accepted(header: str | None) -> str:
    """The span of ours under a caller's traceparent; a new trace when there is none or it is not one."""
    found = _FIELDS.fullmatch(header.strip()) if header and len(header) <= _LONGEST else None
    if found is None:
        return begun()
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(parent, 16):
        return begun()
    return f"00-{trace}-{_span()}-{int(flags, 16) & 1:02x}"


def begun() -> str:
    """A new trace, sampled."""
    return f"00-{_not_zero(16)}-{_span()}-01"


def below(traceparent: str) -> str:
    """The next span of a trace, for a call that leaves this process; a new trace when there is none."""
    return accepted(traceparent)


def trace_id(traceparent: str) -> str:
    """The 32 digits that every hop shares; "" when there is none."""
    found = _FIELDS.fullmatch(traceparent)
    return found[2] if found else ""


def current() -> str:
    """The traceparent of what this thread is about; "" outside of one."""
    return _current.get()


@contextmanager
def about(traceparent: str) -> Iterator[None]:
    """Everything inside, calls and log lines, belongs to this trace."""
    token = _current.set(traceparent)
    try:
        yield
    finally:
        _current.reset(token)


def _span() -> str:
    return _not_zero(8)


def _not_zero(length: int) -> str:
    return next(made for made in iter(lambda: secrets.token_hex(length), None) if int(made, 16))
