"""Where the records of a return contradict one another: said as a conflict, and a person decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.calendar_days import local_day
from ledger.entitlement_working import RuleResult, Working
from ledger.unit_ranges import size, union, written

_ORDER_OF_GRADES = "NABCD"
# What sources disagree about, by reason code: a serial that nobody wrote down yet, or a fault no longer presumed, is no such thing.
CONTRADICTIONS: Final = frozenset(
    {"received_more_than_announced", "received_without_announcement", "parcel_booked_in_twice", "grades_differ",
     "another_item_came_back", "serial_recorded_twice", "serial_came_back_before", "serial_not_sold_here",
     "another_reason_was_found", "came_back_before_delivery", "sent_back_before_delivery", "received_before_it_was_sent",
     "said_to_be_delivered"}
)  # fmt: skip


def contradictions(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of a stored record that say where its sources disagree."""
    return [rule for rule in record["rules"] if rule["reason_code"] in CONTRADICTIONS]


def received_counts(work: Working) -> dict[str, int]:
    """Units booked in by line. One parcel, line and count booked twice is one arrival."""
    counts: dict[str, int] = {}
    seen: set[tuple[str, str, int]] = set()
    for row in work.evidence.received:
        key = (row.parcel, row.line_id, row.count)
        if row.parcel and key in seen:
            continue
        seen.add(key)
        line = work.allocation.line(row.line_id)
        if line is None or not line.parent:
            counts[row.line_id] = counts.get(row.line_id, 0) + row.count
            continue
        for part in work.allocation.components(row.line_id):
            counts[part.line_id] = counts.get(part.line_id, 0) + row.count * (part.per_bundle or 1)
    return counts


def evidence_conflict(work: Working) -> Iterator[RuleResult]:
    """Counts, grades, serials, parcels and dates that do not agree; the later or lower figure counts meanwhile."""
    yield from _counts(work)
    yield from _booked_twice(work)
    yield from _grades(work)
    yield from _serials(work)
    yield from _dates(work)


def _counts(work: Working) -> Iterator[RuleResult]:
    counts = received_counts(work)
    for line_id, announced in work.announced.items():
        received = counts.get(line_id, 0)
        if received > size(announced):
            facts = (f"announced:{size(announced)}", f"received:{received}")
            yield RuleResult("evidence.conflict", "needs_review", line_id, "received_more_than_announced", facts)
    for line_id in sorted(set(counts) - set(work.announced)):
        if counts[line_id] and work.policy.undeclared == "hold":
            facts = ("announced:0", f"received:{counts[line_id]}")
            yield RuleResult("evidence.conflict", "needs_review", line_id, "received_without_announcement", facts)


def _booked_twice(work: Working) -> Iterator[RuleResult]:
    rows = [(row.parcel, row.line_id, row.count) for row in work.evidence.received if row.parcel and row.count]
    for parcel, line_id, count in sorted({row for row in rows if rows.count(row) > 1}):
        facts = (f"parcel:{parcel}", f"received:{count}")
        yield RuleResult("evidence.conflict", "needs_review", line_id, "parcel_booked_in_twice", facts)


def _grades(work: Working) -> Iterator[RuleResult]:
    """Grades of one unit that differ by more than a step; the later one counts meanwhile."""
    rows = work.evidence.inspected
    for index, later in enumerate(rows):
        for earlier in rows[:index]:
            overlap = (max(earlier.a, later.a), min(earlier.b, later.b))
            if earlier.line_id == later.line_id and overlap[0] < overlap[1] and _far(earlier.grade, later.grade):
                where = f"{later.line_id}{written([overlap])}"
                facts = (f"grade:{earlier.grade}", f"grade:{later.grade}")
                yield RuleResult("evidence.conflict", "needs_review", where, "grades_differ", facts)


def _far(one: str, other: str) -> bool:
    if one in _ORDER_OF_GRADES and other in _ORDER_OF_GRADES:
        return abs(_ORDER_OF_GRADES.index(one) - _ORDER_OF_GRADES.index(other)) > 1
    return one != other


def serials_asked(work: Working, line_id: str) -> bool:
    """Whether units of the line come back only under the serial they were sold under."""
    line, needed = work.allocation.line(line_id), work.policy.serial_required
    return line is not None and bool(line.serials if needed is None else needed)


def _serials(work: Working) -> Iterator[RuleResult]:
    seen: dict[str, str] = {}
    for line_id, rows in sorted(work.graded.items()):
        before = {*work.priors.serials_elsewhere, *(() if serials_asked(work, line_id) else work.priors.serials_back)}
        for ranges, row in rows:
            if row.grade == "X":
                where = f"{line_id}{written(ranges)}"
                yield RuleResult("evidence.conflict", "needs_review", where, "another_item_came_back")
            if row.serial is None:
                continue
            where = f"{line_id}{written(union(ranges))}"
            if row.serial in before:
                said = (f"serial:{row.serial}",)
                yield RuleResult("evidence.conflict", "needs_review", where, "serial_came_back_before", said)
            if row.serial in seen:
                facts = (f"serial:{row.serial}", f"also:{seen[row.serial]}")
                yield RuleResult("evidence.conflict", "needs_review", where, "serial_recorded_twice", facts)
            seen[row.serial] = where


def _dates(work: Working) -> Iterator[RuleResult]:
    """What came back, or was sent, on a day before it was delivered; and a parcel that was here before it was sent."""
    zone = work.sale.zone or "UTC"
    delivered = {line.line_id: local_day(line.delivered_at, zone) for line in work.goods_lines if line.delivered_at}
    for row in work.evidence.received:
        at = delivered.get(row.line_id)
        if row.at and row.count and at is not None and local_day(row.at, zone) < at:
            facts = (f"delivered:{at}", f"received:{local_day(row.at, zone)}")
            yield RuleResult("evidence.conflict", "needs_review", row.line_id, "came_back_before_delivery", facts)
    announced = [delivered[line_id] for line_id in work.announced if line_id in delivered]
    for parcel in work.evidence.sent:
        sent = local_day(parcel.at, zone)
        if announced and sent < min(announced):
            facts = (f"delivered:{min(announced)}", f"sent:{sent}")
            yield RuleResult("evidence.conflict", "needs_review", "case", "sent_back_before_delivery", facts)
        here = [row.at for row in work.evidence.received if row.at and row.count and row.parcel == parcel.parcel != ""]
        if here and local_day(min(here), zone) < sent:
            said = (f"parcel:{parcel.parcel}", f"received:{local_day(min(here), zone)}", f"sent:{sent}")
            yield RuleResult("evidence.conflict", "needs_review", "case", "received_before_it_was_sent", said)


def reason_supported(work: Working) -> Iterator[RuleResult]:
    """What a person found is what the customer said."""
    said = [row.reason for row in work.evidence.units if row.reason]
    found = [row.reason for row in work.evidence.inspected if row.reason]
    other = [reason for reason in found if reason not in said]
    if said and other:
        facts = (f"said:{said[-1]}", f"found:{other[-1]}")
        yield RuleResult("reason.supported", "needs_review", "case", "another_reason_was_found", facts)
