"""Refunds made at the provider that are not ours: told from ours, written down once, and brought into the books.

A refund is ours when its metadata names this deployment, this merchant, and an intent that was approved and sent here; it is
then that intent's. One that names us and was never sent is an incident (S68): somebody holds our key, and the merchant stops.
All others are external: a person made them in the provider's dashboard, or another program did.
"""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, run, scalar
from ledger.disputes import SILENT_LOOK
from ledger.outbox import raise_alarm, stop_merchant
from ledger.outside_places import lock_charge, place
from ledger.seals import SealVerifier
from ledger.settlement import ProviderRefund

GONE: Final = ("failed", "canceled")
# Hooks tell of changes; this is the net under them. A refund that was paid may still come back for thirty days.
PENDING_LOOK: Final = timedelta(hours=1)
PAID_LOOK: Final = timedelta(days=1)
COMES_BACK_WITHIN: Final = timedelta(days=35)

_COLUMNS: Final = """
    SELECT i.intent_id, i.number, i.state, i.provider_refund_ref,
        EXISTS (SELECT 1 FROM attempts t WHERE t.merchant_id = i.merchant_id AND t.intent_id = i.intent_id) AS sent
    FROM intents i WHERE i.merchant_id = :m AND
"""
_INTENT: Final = _COLUMNS + " i.intent_id = :i"
_BY_REFERENCE: Final = _COLUMNS + " i.provider_refund_ref = :r"


def whose(
    db: Connection, merchant_id: UUID, refund: ProviderRefund, verifier: SealVerifier
) -> tuple[str, RowMapping | None]:
    """ "ours" with its intent; or "outside", "unsealed" (names us, and no sealed approval of ours sent it) or "unexpected" (of an
    intent that failed here). Only rows decide, never what the metadata says of amounts."""
    known = first(db, _BY_REFERENCE, m=merchant_id, r=refund.refund_ref)
    if known is not None:
        # Its mark can be taken off at the provider; the reference that an intent has is the intent's.
        return "ours", known
    deployment = scalar(db, "SELECT deployment_id FROM deployment")
    if (refund.deployment_id, refund.merchant_id) != (str(deployment), str(merchant_id)):
        return "outside", None
    intent = _intent(db, merchant_id, refund)
    if intent is not None and intent["provider_refund_ref"] == refund.refund_ref:
        # Adopted by somebody else since the first read.
        return "ours", intent
    if intent is None or not intent["sent"] or not _sealed(db, merchant_id, intent["intent_id"], verifier):
        return "unsealed", intent
    if intent["provider_refund_ref"] is not None:
        # One approval pays once; this is a second refund in its name.
        return "unsealed", intent
    if intent["state"] == "failed" and refund.status not in GONE:
        return "unexpected", intent
    return "ours", intent


def _intent(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> RowMapping | None:
    try:
        intent_id = UUID(refund.intent_id)
    except ValueError:
        return None
    return first(db, _INTENT, m=merchant_id, i=intent_id)


def _sealed(db: Connection, merchant_id: UUID, intent_id: UUID, verifier: SealVerifier) -> bool:
    approvals = rows(
        db, "SELECT * FROM approvals WHERE merchant_id = :m AND intent_id = :i", m=merchant_id, i=intent_id
    )
    return bool(approvals) and all(verifier.valid(dict(approval)) for approval in approvals)


_INSERT: Final = """
    INSERT INTO external_refunds (merchant_id, refund_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor,
        currency, created_at, kind, found_by, next_look_at)
    VALUES (:m, :r, :a, :charge, :payment, :minor, :currency, coalesce(:created, now()), :kind, :by, now()) ON CONFLICT DO NOTHING
"""
_STATE: Final = """
    INSERT INTO external_refund_states (merchant_id, refund_ref, n, status, failure_reason, seen_by)
    SELECT :m, :r, count(*) + 1, :status, :failure, :by FROM external_refund_states WHERE merchant_id = :m AND refund_ref = :r
"""
_NEXT_LOOK: Final = """
    UPDATE external_refunds SET next_look_at = CASE WHEN :status IN ('failed', 'canceled') THEN NULL
        WHEN :status <> 'succeeded' THEN now() + :pending
        WHEN created_at > now() - :within THEN now() + :paid END
    WHERE merchant_id = :m AND refund_ref = :r
"""


def record_external(
    db: Connection, merchant_id: UUID, account_id: UUID, refund: ProviderRefund, seen_by: str, verifier: SealVerifier
) -> str:
    """Writes a refund down that is not ours, once, and what follows: "new", "changed", "known", or "ours" (nothing is written).

    One that came to nothing before it was ever seen is "known", and so is what the provider writes for a lapsed
    authorisation, and what another merchant on the same account made of a charge that is not ours. Two who find the same one
    at once write one row, and one of them moves its money. Locks the order of the charge and its cases first, then what
    `place` locks. The order of a payment may be unknown yet: the row then waits for it.
    """
    kind, intent = whose(db, merchant_id, refund, verifier)
    if kind == "ours":
        return "ours"
    if refund.lapsed or _is_known(db, merchant_id, refund):
        return "known"
    charge = lock_charge(db, merchant_id, account_id, refund.charge_ref)
    keys = {"m": merchant_id, "r": refund.refund_ref}
    known = scalar(db, "SELECT status FROM external_refunds WHERE merchant_id = :m AND refund_ref = :r", **keys)
    if known == refund.status or known in GONE:
        return "known"
    if known is None and charge is None and refund.merchant_id not in ("", str(merchant_id)):
        return "known"
    if known is None and not _insert(db, merchant_id, account_id, refund, kind, seen_by):
        return "known"
    run(db, _STATE, **keys, status=refund.status, failure=refund.failure_reason, by=seen_by)
    run(db, _NEXT_LOOK, **keys, status=refund.status, pending=PENDING_LOOK, paid=PAID_LOOK, within=COMES_BACK_WITHIN)
    if known is None:
        _say(db, merchant_id, refund, kind, intent)
    if charge is not None:
        place(db, charge)
    if refund.status in GONE:
        run(db, _RETURN, **keys)
    return "new" if known is None else "changed"


def record_recovered(db: Connection, merchant_id: UUID, account_id: UUID, refund: ProviderRefund) -> None:
    """Writes a refund of ours down that the books lost with a restored backup, once; its money is gone whatever else is found.

    The caller has locked what `lock_charge` locks, and places it.
    """
    keys = {"m": merchant_id, "r": refund.refund_ref}
    if _insert(db, merchant_id, account_id, refund, "recovered", "poll"):
        run(db, _STATE, **keys, status=refund.status, failure=refund.failure_reason, by="poll")
        run(
            db, _NEXT_LOOK, **keys, status=refund.status, pending=PENDING_LOOK, paid=PAID_LOOK, within=COMES_BACK_WITHIN
        )


_COUNT: Final = """
    INSERT INTO recovered_cap_entries (merchant_id, refund_ref, step, currency, business_day, amount_minor)
    SELECT e.merchant_id, e.refund_ref, 'reserve', e.currency, (e.created_at AT TIME ZONE m.zone)::date, e.amount_minor
    FROM external_refunds e JOIN merchants m ON m.id = e.merchant_id
    WHERE e.merchant_id = :m AND e.refund_ref = :r AND e.kind = 'recovered' AND e.status NOT IN ('failed', 'canceled')
        AND NOT EXISTS (SELECT 1 FROM recovered_cap_entries c WHERE c.merchant_id = e.merchant_id AND c.refund_ref = e.refund_ref)
"""
_RETURN: Final = """
    INSERT INTO recovered_cap_entries (merchant_id, refund_ref, step, currency, business_day, amount_minor)
    SELECT c.merchant_id, c.refund_ref, 'return', c.currency, c.business_day, -c.amount_minor FROM recovered_cap_entries c
    WHERE c.merchant_id = :m AND c.refund_ref = :r AND c.step = 'reserve' AND NOT EXISTS (SELECT 1 FROM recovered_cap_entries b
        WHERE b.merchant_id = c.merchant_id AND b.refund_ref = c.refund_ref AND b.step = 'return')
"""


def count_in_day(db: Connection, merchant_id: UUID, refund_ref: str) -> None:
    """Counts a refund that a recovery found in the cap of the business day on which the provider made it, once (P11).

    Locks the cap day: call it last.
    """
    run(db, _COUNT, m=merchant_id, r=refund_ref)


def _is_known(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> bool:
    """Whether it stands here as the provider shows it, or is nothing that ever stood: asked before anything is locked."""
    known = scalar(db, "SELECT status FROM external_refunds WHERE merchant_id = :m AND refund_ref = :r",
                   m=merchant_id, r=refund.refund_ref)  # fmt: skip
    return known in GONE or known == refund.status or (known is None and refund.status in GONE)


def _insert(
    db: Connection, merchant_id: UUID, account_id: UUID, refund: ProviderRefund, kind: str, seen_by: str
) -> bool:
    if refund.amount_minor < 1:
        text = f"{refund.refund_ref}: its amount cannot be said in minor units of {refund.currency}"
        raise_alarm(db, merchant_id, "unreadable_refund", None, text[:300])
        return False
    return run(
        db, _INSERT, m=merchant_id, r=refund.refund_ref, a=account_id, charge=refund.charge_ref,
        payment=refund.payment_intent_ref, minor=refund.amount_minor, currency=refund.currency, created=refund.created_at,
        kind=kind, by="poll" if seen_by == "look" else seen_by,
    ) == 1  # fmt: skip


def _say(db: Connection, merchant_id: UUID, refund: ProviderRefund, kind: str, intent: RowMapping | None) -> None:
    if kind == "unsealed":
        named = f" in the name of R-{intent['number']}" if intent else ""
        text = f"{refund.refund_ref} carries our marks{named} and no sealed approval of ours sent it: nothing is sent any more"
        raise_alarm(db, merchant_id, "unsealed_refund", None, text[:300])
        stop_merchant(db, merchant_id, "unsealed_refund")
    elif kind == "unexpected" and intent is not None:
        text = f"R-{intent['number']} is {intent['state']}, and the provider shows {refund.refund_ref}, {refund.status}"
        raise_alarm(db, merchant_id, "refund_not_expected", intent["intent_id"], text[:300])


_LOOKS: Final = """
    UPDATE external_refunds e SET next_look_at = now() + :wait FROM provider_accounts a
    WHERE e.merchant_id = :m AND a.merchant_id = e.merchant_id AND a.provider_account_id = e.provider_account_id
        AND e.refund_ref IN (SELECT refund_ref FROM external_refunds WHERE merchant_id = :m AND next_look_at <= now()
            ORDER BY next_look_at LIMIT :most FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING e.merchant_id, e.refund_ref, e.provider_account_id, a.account_ref, a.credential, a.livemode,
        coalesce(a.expected_account_ref, '') AS expected_account
"""


def take_refund_looks(db: Connection, merchant_id: UUID, most: int) -> list[RowMapping]:
    """Refunds made outside whose time to be read again has come, put off meanwhile. The caller commits, then reads."""
    return rows(db, _LOOKS, m=merchant_id, wait=PENDING_LOOK, most=most)


def look_soon_at_refunds(db: Connection, merchant_id: UUID, refund_refs: list[str]) -> None:
    """Those that were taken to be read, at an account that does not answer, are looked at again in minutes."""
    run(db, "UPDATE external_refunds SET next_look_at = now() + :wait WHERE merchant_id = :m AND refund_ref = ANY(:refs)"
        " AND next_look_at IS NOT NULL", wait=SILENT_LOOK, m=merchant_id, refs=refund_refs)  # fmt: skip


def looked(db: Connection, merchant_id: UUID, refund_ref: str, status: str) -> None:
    """Sets when a refund that was read and stands as before is read next."""
    run(
        db,
        _NEXT_LOOK,
        m=merchant_id,
        r=refund_ref,
        status=status,
        pending=PENDING_LOOK,
        paid=PAID_LOOK,
        within=COMES_BACK_WITHIN,
    )


_PLACEABLE: Final = """
    SELECT found.provider_account_id, found.charge_ref FROM (
        SELECT provider_account_id, charge_ref, currency, merchant_id FROM external_refunds
        WHERE merchant_id = :m AND placed_minor < amount_minor AND status NOT IN ('failed', 'canceled')
        UNION
        SELECT provider_account_id, charge_ref, currency, merchant_id FROM disputes
        WHERE merchant_id = :m AND placed_minor < amount_minor AND dispute_takes(status)) found
    JOIN captures cp ON cp.merchant_id = found.merchant_id AND cp.provider_account_id = found.provider_account_id
        AND cp.charge_ref = found.charge_ref AND cp.currency = found.currency AND cp.available_minor > 0
    LIMIT :most
"""


def placeable(db: Connection, merchant_id: UUID, most: int) -> list[tuple[UUID, str]]:
    """Charges on which something found outside is not placed whole and money is available again, or known only now."""
    return [(row["provider_account_id"], row["charge_ref"]) for row in rows(db, _PLACEABLE, m=merchant_id, most=most)]


def place_waiting(db: Connection, merchant_id: UUID, account_id: UUID, charge_ref: str) -> None:
    """Places what waited for its order or for money that was reserved. Locks as `record_external`."""
    charge = lock_charge(db, merchant_id, account_id, charge_ref)
    if charge is not None:
        place(db, charge)
