"""Metrics for managers and finance: what a period brought, how fast it was decided and by whom, and what is open now.

The period is in the address: how many business days, and the last of them. All figures are counts or shares of a cap; amounts of
refunds are not added up over currencies.
"""

from datetime import date, datetime, timedelta
from typing import Any, Final

from flask import Blueprint, Response, request, url_for

from console.access import current, permission, reading
from console.filters import now
from console.fragments import page
from console.measure_cards import SPANS, cards, people, totals
from ledger.queries.measures import MOST_READ, Measures, Period, read_measures

blueprint = Blueprint("measures", __name__, url_prefix="/<merchant_slug>/metrics")

USUAL_DAYS: Final = 28


@blueprint.get("/")
@permission("see_metrics")
def index() -> Response:
    period = period_asked()
    with reading() as db:
        found = read_measures(db, current.merchant_id, period)
        return page("measures.html", **_page(period, found))


def period_asked() -> Period:
    """The period of the address: `days` of SPANS up to `until`; what is neither counts as not said, and no day is to come."""
    today = now().astimezone(current.time_zone).date()
    days = int(text) if (text := request.args.get("days", "")) in {str(span) for span in SPANS} else USUAL_DAYS
    try:
        last = min(date.fromisoformat(request.args.get("until", "")), today)
    except ValueError:
        last = today
    last = max(last, date(2000, 1, 1))
    first = last - timedelta(days=days - 1)
    return Period(first, last, _midnight(first), _midnight(last + timedelta(days=1)), current.zone)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=current.time_zone)


def _page(period: Period, found: Measures) -> dict[str, Any]:
    days = [period.first_day + timedelta(days=n) for n in range((period.last_day - period.first_day).days + 1)]
    return {
        "spans": _spans(period), "earlier_url": _address(len(days), period.first_day - timedelta(days=1)),
        "later_url": _address(len(days), period.last_day + timedelta(days=len(days))) if period.last_day < _today() else None,
        "first_day": period.first_day, "last_day": period.last_day, "cut": f"{MOST_READ:,}" if found.cut else "",
        "totals": totals(found), "cards": cards(days, found), "people": people(found),
        "nothing": not (found.opened or found.approved or found.rejected or found.refused or found.caps),
        "export_url": url_for("exports.show", what="metrics", since=period.first_day, until=period.last_day)
        if current.may("export") else None,
    }  # fmt: skip


def _today() -> date:
    return now().astimezone(current.time_zone).date()


def _address(days: int, last: date) -> str:
    return url_for("measures.index", days=days, until=min(last, _today()).isoformat())


def _spans(period: Period) -> list[dict[str, Any]]:
    here = (period.last_day - period.first_day).days + 1
    return [{"text": f"{days} days", "url": _address(days, period.last_day), "here": days == here} for days in SPANS]
