"""Whether a version lets more be approved than what is in force when it begins: then it binds from the next business day.

Found from the documents alone, when it is drafted and again when it is approved: nobody's word counts, and another version may
be in force by then.
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows
from ledger.errors import WrongState
from ledger.policy_changes import is_readable, raised

NEWEST: Final = """
    SELECT version, document FROM policies WHERE merchant_id = :m AND policy_id = :p ORDER BY version DESC LIMIT 1
"""


# What a second policy beside one in force names when it lets more be approved.
_NAMING: Final = ("routes", "automatic", "signals", "goodwill")
_IN_FORCE: Final = """
    SELECT policy_id, document FROM policies
    WHERE merchant_id = :m AND effective @> coalesce(CAST(:begins AS timestamptz), now())
"""


def raises_over(
    db: Connection, merchant_id: UUID, before: dict[str, Any] | None, stored: dict[str, Any], begins: datetime | None
) -> bool:
    """Whether more may be approved under `stored` than under what is in force at `begins`, now where that is None.

    The newest version of the policy may be one that has not begun, or is over: it counts only where none is in force.
    """
    standing = {row["policy_id"]: row["document"] for row in rows(db, _IN_FORCE, m=merchant_id, begins=begins)}
    own = standing.get(stored["policy_id"])
    if own is not None:
        before = own if is_readable(own) else None
    if before is not None:
        return bool(raised(before, stored))
    # The defaults limit people until a policy in force does: then the lowest of those that do.
    limits = bool(stored.get("limits")) and not any(document.get("limits") for document in standing.values())
    return bool(standing) and (limits or any(stored.get(name) for name in _NAMING))


def raises_now(db: Connection, merchant_id: UUID, drafted: RowMapping) -> bool:
    """What the draft's row says of it is nobody's word: its document is compared anew. Raises WrongState for one that cannot be."""
    if not is_readable(drafted["document"]):
        raise WrongState("This draft cannot be read. Turn it down and have it drafted anew.")
    newest = first(db, NEWEST, m=merchant_id, p=drafted["policy_id"])
    before = newest["document"] if newest is not None and is_readable(newest["document"]) else None
    stored = drafted["document"] | {"policy_id": drafted["policy_id"]}
    return raises_over(db, merchant_id, before, stored, drafted["effective_from"])
