"""From the rows of a case to its entitlement, and from that to the exact intents it owes.

Every change of evidence runs through `reassess`: what was proposed or approved on the old evidence is withdrawn, a new
entitlement is stored beside the old ones, and new intents are proposed. What is on its way or paid stays: a new entitlement
then covers the difference only.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment_facts import Facts, policy_terms, read_facts
from ledger.canonical import canonical_bytes, digest
from ledger.database import first, rows, run
from ledger.entitlement import RECORD_TAG, Entitlement, derive
from ledger.errors import WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.fingerprint import evidence_digest
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, live_intents, propose, withdraw
from ledger.limits import beside_minor
from ledger.orders import read_allocation
from ledger.reservation import give_back

UNSENT: Final = ("proposed", "approved", "held")
NEW_EVIDENCE: Final = "evidence_changed"
STAGE: Final = {
    "wait": "waiting_goods",
    "nothing_due": "nothing_due",
    "refused": "needs_person",
    "needs_review": "needs_person",
}


def reassess(
    db: Connection, case: LockedCase, actor: str, *, requester: str | None = None, because: str = NEW_EVIDENCE
) -> Entitlement | None:
    """Derives the entitlement of a case anew, it and its order being locked; None when no evidence changed since the last one.

    `requester` is who asks for the refund (P7): the case's opener unless a person proposes again; `because` is why what waited
    is called back. Locks the live intents of
    the case, then order lines, captures and cap day as far as they are given back or claimed.
    """
    live = live_intents(db, case)
    facts = read_facts(db, case)
    policy = facts.policy
    result = derive(
        read_allocation(facts.order["allocation"]), facts.evidence, facts.priors, policy_terms(policy), case.at
    )
    seen = evidence_digest(db, case.merchant_id, case.case_id)
    latest = first(db, _LATEST, m=case.merchant_id, c=case.case_id)
    unsent = [intent for intent in live if intent["state"] in UNSENT and not intent["recorded_by_hand"]]
    if latest is not None and requester is None and because == NEW_EVIDENCE and _same(latest, result, seen):
        return None
    withdraw(db, case, unsent, actor, because)
    entitlement_id = _store(db, case, facts, result, seen, 1 + (latest["n"] if latest else 0))
    body = {
        "outcome": result.outcome,
        "total_minor": str(result.total_minor),
        "currency": case.currency,
        "digest": result.digest,
    }
    in_flight = len(live) > len(unsent)
    done = case.closed_at is not None and not _open_again(db, case, result)
    stage = None if in_flight or done else STAGE.get(result.outcome)
    append(db, case, "entitlement.derived", actor, body, stage=stage)
    if result.outcome == "payable" and not in_flight and not facts.order["blocked"]:
        basis = Basis(
            entitlement_id, bytes.fromhex(result.digest.removeprefix("sha256:")), seen, policy.policy_id, policy.version,
            [{"line": line, "from": a, "to": b} for line, a, b in result.record["units"]],
            _route(db, case, facts, result), requester or case.opened_by,
        )  # fmt: skip
        for proposal in _proposals(db, case, facts, result):
            propose(db, case, basis, proposal, actor)
    elif result.outcome == "payable" and not in_flight:
        append(
            db, case, "case.blocked", actor, {"discrepancies": list(facts.order["discrepancies"])}, stage="needs_person"
        )
    _summarise(db, case, facts, result)
    give_back(db, unsent)
    return result


def _route(db: Connection, case: LockedCase, facts: Facts, result: Entitlement) -> str:
    """Who decides, by the sum: the order's own is in the entitlement, its customer's other refunds of 24 hours join it (S22)."""
    if result.record["route"]["level"] != "staff":
        return "manager"
    others = beside_minor(db, case.merchant_id, case.order_id)
    total = result.total_minor + sum(claim.minor for claim in facts.priors.claims)
    return facts.policy.route(case.currency, total + others, exception=False)


def work_out_again(db: Connection, merchant_id: UUID, case_id: UUID, actor: str) -> LockedCase:
    """A person asks for the refund anew, after a failed or returned one or once a block is lifted. Raises NotFound.

    That person is then its requester and cannot approve it. Locks order, case and what `reassess` locks. Raises WrongState for
    a closed case: new evidence opens a paid one again, a rejected one stays.
    """
    case = lock_order_and_case(db, merchant_id, case_id)
    if case.closed_at is not None:
        raise WrongState("This case is closed. Report what arrived, or open a new return.")
    reassess(db, case, actor, requester=actor)
    return case


def _open_again(db: Connection, case: LockedCase, result: Entitlement) -> bool:
    """Opens a closed case that owes more than was paid, or less; what changes neither leaves it closed."""
    if case.stage == "rejected" or result.outcome not in ("payable", "needs_review"):
        return False
    run(
        db,
        "UPDATE cases SET closed_at = NULL WHERE merchant_id = :m AND case_id = :c",
        m=case.merchant_id,
        c=case.case_id,
    )
    case.closed_at = None
    return True


_LATEST: Final = """
    SELECT n, record, evidence_digest FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1
"""


def _same(latest: RowMapping, result: Entitlement, seen: bytes) -> bool:
    if bytes(latest["evidence_digest"]) != seen:
        return False
    kept = {key: value for key, value in latest["record"].items() if key not in ("as_of", "digest")}
    return digest(kept, RECORD_TAG) == result.substance_digest


def _store(db: Connection, case: LockedCase, facts: Facts, result: Entitlement, seen: bytes, n: int) -> UUID:
    entitlement_id = uuid7()
    run(
        db, "INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest,"
        " outcome, currency, total_minor, tax_minor, payable_minor, record, digest, at) VALUES (:m, :id, :c, :n, :policy,"
        " :version, :evidence, :outcome, :currency, :total, :tax, :payable, CAST(:record AS jsonb), :digest, :at)",
        m=case.merchant_id, id=entitlement_id, c=case.case_id, n=n, policy=facts.policy.policy_id, version=facts.policy.version,
        evidence=seen, outcome=result.outcome, currency=case.currency, total=result.total_minor, tax=result.tax_minor,
        payable=result.payable_now_minor, record=canonical_bytes(dict(result.record)).decode(),
        digest=bytes.fromhex(result.digest.removeprefix("sha256:")), at=case.at,
    )  # fmt: skip
    return entitlement_id


_CLAIMED: Final = """
    SELECT line_id, sum(minor)::bigint AS minor FROM (
        SELECT lc.line_id, lc.amount_minor AS minor FROM line_claims lc
        JOIN intents i ON i.merchant_id = lc.merchant_id AND i.intent_id = lc.intent_id
        WHERE lc.merchant_id = :m AND i.case_id = :c
        UNION ALL
        SELECT line_id, order_minor FROM external_allocations WHERE merchant_id = :m AND case_id = :c) claimed
    GROUP BY line_id
"""


def _proposals(db: Connection, case: LockedCase, facts: Facts, result: Entitlement) -> list[Proposal]:
    """One proposal per draw; each takes of the lines, in order, what it pays for."""
    held = {row["line_id"]: row["minor"] for row in rows(db, _CLAIMED, m=case.merchant_id, c=case.case_id)}
    owed = {
        facts.line_ids[ref]: minor - held.get(facts.line_ids[ref], 0) for ref, minor in result.record["claimed"].items()
    }
    proposals = []
    for draw in result.draws:
        need, taken = draw.order_minor, {}
        for line_id, left in owed.items():
            part = min(need, max(0, left))
            if part:
                taken[line_id] = part
                owed[line_id] -= part
                need -= part
        proposals.append(Proposal(UUID(draw.capture_id), draw.currency, draw.minor, draw.order_minor, taken))
    return proposals


def _summarise(db: Connection, case: LockedCase, facts: Facts, result: Entitlement) -> None:
    """Keeps what a queue row shows in step with the rows."""
    grades = ", ".join(sorted({row.grade for row in facts.evidence.inspected}))
    received = sum(row.count for row in facts.evidence.received)
    run(
        db, "UPDATE cases SET received = :received, grades = :grades, amount_minor = :amount"
        " WHERE merchant_id = :m AND case_id = :c",
        received=received, grades=grades, m=case.merchant_id, c=case.case_id,
        amount=result.payable_now_minor or result.total_minor or None,
    )  # fmt: skip
