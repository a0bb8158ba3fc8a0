"""UUIDv7 identifiers, made by the application so that insert-only roles need no RETURNING."""

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """A time-ordered UUID: 48 bits of Unix milliseconds, then 74 random bits (RFC 9562 §5.7)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
