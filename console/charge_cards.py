"""The cards of a case about charges: from the rows of `ledger.queries.charges` to what templates/macros/charge_parts.html names."""

from typing import Any

from flask import url_for

from console import words
from console.charge_words import FOUND, VERDICTS, next_of, unread
from console.filters import money
from console.workings import rule_name
from ledger.queries.case import CaseHead, Conversation
from ledger.queries.charges import Found, OrderCharge, Reading


def charges_card(
    head: CaseHead, talks: list[Conversation], held: list[OrderCharge], reading: Reading | None, found: Found | None
) -> dict[str, Any]:
    """The `charges` of templates/case.html."""
    return {
        "order_reference": head.order_ref, "placed_at": head.placed_at, "paid_minor": head.paid_minor, "currency": head.currency,
        "customer_words": " / ".join(talk.customer_text for talk in talks if talk.customer_text),
        "conversations": [
            {"channel": talk.channel, "at": talk.at, "reference": talk.reference,
             "text": "joined the case" if talk.joined else "opened the case"}
            for talk in talks
        ],
        "reading": _reading(head, reading),
        "found": _found(head, held, found) if found else None,
        "charges": charge_rows(held, found.capture_id if found else None),
    }  # fmt: skip


def charge_rows(held: list[OrderCharge], back: Any = None) -> list[dict[str, Any]]:
    """One row a payment; `back` is the one that is found to be too much."""
    return [
        {
            "reference": one.charge_ref or "not at the provider", "at": one.captured_at, "currency": one.currency,
            "destination": words.destination(one.destination_kind, one.destination_brand, one.destination_last4),
            "taken_minor": one.captured_minor, "held_minor": one.held_minor,
            "gone_minor": one.refunded_minor + one.reserved_minor + one.disputed_minor,
            "left_minor": one.captured_minor - one.refunded_minor - one.reserved_minor - one.disputed_minor,
            "back": back is not None and one.capture_id == back,
        }
        for one in held
    ]  # fmt: skip


def _reading(head: CaseHead, reading: Reading | None) -> dict[str, Any] | None:
    if reading is None or reading.done_at is not None or head.closed_at is not None:
        return None
    by = f", by {reading.asked_by}" if reading.asked_by else ""
    return {"at": reading.asked_at, "by": by, "tries": max(0, reading.attempts), "next_at": reading.due_at}


def _found(head: CaseHead, held: list[OrderCharge], found: Found) -> dict[str, Any]:
    said, record, currency = FOUND[found.reason], found.record, head.currency
    verdict, look, icon = VERDICTS[found.finding]
    # Once a refund is under way its own page says what is true of it.
    open_ = found.finding != "verified" or head.stage == "ready"
    facts = [fact for test in record["tests"] if test["id"] == record["decided_by"] for fact in test["facts"]]
    named = unread(facts) if found.reason == "read_failed" else ", ".join(facts)
    return {
        "n": found.n, "at": found.at, "verdict": verdict, "look": look, "icon": icon, "digest": found.digest.hex()[:8],
        "decided": said.decided.format(facts=named or "no answer"),
        "customer": said.customer.format(amount=_amount(found.amount_minor, currency), to=_to(held, found)) if open_ else "",
        "next": next_of(found.reason, facts) if open_ else "", "sums": _sums(record, currency), "currency": currency,
        "tests": [
            {"text": rule_name(test["id"]), "status": test["status"], "rule": test["id"],
             "decided": test["id"] == record["decided_by"]}
            for test in record["tests"]
        ],
    }  # fmt: skip


def _sums(record: dict[str, Any], currency: str) -> list[dict[str, Any]]:
    """Left on all charges, less what the order owes: what is too much. Nothing where charges are of two currencies."""
    if record["net_minor"] is None:
        return []
    return [
        {"text": "Left on all charges", "minor": record["net_minor"], "currency": currency},
        {"text": "The order cost, less what was paid back for goods", "minor": -record["due_minor"], "currency": currency},
        {"text": "Too much", "minor": record["excess_minor"], "currency": currency},
    ]  # fmt: skip


def _amount(minor: int | None, currency: str) -> str:
    return f"{money(minor, currency)} {currency}" if minor is not None else ""


def _to(held: list[OrderCharge], found: Found) -> str:
    for one in held:
        if one.capture_id == found.capture_id:
            to = words.destination(one.destination_kind, one.destination_brand, one.destination_last4)
            return f"your {to['label']!s}" + (f" ending {to['last4']}" if to["last4"] else "")
    return ""


def read_again_act(head: CaseHead) -> dict[str, Any]:
    """The address and label of asking for another reading."""
    return {"label": "Read the charges again", "url": url_for("charges.read_again", case_id=head.case_id)}
