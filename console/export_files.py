"""What stands in each file that finance takes out: its head, its statement, and how a row becomes cells.

Codes stay codes, for a file is joined with others; amounts stand in minor units and as decimals beside their currency. Customers
are initials. Rows are made while the file leaves, when the request is over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import RowMapping

from console import words
from console.csv_text import Amount, Cell
from console.reconciliation_parts import discrepancy_reference
from console.timeline import event_text, why
from ledger.ids import ids_between
from ledger.queries import exports as statements
from ledger.queries.case import Event
from ledger.queries.measures import AS_ROWS, Period, values_of


@dataclass(frozen=True)
class Source:
    """One file: `sql` takes `values` and `:most`."""

    head: tuple[str, ...]
    sql: str
    values: Mapping[str, Any]
    row: Callable[[RowMapping], Sequence[Cell]]


def _between(since: datetime, until: datetime) -> dict[str, Any]:
    floor, ceiling = ids_between(since, until)
    return {"since": since, "until": until, "floor": floor, "ceiling": ceiling}


_REFUNDS: Final = (
    "refund", "dated", "case", "order", "customer", "what", "case_kind", "reason", "channel", "state", "state_reason", "act",
    "amount_minor", "amount", "computed_minor", "currency", "destination", "asked_by", "approved_by", "second_approver",
    "approved_at", "paid_at", "came_back_at", "provider_refund", "provider_reference", "policy",
)  # fmt: skip


def refunds(merchant_id: UUID, since: datetime, until: datetime, dated: str) -> Source:
    """Refunds approved, or paid, from `since` on and before `until`; `dated`: approved or paid."""
    return Source(_REFUNDS, statements.REFUNDS[dated], {"m": merchant_id, **_between(since, until)}, _refund)


def _refund(row: RowMapping) -> Sequence[Cell]:
    place = words.destination(row["destination_kind"], row["destination_brand"], row["destination_last4"])
    destination = f"{place['label']} ending {place['last4']}" if place["last4"] else place["label"]
    return (
        words.refund_reference(row["number"]), row["dated_at"], words.case_reference(row["case_number"]), row["order_ref"],
        words.masked(row["customer"]) if row["customer"] else "", row["summary"], row["case_kind"], row["reason"], row["channel"],
        row["state"], why(row["state_reason"]) if row["state_reason"] else "", row["act"],
        row["amount_minor"], Amount(row["amount_minor"], row["currency"]), row["computed_minor"], row["currency"], destination,
        row["asked_by"], row["first_by"], row["second_by"], row["approved_at"], row["paid_at"], row["came_back_at"],
        row["provider_refund_ref"], row["provider_reference"], f"{row['policy_id']}@{row['policy_version']}",
    )  # fmt: skip


_CREDITS: Final = (
    "refund", "step", "dated", "order", "invoice", "case", "reason", "rule", "line", "units", "code", "rate_ppm", "gross_minor",
    "gross", "net_minor", "net", "tax_minor", "tax", "currency", "paid_minor", "paid_currency", "provider_refund",
    "left_to_a_person",
)  # fmt: skip


def credits_of(merchant_id: UUID, since: date, until: date) -> Source:
    """Credit entries dated from the one day to the other, both included, a row for each line and tax code."""
    return Source(_CREDITS, statements.CREDITS, {"m": merchant_id, "since": since, "until": until}, _credit)


def _credit(row: RowMapping) -> Sequence[Cell]:
    currency = row["order_currency"]
    figures = (row["gross_minor"], row["net_minor"], row["tax_minor"])
    amounts = [cell for minor in figures for cell in (minor, Amount(minor, currency))]
    return (
        words.refund_reference(row["number"]), row["step"], str(row["dated_on"]), row["order_ref"], row["invoice_ref"] or "",
        words.case_reference(row["case_number"]), row["reason"], row["rule"], row["line_ref"], row["units"], row["code"] or "",
        row["rate_ppm"], *amounts, currency, row["amount_minor"], row["currency"], row["provider_refund_ref"], row["person"],
    )  # fmt: skip


_DISCREPANCIES: Final = (
    "discrepancy", "kind", "about", "at_provider", "occurrence", "refund", "ours_minor", "ours", "ours_currency", "ours_state",
    "theirs_minor", "theirs", "theirs_currency", "theirs_status", "difference_minor", "dated", "found", "taken_by", "resolved_as",
    "resolution", "resolved_by", "resolved_at",
)  # fmt: skip


def discrepancies(merchant_id: UUID, run_id: UUID) -> Source:
    """What one run found, resolved since or not."""
    return Source(_DISCREPANCIES, statements.DISCREPANCIES, {"m": merchant_id, "run": run_id}, _discrepancy)


def _discrepancy(row: RowMapping) -> Sequence[Cell]:
    ours, theirs = _side(row["ours"], "state"), _side(row["theirs"], "status")
    difference = None
    if isinstance(ours[0], int) and isinstance(theirs[0], int) and ours[2] == theirs[2]:
        difference = theirs[0] - ours[0]
    return (
        discrepancy_reference(row["number"]), row["kind"], row["about"], row["refund_ref"], row["occurrence"],
        words.refund_reference(row["intent_number"]) if row["intent_number"] else "", *ours, *theirs, difference,
        row["dated_at"], row["found_at"], row["taken_by"], row["code"], row["note"], row["resolved_by"], row["resolved_at"],
    )  # fmt: skip


def _side(figures: Mapping[str, Any], state: str) -> tuple[Cell, Cell, Cell, Cell]:
    """Minor units, decimal, currency and state of one side; empty where it has none."""
    said = str(figures.get(state) or "")
    if "amount_minor" not in figures:
        return None, None, "", said
    minor, currency = int(figures["amount_minor"]), str(figures["currency"])
    return minor, Amount(minor, currency), currency, said


_TRAIL: Final = (
    "at", "case", "event", "kind", "what", "by", "actor", "refund", "from_state", "to_state", "reason", "hash",
)  # fmt: skip


def trail(merchant_id: UUID, since: datetime, until: datetime, actor: str, kinds: tuple[str, ...]) -> Source:
    """Events from `since` on and before `until`, oldest first; `actor` and `kinds` as in ledger.queries.trail."""
    values = {"m": merchant_id, "actor": actor, "kinds": list(kinds), **_between(since, until)}
    return Source(_TRAIL, statements.TRAIL, values, _event)


def _event(row: RowMapping) -> Sequence[Cell]:
    event = Event(**{name: row[name] for name in Event.__dataclass_fields__})
    return (
        row["at"], words.case_reference(row["case_number"]), row["number"], row["kind"], event_text(event), row["by"],
        row["actor"], words.refund_reference(row["intent_number"]) if row["intent_number"] else "", row["from_state"],
        row["to_state"], row["reason"], row["hash"].hex(),
    )  # fmt: skip


def metrics(merchant_id: UUID, period: Period) -> Source:
    """The figures of a period, a row each: the day, who or which currency, and the number; of what, where it is a part."""
    return Source(_METRICS, AS_ROWS, values_of(merchant_id, period), _figure)


_METRICS: Final = ("measure", "day", "who", "currency", "number", "of", "number_decimal", "of_decimal")


def _figure(row: RowMapping) -> Sequence[Cell]:
    parts = (row["number"], row["of"])
    decimals = (Amount(part, row["currency"]) if row["currency"] and part is not None else None for part in parts)
    return row["measure"], str(row["day"]), row["who"], row["currency"], *parts, *decimals
