"""The arithmetic of an entitlement in words: each line's expression as a person would write it, and why nothing is owed."""

from collections.abc import Callable
from typing import Any, Final

from console.filters import money
from console.kind_words import OVERRIDE_REASONS
from console.words import sentence
from ledger.entitlement_catalogue import CATALOGUE

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
    "another_customer's_order": "the order is another customer's",
    "no_policy_in_force": "no policy was in force that can be read",
    "several_categories": "its goods are of several categories, each under a policy of its own: look at what they come to together",
    "one_bundle_under_several_policies": "parts of one bundle fall under several policies",
    "promotions_under_several_policies": "the policies of these goods say different things of a promotion that was broken",
    "statutes_differ_by_category": "the policies of these goods name different laws",
    "statement_time_unknown": "it is not known when the return was announced",
    "holiday_calendar_unknown": "the policy names a calendar of holidays that is not known here",
    "sale_or_request_time_unknown": "it is not known when this was asked for",
    "settled_by_an_allowance": "money back with the goods kept has settled these units",
    "not_delivered": "these goods were not delivered: cancel them instead",
    "it_was_delivered": "it was found that these goods did arrive",
    "not_known_to_be_lost": "nobody has found yet that these goods were not sent, or got lost",
    "said_to_be_delivered": "the order says that these goods were delivered, and they are said not to have arrived",
    "to_be_collected_and_not_booked_in": "the shop offered to fetch the goods, and they are not booked in",
    "the_shop_collects": "the shop fetches the goods, so no return costs come off",
    "the_law_s_time_runs": "the law's own time for faults still runs: open a return for the fault instead",
    "the_law_s_time_is_not_known": "it is not known whether the law's own time for faults still runs",
    "holidays_of_the_country_unknown": "it was announced after the last day, unless that was a holiday, which is not known here",
    "longer_by_country": "two years are over, and the country gives longer for some goods",
    "use_of_a_vehicle": "the use of a vehicle may come off: say how much",
    "used_goods": "the law gives these days for goods that were not used, and these were",
    "not_seen_to_be_unused": "nobody has seen yet that these goods were not used",
    "seal_not_seen": "sealed goods go back only with their seal whole, and nobody has seen it yet: grade them",
    "whether_it_was_spent": "a gift card that was sold goes back only while nothing of it was spent: look it up",
    "came_back_before_delivery": "it came back before it was delivered",
    "sent_back_before_delivery": "it was sent back before it was delivered",
    "received_before_it_was_sent": "a parcel was here before it was sent",
    "announced_too_late": "the return was announced after the last day",
    "goods_sent_back_late": "the goods were sent back more than 14 days after the announcement",
    "looking_may_overrun": "looking at it may take longer than the payment may wait: pay, or write down what comes off",
    "tax_recovery_at_risk": "the shop may not get its own tax back for this: the figure stays",
    "final_sale": "these goods were sold without a right to return them",
    "cured": "it was repaired or replaced",
    "cure_comes_first": "a repair or a replacement comes first",
    "fault_no_longer_presumed": "the fault is no longer presumed to have been there from the start",
    "fault_of_some_units": "some of these units are faulty and some are not: the law gives each of them something else",
    "no_fault_was_found": "nobody found these units faulty",
    "another_reason_was_found": "another reason was found than the one that was given",
    "sent_back_and_not_booked_in": "the goods are on their way and not booked in",
    "serial_missing": "the serial number is not recorded",
    "serial_not_sold_here": "the serial number is not one that was sold on this line",
    "serial_came_back_before": "this serial number came back before",
    "serial_recorded_twice": "one serial number is recorded for two units",
    "another_item_came_back": "another item came back than the one that was sold",
    "parcel_booked_in_twice": "one parcel was booked in twice with the same count",
    "kit_not_whole": "a bundle goes back only whole, and part of it is not here",
    "all_or_nothing": "the promotion goes back whole or not at all",
    "promotions_overlap": "two promotions lie on one line",
    "credited_under_promotion": "money was given before on goods of a promotion that is worked out anew: compare both sums",
    "gift_not_back": "the gift that came with it is not back",
    "loss_in_value_not_assessed": "nobody has assessed the loss in value",
    "no_photo_or_note": "a deduction for use needs a photo and a note",
    "merchant_bears_the_proof": "a deduction for use is the shop's to prove",
    "not_known_whether_it_was_used": "it is not known whether an insurance or installation was used",
    "above_the_policy_s_maximum": "more is asked for than the policy allows",
    "above_what_is_left_of_the_line": "more is asked for than is left of the line",
    "goodwill_above_the_policy": "the goodwill is more than the policy gives without asking two managers",
    "computed_changed_since": "another amount is computed than the one an exception was asked for beside: the computed one counts",
    **{f"override_{code}": f"another amount than computed: {text.lower()}" for code, text in OVERRIDE_REASONS.items()},
    "goodwill_above_the_line": "the goodwill is more than is left of the line",
    "excluded_from_price_adjustment": "a lower price is not made good for these goods",
    "asked_too_late": "it was asked for after the last day",
    "fault_or_delivery_time_unknown": "it is not known when it was delivered or failed",
    "warranty_over_or_none": "the warranty is over, or there is none",
    "merchant's_fault_bears_no_deduction": "the shop bears it, so nothing comes off",
    "not_told_or_not_allowed": "nothing comes off: it was not told at the sale, or is not allowed",
    "return_cost_not_told": "the shop bears the return, for its cost was not told at the sale",
    "gift_kept_is_deducted": "its value comes off",
    "gift_may_be_kept": "the customer may keep it",
    "gift_is_back": "it is back",
    "more_than_may_be_paid_before_receipt": "more than may be paid before the goods are here",
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
    if operator == "neg" and isinstance(arguments[0], list) and arguments[0][0] == "bps" and arguments[0][2] == 0:
        return f"nothing off {working(arguments[0][1], currency)}"
    if operator == "ref":
        return f"line {arguments[0]}"
    return _WRITTEN[operator](
        *(working(argument, currency) for argument in arguments if not _nothing(argument, operator))
    )


def _nothing(argument: Any, operator: str) -> bool:
    """A part of a sum or difference that takes nothing away: it is left out of the sentence, not out of the record."""
    none_of_it = argument in (0, ["int", 0]) or (
        isinstance(argument, list) and argument[0] in ("cut", "peel") and argument[3] == 0
    )
    return none_of_it and operator in ("sum", "sub")


_WRITTEN: Final[dict[str, Callable[..., str]]] = {
    "int": lambda amount: amount,
    "max0": lambda amount: amount,
    "neg": lambda amount: f"−{amount}",
    "sum": lambda *amounts: " + ".join(amounts) or "nothing",
    "sub": lambda *amounts: " − ".join(amounts) or "nothing",
    "min": lambda *amounts: (
        f"the smaller of {' and '.join(amounts)}" if len(amounts) == 2 else f"the smallest of {', '.join(amounts)}"
    ),
    "peel": lambda held, whole, first: f"the share of {held} in {first} of {whole}",
    "scale": lambda amount, whole, ratio: f"{amount} in the ratio {ratio} to {whole}",
}


def rule_name(rule_id: str) -> str:
    """What a rule asks, as a sentence; one that only an older engine had keeps its id."""
    return sentence(CATALOGUE.get(rule_id, rule_id))


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
