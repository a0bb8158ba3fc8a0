"""What was announced, what arrived, what a person found: append-only rows, and the recomputation each one sets off.

Announced, received and inspected stay apart. Received is the ceiling. New evidence always makes a new entitlement, which
withdraws what was proposed or approved on the old one (P6).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import reassess
from ledger.card_numbers import mask_card_numbers
from ledger.database import rows, run, scalar
from ledger.errors import BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_order_and_case
from ledger.ids import uuid7
from ledger.serial_claims import is_in, move_claim, seen_again, sold_under
from ledger.unit_ranges import Ranges, first, minus, size, union

GRADES: Final = ("N", "A", "B", "C", "D", "M", "X")
REASONS_FOUND: Final = ("changed_mind", "size", "faulty", "damaged", "wrong_item", "other")
MAX_COUNT: Final = 1_000_000
LONGEST_SERIAL: Final = 80
WHOLE_BPS: Final = 10_000
MOST_PHOTOS: Final = 20


@dataclass(frozen=True)
class Graded:
    """What was found of the next `count` units of a line: grade and, where somebody says so, why they came back after all
    (`reason`, one of REASONS_FOUND), the serial of a single unit, and the loss in value in ten-thousandths."""

    count: int
    grade: str
    note: str = ""
    reason: str | None = None
    serial: str | None = None
    assessed_bps: int | None = None


@dataclass(frozen=True)
class ReceivedLine:
    """Units of one line that arrived; 0 says an empty parcel. `grades` are `Graded`, or its first fields, of units looked at."""

    line_ref: str
    count: int
    grades: tuple[Graded | tuple[Any, ...], ...] = ()


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

    Grades go to the case's units of the line that have none yet, lowest first, and under a serial to the unit that was sold under
    it. Raises NotFound, BadInput (naming the field), WrongState for a case that is closed without payment. More units than
    announced are recorded and flagged: facts are never refused, only not paid.
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
    grades = [row if isinstance(row, Graded) else Graded(*row) for row in reported.grades]
    serials = [row.serial.strip() for row in grades if row.serial]
    sold = sold_under(db, case, reported.line_ref) if serials else {}
    left, held = _ungraded(db, case, line), union((a, b) for a, b in line["held"])
    # With nothing new, a serial is of a unit that was looked at before: it is looked at again.
    again = {} if reported.count else seen_again(db, case, line["line_id"], minus(held, left), sold, serials)
    if sum(row.count for row in grades if (row.serial or "").strip() not in again) > max(reported.count, size(left)):
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
    for row in grades:
        _check_found(f"{field}.grades", row)
        for a, b in _place(db, case, line, row, sold, again, arrival.actor):
            _insert(db, case, "inspected", line["line_id"], arrival.channel, arrival.actor, units=(a, b), found=row,
                    parcel=arrival.parcel)  # fmt: skip


def _check_found(field: str, row: Graded) -> None:
    """Raises BadInput that names the field and says what to do."""
    if row.grade not in GRADES:
        raise BadInput(field, f"a grade is one of {', '.join(GRADES)}")
    if row.count < 1:
        raise BadInput(field, "grade at least one unit")
    if row.reason is not None and row.reason not in REASONS_FOUND:
        raise BadInput(f"{field}.reason_found", f"choose one of {', '.join(REASONS_FOUND)}")
    if row.serial is not None and (row.count != 1 or not 0 < len(row.serial.strip()) <= LONGEST_SERIAL):
        raise BadInput(f"{field}.serial", f"a serial is of one unit and has 1 to {LONGEST_SERIAL} characters")
    if row.assessed_bps is not None and not 0 <= row.assessed_bps <= WHOLE_BPS:
        raise BadInput(f"{field}.assessed_bps", "a loss in value is from 0 to 10000 ten-thousandths")


_HELD_AND_SEEN: Final = """
    SELECT lower(units) AS a, upper(units) AS b, false AS held FROM evidence
    WHERE merchant_id = :m AND case_id = :c AND line_id = :l AND kind = 'inspected'
    UNION ALL
    SELECT lower(units), upper(units), true FROM case_items WHERE merchant_id = :m AND case_id = :c AND line_id = :l AND live
"""


def _ungraded(db: Connection, case: LockedCase, line: RowMapping) -> Ranges:
    """The units of the line that the case holds and nobody has looked at, as ranges: 80,000 units cost as one."""
    found = rows(db, _HELD_AND_SEEN, m=case.merchant_id, c=case.case_id, l=line["line_id"])
    held = union((row["a"], row["b"]) for row in found if row["held"])
    return minus(held, ((row["a"], row["b"]) for row in found if not row["held"]))


def _place(
    db: Connection, case: LockedCase, line: RowMapping, row: Graded, sold: dict[str, int], again: dict[str, int], actor: str
) -> Ranges:  # fmt: skip
    """The units that a finding is of: the one its serial was sold as, where the case holds it or can, else the lowest that nobody
    looked at."""
    serial, left = (row.serial or "").strip(), _ungraded(db, case, line)
    if serial not in again and size(left) < row.count:
        raise BadInput(f"lines.{line['line_ref']}.grades", "more units are graded than this case holds")
    if serial not in sold:
        return first(left, row.count)
    unit, otherwise = sold[serial], again[serial] if serial in again else left[0][0]
    given_up = again[serial] if serial in again else left[-1][1] - 1
    if unit == otherwise or is_in(left, unit) or move_claim(db, case, line["line_id"], given_up, unit, actor):
        return ((unit, unit + 1),)
    return ((otherwise, otherwise + 1),)


_INSERT: Final = """
    INSERT INTO evidence (merchant_id, evidence_id, case_id, number, kind, line_id, count, units, grade, parcel, note, channel,
        actor, at, serial, reason_found, assessed_bps)
    VALUES (:m, :id, :c, :n, :kind, :l, :count, CASE WHEN CAST(:a AS integer) IS NULL THEN NULL ELSE int4range(:a, :b) END, :grade,
        :parcel, :note, :channel, :actor, :at, :serial, :reason, :assessed)
"""


def _insert(
    db: Connection, case: LockedCase, kind: str, line_id: UUID, channel: str, actor: str, *, count: int | None = None,
    units: tuple[int, int] | None = None, found: Graded | None = None, parcel: str = "",
) -> None:  # fmt: skip
    number = scalar(db, "SELECT coalesce(max(number), 0) + 1 FROM evidence WHERE merchant_id = :m AND case_id = :c",
                    m=case.merchant_id, c=case.case_id)  # fmt: skip
    run(
        db, _INSERT, m=case.merchant_id, id=uuid7(), c=case.case_id, n=number, kind=kind, l=line_id, count=count,
        a=units[0] if units else None, b=units[1] if units else None, grade=found.grade if found else None,
        parcel=mask_card_numbers(parcel)[:120], note=mask_card_numbers(found.note)[:2000] if found else "", channel=channel,
        actor=actor, at=case.at, serial=mask_card_numbers(found.serial.strip()) if found and found.serial else None,
        reason=found.reason if found else None, assessed=found.assessed_bps if found else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Parcel:
    """That a parcel is on its way back. `proof`: who says so, the customer (a receipt) or the carrier (its scan). `sent_at` is
    aware."""

    tracking: str
    sent_at: datetime
    proof: str
    our_label: bool
    channel: str
    actor: str


def report_parcel(db: Connection, merchant_id: UUID, case_id: UUID, parcel: Parcel) -> LockedCase:
    """Records that a parcel was sent, then computes the entitlement anew; the same again changes nothing.

    Locks order, case and what reassessing locks. Raises NotFound, BadInput (naming the field), WrongState for a case that is closed
    without payment, or that expects no goods.
    """
    tracking = parcel.tracking.strip()
    if not tracking or len(tracking) > LONGEST_SERIAL:
        raise BadInput("tracking", f"give the tracking number, 1 to {LONGEST_SERIAL} characters")
    if parcel.proof not in ("customer", "carrier"):
        raise BadInput("proof", "say who proves it: customer or carrier")
    case = lock_order_and_case(db, merchant_id, case_id)
    if parcel.sent_at > case.at + timedelta(days=1):
        raise BadInput("sent_at", "a parcel was sent today or before")
    sold_at = scalar(
        db, "SELECT placed_at FROM orders WHERE merchant_id = :m AND order_id = :o", m=merchant_id, o=case.order_id
    )
    if parcel.sent_at < sold_at - timedelta(days=1):
        raise BadInput("sent_at", "a parcel was sent after the order was placed")
    if case.stage == "rejected" or case.kind not in ("return", "exchange"):
        raise WrongState("No goods come back for this case. Open a return first.")
    added = run(
        db, "INSERT INTO parcels (merchant_id, parcel_id, case_id, tracking, sent_at, proof, our_label, channel, actor, at)"
        " VALUES (:m, :id, :c, :tracking, :sent, :proof, :ours, :channel, :actor, :at) ON CONFLICT DO NOTHING",
        m=merchant_id, id=uuid7(), c=case_id, tracking=mask_card_numbers(tracking)[:LONGEST_SERIAL], sent=parcel.sent_at,
        proof=parcel.proof, ours=parcel.our_label, channel=parcel.channel, actor=parcel.actor, at=case.at,
    )  # fmt: skip
    if added:
        append(db, case, "parcel.reported", parcel.actor, {"channel": parcel.channel, "proof": parcel.proof})
        reassess(db, case, parcel.actor)
    return case


def add_photo(
    db: Connection, merchant_id: UUID, case_id: UUID, content: bytes, content_type: str, sha256: bytes, original_sha256: bytes,
    caption: str, actor: str, line_id: UUID | None = None, unit: int | None = None,
) -> UUID:  # fmt: skip
    """Stores one re-encoded image as evidence and computes the entitlement anew.

    Locks order and case. Raises NotFound, BadInput (the case has MOST_PHOTOS), WrongState for a rejected case.
    """
    case = lock_order_and_case(db, merchant_id, case_id)
    if case.stage == "rejected":
        raise WrongState("This case was rejected and its units are free. Open a new return for what arrived.")
    if (
        scalar(db, "SELECT count(*) FROM photos WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id)
        >= MOST_PHOTOS
    ):
        raise BadInput("photo", f"a case takes {MOST_PHOTOS} photos, and this one has them")
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


_FIND: Final = """
    SELECT c.case_id FROM cases c JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    WHERE c.merchant_id = :m AND {which} AND (CAST(:of AS text) IS NULL OR c.opened_by = :of OR EXISTS (SELECT 1
        FROM conversations v WHERE v.merchant_id = c.merchant_id AND v.case_id = c.case_id AND v.actor = :of))
    ORDER BY c.number
"""
_BY_NUMBER: Final = _FIND.format(which="c.number = :n")
_BY_ORDER: Final = _FIND.format(which="o.external_ref = :r AND c.closed_at IS NULL AND c.kind = 'return'")


def find_case(
    db: Connection, merchant_id: UUID, *, number: int | None = None, order_ref: str | None = None, of: str | None = None
) -> UUID:
    """The case a report is about: by its number, or the one open return of an order. `of`: only one that this actor opened or
    joined. Raises NotFound, BadInput (several)."""
    if number is not None:
        found = rows(db, _BY_NUMBER, m=merchant_id, n=number, of=of)
    else:
        found = rows(db, _BY_ORDER, m=merchant_id, r=order_ref, of=of)
    if not found:
        raise NotFound("No open return has that reference. Open a return first, then report what arrived.")
    if len(found) > 1:
        raise BadInput("case", "this order has several open returns. Name the case")
    return UUID(str(found[0]["case_id"]))
