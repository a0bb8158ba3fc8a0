"""By when what is owed has to be paid. Calendar days in the zone of the order; working days where the law counts those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from ledger.calendar_days import add_days, end_of_day, local_day, working_days_after
from ledger.entitlement_windows import zone_of
from ledger.entitlement_working import RuleResult, Working
from ledger.unit_ranges import Range, minus

PAY_WITHIN_DAYS = 14
US_DAYS = 7
"""Business days for a credit to a card once a return is accepted (Regulation Z), working days for what was never shipped
(16 CFR 435)."""
_US_HOLIDAYS = "US@2026"


def due_at(work: Working) -> str | None:
    """The last second of the last day, as UTC text; None while what it counts from is not known."""
    last = _last_day(work)
    return end_of_day(last, zone_of(work)) if last is not None else None


def inspect_by(work: Working) -> str | None:
    """By when goods that are here and wait for a person to look at them are looked at, as the policy says; None: none wait."""
    here = [row.at for row in work.evidence.received if row.at and row.count]
    if not here or not any(minus(units, _seen(work, line_id)) for line_id, units in work.announced.items()):
        return None
    asks = [part for part in work.each if part.policy.refund_trigger == "inspected"]
    days = min((part.policy.inspect_within_days for part in asks), default=None)
    if days is None:
        return None
    return end_of_day(add_days(local_day(min(here), zone_of(work)), days), zone_of(work))


def act_by(record: Mapping[str, Any]) -> str | None:
    """When somebody has to have acted on a record: goods that are here looked at, or what is owed paid; UTC text."""
    known = [at for at in (record.get("due_at"), record.get("inspect_by")) if at is not None]
    return min(known, default=None)


def _seen(work: Working, line_id: str) -> list[Range]:
    return [span for ranges, _ in work.graded.get(line_id, ()) for span in ranges]


def overrun(work: Working) -> Iterator[RuleResult]:
    """Where looking at the goods may take longer than the law lets the payment wait: somebody pays, or documents what comes off."""
    due, look = due_at(work), inspect_by(work)
    if work.preset is not None and due is not None and look is not None and look > due:
        yield RuleResult(
            "evidence.trigger", "needs_review", "case", "looking_may_overrun", (f"due:{due}", f"look_by:{look}")
        )


def _last_day(work: Working) -> date | None:
    zone, said = zone_of(work), [row.sent_at for row in work.evidence.units if row.sent_at]
    goods = [row.at for row in work.evidence.received if row.at and row.count] + [row.at for row in work.evidence.sent]
    if work.preset is None or work.preset.kind == "undisclosed":
        days = min(terms.pay_within_days for terms in work.policy.each)
        agreed = [add_days(local_day(min(said), zone), days)] if said and work.preset is None else []
        return min([*agreed, *_united_states(work, said, goods)], default=None)
    if work.preset.due in ("goods", "agreed"):
        from_day = goods or said
        return add_days(local_day(min(from_day), zone), PAY_WITHIN_DAYS) if from_day else None
    if not said:
        return None
    last = add_days(local_day(min(said), zone), PAY_WITHIN_DAYS)
    if goods:
        return max(last, local_day(min(goods), zone))
    return last if work.evidence.collection_offered else None


def _united_states(work: Working, said: list[str], goods: list[str]) -> list[date]:
    """What federal law sets for every consumer in the United States, whatever the shop's own terms are."""
    if work.sale.customer_type != "consumer" or not (work.sale.region or "").startswith("US"):
        return []
    by_card = any(row.tender == "card" for row in work.priors.captures)
    begins = said if work.evidence.kind == "cancellation" else goods if by_card else []
    return [working_days_after(local_day(min(begins), zone_of(work)), US_DAYS, _US_HOLIDAYS)] if begins else []
