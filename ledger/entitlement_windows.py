"""Whether a return was announced in time. Calendar days in the zone of the order.

Goods that were not delivered, or whose delivery is not known, have no window that could have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from ledger.allocation_lines import AllocatedLine
from ledger.calendar_days import (
    CALENDARS,
    add_days,
    add_months,
    by_end_of,
    local_day,
    months_between,
    next_working_day,
)
from ledger.entitlement_facts import CaseUnits
from ledger.entitlement_presets import LONGER, LONGER_BY_LIFE, REPAIR_ADDS_MONTHS, REPAIRS_ADD_FROM, Preset
from ledger.entitlement_working import RuleResult, Working
from ledger.unit_ranges import Range, Ranges, minus, within, written

SEND_BACK_WITHIN_DAYS = 14
INFORMED_LATE_MONTHS = 12

_LastDay = Callable[[Working, AllocatedLine], date | None]


def time_known(work: Working) -> Iterator[RuleResult]:
    """The dates that a window counts from."""
    calendar = work.policy.holiday_calendar
    if calendar is not None and calendar.partition("@")[0] not in CALENDARS:
        yield RuleResult("time.known", "needs_review", "case", "holiday_calendar_unknown", (f"calendar:{calendar}",))
    for row in work.evidence.units:
        line = work.allocation.line(row.line_id)
        if line is not None and line.delivered_at is not None and row.sent_at is None:
            yield RuleResult("time.known", "needs_review", row.line_id, "statement_time_unknown")


def window_merchant(work: Working) -> Iterator[RuleResult]:
    if work.preset is None and work.evidence.kind in ("return", "exchange"):
        yield from _window(work, "window.merchant", _merchant_last_day)


def window_statutory(work: Working) -> Iterator[RuleResult]:
    if work.preset is None:
        return
    if work.preset.kind == "faulty":
        yield from _sound(work)
    yield from _window(work, "window.statutory", _statutory_last_day)
    yield from _sent_back_late(work)


def _sound(work: Working) -> Iterator[RuleResult]:
    """What the law gives for faulty goods is for those units only."""
    for line_id, units in work.units.items():
        sound = minus(units, work.faulty.get(line_id, ()))
        if sound:
            work.units[line_id] = minus(units, sound)
            yield RuleResult("window.statutory", "fail", f"{line_id}{written(sound)}", "no_fault_was_found")


def _window(work: Working, rule: str, last_day_of: _LastDay) -> Iterator[RuleResult]:
    for row in work.evidence.units:
        for line_id, a, b in work.spread_kit(row.line_id, row.a, row.b):
            line = work.allocation.line(line_id)
            last = last_day_of(work, line) if line is not None else None
            if last is None or row.sent_at is None:
                continue
            facts = (f"last_day:{last.isoformat()}", f"sent:{_day(work, row).isoformat()}")
            inside = work.within_case(line_id, a, b)
            late = not by_end_of(last, row.sent_at, zone_of(work))
            where = f"{line_id}{written(inside)}"
            if late and inside and _holidays_decide(work, row, last):
                yield RuleResult("time.known", "needs_review", where, "holidays_of_the_country_unknown", facts)
            elif late and inside and _longer_by_country(work):
                yield RuleResult(rule, "needs_review", where, "longer_by_country", facts)
            elif late and inside:
                work.units[line_id] = minus(work.units[line_id], inside)
                yield RuleResult(rule, "fail", where, "announced_too_late", facts)
            elif inside:
                yield RuleResult(rule, "pass", where, "announced_in_time", facts)


def zone_of(work: Working) -> str:
    """The zone that days are counted in."""
    return work.sale.zone or "UTC"


def _day(work: Working, row: CaseUnits) -> date:
    return local_day(row.sent_at or "", zone_of(work))


def _merchant_last_day(work: Working, line: AllocatedLine) -> date | None:
    window, zone = work.policy.window, zone_of(work)
    start = line.delivered_at
    if window.starts == "placed":
        start = work.sale.placed_at
    elif window.starts == "last_delivered":
        start = _last_delivered(work)
    if start is None:
        return None
    last = add_days(local_day(start, zone), window.days + window.grace_days)
    return max(last, date.fromisoformat(window.fixed_until)) if window.fixed_until else last


def _last_delivered(work: Working) -> str | None:
    """When the last goods of the order arrived; None while some have not, or nobody said when."""
    found = [line.delivered_at for line in work.goods_lines]
    return max(at for at in found if at) if found and all(found) else None


def _statutory_last_day(work: Working, line: AllocatedLine) -> date | None:
    preset, zone = work.preset, zone_of(work)
    if preset is None:
        return None
    if preset.kind == "faulty":
        return last_day_for_faults(work, line, preset)
    start = _last_delivered(work)
    if start is None:
        return None
    last = add_days(local_day(start, zone), preset.days)
    told = work.sale.withdrawal_info_at
    if preset.kind == "withdrawal" and (told is None or local_day(told, zone) > local_day(start, zone)):
        late = add_months(last, INFORMED_LATE_MONTHS)
        last = late if told is None else min(late, add_days(local_day(told, zone), preset.days))
    return next_working_day(last, calendar_of(work)) if preset.rolls else last


def calendar_of(work: Working) -> str | None:
    """The holidays that count: the policy's, or where it names none those of the country of the sale."""
    return work.policy.holiday_calendar or (work.sale.region or "").partition("-")[0] or None


# No country has more days without a working day in a row: a statement later than that is late whatever the holidays were.
_MOST_HOLIDAYS = 7


def _holidays_decide(work: Working, row: CaseUnits, last: date) -> bool:
    """Whether holidays that are not known here may have moved the last day to the day of the statement."""
    if work.preset is None or not work.preset.rolls or row.sent_at is None:
        return False
    known = (calendar_of(work) or "").partition("@")[0] in CALENDARS
    return not known and by_end_of(add_days(last, _MOST_HOLIDAYS), row.sent_at, zone_of(work))


def last_day_for_faults(work: Working, line: AllocatedLine, preset: Preset | None) -> date | None:
    """Until when the law gives something for a fault of the line; None where it sets no day, or nobody knows from when."""
    if preset is None or preset.months is None or line.delivered_at is None:
        return None
    country = (work.sale.region or "").partition("-")[0]
    months = LONGER.get(country, preset.months) + _after_a_repair(work, line)
    return add_months(local_day(line.delivered_at, zone_of(work)), months)


def _after_a_repair(work: Working, line: AllocatedLine) -> int:
    """Months that a repair adds to the time for faults, once."""
    of_line = (line.line_id, line.parent_line)
    repaired = [row.at for row in work.evidence.cures if row.kind == "repair" and row.line_id in of_line]
    repaired += [row.at for row in work.priors.repaired if row.kind == "repair" and row.line_id in of_line]
    since = any(at is not None and at >= REPAIRS_ADD_FROM for at in repaired)
    return REPAIR_ADDS_MONTHS if since else 0


def _longer_by_country(work: Working) -> bool:
    """Whether the country gives a longer time for faults than a number of months: a person counts it."""
    country = (work.sale.region or "").partition("-")[0]
    return work.preset is not None and work.preset.id == "faulty_eu@1" and country in LONGER_BY_LIFE


def _vehicles(work: Working) -> Iterator[RuleResult]:
    """The use of a vehicle may come off whenever it is rejected: how much is a person's to say."""
    if work.preset is None or work.preset.id != "faulty_uk@1":
        return
    for line_id, units in work.units.items():
        if units and (work.line(line_id).attributes or {}).get("motor_vehicle"):
            yield RuleResult("deduct.evidence", "needs_review", f"{line_id}{written(units)}", "use_of_a_vehicle")


def _sent_back_late(work: Working) -> Iterator[RuleResult]:
    said = [row.sent_at for row in work.evidence.units if row.sent_at]
    sent = [row.at for row in work.evidence.sent]
    if work.preset is None or work.preset.kind != "withdrawal" or not said or not sent:
        return
    last = add_days(local_day(min(said), zone_of(work)), SEND_BACK_WITHIN_DAYS)
    if not by_end_of(last, min(sent), zone_of(work)):
        facts = (f"last_day:{last.isoformat()}", f"sent:{min(sent)}")
        yield RuleResult("window.statutory", "needs_review", "case", "goods_sent_back_late", facts)


def presumption(work: Working) -> Iterator[RuleResult]:
    """Cure first, and until when a fault is presumed to have been there from the start; of faulty units only."""
    evidence, preset = work.evidence, work.preset
    if evidence.kind == "cancellation" or not any(work.faulty.values()):
        return
    for line_id, units in work.units.items():
        yield from _cure(work, line_id, within(units, _curable(work, line_id)))
    age = _months_since_delivery(work)
    if preset is not None and preset.kind == "faulty" and age is not None and age >= preset.presumed_months:
        facts = (f"months:{age}",)
        yield RuleResult("reason.supported", "needs_review", "case", "fault_no_longer_presumed", facts)
    yield from _vehicles(work)


def _curable(work: Working, line_id: str) -> list[Range]:
    """Units that a repair or replacement may mend: faulty or damaged, and not another thing than was ordered."""
    rows = work.graded.get(line_id, ())
    return [span for ranges, row in rows if row.faulty and row.reason != "wrong_item" for span in ranges]


def _cure(work: Working, line_id: str, units: Ranges) -> Iterator[RuleResult]:
    if not units:
        return
    results = [row.result for row in work.evidence.cures if row.line_id in (line_id, work.line(line_id).parent_line)]
    untried = minus(units, _mended_before(work, line_id))
    if results and results[-1] == "done":
        work.units[line_id] = minus(work.units[line_id], units)
        yield RuleResult("cure.first", "fail", f"{line_id}{written(units)}", "cured")
    elif untried and not (results or work.policy.faulty.refund_first or _may_reject(work)):
        work.units[line_id] = minus(work.units[line_id], untried)
        yield RuleResult("cure.first", "fail", f"{line_id}{written(untried)}", "cure_comes_first", (), "cure")


def _mended_before(work: Working, line_id: str) -> list[Range]:
    """Units that an earlier case repaired or replaced: the one cure that goes first is over."""
    spread = (span for row in work.priors.repaired for span in work.spread_kit(row.line_id, row.a, row.b))
    return [(a, b) for of, a, b in spread if of == line_id]


def _may_reject(work: Working) -> bool:
    """The short time in which faulty goods may be rejected outright, where the law has one."""
    said = [row for row in work.evidence.units if row.sent_at]
    start = _last_delivered(work)
    if work.preset is None or work.preset.cure_after_days is None or not said or start is None:
        return False
    last = add_days(local_day(start, zone_of(work)), work.preset.cure_after_days)
    return all(_day(work, row) <= last for row in said)


def _months_since_delivery(work: Working) -> int | None:
    said = [row.sent_at for row in work.evidence.units if row.sent_at]
    start = _last_delivered(work)
    if not said or start is None:
        return None
    return months_between(local_day(start, zone_of(work)), local_day(min(said), zone_of(work)))
