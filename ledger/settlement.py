"""What the provider said, written down: four outcomes of a call (P9), and the states a refund there can have.

Only a refusal the provider names releases anything. A time-out, a cut body, a 5xx or a crash is `unknown`: the
reservation stays, and the reconciler looks. Every function here locks the case, then the intent; releasing also locks the
order lines, the capture and the cap day, in that order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from sqlalchemy import Connection, RowMapping

from ledger.database import rows, run, run_later, scalar
from ledger.events import LockedCase, append
from ledger.money import EXPONENTS, format_minor
from ledger.outbox import give_to_person, mark_unknown, raise_alarm
from ledger.refusals import situation
from ledger.reservation import let_go, release_lines, return_cap, transfer
from ledger.states import STAGE

# STRIPE.md §1: the statuses a refund can have; the set is open, and an unlisted one is not interpreted.
SETTLED: Final = {
    "succeeded": "succeeded",
    "pending": "pending",
    "requires_action": "pending",
    "failed": "failed",
    "canceled": "failed",
}
# How soon the provider is asked again about a refund it has accepted but not settled. Hints arrive by webhook; this is the
# net under them, so it backs off: card refunds settle within minutes, other methods within days.
PENDING_LOOK_SECONDS: Final = (60, 300, 900, 3600)


# A customer who was told that the money is paid does not have it: somebody has to act by the next working day.
CAME_BACK_HOURS: Final = 24


@dataclass(frozen=True)
class ProviderRefund:
    """A refund as the provider shows it. `amount_minor` in our minor units of `currency`; `reference` is for the bank.

    `intent_id`, `deployment_id`, `merchant_id`, `case_id`, `fingerprint` and `units` are what its metadata names, "" when it
    carries no mark of ours; anybody at the provider could have written it. `created_at` is the provider's time. `lapsed`: the
    provider wrote it for an authorisation that ended by itself, and no money moved. A payment that was only authorised and that
    we canceled is shown as a refund too, under the payment's own id.
    """

    refund_ref: str
    status: str
    amount_minor: int
    currency: str
    payment_intent_ref: str
    charge_ref: str
    intent_id: str
    failure_reason: str = ""
    reference: str = ""
    pending_reason: str = ""
    deployment_id: str = ""
    merchant_id: str = ""
    created_at: datetime | None = None
    lapsed: bool = False
    case_id: str = ""
    fingerprint: str = ""
    units: str = ""


@dataclass(frozen=True)
class Confirmed:
    """The provider answered with a refund that is exactly what was asked for."""

    refund: ProviderRefund
    http_status: int = 200
    request_ref: str = ""


@dataclass(frozen=True)
class Refused:
    """The provider named a refusal: nothing was paid, and nothing will be under this request."""

    code: str
    detail: str
    http_status: int
    request_ref: str = ""


@dataclass(frozen=True)
class NotAccepted:
    """The provider turned the call away before looking at it; the same key may be sent again after a while.

    `stops_merchant` (401, 403): nothing more is sent for the merchant until a person has looked at its credential.
    """

    code: str
    detail: str
    retry_after_seconds: int
    http_status: int | None = None
    request_ref: str = ""
    stops_merchant: bool = False


@dataclass(frozen=True)
class Unknown:
    """No answer that can be relied on. `needs_person` when waiting cannot help (an answer for another request)."""

    code: str
    detail: str
    http_status: int | None = None
    request_ref: str = ""
    needs_person: bool = False
    refund_ref: str | None = None
    refund_status: str | None = None


Outcome = Confirmed | Refused | NotAccepted | Unknown


def follow(db: Connection, case: LockedCase, intent: RowMapping, attempt_no: int, outcome: Outcome) -> None:
    """Does what follows from the recorded outcome of an attempt. Case and intent are locked; `intent` may carry its `around`."""
    match outcome:
        case Confirmed():
            apply_refund(db, case, intent, outcome.refund)
        case Refused():
            fail(db, case, intent, outcome.code)
            _follow_refusal(db, intent, attempt_no, outcome)
        case NotAccepted():
            _turned_away(db, case, intent, outcome)
        case Unknown():
            _leave_unknown(db, case, intent, outcome)
        case _:
            assert_never(outcome)


# A hint of our own, worked like one of the provider's: somebody acted elsewhere, so the payment is read again.
_REREAD: Final = """
    INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref, created_at, body_digest)
    VALUES (:m, :ref, 'onceback.reread', :charge, :payment, now(), :digest) ON CONFLICT DO NOTHING
"""


def _follow_refusal(db: Connection, intent: RowMapping, attempt_no: int, outcome: Refused) -> None:
    """What a refusal asks for beside giving everything back: an alarm when it is a fault of ours, another look at the payment."""
    row = situation("refused", outcome.code)
    if row.alarm:
        text = f"R-{intent['number']} was refused: {outcome.code}"
        raise_alarm(db, intent["merchant_id"], row.alarm, intent["intent_id"], text[:300])
    if row.reread:
        read_payment_again(db, intent, str(attempt_no))


def read_payment_again(db: Connection, intent: RowMapping, after: str) -> None:
    """Asks the inbox to read the intent's payment at the provider, once for each `after` (an attempt, a look)."""
    run(db, _REREAD, m=intent["merchant_id"], ref=f"own_{intent['intent_id']}_{after}", charge=intent["charge_ref"],
        payment=intent["payment_intent_ref"], digest=bytes(32))  # fmt: skip


def _moved(intent: RowMapping, state: str) -> RowMapping:
    return {**intent, "state": state}  # type: ignore[return-value]


def _turned_away(db: Connection, case: LockedCase, intent: RowMapping, outcome: NotAccepted) -> None:
    keys = {"m": case.merchant_id, "i": intent["intent_id"]}
    due = timedelta(seconds=outcome.retry_after_seconds)
    run_later(db, "UPDATE outbox SET due_at = now() + :due WHERE merchant_id = :m AND intent_id = :i", due=due, **keys)
    append(db, case, "intent.turned_away", "system", {"code": outcome.code}, intent_id=intent["intent_id"])
    if outcome.stops_merchant:
        run(db, "UPDATE merchant_brakes SET stopped_at = now(), stopped_reason = :r WHERE merchant_id = :m AND stopped_at IS NULL",
            r=outcome.code, m=case.merchant_id)  # fmt: skip
        raise_alarm(
            db, case.merchant_id, "submitter_stopped", None, f"The provider refused our credential: {outcome.code}"
        )


def _leave_unknown(db: Connection, case: LockedCase, intent: RowMapping, outcome: Unknown) -> None:
    mark_unknown(db, case, intent, outcome.code)
    if outcome.needs_person:
        text = f"R-{intent['number']}: {outcome.detail}"[:300]
        raise_alarm(
            db, case.merchant_id, situation("review", outcome.code).alarm or outcome.code, intent["intent_id"], text
        )
        give_to_person(db, case, _moved(intent, "unknown"), outcome.code)


def apply_refund(
    db: Connection, case: LockedCase, intent: RowMapping, refund: ProviderRefund, *, by_people: bool = False
) -> str:
    """Brings a locked intent to what the provider shows for its refund; returns the state it is in afterwards.

    Also handles the two moves after payment: nothing new, and `succeeded` → `reversed` when the bank returned the money.
    Raises nothing for a status it does not know: that is a person's, with an alarm. What needs review stays there unless two
    people settled it so (`by_people`); they may also have said that a refund without a mark of ours is this one.
    """
    if intent["state"] == "needs_review" and not by_people:
        return "needs_review"
    if by_people and not refund.intent_id:
        refund = replace(refund, intent_id=str(intent["intent_id"]))
    wrong = mismatch(intent, refund)
    if wrong:
        text = f"R-{intent['number']}: {differs(wrong, intent, refund)}"
        raise_alarm(db, case.merchant_id, "answer_differs", intent["intent_id"], text[:300])
        return _to_person(db, case, intent, f"differs:{wrong}")
    _keep_reference(db, intent, refund)
    target = SETTLED.get(refund.status)
    if target is None:
        raise_alarm(
            db, case.merchant_id, "unlisted_status", intent["intent_id"], f"R-{intent['number']}: {refund.status}"[:300]
        )
        return _to_person(db, case, intent, "unlisted_status")
    state: str = intent["state"]
    if state == "succeeded":
        return _reverse(db, case, intent, refund) if target == "failed" else state
    if target == state or state not in ("submitting", "unknown", "pending", "needs_review"):
        if state == "pending":
            _schedule_pending(db, intent)
        return state
    match target:
        case "succeeded":
            succeed(db, case, intent, {"refund": refund.refund_ref})
        case "pending":
            _pend(db, case, intent, refund)
        case "failed":
            fail(db, case, intent, refund.failure_reason or refund.status)
    return target


def is_plain(intent: RowMapping, refund: ProviderRefund) -> bool:
    """Whether a refund that was just sent was paid exactly as asked, so that nothing but `succeed` follows."""
    sent = intent["state"] == "submitting" and intent["provider_refund_ref"] is None
    return sent and SETTLED.get(refund.status) == "succeeded" and not mismatch(intent, refund)


def gives_back(outcome: Outcome) -> bool:
    """Whether what a refund had reserved may be free after this answer, so that lines and a cap day are locked for it."""
    return isinstance(outcome, Refused) or (
        isinstance(outcome, Confirmed) and SETTLED.get(outcome.refund.status) == "failed"
    )


def mismatch(intent: Mapping[Any, Any], refund: ProviderRefund) -> str:
    """The first field in which the provider's refund is not what the intent asked for, or "" (S68).

    Once its reference is known, a refund is ours by that: its mark can be taken off at the provider, but not be another's.
    """
    known = refund.refund_ref == intent["provider_refund_ref"]
    for field, ours, theirs in (
        ("amount", intent["amount_minor"], refund.amount_minor),
        ("currency", intent["currency"], refund.currency),
        ("charge", intent["charge_ref"], refund.charge_ref),
        ("metadata", str(intent["intent_id"]), refund.intent_id or (str(intent["intent_id"]) if known else "")),
    ):
        if ours != theirs:
            return field
    return "refund" if intent["provider_refund_ref"] not in (None, refund.refund_ref) else ""


# What `differs` says before the two that are compared.
ASKED_FOR: Final = "asked for "


def differs(field: str, intent: Mapping[Any, Any], refund: ProviderRefund) -> str:
    """What `mismatch` found, with what was asked for beside what the provider shows: of its mark nothing but that it differs."""
    match field:
        case "amount" | "currency":
            asked = _sum(intent["amount_minor"], intent["currency"])
            shown = _sum(refund.amount_minor, refund.currency)
        case "charge":
            asked, shown = intent["charge_ref"], refund.charge_ref
        case "refund":
            asked, shown = intent["provider_refund_ref"], refund.refund_ref
        case _:
            return f"{field} differs from what was asked for"
    return f"{field} differs: {ASKED_FOR}{asked}, the provider shows {shown or 'none'}"


def _sum(minor: int, currency: str) -> str:
    """An amount with its code. What is no currency has no decimals that we could know of."""
    return f"{format_minor(minor, currency) if currency in EXPONENTS else minor} {currency}"


def _to_person(db: Connection, case: LockedCase, intent: RowMapping, reason: str) -> str:
    if intent["state"] == "submitting":
        mark_unknown(db, case, intent, reason)
        intent = _moved(intent, "unknown")
    if intent["state"] in ("unknown", "pending"):
        give_to_person(db, case, intent, reason)
        return "needs_review"
    return str(intent["state"])


_KEEP_REFERENCE: Final = """
    UPDATE intents SET provider_refund_ref = :r, provider_reference = :bank WHERE merchant_id = :m AND intent_id = :i
"""


def _keep_reference(db: Connection, intent: RowMapping, refund: ProviderRefund) -> None:
    if intent["provider_refund_ref"] is None or refund.reference != intent["provider_reference"]:
        run_later(
            db, _KEEP_REFERENCE, r=refund.refund_ref, bank=refund.reference, m=intent["merchant_id"], i=intent["intent_id"]
        )  # fmt: skip


def _done(db: Connection, intent: RowMapping) -> None:
    run_later(db, "UPDATE outbox SET done_at = now() WHERE merchant_id = :m AND intent_id = :i",
        m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip


def succeed(db: Connection, case: LockedCase, intent: RowMapping, body: dict[str, str]) -> None:
    """What the intent was for is done: money settles, and the case shows what is left. `body`: the reference it has there."""
    around = intent.get("around") or _around(db, intent)
    stage = stage_when_paid(intent, around)
    append(db, case, "intent.succeeded", "system", body, intent_id=intent["intent_id"],
           move=(intent["state"], "succeeded"), stage=stage)  # fmt: skip
    transfer(db, intent, "settle")
    _done(db, intent)
    if stage == "paid":
        run_later(
            db,
            "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = :c",
            m=case.merchant_id,
            c=case.case_id,
        )


def stage_when_paid(intent: RowMapping, around: RowMapping) -> str:
    """The stage of a case one of whose intents is paid: by a row of AROUND, read under the case's lock."""
    rest, other = around["held"] - _units(intent), around["other"]
    # The desk sees the least finished: another intent of the case, evidence that came meanwhile, a part that was refused,
    # called back or returned or that no payment covers, units not here yet.
    open_ = intent["latest_digest"] != intent["entitlement_digest"] or around["owes_more"]
    return STAGE[other] if other else "needs_person" if open_ else "waiting_goods" if rest else "paid"


def _units(intent: RowMapping) -> int:
    units: int = sum(unit["to"] - unit["from"] for unit in intent["units"])
    return units


def _around(db: Connection, intent: RowMapping) -> RowMapping:
    return rows(db, AROUND, m=intent["merchant_id"], ids=[intent["intent_id"]])[0]


# Of the case of an intent. `held`: its units. `other`: the state of its other live intent that is least finished: one not
# approved yet, else the oldest. `owes_more`: whether its newest entitlement is more than its paid intents and this one, in
# the order's currency.
AROUND: Final = """
    SELECT i.intent_id,
        (SELECT coalesce(sum(upper(units) - lower(units)), 0)::int FROM case_items h
            WHERE h.merchant_id = i.merchant_id AND h.case_id = i.case_id AND h.live) AS held,
        (SELECT x.state FROM intents x WHERE x.merchant_id = i.merchant_id AND x.case_id = i.case_id
            AND x.intent_id <> i.intent_id
            AND x.state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review')
            ORDER BY x.state <> 'proposed', x.number LIMIT 1) AS other,
        coalesce((SELECT e.total_minor > (SELECT coalesce(sum(p.order_minor), 0) FROM intents p
                WHERE p.merchant_id = i.merchant_id AND p.case_id = i.case_id
                AND (p.state = 'succeeded' OR p.intent_id = i.intent_id))
            FROM entitlements e WHERE e.merchant_id = i.merchant_id AND e.case_id = i.case_id
            ORDER BY e.n DESC LIMIT 1), false) AS owes_more
    FROM intents i WHERE i.merchant_id = :m AND i.intent_id = ANY(:ids)
"""


def _pend(db: Connection, case: LockedCase, intent: RowMapping, refund: ProviderRefund) -> None:
    append(db, case, "intent.pending", "system", {"refund": refund.refund_ref, "status": refund.status},
           intent_id=intent["intent_id"], move=(intent["state"], "pending"))  # fmt: skip
    _schedule_pending(db, intent)


def _schedule_pending(db: Connection, intent: RowMapping) -> None:
    looked = scalar(db, "SELECT count(*) FROM looks WHERE merchant_id = :m AND intent_id = :i",
                    m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
    wait = timedelta(seconds=PENDING_LOOK_SECONDS[min(looked, len(PENDING_LOOK_SECONDS) - 1)])
    run(db, "UPDATE outbox SET due_at = now() + :wait WHERE merchant_id = :m AND intent_id = :i",
        wait=wait, m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip


def fail(db: Connection, case: LockedCase, intent: RowMapping, reason: str) -> None:
    """A definite failure the provider named: the intent fails, and claims, reservation and cap go back (P9, P11)."""
    move = (intent["state"], "failed")
    append(db, case, "intent.failed", "system", intent_id=intent["intent_id"], move=move, reason=reason[:300])
    let_go(db, intent)
    _done(db, intent)


def _reverse(db: Connection, case: LockedCase, intent: RowMapping, refund: ProviderRefund) -> str:
    """The provider took a paid refund back. Everything it used is given back, as on any definite failure (P11): the lines, the
    capture, the cap of the day that carried it. Its case is open again and a person's, due within CAME_BACK_HOURS."""
    append(db, case, "intent.reversed", "system", {"refund": refund.refund_ref}, intent_id=intent["intent_id"],
           move=("succeeded", "reversed"), reason=(refund.failure_reason or refund.status)[:300])  # fmt: skip
    release_lines(db, intent)
    transfer(db, intent, "reverse")
    return_cap(db, intent)
    run(db, "UPDATE cases SET closed_at = NULL, due_at = now() + :due WHERE merchant_id = :m AND case_id = :c",
        due=timedelta(hours=CAME_BACK_HOURS), m=case.merchant_id, c=case.case_id)  # fmt: skip
    return "reversed"
