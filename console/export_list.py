"""The list of files that were taken out, for the desks that show it."""

from typing import Any, Final

from sqlalchemy import Connection

from console.access import current
from console.filters import plain
from ledger.exports import last_exports

NAMES: Final = {
    "refunds": "Refunds of a period", "credits": "Credit entries of a period",
    "discrepancies": "Discrepancies of a run", "trail": "Audit trail", "metrics": "Metrics",
}  # fmt: skip
# The parts of a filter in the order of a sentence. A run is named by its id, which says nothing to a reader.
_ASKED: Final = {
    "since": "from",
    "until": "to",
    "dated": "dated by",
    "person": "who",
    "kind": "what",
    "period": "period",
}


def past_exports(db: Connection, most: int) -> list[dict[str, Any]]:
    """The newest files: {what, asked, reason, by, at, rows, digest, ended}."""
    return [
        {
            "what": NAMES[one.what], "reason": one.reason, "by": one.by, "at": one.at, "rows": one.rows,
            "asked": plain(" ".join(f"{word} {one.filter[name]}" for name, word in _ASKED.items() if name in one.filter)),
            "digest": one.sha256.hex()[:12] if one.sha256 else "", "ended": one.ended_at is not None,
        }
        for one in last_exports(db, current.merchant_id, most)
    ]  # fmt: skip
