"""The last word: our ledger beside the provider's, refund by refund and sum by sum.

`audit` returns sentences, one for each thing that does not hold; none is what every run has to end with. Nothing here
trusts a balance or a state alone: each is held against the journal it came from and against the provider.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from faults.journals import JOURNALS, STUCK
from faults.place import Place
from ledger.database import transaction
from ledger.events import broken_link
from ledger.queries.overdue import overdue_intents

Row = Mapping[str, Any]
STANDING = ("pending", "requires_action", "succeeded")
# How an intent may look at its end, and what the provider may show of it then. None: nothing that stands.
AGREES: dict[str, frozenset[str | None]] = {
    "succeeded": frozenset(["succeeded"]),
    "pending": frozenset(["pending", "requires_action"]),
    "proposed": frozenset([None]),
    "approved": frozenset([None]),
    "held": frozenset([None]),
    "withdrawn": frozenset([None]),
    "failed": frozenset([None]),
    "reversed": frozenset([None]),
    # A person has it, with the provider's list beside it; what it holds stays reserved.
    "needs_review": frozenset([None, "succeeded", "pending", "requires_action"]),
}
MOVING = ("approved", "submitting", "unknown")


@dataclass
class Books:
    """What an audit found. `duplicates` and `wrong` have to be empty; `stuck` as well once everything is quiet.

    `ended` counts intents by state; `refunds` and `refunded_minor` are those standing at the provider that are ours,
    `outside` those it has of somebody else.
    """

    duplicates: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    refunds: int = 0
    refunded_minor: int = 0
    outside: int = 0
    outside_minor: int = 0

    @property
    def faults(self) -> list[str]:
        return [*self.duplicates, *self.wrong, *self.stuck]


_INTENTS = """
    SELECT i.*, e.total_minor AS owed_minor, o.external_ref, l.kinds FROM intents i
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    CROSS JOIN LATERAL (SELECT array_agg(DISTINCT step) AS kinds FROM transfers t
        WHERE t.merchant_id = i.merchant_id AND t.intent_id = i.intent_id) l
    ORDER BY i.number
"""


def audit(place: Place) -> Books:
    """Both sides as they stand now, in a place that is quiet."""
    books = Books()
    intents = place.as_administrator(_INTENTS)
    payments = _as_recovered(place, [
        # The provider writes a lapsed authorisation as a refund that moves nothing.
        {**payment, "refunds": [refund for refund in payment["refunds"] if refund["moved"]]}
        for payment in place.sandbox.all_money()["payments"]
    ])  # fmt: skip
    by_intent: dict[str, list[Row]] = defaultdict(list)
    for payment in payments:
        for refund in payment["refunds"]:
            mine = refund["metadata"].get("onceback_intent")
            if refund.get("recovered"):
                books.refunds += 1
                books.refunded_minor += refund["amount"]
            elif mine is not None:
                by_intent[mine].append({**refund, "payment_intent": payment["payment_intent"]})
            elif refund["status"] in STANDING:
                books.outside += 1
                books.outside_minor += refund["amount"]
    known = {str(intent["intent_id"]) for intent in intents}
    books.wrong += [f"the provider has a refund of {name}, which is no intent" for name in by_intent.keys() - known]
    there = {payment["payment_intent"]: payment for payment in payments}
    by_hand = {
        row["intent_id"]
        for row in place.as_administrator("SELECT intent_id FROM manual_settlements WHERE outcome = 'done'")
    }
    for intent in intents:
        mine_there = by_intent[str(intent["intent_id"])]
        if intent["act"] == "refund":
            _one_intent(books, intent, mine_there)
        else:
            _one_without_refund(
                books, intent, mine_there, there.get(intent["payment_intent_ref"]), intent["intent_id"] in by_hand
            )
    _once_each(books, intents, by_intent, _matched(place))
    for payment in payments:
        if payment["refunded"] > payment["captured"]:
            books.duplicates.append(
                f"{payment['payment_intent']}: {payment['refunded']} of {payment['captured']} paid back"
            )
    _charges(books, place)
    _captures(books, place, payments)
    _outside(books, place, payments)
    _journals(books, place)
    _nothing_stuck(books, place)
    return books


def _as_recovered(place: Place, payments: list[Row]) -> list[Row]:
    """The payments, in which a refund of ours that was taken up after a backup bears that mark and no other: the books have
    it as what was found at the provider."""
    found = place.as_administrator("SELECT refund_ref FROM external_refunds WHERE kind = 'recovered'")
    known = {row["refund_ref"] for row in found}
    if not known:
        return payments
    return [
        {**payment, "refunds": [
            {**refund, "recovered": True, "metadata": {}} if refund["id"] in known and refund["status"] in STANDING else refund
            for refund in payment["refunds"]
        ]}
        for payment in payments
    ]  # fmt: skip


def _name(intent: Row) -> str:
    return f"R-{intent['number']} ({intent['state']}{', ' + intent['state_reason'] if intent['state_reason'] else ''})"


def _one_intent(books: Books, intent: Row, refunds: list[Row]) -> None:
    books.ended[intent["state"]] += 1
    standing = [refund for refund in refunds if refund["status"] in STANDING]
    books.refunds += len(standing)
    books.refunded_minor += sum(refund["amount"] for refund in standing)
    if len(standing) > 1:
        ids = ", ".join(f"{refund['id']} under key …{str(refund['idempotency_key'])[-6:]}" for refund in standing)
        books.duplicates.append(f"{_name(intent)} was refunded {len(standing)} times at the provider: {ids}")
    elif intent["state"] not in MOVING:
        shown = standing[0]["status"] if standing else None
        if intent["act"] != "refund":
            # A canceled payment and a gift card show no refund there, however they end.
            if standing:
                books.wrong.append(f"{_name(intent)} is a {intent['act']}, and the provider shows a refund")
        elif shown not in AGREES.get(intent["state"], frozenset()):
            books.wrong.append(f"{_name(intent)}: the provider shows {shown}")
    for refund in standing:
        if (refund["amount"], refund["payment_intent"]) != (intent["amount_minor"], intent["payment_intent_ref"]):
            books.wrong.append(f"{_name(intent)}: {refund['id']} is of another amount or payment")
        if intent["state"] == "succeeded" and refund["id"] != intent["provider_refund_ref"]:
            books.wrong.append(f"{_name(intent)} names another refund than {refund['id']}")


def _one_without_refund(books: Books, intent: Row, refunds: list[Row], payment: Row | None, recorded: bool) -> None:
    """A cancel is what its payment is, and what is paid by hand what a person recorded; neither has a refund there."""
    books.ended[intent["state"]] += 1
    if refunds:
        books.duplicates.append(f"{_name(intent)} is no refund, and the provider has {refunds[0]['id']} of it")
    if intent["state_reason"] == "payment_released":
        # The bank let the money go before anybody did: there was nothing to do any more.
        return
    if intent["act"] == "cancel_payment":
        done = payment is not None and payment["status"] == "canceled" and payment["captured"] == 0
    else:
        done = recorded
    # What a person has in review may have been done or not: that is what they are asked.
    if intent["state"] not in (*MOVING, "needs_review") and done != (intent["state"] == "succeeded"):
        books.wrong.append(f"{_name(intent)}: {intent['act']} is {'' if done else 'not '}done where it is to be done")


def _matched(place: Place) -> dict[Any, int]:
    """What was refunded outside and put on a case, in minor units by case."""
    return {
        row["case_id"]: row["minor"]
        for row in place.as_administrator(
            "SELECT case_id, sum(amount_minor)::bigint AS minor FROM external_allocations WHERE case_id IS NOT NULL GROUP BY 1"
        )
    }


def _once_each(
    books: Books, intents: Iterable[Row], by_intent: Mapping[str, list[Row]], matched: Mapping[Any, int]
) -> None:
    """Each unit is paid by one case, and each case at most what it was ever owed."""
    paid_units: dict[tuple[str, str, int], Row] = {}
    of_case: dict[Any, list[Row]] = defaultdict(list)
    for intent in intents:
        of_case[intent["case_id"]].append(intent)
        if not any(refund["status"] in STANDING for refund in by_intent[str(intent["intent_id"])]):
            continue
        for unit in intent["units"]:
            for number in range(unit["from"], unit["to"]):
                at = (intent["external_ref"], unit["line"], number)
                other = paid_units.setdefault(at, intent)
                if other["case_id"] != intent["case_id"]:
                    books.duplicates.append(
                        f"unit {number} of {unit['line']} of order {at[0]} was paid twice: {_name(other)} and {_name(intent)}"
                    )
    for case_id, case_intents in of_case.items():
        paid = matched.get(case_id, 0) + sum(
            refund["amount"] for intent in case_intents for refund in by_intent[str(intent["intent_id"])]
            if refund["status"] in STANDING
        )  # fmt: skip
        most = max(intent["owed_minor"] for intent in case_intents)
        if paid > most:
            names = ", ".join(map(_name, case_intents))
            books.duplicates.append(f"a case owed {most} was paid {paid}: {names}")


_TOO_MUCH = """
    SELECT o.external_ref, sum(i.amount_minor)::bigint AS paid, (SELECT sum(c.captured_minor) FROM captures c
        WHERE c.merchant_id = o.merchant_id AND c.order_id = o.order_id)::bigint - o.total_minor AS too_much
    FROM intents i JOIN cases k USING (merchant_id, case_id)
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    WHERE k.kind = 'duplicate_charge' AND i.state = 'succeeded' GROUP BY o.merchant_id, o.order_id, o.external_ref, o.total_minor
"""


def _charges(books: Books, place: Place) -> None:
    """As a second charge goes back what was charged above what the order cost, and no more."""
    for row in place.as_administrator(_TOO_MUCH):
        if row["paid"] > row["too_much"]:
            books.duplicates.append(
                f"{row['paid']} of order {row['external_ref']} went back as a second charge, {row['too_much']} was one"
            )


_CAPTURES = """
    SELECT c.*, (SELECT coalesce(sum(CASE WHEN t.to_balance = b.name THEN t.amount_minor ELSE 0 END
            - CASE WHEN t.from_balance = b.name THEN t.amount_minor ELSE 0 END), 0)
        FROM transfers t WHERE t.merchant_id = c.merchant_id AND t.capture_id = c.capture_id)::bigint AS moved, b.name,
        CASE b.name WHEN 'available' THEN available_minor - captured_minor WHEN 'reserved' THEN reserved_minor
            WHEN 'refunded' THEN refunded_minor ELSE disputed_minor END AS stands
    FROM captures c CROSS JOIN (VALUES ('available'), ('reserved'), ('refunded'), ('disputed')) AS b (name)
"""
_EXTERNAL = """
    SELECT c.payment_intent_ref, coalesce(sum(CASE t.step WHEN 'external' THEN t.amount_minor
        WHEN 'external_reverse' THEN -t.amount_minor ELSE 0 END), 0)::bigint AS minor
    FROM captures c LEFT JOIN transfers t ON t.merchant_id = c.merchant_id AND t.capture_id = c.capture_id
    GROUP BY c.payment_intent_ref
"""
_OURS = """
    SELECT c.payment_intent_ref, sum(c.captured_minor)::bigint AS captured, min(least(c.available_minor, c.reserved_minor,
        c.refunded_minor, c.disputed_minor)) AS least,
        sum(c.refunded_minor)::bigint AS refunded, sum(c.reserved_minor)::bigint AS reserved
    FROM captures c GROUP BY c.payment_intent_ref
"""


def _captures(books: Books, place: Place, payments: Iterable[Row]) -> None:
    """Balances are the sum of their transfers, and what they say was paid back is what the provider paid back."""
    for row in place.as_administrator(_CAPTURES):
        if row["moved"] != row["stands"]:
            stands = f"{row['name']} stands at {row['stands']}, its moves make {row['moved']}"
            books.wrong.append(f"capture {row['capture_ref']}: {stands}")
    ours: dict[str, Row] = {row["payment_intent_ref"]: row for row in place.as_administrator(_OURS)}
    external = {row["payment_intent_ref"]: row["minor"] for row in place.as_administrator(_EXTERNAL)}
    reviewed = {
        row["payment_intent_ref"]: row["minor"]
        for row in place.as_administrator(
            "SELECT payment_intent_ref, sum(amount_minor)::bigint AS minor FROM intents WHERE state = 'needs_review' GROUP BY 1"
        )
    }
    for payment in payments:
        if payment["payment_intent"] not in ours:
            continue
        own = ours[payment["payment_intent"]]
        if own["least"] < 0:
            books.wrong.append(f"{payment['payment_intent']}: a balance is below nothing")
        standing = sum(one["amount"] for one in payment["refunds"] if one["status"] in STANDING and one["metadata"])
        if standing > own["captured"]:
            books.duplicates.append(f"{payment['payment_intent']}: {standing} paid back of {own['captured']} captured")
        paid = sum(one["amount"] for one in payment["refunds"] if one["status"] == "succeeded" and one["metadata"])
        said = own["refunded"] - external[payment["payment_intent"]]
        # What a person has to look at is reserved here, and may be paid there.
        if not said <= paid <= said + reviewed.get(payment["payment_intent"], 0):
            books.wrong.append(f"{payment['payment_intent']}: {said} refunded in our books, {paid} at the provider")


_OUTSIDE = """
    SELECT e.refund_ref, e.amount_minor, e.placed_minor, e.status, c.available_minor FROM external_refunds e
    JOIN captures c ON c.merchant_id = e.merchant_id AND c.provider_account_id = e.provider_account_id
        AND c.charge_ref = e.charge_ref
"""


def _outside(books: Books, place: Place, payments: Iterable[Row]) -> None:
    """What others paid back at the provider is known here, and has its place in the books as far as there is room."""
    known = {row["refund_ref"]: row for row in place.as_administrator(_OUTSIDE)}
    of_orders = {row["payment_intent_ref"] for row in place.as_administrator(_OURS)}
    for payment in payments:
        for refund in payment["refunds"]:
            if refund["metadata"] or refund["status"] != "succeeded" or payment["payment_intent"] not in of_orders:
                continue
            row = known.get(refund["id"])
            if row is None or (row["amount_minor"], row["status"]) != (refund["amount"], refund["status"]):
                books.wrong.append(
                    f"{refund['id']} was made outside, and our books have {dict(row) if row else 'nothing'}"
                )
            elif row["placed_minor"] < row["amount_minor"] and row["available_minor"] > 0:
                books.wrong.append(f"{refund['id']} was made outside, and {row['placed_minor']} of it is placed")


# What is decided twice is a duplicate also before anything of it is paid.
_TWICE = (" twice", " two ", "more paid")


def _journals(books: Books, place: Place) -> None:
    for what, statement in JOURNALS.items():
        for row in place.as_administrator(statement):
            into = books.duplicates if any(word in what for word in _TWICE) else books.wrong
            into.append(f"{what}: {row['what']}")
    cases = place.as_administrator("SELECT merchant_id, case_id, number FROM cases")
    with transaction(place.stack.console, place.world.merchant_id, read_only=True) as db:
        for case in cases:
            broken = broken_link(db, case["merchant_id"], case["case_id"])
            if broken is not None:
                books.wrong.append(f"the history of C-{case['number']} is broken at event {broken}")


def _nothing_stuck(books: Books, place: Place) -> None:
    for what, statement in STUCK.items():
        books.stuck += [f"{what}: {row['what']}" for row in place.as_administrator(statement)]
    with transaction(place.stack.console, place.world.merchant_id, read_only=True) as db:
        # What people owe is shown to them with its limit; here time is moved on by days, and nobody plays every desk.
        books.stuck += [
            f"R-{one.number} is overdue in {one.state}"
            for one in overdue_intents(db, place.world.merchant_id)
            if one.owner == "worker"
        ]
