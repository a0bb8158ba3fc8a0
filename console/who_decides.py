"""Who decides a refund and why it is not the desk: one wording for the case page, the confirm sheets and their refusals."""

from typing import Any, Final

from console import policy_words
from console.kind_words import amount
from console.workings import FOUND
from ledger.policy_of_sale import NO_ROUTES
from ledger.two_managers import TWO_MANAGERS

NOBODY_SAID: Final[dict[str, Any]] = {"level": "staff", "because": []}
_BY_AMOUNT: Final = ("routes.manager_from_minor: ", "routes.two_managers_from_minor: ")


def because(route: dict[str, Any], currency: str) -> str:
    """What raised who decides: amounts, fixed rules, signs of risk. None of it changed an amount.

    `route`: that of an entitlement; `currency`: its order's. A route of the desk was raised by the sum alone.
    """
    if route["level"] == "staff":
        return "together with the customer's other refunds of 24 hours it is above what the desk decides"
    found = policy_words.route_reasons(route, currency, FOUND)
    if route.get("of") == NO_ROUTES:
        found = ["no policy is in force today"]
    elif "of" in route:
        found.append(f"by the routes of today, {route['of']}")
    return "; ".join(found)


def first_limit(route: dict[str, Any]) -> int | None:
    """From how many minor units on others decide, where that is the one reason; None where there is another."""
    limits = []
    for reason in route["because"]:
        _, _, limit = reason.partition(" of ")
        if not reason.startswith(_BY_AMOUNT) or not limit.isdecimal():
            return None
        limits.append(int(limit))
    return min(limits, default=None)


def not_yours(route: dict[str, Any], level: str, order_currency: str, minor: int, currency: str) -> str:
    """Why a refund on the route `level` is not this person's to approve, and what to do."""
    limit = first_limit(route)
    if route["level"] == "staff":
        return "Together with the customer's other refunds of 24 hours this is above what you may approve. Hand it to a manager."
    if limit is not None and currency == order_currency:
        if minor >= limit:
            return f"{amount(minor, currency)} is above what you may approve. Hand it to a manager."
        return "Together with what else goes back to this customer this is above what you may approve. Hand it to a manager."
    who = "Two managers decide" if level == TWO_MANAGERS else "A manager decides"
    why = because(route, order_currency)
    return f"{who} this refund{f': {why}' if why else ''}. Hand it to a manager."
