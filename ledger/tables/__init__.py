"""The schema as SQLAlchemy sees it, for `alembic check` and for writing the next migration.

The statements in ledger/migrations/sql are the schema; this mirrors its tables, keys and indexes, and a test compares
the two. Checks, triggers, policies and grants are in the statements only.
"""

from typing import Any

from ledger.tables import (
    brakes,
    cases,
    credit_entries,
    desks,
    duplicates,
    erasure,
    factors,
    facts,
    intents,
    kinds,
    orders,
    outside,
    payments,
    people,
    policies,
    receipts,
    reconciliation,
    recovery,
    registry,
    review,
    settled,
    teamwork,
    work,
)
from ledger.tables.base import metadata

__all__ = [
    "brakes",
    "cases",
    "compared",
    "credit_entries",
    "desks",
    "duplicates",
    "erasure",
    "factors",
    "facts",
    "intents",
    "kinds",
    "metadata",
    "orders",
    "outside",
    "payments",
    "people",
    "policies",
    "receipts",
    "reconciliation",
    "recovery",
    "registry",
    "review",
    "same_default",
    "settled",
    "teamwork",
    "work",
]  # fmt: skip


def compared(_thing: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """Whether Alembic compares this object: all but its own version table."""
    return not (kind == "table" and name == "alembic_version")


def same_default(
    _context: Any, _found: Any, _ours: Any, found_default: str | None, _ours_default: Any, our_text: str | None
) -> bool | None:
    """False (no drift) where both take the next number of one sequence, which Alembic would compare by drawing it."""
    if found_default and found_default.startswith("nextval(") and found_default == our_text:
        return False
    return None
