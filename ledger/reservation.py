"""Money set aside and given back: one transfer per move, one cap entry per reservation (P3, P11).

Lock order inside: the lines of the order by id, then the capture, then the cap day last and shortest.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.database import Later, rows, run, run_later, run_many, scalar
from ledger.errors import NotEnoughMoneyLeft
from ledger.events import EVENT_COLUMNS, EVENT_VALUES
from ledger.ids import uuid7

TRANSFER_COLUMNS: Final = """
    merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance, to_balance, amount_minor
"""
TRANSFER_VALUES: Final = """
    :merchant_id, :transfer_id, :capture_id, :currency, :intent_id, :step, :from_balance, :to_balance, :amount_minor
"""
_TRANSFER: Final = f"INSERT INTO transfers ({TRANSFER_COLUMNS}) VALUES ({TRANSFER_VALUES})"  # noqa: S608 - two constants
_MOVES: Final = {
    "reserve": ("available", "reserved"),
    "release": ("reserved", "available"),
    "settle": ("reserved", "refunded"),
    "reverse": ("refunded", "available"),
}
# Money that was only authorised stands beside the balances of what was taken.
_HOLD_MOVES: Final = {
    "reserve": ("held", "releasing"),
    "release": ("releasing", "held"),
    "settle": ("releasing", "released"),
}


def transfer(db: Connection, intent: RowMapping, step: str) -> None:
    """Moves the intent's whole amount between two balances of its capture; locks the capture row.

    A cancel moves what the payment holds. Raises NotEnoughMoneyLeft when the capture has less; IntegrityError for a step
    done twice or out of order, inside `together` at its end.
    """
    try:
        run_later(db, _TRANSFER, **transfer_of(intent, step))
    except IntegrityError as error:
        if step == "reserve" and leaves_too_little(error):
            raise NotEnoughMoneyLeft from error
        raise


def transfer_of(intent: RowMapping, step: str) -> dict[str, Any]:
    """The row of `transfer`, for TRANSFER_COLUMNS and TRANSFER_VALUES; writes nothing."""
    from_balance, to_balance = (_HOLD_MOVES if intent["act"] == "cancel_payment" else _MOVES)[step]
    return {
        "merchant_id": intent["merchant_id"], "transfer_id": uuid7(), "capture_id": intent["capture_id"],
        "currency": intent["currency"], "intent_id": intent["intent_id"], "step": step, "from_balance": from_balance,
        "to_balance": to_balance, "amount_minor": intent["amount_minor"],
    }  # fmt: skip


_TRANSFERS: Final = """
    INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance, to_balance, amount_minor)
    SELECT :merchant_id, transfer_id, capture_id, currency, intent_id, 'settle', from_balance, to_balance, amount_minor
    FROM unnest(CAST(:transfer_id AS uuid[]), CAST(:capture_id AS uuid[]), CAST(:currency AS text[]), CAST(:intent_id AS uuid[]),
        CAST(:from_balance AS text[]), CAST(:to_balance AS text[]), CAST(:amount_minor AS bigint[]))
        AS t(transfer_id, capture_id, currency, intent_id, from_balance, to_balance, amount_minor)
"""


def settle_all(db: Connection, merchant_id: UUID, intents: Sequence[RowMapping]) -> None:
    """`transfer` of the step `settle` for many intents in one statement, the captures by id."""
    ordered = sorted(intents, key=lambda intent: intent["capture_id"])
    moves = [(_HOLD_MOVES if one["act"] == "cancel_payment" else _MOVES)["settle"] for one in ordered]
    run_later(
        db, _TRANSFERS, merchant_id=merchant_id, transfer_id=[uuid7() for _ in ordered],
        from_balance=[source for source, _ in moves], to_balance=[target for _, target in moves],
        **{name: [one[name] for one in ordered] for name in ("capture_id", "currency", "intent_id", "amount_minor")},
    )  # fmt: skip


# The last: what is left there left outside.
_TOO_LITTLE: Final = ("balances_not_negative", "holds_not_negative", "nothing is reserved of what left outside")


def leaves_too_little(error: IntegrityError) -> bool:
    """Whether what failed would have taken more of a capture than it has available."""
    return any(name in str(error.orig) for name in _TOO_LITTLE)


_RESERVE_CAP: Final = """
    INSERT INTO cap_entries (merchant_id, intent_id, step, currency, business_day, amount_minor)
    SELECT :merchant_id, :intent_id, 'reserve', :currency, (now() AT TIME ZONE zone)::date, :amount_minor
    FROM merchants WHERE id = :merchant_id
"""


def reserve_cap(db: Connection, intent: RowMapping) -> bool:
    """Counts the intent against the merchant's cap of the current business day in its zone; False when it does not fit.

    Locks the cap day, the hottest row there is: call it last before commit. A currency without a cap row fits nothing.
    """
    return reserve_cap_later(db, intent).count == 1


def reserve_cap_later(db: Connection, intent: RowMapping) -> Later:
    """The same together with what goes before: its count is 1 when it fits, else 0."""
    return run_later(
        db, _RESERVE_CAP, merchant_id=intent["merchant_id"], intent_id=intent["intent_id"],
        currency=intent["currency"], amount_minor=intent["amount_minor"],
    )  # fmt: skip


_RESERVE_CAP_OR_HOLD: Final = f"""
    WITH counted AS ({_RESERVE_CAP} RETURNING 1),
    waits AS (UPDATE outbox SET due_at = 'infinity' WHERE merchant_id = :merchant_id AND intent_id = :intent_id
        AND NOT EXISTS (SELECT 1 FROM counted))
    INSERT INTO events ({EVENT_COLUMNS}) SELECT {EVENT_VALUES} WHERE NOT EXISTS (SELECT 1 FROM counted)
"""  # noqa: S608 - constants


def reserve_cap_or_hold_later(db: Connection, intent: RowMapping, held: dict[str, Any]) -> Later:
    """The same, and what does not fit is held by the event `held`, without an answer in between; its count is 1 when held."""
    return run_later(db, _RESERVE_CAP_OR_HOLD, currency=intent["currency"], amount_minor=intent["amount_minor"], **held)


_RETURN_CAP: Final = """
    INSERT INTO cap_entries (merchant_id, intent_id, step, currency, business_day, amount_minor)
    SELECT merchant_id, intent_id, 'return', currency, business_day, -amount_minor FROM cap_entries
    WHERE merchant_id = :merchant_id AND intent_id = :intent_id AND step = 'reserve'
"""


def return_cap(db: Connection, intent: RowMapping) -> None:
    """Gives the reservation back to the day that carried it; nothing to do for an intent that was held by the cap."""
    run(db, _RETURN_CAP, merchant_id=intent["merchant_id"], intent_id=intent["intent_id"])


_CLAIM: Final = """
    INSERT INTO line_claims (merchant_id, claim_id, intent_id, line_id, step, amount_minor)
    VALUES (:merchant_id, :claim_id, :intent_id, :line_id, :step, :amount_minor)
"""


def claim_lines(db: Connection, merchant_id: UUID, intent_id: UUID, amounts: dict[UUID, int]) -> None:
    """Takes `amounts` (minor units by line) of the order lines, in line order; IntegrityError above what is allocated."""
    run_many(db, _CLAIM, [
        {"merchant_id": merchant_id, "claim_id": uuid7(), "intent_id": intent_id, "line_id": line, "step": "claim",
         "amount_minor": amounts[line]}
        for line in sorted(amounts) if amounts[line]
    ])  # fmt: skip


def release_lines(db: Connection, intent: RowMapping) -> None:
    """Gives back every line claim of the intent, in line order."""
    claims = rows(
        db, "SELECT line_id, amount_minor FROM line_claims WHERE merchant_id = :m AND intent_id = :i AND step = 'claim'"
        " ORDER BY line_id", m=intent["merchant_id"], i=intent["intent_id"],
    )  # fmt: skip
    run_many(db, _CLAIM, [
        {"merchant_id": intent["merchant_id"], "claim_id": uuid7(), "intent_id": intent["intent_id"],
         "line_id": claim["line_id"], "step": "release", "amount_minor": -claim["amount_minor"]}
        for claim in claims
    ])  # fmt: skip


def let_go(db: Connection, intent: RowMapping) -> None:
    """Undoes everything an intent holds that came to nothing: line claims, reservation, cap. In lock order."""
    release_lines(db, intent)
    give_back(db, [intent])


def give_back(db: Connection, intents: Sequence[RowMapping]) -> None:
    """Returns what intents that came to nothing had reserved: the captures by id, then the cap days, last and shortest."""
    reserved = [
        intent for intent in sorted(intents, key=lambda intent: intent["capture_id"])
        if scalar(
            db, "SELECT 1 FROM transfers WHERE merchant_id = :m AND intent_id = :i AND step = 'reserve'",
            m=intent["merchant_id"], i=intent["intent_id"],
        )
    ]  # fmt: skip
    for intent in reserved:
        transfer(db, intent, "release")
    for intent in reserved:
        return_cap(db, intent)
