"""What is in question about an order, in words: its discrepancies with both figures, two statements side by side, the ways out."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from console import words
from console.filters import instant, money
from ledger.allocation_checks import BLOCKING
from ledger.order_settling import Change, Choice

REASONS: Final = {
    "shop_confirmed": "The shop confirmed it", "invoice_seen": "The invoice says so", "provider_shows": "The provider shows it",
    "price_typed_wrong": "A price was typed wrong", "rounding": "It is rounding", "corrected_later": "The shop corrected it later",
    "sent_by_mistake": "It was sent by mistake", "other": "Another reason",
}  # fmt: skip
NAMES: Final = {
    "line_gap_large": "The lines do not come to the total",
    "explicit_mismatch": "The shares of a discount do not come to it",
    "negative_line": "A line is below zero, or a discount is larger than its lines",
    "currency_mixed": "A payment in another currency does not say what part of the order it paid",
    "no_exponent": "The currency is not a known one",
    "total_off_step": "The total is off the step in which its payment is refunded",
    "import_changed": "The shop stated it again, with other facts",
    "under_captured": "Less was captured than the total", "over_captured": "More was captured than the total",
    "capture_unlinked": "A payment is not tied to this order",
    "tax_gap": "The taxes do not come to the tax stated", "tax_over_gross": "The tax of a line is above its price",
    "tax_unallocated": "A line states no tax", "cash_rounding": "Cash was rounded to its smallest coin",
    "line_gap_small": "The lines miss the total by rounding", "line_gap_settled": "The gap was spread over the lines by value",
    "total_settled": "Another total stands than the one stated", "off_step": "Lines were put on the step of their payment",
    "settled_by_people": "Two people settled it",
}  # fmt: skip
# Of each discrepancy what was said, and what stands against it.
_SIDES: Final = {
    "line_gap_large": ("total_minor", "Total stated", "lines_minor", "Lines together"),
    "explicit_mismatch": ("discount_minor", "Discount stated", "shares_minor", "Its shares together"),
    "under_captured": ("total_minor", "Total stated", "captured_order_minor", "Captured"),
    "over_captured": ("total_minor", "Total stated", "captured_order_minor", "Captured"),
    "tax_gap": ("tax_total_minor", "Tax stated", "lines_tax_minor", "Taxes of the lines"),
}  # fmt: skip
_STANDS: Final = {
    "total": "the stated total stands, and the difference is shared out over the lines by value",
    "captured": "what was captured stands as the total, and the lines are brought to it by value",
    "lines": "the lines stand, and their sum is the total",
}  # fmt: skip
METHODS: Final = {
    "value.cumulative@1": "by value", "value.largest_remainder@1": "by value, what is left over to the largest remainders",
    "quantity.cumulative@1": "by number of units",
}  # fmt: skip
_FIELDS: Final = {
    "total_minor": "Total", "tax_total_minor": "Tax in all", "placed_at": "Placed", "price_mode": "Prices", "zone": "Zone",
    "region": "Country", "channel": "Channel", "currency": "Currency", "customer": "Customer", "quantity": "Units",
    "unit_price_minor": "Price of a unit", "gross_minor": "Charged, tax in", "tax_minor": "Tax", "title": "Name", "sku": "Article",
    "captured_minor": "Captured", "order_minor": "Part of this order", "minor": "Amount", "shares": "Shares",
    "discounts": "Discounts",
    "taxes": "Tax by code", "delivered_at": "Delivered", "shipment": "Parcel", "position": "Place", "kind": "Kind",
    "list_price_minor": "List price", "applies_to": "Lines", "method": "Method", "tender": "Tender",
    "invoice_ref": "Invoice", "captured_at": "Captured on", "charge_ref": "Charge", "payment_intent_ref": "Payment at the provider",
}  # fmt: skip
_PARTS: Final = {"order": "Order", "lines": "Line", "captures": "Payment", "order_discounts": "Discount"}


def name(code: str) -> str:
    """The sentence of a discrepancy."""
    return NAMES.get(code, words.sentence(code.replace("_", " ")))


def discrepancy(code: str, facts: Mapping[str, Any], currency: str) -> dict[str, Any]:
    """{title, code, blocking, said, said_minor, is, is_minor, difference_minor, about}: amounts None where it is not about two."""
    row: dict[str, Any] = {
        "title": name(code), "code": code, "blocking": code in BLOCKING or code == "import_changed", "said": "",
        "said_minor": None, "is": "", "is_minor": None, "difference_minor": None,
        "about": str(facts.get("discount") or facts.get("line") or facts.get("capture") or ""),
    }  # fmt: skip
    if code in _SIDES:
        said, said_label, other, other_label = _SIDES[code]
        if said in facts and other in facts:
            row |= {"said": said_label, "said_minor": facts[said], "is": other_label, "is_minor": facts[other],
                    "difference_minor": facts[other] - facts[said]}  # fmt: skip
    elif code == "total_off_step":
        row["about"] = f"step {money(int(facts['step_minor']), currency)} {currency}"
    return row


def changed(one: Change, currency: str) -> dict[str, str]:
    """{about, field, old, new}: "–" where a statement says nothing."""
    part, _, ref = one.about.partition(" ")
    about = f"{_PARTS.get(part, part)} {ref}".strip()
    if not one.field:
        return {
            "about": about,
            "field": "the whole of it",
            "old": _whole(one.old, currency),
            "new": _whole(one.new, currency),
        }
    label = _FIELDS.get(one.field, one.field.removesuffix("_minor").replace("_", " "))
    return {
        "about": about,
        "field": label,
        "old": value(one.field, one.old, currency),
        "new": value(one.field, one.new, currency),
    }


def value(field: str, said: Any, currency: str) -> str:
    """A stated fact as text."""
    if said is None or said in ({}, []):
        return "–"
    if field.endswith("minor") and isinstance(said, int):
        return f"{money(said, currency)} {currency}"
    if field.endswith("_at") and isinstance(said, str):
        return instant(datetime.fromisoformat(said))
    if isinstance(said, Mapping):
        return ", ".join(
            f"{key} {value('minor' if field == 'shares' else key, one, currency)}" for key, one in said.items()
        )
    if isinstance(said, list):
        return "; ".join(value("", one, currency) for one in said)
    return str(said)


def _whole(part: Mapping[str, Any] | None, currency: str) -> str:
    if part is None:
        return "–"
    if "title" in part:
        minor = part.get("gross_minor", part["quantity"] * part["unit_price_minor"])
        return f"{part['quantity']} × {part['title']}, {money(minor, currency)} {currency}"
    if "captured_minor" in part:
        code = str(part["currency"])
        return f"{part['tender'].replace('_', ' ')}, {money(part['captured_minor'], code)} {code}"
    return value("minor", part.get("minor"), currency)


def way(one: Choice, when: Mapping[Any, datetime], several: bool) -> str:
    """What a choice says, as one sentence."""
    return chosen(one.statement.conflict_id, one.settle.document(), when, several)


def chosen(conflict_id: Any, choice: Mapping[str, Any], when: Mapping[Any, datetime], several: bool) -> str:
    """The same of a stored settlement. `when`: at what time each other statement came; `several`: whether there is one."""
    start = []
    if conflict_id is not None:
        at = when.get(conflict_id)
        start.append(f"what was stated {instant(at)} stands" if at else "what was stated later stands")
    elif several:
        start.append("what was stated first stands")
    targets = sorted({tuple(refs) for refs in choice.get("targets", {}).values()})
    ways = [f"what is below zero comes off {_listed(refs)}" for refs in targets]
    methods = sorted(set(choice.get("methods", {}).values()))
    ways += [f"the discount is shared out {METHODS.get(method, method)}" for method in methods]
    if choice.get("stands"):
        ways.append(_STANDS[choice["stands"]])
    return words.sentence("; ".join([*start, *ways]) or "as it is")


def _listed(refs: Iterable[str]) -> str:
    named = list(refs)
    return f"line {named[0]}" if len(named) == 1 else f"the lines {', '.join(named)} by value"
