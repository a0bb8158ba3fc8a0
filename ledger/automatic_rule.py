"""What a policy approves by itself, and why it does not (S38): asked before it approves, and again before each send.

`automatic_obstacle` in the database is the one list of exclusions: the trigger on approvals asks it as the last guard, the
web process before it approves, the worker before it sends. What needs the sum of other refunds (S22) is added here.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, scalar
from ledger.limits import Sum

# What stands in the way, in words that complete "A person approves this: …".
OBSTACLES: Final = {
    "not_named": "no rule of the policy names it",
    "act": "it is not a plain refund to a card",
    "separate": "the customer asked for a separate return of the order",
    "route": "its amount is a manager's",
    "asked_again": "a person asked for it anew",
    "not_the_first": "it is not the first refund of its case",
    "not_plain": "what came back, what is owed and what can be paid are not the same",
    "blocked": "the figures of the order are in question",
    "not_verified": "the channel did not verify the customer",
    "channel_only": "nobody but who asked says that the goods are here",
    "grade": "what came back was used, damaged or is another thing",
    "unread": "the payment is not known as it stands at the provider",
    "disputed": "the customer's bank asked about the payment",
    "outside": "a refund made outside waits to be matched",
    "discrepancy": "a discrepancy of the order is open",
    "line_before": "money went back for this line before",
    "above": "it is above what the policy approves by itself",
    "sum": "together with others it is above what the policy approves by itself",
    "paused": "refunds are paused",
    "shadow": "shadow mode is on",
    "disputes_unread": "the provider's list of disputes was not read lately",
    "day_limit": "the day's automatic limit is used up",
    "cap": "the daily cap is reached",
    "no_money": "the payment has less left than that",
}
# Held reasons of an approval by a policy begin with this, then the obstacle.
HELD: Final = "automatic_"


@dataclass(frozen=True)
class Rule:
    """The most a policy approves by itself at once and in a day, in minor units."""

    most_minor: int
    day_minor: int


def actor_of(intent: RowMapping) -> str:
    """How events and approvals name the policy version that an intent is under."""
    return f"policy:{intent['policy_id']}@{intent['policy_version']}"


def read_rule(db: Connection, merchant_id: UUID, intent_id: UUID) -> Rule | None:
    """The rule that names the intent's currency, in its own version and in the one in force now; None: there is none."""
    row = first(db, "SELECT * FROM automatic_rule(:m, :i)", m=merchant_id, i=intent_id)
    return Rule(**row) if row is not None and row["most_minor"] is not None else None


def obstacle(db: Connection, merchant_id: UUID, intent_id: UUID, sum_: Sum | None, *, approving: bool) -> str:
    """Why a person approves this intent, one of OBSTACLES; "" when the policy does. Its case is locked by the caller.

    `sum_`: what it is worth together with others (S22); `approving` adds what only counts at the approval itself.
    """
    found = str(scalar(db, "SELECT automatic_obstacle(:m, :i, :a)", m=merchant_id, i=intent_id, a=approving))
    if found in ("", "day_limit"):
        rule = read_rule(db, merchant_id, intent_id)
        if (
            rule is None
            or sum_ is None
            or sum_.route != "desk"
            or sum_.strength != "session"
            or sum_.together_minor > rule.most_minor
        ):
            return "sum"
    return found


def fault_of_policy(db: Connection, intent: RowMapping, approval: RowMapping, sum_: Sum | None) -> str:
    """Why what a policy approved must not be sent now, or "": rule and exclusions worked out again from live rows (S30)."""
    if approval["approver"] != actor_of(intent):
        return HELD + "not_named"
    found = obstacle(db, intent["merchant_id"], intent["intent_id"], sum_, approving=False)
    return HELD + found if found else ""
