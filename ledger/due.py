"""Which of many merchants have something due: asked of all of them in a few round trips, each under its own tenant."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Engine

from ledger.database import run_later, together, transaction

# So many are asked in one transaction; it is short, and an old snapshot holds up the vacuum of nobody.
ASKED_AT_ONCE: Final = 200

_PIN: Final = "SELECT set_config('onceback.merchant', :m, true)"
# From the partial index of what is not done: what was settled long ago is not in it.
_SOMETHING_DUE: Final = """
    SELECT merchant_id FROM outbox WHERE merchant_id = :m AND done_at IS NULL AND due_at <= now() ORDER BY due_at LIMIT 1
"""


def merchants_with_due(engine: Engine, merchants: Sequence[UUID]) -> list[UUID]:
    """Those of the merchants for which something in the outbox is due now, in the given order. Opens its own transactions."""
    found: list[UUID] = []
    for start in range(0, len(merchants), ASKED_AT_ONCE):
        some = merchants[start : start + ASKED_AT_ONCE]
        with transaction(engine, read_only=True) as db:
            with together(db):
                asked = [
                    (merchant_id, run_later(db, _PIN, m=str(merchant_id)), run_later(db, _SOMETHING_DUE, m=merchant_id))
                    for merchant_id in some
                ]
            found += [merchant_id for merchant_id, _, due in asked if due.rows()]
    return found
