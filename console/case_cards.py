"""The cards of the case page: from the rows of `ledger.queries.case` to what templates/case.html names."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import url_for

from console import words
from console.access import current
from console.filters import money
from console.timeline import event_text, why
from console.workings import OUTCOMES, reasons, tax_text, working
from ledger.approvals import role_reaches
from ledger.caps import CapToday
from ledger.entitlement_check import check
from ledger.limits import CustomerDay
from ledger.queries import case as read
from ledger.queries.outside import OrderOutside
from ledger.states import LIVE


@dataclass(frozen=True)
class CaseRows:
    """Everything one case page shows, as read in one transaction."""

    head: read.CaseHead
    lines: list[read.ClaimedLine]
    conversations: list[read.Conversation]
    findings: list[read.Finding]
    photos: list[read.PhotoCard]
    entitlement: read.StoredEntitlement | None
    intents: list[read.CaseIntent]
    earlier: list[read.EarlierRefund]
    events: list[read.Event]
    caps: list[CapToday]
    evidence_digest: bytes
    outside: list[OrderOutside]

    @property
    def intent(self) -> read.CaseIntent | None:
        """The refund the page is about: a live one, else the last that was not withdrawn."""
        live = [intent for intent in self.intents if intent.state in LIVE]
        left = [intent for intent in self.intents if intent.state != "withdrawn"]
        return next(iter(live or left), None)


def case_head(rows: CaseRows, stale: dict[str, Any] | None) -> dict[str, Any]:
    """The line over the cards. `stale` is what stands there once the case changed."""
    head = rows.head
    return {
        "reference": words.case_reference(head.number),
        "customer": words.customer(head.customer),
        "opened_at": head.opened_at,
        "due": words.due(head.due_at, head.closed_at),
        "badge": words.case_badge(head.stage),
        "stale": stale,
        "stale_url": url_for("case.stale", case_id=head.case_id, seen=head.head_number),
    }


def stale(case_id: UUID, event: read.Event) -> dict[str, Any]:
    """What changed since the page was read."""
    by = f", by {event.by}" if event.by else ""
    return {"text": f"{event_text(event)}{by}.", "url": url_for("case.show", case_id=case_id)}


def four_things(rows: CaseRows) -> list[dict[str, Any]]:
    """Authorised, received, approved, paid: kept distinct (DESIGN §2)."""
    head, states = rows.head, {intent.state for intent in rows.intents}
    at = {event.kind: event.at for event in reversed(rows.events)}
    rejected = head.stage == "rejected"
    all_here = bool(head.announced) and head.received >= head.announced
    approved = bool(
        states & {"approved", "held", "submitting", "unknown", "pending", "needs_review", "succeeded", "reversed"}
    )
    paid, out = "succeeded" in states, bool(states & {"submitting", "unknown", "pending", "needs_review"})
    received = (
        "Received" if all_here else f"{head.received} of {head.announced} received" if head.received else "Not received"
    )
    return [
        {"mark": "open" if rejected else "done", "text": "Rejected" if rejected else "Authorised",
         "at": at.get("case.rejected") if rejected else head.opened_at},
        {"mark": "done" if all_here else "now" if head.received or head.stage == "waiting_goods" else "open", "text": received,
         "at": at.get("goods.reported")},
        {"mark": "done" if approved else "now" if "proposed" in states else "open",
         "text": "Approved" if approved else "Waits for approval" if "proposed" in states else "Not approved",
         "at": at.get("intent.approved") if approved else None},
        {"mark": "done" if paid else "now" if out else "open", "text": "Paid" if paid else "Sent, not paid" if out else "Not paid",
         "at": at.get("intent.succeeded") if paid else None},
    ]  # fmt: skip


def claim(rows: CaseRows) -> dict[str, Any]:
    """What was claimed, and through which conversations."""
    head = rows.head
    words_of_customer = [talk.customer_text for talk in rows.conversations if talk.customer_text]
    return {
        "order_reference": head.order_ref,
        "placed_at": head.placed_at,
        "paid_minor": head.paid_minor,
        "currency": head.currency,
        "customer_words": " / ".join(words_of_customer),
        "lines": [_claimed_line(line, head.reason) for line in rows.lines],
        "conversations": [
            {"channel": talk.channel, "at": talk.at, "reference": talk.reference,
             "text": "joined the case" if talk.joined else "opened the case"}
            for talk in rows.conversations
        ],
    }  # fmt: skip


def _claimed_line(line: read.ClaimedLine, reason: str) -> dict[str, Any]:
    held = [(a, b) for a, b in line.units]
    which = (
        f"{words.sentence(words.units(held))} of line {line.position}"
        if held
        else f"No unit of line {line.position} any more"
    )
    return {
        "quantity": sum(b - a for a, b in held) or line.announced, "of_quantity": line.quantity, "title": line.title or line.sku,
        "sku": line.sku, "units_text": which, "reason": words.REASONS[reason], "announced": line.announced,
        "received": line.received, "inspected": line.inspected,
    }  # fmt: skip


def evidence(rows: CaseRows) -> dict[str, Any]:
    """What arrived and what was found, unit by unit, with the photos beside it."""
    several = len({finding.line_ref for finding in rows.findings}) > 1
    digest = rows.evidence_digest.hex()
    empty = "No unit was graded." if rows.head.received else "The goods are not here yet; the warehouse reports them."
    return {
        "where": ", ".join(dict.fromkeys(finding.parcel or finding.by for finding in rows.findings)),
        "count_text": words.counted(len(rows.photos), "photo", "photos"),
        "digest": f"{digest[:4]} {digest[4:8]}" if rows.findings or rows.photos else "",
        "empty_text": empty,
        "units": [_finding(finding, several) for finding in rows.findings],
        "photos": [_photo(photo) for photo in rows.photos],
        "missing": [],
    }


def _finding(finding: read.Finding, several: bool) -> dict[str, Any]:
    number = str(finding.a + 1) if finding.b - finding.a == 1 else f"{finding.a + 1}–{finding.b}"
    return {
        "anchor": f"e-{finding.number}", "number": f"{finding.position}: {number}" if several else number, "grade": finding.grade,
        "grade_text": words.GRADES[finding.grade], "notable": finding.grade in words.NOTABLE_GRADES, "found": finding.note,
        "at": finding.at,
    }  # fmt: skip


def _photo(photo: read.PhotoCard) -> dict[str, Any]:
    url = url_for("case.photo", photo_id=photo.photo_id)
    unit = f"unit {photo.unit + 1}" if photo.unit is not None else "no unit named"
    return {"url": url, "thumb_url": url, "alt": f"Photo, {unit}: {photo.caption}", "caption": photo.caption, "unit_text": unit,
            "at": photo.at}  # fmt: skip


def entitlement(rows: CaseRows) -> dict[str, Any] | None:
    """The arithmetic line by line, added up again by the checker; None when no units are worth anything yet."""
    found = rows.entitlement
    if found is None or not found.total_minor:
        return None
    record, currency = found.record, found.currency
    at_evidence = bool(rows.findings)
    return {
        "version": found.n,
        "policy": f"{found.policy_id}@{found.policy_version}",
        "currency": currency,
        "total_minor": found.total_minor,
        "paid_minor": int(record["paid_before"]),
        "payable_minor": found.payable_minor,
        "tax_minor": found.tax_minor,
        "tax_text": tax_text(record),
        "checked": not check(record),
        "lines": [
            {"say": line["say"], "working": working(line["expr"], currency), "rule": line["rule"], "amount_minor": line["minor"],
             "evidence_url": "#evidence" if at_evidence and line["rule"] == "goods.units" else None}
            for line in record["lines"]
        ],
        "because": [words.sentence(reason) for reason in reasons(record)],
    }  # fmt: skip


def no_entitlement(rows: CaseRows) -> str:
    """Why there is no amount, and what brings one."""
    found = rows.entitlement
    if found is None:
        return "It is worked out when the goods are here."
    because = "; ".join(reasons(found.record))
    return f"{words.sentence(because)}. {OUTCOMES[found.outcome]}" if because else OUTCOMES[found.outcome]


def earlier(rows: CaseRows) -> list[dict[str, Any]]:
    """Refunds of other cases that touch this order or this customer."""
    return [
        {
            "reference": words.refund_reference(refund.number), "url": url_for("decision.show", intent_id=refund.intent_id),
            "amount_minor": refund.amount_minor, "currency": refund.currency, "at": refund.state_at,
            "units_text": unit_text(refund.units) + ("" if refund.same_order else " of another order"),
            "channel": words.channel(refund.channel), "state": refund.state,
        }
        for refund in rows.earlier
    ]  # fmt: skip


def unit_text(units: Iterable[dict[str, Any]]) -> str:
    """The units of an intent by line reference: "units 1 and 2 of TEE"."""
    by_line: dict[str, list[tuple[int, int]]] = {}
    for unit in units:
        by_line.setdefault(unit["line"], []).append((unit["from"], unit["to"]))
    return "; ".join(f"{words.units(spans)} of {line}" for line, spans in by_line.items())


def signals(rows: CaseRows, day: CustomerDay | None = None) -> list[dict[str, Any]]:
    """What raises attention; none of it changes an amount. `day`: several refunds of the customer in 24 hours (S22)."""
    head = rows.head
    found = []
    if day is not None:
        text = words.customer_day(day.refunds, day.currency, day.minor)
        found.append({"on": True, "text": f"{text[0].upper()}{text[1:]}.", "detail": ""})
    if head.separate:
        found.append({"on": True, "text": "The customer said this is a separate item of the same line.", "detail": ""})
    if head.other_open:
        several = words.counted(head.other_open, "other case", "other cases")
        found.append({"on": True, "text": f"The customer has {several} open.", "detail": ""})
    if head.blocked:
        named = ", ".join(name.replace("_", " ") for name in head.discrepancies)
        found.append({"on": True, "text": "The figures of the order are in question.", "detail": named})
    return found + [signal for order in rows.outside for signal in _outside(order)]


def _outside(order: OrderOutside) -> list[dict[str, Any]]:
    """What others did to the payments of the order, one signal each."""
    found = []
    if order.open_minor:
        amount = f"{money(order.open_minor, order.currency)} {order.currency}"
        found.append({"on": True, "text": f"{amount} of this order was refunded outside Onceback.",
                      "detail": "Finance has to say what for. No refund of the order goes before."})  # fmt: skip
    elif order.refunded_minor:
        amount = f"{money(order.refunded_minor, order.currency)} {order.currency}"
        found.append({"on": True, "text": f"{amount} of this order was refunded outside Onceback.", "detail": ""})
    if order.disputes:
        amount = f"{money(order.disputed_minor, order.currency)} {order.currency} is off the payment"
        found.append(
            {"on": True, "text": "The customer's bank disputes a payment of this order.", "detail": f"{amount}."}
        )
    if order.asks:
        found.append({"on": True, "text": "The customer's bank asks about a payment of this order.",
                      "detail": "A refund of it is held until the bank is answered."})  # fmt: skip
    return found


def intent_card(rows: CaseRows) -> dict[str, Any] | None:
    """The refund the case is about, with what it leaves on its payment."""
    intent = rows.intent
    if intent is None:
        return None
    to = words.destination(intent.destination_kind, intent.destination_brand, intent.destination_last4)
    return {
        "reference": words.refund_reference(intent.number),
        "amount_minor": intent.amount_minor,
        "currency": intent.currency,
        "destination": to,
        "destination_reason": f"The {'card' if to['kind'] == 'card' else 'payment'} that paid this order. Fixed.",
        "asked_by": intent.requester_name,
        "asked_at": intent.created_at,
        "decision_url": None if intent.state == "proposed" else url_for("decision.show", intent_id=intent.intent_id),
        "capture": _capture(intent),
        "facts": _facts(rows, intent),
    }


def _capture(intent: read.CaseIntent) -> dict[str, int] | None:
    """How much of the payment was taken before, is this refund, and stays."""
    if intent.state in ("failed", "withdrawn", "reversed") or not intent.captured_minor:
        return None
    taken = intent.reserved_minor + intent.refunded_minor + intent.disputed_minor
    before = taken if intent.state == "proposed" else taken - intent.amount_minor
    left = intent.captured_minor - before - intent.amount_minor
    if before < 0 or left < 0:
        return None
    return {
        "captured_minor": intent.captured_minor, "refunded_minor": before, "this_minor": intent.amount_minor, "left_minor": left,
        "refunded_permille": before * 1000 // intent.captured_minor,
        "this_permille": intent.amount_minor * 1000 // intent.captured_minor,
    }  # fmt: skip


def _facts(rows: CaseRows, intent: read.CaseIntent) -> list[dict[str, str]]:
    facts = [{"term": "Policy", "text": f"{intent.policy_id}@{intent.policy_version}"}]
    if says := words.act(intent.act)["says"]:
        facts.append({"term": "How", "text": says})
    facts.append({"term": "Decides", "text": "a manager" if intent.route == "manager" else "returns desk or a manager"})
    for order in rows.outside:
        for term, minor in (("Refunded outside", order.refunded_minor), ("Disputed", order.disputed_minor)):
            if minor:
                facts.append({"term": term, "text": f"{money(minor, order.currency)} {order.currency}"})
    facts += [
        {"term": "Daily cap", "text": f"{money(cap.left_minor, cap.currency)} {cap.currency} left"}
        for cap in rows.caps
        if cap.currency == intent.currency
    ]
    if intent.state in ("held", "needs_review", "failed", "reversed") and intent.state_reason:
        facts.append({"term": "Why", "text": why(intent.state_reason)})
    return facts


def other_intents(rows: CaseRows) -> list[dict[str, Any]]:
    """The case's other refunds, newest first: of another payment, or earlier ones."""
    main = rows.intent
    return [
        {
            "reference": words.refund_reference(intent.number), "amount_minor": intent.amount_minor, "currency": intent.currency,
            "destination": words.destination(intent.destination_kind, intent.destination_brand, intent.destination_last4),
            "state": intent.state, "url": url_for("decision.show", intent_id=intent.intent_id),
            "confirm_url": (
                url_for("confirm.show", intent_id=intent.intent_id) if _approvable(intent, rows.head.opened_by) else None
            ),
        }
        for intent in rows.intents
        if main is None or intent.intent_id != main.intent_id
    ]  # fmt: skip


def blocked_text(intent: read.CaseIntent, head: read.CaseHead) -> str:
    """Why this person has no approve button: microcopy 25 and 26; "" when they have one, or may never approve."""
    if intent.state != "proposed" or not current.may("approve"):
        return ""
    if head.blocked:
        return "The figures of this order are in question. Nothing of it is paid until that is settled."
    if current.actor in (intent.requester, head.opened_by):
        return "You asked for this, so another person has to approve it."
    if not role_reaches(current.role, intent.route):
        return "This refund is above what you may approve. Hand it to a manager."
    return ""


def _approvable(intent: read.CaseIntent, opener: str) -> bool:
    return (
        intent.state == "proposed"
        and current.may("approve")
        and current.actor not in (intent.requester, opener)
        and role_reaches(current.role, intent.route)
    )
