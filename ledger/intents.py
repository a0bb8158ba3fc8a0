"""Refund intents before they are approved: proposing the exact refund an entitlement owes, and withdrawing it."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes
from ledger.database import first, rows, run
from ledger.errors import BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.ids import uuid7
from ledger.money import exponent
from ledger.reservation import claim_lines, give_back, release_lines

WITHDRAW_REASONS: Final = ("not_yet", "wrong_units", "customer_changed_mind", "suspicion", "disputed", "other")


@dataclass(frozen=True)
class Proposal:
    """One draw of an entitlement: `amount_minor` of the capture's currency pays `order_minor` of the order's.

    `line_amounts`: what that is of each order line, in the order's currency.
    """

    capture_id: UUID
    currency: str
    amount_minor: int
    order_minor: int
    line_amounts: dict[UUID, int]


@dataclass(frozen=True)
class Basis:
    """What every intent of one entitlement has in common. `units` are [{line, from, to}] by line reference; `override` says what
    was computed where another amount is asked for: {id, computed_minor}."""

    entitlement_id: UUID
    digest: bytes
    evidence_digest: bytes
    policy_id: str
    policy_version: int
    units: list[dict[str, Any]]
    route: str
    requester: str
    override: Mapping[str, Any] | None = None


_INSERT: Final = """
    INSERT INTO intents (merchant_id, intent_id, act, case_id, order_id, capture_id, entitlement_id, replaces, amount_minor,
        order_minor, currency, exponent, destination_kind, destination_brand, destination_last4, provider_account_id,
        payment_intent_ref,
        charge_ref, units, entitlement_digest, evidence_digest, policy_id, policy_version, requester, case_opener, route,
        provider_key, created_at, state_at, override_id, computed_minor)
    SELECT c.merchant_id, :intent_id, CASE WHEN c.captured_minor = 0 AND c.held_minor + c.releasing_minor > 0 THEN 'cancel_payment'
        WHEN c.charge_ref IS NULL THEN 'manual' ELSE 'refund' END,
        :case_id, :order_id, c.capture_id, :entitlement_id, :replaces, :amount_minor,
        :order_minor, c.currency, :exponent, c.destination_kind, c.destination_brand, c.destination_last4, c.provider_account_id,
        c.payment_intent_ref, c.charge_ref, CAST(:units AS jsonb), :digest, :evidence_digest, :policy_id, :policy_version,
        :requester, :opener, :route, :provider_key, :at, :at, CAST(:override AS uuid), CAST(:computed AS bigint)
    FROM captures c WHERE c.merchant_id = :merchant_id AND c.capture_id = :capture_id
"""


def propose(db: Connection, case: LockedCase, basis: Basis, proposal: Proposal, actor: str) -> UUID:
    """Inserts one intent in `proposed` with its provider key (P8) and its line claims. The case is locked by the caller.

    Its act follows from the capture: what was only authorised is canceled, what no provider holds is paid back by hand.

    Locks the order lines it claims. Raises IntegrityError when the case has a live intent on that capture (P2) or a line
    would be claimed above what was allocated to it (P4).
    """
    intent_id = uuid7()
    replaced = first(db, _REPLACED, m=case.merchant_id, c=case.case_id, capture=proposal.capture_id)
    inserted = run(
        db, _INSERT, merchant_id=case.merchant_id, intent_id=intent_id, case_id=case.case_id, order_id=case.order_id,
        entitlement_id=basis.entitlement_id, replaces=replaced["intent_id"] if replaced else None,
        amount_minor=proposal.amount_minor, order_minor=proposal.order_minor,
        exponent=exponent(proposal.currency), units=canonical_bytes(basis.units).decode(),
        digest=basis.digest, evidence_digest=basis.evidence_digest, policy_id=basis.policy_id,
        policy_version=basis.policy_version, requester=basis.requester, opener=case.opened_by, route=basis.route,
        provider_key=new_provider_key(), at=case.at, capture_id=proposal.capture_id,
        override=basis.override["id"] if basis.override else None,
        computed=basis.override["computed_minor"] if basis.override else None,
    )  # fmt: skip
    if inserted != 1:
        raise NotFound
    claim_lines(db, case.merchant_id, intent_id, proposal.line_amounts)
    body = {"amount_minor": str(proposal.amount_minor), "currency": proposal.currency, "entitlement": basis.digest.hex(),
            "route": basis.route, "requester": basis.requester}  # fmt: skip
    append(db, case, "intent.proposed", actor, body, intent_id=intent_id, move=("new", "proposed"))
    return intent_id


# More money after a failed or returned one is a new intent, linked to the one before it; so is what is left to pay after
# something that happened outside called the one before it back.
_REPLACED: Final = """
    SELECT intent_id FROM intents WHERE merchant_id = :m AND case_id = :c AND capture_id = :capture
        AND (state IN ('failed', 'reversed')
            OR (state = 'withdrawn' AND state_reason IN ('refunded_outside', 'disputed', 'dispute_over', 'captured_elsewhere',
                'payment_released')))
    ORDER BY number DESC LIMIT 1
"""


def new_provider_key() -> str:
    """A provider key says nothing about anybody: 160 random bits, minted once with its intent."""
    return f"onceback-refund-{secrets.token_hex(20)}"


def withdraw(db: Connection, case: LockedCase, intents: Sequence[RowMapping], actor: str, reason: str) -> None:
    """proposed, approved or held → withdrawn; gives back line claims. The caller then calls `give_back` with the same intents,
    once it locks no more lines: captures and cap days come after them. Case and intents are locked.

    Raises WrongState once the submitter has claimed one: the two race on the case's row lock and one wins.
    """
    for intent in intents:
        if intent["recorded_by_hand"]:
            raise WrongState("Too late to cancel: it was recorded as paid back by hand.", state=intent["state"])
        if intent["state"] not in ("proposed", "approved", "held"):
            raise WrongState("Too late to cancel: it already left. The answer will show here.", state=intent["state"])
        keys = {"intent_id": intent["intent_id"], "move": (intent["state"], "withdrawn"), "reason": reason}
        append(db, case, "intent.withdrawn", actor, **keys, stage="needs_person")
        release_lines(db, intent)
        if intent["state"] != "proposed":
            run(db, "UPDATE outbox SET done_at = now() WHERE merchant_id = :m AND intent_id = :i",
                m=case.merchant_id, i=intent["intent_id"])  # fmt: skip


def cancel_before_send(db: Connection, merchant_id: UUID, intent_id: UUID, actor: str, reason: str) -> LockedCase:
    """A person calls back a refund before it leaves. Raises NotFound, BadInput (reason), WrongState (already left)."""
    if reason not in WITHDRAW_REASONS:
        raise BadInput("reason", f"choose one of {', '.join(WITHDRAW_REASONS)}")
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        raise NotFound
    if intent["state"] == "withdrawn":
        return case
    withdraw(db, case, [intent], actor, reason)
    give_back(db, [intent])
    return case


def live_intents(db: Connection, case: LockedCase) -> list[RowMapping]:
    """The live intents of a locked case, locked in turn, oldest first."""
    found = rows(db, _LIVE, m=case.merchant_id, c=case.case_id)
    locked = [read_intent(db, case.merchant_id, row["intent_id"], lock=True) for row in found]
    return [intent for intent in locked if intent is not None]


_LIVE: Final = """
    SELECT intent_id FROM intents WHERE merchant_id = :m AND case_id = :c
        AND state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review') ORDER BY number
"""
