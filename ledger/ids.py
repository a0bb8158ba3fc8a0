"""UUIDv7 identifiers, made by the application so that insert-only roles need no RETURNING."""

import os
import time
from datetime import datetime
from typing import Final
from uuid import UUID


def uuid7() -> UUID:
    """A time-ordered UUID: 48 bits of Unix milliseconds, then 74 random bits (RFC 9562 §5.7)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def first_id(at: datetime) -> UUID:
    """The smallest identifier minted at a moment."""
    return UUID(int=max(0, int(at.timestamp() * 1000)) << 80)


def ids_between(since: datetime | None, until: datetime | None) -> tuple[UUID, UUID]:
    """A range [floor, ceiling) that holds every id minted from `since` on and before `until`, with a minute to either side.

    Ids are minted by the application's clock, moments are the database's: who asks compares the moment as well. None: no end.
    """
    floor = max(0, first_id(since).int - _MINUTE) if since else 0
    ceiling = first_id(until).int + _MINUTE if until else (1 << 128) - 1
    return UUID(int=floor), UUID(int=ceiling)


_MINUTE: Final = 60_000 << 80
