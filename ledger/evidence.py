"""What was announced, what arrived, what a person found: append-only rows, and the recomputation each one sets off.

Announced, received and inspected stay apart. Received is the ceiling. New evidence always makes a new entitlement, which
withdraws what was proposed or approved on the old one (P6).
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import reassess
from ledger.card_numbers import mask_card_numbers
from ledger.database import rows, run, scalar
from ledger.errors import BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.ids import uuid7
from ledger.unit_ranges import Ranges, first, minus, size, union

GRADES: Final = ("N", "A", "B", "C", "D", "M", "X")
MAX_COUNT: Final = 1_000_000


@dataclass(frozen=True)
class ReceivedLine:
    """Units of one line that arrived; 0 says an empty parcel. `grades` are (count, grade, note) of units looked at."""

    line_ref: str
    count: int
    grades: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True)
class Arrival:
    """One report of a warehouse or the counter about one case."""

    lines: tuple[ReceivedLine, ...]
    channel: str
    actor: str
    parcel: str = ""


def add_announced(db: Connection, case: LockedCase, counts: list[tuple[UUID, int]], channel: str, actor: str) -> None:
    """Records what the customer said they return. The case is locked; the caller reassesses."""
    for line_id, count in counts:
        _insert(db, case, "announced", line_id, channel, actor, count=count)


def report_arrival(db: Connection, merchant_id: UUID, case_id: UUID, arrival: Arrival) -> LockedCase:
    """Records received counts and grades, then computes the entitlement anew. Locks order, case and what reassessing locks.

    Grades go to the case's units of the line that have none yet, lowest first. Raises NotFound, BadInput (naming the
    field), WrongState for a case that is closed without payment. More units than announced are recorded and flagged: facts
    are never refused, only not paid.
    """
    case = lock_order_and_case(db, merchant_id, case_id)
    if case.stage == "rejected":
        raise WrongState("This case was rejected and its units are free. Open a new return for what arrived.")
    if not arrival.lines:
        raise BadInput("lines", "report at least one line")
    lines = {row["line_ref"]: row for row in rows(db, _CASE_LINES, m=merchant_id, c=case_id, o=case.order_id)}
    for reported in arrival.lines:
        line = lines.get(reported.line_ref)
        if line is None:
            raise BadInput("lines", f"the order of this case has no goods line {reported.line_ref!r}")
        _record(db, case, line, reported, arrival)
    body = {
        "channel": arrival.channel,
        "lines": [{"line": line.line_ref, "count": line.count} for line in arrival.lines],
    }
    append(db, case, "goods.reported", arrival.actor, body)
    reassess(db, case, arrival.actor)
    return case


_CASE_LINES: Final = """
    SELECT l.line_id, l.line_ref, l.quantity,
        coalesce((SELECT array_agg(ARRAY[lower(ci.units), upper(ci.units)] ORDER BY lower(ci.units)) FROM case_items ci
            WHERE ci.merchant_id = l.merchant_id AND ci.line_id = l.line_id AND ci.case_id = :c AND ci.live), '{}') AS held
    FROM order_lines l WHERE l.merchant_id = :m AND l.order_id = :o AND l.kind = 'goods'
"""


def _record(db: Connection, case: LockedCase, line: RowMapping, reported: ReceivedLine, arrival: Arrival) -> None:
    field = f"lines.{reported.line_ref}"
    if not 0 <= reported.count <= MAX_COUNT:
        raise BadInput(f"{field}.count", f"a count is a whole number from 0 to {MAX_COUNT}")
    if not line["held"]:
        raise BadInput(field, "this case holds no units of that line. Open a return for it first")
    if sum(count for count, _, _ in reported.grades) > max(reported.count, size(_ungraded(db, case, line))):
        raise BadInput(f"{field}.grades", "more units are graded than arrived")
    # A report of 0 with grades only adds findings about units that arrived before.
    if reported.count or not reported.grades:
        _insert(
            db,
            case,
            "received",
            line["line_id"],
            arrival.channel,
            arrival.actor,
            count=reported.count,
            parcel=arrival.parcel,
        )
    for count, grade, note in reported.grades:
        if grade not in GRADES:
            raise BadInput(f"{field}.grades", f"a grade is one of {', '.join(GRADES)}")
        if count < 1:
            raise BadInput(f"{field}.grades", "grade at least one unit")
        for a, b in _next_ungraded(db, case, line, count):
            _insert(db, case, "inspected", line["line_id"], arrival.channel, arrival.actor, units=(a, b), grade=grade, note=note,
                    parcel=arrival.parcel)  # fmt: skip


def _ungraded(db: Connection, case: LockedCase, line: RowMapping) -> Ranges:
    """The units of the line that the case holds and nobody has looked at, as ranges: 80,000 units cost as one."""
    found = rows(
        db, "SELECT lower(units) AS a, upper(units) AS b FROM evidence WHERE merchant_id = :m AND case_id = :c"
        " AND line_id = :l AND kind = 'inspected'", m=case.merchant_id, c=case.case_id, l=line["line_id"],
    )  # fmt: skip
    return minus(union((a, b) for a, b in line["held"]), ((row["a"], row["b"]) for row in found))


def _next_ungraded(db: Connection, case: LockedCase, line: RowMapping, count: int) -> Ranges:
    found = first(_ungraded(db, case, line), count)
    if size(found) < count:
        raise BadInput(f"lines.{line['line_ref']}.grades", "more units are graded than this case holds")
    return found


def _insert(
    db: Connection, case: LockedCase, kind: str, line_id: UUID, channel: str, actor: str, *, count: int | None = None,
    units: tuple[int, int] | None = None, grade: str | None = None, note: str = "", parcel: str = "",
) -> None:  # fmt: skip
    number = scalar(db, "SELECT coalesce(max(number), 0) + 1 FROM evidence WHERE merchant_id = :m AND case_id = :c",
                    m=case.merchant_id, c=case.case_id)  # fmt: skip
    run(
        db, "INSERT INTO evidence (merchant_id, evidence_id, case_id, number, kind, line_id, count, units, grade, parcel, note,"
        " channel, actor, at) VALUES (:m, :id, :c, :n, :kind, :l, :count,"
        " CASE WHEN CAST(:a AS integer) IS NULL THEN NULL ELSE int4range(:a, :b) END, :grade, :parcel, :note, :channel, :actor,"
        " :at)",
        m=case.merchant_id, id=uuid7(), c=case.case_id, n=number, kind=kind, l=line_id, count=count,
        a=units[0] if units else None, b=units[1] if units else None, grade=grade, parcel=mask_card_numbers(parcel)[:120],
        note=mask_card_numbers(note)[:2000], channel=channel,
        actor=actor, at=case.at,
    )  # fmt: skip


def add_photo(
    db: Connection, merchant_id: UUID, case_id: UUID, content: bytes, content_type: str, sha256: bytes, original_sha256: bytes,
    caption: str, actor: str, line_id: UUID | None = None, unit: int | None = None,
) -> UUID:  # fmt: skip
    """Stores one re-encoded image as evidence and computes the entitlement anew. Raises NotFound. Locks order and case."""
    case = lock_order_and_case(db, merchant_id, case_id)
    photo_id = uuid7()
    run(
        db, "INSERT INTO photos (merchant_id, photo_id, case_id, line_id, unit, caption, content_type, sha256, original_sha256,"
        " content, actor, at) VALUES (:m, :id, :c, :l, :unit, :caption, :type, :sha, :original, :content, :actor, :at)",
        m=merchant_id, id=photo_id, c=case_id, l=line_id, unit=unit, caption=mask_card_numbers(caption)[:200],
        type=content_type, sha=sha256,
        original=original_sha256, content=content, actor=actor, at=case.at,
    )  # fmt: skip
    append(db, case, "photo.added", actor, {"sha256": sha256.hex()})
    reassess(db, case, actor)
    return photo_id


def find_case(db: Connection, merchant_id: UUID, *, number: int | None = None, order_ref: str | None = None) -> UUID:
    """The case a report is about: by its number, or the one open case of an order. Raises NotFound, BadInput (several)."""
    if number is not None:
        found = rows(db, "SELECT case_id FROM cases WHERE merchant_id = :m AND number = :n", m=merchant_id, n=number)
    else:
        found = rows(
            db, "SELECT c.case_id FROM cases c JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id"
            " WHERE c.merchant_id = :m AND o.external_ref = :r AND c.closed_at IS NULL ORDER BY c.number",
            m=merchant_id, r=order_ref,
        )  # fmt: skip
    if not found:
        raise NotFound("No open return has that reference. Open a return first, then report what arrived.")
    if len(found) > 1:
        raise BadInput("case", "this order has several open returns. Name the case")
    return UUID(str(found[0]["case_id"]))
