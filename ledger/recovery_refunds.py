"""One refund the provider lists, brought into books that may have lost it (S86).

What the books know is adopted as any answer of the provider is. What they lost is rebuilt from the refund's own metadata: its case,
closed, holds the units, so that they are refused with P18; its money leaves the capture. What cannot be put in its place is
counted as gone and left to people.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, LedgerError, WrongState
from ledger.events import LockedCase, append, lock_case, lock_case_of_intent
from ledger.external_matching import match_to_case
from ledger.external_refunds import GONE, count_in_day, record_external, record_recovered
from ledger.fingerprint import read_intent
from ledger.intents import live_intents, withdraw
from ledger.outbox import raise_alarm
from ledger.outside_places import LockedCharge, lock_charge, place
from ledger.recovered_asks import keep_ask, kind_of
from ledger.recovered_units import digest_of_units, read_kept, read_units
from ledger.recovery import REASON, Account, two_engineers
from ledger.reservation import give_back, reserve_cap
from ledger.seals import SealVerifier
from ledger.settlement import ProviderRefund, apply_refund, mismatch

NOBODY: Final = 0
OPENER: Final = "token:recovery"
ADOPTABLE: Final = ("submitting", "unknown", "pending", "needs_review", "succeeded")


class ByHand(Exception):
    """This refund is a person's; the reason says why."""


def is_ours(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> bool:
    """Whether a refund names this deployment and merchant."""
    deployment = scalar(db, "SELECT deployment_id FROM deployment")
    return (refund.deployment_id, refund.merchant_id) == (str(deployment), str(merchant_id))


def take_up(db: Connection, of: Account, generation: int, refund: ProviderRefund) -> str:
    """Brings one refund in: `known` (nothing to do), `adopted`, `rebuilt` or `external`. One transaction.

    Raises ByHand, and IntegrityError where the books do not take it: the caller rolls back and calls `leave_by_hand`. Locks the
    order of its charge and all its cases, or the case of its intent.
    """
    if refund.lapsed:
        return "known"
    if not is_ours(db, of.merchant_id, refund):
        told = record_external(db, of.merchant_id, of.account_id, refund, "poll", SealVerifier([]))
        if told == "new":
            _record(db, of, generation, refund, "external")
        return "external" if told in ("new", "changed") else "known"
    if _done(db, of, refund):
        return "known"
    intent = _intent(db, of.merchant_id, refund)
    if intent is not None and intent["state"] in (*ADOPTABLE, "approved", "held"):
        return _adopt(db, of, generation, intent["intent_id"], refund)
    if intent is not None and intent["provider_refund_ref"] == refund.refund_ref:
        return "known"
    if refund.status in GONE:
        return "known"
    units = _named_units(refund)
    if units is None:
        raise ByHand("its list of units was too long for the provider, which keeps a digest of it")
    return _rebuild(db, of, generation, refund, intent, units)


Named = Sequence[tuple[str, int, int]]


def _named_units(refund: ProviderRefund) -> Named | None:
    """The units it closed; none of money that was given with the goods kept."""
    return [] if read_kept(refund.units) is not None else read_units(refund.units)


def close_by_people(
    db: Connection, of: Account, refund: ProviderRefund, engineers: tuple[str, str], named: Named | None, *, whole: bool
) -> str:  # fmt: skip
    """Brings in a refund that waited for people: two of them name its units, or say that it consumed what is left of its order
    (`whole`). One that says its units itself needs neither, and goes the way of a recovery. Returns the outcome.

    Where the provider keeps a digest of the units, those that are named have to have it. Raises BadInput (engineers, units),
    WrongState when it does not wait, ByHand, and IntegrityError as `take_up`. Locks as `take_up`.
    """
    names = two_engineers(engineers)
    generation = scalar(db, "SELECT max(generation) FROM recovered_refunds WHERE merchant_id = :m AND refund_ref = :r",
                        m=of.merchant_id, r=refund.refund_ref)  # fmt: skip
    if generation is None or not is_ours(db, of.merchant_id, refund) or _done(db, of, refund):
        raise WrongState("This refund waits for nobody: `flask recovered list` shows those that do.")
    if refund.status in GONE:
        raise WrongState("It came to nothing at the provider. There is nothing to close.")
    intent = _intent(db, of.merchant_id, refund)
    if intent is not None and intent["state"] in (*ADOPTABLE, "approved", "held"):
        return _adopt(db, of, generation, intent["intent_id"], refund)
    units = _named_units(refund)
    if units is None and named is not None:
        if refund.units != digest_of_units(named):
            raise BadInput(
                "units", "the provider keeps another digest than of these: see that all are named, in their order"
            )
        units = list(named)
    charge = lock_charge(db, of.merchant_id, of.account_id, refund.charge_ref)
    if _done(db, of, refund):
        raise WrongState("Others closed this refund just now: `flask recovered list` shows those that wait.")
    if units is None and not whole:
        raise BadInput("units", "name them, or say that it consumed its order whole")
    if units is None and charge is not None:
        units = _all_left(db, charge)
    return _rebuild(db, of, generation, refund, intent, units or [], names)


_LEFT: Final = """
    SELECT l.line_ref, lower(r) AS a, upper(r) AS b FROM order_lines l
    CROSS JOIN LATERAL unnest(int4multirange(int4range(0, l.quantity)) - coalesce((SELECT range_agg(ci.units) FROM case_items ci
        WHERE ci.merchant_id = l.merchant_id AND ci.line_id = l.line_id AND ci.live), '{}'::int4multirange)) r
    WHERE l.merchant_id = :m AND l.order_id = :o AND l.quantity > 0 ORDER BY l.line_id, r
"""


def _all_left(db: Connection, charge: LockedCharge) -> list[tuple[str, int, int]]:
    """Every unit of the order that no case holds."""
    return [(row["line_ref"], row["a"], row["b"]) for row in rows(db, _LEFT, m=charge.merchant_id, o=charge.order_id)]


def leave_by_hand(db: Connection, of: Account, generation: int, refund: ProviderRefund, reason: str) -> str:
    """Counts the refund's money as gone as far as its payment is known here, and lists it for people, with one alarm."""
    if not is_ours(db, of.merchant_id, refund) or _done(db, of, refund):
        return "known"
    charge = lock_charge(db, of.merchant_id, of.account_id, refund.charge_ref)
    intent = _intent(db, of.merchant_id, refund)
    # A refund of ours that the books still hold for it has its money set aside already.
    if intent is None or intent["state"] not in ("held", "approved"):
        record_recovered(db, of.merchant_id, of.account_id, refund)
        if charge is not None:
            place(db, charge)
        count_in_day(db, of.merchant_id, refund.refund_ref)
    if not _record(
        db, of, generation, refund, "by_hand", reason=reason, capture_id=charge.capture_id if charge else None
    ):
        return "known"
    raise_alarm(
        db,
        of.merchant_id,
        "recovered_by_hand",
        None,
        "Refunds of before the recovery wait for people: `flask recovered list`",
    )
    return "by_hand"


def _intent(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> RowMapping | None:
    try:
        return read_intent(db, merchant_id, UUID(refund.intent_id))
    except ValueError:
        return None


def _done(db: Connection, of: Account, refund: ProviderRefund) -> bool:
    return bool(scalar(
        db, "SELECT 1 FROM recovered_refunds WHERE merchant_id = :m AND refund_ref = :r AND outcome <> 'by_hand' LIMIT 1",
        m=of.merchant_id, r=refund.refund_ref,
    ))  # fmt: skip


def _adopt(db: Connection, of: Account, generation: int, intent_id: UUID, refund: ProviderRefund) -> str:
    """The books know the refund and not its end: it goes the way of every answer, through an attempt that says so."""
    case = lock_case_of_intent(db, of.merchant_id, intent_id)
    intent = read_intent(db, of.merchant_id, intent_id, lock=True)
    if intent is None or mismatch(intent, refund):
        raise ByHand("the provider shows other figures than were approved")
    if intent["state"] == "held":
        intent = _released(db, case, intent)
    if intent["state"] == "approved":
        _count_attempt(db, case, intent)
        intent = read_intent(db, of.merchant_id, intent_id) or intent
    if intent["state"] == "submitting":
        run(db, _RESULT, m=of.merchant_id, i=intent_id, ref=refund.refund_ref, status=refund.status, w=NOBODY)
    before = intent["state"]
    after = apply_refund(db, case, intent, refund)
    if before == after and before in ("succeeded", "pending"):
        return "known"
    _record(
        db,
        of,
        generation,
        refund,
        "adopted",
        case_id=case.case_id,
        intent_id=intent_id,
        capture_id=intent["capture_id"],
    )
    return "adopted"


def _released(db: Connection, case: LockedCase, intent: RowMapping) -> RowMapping:
    counted = scalar(db, "SELECT 1 FROM cap_entries WHERE merchant_id = :m AND intent_id = :i AND step = 'reserve'",
                     m=case.merchant_id, i=intent["intent_id"])  # fmt: skip
    if not counted and not reserve_cap(db, intent):
        raise ByHand("it was held by the cap, and today's cap does not take it")
    append(
        db, case, "intent.released", "system", intent_id=intent["intent_id"], move=("held", "approved"), reason=REASON
    )
    return read_intent(db, case.merchant_id, intent["intent_id"]) or intent


def _count_attempt(db: Connection, case: LockedCase, intent: RowMapping) -> None:
    keys = {"m": case.merchant_id, "i": intent["intent_id"]}
    number = scalar(db, "SELECT attempts + 1 FROM outbox WHERE merchant_id = :m AND intent_id = :i", **keys)
    run(db, "INSERT INTO attempts (merchant_id, intent_id, attempt_no, worker_id, lease_until) VALUES (:m, :i, :n, :w, now())",
        n=number, w=NOBODY, **keys)  # fmt: skip
    run(db, "UPDATE outbox SET attempts = :n WHERE merchant_id = :m AND intent_id = :i", n=number, **keys)
    body = {"attempt": str(number), "recovered": "yes"}
    append(
        db, case, "intent.submitting", "system", body, intent_id=intent["intent_id"], move=("approved", "submitting")
    )


_RESULT: Final = """
    INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, refund_ref, refund_status, code, recorded_by)
    SELECT o.merchant_id, o.intent_id, o.attempts, 'confirmed', :ref, :status, 'recovered', :w
    FROM outbox o WHERE o.merchant_id = :m AND o.intent_id = :i AND o.attempts > 0 ON CONFLICT DO NOTHING
"""


def _rebuild(
    db: Connection, of: Account, generation: int, refund: ProviderRefund, intent: RowMapping | None, units: Named,
    engineers: tuple[str, str] | None = None,
) -> str:  # fmt: skip
    """The books lost this refund: its money leaves the capture, and a case holds its units for good."""
    charge = lock_charge(db, of.merchant_id, of.account_id, refund.charge_ref)
    if charge is None:
        raise ByHand("its order is not here: import it, then run `flask recovered close`")
    if _done(db, of, refund):
        # Whoever held the order before this brought it in.
        return "known"
    case = _case(db, charge, refund)
    if intent is not None and intent["state"] == "proposed":
        _withdraw_proposal(db, case, intent["intent_id"])
    _hold_units(db, case, units)
    record_recovered(db, of.merchant_id, of.account_id, refund)
    place(db, charge)
    named = [{"line": line, "from": a, "to": b} for line, a, b in units]
    try:
        match_to_case(db, of.merchant_id, refund.refund_ref, case.number, "system", "rebuilt after a recovery")
    except LedgerError:
        # Its lines are claimed whole already; the units are held and the money is gone, which is what counts.
        raise_alarm(
            db, of.merchant_id, "recovered_not_matched", None, f"{refund.refund_ref}: its lines are claimed already"
        )
    _close(db, lock_case(db, of.merchant_id, case.case_id), refund)
    _record(db, of, generation, refund, "rebuilt", case_id=case.case_id, intent_id=_uuid(refund.intent_id),
            capture_id=charge.capture_id, units=named, engineers=engineers)  # fmt: skip
    count_in_day(db, of.merchant_id, refund.refund_ref)
    return "rebuilt"


def _case(db: Connection, charge: LockedCharge, refund: ProviderRefund) -> LockedCase:
    """The case the refund names, if the books still have it; else one under its old id."""
    case_id = _uuid(refund.case_id)
    if case_id is None:
        raise ByHand("it names no case")
    if case_id in charge.cases:
        return charge.cases[case_id]
    if scalar(db, "SELECT 1 FROM cases WHERE merchant_id = :m AND case_id = :c", m=charge.merchant_id, c=case_id):
        raise ByHand("the case it names is of another order")
    kept = read_kept(refund.units)
    kind = kind_of(db, charge, kept) if kept is not None else "return"
    if not kind:
        raise ByHand("its order has no such units")
    run(
        db,
        _INSERT_CASE,
        m=charge.merchant_id,
        c=case_id,
        o=charge.order_id,
        kind=kind,
        actor=OPENER,
        at=refund.created_at,
    )
    if kept is not None:
        keep_ask(db, charge, case_id, kept, refund, OPENER)
    case = lock_case(db, charge.merchant_id, case_id)
    body: dict[str, Any] = {"channel": "recovered", "reason": "other", "units": [], "separate": False}
    append(db, case, "case.opened", "system", body)
    return case


_INSERT_CASE: Final = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, opened_at, due_at, summary,
        currency)
    SELECT o.merchant_id, :c, o.order_id, o.customer_id, :kind, 'other', :actor, 'recovered', coalesce(:at, now()), now(),
        'Paid before a backup was restored', o.currency
    FROM orders o WHERE o.merchant_id = :m AND o.order_id = :o
"""


def _withdraw_proposal(db: Connection, case: LockedCase, intent_id: UUID) -> None:
    """What the backup holds as proposed was approved and paid after it; its approval is lost and is never made up."""
    waiting = [one for one in live_intents(db, case) if one["intent_id"] == intent_id]
    withdraw(db, case, waiting, "system", REASON)
    give_back(db, waiting)


def _hold_units(db: Connection, case: LockedCase, units: Named) -> None:
    """The case holds each unit; what it holds already stays. Raises ByHand for a line that is not there."""
    for line_ref, a, b in units:
        line = first(
            db, "SELECT line_id, quantity FROM order_lines WHERE merchant_id = :m AND order_id = :o AND line_ref = :ref",
            m=case.merchant_id, o=case.order_id, ref=line_ref,
        )  # fmt: skip
        if line is None or b > line["quantity"]:
            raise ByHand("its order has no such units")
        for missing in rows(db, _MISSING, m=case.merchant_id, c=case.case_id, line=line["line_id"], a=a, b=b):
            run(db, _HOLD, m=case.merchant_id, c=case.case_id, o=case.order_id, line=line["line_id"], q=line["quantity"],
                a=missing["a"], b=missing["b"])  # fmt: skip


_MISSING: Final = """
    SELECT lower(r) AS a, upper(r) AS b FROM unnest(int4multirange(int4range(:a, :b)) - coalesce((
        SELECT range_agg(units) FROM case_items WHERE merchant_id = :m AND case_id = :c AND line_id = :line AND live),
        '{}'::int4multirange)) r
"""
_HOLD: Final = """
    INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)
    VALUES (:m, gen_random_uuid(), :c, :o, :line, :q, int4range(:a, :b))
"""


def _close(db: Connection, case: LockedCase, refund: ProviderRefund) -> None:
    waits = live_intents(db, case)
    body = {"refund": refund.refund_ref, "amount_minor": str(refund.amount_minor), "currency": refund.currency}
    append(db, case, "case.recovered", "system", body, stage=None if waits else "paid")
    if not waits:
        run(db, "UPDATE cases SET closed_at = coalesce(closed_at, now()) WHERE merchant_id = :m AND case_id = :c",
            m=case.merchant_id, c=case.case_id)  # fmt: skip


_RECORD: Final = """
    INSERT INTO recovered_refunds (merchant_id, refund_ref, outcome, generation, case_id, intent_id, capture_id, amount_minor,
        currency, reference, units, reason, refunded_at, first_engineer, second_engineer)
    VALUES (:m, :r, :outcome, :g, :case_id, :intent_id, :capture_id, :minor, :currency, :bank, :units, :reason,
        coalesce(:at, now()), :first, :second)
    ON CONFLICT DO NOTHING
"""


def _record(
    db: Connection, of: Account, generation: int, refund: ProviderRefund, outcome: str, *, reason: str = "",
    case_id: UUID | None = None, intent_id: UUID | None = None, capture_id: UUID | None = None,
    units: list[dict[str, Any]] | None = None, engineers: tuple[str, str] | None = None,
) -> bool:  # fmt: skip
    at: datetime | None = refund.created_at
    return run(
        db, _RECORD, m=of.merchant_id, r=refund.refund_ref, outcome=outcome, g=generation, case_id=case_id,
        intent_id=intent_id, capture_id=capture_id, minor=refund.amount_minor, currency=refund.currency, bank=refund.reference[:80],
        units=Jsonb(units or []), reason=reason[:200], at=at, first=engineers[0] if engineers else None,
        second=engineers[1] if engineers else None,
    ) == 1  # fmt: skip


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
