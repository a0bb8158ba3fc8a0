"""The arithmetic of an entitlement in words: each line's expression as a person would write it, and why nothing is owed."""

from collections.abc import Callable
from typing import Any, Final

from console.filters import money

# What a rule found, by its reason code; the facts beside it are figures the case page shows anyway.
FOUND: Final = {
    "not_received": "units that were announced are not here yet",
    "not_inspected": "units that arrived are not graded yet",
    "not_our_unit": "a unit that came is not one that was sold",
    "held_by_another_case": "another case holds these units",
    "not_on_the_order": "the order has no such units",
    "received_more_than_announced": "more arrived than was announced",
    "received_without_announcement": "something arrived that nobody announced",
    "grades_differ": "two gradings of one unit differ",
    "cut_to_what_is_left": "the line has less left than these units cost",
    "captures_do_not_cover_it": "the payments of the order do not hold what is owed",
    "only_authorised": "part of a payment that was only authorised is not let go alone: capture less of it in the shop",
    "disputed": "a payment of the order is disputed",
    "refunded_outside_on_no_line": "a refund made outside is not put on its lines",
    "off_the_step": "the amount is off the step the payment refunds in",
    "nothing_left_to_pay": "nothing is left to pay",
    "more_was_paid_than_is_owed": "more was paid than is owed",
}
OUTCOMES: Final = {
    "wait": "It is worked out again when that is here.",
    "nothing_due": "The case can be closed.",
    "refused": "Nothing of this case can be paid.",
    "needs_review": "A person has to look first.",
    "payable": "",
}


def working(expr: Any, currency: str) -> str:
    """An expression of a record in words, amounts in major units: "2 of 3 units of 74.70 − 1 of 3 units of 74.70".

    Raises KeyError for an operator that is not in the engine.
    """
    if isinstance(expr, int):
        return money(expr, currency)
    operator, *arguments = expr
    if operator == "cut":
        return f"{arguments[2]} of {arguments[1]} units of {working(arguments[0], currency)}"
    if operator == "bps":
        return f"{arguments[1] // 100}.{arguments[1] % 100:02d} % of {working(arguments[0], currency)}"
    if operator == "ref":
        return f"line {arguments[0]}"
    return _WRITTEN[operator](
        *(working(argument, currency) for argument in arguments if not _nothing(argument, operator))
    )


def _nothing(argument: Any, operator: str) -> bool:
    """A part of a sum or difference that takes nothing away: it is left out of the sentence, not out of the record."""
    none_of_it = argument in (0, ["int", 0]) or (
        isinstance(argument, list) and argument[0] == "cut" and argument[3] == 0
    )
    return none_of_it and operator in ("sum", "sub")


_WRITTEN: Final[dict[str, Callable[..., str]]] = {
    "int": lambda amount: amount,
    "max0": lambda amount: amount,
    "neg": lambda amount: f"−{amount}",
    "sum": lambda *amounts: " + ".join(amounts) or "nothing",
    "sub": lambda *amounts: " − ".join(amounts) or "nothing",
    "min": lambda *amounts: f"at most {', '.join(amounts)}",
    "peel": lambda held, whole, first: f"the share of {held} in {first} of {whole}",
    "scale": lambda amount, whole, ratio: f"{amount} in the ratio {ratio} to {whole}",
}


def reasons(record: dict[str, Any]) -> list[str]:
    """What kept units or money out of this record, each once, in the words of this page."""
    found = [rule for rule in record["rules"] if rule["status"] != "pass" and rule["id"] != "amount.positive"]
    texts = [FOUND.get(rule["reason_code"], str(rule["reason_code"]).replace("_", " ")) for rule in found]
    return list(dict.fromkeys(texts))


def tax_text(record: dict[str, Any]) -> str:
    """ "tax" with the codes it was charged under: "tax DE-19"."""
    codes = {code for line in record["lines"] for code, minor in line["tax"]["codes"].items() if minor}
    named = sorted(code for code in codes if "-" in code)
    return f"tax {', '.join(named)}" if named else "tax"
