"""Names in a policy that nothing here has: they would match nothing, and a slip of the pen would pass for a term."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from ledger.entitlement_catalogue import CATALOGUE
from ledger.money import EXPONENTS
from ledger.order_document import Problem
from ledger.order_facts import OrderFacts, Tender
from ledger.policy_terms import PolicyTerms, Reason
from ledger.sale_facts import Attributes, FeeType

_NO_FLAGS: Final = ("category", "warranty_months", "replacement_in_stock")
_FLAGS: Final = tuple(name for name in Attributes.model_fields if name not in _NO_FLAGS)
_FEES: Final = tuple(name for name in get_args(FeeType) if name != "rounding")
_SALE_MODES: Final = get_args(get_args(OrderFacts.model_fields["sale_mode"].annotation)[0])
_RULES: Final = (*CATALOGUE, "grade_d")
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "fees": _FEES, "label.payer_by_reason": get_args(Reason), "routes.always": _RULES, "excluded": _FLAGS,
    "select.payment_methods": get_args(Tender), "select.sale_modes": _SALE_MODES,
}  # fmt: skip
_BY_CURRENCY: Final = (
    "advance_max_minor", "label.minor", "restocking.flat_minor", "restocking.max_minor", "keep_item.max_minor",
    "goodwill.max_minor", "routes.auto_below_minor", "routes.manager_from_minor", "routes.two_managers_from_minor",
    "routes.factor_from_minor", "routes.passkey_from_minor",
)  # fmt: skip


def unmatched(terms: PolicyTerms) -> Iterator[Problem]:
    """Each name of a fee, reason, rule, attribute, payment, way of selling or currency that is none."""
    for path, known in _NAMES.items():
        for name in _others(terms, path, known):
            choose = "a rule of the published list" if path == "routes.always" else f"one of {', '.join(known)}"
            yield Problem(path, f"{name} is not known here: choose {choose}")
    for path in _BY_CURRENCY:
        for name in _others(terms, path, EXPONENTS):
            yield Problem(path, f"{name} is no currency of ISO 4217: give one such as EUR")


def _others(terms: PolicyTerms, path: str, known: Iterable[str]) -> list[str]:
    said: Any = terms
    for part in path.split("."):
        said = getattr(said, part)
    return sorted(set(said or ()) - set(known))
