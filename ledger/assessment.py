"""From the rows of a case to its entitlement, and from that to the exact intents it owes.

Every change of evidence runs through `reassess`: what was proposed or approved on the old evidence is withdrawn, a new
entitlement is stored beside the old ones, and new intents are proposed. What is on its way or paid stays: a new entitlement
then covers the difference only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation_lines import Allocation
from ledger.assessment_facts import Facts, read_facts
from ledger.canonical import digest
from ledger.charge_cases import read_again
from ledger.database import first, rows, run
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.entitlement import RECORD_TAG, Entitlement, derive
from ledger.entitlement_conflicts import contradictions
from ledger.entitlement_deadlines import act_by
from ledger.entitlement_facts import Priors
from ledger.entitlement_store import store_entitlement
from ledger.errors import WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.fingerprint import evidence_digest
from ledger.intents import Basis, Proposal, live_intents, propose, withdraw
from ledger.limits import KINDS_BY_OPINION, ROUTES, beside, lock_asker
from ledger.policies import NoPolicy, Policy
from ledger.reservation import give_back

UNSENT: Final = ("proposed", "approved", "held")
NEW_EVIDENCE: Final = "evidence_changed"
EXCHANGED: Final = "exchanged"
STAGE: Final = {
    "wait": "waiting_goods",
    "nothing_due": "nothing_due",
    "refused": "needs_person",
    "needs_review": "needs_person",
}


def reassess(
    db: Connection, case: LockedCase, actor: str, *, requester: str | None = None, because: str = NEW_EVIDENCE
) -> Entitlement | None:
    """Derives the entitlement of a case anew, it and its order being locked; None when no evidence changed since the last one,
    of a case whose units were exchanged, and where no policy decides: then the case is a person's, and nothing asks for money.

    `requester` is who asks for the refund (P7): the case's opener unless a person proposes again; `because` is why what waited
    is called back. Locks the live intents of the case, who asks by opinion (`lock_asker`), then order lines, captures and cap day
    as far as they are given back or claimed. A case about charges is not derived from goods: its charges are read again at the
    provider, by the worker.
    """
    if case.kind == DUPLICATE_CHARGE:
        if case.closed_at is None:
            read_again(db, case, actor, because=because)
        return None
    if case.stage == EXCHANGED:
        return None
    live = live_intents(db, case)
    try:
        facts = read_facts(db, case)
    except NoPolicy as undecided:
        _leave_to_a_person(db, case, live, actor, undecided)
        return None
    policy, result = _derived(facts, case)
    seen = evidence_digest(db, case.merchant_id, case.case_id)
    latest = first(db, _LATEST, m=case.merchant_id, c=case.case_id)
    unsent = [intent for intent in live if intent["state"] in UNSENT and not intent["recorded_by_hand"]]
    if latest is not None and requester is None and because == NEW_EVIDENCE and _same(latest, result, seen):
        return None
    withdraw(db, case, unsent, actor, because)
    entitlement_id = store_entitlement(db, case, policy, result, seen, 1 + (latest["n"] if latest else 0))
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
        opinion = result.override is not None or case.kind in KINDS_BY_OPINION
        asker = Asker(case.case_id, _requester(case, result, requester), opinion)
        if opinion:
            lock_asker(db, case.merchant_id, asker.actor)
        basis = Basis(
            entitlement_id, bytes.fromhex(result.digest.removeprefix("sha256:")), seen, policy.policy_id, policy.version,
            [{"line": line, "from": a, "to": b} for line, a, b in result.record["units"] or facts.closed],
            route_of(db, case.merchant_id, case.order_id, facts.deciding.today, facts.priors, result, asker),
            asker.actor, result.override,
        )  # fmt: skip
        for proposal in _proposals(db, case, facts, result):
            propose(db, case, basis, proposal, actor)
    elif result.outcome == "payable" and not in_flight:
        append(
            db, case, "case.blocked", actor, {"discrepancies": list(facts.order["discrepancies"])}, stage="needs_person"
        )
    _summarise(db, case, facts, result)
    if latest is None or act_by(result.record) != act_by(latest["record"]):
        _move_due(db, case, act_by(result.record))
    give_back(db, unsent)
    return result


def _derived(facts: Facts, case: LockedCase) -> tuple[Policy, Entitlement]:
    """The version that decides, and what is owed under it; of two that may, the one by which more is payable now."""
    allocation = Allocation.from_document(facts.order["allocation"])
    found = [
        (policy, derive(allocation, facts.evidence, facts.priors, terms, case.at))
        for policy, terms in facts.deciding.options
    ]
    return max(found, key=lambda one: one[1].payable_now_minor)


NO_POLICY: Final = "case.no_policy"


def _leave_to_a_person(
    db: Connection, case: LockedCase, live: list[RowMapping], actor: str, undecided: NoPolicy
) -> None:
    """What waited is called back, and the case says why nothing decides it; what has left stays as it is."""
    unsent = [intent for intent in live if intent["state"] in UNSENT and not intent["recorded_by_hand"]]
    withdraw(db, case, unsent, actor, "no_policy")
    stage = "needs_person" if len(unsent) == len(live) and case.closed_at is None else None
    append(db, case, NO_POLICY, actor, undecided.facts, reason=undecided.reason, stage=stage)
    give_back(db, unsent)


@dataclass(frozen=True)
class Asker:
    """Whose request a sum is looked at for: the case, None before there is one, and who asks; `opinion`: whether that person
    names the amount."""

    case_id: UUID | None
    actor: str
    opinion: bool


def route_of(
    db: Connection,
    merchant_id: UUID,
    order_id: UUID,
    today: Sequence[Policy],
    priors: Priors,
    result: Entitlement,
    by: Asker,
) -> str:
    """Who decides, by the sum: the order's own is in the entitlement, its customer's other refunds of 24 hours join it (S22), and
    what the same person asked for by opinion, unless a policy leaves that out (`staff_day`)."""
    level = result.record["route"]["level"]
    least = "desk" if level == "staff" else level
    if not today:
        return max(least, "manager", key=ROUTES.index)
    given = sum(claim.minor for claim in priors.claims) + sum(row.minor for row in priors.allowances)
    others = beside(db, merchant_id, order_id, by.case_id, by.actor if by.opinion else None)
    together = result.total_minor + max(given, others.order_minor) + others.customer_minor
    currency = result.record["currency"]
    found = [
        policy.route(currency, together + (others.asked_minor if "staff_day" in policy.terms.routes.sum_over else 0))
        for policy in today
    ]
    return max(least, *found, key=ROUTES.index)


def _requester(case: LockedCase, result: Entitlement, requester: str | None) -> str:
    """Whoever asked for another amount than the computed one asks for this refund, whoever brought new evidence (P7)."""
    if result.override is not None:
        return str(result.override["asked_by"])
    return requester or case.opened_by


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
        facts.line_ids[ref]: minor - held.get(facts.line_ids[ref], 0) for ref, minor in result.payable_by_line.items()
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


def _move_due(db: Connection, case: LockedCase, at: str | None) -> None:
    """The due time follows what is owed whenever that moves; until then one that a person set stays."""
    if at is not None:
        run(db, "UPDATE cases SET due_at = CAST(:at AS timestamptz) WHERE merchant_id = :m AND case_id = :c", at=at,
            m=case.merchant_id, c=case.case_id)  # fmt: skip


# A mark of a queue row, so that more are as many.
MOST_NAMED: Final = 99


def _summarise(db: Connection, case: LockedCase, facts: Facts, result: Entitlement) -> None:
    """Keeps what a queue row shows in step with the rows."""
    grades = ", ".join(sorted({row.grade for row in facts.evidence.inspected}))
    received = sum(row.count for row in facts.evidence.received)
    run(
        db, "UPDATE cases SET received = :received, grades = :grades, amount_minor = :amount,"
        " contradictions = :contradictions WHERE merchant_id = :m AND case_id = :c",
        contradictions=min(len(contradictions(result.record)), MOST_NAMED), received=received, grades=grades,
        m=case.merchant_id, c=case.case_id,
        amount=result.payable_now_minor or result.total_minor or None,
    )  # fmt: skip
