"""The confirm sheet of a case with several refunds: each exactly as it will be bound, and one button for all or none."""

import re
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, TextAreaField
from wtforms.validators import Length, Regexp

from console import team, words
from console.access import current, permission, reading, writing
from console.confirm import LONGEST_NOTE, short_digest, units_text
from console.confirm_refusals import not_yours, refusal_of_windows
from console.filters import money
from console.forms import ConsoleForm, kept_note, new_operation
from console.fragments import page, say, see_other
from console.installation import installed
from console.log import log
from console.operations import count_refusal
from ledger.approvals import APPROVAL_HOURS, Seen, role_reaches
from ledger.approvals_together import ONE_BY_ONE, approve_together
from ledger.card_numbers import mask_card_numbers
from ledger.errors import (
    AlreadyDecided,
    BadInput,
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
from ledger.limits import read_sum
from ledger.presence import read_present
from ledger.queries.case import read_intents
from ledger.queries.decision import Decision, read_decision

blueprint = Blueprint("confirm_together", __name__, url_prefix="/<merchant_slug>/cases")

# As many as an order has payments.
_SEEN: Final = re.compile(r"\A[0-9a-f-]{36}:[0-9a-f]{64}(\.[0-9a-f-]{36}:[0-9a-f]{64}){0,49}\Z")


class ApproveAllForm(ConsoleForm):
    """What comes back: each refund with the fingerprint that was rendered, one operation key, a note. No amount (S19)."""

    seen = HiddenField(validators=[Regexp(_SEEN, message="Open this page again from the case.")])
    note = TextAreaField("Note", validators=[Length(max=LONGEST_NOTE, message="Write at most 2,000 characters")])


@blueprint.get("/<uuid:case_id>/approval")
@permission("approve")
def show(case_id: UUID) -> Response:
    """The sheet of every proposed refund; the case's own page when there is none."""
    with reading() as db:
        found = _proposed(db, case_id)
        if len(found) == 1:
            return see_other("confirm.show", intent_id=found[0].intent_id)
        if not found:
            return see_other("case.show", case_id=case_id)
        present = read_present(db, current.merchant_id, case_id)
        refusal = _refusal_of_person(found) or _refusal_of_strength(db, found)
        answer = _page(db, case_id, found, refusal, kept_note())
    team.come_here(case_id, present, "looking" if refusal else "deciding")
    return answer


@blueprint.post("/<uuid:case_id>/approval")
@permission("approve")
def approve_all(case_id: UUID) -> Response:
    """Approves all that the sheet showed, or nothing. A second submit lands on the case; a change of any of them is a 409."""
    form = ApproveAllForm()
    note = str(form.note.data or "").strip()
    if not form.validate():
        with reading() as db:
            error = str(next(error for field in form for error in field.errors))
            return _page(db, case_id, _proposed(db, case_id), None, note, note_error=error, status=422)
    try:
        with writing() as db:
            decided = approve_together(
                db, current.merchant_id, case_id, current.staff_id, _seen(form, note), installed().sealer,
                cancel_window_seconds=installed().settings.cancel_window_seconds,
            )  # fmt: skip
    except AlreadyDecided:
        say("ok", "These refunds were already approved.", "Your click changed nothing. Nothing was sent twice.")
        return see_other("case.show", case_id=case_id)
    except BadInput as refused:
        error = words.sentence(refused.sentence.partition(": ")[2]) + "."
        with reading() as db:
            return _page(db, case_id, _proposed(db, case_id), None, note, note_error=error, status=422)
    except (Stale, SamePerson, NotAllowed, LimitReached, NotEnoughMoneyLeft, WrongState) as refused:
        return _refused(case_id, refused, note)
    log.info("approved_together", staff_id=current.staff_id, merchant=current.slug, count=len(decided))
    held = sum(decision.state == "held" for decision in decided)
    more = f" {words.counted(held, 'is', 'are')} held by the daily cap." if held else ""
    say(
        "ok", f"{words.counted(len(decided), 'refund', 'refunds')} approved.", f"Each goes its own way from here.{more}"
    )
    return see_other("case.show", case_id=case_id)


def _seen(form: ApproveAllForm, note: str) -> dict[UUID, Seen]:
    key, kept = str(form.operation.data), mask_card_numbers(note)
    try:
        pairs = [(UUID(one[:36]), bytes.fromhex(one[37:])) for one in str(form.seen.data).split(".")]
    except ValueError:
        raise NotFound from None
    return {intent_id: Seen(digest, key, kept) for intent_id, digest in pairs}


def _proposed(db: Connection, case_id: UUID) -> list[Decision]:
    """The proposed refunds of a case, oldest first."""
    found = [one for one in read_intents(db, current.merchant_id, case_id) if one.state == "proposed"]
    return [read_decision(db, current.merchant_id, one.intent_id) for one in reversed(found)]


def _refused(case_id: UUID, refused: LedgerError, note: str) -> Response:
    log.info("refused", reason=refused.code, staff_id=current.staff_id, merchant=current.slug)
    count_refusal(refused)
    with reading() as db:
        found = _proposed(db, case_id)
        if isinstance(refused, (SamePerson, NotAllowed)):
            return _page(db, case_id, found, _refusal_of_person(found) or {"text": refused.sentence}, note)
        if isinstance(refused, LimitReached):
            return _page(db, case_id, found, _refusal_of_limit(db, found) or {"text": refused.sentence}, note)
        changes = _changes(refused) if isinstance(refused, Stale) else []
        by = refused.facts.get("changed_by", "") if changes else ""
        refusal = {"text": refused.sentence, "changes": changes, "by": by, "at": refused.facts.get("changed_at")}
        return _page(db, case_id, found, refusal, note, status=409)


def _changes(refused: Stale) -> list[dict[str, str]]:
    """Old and new values of each refund that is not as the page showed it."""
    changes = [
        {"what": "amount", "was": _amount(one["old_minor"], one["currency"]),
         "now": _amount(one["new_minor"], one["currency"]) if one["new_minor"] is not None else str(one["state"])}
        for one in refused.facts.get("all", [])
    ]  # fmt: skip
    return changes + [
        {
            "what": words.refund_reference(row["number"]),
            "was": "not shown",
            "now": _amount(row["amount_minor"], row["currency"]),
        }
        for row in refused.facts.get("more", [])
    ]


def _amount(minor: int, currency: str) -> str:
    return f"{money(minor, currency)} {currency}"


def _refusal_of_person(found: list[Decision]) -> dict[str, Any] | None:
    if any(current.actor in (one.requester, one.case_opener) for one in found):
        return {"text": "You asked for this, so another person has to approve it."}
    others = next((one for one in found if not role_reaches(current.role, one.route)), None)
    return {"text": f"{words.refund_reference(others.number)}: {not_yours(others)}"} if others is not None else None


def _refusal_of_strength(db: Connection, found: list[Decision]) -> dict[str, Any] | None:
    """One press is one signature: what takes a code or a passkey is approved by itself."""
    for one in found:
        together = read_sum(db, current.merchant_id, one.intent_id)
        if together is not None and together.strength != "session":
            return {"text": f"{words.refund_reference(one.number)}: {ONE_BY_ONE}"}
    return None


def _refusal_of_limit(db: Connection, found: list[Decision]) -> dict[str, Any] | None:
    for currency in dict.fromkeys(one.currency for one in found):
        refusal = refusal_of_windows(db, [one for one in found if one.currency == currency])
        if refusal:
            return {"window": refusal}
    return None


def _page(
    db: Connection, case_id: UUID, found: list[Decision], refusal: dict[str, Any] | None, note: str, *, note_error: str = "",
    status: int = 0,
) -> Response:  # fmt: skip
    may = bool(found) and not _refusal_of_person(found) and not any(one.blocked for one in found)
    may = may and _refusal_of_strength(db, found) is None
    sheet = _sheet(db, case_id, found) if may else None
    typed = {"text": note, "max": LONGEST_NOTE, "error": note_error}
    back = {"url": url_for("case.show", case_id=case_id),
            "case_reference": words.case_reference(found[0].case_number) if found else ""}  # fmt: skip
    usual = 200 if refusal is None else 403
    refused = {"window": None, "text": "", "changes": [], "by": "", "at": None} | refusal if refusal else None
    hand = team.in_hand(db, case_id) if sheet else ""
    return page(
        "confirm_together.html", status=status or usual, back=back, sheet=sheet, refusal=refused, note=typed, hand=hand
    )


def _sheet(db: Connection, case_id: UUID, found: list[Decision]) -> dict[str, Any]:
    evidence = evidence_digest(db, current.merchant_id, case_id)
    prints = {}
    for one in found:
        intent = read_intent(db, current.merchant_id, one.intent_id)
        if intent is None:
            raise NotFound
        prints[one.intent_id] = fingerprint(intent, evidence).hex()
    first = found[0]
    return {
        "action_url": url_for("confirm_together.approve_all", case_id=case_id),
        "operation": new_operation(),
        "seen": ".".join(f"{intent_id}:{digest}" for intent_id, digest in prints.items()),
        "refunds": [_refund(one, prints[one.intent_id]) for one in found],
        "total_text": words.sums((one.currency, one.amount_minor) for one in found),
        "customer": words.customer(first.customer),
        "merchant_name": first.merchant_name,
        "order_reference": first.order_ref,
        "case_reference": words.case_reference(first.case_number),
        "units_text": units_text(db, first),
        "policy": first.policy,
        "valid_until": first.at + timedelta(hours=APPROVAL_HOURS["session"]),
        "send_delay_seconds": installed().settings.cancel_window_seconds,
    }


def _refund(one: Decision, digest: str) -> dict[str, Any]:
    return {
        "reference": words.refund_reference(one.number),
        "url": url_for("confirm.show", intent_id=one.intent_id),
        "act": words.act(one.act, one.charge_type),
        "amount_minor": one.amount_minor,
        "currency": one.currency,
        "destination": words.destination(one.destination_kind, one.destination_brand, one.destination_last4),
        "fingerprint_short": short_digest(digest),
    }
