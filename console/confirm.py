"""The confirm sheet: what exactly is approved, from ledger rows only, and the one plain form that approves it (S23, S25)."""

import re
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, TextAreaField
from wtforms.validators import Length, Regexp

from console import words
from console.access import current, permission, reading, writing
from console.filters import money
from console.forms import ConsoleForm, kept_note, new_operation
from console.fragments import page, see_other
from console.installation import installed
from console.log import log
from console.timeline import event_text
from ledger.approvals import APPROVAL_HOURS, Seen, approve, role_reaches
from ledger.card_numbers import mask_card_numbers
from ledger.errors import (
    AlreadyDecided,
    LedgerError,
    LimitReached,
    NotAllowed,
    NotEnoughMoneyLeft,
    NotFound,
    SamePerson,
    Stale,
    WrongState,
)
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.limits import read_sum, windows
from ledger.money import exponent
from ledger.policies import read_policy
from ledger.queries.case import read_events
from ledger.queries.decision import Decision, read_decision, read_unit_lines
from ledger.verification import waits_for_reading

blueprint = Blueprint("confirm", __name__, url_prefix="/<merchant_slug>/refunds")

LONGEST_NOTE: Final = 2000


class ApproveForm(ConsoleForm):
    """What comes back: the fingerprint that was rendered, its operation key, a note. No amount, no destination (S19)."""

    fingerprint = HiddenField(
        validators=[Regexp(re.compile(r"\A[0-9a-f]{64}\Z"), message="Open this page again from the case.")]
    )
    note = TextAreaField("Note", validators=[Length(max=LONGEST_NOTE, message="Write at most 2,000 characters")])


@blueprint.get("/<uuid:intent_id>/approval")
@permission("approve")
def show(intent_id: UUID) -> Response:
    """The sheet, or why there is none for this person."""
    with reading() as db:
        decision = read_decision(db, current.merchant_id, intent_id)
        if decision.approval_id is not None and decision.state != "withdrawn":
            return see_other("decision.show", intent_id=intent_id)
        refusal = _refusal_of_person(db, decision) or _refusal_of_state(decision) or _refusal_of_reading(db, decision)
        return _page(db, decision, refusal, kept_note())


@blueprint.post("/<uuid:intent_id>/approval")
@permission("approve")
def approve_refund(intent_id: UUID) -> Response:
    """Approves what the sheet showed. A second submit lands on the first decision; a changed intent is a 409."""
    form = ApproveForm()
    note = str(form.note.data or "").strip()
    if not form.validate():
        return _sheet_again(intent_id, note, str(next(error for field in form for error in field.errors)))
    seen = Seen(bytes.fromhex(str(form.fingerprint.data)), str(form.operation.data), mask_card_numbers(note))
    window = installed().settings.cancel_window_seconds
    try:
        with writing() as db:
            decision = approve(
                db,
                current.merchant_id,
                intent_id,
                current.staff_id,
                seen,
                installed().sealer,
                cancel_window_seconds=window,
            )
    except AlreadyDecided:
        return see_other("decision.show", intent_id=intent_id, already=1)
    except (Stale, SamePerson, NotAllowed, LimitReached, NotEnoughMoneyLeft, WrongState) as refused:
        return _refused(intent_id, refused, note)
    log.info(
        "approved", intent_id=intent_id, key=decision.key, state=decision.state, staff_id=current.staff_id, role=current.role,
        merchant=current.slug,
    )  # fmt: skip
    return see_other("decision.show", intent_id=intent_id)


def _sheet_again(intent_id: UUID, note: str, error: str) -> Response:
    with reading() as db:
        return _page(db, read_decision(db, current.merchant_id, intent_id), None, note, note_error=error, status=422)


def _refused(intent_id: UUID, refused: LedgerError, note: str) -> Response:
    """The sheet with what is true now, under what was refused and why; what was typed is kept."""
    log.info("refused", reason=refused.code, intent_id=intent_id, staff_id=current.staff_id, merchant=current.slug)
    with reading() as db:
        decision = read_decision(db, current.merchant_id, intent_id)
        if isinstance(refused, (SamePerson, NotAllowed, LimitReached)):
            refusal = _refusal_of_person(db, decision)
            if refusal is None:
                raise refused
            return _page(db, decision, refusal, note)
        if isinstance(refused, WrongState):
            return _page(db, decision, _refusal_of_state(decision) or _refusal_of_reading(db, decision), note)
        successor = refused.facts.get("new_intent_id")
        now = read_decision(db, current.merchant_id, successor) if successor else decision
        return _page(db, now, _refusal_of_change(db, refused, decision), note, status=409)


def _page(
    db: Connection,
    decision: Decision,
    refusal: dict[str, Any] | None,
    note: str,
    *,
    note_error: str = "",
    status: int = 0,
) -> Response:
    offered = refusal is None or refusal["kind"] == "changed"
    sheet = (
        _sheet(db, decision)
        if decision.state == "proposed" and offered and not _refusal_of_person(db, decision)
        else None
    )
    back = {
        "url": url_for("case.show", case_id=decision.case_id),
        "case_reference": words.case_reference(decision.case_number),
    }
    usual = 200 if refusal is None else 409 if refusal["kind"] in ("gone", "changed", "blocked") else 403
    typed = {"text": note, "max": LONGEST_NOTE, "error": note_error}
    return page("confirm.html", status=status or usual, back=back, sheet=sheet, refusal=refusal, note=typed)


def _sheet(db: Connection, decision: Decision) -> dict[str, Any]:
    """Every value the approval binds, and the fingerprint of exactly these rows."""
    intent = read_intent(db, current.merchant_id, decision.intent_id)
    if intent is None:
        raise NotFound
    seen = fingerprint(intent, evidence_digest(db, current.merchant_id, decision.case_id)).hex()
    return {
        "action_url": url_for("confirm.approve_refund", intent_id=decision.intent_id),
        "operation": new_operation(),
        "fingerprint": seen,
        "fingerprint_short": short_digest(seen),
        "act": words.act(decision.act, decision.charge_type),
        "amount_minor": decision.amount_minor,
        "currency": decision.currency,
        "destination": words.destination(
            decision.destination_kind, decision.destination_brand, decision.destination_last4
        ),
        "order_reference": decision.order_ref,
        "case_reference": words.case_reference(decision.case_number),
        "intent_reference": words.refund_reference(decision.number),
        "customer": words.customer(decision.customer),
        "merchant_name": decision.merchant_name,
        "units_text": units_text(db, decision),
        "policy": f"{decision.policy_id}@{decision.policy_version}",
        "approval_text": "your session",
        "valid_until": decision.at + timedelta(hours=APPROVAL_HOURS),
        "send_delay_seconds": installed().settings.cancel_window_seconds,
    }


def short_digest(digest: str) -> str:
    """The first twelve digits in groups of four, for reading out."""
    return f"{digest[:4]} {digest[4:8]} {digest[8:12]}"


def units_text(db: Connection, decision: Decision) -> str:
    """ "line 1, units 1 and 2 of 3", line by line; the goods are named by their place on the order (S23)."""
    lines = read_unit_lines(db, current.merchant_id, decision.intent_id)
    spans: dict[str, list[tuple[int, int]]] = {}
    for unit in decision.units:
        spans.setdefault(unit["line"], []).append((unit["from"], unit["to"]))
    texts = [f"line {line.position}, {words.units(spans[ref])} of {line.quantity}" for ref, line in lines.items()]
    return "; ".join(texts)


def _refusal_of_person(db: Connection, decision: Decision) -> dict[str, Any] | None:
    """Why this person may not approve this refund: they asked for it (P7), or it is above their limit."""
    if current.actor in (decision.requester, decision.case_opener):
        return {"kind": "own"}
    together = read_sum(db, current.merchant_id, decision.intent_id) if decision.state == "proposed" else None
    if role_reaches(current.role, decision.route) and (together is None or role_reaches(current.role, together.route)):
        return _refusal_of_windows(db, decision)
    if together is not None and together.manager_from_minor is not None and together.others:
        alone = decision.amount_minor < together.manager_from_minor
        if alone and together.together_minor >= together.manager_from_minor:
            return {"kind": "sum", "together_minor": together.together_minor, "currency": together.currency,
                    "others_text": words.counted(together.others, "other refund", "other refunds"),
                    "limit_minor": together.manager_from_minor - 1}  # fmt: skip
    limit = read_policy(db, current.merchant_id, decision.policy_id, decision.policy_version)
    first_of_managers = limit.terms.routes.manager_from_minor.get(decision.currency, 0)
    return {"kind": "limit", "amount_minor": decision.amount_minor, "limit_minor": max(0, first_of_managers - 1),
            "currency": decision.currency, "above": decision.amount_minor >= first_of_managers}  # fmt: skip


def _refusal_of_windows(db: Connection, decision: Decision) -> dict[str, Any] | None:
    """Which of the person's hour and day is used up, what is left of it and when it frees."""
    if decision.state != "proposed":
        return None
    for window in windows(db, current.merchant_id, current.staff_id, decision.currency, exponent(decision.currency)):
        if not window.takes(decision.amount_minor):
            return {"kind": "window", "span": window.span, "left": window.limit_count - window.used_count,
                    "most": window.limit_count, "left_minor": window.limit_minor - window.used_minor,
                    "limit_minor": window.limit_minor, "currency": window.currency, "ends_at": window.ends_at}  # fmt: skip
    return None


def _refusal_of_state(decision: Decision) -> dict[str, Any] | None:
    if decision.state == "proposed":
        return {"kind": "blocked"} if decision.blocked else None
    return {"kind": "gone", "state": decision.state, "by": decision.withdrawn_by or "", "at": decision.state_at}


def _refusal_of_reading(db: Connection, decision: Decision) -> dict[str, Any] | None:
    """After a backup was restored the payment is read at the provider before anything of it is approved (S87)."""
    if decision.state != "proposed" or not waits_for_reading(db, current.merchant_id, decision.intent_id):
        return None
    return {"kind": "unread"}


def _refusal_of_change(db: Connection, refused: LedgerError, seen: Decision) -> dict[str, Any]:
    """Old and new values, who changed it and how."""
    if isinstance(refused, NotEnoughMoneyLeft):
        left = {
            "what": "money left on the payment",
            "was": _amount(seen.amount_minor, seen.currency),
            "now": "less than that",
        }
        return {"kind": "changed", "changes": [left], "reason": refused.sentence, "by": "", "at": None}
    facts = refused.facts
    if facts["new_minor"] is None and facts["state"] != "proposed":
        return {"kind": "gone", "state": facts["state"], "by": facts["changed_by"], "at": facts["changed_at"]}
    new_minor = facts["new_minor"] if facts["new_minor"] is not None else seen.amount_minor
    changes = [
        {
            "what": "amount",
            "was": _amount(facts["old_minor"], facts["currency"]),
            "now": _amount(new_minor, facts["currency"]),
        }
    ]
    if facts["old_minor"] == new_minor:
        changes = [{"what": "evidence", "was": "as the page showed it", "now": "as below"}]
    last = [
        event
        for event in read_events(db, current.merchant_id, seen.case_id, most=20)
        if event.kind == facts["changed_kind"]
    ]
    reason = f"{event_text(last[0])}." if last else ""
    return {
        "kind": "changed",
        "changes": changes,
        "reason": reason,
        "by": facts["changed_by"],
        "at": facts["changed_at"],
    }


def _amount(minor: int, currency: str) -> str:
    return f"{money(minor, currency)} {currency}"
