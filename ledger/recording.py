"""Writing down what came of calls: several of one merchant in one transaction, each as if it were alone.

Locks the cases by id, then their intents, then what settling or failing locks: lines, captures, cap days.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never, cast
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import run_later, together
from ledger.events import LOCKED_CASE, locked_case
from ledger.fingerprint import lock_intents_later
from ledger.settlement import AROUND, Confirmed, NotAccepted, Outcome, Refused, Unknown, follow


@dataclass(frozen=True)
class Answer:
    """What came of one attempt, and by which worker."""

    intent_id: UUID
    attempt_no: int
    worker_id: int
    outcome: Outcome


def record_outcome(
    db: Connection, merchant_id: UUID, intent_id: UUID, attempt_no: int, worker_id: int, outcome: Outcome
) -> bool:
    """`record_outcomes` of one."""
    return record_outcomes(db, merchant_id, [Answer(intent_id, attempt_no, worker_id, outcome)])[0]


def record_outcomes(db: Connection, merchant_id: UUID, answers: Sequence[Answer]) -> list[bool]:
    """Writes the result of each attempt and what follows from it, in the caller's transaction.

    False for an attempt that was taken over meanwhile: the answer is not lost, the look-up that follows finds it.
    """
    ids = list({answer.intent_id for answer in answers})
    # In one round trip, each statement after the one before: what follows a lock sees what was committed before it.
    with together(db):
        cases = run_later(db, _LOCK_CASES, m=merchant_id, ids=ids)
        intents = lock_intents_later(db, merchant_id, ids)
        results = [_result_later(db, merchant_id, answer) for answer in answers]
        around = run_later(db, AROUND, m=merchant_id, ids=ids)
    case_of = {row["case_id"]: locked_case(row) for row in cases.rows()}
    intent_of = {row["intent_id"]: row for row in intents.rows()}
    around_of: dict[UUID, RowMapping | None] = {row["intent_id"]: row for row in around.rows()}
    recorded = [result.count == 1 for result in results]
    seen: set[UUID] = set()
    with together(db):
        for answer, added in zip(answers, recorded, strict=True):
            if not added:
                continue
            intent = intent_of[answer.intent_id]
            # What is around an intent is read again when another of its case was settled just before.
            known = None if intent["case_id"] in seen else around_of.get(answer.intent_id)
            seen.add(intent["case_id"])
            follow(
                db, case_of[intent["case_id"]], cast("RowMapping", {**intent, "around": known}), answer.attempt_no,
                answer.outcome,
            )  # fmt: skip
    return recorded


_LOCK_CASES: Final = """
    SELECT {columns} FROM cases c WHERE c.merchant_id = :m
        AND c.case_id IN (SELECT case_id FROM intents WHERE merchant_id = :m AND intent_id = ANY(:ids))
    ORDER BY c.case_id FOR NO KEY UPDATE
""".replace("{columns}", LOCKED_CASE)

# Only of the attempt that is under way: after another one, or once it was taken over, it adds no row.
_RESULT: Final = """
    INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, http_status, provider_request_ref, refund_ref,
        refund_status, code, detail, recorded_by)
    SELECT o.merchant_id, o.intent_id, o.attempts, :outcome, :status, :request, :refund_ref, :refund_status, :code, :detail, :w
    FROM outbox o JOIN intents i ON i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id AND i.state = 'submitting'
    WHERE o.merchant_id = :m AND o.intent_id = :i AND o.attempts = :n
    ON CONFLICT DO NOTHING
"""


def _result_later(db: Connection, merchant_id: UUID, answer: Answer) -> Any:
    outcome = answer.outcome
    return run_later(
        db, _RESULT, m=merchant_id, i=answer.intent_id, n=answer.attempt_no, w=answer.worker_id,
        status=outcome.http_status, request=outcome.request_ref[:80], **_columns(outcome),
    )  # fmt: skip


def _columns(outcome: Outcome) -> dict[str, str | None]:
    match outcome:
        case Confirmed():
            refund = outcome.refund
            return {"outcome": "confirmed", "refund_ref": refund.refund_ref, "refund_status": refund.status, "code": "",
                    "detail": refund.pending_reason}  # fmt: skip
        case Refused() | NotAccepted():
            name = "refused" if isinstance(outcome, Refused) else "not_accepted"
            return {"outcome": name, "refund_ref": None, "refund_status": None, "code": outcome.code[:80],
                    "detail": outcome.detail[:300]}  # fmt: skip
        case Unknown():
            return {"outcome": "unknown", "refund_ref": outcome.refund_ref, "refund_status": outcome.refund_status,
                    "code": outcome.code[:80], "detail": outcome.detail[:300]}  # fmt: skip
        case _:
            assert_never(outcome)
