"""Pairs of policy documents, and whether people, or the policy by itself, may approve more under the second."""

from typing import Any, Final

HOUR = {"count": 10, "minor": 5000}


def limits(**currencies: Any) -> dict[str, Any]:
    return {"limits": {"desk": currencies}}


def signs(**named: Any) -> dict[str, Any]:
    return {"signals": named}


PAIRS: Final[list[tuple[dict[str, Any], dict[str, Any], bool]]] = [
    ({"routes": {"manager_from_minor": {"EUR": 100}}}, {"routes": {"manager_from_minor": {"EUR": 101}}}, True),
    ({"routes": {"manager_from_minor": {"EUR": 100}}}, {"routes": {"manager_from_minor": {"EUR": 99}}}, False),
    ({"routes": {"manager_from_minor": {"EUR": 100}}}, {}, False),
    ({}, {"routes": {"manager_from_minor": {"EUR": 100}}}, True),
    ({"routes": {"two_managers_from_minor": {"EUR": 100}}}, {}, True),
    ({}, {"routes": {"two_managers_from_minor": {"EUR": 100}}}, False),
    ({}, {"automatic": {"EUR": {"most_minor": 1, "day_minor": 2}}}, True),
    ({"automatic": {"EUR": {"most_minor": 1, "day_minor": 2}}}, {}, False),
    (limits(EUR={"hour": HOUR}), limits(EUR={"hour": HOUR | {"count": 9}}), False),
    (limits(EUR={"hour": HOUR}), limits(EUR={"hour": HOUR | {"minor": 5001}}), True),
    (limits(EUR={"hour": HOUR}, GBP={"hour": HOUR}), limits(EUR={"hour": HOUR}), False),
    (limits(EUR={"hour": HOUR}), limits(EUR={"hour": HOUR}, GBP={"hour": HOUR}), True),
    (limits(EUR={"hour": HOUR, "day": HOUR}), limits(EUR={"hour": HOUR}), True),
    (limits(EUR={"hour": HOUR}), limits(EUR={"hour": HOUR, "day": HOUR}), False),
    (limits(EUR={"hour": HOUR}), {}, True),
    ({}, limits(EUR={"hour": HOUR}), True),
    ({}, {"window": {"days": 300}}, False),
    ({"goodwill": {"max_minor": {"EUR": 100}}}, {"goodwill": {"max_minor": {"EUR": 101}}}, True),
    ({}, {"goodwill": {"max_minor": {"EUR": 100}}}, True),
    ({"goodwill": {"max_minor": {"EUR": 100}}}, {}, False),
    ({"routes": {"always": {"allowances.goodwill": "two_managers"}}}, {}, True),
    (
        {"routes": {"always": {"allowances.goodwill": "two_managers"}}},
        {"routes": {"always": {"allowances.goodwill": "manager"}}},
        True,
    ),
    ({}, {"routes": {"always": {"allowances.goodwill": "two_managers"}}}, False),
    ({}, {"routes": {"always": {"duplicate.charge": "staff"}}}, True),
    ({}, {"routes": {"always": {"duplicate.charge": "two_managers"}}}, False),
    ({}, {"routes": {"always": {"grade_d": "staff"}}}, True),
    (signs(), signs(refunds_30d={"threshold": 4}), True),
    (signs(), signs(refunds_30d={"threshold": 2}), False),
    (signs(refunds_30d={"threshold": 2}), signs(), True),
    (signs(account_age_days={"threshold": 30}), signs(account_age_days={"threshold": 29}), True),
    (signs(account_age_days={"threshold": 30}), signs(account_age_days={"threshold": 31}), False),
    (signs(), signs(grade_x_ever={"threshold": 2}), True),
    (signs(grade_x_ever={"threshold": 1, "raise_by": 2}), signs(grade_x_ever={"threshold": 1}), True),
    (signs(grade_x_ever={"threshold": 1}), signs(grade_x_ever={"threshold": 1, "raise_by": 2}), False),
    # A document of before the signs counts none until it names them.
    ({}, signs(refunds_30d={"threshold": 400}), False),
    (signs(), {"title": "of before"}, True),
    ({}, {"routes": {"sum_over": ["order_lifetime"]}}, True),
    (
        {"routes": {"sum_over": ["order_lifetime"]}},
        {"routes": {"sum_over": ["order_lifetime", "staff_day"]}},
        False,
    ),
    ({"routes": {"sum_over": ["order_lifetime"]}}, {"routes": {"sum_over": ["staff_day", "customer_day"]}}, True),
]
