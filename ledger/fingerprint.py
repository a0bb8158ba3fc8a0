"""What exactly is approved: one digest over everything a refund is, made from rows and from nothing else (P6, S24).

The confirm page renders it, the form carries it back, the approval stores it, and it is computed again from live rows
before each send. Amounts and numbers are strings inside, so no reader can round them.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes
from ledger.database import Later, first, rows, run_later

# v2: with the act of the intent and the form of its payment.
TAG: Final = b"onceback.fingerprint.v2\0"
EVIDENCE_TAG: Final = b"onceback.evidence.v1\0"
REQUEST_TAG: Final = b"onceback.request.v1\0"

# Provider metadata values hold 500 characters; longer unit lists are replaced by a digest (S86).
METADATA_VALUE_CHARACTERS: Final = 500
# Before the line and units that money was given on, with the goods kept.
KEPT: Final = "kept:"

# `latest_digest` is the digest of the case's newest entitlement: an intent whose own is older is dead. An intent that is paid
# back by hand has no account at a provider. `on_hold_minor` is what the payment still holds and did not take. `kept`: the line, and
# units [0,0) where it is about all of it, of money that is given with the goods kept.
INTENT_SQL: Final = """
    SELECT i.*, d.deployment_id, d.generation, coalesce(a.account_ref, '') AS account_ref,
        coalesce(a.livemode, d.livemode) AS livemode, coalesce(a.credential, '') AS credential,
        coalesce(a.charge_type, 'own') AS charge_type, coalesce(a.expected_account_ref, '') AS expected_account_ref,
        p.document->'connect' AS connect, k.tender, k.captured_minor, k.refunded_minor,
        k.held_minor + k.releasing_minor AS on_hold_minor,
        EXISTS (SELECT 1 FROM manual_settlements s WHERE i.act = 'manual' AND s.merchant_id = i.merchant_id
            AND s.intent_id = i.intent_id) AS recorded_by_hand,
        (SELECT l.line_ref || '[' || coalesce(lower(q.units), 0) || ',' || coalesce(upper(q.units), 0) || ')' FROM case_asks q
            JOIN order_lines l ON l.merchant_id = q.merchant_id AND l.line_id = q.line_id
            WHERE q.merchant_id = i.merchant_id AND q.case_id = i.case_id) AS kept,
        m.slug AS merchant_slug, c.number AS case_number, c.kind AS case_kind,
        c.channel AS case_channel, c.stage AS case_stage, o.blocked,
        (SELECT e.digest FROM entitlements e WHERE e.merchant_id = i.merchant_id AND e.case_id = i.case_id
            ORDER BY e.n DESC LIMIT 1) AS latest_digest,
        now() AS at
    FROM intents i
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN merchants m ON m.id = i.merchant_id
    JOIN captures k ON k.merchant_id = i.merchant_id AND k.capture_id = i.capture_id
    JOIN policies p ON p.merchant_id = i.merchant_id AND p.policy_id = i.policy_id AND p.version = i.policy_version
    LEFT JOIN provider_accounts a ON a.merchant_id = i.merchant_id AND a.provider_account_id = i.provider_account_id
    CROSS JOIN deployment d
    WHERE i.merchant_id = :merchant_id AND i.intent_id = :intent_id
"""
_LOCK_INTENT: Final = INTENT_SQL + " FOR NO KEY UPDATE OF i"
_LOCK_INTENTS: Final = _LOCK_INTENT.replace("i.intent_id = :intent_id", "i.intent_id = ANY(:intent_ids)")


def read_intent(db: Connection, merchant_id: UUID, intent_id: UUID, *, lock: bool = False) -> RowMapping | None:
    """The intent with the rows around it that its fingerprint covers. `lock` takes the intent's row (after its case)."""
    return first(db, _LOCK_INTENT if lock else INTENT_SQL, merchant_id=merchant_id, intent_id=intent_id)


def lock_intent_with(columns: str) -> str:
    """The statement of `read_intent` with its lock and more columns, of the intent `i`; for use behind the lock of its case."""
    return _LOCK_INTENT.replace("now() AS at", f"now() AS at, {columns}", 1)


def lock_intents_later(db: Connection, merchant_id: UUID, intent_ids: Sequence[UUID]) -> Later:
    """The same for several intents whose cases are locked; those that are gone are missing."""
    return run_later(db, _LOCK_INTENTS, merchant_id=merchant_id, intent_ids=list(intent_ids))


def evidence_digest(db: Connection, merchant_id: UUID, case_id: UUID) -> bytes:
    """SHA-256 over evidence, photos, parcels and stated facts of a case: kinds, counts, units, grades, findings, image hashes."""
    return digest_of_evidence(rows(db, _EVIDENCE_OF_CASE, merchant_id=merchant_id, case_id=case_id))


def evidence_of_intent_later(db: Connection, merchant_id: UUID, intent_id: UUID) -> Later:
    """The rows of `digest_of_evidence` for the case of an intent, together with what is locked before."""
    return run_later(db, _EVIDENCE_OF_INTENT, merchant_id=merchant_id, intent_id=intent_id)


def evidence_of_intents_later(db: Connection, merchant_id: UUID, intent_ids: Sequence[UUID]) -> Later:
    """The same for the cases of several intents: give its rows to `digests_of_evidence`."""
    return run_later(db, _EVIDENCE_OF_INTENTS, merchant_id=merchant_id, intent_ids=list(intent_ids))


def digests_of_evidence(seen: Sequence[RowMapping]) -> dict[UUID, bytes]:
    """The digest of each case that has evidence or photos; `NO_EVIDENCE` is that of any other."""
    by_case: dict[UUID, list[RowMapping]] = {}
    for row in seen:
        of_case = dict(row)
        by_case.setdefault(of_case.pop("case_id"), []).append(of_case)  # type: ignore[arg-type]
    return {case_id: digest_of_evidence(rows_) for case_id, rows_ in by_case.items()}


def digest_of_evidence(seen: Sequence[RowMapping]) -> bytes:
    """The digest over rows of evidence and photos in their order."""
    content = [[str(value) if value is not None else None for value in row.values()] for row in seen]
    return hashlib.sha256(EVIDENCE_TAG + canonical_bytes(content)).digest()


_EVIDENCE: Final = """
    SELECT 1 AS part, evidence_id AS id, kind, line_id, count, lower(units) AS a, upper(units) AS b, grade, parcel,
        note || coalesce(chr(31) || serial, '') || coalesce(chr(30) || reason_found, '') || coalesce(chr(29) || assessed_bps, '')
            AS note, actor, encode(NULL::bytea, 'hex') AS sha
    FROM evidence WHERE merchant_id = :merchant_id AND case_id = {case}
    UNION ALL
    SELECT 2, photo_id, content_type, line_id, NULL, unit, NULL, NULL, '', caption, actor, encode(sha256, 'hex')
    FROM photos WHERE merchant_id = :merchant_id AND case_id = {case}
    UNION ALL
    SELECT 3, parcel_id, proof, NULL, NULL, NULL, NULL, NULL, tracking, concat(our_label, chr(31), extract(epoch FROM sent_at)),
        actor, NULL
    FROM parcels WHERE merchant_id = :merchant_id AND case_id = {case}
    UNION ALL
    SELECT 4, fact_id, kind, line_id, number, NULL, NULL, NULL, said, concat(cure, chr(31), extract(epoch FROM happened_at),
        chr(30), customer_ref, chr(29), note), actor, NULL
    FROM case_facts WHERE merchant_id = :merchant_id AND case_id = {case}
    ORDER BY 1, 2
"""
_EVIDENCE_OF_CASE: Final = _EVIDENCE.format(case=":case_id")
_EVIDENCE_OF_INTENTS: Final = (
    _EVIDENCE.replace("SELECT 1 AS part", "SELECT case_id, 1 AS part").replace("SELECT 2, ", "SELECT case_id, 2, ")
    .replace("SELECT 3, ", "SELECT case_id, 3, ").replace("SELECT 4, ", "SELECT case_id, 4, ")
    .replace("= {case}", "IN (SELECT case_id FROM intents WHERE merchant_id = :merchant_id AND intent_id = ANY(:intent_ids))")
    .replace("ORDER BY 1, 2", "ORDER BY 1, 2, 3")
)  # fmt: skip
NO_EVIDENCE: Final = digest_of_evidence([])
_EVIDENCE_OF_INTENT: Final = _EVIDENCE.format(
    case="(SELECT case_id FROM intents WHERE merchant_id = :merchant_id AND intent_id = :intent_id)"
)


def connect_flags(intent: RowMapping) -> dict[str, bool]:
    """What a refund on a platform takes along, by charge type and the policy's `connect` (STRIPE.md §2).

    A direct charge has no transfer; a fee of a destination charge goes back only together with its transfer; a separate
    charge's transfer is never touched by a refund.
    """
    terms = intent["connect"] or {}
    kind = intent["charge_type"] if intent["act"] == "refund" else "own"
    reverse = kind == "destination" and terms.get("reverse_transfer") is True
    fee = (kind == "direct" or reverse) and terms.get("refund_application_fee") is True
    return {"reverse_transfer": reverse, "refund_application_fee": fee}


def not_sendable(intent: RowMapping) -> str:
    """Why the provider cannot be asked for this refund as it stands, or "".

    `account`: it is real money, and nobody named the account that the key opens, so that no key proves whose it is (S68).
    `multicapture`: while more of a payment may be captured, a part goes back neither with its transfer nor with its fee.
    """
    if (
        intent["livemode"]
        and intent["act"] != "manual"
        and not (intent["account_ref"] or intent["expected_account_ref"])
    ):
        return "account"
    partial = intent["amount_minor"] < intent["captured_minor"] - intent["refunded_minor"]
    flagged = any(connect_flags(intent).values())
    return "multicapture" if flagged and partial and intent["on_hold_minor"] > 0 else ""


def fingerprint(intent: RowMapping, evidence: bytes) -> bytes:
    """The digest of one exact intent. `evidence` is `evidence_digest()` now, so changed evidence changes it.

    An amount other than computed is bound together with the computed one. A cancel is also bound to a payment of which nothing
    was taken: one that was captured meanwhile is another intent.
    """
    hold = [str(intent["on_hold_minor"]), str(intent["captured_minor"])] if intent["act"] == "cancel_payment" else []
    content = {
        "act": intent["act"], "charge_type": intent["charge_type"], "expected_account": intent["expected_account_ref"],
        "connect": connect_flags(intent), "hold": hold,
        "deployment": str(intent["deployment_id"]), "merchant": str(intent["merchant_id"]),
        "case": str(intent["case_id"]), "intent": str(intent["intent_id"]), "capture": str(intent["capture_id"]),
        "account": intent["account_ref"],
        "account_id": str(intent["provider_account_id"]) if intent["provider_account_id"] else None,
        "livemode": intent["livemode"], "payment": intent["payment_intent_ref"], "charge": intent["charge_ref"],
        "amount_minor": str(intent["amount_minor"]), "currency": intent["currency"], "exponent": str(intent["exponent"]),
        "destination": [intent["destination_kind"], intent["destination_brand"], intent["destination_last4"]],
        "units": intent["units"], "entitlement": bytes(intent["latest_digest"] or b"").hex(),
        "entitlement_of_intent": bytes(intent["entitlement_digest"]).hex(),
        "policy": f"{intent['policy_id']}@{intent['policy_version']}", "route": intent["route"],
        "requester": intent["requester"], "opener": intent["case_opener"], "key": intent["provider_key"],
        "evidence": evidence.hex(), "evidence_of_intent": bytes(intent["evidence_digest"]).hex(),
    }  # fmt: skip
    if intent["override_id"] is not None:
        content["computed"] = [str(intent["override_id"]), str(intent["computed_minor"])]
    return hashlib.sha256(TAG + canonical_bytes(content)).digest()


def frozen_request(intent: RowMapping, print_: bytes) -> dict[str, Any]:
    """The provider request of an intent, the same on every attempt. Amount in minor units as a string.

    The metadata is how the refund is found again, and how claims can be rebuilt from the provider's list (S86); it names
    nobody. What closes no units says on what the money was given.
    """
    units = ";".join(f"{unit['line']}[{unit['from']},{unit['to']})" for unit in intent["units"])
    if not units and intent["kept"] is not None:
        units = KEPT + intent["kept"]
    if len(units) > METADATA_VALUE_CHARACTERS:
        units = "sha256:" + hashlib.sha256(units.encode()).hexdigest()
    return {
        "act": intent["act"],
        "account": intent["account_ref"],
        "expected_account": intent["expected_account_ref"],
        **connect_flags(intent),
        "credential": intent["credential"],
        "livemode": intent["livemode"],
        "payment_intent": intent["payment_intent_ref"],
        "charge": intent["charge_ref"],
        "amount_minor": str(intent["amount_minor"]),
        "currency": intent["currency"],
        "metadata": {
            "onceback_deployment": str(intent["deployment_id"]),
            "onceback_merchant": str(intent["merchant_id"]),
            "onceback_case": str(intent["case_id"]),
            "onceback_intent": str(intent["intent_id"]),
            "onceback_fingerprint": print_.hex(),
            "onceback_units": units,
        },
    }


def request_digest(request: dict[str, Any]) -> bytes:
    """SHA-256 of the frozen request."""
    return digest_of_request(canonical_bytes(request))


def digest_of_request(request: bytes) -> bytes:
    """The same of its canonical bytes."""
    return hashlib.sha256(REQUEST_TAG + request).digest()
