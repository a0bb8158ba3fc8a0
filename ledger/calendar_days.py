"""Counting days as laws and policies do: calendar days in a zone, the end of a local day, the next working day.

Regulation (EEC, Euratom) No 1182/71: the day of the event is not counted, a period ends with the last hour of its last day,
and one that would end on a Saturday, Sunday or holiday ends with the next working day.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo


def local_day(instant: str, zone: str) -> date:
    """The calendar day of an instant (RFC 3339 text) in a zone."""
    return parse(instant).astimezone(ZoneInfo(zone)).date()


def parse(instant: str) -> datetime:
    """An instant in UTC. Raises ValueError for text that is none, or that has no offset."""
    found = datetime.fromisoformat(instant)
    if found.tzinfo is None:
        raise ValueError("an instant needs an offset, such as Z")
    return found.astimezone(UTC)


def end_of_day(day: date, zone: str) -> str:
    """The last second of a local day, as UTC text."""
    midnight = datetime.combine(day + timedelta(days=1), time(), ZoneInfo(zone))
    return text(midnight.astimezone(UTC) - timedelta(seconds=1))


def text(instant: datetime) -> str:
    """RFC 3339 in UTC with a Z."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def by_end_of(day: date, instant: str, zone: str) -> bool:
    """Whether an instant is on that local day or before it."""
    return local_day(instant, zone) <= day


def add_days(day: date, days: int) -> date:
    return day + timedelta(days=days)


def add_months(day: date, months: int) -> date:
    """The same day of a later month, or that month's last day."""
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
    return date(year, month, min(day.day, last))


def months_between(start: date, end: date) -> int:
    """Completed months from start to end; 0 when end is before start."""
    months = (end.year - start.year) * 12 + end.month - start.month
    return max(0, months if add_months(start, months) <= end else months - 1)


def next_working_day(day: date, calendar: str | None) -> date:
    """The day itself, or the next that is no Saturday, Sunday or holiday of the calendar ("DE@2026")."""
    country = calendar.partition("@")[0] if calendar else ""
    while day.weekday() >= 5 or day in holidays(country, day.year):
        day += timedelta(days=1)
    return day


def working_days_after(day: date, days: int, calendar: str | None) -> date:
    """The day that is so many working days after `day`."""
    for _ in range(days):
        day = next_working_day(day + timedelta(days=1), calendar)
    return day


# Fixed days as (month, day), and days counted from Easter Sunday. Nationwide ones only.
_FIXED: dict[str, tuple[tuple[int, int], ...]] = {
    "AT": ((1, 1), (1, 6), (5, 1), (8, 15), (10, 26), (11, 1), (12, 8), (12, 25), (12, 26)),
    "BE": ((1, 1), (5, 1), (7, 21), (8, 15), (11, 1), (11, 11), (12, 25)),
    "DE": ((1, 1), (5, 1), (10, 3), (12, 25), (12, 26)),
    "ES": ((1, 1), (1, 6), (5, 1), (8, 15), (10, 12), (11, 1), (12, 6), (12, 8), (12, 25)),
    "FR": ((1, 1), (5, 1), (5, 8), (7, 14), (8, 15), (11, 1), (11, 11), (12, 25)),
    "IT": ((1, 1), (1, 6), (4, 25), (5, 1), (6, 2), (8, 15), (11, 1), (12, 8), (12, 25), (12, 26)),
    "NL": ((1, 1), (5, 5), (12, 25), (12, 26)),
    "US": ((1, 1), (6, 19), (7, 4), (11, 11), (12, 25)),
}
_FROM_EASTER: dict[str, tuple[int, ...]] = {
    "AT": (1, 39, 50, 60),
    "BE": (1, 39, 50),
    "DE": (-2, 1, 39, 50),
    "ES": (-2,),
    "FR": (1, 39, 50),
    "IT": (1,),
    "NL": (-2, 1, 39, 50),
}
# Days of the United States as (month, weekday, which of them; -1 the last): Monday is 0.
_UNITED_STATES = ((1, 0, 3), (2, 0, 3), (5, 0, -1), (9, 0, 1), (10, 0, 2), (11, 3, 4))
# The day of Saint Francis is a holiday of Italy again from this year on.
_FRANCIS_FROM = 2026
CALENDARS = frozenset(_FIXED)
"""Countries whose holidays are known here. Another calendar is a person's to count."""


@cache
def holidays(country: str, year: int) -> frozenset[date]:
    """The public holidays of a whole country in a year; none for a country that is not in `CALENDARS`."""
    easter = _easter(year)
    found = [date(year, month, day) for month, day in _FIXED.get(country, ())]
    found += [easter + timedelta(days=days) for days in _FROM_EASTER.get(country, ())]
    if country == "IT" and year >= _FRANCIS_FROM:
        found.append(date(year, 10, 4))
    elif country == "NL":
        birthday = date(year, 4, 27)
        found.append(birthday - timedelta(days=1) if birthday.weekday() == 6 else birthday)
    elif country == "US":
        found = [day + timedelta(days=1) if day.weekday() == 6 else day for day in found]
        found += [_weekday(year, *named) for named in _UNITED_STATES]
    return frozenset(found)


def _weekday(year: int, month: int, weekday: int, which: int) -> date:
    """The so-manieth such weekday of a month, or its last."""
    first = date(year, month, 1)
    day = first + timedelta(days=(weekday - first.weekday()) % 7)
    if which > 0:
        return day + timedelta(weeks=which - 1)
    return max(one for week in range(6) if (one := day + timedelta(weeks=week)).month == month)


def _easter(year: int) -> date:
    """Easter Sunday in the Gregorian calendar (anonymous algorithm)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    weekday = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * weekday) // 433
    month = (h + weekday - 7 * m + 90) // 25
    return date(year, month, (h + weekday - 7 * m + 33 * month + 19) % 32)
