"""Goods at the bench that belong to no return we know of: put aside when reported, answered for once by a person.

What arrived is a fact, so a report that names no case, or none that is open, is kept all the same. A person then puts it on a
case, opens one for it, or says that nothing comes of it. Locks: the receipt's row first, then order, case and the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, RowMapping

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, run, scalar
from ledger.errors import BadInput, NotFound, WrongState
from ledger.evidence import Arrival, Graded, ReceivedLine, report_arrival
from ledger.ids import uuid7

CLOSING: Final = ("sent_back", "not_ours", "empty")
LONGEST_NOTE: Final = 2000


@dataclass(frozen=True)
class Unmatched:
    """A report nobody could place. `why`: as the table lists it; `case_ref` and `order_ref` as the warehouse read them."""

    arrival: Arrival
    why: str
    case_ref: str = ""
    order_ref: str = ""
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """What became of a receipt, and who said so. `case_id` is None where nothing came of it."""

    kind: str
    case_id: UUID | None
    case_number: int | None
    by: str
    at: datetime


def keep_unmatched(db: Connection, merchant_id: UUID, report: Unmatched) -> int:
    """Puts a report aside and returns its number, P-5001 for 5001. Raises BadInput when it says nothing at all."""
    arrival, note = report.arrival, mask_card_numbers(report.note.strip())[:LONGEST_NOTE]
    if not (arrival.lines or note):
        raise BadInput("note", "say what is in the parcel")
    return int(scalar(
        db, "INSERT INTO unmatched_receipts (merchant_id, receipt_id, why, case_ref, order_ref, parcel, note, lines, channel,"
        " actor) VALUES (:m, :id, :why, :case, :order, :parcel, :note, :lines, :channel, :actor) RETURNING number",
        m=merchant_id, id=uuid7(), why=report.why, case=report.case_ref, order=report.order_ref.strip()[:100],
        parcel=mask_card_numbers(arrival.parcel.strip())[:120], note=note, lines=Jsonb([_kept(line) for line in arrival.lines]),
        channel=arrival.channel, actor=arrival.actor,
    ))  # fmt: skip


def match_receipt(
    db: Connection, merchant_id: UUID, receipt_id: UUID, case_id: UUID, staff_id: UUID, counts: Sequence[tuple[str, int]],
    *, opened: bool = False,
) -> Answer:  # fmt: skip
    """Books the goods in on a case: `counts` by line, and with a line counted as it was reported, what was found of its units.

    Again for the same case changes nothing and returns the first answer. Locks the receipt, then what `report_arrival` locks.
    Raises NotFound (receipt, case), WrongState (answered otherwise, or the case was rejected), BadInput (a count, naming the line).
    `opened`: the case was opened for these goods in this transaction, which locked the receipt before it locked the order.
    """
    receipt = lock_receipt(db, merchant_id, receipt_id)
    earlier = read_answer(db, merchant_id, receipt_id)
    if earlier is not None:
        return _same_or_refused(earlier, case_id)
    taken = [(ref, count) for ref, count in counts if count]
    if not taken:
        raise BadInput("lines", "say how many units of at least one line are of this case")
    _answer(db, receipt, "opened" if opened else "matched", staff_id, case_id, taken)
    reported = {line["line"]: line for line in receipt["lines"]}
    lines = tuple(ReceivedLine(ref, count, _found(reported.get(ref), count)) for ref, count in taken)
    report_arrival(
        db, merchant_id, case_id, Arrival(lines, receipt["channel"], f"staff:{staff_id}", f"P-{receipt['number']}")
    )
    return _read(db, merchant_id, receipt_id)


def close_receipt(db: Connection, merchant_id: UUID, receipt_id: UUID, staff_id: UUID, kind: str) -> Answer:
    """Says that nothing comes of the goods, by a word of CLOSING; the same again changes nothing.

    Locks the receipt. Raises NotFound, BadInput, WrongState (answered otherwise).
    """
    if kind not in CLOSING:
        raise BadInput("kind", f"choose one of {', '.join(CLOSING)}")
    receipt = lock_receipt(db, merchant_id, receipt_id)
    earlier = read_answer(db, merchant_id, receipt_id)
    if earlier is None:
        _answer(db, receipt, kind, staff_id, None, ())
        return _read(db, merchant_id, receipt_id)
    if earlier.kind != kind:
        raise WrongState(refused_words(earlier))
    return earlier


def lock_receipt(db: Connection, merchant_id: UUID, receipt_id: UUID) -> RowMapping:
    """Locks the receipt: two who answer for it meet here, before either locks an order. Raises NotFound."""
    found = first(
        db, "SELECT * FROM unmatched_receipts WHERE merchant_id = :m AND receipt_id = :r FOR NO KEY UPDATE",
        m=merchant_id, r=receipt_id,
    )  # fmt: skip
    if found is None:
        raise NotFound
    return found


_ANSWER: Final = """
    SELECT a.kind, a.case_id, c.number AS case_number, s.name AS by, a.at
    FROM receipt_answers a JOIN staff s ON s.staff_id = a.staff_id
    LEFT JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    WHERE a.merchant_id = :m AND a.receipt_id = :r
"""


def read_answer(db: Connection, merchant_id: UUID, receipt_id: UUID) -> Answer | None:
    """What became of a receipt; None while it is open."""
    found = first(db, _ANSWER, m=merchant_id, r=receipt_id)
    return Answer(**found) if found else None


def refused_words(earlier: Answer) -> str:
    """What the second of two is told."""
    if earlier.case_number is not None:
        return f"{earlier.by} put these goods on case C-{earlier.case_number}. They were not counted a second time."
    return f"{earlier.by} closed this before. Nothing was booked in."


def _same_or_refused(earlier: Answer, case_id: UUID) -> Answer:
    if earlier.case_id != case_id:
        raise WrongState(refused_words(earlier))
    return earlier


def _read(db: Connection, merchant_id: UUID, receipt_id: UUID) -> Answer:
    found = read_answer(db, merchant_id, receipt_id)
    if found is None:
        raise NotFound
    return found


def _answer(
    db: Connection, receipt: RowMapping, kind: str, staff_id: UUID, case_id: UUID | None, counts: Sequence[tuple[str, int]]
) -> None:  # fmt: skip
    run(
        db, "INSERT INTO receipt_answers (merchant_id, receipt_id, kind, case_id, counts, staff_id)"
        " VALUES (:m, :r, :kind, :c, :counts, :who)", m=receipt["merchant_id"], r=receipt["receipt_id"], kind=kind, c=case_id,
        counts=Jsonb([{"line": ref, "count": count} for ref, count in counts]), who=staff_id,
    )  # fmt: skip


def _kept(line: ReceivedLine) -> dict[str, Any]:
    grades = [row if isinstance(row, Graded) else Graded(*row) for row in line.grades]
    return {
        "line": line.line_ref, "count": line.count,
        "grades": [
            {
                "count": row.count, "grade": row.grade, "note": mask_card_numbers(row.note)[:2000], "reason": row.reason,
                "serial": mask_card_numbers(row.serial) if row.serial else None, "assessed_bps": row.assessed_bps,
            }
            for row in grades
        ],
    }  # fmt: skip


def _found(line: dict[str, Any] | None, count: int) -> tuple[Graded, ...]:
    """What was found of the units, where the line is counted as it was reported; otherwise somebody looks again."""
    if line is None or line["count"] != count:
        return ()
    return tuple(Graded(**row) for row in line["grades"])
