"""Taking the books up again after a backup was restored (S85–S87): a new generation, and what the provider still knows.

Every function is one step that may be repeated: a recovery that was stopped goes on where it was. It runs as the owner of the
database, while no worker lives and everything is paused.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.brakes import pull
from ledger.by_hand import to_person
from ledger.database import first, pin_tenant, rows, run, scalar
from ledger.errors import BadInput, WrongState
from ledger.events import append, lock_case
from ledger.fingerprint import read_intent
from ledger.hand_records import hand_record
from ledger.intents import live_intents
from ledger.outbox import give_to_person, mark_unknown

# The provider's list is read from this long before the backup: clocks differ, and a refund may be listed late.
BEFORE_BACKUP: Final = timedelta(hours=48)
REASON: Final = "recovery"
# Numbers that were given out after the backup are never given out again.
NUMBERS_SKIPPED: Final = 100_000
SEQUENCES: Final = ("case_number", "intent_number", "discrepancy_number")


@dataclass(frozen=True)
class Recovery:
    """`listed_from`: the provider's refunds since then are taken up. `again`: it was begun before and not finished."""

    generation: int
    backup_at: datetime
    listed_from: datetime
    again: bool


@dataclass(frozen=True)
class Account:
    """A merchant's account at the provider, and whose it is."""

    merchant_id: UUID
    slug: str
    account_id: UUID
    account: str
    credential: str
    livemode: bool
    expected_account: str


def begin(db: Connection, engineers: tuple[str, str], backup_at: datetime | None) -> Recovery:
    """Begins the next generation and makes everything of before it powerless; or goes on with one that was not finished.

    `backup_at`: when the backup was taken; by default the newest event it holds. Raises BadInput (engineers), WrongState while a
    worker lives or there is no deployment. Pins the transaction to one merchant after the other.
    """
    names = two_engineers(engineers)
    if scalar(db, _LIVING):
        raise WrongState("A worker is running on this database: stop every worker first.")
    known = first(db, "SELECT generation FROM deployment FOR UPDATE")
    if known is None:
        raise WrongState("There is no deployment in this database.")
    unfinished = first(
        db, "SELECT * FROM recoveries WHERE finished_at IS NULL AND generation = :g", g=known["generation"]
    )
    if unfinished is not None:
        at = min(unfinished["backup_at"], backup_at or unfinished["backup_at"])
        return Recovery(known["generation"], at, at - BEFORE_BACKUP, again=True)
    generation = known["generation"] + 1
    merchants = [row["id"] for row in rows(db, "SELECT id FROM merchants ORDER BY id")]
    newest = backup_at or _newest(db, merchants)
    run(
        db, "INSERT INTO recoveries (generation, first_engineer, second_engineer, backup_at) VALUES (:g, :a, :b, :at)",
        g=generation, a=names[0], b=names[1], at=newest,
    )  # fmt: skip
    run(db, "UPDATE deployment SET generation = :g", g=generation)
    run(db, "UPDATE sessions SET ended_at = now() WHERE ended_at IS NULL")
    # A code that was used since the backup is unused in it.
    run(db, "UPDATE recovery_codes SET ended_at = now() WHERE ended_at IS NULL")
    # Who left since the backup is in it as if they had not: everybody is let in again by hand.
    run(db, "UPDATE staff SET disabled_at = now() WHERE disabled_at IS NULL")
    for sequence in SEQUENCES:
        run(db, "SELECT setval(:name, nextval(:name) + :skipped)", name=sequence, skipped=NUMBERS_SKIPPED)
    for merchant_id in merchants:
        pin_tenant(db, merchant_id)
        pull(db, merchant_id, "pause", f"recovery, generation {generation}", staff_id=None, engineer=names[0])
        run(db, "UPDATE api_tokens SET revoked_at = now() WHERE merchant_id = :m AND revoked_at IS NULL", m=merchant_id)
        run(db, _VOID, m=merchant_id, g=generation)
    return Recovery(generation, newest, newest - BEFORE_BACKUP, again=False)


def two_engineers(named: tuple[str, str]) -> tuple[str, str]:
    """The names of two people, as they are kept. Raises BadInput."""
    first_name, second = (name.strip() for name in named)
    if any(not 2 <= len(name) <= 80 for name in (first_name, second)) or first_name.lower() == second.lower():
        raise BadInput("engineers", "name two people")
    return first_name, second


_LIVING: Final = """
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onceback-alive' LIMIT 1
"""
_VOID: Final = """
    INSERT INTO void_approvals (merchant_id, approval_id, generation)
    SELECT a.merchant_id, a.approval_id, :g FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    WHERE a.merchant_id = :m AND i.state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review')
    ON CONFLICT DO NOTHING
"""


def _newest(db: Connection, merchants: list[UUID]) -> datetime:
    """The newest event of any merchant: the backup was taken then or later, so that listing from it misses nothing."""
    found = []
    for merchant_id in merchants:
        pin_tenant(db, merchant_id)
        found.append(scalar(db, "SELECT max(at) FROM events WHERE merchant_id = :m", m=merchant_id))
    known = [at for at in found if at is not None]
    at: datetime = max(known) if known else scalar(db, "SELECT coalesce(min(created_at), now()) FROM merchants")
    return at


def accounts(db: Connection) -> list[Account]:
    """Every account of every merchant, to be read in turn. Pins the transaction to one merchant after the other."""
    found = []
    for merchant in rows(db, "SELECT id, slug FROM merchants ORDER BY slug"):
        pin_tenant(db, merchant["id"])
        found += [
            Account(
                merchant["id"],
                merchant["slug"],
                row["provider_account_id"],
                row["account_ref"],
                row["credential"],
                row["livemode"],
                row["expected_account_ref"] or "",
            )
            for row in rows(db, "SELECT * FROM provider_accounts WHERE merchant_id = :m ORDER BY 2", m=merchant["id"])
        ]
    return found


def unsettled(db: Connection, merchant_id: UUID) -> list[UUID]:
    """The cases with a refund that is approved or under way: each is then put to rest in a transaction of its own."""
    found = rows(
        db, "SELECT DISTINCT case_id FROM intents WHERE merchant_id = :m"
        " AND state IN ('approved', 'submitting', 'unknown', 'pending') ORDER BY case_id", m=merchant_id,
    )  # fmt: skip
    return [row["case_id"] for row in found]


def put_to_rest(db: Connection, merchant_id: UUID, case_id: UUID) -> tuple[int, int]:
    """What is still approved is held, what was under way is a person's; how many of each. Nothing is released.

    Locks the case, then its live intents.
    """
    case = lock_case(db, merchant_id, case_id)
    held = given = 0
    for intent in live_intents(db, case):
        if (
            intent["act"] == "manual"
            and intent["state"] == "approved"
            and hand_record(db, merchant_id, intent["intent_id"])
        ):
            # Held, it could neither be settled nor called back: a person says that the money left.
            move = ("approved", "submitting")
            append(db, case, "intent.submitting", "system", intent_id=intent["intent_id"], move=move)
            to_person(db, case, read_intent(db, merchant_id, intent["intent_id"]) or intent, REASON)
            given += 1
        elif intent["state"] == "approved":
            append(
                db,
                case,
                "intent.held",
                "system",
                intent_id=intent["intent_id"],
                move=("approved", "held"),
                reason=REASON,
            )
            run(db, "UPDATE outbox SET due_at = 'infinity' WHERE merchant_id = :m AND intent_id = :i",
                m=merchant_id, i=intent["intent_id"])  # fmt: skip
            held += 1
        elif intent["state"] in ("submitting", "unknown", "pending"):
            if intent["state"] == "submitting":
                mark_unknown(db, case, intent, REASON)
                intent = read_intent(db, merchant_id, intent["intent_id"]) or intent
            give_to_person(db, case, intent, REASON)
            given += 1
    return held, given


def finish(db: Connection, generation: int) -> None:
    """The provider was read to the end, and nothing is under way any more."""
    run(db, "UPDATE recoveries SET finished_at = now() WHERE generation = :g AND finished_at IS NULL", g=generation)


def by_hand(db: Connection, merchant_id: UUID) -> list[str]:
    """What people have to see to, one line each: refunds that could not be put in their place."""
    found = rows(
        db, "SELECT r.* FROM recovered_refunds r WHERE r.merchant_id = :m AND r.outcome = 'by_hand' AND NOT EXISTS ("
        "SELECT 1 FROM recovered_refunds n WHERE n.merchant_id = r.merchant_id AND n.refund_ref = r.refund_ref"
        " AND n.outcome <> 'by_hand') ORDER BY r.refunded_at", m=merchant_id,
    )  # fmt: skip
    return [
        f"{row['refund_ref']}: {row['amount_minor']} minor units of {row['currency']}, {row['reason']}" for row in found
    ]
