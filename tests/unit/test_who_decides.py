"""Why the desk does not decide a refund: the amount is named only where the amount is the reason."""

from typing import Any

import pytest

from console.who_decides import not_yours

SUM = "routes.manager_from_minor: {} of 25000"


def route(*because: str, level: str = "manager", **more: Any) -> dict[str, Any]:
    return {"level": level, "because": list(because), **more}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (route(SUM.format(30_000)), "300.00 GBP is above what you may approve."),
        (
            route(SUM.format(30_000), "evidence.grade:D"),
            ("A manager decides this refund: 300.00 GBP with what goes beside it, and a manager decides from 250.00 GBP;"
            " a unit is heavily used or incomplete."),
        ),
        (
            route("evidence.conflict:received_more_than_announced"),
            "A manager decides this refund: more arrived than was announced.",
        ),
        (
            route("signal.refunds_30d:4"),
            "A manager decides this refund: 4 refunds of this customer in 30 days.",
        ),
        (
            route("routes.always: allowances.goodwill"),
            "A manager decides this refund: the policy fixes who decides this, whatever the amount.",
        ),
        (
            route("line.ceiling:goodwill_above_the_policy", level="two_managers"),
            "Two managers decide this refund: the goodwill is more than the policy gives without asking two managers.",
        ),
        (
            route("duplicate.charge:paid_twice"),
            "A manager decides this refund: a charge was made that is one too many.",
        ),
        (
            route("routes.manager_from_minor: GBP is not named", of="no routes@0"),
            ("A manager decides this refund: the policy names no amount in GBP below which the desk decides;"
            " by the routes of today, no routes@0."),
        ),
        (
            route("routes.auto_enabled=false", level="staff"),
            "Together with the customer's other refunds of 24 hours this is above what you may approve.",
        ),
    ],
)  # fmt: skip
def test_priya_is_told_why_a_manager_decides(found: dict[str, Any], said: str) -> None:
    level = found["level"] if found["level"] != "staff" else "manager"
    assert not_yours(found, level, "GBP", 30_000, "GBP") == f"{said} Hand it to a manager."


def test_a_small_refund_that_joins_others_is_above_her_limit_only_together_with_them() -> None:
    said = not_yours(route(SUM.format(30_000)), "manager", "GBP", 2_490, "GBP")
    assert said.startswith("Together with what else goes back to this customer")


def test_a_payment_in_another_currency_is_not_compared_with_the_limit_of_the_orders() -> None:
    said = not_yours(route(SUM.format(30_000)), "manager", "GBP", 90_000_00, "JPY")
    assert said.startswith("A manager decides this refund: 300.00 GBP with what goes beside it")
