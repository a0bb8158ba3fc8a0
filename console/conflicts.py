"""Where the records of a return contradict one another, in plain words: stated on the case page, settled by who decides."""

from typing import Any, Final

from console import words
from ledger.entitlement_conflicts import contradictions

SAID: Final = {
    "received_more_than_announced": "Line {scope}: {received} arrived, {announced} were announced.",
    "received_without_announcement": "Line {scope}: {received} arrived, and nobody announced them.",
    "parcel_booked_in_twice": "Line {scope}: the parcel {parcel} was booked in twice with the same count.",
    "grades_differ": "{units}: one report says grade {first}, a later one {second}.",
    "another_item_came_back": "{units}: another item came back than the one that was sold.",
    "serial_recorded_twice": "{units}: the serial {serial} is recorded for another unit too.",
    "serial_came_back_before": "{units}: the serial {serial} came back in another case before.",
    "serial_not_sold_here": "{units}: the serial {serial} is not one that was sold on this line.",
    "came_back_before_delivery": "Line {scope}: it came back on {received}, and was delivered on {delivered}.",
    "sent_back_before_delivery": "A parcel was sent back on {sent}, and the goods were delivered on {delivered}.",
    "received_before_it_was_sent": "The parcel {parcel} was here on {received}, and was sent on {sent}.",
    "said_to_be_delivered": "Line {scope}: it was delivered on {delivered}, and is said not to have arrived.",
    "another_reason_was_found": "The customer said {said}, and what was found is {found}.",
}

_NAMED: Final = ("received", "announced", "parcel", "serial", "said", "found", "delivered", "sent")


def conflicts(record: dict[str, Any] | None) -> list[str]:
    """One sentence for each contradiction that the newest entitlement found; empty when the records agree."""
    if record is None:
        return []
    return [SAID[rule["reason_code"]].format(**_facts(rule)) for rule in contradictions(record)]


def _facts(rule: dict[str, Any]) -> dict[str, str]:
    """The figures of a rule by their names; of two of one name the first and the second."""
    pairs = [fact.partition(":")[::2] for fact in rule["facts"]]
    grades = [value for name, value in pairs if name == "grade"] + ["", ""]
    named = dict.fromkeys(_NAMED, "") | dict(pairs)
    reasons = {name: words.REASONS.get(named[name], named[name]) for name in ("said", "found")}
    scope = str(rule["scope"])
    return {**named, **reasons, "scope": scope, "units": f"Units {scope}", "first": grades[0], "second": grades[1]}
