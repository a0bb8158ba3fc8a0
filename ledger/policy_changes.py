"""What a version says that another does not: field by field, each default spelled out on both sides."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from ledger.entitlement_verdict import LEVELS, LOW, THRESHOLDS, USUAL_LEVELS
from ledger.order_document import problems_of
from ledger.policies import PolicyDocument, of_before, terms_document
from ledger.policy_terms import PolicyTerms, TermsRefused, read_terms

_SKIPPED: Final = frozenset({"policy_id", "version", "status", "extends", "effective_from", "effective_to"})
# What people, or the policy by itself, may approve: the higher, the more; who decides a rule, where it is fixed; what is summed
# for it; and the signs of risk that raise it.
_ALLOWING: Final = (
    "limits", "automatic", "routes.manager_from_minor", "routes.two_managers_from_minor", "goodwill.max_minor", "routes.always",
    "routes.factor_from_minor", "routes.passkey_from_minor", "routes.sum_over", "signals",
)  # fmt: skip
_FIXED: Final = "routes.always."
# What asks for more of people from an amount on: it allows more where it names none.
_ASKING: Final = ("routes.two", "routes.factor", "routes.passkey")
_COUNTED: Final = "signals.counted"


@dataclass(frozen=True)
class Change:
    """One field by its path, such as "shipping.full_return", as it was and as it is. None: nothing is said."""

    field: str
    old: Any
    new: Any


def spelled_out(document: dict[str, Any]) -> dict[str, Any]:
    """Every field of a document by its path, with the defaults. Raises TermsRefused."""
    named = {"policy_id": "none", "version": 1}
    found = read_terms(terms_document(document) | named).document()
    found["signals"] |= {"counted": "signals" in document or not of_before(document)}
    try:
        whole = PolicyDocument.model_validate(document).model_dump(mode="json")
    except ValidationError as error:
        raise TermsRefused(problems_of(error)) from error
    found |= {name: whole[name] for name in ("limits", "automatic", "connect")}
    return {
        path: value for name, value in found.items() if name not in _SKIPPED for path, value in _leaves(name, value)
    }


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [leaf for name, inner in value.items() for leaf in _leaves(f"{path}.{name}", inner)]
    return [(path, value)]


def is_readable(document: dict[str, Any]) -> bool:
    """Whether a stored document can be compared at all; one that cannot decides nothing and is replaced."""
    try:
        spelled_out(document)
    except TermsRefused:
        return False
    return True


def changes(old: dict[str, Any] | None, new: dict[str, Any]) -> list[Change]:
    """The fields that differ, in the order of the specification; without an old document, what differs from the defaults."""
    before = spelled_out(old) if old is not None else spelled_out({"shipping": {}, "signals": {}})
    after = spelled_out(new)
    order = {name: place for place, name in enumerate([*PolicyTerms.model_fields, "limits", "automatic", "connect"])}
    paths = sorted(before.keys() | after.keys(), key=lambda path: (order[path.partition(".")[0]], path))
    found = [Change(path, before.get(path), after.get(path)) for path in paths]
    return [one for one in found if one.old != one.new and not (_nothing(one.old) and _nothing(one.new))]


def _nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def raised(old: dict[str, Any] | None, new: dict[str, Any]) -> list[Change]:
    """The changes by which people, or the policy by itself, may approve more than before."""
    before, after = (_limited(document) for document in (old, new))
    found = [one for one in changes(old, new) if one.field.startswith(_ALLOWING)]
    if old is not None and not spelled_out(old)[_COUNTED]:
        # Signs of risk that nobody counted raised nothing.
        found = [one for one in found if not one.field.startswith("signals.")]
    return [one for one in found if _more(one, before, after)]


def _limited(document: dict[str, Any] | None) -> frozenset[str]:
    """The limits of people that a document names, as "limits.desk.EUR"."""
    paths = spelled_out(document) if document is not None else {}
    return frozenset(".".join(path.split(".")[:3]) for path in paths if path.startswith("limits."))


def _more(change: Change, before: frozenset[str], after: frozenset[str]) -> bool:
    """A figure that went up. One that is gone or new: of limits, whose currencies are nobody's where they are not named, and
    whose day is without end where there is none; a document without limits has the defaults, of which nothing is known here."""
    if change.field.startswith("signals."):
        return _fewer_signs(change)
    if change.field == "routes.sum_over":
        return not set(change.old) <= set(change.new)
    if isinstance(change.new, int) and isinstance(change.old, int):
        return change.new > change.old
    if change.field.startswith(_FIXED):
        usual = USUAL_LEVELS.get(change.field.removeprefix(_FIXED), "staff")
        return LEVELS.index(change.new or usual) < LEVELS.index(change.old or usual)
    gone = _nothing(change.new)
    if not change.field.startswith("limits"):
        return gone if change.field.startswith(_ASKING) else not gone
    if not before or not after:
        return True
    kept = ".".join(change.field.split(".")[:3]) in before & after
    return kept and ".day" in change.field if gone else not kept


def _fewer_signs(change: Change) -> bool:
    """Whether a sign of risk is met later, or raises less; what is not named has the specification's own figures."""
    if change.field == _COUNTED:
        return not change.new
    _, name, figure = change.field.split(".")
    usual = THRESHOLDS.get(name, 1) if figure == "threshold" else 1
    old, new = (usual if value is None else value for value in (change.old, change.new))
    return bool(new < old if figure == "raise_by" or name in LOW else new > old)
