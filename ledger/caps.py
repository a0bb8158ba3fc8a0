"""The daily cap: what is used, what waits, and how it is raised by two people.

A raise takes effect when the second person grants it, for that business day only. Held refunds go in the order in which
they were approved, when the next business day opens or the cap was raised; a smaller one never overtakes.
"""

from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.brakes import brakes_on
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run
from ledger.errors import BadInput, NotAllowed, NotFound, SamePerson, WrongState
from ledger.events import append, lock_case
from ledger.fingerprint import read_intent
from ledger.hops import hop
from ledger.ids import uuid7
from ledger.log_fields import log
from ledger.reservation import reserve_cap


@dataclass(frozen=True)
class CapToday:
    """One currency's cap on the merchant's current business day, in minor units. `resets_at` is that day's end, UTC."""

    currency: str
    business_day: date
    limit_minor: int
    used_minor: int
    waiting: int
    waiting_minor: int

    @property
    def left_minor(self) -> int:
        """What can still be approved today without being held."""
        return self.limit_minor - self.used_minor


def today(db: Connection, merchant_id: UUID) -> list[CapToday]:
    """The cap of each currency the merchant has one for, ordered by currency."""
    return [CapToday(**row) for row in rows(db, _TODAY, m=merchant_id)]


_TODAY: Final = """
    SELECT c.currency, d.day AS business_day, coalesce(cd.limit_minor, c.limit_minor) AS limit_minor,
        coalesce(cd.used_minor, 0) AS used_minor, count(i.intent_id) AS waiting,
        coalesce(sum(i.amount_minor), 0)::bigint AS waiting_minor
    FROM caps c JOIN merchants m ON m.id = c.merchant_id
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE m.zone)::date AS day) d
    LEFT JOIN cap_days cd ON cd.merchant_id = c.merchant_id AND cd.currency = c.currency AND cd.business_day = d.day
    LEFT JOIN intents i ON i.merchant_id = c.merchant_id AND i.currency = c.currency AND i.state = 'held' AND i.state_reason = 'cap'
    WHERE c.merchant_id = :m GROUP BY c.currency, d.day, cd.limit_minor, c.limit_minor, cd.used_minor ORDER BY c.currency
"""


def release_held(db: Connection, merchant_id: UUID) -> bool:
    """Sends the oldest refund held by the cap on its way if it fits today's cap; True when one moved (call again).

    One per transaction, so the cap day is held shortly. Locks its case, intent, cap day. Two callers at once are safe: the
    later one finds another state. Nothing is released while a brake is on.
    """
    if brakes_on(db, merchant_id):
        return False
    for held in rows(db, _OLDEST_HELD, m=merchant_id):
        case = lock_case(db, merchant_id, held["case_id"])
        intent = read_intent(db, merchant_id, held["intent_id"], lock=True)
        if intent is None or (intent["state"], intent["state_reason"]) != ("held", "cap"):
            return True
        if not reserve_cap(db, intent):
            continue
        append(db, case, "intent.released", "system", intent_id=intent["intent_id"], move=("held", "approved"))
        run(
            db,
            "UPDATE outbox SET due_at = now() WHERE merchant_id = :m AND intent_id = :i",
            m=merchant_id,
            i=held["intent_id"],
        )
        log.info("released", merchant=str(merchant_id), **hop(db, merchant_id, held["intent_id"]))
        return True
    return False


# The oldest of each currency: one that does not fit today blocks its currency, not the others. One that is above the whole
# cap of a day fits no day, so it waits for a raise and lets those behind it pass.
_OLDEST_HELD: Final = """
    SELECT DISTINCT ON (i.currency) i.currency, i.intent_id, i.case_id FROM intents i
    JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    JOIN merchants m ON m.id = i.merchant_id
    JOIN caps c ON c.merchant_id = i.merchant_id AND c.currency = i.currency
    LEFT JOIN cap_days d ON d.merchant_id = i.merchant_id AND d.currency = i.currency
        AND d.business_day = (now() AT TIME ZONE m.zone)::date
    WHERE i.merchant_id = :m AND i.state = 'held' AND i.state_reason = 'cap'
        AND i.amount_minor <= coalesce(d.limit_minor, c.limit_minor)
    ORDER BY i.currency, o.approved_at, i.intent_id
"""


def ask_raise(db: Connection, merchant_id: UUID, staff_id: UUID, currency: str, to_minor: int, reason: str) -> UUID:
    """A manager asks for a higher cap today. Raises NotAllowed, NotFound (no cap in that currency), BadInput."""
    _manager(db, merchant_id, staff_id)
    cap = next((cap for cap in today(db, merchant_id) if cap.currency == currency), None)
    if cap is None:
        raise NotFound(f"There is no daily cap in {currency}.")
    if to_minor <= cap.limit_minor:
        raise BadInput("to_minor", "a raise has to be above today's cap")
    if not reason.strip():
        raise BadInput("reason", "say why the cap has to be higher today")
    raise_id = uuid7()
    run(
        db, "INSERT INTO cap_raises (merchant_id, raise_id, currency, business_day, from_minor, to_minor, reason, asked_by)"
        " VALUES (:m, :r, :c, :d, :old, :new, :why, :s)", m=merchant_id, r=raise_id, c=currency, d=cap.business_day,
        old=cap.limit_minor, new=to_minor, why=mask_card_numbers(reason.strip())[:500], s=staff_id,
    )  # fmt: skip
    return raise_id


def decide_raise(db: Connection, merchant_id: UUID, raise_id: UUID, staff_id: UUID, *, granted: bool) -> bool:
    """A second manager grants or refuses. Locks the raise, then the cap day. Repeating a decision changes nothing (False).

    Raises NotFound, NotAllowed, SamePerson (granting one's own), WrongState (its day is over, or decided the other way).
    """
    _manager(db, merchant_id, staff_id)
    asked = first(
        db, "SELECT * FROM cap_raises WHERE merchant_id = :m AND raise_id = :r FOR UPDATE", m=merchant_id, r=raise_id
    )
    if asked is None:
        raise NotFound
    if asked["decided_at"] is not None:
        if asked["granted"] == granted:
            return False
        raise WrongState("This raise was already decided.")
    if granted and asked["asked_by"] == staff_id:
        raise SamePerson
    cap = next((cap for cap in today(db, merchant_id) if cap.currency == asked["currency"]), None)
    if granted and (cap is None or cap.business_day != asked["business_day"]):
        raise WrongState("That business day is over. Ask for a raise of today's cap.")
    run(db, "UPDATE cap_raises SET decided_by = :s, decided_at = now(), granted = :g WHERE merchant_id = :m AND raise_id = :r",
        s=staff_id, g=granted, m=merchant_id, r=raise_id)  # fmt: skip
    if granted:
        run(db, _RAISE_DAY, m=merchant_id, c=asked["currency"], d=asked["business_day"], new=asked["to_minor"])
    return True


_RAISE_DAY: Final = """
    INSERT INTO cap_days (merchant_id, currency, business_day, limit_minor) VALUES (:m, :c, :d, :new)
    ON CONFLICT (merchant_id, currency, business_day)
    DO UPDATE SET limit_minor = greatest(cap_days.limit_minor, excluded.limit_minor)
"""


def _manager(db: Connection, merchant_id: UUID, staff_id: UUID) -> None:
    role = first(
        db, "SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL", m=merchant_id, s=staff_id,
    )  # fmt: skip
    if role is None:
        raise NotFound
    if role["role"] != "manager":
        raise NotAllowed("Only a manager may ask for or grant a higher cap.")
