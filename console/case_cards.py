"""The cards of the case page: from the rows of `ledger.queries.case` to what templates/case.html names."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import url_for

from console import in_question_words, policy_words, who_decides, words
from console.access import current
from console.conflicts import conflicts
from console.fact_words import CURES, said
from console.filters import instant, money
from console.kind_words import ROUTES, amount
from console.kind_words import reason as reason_in_words
from console.timeline import event_text, why
from console.typed import percent_text
from console.workings import OUTCOMES, reasons
from ledger.approvals import role_reaches
from ledger.assessment import NO_POLICY
from ledger.automatic import LEFT
from ledger.automatic_rule import OBSTACLES
from ledger.caps import CapToday
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.limits import CustomerDay
from ledger.queries import case as read
from ledger.queries.facts import CaseFact
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
    parcels: list[read.SentParcel]
    facts: list[CaseFact]
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
    approved = bool(
        states & {"approved", "held", "submitting", "unknown", "pending", "needs_review", "succeeded", "reversed"}
    )
    paid, out = "succeeded" in states, bool(states & {"submitting", "unknown", "pending", "needs_review"})
    all_here, received, received_at = _received(head, at)
    return [
        {"mark": "open" if rejected else "done", "text": "Rejected" if rejected else "Authorised",
         "at": at.get("case.rejected") if rejected else head.opened_at},
        {"mark": "done" if all_here else "now" if head.received or head.stage in ("waiting_goods", "reading") else "open",
         "text": received, "at": received_at},
        {"mark": "done" if approved else "now" if "proposed" in states else "open",
         "text": "Approved" if approved else "Waits for approval" if "proposed" in states else "Not approved",
         "at": at.get("intent.approved") if approved else None},
        {"mark": "done" if paid else "now" if out else "open", "text": "Paid" if paid else "Sent, not paid" if out else "Not paid",
         "at": at.get("intent.succeeded") if paid else None},
    ]  # fmt: skip


def _received(head: read.CaseHead, at: dict[str, datetime]) -> tuple[bool, str, datetime | None]:
    """Whether what the case waits for is here, in words, and since when: goods, or what is read of charges."""
    if head.kind == DUPLICATE_CHARGE:
        read_ = "charges.found" in at and head.stage != "reading"
        return read_, "Charges read" if read_ else "Charges not read", at.get("charges.found") if read_ else None
    all_here = bool(head.announced) and head.received >= head.announced
    some = f"{head.received} of {head.announced} received" if head.received else "Not received"
    return all_here, "Received" if all_here else some, at.get("goods.reported")


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
        "sku": line.sku, "units_text": which, "reason": reason_in_words(reason), "announced": line.announced,
        "received": line.received, "inspected": line.inspected,
    }  # fmt: skip


_NOT_RECEIVED: Final = {
    False: "The goods are not here yet; the warehouse reports them.",
    True: "The case was closed without a report that goods arrived.",
}


def evidence(rows: CaseRows) -> dict[str, Any]:
    """What arrived and what was found, unit by unit, with the photos beside it."""
    several = len({finding.line_ref for finding in rows.findings}) > 1
    digest = rows.evidence_digest.hex()
    empty = "No unit was graded." if rows.head.received else _NOT_RECEIVED[rows.head.closed_at is not None]
    return {
        "where": ", ".join(dict.fromkeys(finding.parcel or finding.by for finding in rows.findings)),
        "count_text": words.counted(len(rows.photos), "photo", "photos"),
        "digest": f"{digest[:4]} {digest[4:8]}" if rows.findings or rows.photos else "",
        "empty_text": empty,
        "conflicts": conflicts(rows.entitlement.record if rows.entitlement else None),
        "facts": [_fact(one) for one in rows.facts if one.newest],
        "parcels": [
            {
                "tracking": one.tracking,
                "at": one.sent_at,
                "our_label": one.our_label,
                "proof": "scanned by the carrier" if one.proof == "carrier" else "the customer has a receipt",
            }
            for one in rows.parcels
        ],
        "units": [_finding(finding, several) for finding in rows.findings],
        "photos": [_photo(photo) for photo in rows.photos],
        "missing": [],
    }


def _fact(fact: CaseFact) -> dict[str, Any]:
    """A stated fact in words: {text, note, by, at}."""
    of = f"Line {fact.position}, {fact.title}: " if fact.position is not None else ""
    what = f", {CURES[fact.cure]}" if fact.cure else ""
    day = f", {instant(fact.happened_at, 'day')}" if fact.happened_at else ""
    who = f" ({fact.customer_ref})" if fact.customer_ref and current.may("see_contact") else ""
    return {
        "text": f"{of}{said(fact.kind, fact.said)}{what}{day}{who}",
        "note": fact.note,
        "by": fact.by,
        "at": fact.at,
    }


def _finding(finding: read.Finding, several: bool) -> dict[str, Any]:
    number = str(finding.a + 1) if finding.b - finding.a == 1 else f"{finding.a + 1}–{finding.b}"
    return {
        "anchor": f"e-{finding.number}", "number": f"{finding.position}: {number}" if several else number, "grade": finding.grade,
        "grade_text": words.GRADES[finding.grade], "notable": finding.grade in words.NOTABLE_GRADES, "found": _found(finding),
        "at": finding.at,
    }  # fmt: skip


def _found(finding: read.Finding) -> str:
    """What was seen, why it came back after all, under which serial, and the loss in value that somebody put on it."""
    reason = f"Reason found: {words.REASONS[finding.reason_found]}." if finding.reason_found else ""
    serial = f"Serial {finding.serial}." if finding.serial else ""
    loss = (
        f"Loss in value assessed: {percent_text(finding.assessed_bps)} %." if finding.assessed_bps is not None else ""
    )
    return " ".join(part for part in (finding.note, reason, serial, loss) if part)


def _photo(photo: read.PhotoCard) -> dict[str, Any]:
    url = url_for("case.photo", photo_id=photo.photo_id)
    unit = f"unit {photo.unit + 1}" if photo.unit is not None else "no unit named"
    return {"url": url, "thumb_url": url, "alt": f"Photo, {unit}: {photo.caption}", "caption": photo.caption, "unit_text": unit,
            "at": photo.at, "erased": photo.erased}  # fmt: skip


def no_entitlement(rows: CaseRows) -> str:
    """Why there is no amount, and what brings one."""
    found = rows.entitlement
    if rows.head.kind == DUPLICATE_CHARGE:
        return "An amount is owed when a charge is found to be one too many."
    if rows.head.stage == "exchanged":
        return "The units were exchanged, so no money is owed for them."
    if undecided := no_policy(rows):
        return undecided
    if found is None:
        return "It is worked out when the goods are here."
    because = "; ".join(reasons(found.record))
    return f"{words.sentence(because)}. {OUTCOMES[found.outcome]}" if because else OUTCOMES[found.outcome]


def no_policy(rows: CaseRows) -> str:
    """Why no policy decides the case now, and who can mend it; "" while one does."""
    said = next((event for event in rows.events if event.kind in (NO_POLICY, "entitlement.derived")), None)
    return policy_words.no_policy(said.body) if said is not None and said.kind == NO_POLICY else ""


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
    if (undecided := no_policy(rows)) and rows.entitlement is not None and rows.entitlement.total_minor:
        found.append({"on": True, "text": undecided, "detail": "What stands above was worked out before."})
    if day is not None:
        text = words.customer_day(day.refunds, day.currency, day.minor)
        found.append({"on": True, "text": f"{text[0].upper()}{text[1:]}.", "detail": ""})
    if head.separate:
        found.append({"on": True, "text": "The customer said this is a separate item of the same line.", "detail": ""})
    if head.other_open:
        several = words.counted(head.other_open, "other case", "other cases")
        found.append({"on": True, "text": f"The customer has {several} open.", "detail": ""})
    if head.blocked:
        named = "; ".join(in_question_words.name(code) for code in head.discrepancies)
        url = url_for("in_question.show", order_id=head.order_id) if current.may("see_questions") else ""
        found.append(
            {"on": True, "text": "The figures of the order are in question.", "detail": f"{named}.", "url": url}
        )
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
    facts = [{"term": "Policy", "text": intent.policy}]
    if says := words.act(intent.act)["says"]:
        facts.append({"term": "How", "text": says})
    facts.append({"term": "Decides", "text": ROUTES[intent.route]})
    if intent.route != "desk" and (because := who_decides.because(_route(rows), rows.head.currency)):
        facts.append({"term": "Because", "text": because})
    if intent.first_approver_name:
        facts.append({"term": "First approval", "text": intent.first_approver_name})
    if intent.computed_minor is not None:
        facts.append({"term": "Computed", "text": f"{amount(intent.computed_minor, rows.head.currency)} for the case"})
    for order in rows.outside:
        for term, minor in (("Refunded outside", order.refunded_minor), ("Disputed", order.disputed_minor)):
            if minor:
                facts.append({"term": term, "text": f"{money(minor, order.currency)} {order.currency}"})
    facts += [
        {"term": "Daily cap", "text": f"{money(cap.left_minor, cap.currency)} {cap.currency} left"}
        for cap in rows.caps
        if cap.currency == intent.currency
    ]
    facts += _automatic(rows, intent)
    if intent.state in ("held", "needs_review", "failed", "reversed") and intent.state_reason:
        facts.append({"term": "Why", "text": why(intent.state_reason)})
    return facts


def _route(rows: CaseRows) -> dict[str, Any]:
    found: dict[str, Any] = (
        rows.entitlement.record["route"] if rows.entitlement is not None else who_decides.NOBODY_SAID
    )
    return found


def _automatic(rows: CaseRows, intent: read.CaseIntent) -> list[dict[str, str]]:
    """What the policy did about the refund: approved it, or left it to a person, and why."""
    of_it = [event for event in rows.events if event.intent_number == intent.number]
    left = next((event.reason for event in of_it if event.kind == LEFT), "")
    approved = next((event.by for event in of_it if event.kind == "intent.approved"), "")
    if intent.state == "proposed" and left:
        return [{"term": "Automatic", "text": f"{words.sentence(OBSTACLES.get(left, left))}. A person approves it"}]
    return [{"term": "Approved by", "text": approved}] if approved.startswith("policy ") else []


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


def blocked_text(rows: CaseRows, intent: read.CaseIntent) -> str:
    """Why this person has no approve button: microcopy 25 and 26; "" when they have one, or may never approve."""
    if intent.state != "proposed" or not current.may("approve"):
        return ""
    if rows.head.blocked:
        return "The figures of this order are in question. Nothing of it is paid until that is settled."
    if current.actor in (intent.requester, rows.head.opened_by):
        return "You asked for this, so another person has to approve it."
    if any(fact.actor == current.actor for fact in rows.facts):
        return "You stated a fact that this rests on, so another person has to approve it."
    if intent.first_approver == current.staff_id:
        return "You approved it as the first of two managers. Another one has to."
    if not role_reaches(current.role, intent.route):
        return who_decides.not_yours(
            _route(rows), intent.route, rows.head.currency, intent.amount_minor, intent.currency
        )
    return ""


def _approvable(intent: read.CaseIntent, opener: str) -> bool:
    return (
        intent.state == "proposed"
        and current.may("approve")
        and current.actor not in (intent.requester, opener)
        and intent.first_approver != current.staff_id
        and role_reaches(current.role, intent.route)
    )
