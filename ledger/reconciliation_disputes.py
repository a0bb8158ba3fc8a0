"""Disputes in a run: the provider's list of the period against ours, and ours that it did not show, asked about by id.

A dispute that the books lack, or have in an older state, is handed to whoever records disputes (`ledger.disputes`), which is
the normal way; nothing is written here to make both sides agree.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, RowMapping

from ledger.database import rows
from ledger.discrepancies import Found, add_finding, join, system_resolves
from ledger.disputes import ProviderDispute, takes
from ledger.provider_pages import Page
from ledger.provider_rows import keep_disputes
from ledger.reconciliation_compare import Kind, Sum, Verdict
from ledger.reconciliation_pages import Answer, Answers, Ask, AskFirst, name_unread, turn_listed
from ledger.reconciliation_run import Place, Run, Tally, add_up, turn_page

# A batch of ours is what is held in memory.
BATCH: Final = 500


def compare_dispute(shown: ProviderDispute, ours: RowMapping | None) -> Verdict:
    """A dispute the provider shows, with ours of the same id. Each side counts what it takes in its own state."""
    theirs = Sum(shown.currency, shown.amount_minor if takes(shown.status) else 0)
    if ours is None:
        return Verdict(Sum(shown.currency, 0), theirs, "missing_here", unrecorded=True)
    counted = Sum(ours["currency"], ours["amount_minor"] if takes(ours["status"]) else 0)
    if ours["currency"] != shown.currency:
        return Verdict(counted, theirs, "currency")
    if ours["amount_minor"] != shown.amount_minor:
        return Verdict(counted, theirs, "amount")
    if ours["status"] != shown.status:
        return Verdict(counted, theirs, "state", heals=True)
    return Verdict(counted, theirs)


def store_disputes(db: Connection, of: Run, place: Place, page: Page[ProviderDispute], *, answers: Answers) -> None:
    """A page of the provider's disputes, newest first. Raises AskFirst, Overtaken."""
    turn_listed(db, of, place, page)
    now = [_newest(one, answers) for one in page.rows]
    ours = _ours(db, of, [one.dispute_ref for one in now])
    compared = [(one, ours.get(one.dispute_ref)) for one in now]
    judged = [(one, here, compare_dispute(one, here)) for one, here in compared]
    asks = [
        Ask(one.dispute_ref, None, kind=verdict.kind or "state", about="dispute")
        for one, _, verdict in judged
        if (verdict.heals or verdict.unrecorded) and one.dispute_ref not in answers
    ]
    if asks:
        raise AskFirst(asks)
    keep_disputes(db, of.merchant_id, of.provider_account_id, now)
    tally = Tally()
    for one, here, verdict in judged:
        tally.add("disputes", verdict.ours, verdict.theirs)
        _name(db, of, one, here, verdict, answers.get(one.dispute_ref))
    name_unread(db, of, page, "disputes", "dispute")
    add_up(db, of, tally)


_COLUMNS: Final = "d.dispute_ref, d.status, d.amount_minor, d.currency, d.charge_ref, d.created_at"
_OURS: Final = f"SELECT {_COLUMNS} FROM disputes d WHERE d.merchant_id = :m AND d.dispute_ref = ANY(:refs)"  # noqa: S608
# The cursor is (moment, reference): ids of the provider have no order in time.
_BATCH: Final = f"""
    SELECT {_COLUMNS}, EXISTS (SELECT 1 FROM provider_disputes p WHERE p.merchant_id = :m AND p.provider_account_id = :a
        AND p.dispute_ref = d.dispute_ref AND p.seen_at >= :started) AS shown
    FROM disputes d WHERE d.merchant_id = :m AND d.provider_account_id = :a AND d.created_at >= :from_at AND d.created_at < :to_at
        AND (d.created_at, d.dispute_ref) > (CAST(:at AS timestamptz), CAST(:ref AS text))
    ORDER BY d.created_at, d.dispute_ref LIMIT :most
"""  # noqa: S608


def store_our_disputes(db: Connection, of: Run, place: Place, *, answers: Answers) -> None:
    """The next batch of our disputes of the period that the provider's list did not show. Raises AskFirst, Overtaken."""
    at, ref = _position(of, place.cursor)
    batch = rows(
        db, _BATCH, m=of.merchant_id, a=of.provider_account_id, started=of.started_at, from_at=of.from_at, to_at=of.to_at,
        at=at, ref=ref, most=BATCH,
    )  # fmt: skip
    done = len(batch) < BATCH
    turn_page(
        db, of, place, cursor=_cursor(batch[-1]) if batch else place.cursor, rows_read=len(batch), done=done,
        reached_at=batch[-1]["created_at"] if batch else of.to_at,
    )  # fmt: skip
    unseen = [row for row in batch if not row["shown"]]
    asks = [Ask(row["dispute_ref"], None, about="dispute") for row in unseen if row["dispute_ref"] not in answers]
    if asks:
        raise AskFirst(asks)
    tally = Tally()
    for row in unseen:
        _not_listed(db, of, row, tally, answers[row["dispute_ref"]])
    add_up(db, of, tally)


_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def _position(of: Run, cursor: str) -> tuple[datetime, str]:
    moment, _, ref = cursor.partition("|")
    return (_EPOCH + timedelta(microseconds=int(moment)), ref) if ref else (of.from_at, "")


def _cursor(row: RowMapping) -> str:
    at: datetime = row["created_at"]
    return f"{int(at.timestamp()) * 1_000_000 + at.microsecond}|{row['dispute_ref']}"


def _not_listed(db: Connection, of: Run, row: RowMapping, tally: Tally, answer: Answer) -> None:
    """It was not in the list of its days: it is not there, cannot be read, or came into the list late."""
    if answer.dispute is not None:
        keep_disputes(db, of.merchant_id, of.provider_account_id, [answer.dispute])
        here = _ours(db, of, [row["dispute_ref"]]).get(row["dispute_ref"])
        verdict = compare_dispute(answer.dispute, here)
        tally.add("disputes", verdict.ours, verdict.theirs)
        _name(db, of, answer.dispute, here, verdict, answer)
        return
    counted = Sum(row["currency"], row["amount_minor"] if takes(row["status"]) else 0)
    nothing = Sum(row["currency"], 0)
    kind: Kind = "unreadable" if answer.unread else "missing_there"
    theirs = {"refund": row["dispute_ref"], "reason": answer.unread} if answer.unread else {}
    found = Found(kind, row["dispute_ref"], None, our_figures(row), theirs, row["created_at"], "dispute")
    named = join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
    tally.add("disputes", counted, nothing)
    add_finding(db, of.merchant_id, of.run_id, named, "disputes", row["dispute_ref"], counted, nothing)


def _newest(one: ProviderDispute, answers: Answers) -> ProviderDispute:
    answer = answers.get(one.dispute_ref)
    return answer.dispute or one if answer is not None else one


def _ours(db: Connection, of: Run, refs: Sequence[str]) -> dict[str, RowMapping]:
    return {row["dispute_ref"]: row for row in rows(db, _OURS, m=of.merchant_id, refs=list(refs))}


def our_figures(row: RowMapping) -> dict[str, Any]:
    """The evidence of our side, as JSON."""
    return {
        "refund": row["dispute_ref"], "amount_minor": str(row["amount_minor"]), "currency": row["currency"],
        "state": row["status"], "charge": row["charge_ref"],
    }  # fmt: skip


def _their_figures(shown: ProviderDispute) -> dict[str, Any]:
    return {
        "refund": shown.dispute_ref, "amount_minor": str(shown.amount_minor), "currency": shown.currency,
        "status": shown.status, "created": shown.created_at.isoformat(), "charge": shown.charge_ref,
    }  # fmt: skip


def _name(
    db: Connection, of: Run, shown: ProviderDispute, ours: RowMapping | None, verdict: Verdict, answer: Answer | None
) -> None:
    """The discrepancy of a pair that differs, or that did until the dispute was recorded on the normal way."""
    healed = answer is not None and answer.healed
    if verdict.kind is None and not healed:
        return
    figures = our_figures(ours) if ours else {}
    kind: Kind = verdict.kind or "state"
    if answer is not None and healed:
        figures = figures | {"state": answer.before} if answer.before else {}
        kind = answer.kind
    found = Found(kind, shown.dispute_ref, None, figures, _their_figures(shown), shown.created_at, "dispute")
    named = join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
    add_finding(db, of.merchant_id, of.run_id, named, "disputes", shown.dispute_ref, verdict.ours, verdict.theirs)
    if answer is not None and healed and verdict.kind is None:
        system_resolves(db, of.merchant_id, named, "healed", _sentence(answer))


def _sentence(answer: Answer) -> str:
    if not answer.before:
        return "It was not in the books. It is written down now, and what waits on its charge is held."
    return f"Read again at the provider on the usual way: the dispute went from {answer.before} to {answer.after}."
