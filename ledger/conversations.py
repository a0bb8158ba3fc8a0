"""The conversations of a case: through which channel, under which reference, and how the channel knew the customer."""

from dataclasses import dataclass

from sqlalchemy import Connection

from ledger.database import run
from ledger.events import LockedCase
from ledger.ids import uuid7


@dataclass(frozen=True)
class Talk:
    """One conversation as it is stored: without card numbers, and no longer than its columns."""

    channel: str
    reference: str
    actor: str
    customer_verified: str
    customer_text: str


_INSERT = """
    INSERT INTO conversations (merchant_id, conversation_id, case_id, channel, reference, actor, customer_verified,
        customer_text, joined, at)
    VALUES (:m, :id, :c, :channel, :reference, :actor, :verified, :text, :joined, :at) ON CONFLICT DO NOTHING
"""


def add_conversation(db: Connection, case: LockedCase, talk: Talk, *, joined: bool) -> bool:
    """Whether the case had no such conversation yet. `joined`: it came to a case that was there. The case is locked."""
    return run(
        db, _INSERT, m=case.merchant_id, id=uuid7(), c=case.case_id, channel=talk.channel, reference=talk.reference,
        actor=talk.actor, verified=talk.customer_verified, text=talk.customer_text, joined=joined, at=case.at,
    ) == 1  # fmt: skip
