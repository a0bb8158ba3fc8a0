"""A page of a list at the provider, as whoever read it hands it on: what could be read, and what could not."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Unread:
    """An object of a list that cannot be read: its id there, why, and when it was made if that can be read."""

    ref: str
    reason: str
    created_at: datetime | None


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page in the provider's order, newest first. `next_after` is what the next one starts after, None on the last."""

    rows: list[T]
    unread: list[Unread]
    next_after: str | None

    @property
    def last(self) -> bool:
        return self.next_after is None

    @property
    def length(self) -> int:
        """How many objects the provider listed, readable or not."""
        return len(self.rows) + len(self.unread)
