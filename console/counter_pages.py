"""What the counter's pages show: the lines of an order, the question to the customer, and the refusal that explains itself."""

from typing import Any

from flask import url_for
from wtforms import Form

from console import words
from console.filters import instant, money
from console.kind_words import KINDS
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.errors import LedgerError
from ledger.queries.orders import CaseOfOrder, OrderAtCounter, OrderLine


def order_page(found: OrderAtCounter, form: Form, errors: dict[int, str], whole: list[str]) -> dict[str, Any]:
    """templates/counter.html with an order open. `errors` by the line's position, `whole` about the request."""
    return {
        "find": {"url": url_for("counter.index"), "q": "", "searched": False, "orders": []},
        "order": {
            "reference": found.external_ref, "customer": words.customer(found.customer), "placed_at": found.placed_at,
            "paid_minor": found.paid_minor, "currency": found.currency, "cases": [_case(one) for one in found.cases],
            "charges_url": url_for("charges.ask", order_id=found.order_id),
            "without_return_url": url_for("kinds.index", order_id=found.order_id),
            "lines": [_line(line, form, errors.get(line.position, "")) for line in found.lines],
        },
        "form": form,
        "form_errors": whole,
        "wrong": bool(errors),
        "receipt_url": url_for("receipts.show", receipt_id=form["receipt"].data) if form["receipt"].data else "",
        "action_url": url_for("counter.open_at_counter", order_id=found.order_id),
    }  # fmt: skip


def _case(one: CaseOfOrder) -> dict[str, Any]:
    """A case of the order; `says` where its kind is another than a return."""
    says = (
        "Charged twice?"
        if one.kind == DUPLICATE_CHARGE
        else words.sentence(KINDS[one.kind]["name"])
        if one.kind in KINDS
        else ""
    )
    return {"reference": words.case_reference(one.number), "url": url_for("case.show", case_id=one.case_id), "says": says,
            "badge": words.case_badge(one.stage)}  # fmt: skip


def _line(line: OrderLine, form: Form, error: str) -> dict[str, Any]:
    name = f"quantity_{line.position}"
    offered = name in form
    title = line.title or line.sku or line.line_ref
    value = str(form[name].data or "") if offered else ""
    even = line.gross_minor % line.quantity == 0
    return {
        "number": line.position, "title": title, "sku": line.sku, "bought": line.quantity, "taken": line.taken,
        "left": line.quantity - line.taken, "offered": offered, "each_minor": line.gross_minor // line.quantity if even else None,
        "quantity": {"name": name, "label": f"Units of {title} to return", "value": value, "error": error},
    }  # fmt: skip


def too_many(found: OrderAtCounter, refused: LedgerError) -> tuple[dict[int, str], list[str]]:
    """What is said beside each line that has less left than asked, and about the whole: where the units went (P18)."""
    position = {line.line_ref: line.position for line in found.lines}
    short = [fact for fact in refused.facts["lines"] if fact["asked"] > fact["left"]]
    errors = {position[fact["line"]]: f"only {fact['left']} of {fact['bought']} left" for fact in short}
    refs = {fact["line"] for fact in short}
    whole = [refused.sentence]
    whole += [f"Request {case['case']} holds units of it." for case in refused.facts.get("cases", [])]
    whole += [_refund_in_words(_refund(refund, refs)) for refund in refused.facts.get("refunds", [])]
    return errors, whole


def _refund_in_words(refund: dict[str, Any]) -> str:
    amount = f"{money(refund['amount_minor'], refund['currency'])} {refund['currency']}"
    day = f"{instant(refund['at'], 'day')} at {instant(refund['at'], 'time')}"
    were = "was" if refund["single"] else "were"
    done = "released, for it had not been taken," if refund["act"] == "cancel_payment" else "refunded"
    return (
        f"{refund['units_text']} {were} {done} on {day}: {amount},"
        f" through {refund['channel']}, by {refund['by']}, reference {refund['reference']}."
    )


def ask_page(found: OrderAtCounter, form: Form, facts: dict[str, Any]) -> dict[str, Any]:
    """The `ask` of templates/counter_ask.html: what is there already, and the typed request carried along."""
    touched = [line for line in facts["lines"] if line["in_open_cases"] or line["refunded"]]
    left = "; ".join(
        f"{line['left']} of {line['bought']} units {'is' if line['left'] == 1 else 'are'} left" for line in touched
    )
    several = len(facts["cases"]) > 1
    taken = sum(line["in_open_cases"] for line in touched)
    held = "some of these units" if several else words.counted(taken, "unit of this line", "units of this line")
    hidden = [
        (field.name, str(field.data))
        for field in form
        if field.data and field.name not in ("answer", "operation", "csrf_token")
    ]
    return {
        "left_text": f"{left}.",
        "order_reference": found.external_ref,
        "title": ", ".join(line["title"] or line["line"] for line in touched),
        "customer": words.customer(found.customer),
        "cases": [_known_case(case, held) for case in facts["cases"]]
        + [_known_refund(refund, {line["line"] for line in touched}) for refund in facts["refunds"]],
        "hidden": hidden,
        "url": url_for("counter.open_at_counter", order_id=found.order_id),
        "operation": form["operation"].data,
        "back_url": url_for("counter.order", order_id=found.order_id),
    }


def _known_case(case: dict[str, Any], units_text: str) -> dict[str, Any]:
    url = url_for("case.show", case_id=case["case_id"])
    return {"reference": case["case"], "url": url, "what": "opened", "at": case["opened_at"],
            "channel": words.channel(case["channel"]), "units_text": units_text,
            "badge": words.case_badge(case["stage"])}  # fmt: skip


def _known_refund(refund: dict[str, Any], lines: set[str]) -> dict[str, Any]:
    url = url_for("case.show", case_id=refund["case_id"])
    return {"reference": words.case_reference(refund["case_number"]), "url": url, "what": "refunded", "at": refund["state_at"],
            "channel": words.channel(refund["channel"]), "units_text": words.units(_spans(refund, lines)),
            "badge": {"state": refund["state"], "text": ""}}  # fmt: skip


def refused_page(found: OrderAtCounter, facts: dict[str, Any]) -> dict[str, Any]:
    """The `refused` of templates/already_refunded.html, with the person's name: this is the merchant's own staff (P18)."""
    asked = facts["lines"]
    gone = [line for line in asked if not line["left"]] or asked
    lines = {line["line"] for line in gone}
    return {
        "order_reference": found.external_ref,
        "customer": words.customer(found.customer),
        "title": ", ".join(line["title"] or line["line"] for line in gone),
        "units_text": ", ".join(words.counted(line["asked"], "unit", "units") for line in gone),
        "refunds": [_refund(refund, lines) for refund in reversed(facts["refunds"])],
        "left": sum(line["left"] for line in gone),
        "back_url": url_for("counter.order", order_id=found.order_id),
    }


def _refund(refund: dict[str, Any], lines: set[str]) -> dict[str, Any]:
    spans = _spans(refund, lines)
    return {
        "units_text": words.sentence(words.units(spans)),
        "single": sum(b - a for a, b in spans) == 1,
        "amount_minor": refund["amount_minor"],
        "currency": refund["currency"],
        "destination": words.destination(
            refund["destination_kind"], refund["destination_brand"], refund["destination_last4"]
        ),
        "at": refund["state_at"],
        "channel": words.channel(refund["channel"]),
        **_source(refund),
        "state": refund["state"],
        "act": refund["act"],
    }


def _source(refund: dict[str, Any]) -> dict[str, Any]:
    """Who paid it and where that is written: a decision of ours, or a refund made outside that was put on a case."""
    if refund["intent_id"] is None:
        url = url_for("case.show", case_id=refund["case_id"])
        dashboard = refund["channel"] == "dashboard"
        by = "somebody outside Onceback" if dashboard else "nobody named: the books were restored from a backup"
        return {"by": by, "reference": refund["provider_refund_ref"], "url": url, "link_text": "Open its case"}
    return {
        "by": refund["approver_name"] or "nobody named",
        "reference": words.refund_reference(refund["number"]),
        "url": url_for("decision.show", intent_id=refund["intent_id"]),
        "link_text": "Open that decision",
    }


def _spans(refund: dict[str, Any], lines: set[str]) -> list[tuple[int, int]]:
    return [(unit["from"], unit["to"]) for unit in refund["units"] if unit["line"] in lines]
