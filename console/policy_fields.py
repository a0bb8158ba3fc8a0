"""The common terms of a policy as fields of a form: what a document says of each, and the document with what was typed over it.

A field that was not changed leaves the document as it is, whatever else it says; one that is emptied takes its term out of it, and
the default counts. Amounts are typed in major units by currency, shares in percent.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, get_args

from wtforms import BooleanField, Field, SelectField, StringField
from wtforms.validators import InputRequired, Length, Optional

from console import policy_words, words
from console.kind_words import ENTRIES
from console.typed import percent, percent_text
from ledger.money import EXPONENTS, MoneyError, format_minor, parse_major
from ledger.policies import of_before, terms_document
from ledger.policy_terms import FeeRule, Goodwill, PolicyTerms, ShippingPart, Warranty, Window

# The kinds of fee whose rule a policy chooses most; the others are in the document.
FEES: Final = ("insurance", "installation", "gift_wrap", "handling", "payment_surcharge")
AMOUNTS: Final = "Such as 250.00 EUR, 220.00 GBP."
LONGEST: Final = 400


@dataclass(frozen=True)
class Term:
    """One term by its path in the document. `kind`: how it is typed. `choices`: the codes it may have."""

    path: str
    kind: str
    hint: str = ""
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The field of the form."""
        return self.path.replace(".", "_")


def _codes(model: Any, field: str) -> tuple[str, ...]:
    return tuple(get_args(model.model_fields[field].annotation))


PARTS: Final[tuple[tuple[str, tuple[Term, ...]], ...]] = (
    ("Which policy", (
        Term("policy_id", "name", "Small letters, digits and dashes, such as returns. The same name makes its next version."),
        Term("title", "text", "What people call it."),
    )),
    ("Time to return", (
        Term("window.days", "number", "Days."),
        Term("window.starts", "choice", choices=tuple(one for one in _codes(Window, "starts") if one != "dispatched")),
        Term("window.grace_days", "number", "Days."),
        Term("window.fixed_until", "day", "A seasonal last day such as 2027-01-31, if that is later."),
        Term("final_sale", "flag"),
    )),
    ("When it is paid", (
        Term("refund_trigger", "choice", choices=_codes(PolicyTerms, "refund_trigger")),
        Term("advance_max_minor", "ceiling", "Empty: nothing is."),
        Term("inspect_within_days", "number", "Days from when the goods are here."),
        Term("pay_within_days", "number", "Days."),
    )),
    ("What comes off", (
        Term("grade_bps.C", "percent", "Percent of the value, such as 30 or 12.5; 0: nothing comes off."),
        Term("grade_bps.D", "percent", "The same."),
        Term("grade_photo_from", "choice", choices=_codes(PolicyTerms, "grade_photo_from")),
        Term("restocking.bps", "percent", "Percent of the value, where it was told at the sale."),
        Term("label.minor", "amounts", "Empty: nothing."),
    )),
    ("Shipping", tuple(
        # Where it is our fault all of it goes back, whatever a policy says.
        Term(f"shipping.{name}", "choice", choices=_codes(ShippingPart, name))
        for name in ShippingPart.model_fields if name != "merchant_fault"
    )),
    ("Who decides", (
        Term("routes.manager_from_minor", "amounts", "Where a currency is not named, every amount."),
        Term("routes.two_managers_from_minor", "amounts", "Empty: never."),
        Term("routes.factor_from_minor", "amounts", "A code of an app, or a passkey. Empty: never."),
        Term("routes.passkey_from_minor", "amounts", "The passkey signs exactly this refund. Empty: never."),
    )),
    ("Without a return", (
        Term("goodwill.max_minor", "amounts", "More takes two managers. Empty: nothing."),
        Term("goodwill.entry", "choice", choices=_codes(Goodwill, "entry")),
        Term("keep_item.max_bps", "percent", "Percent of what a unit cost."),
        Term("keep_item.max_minor", "amounts", "Beside the share. Empty: the share alone counts."),
        Term("keep_item.closes_unit", "flag"),
        Term("price_adjust.days", "number", "Days after the sale."),
    )),
    ("Exchange", (Term("exchange.allowed", "flag"),)),
    ("Faults and warranty", (
        Term("faulty.refund_first", "flag"),
        Term("warranty.method", "choice", choices=_codes(Warranty, "method")),
        Term("warranty.months", "number", "Months since the delivery."),
        Term("warranty.full_months", "number", "Months."),
    )),
    ("Fees", tuple(Term(f"fees.{name}", "choice", choices=("", *get_args(FeeRule))) for name in FEES)),
)  # fmt: skip
TERMS: Final = tuple(term for _, terms in PARTS for term in terms)
_DEFAULTS: Final = PolicyTerms(policy_id="none", version=1).document()
# What a document of before says by its one word for shipping: with more words the defaults of these would be others.
_ONE_WORD: Final = ("shipping", "grade_bps", "advance_max_minor")


class Unread(ValueError):
    """What was typed cannot be read; the message says what to write."""


def fields() -> dict[str, Any]:
    """The fields of the form, by name."""
    return {term.name: _field(term) for term in TERMS}


def _field(term: Term) -> Any:
    label = policy_words.label(term.path)
    if term.kind == "flag":
        return BooleanField(label)
    if term.kind == "choice":
        codes = ENTRIES if term.path == "goodwill.entry" else _GRADES if term.path == "grade_photo_from" else {}
        said = {code: words.sentence(codes.get(code) or policy_words.value(term.path, code)) for code in term.choices}
        return SelectField(label, choices=words.choices(said), description=term.hint)
    hint = f"{AMOUNTS} {term.hint}" if term.kind in _IN_AMOUNTS else f"{term.hint}{_empty(term)}"
    need = InputRequired("Policy: give it a name") if term.kind == "name" else Optional()
    short = Length(max=LONGEST, message=f"{label}: write at most {LONGEST} characters")
    return StringField(label, description=hint.strip(), validators=[need, short])


_GRADES: Final = {"C": "C and worse", "D": "D alone", "never": "No grade"}


def _empty(term: Term) -> str:
    if term.kind not in ("number", "percent") or "Empty" in term.hint:
        return ""
    return f" Empty: {_SHOWN[term.kind](_at(_DEFAULTS, term.path))}."


def said(document: dict[str, Any]) -> dict[str, Any]:
    """What a document says of each term, as the form shows it; where it says nothing, the default."""
    read = _as_read(document)
    return {term.name: _shown(term, read) for term in TERMS}


def laid_over(document: dict[str, Any], typed: dict[str, Field]) -> dict[str, Any]:
    """The document with what was typed over it. What cannot be read becomes the error of its field, and is not in it."""
    found, read = deepcopy(document), _as_read(document)
    # Shipping first: what its one word said of other terms is there before they are changed.
    for term in sorted(TERMS, key=lambda one: not one.path.startswith("shipping.")):
        field = typed[term.name]
        text = bool(field.data) if term.kind == "flag" else str(field.data or "").strip()
        try:
            value = _read(term, text)
        except (Unread, MoneyError) as error:
            field.errors = [f"{field.label.text}: {error}"]
            continue
        if text == _shown(term, read) or (_is_there(read, term.path) and value == _at(read, term.path)):
            continue
        if term.path.startswith("shipping.") and of_before(found):
            found |= {name: deepcopy(read[name]) for name in _ONE_WORD}
            found["shipping"]["merchant_fault"] = "full"
        _put(found, term.path, value, taken_out=text == "" and value != {})
    return found


def _read(term: Term, text: Any) -> Any:
    if term.choices and text not in term.choices:
        raise Unread("choose one of the list")
    return _READ[term.kind](text)


def _as_read(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what its one word for shipping says of other terms, where it has one."""
    return document | terms_document(document)


# What to write where a document holds something else than the field takes; whoever reads this sees no JSON.
_WRITE: Final = {
    "number": "write a whole number", "percent": "write 0 to 100 percent, such as 12.5", "day": "write a day such as 2027-01-31",
    "amounts": "write each amount with its currency, such as 250.00 EUR, 220.00 GBP",
}  # fmt: skip
_OF_JSON: Final = ("braces", "brackets", "quotes", "JSON")


def in_words(name: str, say: str) -> str:
    """What is said by a field of what the rules say of its term: nothing of how JSON is written."""
    if not any(word in say for word in _OF_JSON):
        return say
    kind = next(term.kind for term in TERMS if term.name == name)
    return _WRITE.get("amounts" if kind in _IN_AMOUNTS else kind, "choose it again")


def field_of(path: str) -> str:
    """The form's field that a term of this path is typed in, "" for one that only the document has."""
    found = (term.name for term in TERMS if path == term.path or path.startswith(f"{term.path}."))
    return next(found, "")


def _at(document: dict[str, Any], path: str) -> Any:
    at: Any = document
    for part in path.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at


def _shown(term: Term, document: dict[str, Any]) -> Any:
    value = _at(document if _is_there(document, term.path) else _DEFAULTS, term.path)
    try:
        return _SHOWN[term.kind](value)
    except (TypeError, ValueError, AttributeError):
        return ""


def _is_there(document: dict[str, Any], path: str) -> bool:
    """Whether the document says something there; null is something."""
    parent, _, last = path.rpartition(".")
    at = _at(document, parent) if parent else document
    return isinstance(at, dict) and last in at


def _put(document: dict[str, Any], path: str, value: Any, *, taken_out: bool) -> None:
    *parents, last = path.split(".")
    at = document
    for part in parents:
        if not isinstance(at.get(part), dict):
            at[part] = {}
        at = at[part]
    if not taken_out:
        at[last] = value
        return
    at.pop(last, None)
    if parents and not at:
        del document[parents[0]]


def _number(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise Unread("write a whole number")
    return int(text)


def _percent(text: str) -> int | None:
    found = percent(text) if text else None
    if text and found is None:
        raise Unread("write 0 to 100 percent, such as 12.5")
    return found


_IN_AMOUNTS: Final = ("amounts", "ceiling")
# What a policy of before there was a maximum says of money before receipt, and of nothing else.
_NO_MAXIMUM: Final = "no maximum"
_AMOUNT: Final = re.compile(r"([0-9.]+) ?([A-Za-z]{3})|([A-Za-z]{3}) ?([0-9.]+)")


def _ceiling(text: str) -> dict[str, int] | None:
    return None if text == _NO_MAXIMUM else _amounts(text)


def _amounts(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in (one.strip() for one in re.split(r"[,;]", text) if one.strip()):
        one = _AMOUNT.fullmatch(part)
        currency = (one[2] or one[3]).upper() if one else ""
        if one is None or currency not in EXPONENTS:
            raise Unread("write each amount with its currency, such as 250.00 EUR, 220.00 GBP")
        if currency in found:
            raise Unread(f"{currency} is there twice: keep one of them")
        found[currency] = parse_major(one[1] or one[4], currency)
    return found


def _day(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat() if text else None
    except ValueError:
        raise Unread("write a day such as 2027-01-31, or leave it empty") from None


def _amounts_text(found: dict[str, int] | None) -> str:
    return ", ".join(f"{format_minor(minor, currency)} {currency}" for currency, minor in sorted((found or {}).items()))


def _ceiling_text(found: dict[str, int] | None) -> str:
    return _NO_MAXIMUM if found is None else _amounts_text(found)


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "name": str, "text": str, "flag": bool, "choice": str, "number": _number, "percent": _percent, "amounts": _amounts, "day": _day,
    "ceiling": _ceiling,
}  # fmt: skip


def _text(found: Any) -> str:
    return "" if found is None else str(found)


_SHOWN: Final[dict[str, Callable[[Any], Any]]] = {
    "name": _text, "text": _text, "flag": bool, "choice": _text, "number": _text, "day": _text, "amounts": _amounts_text,
    "ceiling": _ceiling_text,
    "percent": lambda found: "" if found is None else percent_text(found),
}  # fmt: skip
