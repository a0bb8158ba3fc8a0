"""The other direction of a run: our own transfers in the period, each looked for in what the provider showed.

What it showed since the run began was compared when its page was read. What it did not show is asked about by its
reference: it may be of another period, or not be there at all.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import rows
from ledger.discrepancies import Found, add_finding, join, system_resolves
from ledger.ids import first_id
from ledger.provider_rows import keep_movements, keep_refunds
from ledger.reconciliation_compare import (
    LATE_AFTER,
    Kind,
    OurMove,
    OurRefund,
    Sum,
    theirs_figures,
)
from ledger.reconciliation_pages import (
    EDGE,
    Answer,
    Answers,
    Ask,
    AskFirst,
    compare_all,
    healed_sentence,
    move_figures,
    movement_figures,
    name_movement,
    name_refund,
    our_move,
)
from ledger.reconciliation_run import Place, Run, Tally, add_up, turn_page
from ledger.settlement import SETTLED

# A batch of transfers is what is held in memory.
BATCH: Final = 500
# Ids carry the time at which the application minted them; its clock and the database's are never a day apart.
_ID_SLACK: Final = timedelta(days=1)

# By id, which is by time: the primary key is the index. The batch is taken, and its references worked out, before anything is
# looked up: behind row-level security an index answers a plain column and no expression over others. `moved_there_at`: when
# the movement was that the provider showed.
_BATCH: Final = """
    WITH batch AS MATERIALIZED (
        SELECT t.transfer_id, t.capture_id, t.to_balance, t.amount_minor, t.currency, t.at, t.intent_id, t.source_ref
        FROM transfers t WHERE t.merchant_id = :m AND t.transfer_id > :after AND t.transfer_id < :until
            AND 'refunded' IN (t.from_balance, t.to_balance) AND t.at >= :from_at AND t.at < :to_at
        ORDER BY t.transfer_id LIMIT :most),
    named AS MATERIALIZED (
        SELECT t.*, i.number, i.state, i.amount_minor AS whole_minor, coalesce(i.provider_refund_ref, t.source_ref) AS refund_ref,
            i.payment_intent_ref AS of_intent, t.to_balance = 'refunded' AS goes_out
        FROM batch t LEFT JOIN intents i ON i.merchant_id = :m AND i.intent_id = t.intent_id)
    SELECT t.transfer_id, t.to_balance, t.amount_minor, t.currency, t.at, t.intent_id, t.number, t.state, t.whole_minor,
        t.refund_ref, coalesce(t.of_intent, c.payment_intent_ref) AS payment_intent_ref, v.created_at AS moved_there_at,
        p.shown IS NOT NULL AS shown, c.provider_account_id IS NOT DISTINCT FROM :a AS of_account
    FROM named t
    JOIN captures c ON c.merchant_id = :m AND c.capture_id = t.capture_id
    LEFT JOIN LATERAL (
        SELECT m.created_at FROM provider_movements m WHERE m.merchant_id = :m AND m.provider_account_id = :a
            AND m.source_ref = t.refund_ref AND m.seen_at >= :started AND (m.amount_minor > 0) = t.goes_out
        ORDER BY m.created_at LIMIT 1) v ON true
    LEFT JOIN LATERAL (
        SELECT true AS shown FROM provider_refunds p WHERE p.merchant_id = :m AND p.provider_account_id = :a
            AND p.refund_ref = t.refund_ref AND p.seen_at >= :started LIMIT 1) p ON true
    ORDER BY t.transfer_id
"""


def store_ours(db: Connection, of: Run, place: Place, *, answers: Answers) -> bool:
    """The next batch of our transfers; True when it was the last. Raises AskFirst, Overtaken."""
    after = UUID(place.cursor) if place.cursor else first_id(of.from_at - _ID_SLACK)
    batch = rows(
        db, _BATCH, m=of.merchant_id, a=of.provider_account_id, started=of.started_at, after=after,
        until=first_id(of.to_at + _ID_SLACK), from_at=of.from_at, to_at=of.to_at, most=BATCH,
    )  # fmt: skip
    done = len(batch) < BATCH
    turn_page(
        db, of, place, cursor=str(batch[-1]["transfer_id"] if batch else after), rows_read=len(batch), done=done,
        reached_at=batch[-1]["at"] if batch else of.to_at,
    )  # fmt: skip
    # What is paid back by hand, or on another account, is not this account's.
    batch = [row for row in batch if row["of_account"]]
    asks = {key_of(row): _ask(row) for row in batch if _unseen(row) and key_of(row) not in answers}
    if asks:
        raise AskFirst(list(asks.values()))
    keep_refunds(db, of.merchant_id, of.provider_account_id, [one.shown for one in answers.values() if one.shown])
    keep_movements(
        db, of.merchant_id, of.provider_account_id, [moved for one in answers.values() for moved in one.movements]
    )
    tally = Tally()
    for row in batch:
        _one(db, of, row, tally, answers.get(key_of(row)))
    add_up(db, of, tally)
    return done


def key_of(row: RowMapping) -> str:
    """Under what a refund of ours is asked about: its reference there, or, settled without one, our own id."""
    return str(row["refund_ref"] or f"intent:{row['intent_id']}")


def _ask(row: RowMapping) -> Ask:
    return Ask(key_of(row), row["intent_id"], row["payment_intent_ref"] or "", movements=True)


def _unseen(row: RowMapping) -> bool:
    return row["moved_there_at"] is None or not row["shown"]


def _one(db: Connection, of: Run, row: RowMapping, tally: Tally, answer: Answer | None) -> None:
    move = our_move(of, row)
    tally.add("movements", Sum(move.currency, move.amount_minor), Sum(move.currency, 0))
    if answer is not None and not answer.unread and not row["shown"]:
        _refund_not_listed(db, of, row, tally, answer)
    moved_at: datetime | None = row["moved_there_at"]
    if answer is not None and answer.unread:
        _not_read(db, of, row, move, answer)
    elif moved_at is None and answer is not None:
        _movement_not_listed(db, of, row, move, tally, answer)
    elif moved_at is not None and not of.covers(moved_at):
        _of_another_period(db, of, row, move, moved_at, {})


def _not_read(db: Connection, of: Run, row: RowMapping, move: OurMove, answer: Answer) -> None:
    """It was not listed, and cannot be read by its reference: that is said, and concludes nothing. The next run asks again."""
    named = _join(
        db, of, "unreadable", row, answer, {"refund": row["refund_ref"], "reason": answer.unread}, row["at"], move
    )
    counted = Sum(move.currency, move.amount_minor if row["moved_there_at"] is None else 0)
    add_finding(
        db, of.merchant_id, of.run_id, named, "movements", f"ours:{move.transfer_id}", counted, Sum(move.currency, 0)
    )


def _refund_not_listed(db: Connection, of: Run, row: RowMapping, tally: Tally, answer: Answer) -> None:
    """The refund was not in the list of the period: it is not there, or of another period, or came into the list late."""
    if row["to_balance"] != "refunded":
        return
    if answer.shown is None:
        counted = Sum(row["currency"], row["amount_minor"] if _stands(row, answer) else 0)
        nothing = Sum(row["currency"], 0)
        tally.add("refunds", counted, nothing)
        if counted:
            named = _join(db, of, "missing_there", row, answer, {}, row["at"])
            add_finding(db, of.merchant_id, of.run_id, named, "refunds", key_of(row), counted, nothing)
        return
    ((shown, ours, verdict),) = compare_all(db, of, [answer.shown])
    if of.covers(shown.created_at):
        tally.add("refunds", verdict.ours, verdict.theirs)
    else:
        # Its own period counts it; a difference is named here, for that period may never be compared again.
        verdict = replace(verdict, ours=Sum(verdict.ours.currency, 0), theirs=Sum(verdict.theirs.currency, 0))
    name_refund(db, of, shown, ours, verdict, answer)


def _stands(row: RowMapping, answer: Answer) -> bool:
    return (answer.after or row["state"] or "succeeded") == "succeeded"


def _movement_not_listed(db: Connection, of: Run, row: RowMapping, move: OurMove, tally: Tally, answer: Answer) -> None:
    """The balance showed no movement for this transfer in the period: it is of another one, or there is none."""
    found = [one for one in answer.movements if (one.amount_minor > 0) == (move.amount_minor > 0)]
    if found:
        movement = min(found, key=lambda one: one.created_at)
        if of.covers(movement.created_at):
            name_movement(db, of, movement, move, _ours(row), tally, {})
        else:
            _of_another_period(db, of, row, move, movement.created_at, movement_figures(movement))
        return
    kind: Kind = "missing_there" if answer.shown is None or answer.shown.refund.status == "succeeded" else "state"
    theirs = theirs_figures(answer.shown) if answer.shown else {}
    named = _join(db, of, kind, row, answer, theirs, row["at"])
    nothing = Sum(move.currency, 0)
    add_finding(
        db, of.merchant_id, of.run_id, named, "movements", f"ours:{move.transfer_id}",
        Sum(move.currency, move.amount_minor), nothing,
    )  # fmt: skip
    if answer.healed:
        system_resolves(db, of.merchant_id, named, "healed", healed_sentence(answer))
    elif row["intent_id"] is None and answer.shown is not None and SETTLED.get(answer.shown.refund.status) == "pending":
        system_resolves(db, of.merchant_id, named, "timing", _PENDING_OUTSIDE)


# What leaves outside takes its room at once, so that it is not paid twice; the provider's balance follows when it is settled.
_PENDING_OUTSIDE: Final = "The provider has accepted it and not moved it yet."


def _of_another_period(
    db: Connection, of: Run, row: RowMapping, move: OurMove, moved_at: datetime, theirs: dict[str, Any]
) -> None:
    figures = theirs or {"refund": row["refund_ref"], "created": moved_at.isoformat()}
    named = _join(db, of, "late", row, None, figures, row["at"], move)
    add_finding(
        db, of.merchant_id, of.run_id, named, "movements", f"ours:{move.transfer_id}",
        Sum(move.currency, move.amount_minor), Sum(move.currency, 0),
    )  # fmt: skip
    if abs(move.at - moved_at) <= LATE_AFTER:
        system_resolves(db, of.merchant_id, named, "timing", EDGE)


def _ours(row: RowMapping) -> OurRefund:
    whole = row["whole_minor"] if row["intent_id"] else row["amount_minor"]
    return OurRefund(
        row["intent_id"], row["number"], row["refund_ref"], whole, row["currency"], row["state"] or "succeeded"
    )


def _join(
    db: Connection, of: Run, kind: Kind, row: RowMapping, answer: Answer | None, theirs: dict[str, Any], at: datetime,
    move: OurMove | None = None,
) -> UUID:  # fmt: skip
    figures = _ours(row).figures() | move_figures(move or our_move(of, row))
    if answer is not None and answer.healed:
        figures |= {"state": answer.before}
    found = Found(kind, key_of(row), row["intent_id"], figures, theirs, at)
    return join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
