"""What one page of a run leads to: the provider's rows kept, both sides' sums, and a discrepancy for each difference.

Three pages: refunds the provider lists, movements of its balance, and our own transfers. Each function writes its whole page
in the caller's transaction, or raises `AskFirst` with what the provider has to be asked before it can; then the caller rolls
back, asks outside any transaction, and calls again with the answers. Each locks the row of its side, and what `join` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import rows
from ledger.discrepancies import Found, add_finding, join, system_resolves
from ledger.disputes import ProviderDispute
from ledger.provider_pages import Page
from ledger.provider_rows import keep_movements, keep_refunds
from ledger.reconciliation_compare import (
    LATE_AFTER,
    About,
    Kind,
    Movement,
    OurMove,
    OurRefund,
    Part,
    ShownRefund,
    Sum,
    Verdict,
    compare_movement,
    compare_refund,
    theirs_figures,
)
from ledger.reconciliation_run import Place, Run, Tally, add_up, turn_page


@dataclass(frozen=True)
class Ask:
    """One refund, or dispute, to read again at the provider, and what may follow on the normal way: `intent_id`, ours, is
    brought to it; what is not in the books is written down as made outside (`kind`: what it was named before).
    """

    refund_ref: str
    intent_id: UUID | None
    payment_intent_ref: str = ""
    movements: bool = False
    kind: Kind = "state"
    about: About = "refund"


@dataclass(frozen=True)
class Answer:
    """The refund as it is there now, None when the provider has none; `movements` if they were asked for.

    `before` and `after`: the states of ours around the reading, equal when it moved nothing. `unread`: why this one cannot be
    read although the account can; then nothing is known of it.
    """

    shown: ShownRefund | None
    movements: Sequence[Movement] = ()
    before: str = ""
    after: str = ""
    kind: Kind = "state"
    dispute: ProviderDispute | None = None
    unread: str = ""

    @property
    def healed(self) -> bool:
        return self.before != self.after


class AskFirst(Exception):
    """The page needs answers of the provider first; nothing of it was written."""

    def __init__(self, asks: list[Ask]) -> None:
        super().__init__(f"{len(asks)} refunds to ask about")
        self.asks = asks


Answers = Mapping[str, Answer]


def turn_listed(db: Connection, of: Run, place: Place, page: Page[Any]) -> None:
    """Moves a side on by a page of the provider's. Raises Overtaken."""
    reached = page.rows[-1].created_at if page.rows else of.from_at if page.last else None
    cursor = place.cursor if page.next_after is None else page.next_after
    turn_page(db, of, place, cursor=cursor, reached_at=reached, rows_read=page.length, done=page.last)


# Of what cannot be read no currency is known; ISO 4217 has a code for none.
NO_CURRENCY: Final = "XXX"


def name_unread(db: Connection, of: Run, page: Page[Any], part: Part, about: About) -> None:
    """What could not be read on a page is named, with why, and adds nothing to any sum: the next run tries it again."""
    near = page.rows[0].created_at if page.rows else of.to_at - timedelta(seconds=1)
    nothing = Sum(NO_CURRENCY, 0)
    for one in page.unread:
        at = one.created_at if one.created_at is not None and of.covers(one.created_at) else near
        found = Found("unreadable", one.ref, None, {}, {"refund": one.ref, "reason": one.reason}, at, about)
        named = join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
        add_finding(db, of.merchant_id, of.run_id, named, part, one.ref, nothing, nothing)


def store_refunds(db: Connection, of: Run, place: Place, page: Page[ShownRefund], *, answers: Answers) -> None:
    """A page of the provider's refunds, newest first. Raises AskFirst, Overtaken."""
    turn_listed(db, of, place, page)
    now = [
        answers[one.refund.refund_ref].shown or one if one.refund.refund_ref in answers else one for one in page.rows
    ]
    compared = compare_all(db, of, [one for one in now if one.merchant_ref in ("", str(of.merchant_id))])
    asks = [
        Ask(shown.refund.refund_ref, ours.intent_id if verdict.heals and ours else None, kind=verdict.kind or "state")
        for shown, ours, verdict in compared
        if (verdict.heals or verdict.unrecorded) and shown.refund.refund_ref not in answers
    ]
    if asks:
        raise AskFirst(asks)
    keep_refunds(db, of.merchant_id, of.provider_account_id, now)
    tally = Tally()
    for shown, ours, verdict in compared:
        tally.add("refunds", verdict.ours, verdict.theirs)
        name_refund(db, of, shown, ours, verdict, answers.get(shown.refund.refund_ref))
    name_unread(db, of, page, "refunds", "refund")
    add_up(db, of, tally)


Compared = tuple[ShownRefund, OurRefund | None, Verdict]


def compare_all(db: Connection, of: Run, page: Sequence[ShownRefund]) -> list[Compared]:
    by_ref, by_id = our_refunds(db, of, [(one.refund.refund_ref, one.refund.intent_id) for one in page])
    found: list[Compared] = []
    for shown in page:
        named = by_id.get(shown.refund.intent_id)
        ours = by_ref.get(shown.refund.refund_ref)
        found.append((shown, ours or named, compare_refund(shown, ours, named)))
    return found


def name_refund(
    db: Connection, of: Run, shown: ShownRefund, ours: OurRefund | None, verdict: Verdict, answer: Answer | None
) -> None:
    """The discrepancy of a pair that differs, or that did until it was read again on the normal way."""
    healed = answer is not None and answer.healed
    if verdict.kind is None and not healed:
        return
    figures = ours.figures() if ours else {}
    if answer is not None and healed:
        figures = figures | {"state": answer.before} if answer.before else {}
    kind = answer.kind if answer is not None and healed else verdict.kind or "state"
    found = Found(
        kind, shown.refund.refund_ref, ours.intent_id if ours else None, figures, theirs_figures(shown),
        shown.created_at,
    )  # fmt: skip
    named = join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
    add_finding(db, of.merchant_id, of.run_id, named, "refunds", shown.refund.refund_ref, verdict.ours, verdict.theirs)
    if answer is not None and healed and verdict.kind is None:
        system_resolves(db, of.merchant_id, named, "healed", healed_sentence(answer))


def healed_sentence(answer: Answer) -> str:
    if not answer.before:
        return "It was not in the books. It is written down now as a refund made outside, and its desk has it."
    return f"Read again at the provider on the usual way: the refund went from {answer.before} to {answer.after}."


_OURS: Final = """
    SELECT i.intent_id, i.number, i.provider_refund_ref AS refund_ref, i.amount_minor, i.currency, i.state
    FROM intents i WHERE i.merchant_id = :m AND i.provider_refund_ref = ANY(:refs)
    UNION
    SELECT i.intent_id, i.number, i.provider_refund_ref, i.amount_minor, i.currency, i.state
    FROM intents i WHERE i.merchant_id = :m AND i.intent_id = ANY(CAST(:ids AS uuid[]))
    UNION ALL
    SELECT NULL, NULL, x.refund_ref, x.amount_minor, x.currency, CASE WHEN x.status IN ('failed', 'canceled') THEN 'failed'
        WHEN x.status <> 'succeeded' THEN 'pending' WHEN x.placed_minor < x.amount_minor THEN 'unplaced' ELSE 'succeeded' END
    FROM external_refunds x WHERE x.merchant_id = :m AND x.refund_ref = ANY(:refs)
"""


def our_refunds(
    db: Connection, of: Run, wanted: Sequence[tuple[str, str]]
) -> tuple[dict[str, OurRefund], dict[str, OurRefund]]:
    """Ours by the provider's reference and by the intent its metadata names, for (reference, named intent) of a page."""
    found = rows(
        db,
        _OURS,
        m=of.merchant_id,
        refs=[ref for ref, _ in wanted],
        ids=[named for _, named in wanted if _is_uuid(named)],
    )
    ours = [OurRefund(**row) for row in found]
    by_ref = {one.refund_ref: one for one in ours if one.refund_ref is not None}
    return by_ref, {str(one.intent_id): one for one in ours if one.intent_id is not None}


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def store_movements(db: Connection, of: Run, place: Place, page: Page[Movement], *, answers: Answers) -> None:
    """A page of the provider's balance movements of one type, newest first. Raises AskFirst, Overtaken."""
    turn_listed(db, of, place, page)
    # A payment that its bank returned moves the balance too, and is no refund.
    moved = [one for one in page.rows if one.source_ref.startswith(("re_", "pyr_"))]
    keep_movements(db, of.merchant_id, of.provider_account_id, moved)
    keep_refunds(db, of.merchant_id, of.provider_account_id, [one.shown for one in answers.values() if one.shown])
    refs = [one.source_ref for one in moved]
    known = known_refunds(db, of, refs)
    moves = our_moves(db, of, refs)
    asks = {
        one.source_ref: Ask(one.source_ref, known[one.source_ref].intent_id)
        for one in moved
        if (one.source_ref, one.amount_minor > 0) not in moves and one.source_ref not in answers and _heals(known, one)
    }
    if asks:
        raise AskFirst(list(asks.values()))
    tally = Tally()
    for movement in moved:
        move = moves.get((movement.source_ref, movement.amount_minor > 0))
        name_movement(db, of, movement, move, known.get(movement.source_ref), tally, answers)
    name_unread(db, of, page, "movements", "refund")
    add_up(db, of, tally)


def _heals(known: Mapping[str, OurRefund], movement: Movement) -> bool:
    """Whether reading the refund again may bring our side to the movement."""
    ours = known.get(movement.source_ref)
    if ours is None or ours.intent_id is None:
        return False
    return ours.state in (("unknown", "pending") if movement.amount_minor > 0 else ("succeeded",))


def name_movement(
    db: Connection,
    of: Run,
    movement: Movement,
    move: OurMove | None,
    ours: OurRefund | None,
    tally: Tally,
    answers: Answers,
) -> None:
    """Counts a movement in the period, and names what differs from the transfer of ours that belongs to it."""
    if move is not None:
        verdict = compare_movement(movement, move)
    else:
        theirs = Sum(movement.currency, movement.amount_minor)
        verdict = Verdict(Sum(movement.currency, 0), theirs, _unmatched(ours, movement.source_ref))
    # Our transfers are counted when our own side is read, each once.
    tally.add("movements", Sum(movement.currency, 0), verdict.theirs)
    if verdict.kind is None:
        return
    answer = answers.get(movement.source_ref)
    figures = (ours.figures() if ours else {}) | move_figures(move)
    kind = verdict.kind
    if answer is not None and answer.healed:
        figures, kind = figures | {"state": answer.before}, "state"
    theirs_as = movement_figures(movement)
    found = Found(kind, movement.source_ref, ours.intent_id if ours else None, figures, theirs_as, movement.created_at)
    named = join(db, of.merchant_id, of.provider_account_id, of.run_id, found)
    add_finding(db, of.merchant_id, of.run_id, named, "movements", movement.movement_ref, verdict.ours, verdict.theirs)
    if answer is not None and answer.healed and move is not None:
        system_resolves(db, of.merchant_id, named, "healed", healed_sentence(answer))
    elif verdict.kind == "late" and move is not None and abs(move.at - movement.created_at) <= LATE_AFTER:
        system_resolves(db, of.merchant_id, named, "timing", EDGE)


def _unmatched(ours: OurRefund | None, refund_ref: str) -> Kind:
    if ours is None:
        return "missing_here"
    return "state" if ours.refund_ref in (None, refund_ref) else "duplicate"


EDGE: Final = "The two sides lie on either side of the period's edge, less than a day apart."


def move_figures(move: OurMove | None) -> dict[str, Any]:
    return {"moved_minor": str(move.amount_minor), "moved_at": move.at.isoformat()} if move else {}


def movement_figures(movement: Movement) -> dict[str, Any]:
    return {
        "refund": movement.source_ref, "movement": movement.movement_ref, "type": movement.kind,
        "amount_minor": str(movement.amount_minor), "currency": movement.currency, "created": movement.created_at.isoformat(),
    }  # fmt: skip


_MOVES: Final = """
    SELECT i.provider_refund_ref AS ref, t.transfer_id, t.to_balance, t.amount_minor, t.currency, t.at
    FROM intents i JOIN transfers t ON t.merchant_id = i.merchant_id AND t.intent_id = i.intent_id
    WHERE i.merchant_id = :m AND 'refunded' IN (t.from_balance, t.to_balance) AND i.provider_refund_ref = ANY(:refs)
    UNION ALL
    SELECT t.source_ref, t.transfer_id, t.to_balance, t.amount_minor, t.currency, t.at FROM transfers t
    WHERE t.merchant_id = :m AND t.source_ref = ANY(:refs) AND 'refunded' IN (t.from_balance, t.to_balance)
    ORDER BY 1, 6
"""


def known_refunds(db: Connection, of: Run, refs: Sequence[str]) -> dict[str, OurRefund]:
    by_ref, _ = our_refunds(db, of, [(ref, "") for ref in refs])
    others = [ref for ref in refs if ref not in by_ref]
    for row in rows(db, _NAMED, m=of.merchant_id, a=of.provider_account_id, refs=others) if others else ():
        by_ref[row["ref"]] = OurRefund(**{name: row[name] for name in row if name != "ref"})
    return by_ref


# The id is worked out before it is looked up, as an index of a table behind row-level security needs.
_NAMED: Final = """
    WITH named AS MATERIALIZED (
        SELECT p.refund_ref AS ref, CASE WHEN p.intent_ref ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN CAST(p.intent_ref AS uuid) END AS intent_id
        FROM provider_refunds p WHERE p.merchant_id = :m AND p.provider_account_id = :a AND p.refund_ref = ANY(:refs))
    SELECT n.ref, i.intent_id, i.number, i.provider_refund_ref AS refund_ref, i.amount_minor, i.currency, i.state
    FROM named n JOIN intents i ON i.merchant_id = :m AND i.intent_id = n.intent_id
"""


def our_moves(db: Connection, of: Run, refs: Sequence[str]) -> dict[tuple[str, bool], OurMove]:
    """Our transfers for refunds of the provider, by reference and whether money went out (else it came back)."""
    moves: dict[tuple[str, bool], OurMove] = {}
    for row in rows(db, _MOVES, m=of.merchant_id, refs=list(refs)):
        key, part = (row["ref"], row["to_balance"] == "refunded"), our_move(of, row)
        moves[key] = moves[key].and_part(part) if key in moves else part
    return moves


def our_move(of: Run, row: RowMapping) -> OurMove:
    """A transfer as the balance would show it: what comes back is negative."""
    minor = row["amount_minor"] if row["to_balance"] == "refunded" else -row["amount_minor"]
    return OurMove(row["transfer_id"], minor, row["currency"], row["at"], minor if of.covers(row["at"]) else 0)
