"""What codes are called on the desks: channels, reasons, stages, units, destinations. One word per idea (DESIGN §8)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from wtforms.fields.choices import SelectChoice  # type: ignore[attr-defined]

from console.access import current
from console.filters import age, money, now, shown_zone
from console.shell import initials

CHANNELS: Final = {
    "chat": "Chat", "voice": "Voice", "counter": "Counter", "email": "E-mail", "web": "Web", "api": "API",
    "warehouse": "Warehouse", "replay": "Replay", "dashboard": "the provider's dashboard",
}  # fmt: skip
REASONS: Final = {
    "changed_mind": "changed mind", "size": "size", "faulty": "faulty", "damaged": "damaged", "wrong_item": "wrong item",
    "other": "other",
}  # fmt: skip
NEVER_ARRIVED: Final = {"cancelled": "cancelled before it was sent", "not_delivered": "never arrived"}
REJECT_REASONS: Final = {
    "outside_window": "Outside the return window", "not_our_item": "Not our item", "not_returned": "Nothing was returned",
    "duplicate_request": "The same request twice", "no_duplicate_charge": "Not charged twice",
    "it_arrived": "It did arrive", "cured": "Repaired or replaced", "other": "Another reason",
}  # fmt: skip
WITHDRAW_REASONS: Final = {
    "not_yet": "Not yet", "wrong_units": "Wrong units", "customer_changed_mind": "The customer changed their mind",
    "suspicion": "Suspicion", "disputed": "The bank disputes it", "other": "Another reason",
}  # fmt: skip
SNOOZE_REASONS: Final = {
    "customer": "The customer answers", "parcel": "The parcel arrives", "warehouse": "The warehouse looks again",
    "colleague": "A colleague answers", "provider": "The provider answers", "other": "Another reason",
}  # fmt: skip
GRADES: Final = {
    "N": "unopened", "A": "as new", "B": "traces of trying", "C": "used", "D": "heavily used or incomplete",
    "M": "damaged or faulty, not by the customer", "X": "not our unit",
}  # fmt: skip
NOTABLE_GRADES: Final = frozenset("CDX")
# Stage of a case: the look of its badge (an intent state or None), its words, and an icon where it has no badge.
STAGES: Final[dict[str, tuple[str | None, str, str]]] = {
    "waiting_goods": (None, "Waiting: warehouse", "box"),
    "reading": (None, "Reading charges", "glass"),
    "ready": (None, "Ready", ""),
    "needs_person": ("needs_review", "Needs a person", ""),
    "nothing_due": (None, "Nothing is due", "minus"),
    "approved": ("approved", "", ""),
    "held": ("held", "", ""),
    "sending": ("submitting", "", ""),
    "unknown": ("unknown", "", ""),
    "pending": ("pending", "", ""),
    "needs_review": ("needs_review", "", ""),
    "paid": ("succeeded", "", ""),
    "came_back": ("reversed", "", ""),
    "refused": ("failed", "", ""),
    "rejected": ("withdrawn", "Rejected", ""),
    "exchanged": (None, "Exchanged", "check"),
}
_PLAIN_BADGES: Final = {
    "waiting_goods": "Waiting: warehouse",
    "reading": "Reading charges",
    "ready": "Ready",
    "nothing_due": "Nothing is due",
    "exchanged": "Exchanged",
}
_KINDS: Final = {
    "card": "card", "bank": "bank", "wallet": "wallet", "gift_card": "gift", "store_credit": "gift", "cash": "wallet",
    "exchange_credit": "gift",
}  # fmt: skip
_KIND_LABELS: Final = {
    "card": "Card", "bank": "Bank account", "wallet": "Wallet", "gift_card": "Gift card", "store_credit": "Store credit",
    "cash": "Cash", "exchange_credit": "Exchange credit",
}  # fmt: skip
_BRANDS: Final = {
    "amex": "American Express",
    "jcb": "JCB",
    "unionpay": "UnionPay",
    "paypal": "PayPal",
    "sepa_debit": "SEPA",
}


def case_reference(number: int) -> str:
    """How a case is called: "C-20431"."""
    return f"C-{number}"


def refund_reference(number: int) -> str:
    """How a refund intent is called: "R-1042"."""
    return f"R-{number}"


def channel(code: str) -> str:
    """A channel in words; one that this list does not know keeps its own name."""
    return CHANNELS.get(code, code.replace("_", " ").capitalize())


def destination(kind: str, brand: str, last4: str) -> dict[str, Any]:
    """Where the money goes, as the provider names it: {kind, label, last4}."""
    label = _BRANDS.get(brand, brand.replace("_", " ").title()) if brand else _KIND_LABELS.get(kind, kind)
    return {"kind": _KINDS.get(kind, "wallet"), "label": label, "last4": last4 or None}


def act(kind: str, charge_type: str = "own") -> dict[str, str]:
    """What a refund does besides sending money, for the pages that show it: {kind, says, warns}; says is "" for a refund."""
    says = {
        "cancel_payment": "Nothing was taken of this payment: it is let go, and no money is sent.",
        "manual": "No provider holds this money: after the approval a person pays it back by hand and records the reference.",
    }.get(kind, "")
    separate = kind == "refund" and charge_type == "separate"
    warns = "The seller keeps the transfer of this payment: reverse it by hand at the provider." if separate else ""
    return {"kind": kind, "says": says, "warns": warns}


def case_badge(stage: str) -> dict[str, str]:
    """The badge beside a case's name: {state, text}."""
    state, text, _ = STAGES[stage]
    return {"state": state or "proposed", "text": text or _PLAIN_BADGES.get(stage, "")}


def units(ranges: Iterable[tuple[int, int]]) -> str:
    """Half-open ranges from 0 as units counted from 1: "unit 2", "units 1 and 2", "units 1 to 5 and 7"."""
    parts, count = [], 0
    for a, b in ranges:
        count += b - a
        parts += [str(a + 1)] if b - a == 1 else [str(a + 1), str(b)] if b - a == 2 else [f"{a + 1} to {b}"]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "none"
    return f"{'unit' if count == 1 else 'units'} {text}"


def sentence(text: str) -> str:
    """The text with its first letter large, the rest as it is."""
    return text[:1].upper() + text[1:]


def due(due_at: datetime, closed_at: datetime | None = None, snoozed_until: datetime | None = None) -> dict[str, Any]:
    """The due chip: {kind, text, at}; late, today, tomorrow or the day, in `shown_zone`. Rest hides no lateness."""
    if closed_at is not None:
        return {"kind": "later", "text": "closed", "at": closed_at}
    at, today = due_at.astimezone(shown_zone()), now().astimezone(shown_zone()).date()
    if due_at < now():
        largest = " ".join(age(due_at).split()[:2])  # one unit: the chip of a queue row has no room for two
        return {"kind": "late", "text": f"{largest} late", "at": due_at}
    if snoozed_until is not None:
        until = snoozed_until.astimezone(shown_zone())
        return {"kind": "snoozed", "text": f"until {until.day} {until:%b}", "at": snoozed_until}
    if at.date() == today:
        return {"kind": "today", "text": f"due {at:%H:%M}", "at": due_at}
    text = "tomorrow" if at.date() == today + timedelta(days=1) else f"{at:%a} {at.day} {at:%b}"
    return {"kind": "later", "text": text, "at": due_at}


def person(staff_id: UUID, name: str) -> dict[str, Any]:
    """A member of staff beside a row: {name, short_name, initials, me}."""
    first, _, last = name.partition(" ")
    short = f"{first[:1]}. {last}" if last else name
    return {"name": name, "short_name": short, "initials": initials(name), "me": staff_id == current.staff_id}


# Who approved, where no person did.
POLICY: Final = {"name": "Policy", "short_name": "Policy", "initials": "P", "me": False}


# The contact of whoever was forgotten (ledger.erasure).
ERASED: Final = "Erased"


def customer(name: str) -> str:
    """A customer's name as this role may see it: a reader sees initials (SECURITY §2)."""
    if not name:
        return "no name given"
    return name if current.may("see_contact") or name == ERASED else masked(name)


def masked(name: str) -> str:
    """A name as initials: what leaves as a file has no more of it, whoever takes it out (S60)."""
    return " ".join(f"{word[0]}." for word in name.split()) or "hidden"


def sums(amounts: Iterable[tuple[str, int]]) -> str:
    """Totals by currency as text: "209.20 EUR, 12.00 GBP"."""
    totals: dict[str, int] = {}
    for currency, minor in amounts:
        totals[currency] = totals.get(currency, 0) + minor
    return ", ".join(f"{money(minor, currency)} {currency}" for currency, minor in sorted(totals.items()))


def choices(options: dict[str, str]) -> list[Any]:
    """Options of a select or radio field: value to label."""
    return [SelectChoice(value, label) for value, label in options.items()]


def counted(number: int, one: str, many: str) -> str:
    """ "1 refund", "3 refunds"."""
    return f"{number} {one if number == 1 else many}"


def held_too(held: int) -> str:
    """What is held as well after a key or an app was removed, as a further sentence; "" for none."""
    return f" {counted(held, 'refund', 'refunds')} it had approved and not sent yet: held." if held else ""


def customer_day(refunds: int, currency: str, minor: int) -> str:
    """ "3 refunds to this customer in 24 h, together 447.00 GBP": perhaps one refund split into many (S22)."""
    return f"{refunds} refunds to this customer in 24 h, together {money(minor, currency)} {currency}"
