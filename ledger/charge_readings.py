"""The charges of an order, read at the provider by the worker: what is due to be read, and what is found from it.

Each finding is stored with its inputs, so that anyone can find again what was found. A verified one proposes one refund, of what
is left of exactly one payment, to that payment; a person approves it like any other.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes
from ledger.charge_cases import lock_duplicate_case
from ledger.charge_facts import ShownCharge, read_inputs
from ledger.database import rows, run, scalar
from ledger.duplicate_charges import Finding, Inputs, document, find, reason_of
from ledger.duplicate_record import owed
from ledger.entitlement_verdict import LEVELS
from ledger.events import LockedCase, append
from ledger.fingerprint import evidence_digest
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, live_intents, propose
from ledger.limits import ROUTES
from ledger.money import exponent
from ledger.policies import NoPolicy, Policy
from ledger.policy_of_sale import Asked, policy_of_sale
from ledger.policy_terms import PolicyTerms

# A read that failed is tried again: soon, for a hiccup, and after the last a person is told what could not be read.
TRY_AGAIN_SECONDS: Final = (5, 15, 60, 240)
# Who decides a refund of this kind, unless the policy's fixed routes name another level for it.
ROUTE_RULE: Final = "duplicate.charge"
_STAGE: Final = {"none": "nothing_due", "investigate": "needs_person"}

_TAKE: Final = """
    UPDATE charge_readings SET attempts = attempts + 1, due_at = now() + make_interval(secs => :wait)
    WHERE merchant_id = :m AND reading_id IN (SELECT reading_id FROM charge_readings WHERE merchant_id = :m AND done_at IS NULL
        AND due_at <= now() ORDER BY due_at LIMIT :most FOR UPDATE SKIP LOCKED)
    RETURNING reading_id, case_id, attempts
"""
# How long a taken reading is left to whoever took it; a worker that died leaves it due again then.
LEASE_SECONDS: Final = 60
_TO_READ: Final = """
    SELECT DISTINCT cp.charge_ref, cp.payment_intent_ref, cp.provider_account_id, a.account_ref, a.credential, a.livemode,
        coalesce(a.expected_account_ref, '') AS expected_account
    FROM cases c JOIN captures cp ON cp.merchant_id = c.merchant_id AND cp.order_id = c.order_id
    JOIN provider_accounts a ON a.merchant_id = cp.merchant_id AND a.provider_account_id = cp.provider_account_id
    WHERE c.merchant_id = :m AND c.case_id = :c ORDER BY cp.charge_ref
"""


def take_readings(db: Connection, merchant_id: UUID, most: int) -> list[RowMapping]:
    """Readings that are due, put off meanwhile; the caller commits, then reads. Locks their rows shortly."""
    return rows(db, _TAKE, m=merchant_id, most=most, wait=LEASE_SECONDS)


def payments_to_read(db: Connection, merchant_id: UUID, case_id: UUID) -> list[RowMapping]:
    """The payments of the case's order at the provider, and whose account each is on."""
    return rows(db, _TO_READ, m=merchant_id, c=case_id)


def put_off(db: Connection, merchant_id: UUID, reading: RowMapping) -> bool:
    """A read failed: tries again later; False when it was the last try."""
    tried = reading["attempts"]
    if tried > len(TRY_AGAIN_SECONDS):
        return False
    run(
        db, "UPDATE charge_readings SET due_at = now() + make_interval(secs => :wait) WHERE merchant_id = :m AND reading_id = :r"
        " AND done_at IS NULL", m=merchant_id, r=reading["reading_id"], wait=TRY_AGAIN_SECONDS[tried - 1],
    )  # fmt: skip
    return True


NO_POLICY: Final = "no_policy"


def record_reading(
    db: Connection, merchant_id: UUID, reading: RowMapping, shown: Sequence[ShownCharge], unread: tuple[str, ...]
) -> str:
    """Finds from what was read, stores the finding with its inputs, and proposes what a verified one owes; returns the verdict,
    "" when another worker was quicker or the case was closed meanwhile, NO_POLICY where none decides: then it is a person's.

    Locks the order and its cases, then what proposing locks. Raises NotFound.
    """
    case = lock_duplicate_case(db, merchant_id, reading["case_id"])
    done = run(
        db, "UPDATE charge_readings SET done_at = now() WHERE merchant_id = :m AND reading_id = :r AND done_at IS NULL",
        m=merchant_id, r=reading["reading_id"],
    )  # fmt: skip
    if not done or case.closed_at is not None or live_intents(db, case):
        return ""
    return record_finding(db, case, reading["reading_id"], read_inputs(db, merchant_id, case.order_id, shown, unread))


def record_finding(db: Connection, case: LockedCase, reading_id: UUID, inputs: Inputs) -> str:
    """Finds from inputs that were read under the lock of the case's order, stores both, and proposes what is owed."""
    finding, merchant_id = find(inputs), case.merchant_id
    try:
        asked = Asked(merchant_id, case.order_id, _placed_at(db, case), case_id=case.case_id)
        policy, terms = policy_of_sale(db, asked).options[0]
    except NoPolicy as undecided:
        append(db, case, "case.no_policy", "system", undecided.facts, reason=undecided.reason, stage="needs_person")
        return NO_POLICY
    record = owed(finding, inputs, str(case.case_id), exponent(case.currency), terms.cited,
                  _level(terms), case.at)  # fmt: skip
    n = _store(db, case, reading_id, inputs, finding)
    body = {"finding": finding.verdict, "reason": reason_of(finding), "digest": record["digest"]}
    append(db, case, "charges.found", "system", body, stage=_STAGE.get(finding.verdict))
    seen = evidence_digest(db, merchant_id, case.case_id)
    entitlement_id = _entitle(db, case, policy, record, inputs, seen, n)
    if finding.charge is not None:
        _keep_claim(db, case, UUID(finding.charge.capture_id))
        _propose(db, case, policy, finding, record, entitlement_id, seen)
    run(db, "UPDATE cases SET amount_minor = :minor WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case.case_id,
        minor=record["total"] or None)  # fmt: skip
    return finding.verdict


def _level(terms: PolicyTerms) -> str:
    """Who decides it; of an order with goods under several policies, the strictest."""
    return max((one.routes.always.get(ROUTE_RULE, "manager") for one in terms.each), key=LEVELS.index)


def _placed_at(db: Connection, case: LockedCase) -> Any:
    return scalar(db, "SELECT placed_at FROM orders WHERE merchant_id = :m AND order_id = :o",
                  m=case.merchant_id, o=case.order_id)  # fmt: skip


_FOUND: Final = """
    INSERT INTO charge_findings (merchant_id, finding_id, case_id, n, reading_id, finding, reason, capture_id, amount_minor, inputs,
        record, digest)
    SELECT :m, :id, :c, count(*) + 1, :r, :finding, :reason, :capture, :minor, CAST(:inputs AS jsonb), CAST(:record AS jsonb),
        :digest
    FROM charge_findings WHERE merchant_id = :m AND case_id = :c
"""


def _store(db: Connection, case: LockedCase, reading_id: UUID, inputs: Inputs, finding: Finding) -> int:
    """Stores the finding; returns the number of the entitlement that goes with it."""
    charge = finding.charge
    run(
        db, _FOUND, m=case.merchant_id, id=uuid7(), c=case.case_id, r=reading_id, finding=finding.verdict,
        reason=reason_of(finding), capture=UUID(charge.capture_id) if charge else None,
        minor=charge.net_minor if charge else None, inputs=canonical_bytes(inputs.document()).decode(),
        record=canonical_bytes(document(finding)).decode(), digest=bytes.fromhex(inputs.digest.removeprefix("sha256:")),
    )  # fmt: skip
    return int(scalar(db, "SELECT count(*) + 1 FROM entitlements WHERE merchant_id = :m AND case_id = :c",
                      m=case.merchant_id, c=case.case_id))  # fmt: skip


_ENTITLEMENT: Final = """
    INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest, outcome,
        currency, total_minor, tax_minor, payable_minor, record, digest, at, evidence)
    VALUES (:m, :id, :c, :n, :policy, :version, :evidence, :outcome, :currency, :total, 0, :total, CAST(:record AS jsonb),
        :digest, :at, :charges)
"""


def _entitle(
    db: Connection, case: LockedCase, policy: Policy, record: dict[str, Any], inputs: Inputs, evidence: bytes, n: int
) -> UUID:
    entitlement_id = uuid7()
    run(
        db, _ENTITLEMENT, m=case.merchant_id, id=entitlement_id, c=case.case_id, n=n, policy=policy.policy_id,
        version=policy.version, evidence=evidence, outcome=record["outcome"], currency=case.currency, total=record["total"],
        record=canonical_bytes(record).decode(), digest=_bytes(record), at=case.at,
        charges=canonical_bytes(inputs.document()).decode(),
    )  # fmt: skip
    return entitlement_id


def _bytes(record: dict[str, Any]) -> bytes:
    return bytes.fromhex(record["digest"].removeprefix("sha256:"))


def _keep_claim(db: Connection, case: LockedCase, capture_id: UUID) -> None:
    """The case is about this one payment from now on; the order's others are free for another case."""
    run(db, "UPDATE charge_claims SET live = (capture_id = :capture) WHERE merchant_id = :m AND case_id = :c"
        " AND live <> (capture_id = :capture)", m=case.merchant_id, c=case.case_id, capture=capture_id)  # fmt: skip


def _propose(
    db: Connection,
    case: LockedCase,
    policy: Policy,
    finding: Finding,
    record: dict[str, Any],
    entitlement_id: UUID,
    evidence: bytes,
) -> None:
    charge = finding.charge
    if charge is None:
        return
    level = record["route"]["level"]
    least = level if level != "staff" else "desk"
    route = max(least, policy.route(case.currency, charge.net_minor), key=ROUTES.index)
    basis = Basis(entitlement_id, _bytes(record), evidence, policy.policy_id, policy.version, [], route, case.opened_by)
    proposal = Proposal(UUID(charge.capture_id), charge.currency, charge.net_minor, charge.net_minor, {})
    propose(db, case, basis, proposal, "system")
