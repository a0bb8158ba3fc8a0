"""The filters of the templates: amounts, times in the zone of whoever reads, and foreign text with nothing hidden in it."""

import unicodedata
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from flask import Flask, g

from ledger.money import EXPONENTS, format_minor

LONGEST_SHOWN: Final = 4000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Letters that are drawn as nothing, so that a name with one looks like a name without: categories alone miss them.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
# Variation selectors and the joiner inside an emoji or an Indic word are how ordinary text is written.
_PLAIN_SPACES: Final = frozenset(" \n\t")


def add_filters(app: Flask) -> None:
    """Registers the filters that the templates name."""
    app.jinja_env.filters.update(money=money, instant=instant, age=age, visible=visible)


def money(amount_minor: int, currency: str) -> str:
    """An amount in major units, thousands parted by commas, U+2212 as minus: "1,234.50". The code stands beside it."""
    if currency not in EXPONENTS:
        # Such an order is blocked, and its pages have to open for somebody to settle it.
        return f"{amount_minor:,} minor units of"
    text = format_minor(abs(amount_minor), currency)
    whole, point, decimals = text.partition(".")
    sign = "\u2212" if amount_minor < 0 else ""
    return f"{sign}{int(whole):,}{point}{decimals}"


def instant(at: datetime | date, style: str = "") -> str:
    """A moment in `shown_zone`. "" and "second": the time today, with the day before it on other days; "time";
    "day": 24 Nov; "date": Sunday 29 November 2026. A date is taken as it is."""
    if not isinstance(at, datetime):
        return _day(at) if style == "day" else f"{at:%A} {at.day} {at:%B %Y}"
    local, today = at.astimezone(shown_zone()), now().astimezone(shown_zone()).date()
    if style == "day":
        return _day(local) if local.year == today.year else f"{_day(local)} {local.year}"
    if style == "date":
        return f"{local:%A} {local.day} {local:%B %Y}"
    clock = f"{local:%H:%M:%S}" if style == "second" else f"{local:%H:%M}"
    if style == "time" or local.date() == today:
        return clock
    return f"{_day(local)} {clock}" if local.year == today.year else f"{_day(local)} {local.year} {clock}"


def age(at: datetime) -> str:
    """How long ago, in two units at most: "2 h 15 min", "16 d"; under a minute "now"."""
    seconds = max(int((now() - at).total_seconds()), 0)
    days, hours, minutes = seconds // _DAY, seconds % _DAY // _HOUR, seconds % _HOUR // _MINUTE
    if days >= 3:
        return f"{days} d"
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else "now"


def visible(text: object) -> list[tuple[str, bool]]:
    """Foreign text in NFC as pieces (text, hidden): a control, bidi or zero-width character becomes its code point.

    At most LONGEST_SHOWN characters; what is longer ends in "…". Joiners between letters of one word stay as they are.
    """
    whole = unicodedata.normalize("NFC", str(text))
    shown = whole[:LONGEST_SHOWN] + ("…" if len(whole) > LONGEST_SHOWN else "")
    pieces: list[tuple[str, bool]] = []
    plain: list[str] = []
    for place, character in enumerate(shown):
        if not _hidden(shown, place):
            plain.append(character)
            continue
        if plain:
            pieces.append(("".join(plain), False))
            plain = []
        pieces.append((f"U+{ord(character):04X}", True))
    if plain:
        pieces.append(("".join(plain), False))
    return pieces


def plain(text: object) -> str:
    """Foreign text as one string, hidden characters as their code points."""
    return "".join(piece for piece, _ in visible(text))


def now() -> datetime:
    """The database's time as this request began, or outside of one the machine's."""
    person = g.get("person")
    return person.now if person else datetime.now(UTC)


def _hidden(text: str, place: int) -> bool:
    character = text[place]
    if character in _PLAIN_SPACES:
        return False
    if character in _BLANK or 0xE0000 <= ord(character) <= 0xE01EF:
        return True
    if character == "\u200d":
        return not _joins(text, place)
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _joins(text: str, place: int) -> bool:
    """A zero-width joiner that does what it is for: inside an emoji, or between letters of an Indic word."""
    if not 0 < place < len(text) - 1:
        return False
    before, after = text[place - 1], text[place + 1]
    emoji = unicodedata.category(after) == "So" and (unicodedata.category(before) in ("So", "Sk") or before == "\ufe0f")
    return emoji or (unicodedata.category(before) == "Mn" and 0x0900 <= ord(before) <= 0x0DFF)


def _day(at: date) -> str:
    return f"{at.day} {at:%b}"


def shown_zone() -> ZoneInfo:
    """The zone that times are shown in: the person's own, or else the merchant's."""
    person, member = g.get("person"), g.get("member")
    if person and person.zone:
        return ZoneInfo(person.zone)
    return member.time_zone if member else ZoneInfo("UTC")
