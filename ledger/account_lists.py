"""How far an account's lists at the provider were read, so that nothing slips between two readings.

A pass reads from the newest back to a little before the last complete pass began; its pages may take several runs, and two
workers that read at once do no more than the work twice. What is new at the provider meanwhile belongs to the next pass.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.brakes import brakes_on
from ledger.database import rows, run, scalar

# How far the first pass looks back: a refund of an older payment is told by its hook, or by the look at its payment.
FIRST_LOOK_BACK: Final = timedelta(days=180)
# Clocks that differ, and a list that shows what was made a little late: what was read in this time is read once more.
OVERLAP: Final = timedelta(minutes=10)
# Each list is read this often by itself. Disputes are also read right before something is sent.
READ_EVERY: Final = timedelta(seconds=30)


@dataclass(frozen=True)
class Reading:
    """One pass over one list of one account, taken up where it stands. Times are the database's."""

    merchant_id: UUID
    account_id: UUID
    account: str
    credential: str
    livemode: bool
    expected_account: str
    list: str
    created_from: datetime
    began_at: datetime
    page_after: str | None


_ENSURE: Final = """
    INSERT INTO account_readings (merchant_id, provider_account_id, list)
    SELECT a.merchant_id, a.provider_account_id, l.list
    FROM provider_accounts a CROSS JOIN (VALUES ('refunds'), ('disputes')) l (list)
    WHERE a.merchant_id = :m AND NOT EXISTS (SELECT 1 FROM account_readings r WHERE r.merchant_id = a.merchant_id
        AND r.provider_account_id = a.provider_account_id AND r.list = l.list)
    ON CONFLICT DO NOTHING
"""
_TAKE: Final = """
    UPDATE account_readings r SET due_at = now() + :every, began_at = coalesce(r.began_at, now()) FROM provider_accounts a
    WHERE r.merchant_id = :m AND a.merchant_id = r.merchant_id AND a.provider_account_id = r.provider_account_id
        AND {which}
    RETURNING r.merchant_id, r.provider_account_id AS account_id, a.account_ref AS account, a.credential, a.livemode,
        coalesce(a.expected_account_ref, '') AS expected_account, r.list,
        coalesce(r.done_to - CAST(:overlap AS interval), now() - CAST(:back AS interval)) AS created_from, r.began_at, r.page_after
"""
# One that could not be read for a while is let be: each call to what is dead takes as long as a call may, and others wait for it.
_LET_BE: Final = "coalesce(r.let_be_until > now(), false)"
_DUE: Final = f"r.due_at <= now() AND NOT {_LET_BE}"
_DISPUTES: Final = "r.list = 'disputes' AND r.provider_account_id = :a"


def take_due_readings(db: Connection, merchant_id: UUID) -> list[Reading]:
    """Every list of the merchant's accounts whose time has come; until then no other worker takes it. The caller commits."""
    run(db, _ENSURE, m=merchant_id)
    found = rows(db, _TAKE.format(which=_DUE), m=merchant_id, every=READ_EVERY, overlap=OVERLAP, back=FIRST_LOOK_BACK)
    return [Reading(**row) for row in found]


def take_dispute_reading(db: Connection, merchant_id: UUID, account_id: UUID) -> Reading | None:
    """The list of disputes of one account, to be read now. The caller commits."""
    run(db, _ENSURE, m=merchant_id)
    found = rows(
        db, _TAKE.format(which=_DISPUTES), m=merchant_id, a=account_id, every=READ_EVERY, overlap=OVERLAP, back=FIRST_LOOK_BACK
    )  # fmt: skip
    return Reading(**found[0]) if found else None


_PAGE: Final = """
    UPDATE account_readings SET page_after = :last, failing_since = NULL, let_be_until = NULL, due_at = now()
    WHERE merchant_id = :m AND provider_account_id = :a AND list = :list AND began_at = :began
        AND page_after IS NOT DISTINCT FROM CAST(:after AS text)
"""
_LAST: Final = """
    UPDATE account_readings SET done_to = :began, read_at = greatest(read_at, :began), began_at = NULL, page_after = NULL,
        failing_since = NULL, let_be_until = NULL
    WHERE merchant_id = :m AND provider_account_id = :a AND list = :list AND began_at = :began
        AND page_after IS NOT DISTINCT FROM CAST(:after AS text)
"""


def page_was_read(db: Connection, reading: Reading, last_ref: str | None) -> None:
    """Keeps that a page is recorded: on to the next one after `last_ref`, or the pass is over. Nothing when another worker
    was faster."""
    keys = {"m": reading.merchant_id, "a": reading.account_id, "list": reading.list, "began": reading.began_at,
            "after": reading.page_after}  # fmt: skip
    if last_ref is None:
        run(db, _LAST, **keys)
    else:
        run(db, _PAGE, last=last_ref, **keys)


_FAILED: Final = """
    UPDATE account_readings SET failing_since = coalesce(failing_since, now()), began_at = NULL, page_after = NULL,
        let_be_until = CASE WHEN :refused OR failing_since < now() - CAST(:soon AS interval)
            THEN now() + least(greatest(now() - coalesce(failing_since, now()), CAST(:soon AS interval)),
                CAST(:most AS interval)) END
    WHERE merchant_id = :m AND provider_account_id = :a AND list = :list
    RETURNING failing_since < now() - CAST(:long AS interval) AS long
"""


# Until then it is tried at every run, for most of what fails passes; after it for as long again as it has failed, up to MOST.
LET_BE_AFTER: Final = timedelta(seconds=15)
LET_BE_MOST: Final = timedelta(minutes=5)


def page_failed(db: Connection, reading: Reading, long: timedelta, *, refused: bool) -> bool:
    """Keeps that the list could not be read; the pass starts anew. Whether it has not been readable for `long`.

    One that keeps failing, or that our key is refused at, is let be for longer and longer.
    """
    return bool(scalar(
        db, _FAILED, m=reading.merchant_id, a=reading.account_id, list=reading.list, long=long, refused=refused,
        soon=LET_BE_AFTER, most=LET_BE_MOST,
    ))  # fmt: skip


@dataclass(frozen=True)
class DueAccount:
    """An account at which a refund is due; `read_seconds` ago its disputes were read whole, None: never. `let_be`: it did not
    answer for a while, and is not asked now."""

    account_id: UUID
    read_seconds: float | None
    let_be: bool


_WITH_WORK: Final = f"""
    SELECT a.provider_account_id AS account_id, extract(epoch FROM now() - r.read_at)::float AS read_seconds, {_LET_BE} AS let_be
    FROM provider_accounts a LEFT JOIN account_readings r ON r.merchant_id = a.merchant_id
        AND r.provider_account_id = a.provider_account_id AND r.list = 'disputes'
    WHERE a.merchant_id = :m AND EXISTS (SELECT 1 FROM outbox o JOIN intents i ON i.merchant_id = o.merchant_id
            AND i.intent_id = o.intent_id WHERE o.merchant_id = a.merchant_id AND o.done_at IS NULL AND o.due_at <= now()
            AND i.state IN ('approved', 'submitting') AND i.provider_account_id = a.provider_account_id)
"""  # noqa: S608 - a constant


_OF_INTENT: Final = f"""
    SELECT i.provider_account_id AS account_id, extract(epoch FROM now() - r.read_at)::float AS read_seconds, {_LET_BE} AS let_be
    FROM intents i LEFT JOIN account_readings r ON r.merchant_id = i.merchant_id
        AND r.provider_account_id = i.provider_account_id AND r.list = 'disputes'
    WHERE i.merchant_id = :m AND i.intent_id = :i AND i.provider_account_id IS NOT NULL
"""  # noqa: S608 - a constant


def account_of_intent(db: Connection, merchant_id: UUID, intent_id: UUID) -> DueAccount | None:
    """The account at which an intent is paid; None for one that no provider pays."""
    found = rows(db, _OF_INTENT, m=merchant_id, i=intent_id)
    return DueAccount(**found[0]) if found else None


def accounts_with_work(db: Connection, merchant_id: UUID) -> list[DueAccount]:
    """The accounts of a merchant at which something is due to be sent; none while a brake is on."""
    if brakes_on(db, merchant_id):
        return []
    return [DueAccount(**row) for row in rows(db, _WITH_WORK, m=merchant_id)]
