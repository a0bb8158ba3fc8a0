"""Signs of risk of a case from our own rows, one bounded statement: each raises who decides, none changes an amount."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from ledger.database import rows
from ledger.entitlement_verdict import reaches
from ledger.events import LockedCase
from ledger.policy_terms import PolicyTerms

_READ: Final = "SELECT name, number FROM risk_signals(:m, :c) ORDER BY name"


def read_signals(db: Connection, case: LockedCase, terms: Sequence[PolicyTerms]) -> tuple[tuple[str, int], ...]:
    """The signs that reach the threshold these terms set for them, or one of them does, with their values.

    One that does not is left out: its value would change from day to day, and with it what was approved.
    """
    found = rows(db, _READ, m=case.merchant_id, c=case.case_id)
    return tuple((row["name"], row["number"]) for row in found
                 if any(reaches(one, row["name"], row["number"]) for one in terms))  # fmt: skip
