"""The brakes: one person pauses, two start again, and what is on is read in the transaction that would move money.

`pause` stops a merchant's sending, `all` every merchant's, `stop` is an alarm's (the provider refused our key, an incident),
`shadow` lets everything be worked out, approved and recorded and sends nothing. Whoever moves money asks `brakes_on` in its
own transaction: claims, re-sends, releases, payments by hand. A switch outside the database is the worker's (`jobs.switch`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run
from ledger.errors import BadInput, NotAllowed, NotFound, SamePerson, WrongState
from ledger.ids import uuid7

BRAKES: Final = ("pause", "all", "stop", "shadow")
MAY_RELEASE: Final = ("manager", "finance")


@dataclass(frozen=True)
class Brakes:
    """What is on, since when, by whom and why; None where it is off. `all_*` stops the whole deployment."""

    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None
    all_paused_at: datetime | None
    all_paused_by: str | None
    all_paused_reason: str | None
    stopped_at: datetime | None
    stopped_reason: str | None
    shadow_at: datetime | None
    shadow_by: str | None
    shadow_reason: str | None

    @property
    def sends(self) -> bool:
        """Whether money may leave for the provider."""
        return self.moves and self.shadow_at is None

    @property
    def moves(self) -> bool:
        """Whether neither a person nor an alarm has stopped the merchant; in shadow mode that still holds."""
        return self.paused_at is None and self.all_paused_at is None and self.stopped_at is None

    def since(self, brake: str) -> datetime | None:
        """Since when one of BRAKES is on."""
        return {
            "pause": self.paused_at,
            "all": self.all_paused_at,
            "stop": self.stopped_at,
            "shadow": self.shadow_at,
        }[brake]


# One statement, so that both switches are of one moment. A merchant without a row is not let go: no row answers.
_READ: Final = """
    SELECT b.paused_at, b.paused_by, b.paused_reason, d.paused_at AS all_paused_at, d.paused_by AS all_paused_by,
        d.paused_reason AS all_paused_reason, b.stopped_at, b.stopped_reason, b.shadow_at, b.shadow_by, b.shadow_reason
    FROM merchant_brakes b LEFT JOIN deployment_brakes d ON true WHERE b.merchant_id = :m
"""


def read_brakes(db: Connection, merchant_id: UUID) -> Brakes:
    """The merchant's brakes now. Raises NotFound. Locks nothing."""
    row = first(db, _READ, m=merchant_id)
    if row is None:
        raise NotFound
    return Brakes(**row)


def find_brakes(db: Connection, merchant_id: UUID) -> Brakes | None:
    """The same, or None for a merchant that has no row of brakes: that one is stopped."""
    row = first(db, _READ, m=merchant_id)
    return Brakes(**row) if row is not None else None


def brakes_on(db: Connection, merchant_id: UUID) -> bool:
    """Whether a person paused the merchant or everything, or an alarm stopped it. A merchant without brakes is stopped."""
    row = first(db, _READ, m=merchant_id)
    return row is None or not Brakes(**row).moves


def may_send(db: Connection, merchant_id: UUID) -> bool:
    """Whether money may leave for the provider: no brake is on, and the merchant is not in shadow mode."""
    row = first(db, _READ, m=merchant_id)
    return row is not None and Brakes(**row).sends


def pull(
    db: Connection, merchant_id: UUID, brake: str, reason: str, *, staff_id: UUID | None, engineer: str = ""
) -> None:
    """Puts `pause`, `all` or `shadow` on at once; one that is on already stays as it is. By a person, or an engineer by name.

    Raises BadInput (reason), NotAllowed. Locks the brakes' row.
    """
    if not 1 <= len(reason.strip()) <= 500:
        raise BadInput("reason", "say why, in up to 500 characters")
    actor = f"staff:{staff_id}" if staff_id else f"engineer:{engineer}"
    try:
        run(
            db, "INSERT INTO brake_pulls (merchant_id, pull_id, brake, actor, staff_id, reason) VALUES (:m, :p, :b, :a, :s, :r)",
            m=merchant_id, p=uuid7(), b=brake, a=actor, s=staff_id, r=mask_card_numbers(reason.strip())[:500],
        )  # fmt: skip
    except IntegrityError as error:
        raise NotAllowed from error


def ask_release(db: Connection, merchant_id: UUID, brake: str, staff_id: UUID, reason: str) -> UUID:
    """A manager or finance asks to take a brake off; nothing moves yet. Returns the request's id.

    Raises NotFound, NotAllowed (role), BadInput (reason), WrongState (the brake is not on).
    """
    role = _role(db, merchant_id, staff_id)
    if not 1 <= len(reason.strip()) <= 500:
        raise BadInput("reason", "say what was done, in up to 500 characters")
    if read_brakes(db, merchant_id).since(brake) is None:
        raise WrongState("That brake is not on any more.")
    ask_id = uuid7()
    run(
        db, "INSERT INTO brake_asks (merchant_id, ask_id, brake, staff_id, role, reason) VALUES (:m, :i, :b, :s, :role, :r)",
        m=merchant_id, i=ask_id, b=brake, s=staff_id, role=role, r=mask_card_numbers(reason.strip())[:500],
    )  # fmt: skip
    return ask_id


def answer_release(db: Connection, merchant_id: UUID, ask_id: UUID, staff_id: UUID, *, granted: bool) -> bool:
    """A second person takes the brake off, or turns the request down; repeating an answer changes nothing (False).

    One of the two is finance. Raises NotFound, NotAllowed, SamePerson, WrongState (answered the other way, the brake is off,
    or was put on again since, or the request is over a day old). Locks the brakes' row.
    """
    role = _role(db, merchant_id, staff_id)
    ask = first(db, _ASK, m=merchant_id, i=ask_id)
    if ask is None:
        raise NotFound
    if ask["granted"] is not None:
        if ask["granted"] == granted:
            return False
        raise WrongState("This request was already answered.")
    if granted and ask["staff_id"] == staff_id:
        raise SamePerson("You asked for this, so another person has to start again.")
    if granted and "finance" not in (role, ask["role"]):
        raise NotAllowed("One of the two who start again is finance.")
    try:
        run(
            db, "INSERT INTO brake_answers (merchant_id, ask_id, brake, asked_by, asked_role, staff_id, role, granted)"
            " VALUES (:m, :i, :b, :by, :by_role, :s, :role, :g)", m=merchant_id, i=ask_id, b=ask["brake"],
            by=ask["staff_id"], by_role=ask["role"], s=staff_id, role=role, g=granted,
        )  # fmt: skip
    except IntegrityError as error:
        raise WrongState("That brake is off, or was put on again since it was asked for.") from error
    return True


_ASK: Final = """
    SELECT a.brake, a.staff_id, a.role, n.granted FROM brake_asks a
    LEFT JOIN brake_answers n ON n.merchant_id = a.merchant_id AND n.ask_id = a.ask_id
    WHERE a.merchant_id = :m AND a.ask_id = :i
"""
_OPEN: Final = """
    SELECT DISTINCT ON (a.brake) a.ask_id, a.brake, a.staff_id, s.name, a.role, a.reason, a.at FROM brake_asks a
    JOIN staff s ON s.staff_id = a.staff_id
    WHERE a.merchant_id = :m AND a.at > now() - interval '24 hours'
        AND NOT EXISTS (SELECT 1 FROM brake_answers n WHERE n.merchant_id = a.merchant_id AND n.ask_id = a.ask_id)
    ORDER BY a.brake, a.at DESC
"""


def open_asks(db: Connection, merchant_id: UUID) -> dict[str, RowMapping]:
    """The newest unanswered request to take each brake off that is on, by brake: ask_id, staff_id, name, role, reason, at."""
    brakes = read_brakes(db, merchant_id)
    found = {row["brake"]: row for row in rows(db, _OPEN, m=merchant_id)}
    return {brake: row for brake, row in found.items() if (since := brakes.since(brake)) and row["at"] >= since}


def close_alarm(db: Connection, merchant_id: UUID, alarm_id: UUID, staff_id: UUID, did: str) -> bool:
    """Closes an alarm with a word on what was done; one that is closed stays as it was (False). Raises NotFound, NotAllowed,
    BadInput. The row of closings is append-only and says who."""
    _role(db, merchant_id, staff_id)
    if not 1 <= len(did.strip()) <= 500:
        raise BadInput("did", "say what was done, in up to 500 characters")
    if first(db, "SELECT 1 FROM alarms WHERE merchant_id = :m AND alarm_id = :a", m=merchant_id, a=alarm_id) is None:
        raise NotFound
    return run(
        db, "INSERT INTO alarm_closings (merchant_id, alarm_id, staff_id, did) VALUES (:m, :a, :s, :d) ON CONFLICT DO NOTHING",
        m=merchant_id, a=alarm_id, s=staff_id, d=mask_card_numbers(did.strip())[:500],
    ) == 1  # fmt: skip


def _role(db: Connection, merchant_id: UUID, staff_id: UUID) -> str:
    row = first(
        db, "SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL", m=merchant_id, s=staff_id,
    )  # fmt: skip
    if row is None:
        raise NotFound
    if row["role"] not in MAY_RELEASE:
        raise NotAllowed("Managers and finance start again, and close alarms.")
    return str(row["role"])
