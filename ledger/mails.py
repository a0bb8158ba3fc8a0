"""Mail that waits to be sent: queued in the transaction of what it is about, sent by a job, never in a request (S7, S37).

It tells people what happened to their account, and, if they asked for it, that a case waits for them. No customer, no amount.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from ledger.database import first, run
from ledger.ids import uuid7

# A server that is away for a night is waited for: a minute, then twice as long each time, an hour at most.
MOST_ATTEMPTS: Final = 16
LEASE_SECONDS: Final = 60
LONGEST_WAIT_SECONDS: Final = 3600
# What is only of use today.
WORK: Final = ("mentioned", "assigned")


@dataclass(frozen=True)
class Mail:
    """One mail that was claimed. `attempt` counts from 1; `facts` are words of ours, ids and names of staff and shops."""

    mail_id: UUID
    to_address: str
    kind: str
    facts: dict[str, Any]
    attempt: int


def queue_mail(db: Connection, to_address: str, kind: str, facts: Mapping[str, Any]) -> None:
    """Puts a mail into the queue; it goes when the caller's transaction commits."""
    run(
        db, "INSERT INTO mails (mail_id, to_address, kind, facts) VALUES (:i, :to, :k, :f)",
        i=uuid7(), to=to_address, k=kind, f=Jsonb(dict(facts)),
    )  # fmt: skip


def tell(db: Connection, staff_id: UUID, kind: str, facts: Mapping[str, Any]) -> bool:
    """Queues a mail to a person who is not switched off; about WORK only to one who asked for that. Says whether it did."""
    found = first(
        db, "SELECT email, name FROM staff WHERE staff_id = :s AND disabled_at IS NULL AND (mail_work OR NOT :work)",
        s=staff_id, work=kind in WORK,
    )  # fmt: skip
    if found is None:
        return False
    queue_mail(db, found["email"], kind, {"name": found["name"], **facts})
    return True


_CLAIM: Final = """
    UPDATE mails SET attempts = attempts + 1, due_at = now() + make_interval(secs => :lease)
    WHERE mail_id = (SELECT mail_id FROM mails WHERE sent_at IS NULL AND given_up_at IS NULL AND due_at <= now()
        ORDER BY due_at, mail_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING mail_id, to_address, kind, facts, attempts AS attempt
"""


def claim_mail(db: Connection) -> Mail | None:
    """The next mail that is due, for LEASE_SECONDS: commit before it is sent. One whose sender died is due again then."""
    row = first(db, _CLAIM, lease=LEASE_SECONDS)
    return Mail(**row) if row else None


def mail_sent(db: Connection, mail: Mail) -> None:
    """It left; a server that took it and did not say so in time may get it twice."""
    run(db, "UPDATE mails SET sent_at = now(), fault = NULL WHERE mail_id = :i AND sent_at IS NULL", i=mail.mail_id)


def mail_failed(db: Connection, mail: Mail, fault: str, *, for_good: bool) -> bool:
    """It did not leave: tried again later, or given up `for_good` and after MOST_ATTEMPTS; says whether it was given up."""
    over = for_good or mail.attempt >= MOST_ATTEMPTS
    wait = min(60 * 2 ** (mail.attempt - 1), LONGEST_WAIT_SECONDS)
    run(
        db, "UPDATE mails SET fault = :f, due_at = now() + make_interval(secs => :wait),"
        " given_up_at = CASE WHEN :over THEN now() END WHERE mail_id = :i AND sent_at IS NULL AND given_up_at IS NULL",
        f=fault[:80], wait=wait, over=over, i=mail.mail_id,
    )  # fmt: skip
    return over
