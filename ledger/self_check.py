"""The ledger against itself: what is kept beside a journal is what the journal adds up to, and nothing is missing or twice.

Each check is one statement over a range of keys, so it sees one moment while others go on writing, and a merchant of any
size is walked in bounded steps. A fault is never mended here: it is named, with ids, and is a person's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows, scalar
from ledger.events import broken_links
from ledger.outbox import raise_alarm
from ledger.self_check_sql import CHAIN, CHECKS, MEANINGS, Check

# Rows of the walked table in one statement: far below the worker's statement limit on a large merchant.
BATCH: Final = 5_000
# Chains are computed here, event by event; a few hundred cases are some thousand events in memory.
CHAIN_BATCH: Final = 200
LAST_KEY: Final = UUID(int=(1 << 128) - 1)
FIRST_KEY: Final = UUID(int=0)
ALL_CHECKS: Final[Sequence[Check]] = (*CHECKS, CHAIN)


@dataclass(frozen=True)
class Fault:
    """One thing that is not as it must be. `about` names the row, `text` says what is kept and what it should be."""

    kind: str
    about: str
    text: str

    def line(self) -> str:
        """For a person: the kind, the row, what is wrong and what that means."""
        return f"{self.kind}: {self.about}: {self.text}. {MEANINGS[self.kind]}"


@dataclass(frozen=True)
class Step:
    """What one step found, and the key to go on after; None at the end."""

    faults: list[Fault]
    after: UUID | None


def check_step(db: Connection, merchant_id: UUID, check: Check, after: UUID) -> Step:
    """The next rows of a check after a key (FIRST_KEY to begin). Reads one snapshot, locks and writes nothing."""
    most = CHAIN_BATCH if check is CHAIN else BATCH
    until = _until(db, merchant_id, check, after, most)
    if check is CHAIN:
        faults = _chains(db, merchant_id, after, until or LAST_KEY)
    else:
        found = rows(db, check.sql, m=merchant_id, after=after, until=until or LAST_KEY)
        faults = [Fault(check.kind, row["about"], row["text"]) for row in found]
    return Step(faults, until)


def _until(db: Connection, merchant_id: UUID, check: Check, after: UUID, most: int) -> UUID | None:
    """The last key of the step, or None when the step goes to the end of the table."""
    if check.table is None:
        return None
    key: UUID | None = scalar(db, check.bound(), m=merchant_id, after=after, most=most - 1)
    return key


def _chains(db: Connection, merchant_id: UUID, after: UUID, until: UUID) -> list[Fault]:
    cases = rows(
        db, "SELECT case_id, number FROM cases WHERE merchant_id = :m AND case_id > :after AND case_id <= :until",
        m=merchant_id, after=after, until=until,
    )  # fmt: skip
    numbers = {row["case_id"]: row["number"] for row in cases}
    return [
        Fault(CHAIN.kind, f"case C-{numbers[case_id]} ({case_id})", f"the chain breaks at event {number}")
        for case_id, number in broken_links(db, merchant_id, list(numbers)).items()
        if number is not None
    ]


def raise_alarms(db: Connection, merchant_id: UUID, faults: Sequence[Fault]) -> None:
    """One alarm for each kind of fault, however many of it there are."""
    for kind in sorted({fault.kind for fault in faults}):
        of_kind = [fault for fault in faults if fault.kind == kind]
        text = f"The ledger does not agree with itself: {kind}, {len(of_kind)} found, first {of_kind[0].about}"
        raise_alarm(db, merchant_id, f"self_check_{kind}", None, text[:300])
