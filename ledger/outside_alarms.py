"""Alarms about what others do at the provider that end by themselves: each with the question whether it is still so."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows, scalar
from ledger.disputes import LISTED
from ledger.outbox import close_alarms

_UNREAD: Final = (
    "SELECT 1 FROM account_readings WHERE merchant_id = :m AND list = '{}' AND failing_since IS NOT NULL LIMIT 1"
)
# Kind: (what finds that it is still so, what is said when it is not).
_ENDS: Final = {
    "refunds_unread": (_UNREAD.format("refunds"), "The provider's list of refunds can be read again."),
    "disputes_unread": (_UNREAD.format("disputes"), "The provider's list of disputes can be read again."),
    "outside_unplaced": (
        """SELECT 1 FROM external_refunds WHERE merchant_id = :m AND placed_minor < amount_minor
        AND status NOT IN ('failed', 'canceled') LIMIT 1""",
        "Everything refunded outside is taken off its payment.",
    ),
    "disputed_after_refund": (
        "SELECT 1 FROM disputes WHERE merchant_id = :m AND placed_minor < amount_minor AND dispute_takes(status) LIMIT 1",
        "No dispute takes more than its payment holds.",
    ),
    "unlisted_dispute": (
        "SELECT 1 FROM disputes WHERE merchant_id = :m AND NOT (status = ANY(:listed)) LIMIT 1",
        "Every dispute is in a state that is known.",
    ),
}
_OPEN: Final = "SELECT DISTINCT kind FROM alarms WHERE merchant_id = :m AND closed_at IS NULL AND kind = ANY(:kinds)"


def end_what_is_over(db: Connection, merchant_id: UUID) -> int:
    """Ends the open alarms whose condition is over, each with a row that says so; returns how many. Locks those alarms."""
    ended = 0
    for row in rows(db, _OPEN, m=merchant_id, kinds=list(_ENDS)):
        still, over = _ENDS[row["kind"]]
        asked = {"listed": sorted(LISTED)} if ":listed" in still else {}
        if scalar(db, still, m=merchant_id, **asked) is None:
            ended += close_alarms(db, merchant_id, row["kind"], over)
    return ended
