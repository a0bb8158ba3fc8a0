"""From the rows of a case to its entitlement, and from that to the exact intents it owes.

Every change of evidence runs through `reassess`: what was proposed or approved on the old evidence is withdrawn, a new
entitlement is stored beside the old ones, and new intents are proposed. What is on its way or paid stays: a new entitlement
then covers the difference only.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes, digest
from ledger.database import first, rows, run
from ledger.entitlement import RECORD_TAG, Entitlement, derive
from ledger.entitlement_facts import (
    CaptureState,
    CasePayment,
    CaseUnits,
    Evidence,
    Inspected,
    PolicyTerms,
    PriorClaim,
    Priors,
    Received,
)
from ledger.errors import NotFound
from ledger.events import LockedCase, append, lock_case
from ledger.fingerprint import evidence_digest
from ledger.ids import uuid7
from ledger.intents import Basis, Proposal, live_intents, propose, withdraw
from ledger.orders import read_allocation
from ledger.policies import Policy, effective_policy

UNSENT: Final = ("proposed", "approved", "held")
STAGE: Final = {
    "wait": "waiting_goods",
    "nothing_due": "nothing_due",
    "refused": "needs_person",
    "needs_review": "needs_person",
}


@dataclass(frozen=True)
class _Facts:
    order: RowMapping
    policy: Policy
    evidence: Evidence
    priors: Priors
    line_ids: dict[str, UUID]


def reassess(db: Connection, case: LockedCase, actor: str, *, requester: str | None = None) -> Entitlement | None:
    """Derives the entitlement of a locked case anew; None when nothing changed since the last one.

    `requester` is who asks for the refund (P7): the case's opener unless a person proposes again. Locks the live intents of
    the case, then order lines, captures and cap day as far as they are given back or claimed.
    """
    live = live_intents(db, case)
    facts = _read(db, case, [intent for intent in live if intent["state"] not in UNSENT])
    policy = facts.policy
    result = derive(read_allocation(facts.order["allocation"]), facts.evidence, facts.priors, _terms(policy), case.at)
    seen = evidence_digest(db, case.merchant_id, case.case_id)
    latest = first(db, _LATEST, m=case.merchant_id, c=case.case_id)
    unsent = [intent for intent in live if intent["state"] in UNSENT]
    if latest is not None and requester is None and _same(latest, result, seen):
        return None
    for intent in unsent:
        withdraw(db, case, intent, actor, "evidence_changed")
    entitlement_id = _store(db, case, facts, result, seen, 1 + (latest["n"] if latest else 0))
    body = {
        "outcome": result.outcome,
        "total_minor": str(result.total_minor),
        "currency": case.currency,
        "digest": result.digest,
    }
    in_flight = len(live) > len(unsent)
    stage = None if in_flight else STAGE.get(result.outcome)
    append(db, case, "entitlement.derived", actor, body, stage=stage)
    if result.outcome == "payable" and not in_flight and not facts.order["blocked"]:
        basis = Basis(
            entitlement_id, bytes.fromhex(result.digest.removeprefix("sha256:")), seen, policy.policy_id, policy.version,
            [{"line": line, "from": a, "to": b} for line, a, b in result.record["units"]],
            "manager" if result.record["route"]["level"] != "staff" else "desk", requester or case.opened_by,
        )  # fmt: skip
        for proposal in _proposals(db, case, facts, result):
            propose(db, case, basis, proposal, actor)
    elif result.outcome == "payable" and not in_flight:
        append(
            db, case, "case.blocked", actor, {"discrepancies": list(facts.order["discrepancies"])}, stage="needs_person"
        )
    _summarise(db, case, facts, result)
    return result


def work_out_again(db: Connection, merchant_id: UUID, case_id: UUID, actor: str) -> LockedCase:
    """A person asks for the refund anew, after a failed or returned one or once a block is lifted. Raises NotFound.

    That person is then its requester and cannot approve it. Locks the case and what `reassess` locks.
    """
    case = lock_case(db, merchant_id, case_id)
    reassess(db, case, actor, requester=actor)
    return case


_LATEST: Final = """
    SELECT n, record, evidence_digest FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1
"""


def _same(latest: RowMapping, result: Entitlement, seen: bytes) -> bool:
    if bytes(latest["evidence_digest"]) != seen:
        return False
    kept = {key: value for key, value in latest["record"].items() if key not in ("as_of", "digest")}
    return digest(kept, RECORD_TAG) == result.substance_digest


def _read(db: Connection, case: LockedCase, in_flight: list[RowMapping]) -> _Facts:
    keys = {"m": case.merchant_id, "c": case.case_id, "o": case.order_id}
    order = first(
        db, "SELECT order_id, allocation, placed_at, blocked, discrepancies FROM orders WHERE merchant_id = :m AND order_id = :o",
        m=case.merchant_id, o=case.order_id,
    )  # fmt: skip
    if order is None:
        raise NotFound
    lines = rows(db, "SELECT line_id, line_ref FROM order_lines WHERE merchant_id = :m AND order_id = :o",
                 m=case.merchant_id, o=case.order_id)  # fmt: skip
    refs = {row["line_id"]: row["line_ref"] for row in lines}
    policy = effective_policy(db, case.merchant_id, order["placed_at"])
    evidence = _evidence(db, keys, refs)
    priors = Priors(
        tuple(_capture(row) for row in rows(db, _CAPTURES, **keys)),
        tuple(PriorClaim(str(row["case_id"]), refs[row["line_id"]], row["a"], row["b"], row["minor"], row["returned"])
              for row in rows(db, _CLAIMS, **keys)),
        (),
        tuple(CasePayment(str(row["capture_id"]), row["order_minor"], row["amount_minor"])
              for row in rows(db, _PAID, m=case.merchant_id, c=case.case_id)),
    )  # fmt: skip
    return _Facts(order, policy, evidence, priors, {ref: line_id for line_id, ref in refs.items()})


def _evidence(db: Connection, keys: dict[str, UUID], refs: dict[UUID, str]) -> Evidence:
    units = rows(db, "SELECT line_id, lower(units) AS a, upper(units) AS b FROM case_items WHERE merchant_id = :m AND case_id = :c"
                 " AND live ORDER BY line_id, lower(units)", m=keys["m"], c=keys["c"])  # fmt: skip
    found = rows(db, "SELECT kind, line_id, count, lower(units) AS a, upper(units) AS b, grade FROM evidence"
                 " WHERE merchant_id = :m AND case_id = :c ORDER BY number", m=keys["m"], c=keys["c"])  # fmt: skip
    return Evidence(
        str(keys["c"]),
        tuple(CaseUnits(refs[row["line_id"]], row["a"], row["b"]) for row in units),
        tuple(Received(refs[row["line_id"]], row["count"]) for row in found if row["kind"] == "received"),
        tuple(
            Inspected(refs[row["line_id"]], row["a"], row["b"], row["grade"])
            for row in found
            if row["kind"] == "inspected"
        ),
    )


# Reservations of this case that have not left count as available again: they are withdrawn before anything is proposed.
_CAPTURES: Final = """
    SELECT cp.capture_id, cp.tender, cp.currency, cp.captured_minor, cp.order_minor, cp.step_minor, cp.disputed_minor,
        CASE WHEN cp.charge_ref IS NULL THEN 0 ELSE cp.available_minor + coalesce((SELECT sum(i.amount_minor) FROM intents i
            WHERE i.merchant_id = cp.merchant_id AND i.capture_id = cp.capture_id AND i.case_id = :c
            AND i.state IN ('approved', 'held')), 0)::bigint END AS available_minor,
        coalesce((SELECT sum(i.order_minor) FROM intents i WHERE i.merchant_id = cp.merchant_id
            AND i.capture_id = cp.capture_id AND (i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
                OR (i.state IN ('approved', 'held') AND i.case_id <> :c))), 0)::bigint AS drawn_order_minor,
        coalesce((SELECT sum(CASE t.step WHEN 'external' THEN t.amount_minor ELSE -t.amount_minor END) FROM transfers t
            WHERE t.merchant_id = cp.merchant_id AND t.capture_id = cp.capture_id AND t.source_ref IS NOT NULL
            AND t.step IN ('external', 'external_reverse')), 0)::bigint AS external_unallocated_minor
    FROM captures cp WHERE cp.merchant_id = :m AND cp.order_id = :o ORDER BY cp.position
"""

# What other cases of the order hold and claim. Their claimed amount stands on the first of their ranges of a line.
_CLAIMS: Final = """
    SELECT ci.case_id, ci.line_id, lower(ci.units) AS a, upper(ci.units) AS b,
        CASE WHEN row_number() OVER (PARTITION BY ci.case_id, ci.line_id ORDER BY lower(ci.units)) = 1 THEN
            coalesce((SELECT sum(lc.amount_minor) FROM line_claims lc
                JOIN intents i ON i.merchant_id = lc.merchant_id AND i.intent_id = lc.intent_id
                WHERE lc.merchant_id = ci.merchant_id AND lc.line_id = ci.line_id AND i.case_id = ci.case_id), 0) ELSE 0
        END::bigint AS minor,
        c.received > 0 AS returned
    FROM case_items ci JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    WHERE ci.merchant_id = :m AND ci.order_id = :o AND ci.case_id <> :c AND ci.live ORDER BY ci.case_id, ci.line_id, lower(ci.units)
"""
_PAID: Final = """
    SELECT capture_id, order_minor, amount_minor FROM intents WHERE merchant_id = :m AND case_id = :c
        AND state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded') ORDER BY number
"""


def _capture(row: RowMapping) -> CaptureState:
    return CaptureState(
        str(row["capture_id"]), row["tender"], row["currency"], row["captured_minor"], row["order_minor"],
        row["available_minor"], row["drawn_order_minor"], row["step_minor"], row["disputed_minor"],
        row["external_unallocated_minor"],
    )  # fmt: skip


def _terms(policy: Policy) -> PolicyTerms:
    return PolicyTerms(
        policy.policy_id, policy.version, policy.terms.refund_trigger, policy.terms.shipping,
        manager_from_minor=policy.terms.routes.manager_from_minor,
    )  # fmt: skip


def _store(db: Connection, case: LockedCase, facts: _Facts, result: Entitlement, seen: bytes, n: int) -> UUID:
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
    SELECT lc.line_id, sum(lc.amount_minor)::bigint AS minor FROM line_claims lc
    JOIN intents i ON i.merchant_id = lc.merchant_id AND i.intent_id = lc.intent_id
    WHERE lc.merchant_id = :m AND i.case_id = :c GROUP BY lc.line_id
"""


def _proposals(db: Connection, case: LockedCase, facts: _Facts, result: Entitlement) -> list[Proposal]:
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


def _summarise(db: Connection, case: LockedCase, facts: _Facts, result: Entitlement) -> None:
    """Keeps what a queue row shows in step with the rows."""
    grades = ", ".join(sorted({row.grade for row in facts.evidence.inspected}))
    received = sum(row.count for row in facts.evidence.received)
    run(
        db, "UPDATE cases SET received = :received, grades = :grades, amount_minor = :amount"
        " WHERE merchant_id = :m AND case_id = :c",
        received=received, grades=grades, m=case.merchant_id, c=case.case_id,
        amount=result.payable_now_minor or result.total_minor or None,
    )  # fmt: skip
