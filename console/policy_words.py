"""A policy in words: what its fields are called, their values, and why none decides a case."""

import re
from datetime import datetime
from typing import Any, Final

from console.filters import instant, money
from ledger.entitlement_presets import PRESETS
from ledger.policy_changes import Change

# By the beginning of a field's path, the longest first; the rest of a path is read as words.
_LABELS: Final = {
    "title": "Title", "priority": "Priority where two fit alike", "select.tenant": "For the shop", "select": "For sales by",
    "statutes": "Statutes (none named: by the order's region)", "holiday_calendar": "Calendar of holidays",
    "terms_basis": "Terms of which time", "window.days": "May be returned for", "window.starts": "Counted from",
    "refund_trigger": "Refunded once", "advance_max_minor": "At most before the goods are here",
    "inspect_within_days": "Inspected within", "pay_within_days": "Paid within", "grade_bps": "Off at most for grade",
    "routes.manager_from_minor": "A manager decides from", "routes.two_managers_from_minor": "Two managers decide from",
    "routes.factor_from_minor": "Approved with a second factor from", "routes.passkey_from_minor": "Approved with a passkey from",
    "routes.always": "Always decided by", "signals.counted": "Signs of risk raise who decides",
    "signals": "Sign of risk", "limits": "Limit of people",
    "automatic": "Approved by itself", "fee_tax_treatment": "Tax of fees", "final_sale": "Sold without a right to return",
    "grade_photo_from": "Photo and note needed from grade", "policy_id": "Name of the policy",
    "window.grace_days": "Days of grace after it", "window.fixed_until": "At least until",
    "restocking.bps": "Fee for taking back", "label.minor": "Our return label costs",
    "shipping.full_return": "Shipping paid back when all comes back",
    "shipping.partial_return": "Shipping paid back when some comes back",
    "shipping.merchant_fault": "Shipping paid back when it is our fault",
    "goodwill.max_minor": "Goodwill without being owed, up to",
    "goodwill.entry": "A goodwill amount is typed",
    "keep_item.max_bps": "Goods kept: back at most, of the price",
    "keep_item.max_minor": "Goods kept: back at most", "keep_item.closes_unit": "Goods kept: nothing more is paid for that unit",
    "price_adjust.days": "A lower price is made good for", "exchange.allowed": "An exchange is offered",
    "faulty.refund_first": "Faulty goods are refunded without a repair first",
    "warranty.method": "After the law’s time for faults, paid back", "warranty.months": "Warranty in all, months",
    "warranty.full_months": "Warranty at full value, months", "fees": "Paid back of the fee for",
    "exchange.ship_first": "The replacement is sent before the goods are back", "external_unallocated": "A refund made outside",
}  # fmt: skip
_VALUES: Final = {
    "announced": "it is announced", "proof_of_sending": "it is proven to be sent", "carrier_scan": "the carrier scanned it",
    "received": "the goods are received", "inspected": "the goods are inspected", "block": "stops refunds of its order",
    "cap_only": "only lowers what is left", "delivered": "the delivery", "placed": "the order", "dispatched": "the dispatch",
    "last_delivered": "the last delivery", "standard": "what standard delivery costs", "full": "all of it", "none": "nothing",
    "on_last_unit": "with the last of its goods", "with_first_unit": "with the first of its goods",
    "prorata": "the share of the months that are left", "with_goods": "with the goods it was paid for",
    "if_unused": "if it was not used", "never": "never", "": "as usual",
    "pro_rata_value": "in the share of the goods", "pro_rata_unless_flat": "in the share of the goods, unless it is flat",
}  # fmt: skip
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
NOTHING: Final = "nothing said"


def label(field: str) -> str:
    """ "routes.manager_from_minor.GBP" as "A manager decides from: GBP"."""
    known = max((name for name in _LABELS if field == name or field.startswith(f"{name}.")), key=len, default="")
    rest = field.removeprefix(known).strip(".")
    words = [re.sub(r"_(minor|bps|ppm|days)$", "", part).replace("_", " ") for part in rest.split(".") if part]
    words = [word for word in words if word != "minor"]
    text = ": ".join([_LABELS[known], *words] if known else words)
    return text[:1].upper() + text[1:]


def value(field: str, found: Any) -> str:
    """A value as a manager reads it: money in major units, shares in percent, days as days."""
    if found is None or found in ({}, []):
        return NOTHING
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, list):
        return ", ".join(value(field, one) for one in found)
    if isinstance(found, int):
        return _number(field, found)
    return _VALUES.get(found, str(found).replace("_", " ")) if field.split(".", maxsplit=1)[0] in _CODED else str(found)


_CODED: Final = frozenset(
    {"refund_trigger", "external_unallocated", "shipping", "promo", "window", "terms_basis", "fees", "routes", "label",
     "bundle_return", "undeclared", "tender_order", "capture_order", "fee_tax_treatment", "warranty", "allocation"}
)  # fmt: skip


def _number(field: str, number: int) -> str:
    parts = field.split(".")
    currency = next((part for part in parts if _CURRENCY.fullmatch(part)), "")
    if currency and any("minor" in part for part in parts):
        return f"{money(number, currency)} {currency}"
    if parts[-1].endswith("_bps") or (len(parts) > 1 and parts[-2].endswith("_bps")) or parts[-1] == "bps":
        return f"{number // 100}.{number % 100:02} %"
    if parts[-1].endswith("days"):
        return f"{number} day{'' if number == 1 else 's'}"
    return f"{number:,}"


def compared(found: list[Change]) -> list[dict[str, str]]:
    """Rows of a comparison: {field, label, was, now}."""
    return [
        {
            "field": one.field,
            "label": label(one.field),
            "was": value(one.field, one.old),
            "now": value(one.field, one.new),
        }
        for one in found
    ]


_MEND: Final = "Nothing is decided by itself. A manager {does} at the desk Policies; then choose “Work out again” here."
_COVERS: Final = "publishes one for the time of the sale"
_UNDECIDED: Final = {
    "missing": ("This shop has no policy.", _COVERS),
    "ended": ("The last policy ended on {at}, before this order was placed: it is too old to decide.", _COVERS),
    "begins": ("This order was placed before the first policy began on {at}.", _COVERS),
    "unreadable": ("The policy {policy} cannot be read.", "publishes a version that can, for the time of the sale"),
    "none_fits": ("No policy is for a sale like this one.", "publishes one that is"),
    "tie": ("Several policies fit alike: {policies}.", "publishes a version of one of them that says which goes first"),
    "several": (
        "The lines of this case fall under too many policies: {policies}. Reject it and open one return for each.",
        "can also make them one",
    ),
}


def no_policy(body: dict[str, Any]) -> str:
    """Why no policy decides a case, and who can mend it; `body` is that of its event."""
    said, does = _UNDECIDED[str(body["reason"])]
    at = instant(datetime.fromisoformat(body["at"]), "date") if "at" in body else ""
    policies = ", ".join(body.get("policies") or [])
    return f"{said.format(at=at, policy=body.get('policy', ''), policies=policies)} {_MEND.format(does=does)}"


_SIGNALS: Final = {
    "refunds_30d": "{} refunds of this customer in 30 days",
    "refund_value_90d_minor": "{money} refunded to this customer in 90 days",
    "return_rate_365d_bps": "{percent} of this customer's orders of a year came back",
    "not_received_365d": "{} times in a year goods were said not to have arrived",
    "grade_x_ever": "{} units of this customer were not ours",
    "serial_mismatch_ever": "{} wrong serial numbers came from this customer",
    "account_age_days": "the customer's first order is {} days old",
    "other_channel_open": "{} other cases are open in another channel",
    "external_refund_open": "{} refunds made outside wait to be matched",
    "dispute_365d": "{} payments of a year were disputed",
    "text_claims_approval": "a text speaks of an approval that is not on record",
}
_FIXED: Final = {
    "evidence.grade:D": "a unit is heavily used or incomplete", "routes.auto_enabled=false": "", "routes.auto_below_minor": "",
}  # fmt: skip


def route_reasons(route: dict[str, Any], currency: str, found: dict[str, str]) -> list[str]:
    """Why a route is what it is, one short sentence part for each reason. `found`: what rules found, by reason code."""
    return [text for text in (_because(str(one), currency, found) for one in route["because"]) if text]


def _because(reason: str, currency: str, found: dict[str, str]) -> str:
    if reason in _FIXED:
        return _FIXED[reason]
    name, _, detail = reason.partition(":")
    if name.startswith("signal."):
        return _signal(name.removeprefix("signal."), int(detail), currency)
    if name == "routes.always":
        return "the policy fixes who decides this, whatever the amount"
    if name == "duplicate.charge":
        return "a charge was made that is one too many"
    if name.startswith("routes."):
        who = "two managers decide" if "two_managers" in name else "a manager decides"
        amount, _, limit = detail.strip().partition(" of ")
        if not limit.isdecimal():
            return f"the policy names no amount in {currency} below which the desk decides"
        sum_, first = (f"{money(int(minor), currency)} {currency}" for minor in (amount, limit))
        return f"{sum_} with what goes beside it, and {who} from {first}"
    return found.get(detail, detail.replace("_", " "))


def _signal(name: str, number: int, currency: str) -> str:
    percent = f"{number // 100} %"
    return _SIGNALS[name].format(number, money=f"{money(number, currency)} {currency}", percent=percent)


def presets() -> list[dict[str, str]]:
    """What the law gives, as this version of the engine has it."""
    return [
        {"id": one.id, "what": _PRESET_WORDS[one.kind], "time": _preset_time(name), "paid": _DUE[one.due],
         "use": "yes, where it was told" if one.deductions else "no"}
        for name, one in PRESETS.items()
    ]  # fmt: skip


_PRESET_WORDS: Final = {
    "withdrawal": "withdrawing from a sale at a distance",
    "faulty": "faulty goods",
    "undisclosed": "terms that were not shown",
}
_DUE: Final = {
    "statement": "14 days from the statement, not before goods or proof of sending",
    "goods": "14 days from the goods or proof of sending", "agreed": "from when it is agreed",
}  # fmt: skip


def _preset_time(name: str) -> str:
    one = PRESETS[name]
    if one.kind != "faulty":
        return f"{one.days} days" + (", to the next working day" if one.rolls else "")
    if one.months is not None:
        return f"{one.months} months, presumed for {one.presumed_months}"
    return f"rejected within {one.cure_after_days} days, presumed for {one.presumed_months} months"
