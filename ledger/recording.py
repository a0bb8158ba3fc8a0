"""Writing down what came of calls: several of one merchant in one transaction, each as if it were alone.

Locks the cases by id, then their intents, then what settling or failing locks: lines, captures, cap days.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never, cast
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import Later, run_later, together
from ledger.events import LOCKED_CASE, LockedCase, append_all, locked_case, next_event
from ledger.fingerprint import lock_intents_later
from ledger.reservation import settle_all
from ledger.settlement import (
    AROUND,
    Confirmed,
    NotAccepted,
    Outcome,
    ProviderRefund,
    Refused,
    Unknown,
    follow,
    is_plain,
    stage_when_paid,
)


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
        results = _results_later(db, merchant_id, answers)
        around = run_later(db, AROUND, m=merchant_id, ids=ids)
    case_of = {row["case_id"]: locked_case(row) for row in cases.rows()}
    around_of = {row["intent_id"]: row for row in around.rows()}
    intent_of = {
        row["intent_id"]: cast("RowMapping", {**row, "around": around_of.get(row["intent_id"])})
        for row in intents.rows()
    }
    added = {(row["intent_id"], row["attempt_no"]) for row in results.rows()}
    recorded = []
    for answer in answers:
        recorded.append((answer.intent_id, answer.attempt_no) in added)
        # One that is given twice was written down once.
        added.discard((answer.intent_id, answer.attempt_no))
    fresh = [answer for answer, stands in zip(answers, recorded, strict=True) if stands]
    with together(db):
        _follow_all(db, merchant_id, [
            (case_of[intent["case_id"]], intent, answer)
            for answer in fresh for intent in [intent_of[answer.intent_id]]
        ])  # fmt: skip
    return recorded


def _follow_all(db: Connection, merchant_id: UUID, fresh: Sequence[tuple[LockedCase, RowMapping, Answer]]) -> None:
    """Those paid as asked together, each other one on its own; what is around an intent is read again for the answers of a case
    that has several."""
    of_case = Counter(case.case_id for case, _, _ in fresh)
    paid = []
    for case, intent, answer in fresh:
        if of_case[case.case_id] > 1:
            follow(db, case, cast("RowMapping", {**intent, "around": None}), answer.attempt_no, answer.outcome)
        elif isinstance(answer.outcome, Confirmed) and is_plain(intent, answer.outcome.refund):
            paid.append((case, intent, answer.outcome.refund))
        else:
            follow(db, case, intent, answer.attempt_no, answer.outcome)
    _paid_together(db, merchant_id, paid)


def _paid_together(
    db: Connection, merchant_id: UUID, paid: Sequence[tuple[LockedCase, RowMapping, ProviderRefund]]
) -> None:
    """`settlement.succeed` for refunds that were paid as asked, each of a case of its own: five statements for all of them."""
    if not paid:
        return
    events, closed = [], []
    for case, intent, refund in paid:
        stage = stage_when_paid(intent, intent["around"])
        event = next_event(
            case, "intent.succeeded", "system", {"refund": refund.refund_ref}, intent_id=intent["intent_id"],
            move=(intent["state"], "succeeded"), stage=stage,
        )  # fmt: skip
        case.followed_by(event)
        events.append(event)
        if stage == "paid":
            closed.append(case.case_id)
    intents = [intent for _, intent, _ in paid]
    ids = [intent["intent_id"] for intent in intents]
    run_later(db, _REFERENCES, m=merchant_id, ids=ids, refs=[refund.refund_ref for _, _, refund in paid],
              banks=[refund.reference for _, _, refund in paid])  # fmt: skip
    append_all(db, merchant_id, events)
    settle_all(db, merchant_id, intents)
    run_later(
        db, "UPDATE outbox SET done_at = now() WHERE merchant_id = :m AND intent_id = ANY(:ids)", m=merchant_id, ids=ids
    )
    if closed:
        run_later(db, "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = ANY(:ids)",
                  m=merchant_id, ids=closed)  # fmt: skip


_REFERENCES: Final = """
    UPDATE intents i SET provider_refund_ref = r.ref, provider_reference = r.bank
    FROM unnest(CAST(:ids AS uuid[]), CAST(:refs AS text[]), CAST(:banks AS text[])) AS r(id, ref, bank)
    WHERE i.merchant_id = :m AND i.intent_id = r.id
"""

_LOCK_CASES: Final = """
    SELECT {columns} FROM cases c WHERE c.merchant_id = :m
        AND c.case_id IN (SELECT case_id FROM intents WHERE merchant_id = :m AND intent_id = ANY(:ids))
    ORDER BY c.case_id FOR NO KEY UPDATE
""".replace("{columns}", LOCKED_CASE)

# Only of the attempt that is under way: after another one, or once it was taken over, it adds no row.
_RESULTS: Final = """
    INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, http_status, provider_request_ref, refund_ref,
        refund_status, code, detail, recorded_by)
    SELECT o.merchant_id, o.intent_id, o.attempts, a.outcome, a.status, a.request, a.refund_ref, a.refund_status, a.code,
        a.detail, a.worker
    FROM unnest(CAST(:intent AS uuid[]), CAST(:n AS integer[]), CAST(:worker AS bigint[]), CAST(:outcome AS text[]),
        CAST(:status AS integer[]), CAST(:request AS text[]), CAST(:refund_ref AS text[]), CAST(:refund_status AS text[]),
        CAST(:code AS text[]), CAST(:detail AS text[]))
        AS a(intent, n, worker, outcome, status, request, refund_ref, refund_status, code, detail)
    JOIN outbox o ON o.merchant_id = :m AND o.intent_id = a.intent AND o.attempts = a.n
    JOIN intents i ON i.merchant_id = :m AND i.intent_id = a.intent AND i.state = 'submitting'
    ON CONFLICT DO NOTHING RETURNING intent_id, attempt_no
"""


def _results_later(db: Connection, merchant_id: UUID, answers: Sequence[Answer]) -> Later:
    columns = [
        {"intent": answer.intent_id, "n": answer.attempt_no, "worker": answer.worker_id, "status": answer.outcome.http_status,
         "request": answer.outcome.request_ref[:80], **_columns(answer.outcome)}
        for answer in answers
    ]  # fmt: skip
    return run_later(db, _RESULTS, m=merchant_id, **{name: [row[name] for row in columns] for name in columns[0]})


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
