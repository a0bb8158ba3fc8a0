"""A policy document before it is kept: every field is looked at, and what is wrong is named with what to do about it.

`extends` names one parent, an approved version of the same shop; the document is laid over it when it is drafted, and the
result is what is hashed, cited and compared. A parent's own selection, title and identity are not taken over.
"""

import json
import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final

from pydantic import ValidationError

from ledger.calendar_days import CALENDARS
from ledger.canonical import CanonicalError, canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.entitlement_presets import PRESETS
from ledger.order_document import FactsRefused, Problem, problems_of, read_json
from ledger.policies import PolicyDocument, terms_document
from ledger.policy_names import unmatched
from ledger.policy_terms import PolicyTerms, TermsRefused, read_terms

MAX_CHARACTERS: Final = 60_000
# Fields that say what a version is, not what it does; they are not taken over from a parent.
OWN: Final = frozenset(
    {"policy_id", "version", "title", "status", "extends", "effective_from", "effective_to", "select", "priority"}
)
# Read from the stored document by the console and the database, beside the terms of the engine.
_BESIDE: Final = ("limits", "automatic", "connect")
FIELDS: Final = (*(name for name in PolicyTerms.model_fields if name not in ("routes_of", "parts")), *_BESIDE)
_NO_FIELD: Final = "is not a field of a policy: remove it, or correct its name"

# What JSON can write and the database cannot keep: U+0000, and a surrogate without its other half.
_UNKEPT: Final = re.compile(
    r"\\u0000|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}"
)


def read_document(text: str) -> dict[str, Any]:
    """The typed document. Raises TermsRefused."""
    if len(text) > MAX_CHARACTERS:
        raise refused("document", f"is longer than {MAX_CHARACTERS} characters: leave out what are the defaults")
    try:
        found = read_json(text)
    except FactsRefused as error:
        raise TermsRefused(error.problems) from None
    if not isinstance(found, dict):
        raise refused("document", "give one JSON object, in braces")
    if _UNKEPT.search(json.dumps(found)):
        raise refused("document", "holds a character that cannot be kept (U+0000, or half of a pair): write it without")
    if any(mask_card_numbers(text) != text for text in _texts(found)):
        raise refused("document", "holds a card number: write it without")
    return found


def _texts(part: Any) -> Iterator[str]:
    """Every text in a document, the names of its fields too."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        yield from part
        for value in part.values():
            yield from _texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value)


def flatten(document: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
    """The document laid over its parent: parts in braces field by field, everything else as a whole."""
    return _over(document, {name: value for name, value in parent.items() if name not in OWN})


def _over(upper: dict[str, Any], lower: dict[str, Any]) -> dict[str, Any]:
    found = dict(lower)
    for name, value in upper.items():
        below = lower.get(name)
        found[name] = _over(value, below) if isinstance(value, dict) and isinstance(below, dict) else value
    return found


def check_document(document: dict[str, Any]) -> tuple[PolicyDocument, PolicyTerms]:
    """The whole of a document as it is read, once it can be. Raises TermsRefused naming each wrong field."""
    problems = [Problem(name[:100], _NO_FIELD) for name in sorted(document.keys() - set(FIELDS))]
    terms = PolicyTerms(policy_id="none", version=1)
    try:
        terms = read_terms(terms_document(document))
    except TermsRefused as error:
        problems += error.problems
    problems += [*_unknown(terms), *_below_full(document), *unmatched(terms)]
    routes = document.get("routes")
    if isinstance(routes, dict):
        unread = sorted(routes.keys() - type(terms.routes).model_fields.keys())
        problems += [Problem(f"routes.{name[:80]}", _NO_FIELD) for name in unread]
    whole = PolicyDocument()
    try:
        whole = PolicyDocument.model_validate_json(json.dumps(document))
    except ValidationError as error:
        named = {problem.field.partition(".")[0] for problem in problems}
        problems += [one for one in problems_of(error) if one.field.partition(".")[0] not in named]
    try:
        canonical_bytes(document)
    except CanonicalError as error:
        problems = problems or [Problem("document", str(error))]
    if problems:
        raise TermsRefused(tuple(Problem(one.field, one.say.replace("a field of an order", "a field of a policy"))
                                 for one in problems))  # fmt: skip
    return whole, terms


# What the specification has and nothing here can follow: a policy that says it would promise what is not done.
_WITHOUT_EFFECT: Final = (
    (
        "window.starts",
        "dispatched",
        "no order here says when it was dispatched: count from delivered, last_delivered or placed",
    ),
    ("window.proof_of_purchase", False, "every return here is of an order, which is the proof: leave it out"),
    ("undeclared", "accept", "what came undeclared is added to a case by a person: leave it out, which says hold"),
    ("exchange.ship_first", True, "replacements are not sent from here: leave it out"),
    ("exchange.charge_unreturned", "after_approval", "nobody is charged for a replacement from here: say never"),
)


def _unfollowed(terms: PolicyTerms) -> list[Problem]:
    found = []
    for path, value, say in _WITHOUT_EFFECT:
        if attrgetter(path)(terms) == value:
            found.append(Problem(path, say))
    return found


def _below_full(document: dict[str, Any]) -> list[Problem]:
    """A customer who got what is faulty, wrong, damaged or nothing at all pays no shipping for it (ENTITLEMENT §5)."""
    shipping = document.get("shipping")
    if not isinstance(shipping, dict) or shipping.get("merchant_fault", "full") not in ("standard", "none"):
        return []
    return [Problem("shipping.merchant_fault", "all of the shipping goes back where it is our fault: say full")]


def _unknown(terms: PolicyTerms) -> list[Problem]:
    """Statutes and calendars that are not known here: a case would wait for a person each time."""
    found = _unfollowed(terms) + [
        Problem("statutes", f"{name} is not known here: choose of {', '.join(PRESETS)}")
        for name in terms.statutes or ()
        if name not in PRESETS
    ]
    calendar = terms.holiday_calendar
    if calendar is not None and calendar.partition("@")[0] not in CALENDARS:
        known = ", ".join(sorted(CALENDARS))
        found.append(Problem("holiday_calendar", f"the holidays of {calendar} are not known here: choose of {known}"))
    return found


def refused(field: str, say: str) -> TermsRefused:
    """One wrong field."""
    return TermsRefused((Problem(field, say),))
