"""The cards of the metrics: each a chart, what it says, and a table with the same figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

from console import charts
from console.charts import Chart
from console.filters import instant, money, plain
from console.shell import initials
from console.words import counted
from ledger.queries.measures import Measures

# How many days, and how many labels stand under a chart of so many: each covers as many days as the others.
SPANS: Final = {7: 7, 28: 4, 91: 7}
MOST_PEOPLE: Final = 12
_AGES: Final = ("under 1 d", "1–3 d", "3–7 d", "7–14 d", "14–30 d", "over 30 d")
_UNKNOWN: Final = ("under 15 min", "15–60 min", "1–6 h", "6–23 h", "over 23 h")
_REFUSED: Final = {"already_refunded": "refunded already", "joined": "joined an open case", "stale": "stale page"}


def _by_day(days: Sequence[date], rows: Iterable[Any], name: str = "number") -> list[int]:
    found: Counter[date] = Counter()
    for row in rows:
        found[row["day"]] += row[name]
    return [found[day] for day in days]


def _labels(days: Sequence[date]) -> list[str]:
    """The first day of each stretch that a label covers."""
    stretch = len(days) // SPANS[len(days)]
    return [instant(days[place], "day") for place in range(0, len(days), stretch)]


def totals(found: Measures) -> list[dict[str, str]]:
    """The figures of the period in one line: {label, figure, says}."""
    decisions = [*found.approved, *found.rejected]
    opened, decided, in_time = (
        sum(row[name] for row in rows)
        for rows, name in ((found.opened, "number"), (decisions, "decided"), (decisions, "in_time"))
    )
    kinds: Counter[str] = Counter()
    for row in found.refused:
        kinds[row["kind"]] += row["number"]
    return [
        {"label": "Opened", "figure": f"{opened:,}", "says": "cases"},
        {"label": "Decided", "figure": f"{decided:,}", "says": "approved or rejected"},
        {"label": "In time", "figure": _share(in_time, decided),
         "says": f"{decided - in_time:,} late" if decided else "nothing decided"},
        {"label": "Asked twice", "figure": f"{kinds['already_refunded'] + kinds['joined']:,}",
         "says": f"{kinds['already_refunded']:,} refused, {kinds['joined']:,} joined"},
        {"label": "Stale, refused", "figure": f"{kinds['stale']:,}", "says": "changed while it was looked at"},
    ]  # fmt: skip


def _share(part: int, whole: int) -> str:
    """Whole per cent, cut: 100 % is said only of all."""
    return f"{part * 100 // whole} %" if whole else "–"


def _card(
    key: str, title: str, chart: Chart, head: Sequence[str], rows: Sequence[Sequence[Any]], **more: Any
) -> dict[str, Any]:
    return {"id": key, "title": title, "chart": chart, "head": head, "rows": rows, "folded": len(rows) > 8, "note": "", "unit": "",
            "nothing": "", "end": ""} | more  # fmt: skip


def _of_days(days: Sequence[date], *columns: Sequence[Any]) -> list[list[Any]]:
    """The newest first, as a table of what happened is read."""
    return [
        [instant(day, "day"), *(column[place] for column in columns)] for place, day in reversed(list(enumerate(days)))
    ]


def cards(days: Sequence[date], found: Measures) -> list[dict[str, Any]]:
    """The charts of a period, a card each as measures.html names it; `days` are all of its days."""
    decisions = [*found.approved, *found.rejected]
    decided, in_time = _by_day(days, decisions, "decided"), _by_day(days, decisions, "in_time")
    return [
        _throughput(days, _by_day(days, found.opened), decided),
        _sla(days, decided, in_time),
        _ages(found),
        _unknown(found),
        _refused(days, found),
        *_caps(days, found),
    ]


def _throughput(days: Sequence[date], opened: list[int], decided: list[int]) -> dict[str, Any]:
    chart = charts.lines(
        ("opened", "decided"),
        (opened, decided),
        f"{counted(sum(opened), 'case was', 'cases were')} opened and {sum(decided)} decided.",
        _labels(days),
    )
    return _card("throughput", "Opened and decided", chart, ("Day", "Opened", "Decided"), _of_days(days, opened, decided),
                 end="cases a day", nothing="" if any(opened) or any(decided) else "Nothing was opened or decided.")  # fmt: skip


def _sla(days: Sequence[date], decided: list[int], in_time: list[int]) -> dict[str, Any]:
    late = [all_ - good for all_, good in zip(decided, in_time, strict=True)]
    chart = charts.bars(
        ("in time", "late"), [instant(day, "day") for day in days], (in_time, late),
        f"In time: {sum(in_time)} of {counted(sum(decided), 'decision', 'decisions')}.", _labels(days), stacked=True,
    )  # fmt: skip
    return _card("sla", "Decided in time", chart, ("Day", "In time", "Late"), _of_days(days, in_time, late),
                 end=f"{_share(sum(in_time), sum(decided))} in time", nothing="" if any(decided) else "Nothing was decided.",
                 note="By when the case is due, which a refund that came back moves.")  # fmt: skip


def _ages(found: Measures) -> dict[str, Any]:
    numbers = _by_bracket(len(_AGES), found.ages)
    chart = charts.bars(("open cases",), _AGES, (numbers,), f"{counted(sum(numbers), 'case is', 'cases are')} open.")
    return _card("ages", "Age of open cases", chart, ("Age", "Cases"), list(zip(_AGES, numbers, strict=True)),
                 end=f"now, {sum(numbers):,} open", nothing="" if any(numbers) else "No case is open.")  # fmt: skip


def _unknown(found: Measures) -> dict[str, Any]:
    unknown = _by_bracket(len(_UNKNOWN), [row for row in found.unknown if row["state"] == "unknown"])
    person = _by_bracket(len(_UNKNOWN), [row for row in found.unknown if row["state"] != "unknown"])
    says = f"Answer not known: {counted(sum(unknown), 'refund', 'refunds')}; needs a person: {sum(person)}."
    chart = charts.bars(("answer not known", "needs a person"), _UNKNOWN, (unknown, person), says)
    return _card("unknown", "Unknown outcomes", chart, ("Since", "Answer not known", "Needs a person"),
                 list(zip(_UNKNOWN, unknown, person, strict=True)), end="now, by how long",
                 nothing="" if any(unknown) or any(person) else "Every refund that was sent is answered.")  # fmt: skip


def _by_bracket(brackets: int, rows: Iterable[Any]) -> list[int]:
    found = Counter({row["bracket"]: row["number"] for row in rows})
    return [found[bracket] for bracket in range(brackets)]


def _refused(days: Sequence[date], found: Measures) -> dict[str, Any]:
    columns = [_by_day(days, [row for row in found.refused if row["kind"] == kind]) for kind in _REFUSED]
    says = ", ".join(f"{sum(column)} {name}" for column, name in zip(columns, _REFUSED.values(), strict=True))
    chart = charts.bars(
        tuple(_REFUSED.values()),
        [instant(day, "day") for day in days],
        columns,
        f"{says}.",
        _labels(days),
        stacked=True,
    )
    nothing = "" if any(map(any, columns)) else "Nothing was asked twice, and no page was stale."
    head = ("Day", *_REFUSED.values())
    return _card(
        "refused",
        "Second attempts and stale pages",
        chart,
        head,
        _of_days(days, *columns),
        end="a day",
        nothing=nothing,
    )


def _caps(days: Sequence[date], found: Measures) -> list[dict[str, Any]]:
    """A card for each currency: how much of the day's limit was spoken for. A limit of nothing has no share."""
    made = []
    for currency in sorted({row["currency"] for row in found.caps if row["limit_minor"]}):
        rows = {row["day"]: row for row in found.caps if row["currency"] == currency and row["limit_minor"]}
        shares = {day: row["used_minor"] * 100 // row["limit_minor"] for day, row in rows.items()}
        says = f"At most {max(shares.values())} % of the day's {currency} cap was spoken for."
        chart = charts.bars(
            ("% spoken for",), [instant(day, "day") for day in days], ([shares.get(day, 0) for day in days],), says, _labels(days),
            least_top=100,
        )  # fmt: skip
        table = [
            (
                instant(day, "day"),
                *(money(row[name], currency) for name in ("used_minor", "limit_minor")),
                f"{shares[day]} %",
            )
            for day, row in sorted(rows.items(), reverse=True)
        ]
        made.append(_card(f"cap-{currency}", f"Daily cap, {currency}", chart, ("Day", "Used", "Limit", "Share"), table, unit=" %",
                          end=f"most {max(shares.values())} %"))  # fmt: skip
    return made


def people(found: Measures) -> dict[str, Any] | None:
    """Who decided what; a chart of those who decided most, all of them in the table."""
    acts: dict[str, Counter[str]] = {}
    for name, rows, column in (
        ("approved", found.approved, "number"), ("rejected", found.rejected, "number"),
        ("overridden", found.approved, "overridden"), ("asked", found.asked_otherwise, "number"),
    ):  # fmt: skip
        for row in rows:
            acts.setdefault(row["actor"], Counter())[name] += row[column]
    if not acts:
        return None
    order = sorted(acts, key=lambda actor: (-acts[actor]["approved"] - acts[actor]["rejected"], _name(found, actor)))
    shown = order[:MOST_PEOPLE]
    approved, rejected = ([acts[actor][what] for actor in shown] for what in ("approved", "rejected"))
    chart = charts.bars(
        ("approved", "rejected"), [_name(found, actor) for actor in shown], (approved, rejected),
        f"{counted(len(order), 'person or policy', 'people or policies')} decided.",
        [_short(found, actor) for actor in shown], stacked=True,
    )  # fmt: skip
    columns = ("approved", "rejected", "overridden", "asked")
    table = [(_name(found, actor), *(acts[actor][what] for what in columns)) for actor in order]
    head = ("Who", "Approved", "Rejected", "Approved another amount", "Asked for another amount")
    more = f"the {MOST_PEOPLE} who decided most; all below" if len(order) > MOST_PEOPLE else "who decided most first"
    return _card("people", "Decisions by person", chart, head, table, end=more, folded=False)


def _name(found: Measures, actor: str) -> str:
    if actor.startswith("policy:"):
        return f"Policy {actor.removeprefix('policy:')}"
    return plain(found.names.get(actor, "somebody else"))


def _short(found: Measures, actor: str) -> str:
    return "Policy" if actor.startswith("policy:") else initials(_name(found, actor))
