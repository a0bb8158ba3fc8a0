"""One case: its page, its photos, notes, and the acts that decide nothing about money: reject, work out again, close."""

import hashlib
import hmac
from typing import Any, Final
from uuid import UUID, uuid5

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import RadioField, TextAreaField
from wtforms.validators import DataRequired, InputRequired, Length

from console import case_cards as cards
from console import kind_cards, notices, team, words
from console.access import current, permission, polling, reading, writing
from console.case_cards import CaseRows
from console.case_named import case_named
from console.charge_cards import charges_card, read_again_act
from console.entitlement_card import entitlement
from console.forms import ConsoleForm, kept_note, new_operation
from console.fragments import asked_for_part, nothing_new, page, say, see_other
from console.kind_words import KEPT
from console.log import log
from console.operations import first_result, keep_result, operation_id
from console.timeline import timeline
from ledger import caps, cases
from ledger.assessment import EXCHANGED, work_out_again
from ledger.closing import close_rest
from ledger.database import scalar
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.errors import BadInput, NotFound
from ledger.fingerprint import evidence_digest
from ledger.limits import customer_days
from ledger.mentions import colleagues
from ledger.notes import MOST_CHARACTERS, add_note
from ledger.queries import case as read
from ledger.queries import charges as charge_rows
from ledger.queries.facts import read_facts_of
from ledger.queries.kinds import read_asked, read_exchanged
from ledger.queries.outside import outside_of_order
from ledger.queries.teamwork import CaseTeam, case_team
from ledger.states import LIVE

blueprint = Blueprint("case", __name__, url_prefix="/<merchant_slug>")

ALL_EVENTS: Final = 2000
_EXTENSIONS: Final = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


class NoteForm(ConsoleForm):
    """A person's own words about the case."""

    note = TextAreaField("Note", validators=[DataRequired("Write the note first"), Length(max=MOST_CHARACTERS)])


class RejectForm(ConsoleForm):
    """Why the case is closed without paying."""

    reason = RadioField(
        "Why is it rejected?", choices=words.choices(words.REJECT_REASONS), validators=[InputRequired("Choose why")]
    )


@blueprint.get("/cases/<uuid:case_id>")
@permission("see_cases")
def show(case_id: UUID) -> Response:
    """The whole case; the part `timeline_list` for the longer history."""
    with reading() as db:
        found = case_team(db, current.merchant_id, case_id, current.staff_id)
        answer = page("case.html", "timeline_list", **_case_page(db, case_id, NoteForm(note=kept_note()), found))
    team.come_here(case_id, found.present)
    return answer


@blueprint.get("/cases/<uuid:case_id>/stale")
@polling
@permission("see_cases")
def stale(case_id: UUID) -> Response:
    """204 while nothing happened since the page was read; else what did."""
    if not asked_for_part():
        return show(case_id)
    with reading() as db:
        last = read.read_events(db, current.merchant_id, case_id, most=1)
        if not last:
            raise NotFound
        seen = request.args.get("seen", "")
        news = read.read_news(db, current.merchant_id, case_id, int(seen) if seen.isdecimal() and len(seen) < 9 else 0)
        if str(last[0].number) == seen or news is None:
            return nothing_new()
        return page("case.html", "stale", case={"stale": cards.stale(case_id, news), "stale_url": ""})


@blueprint.get("/photos/<uuid:photo_id>")
@permission("see_cases")
def photo(photo_id: UUID) -> Response:
    """The bytes of one photo, if they are those that were stored (S59)."""
    with reading() as db:
        found = read.read_photo(db, current.merchant_id, photo_id)
    if not hmac.compare_digest(hashlib.sha256(found.content).digest(), found.sha256):
        log.error("photo_changed", kind="photo", merchant=current.slug)
        raise NotFound
    response = Response(found.content, content_type=found.content_type)
    response.headers["Content-Disposition"] = f'inline; filename="{photo_id}.{_EXTENSIONS[found.content_type]}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


@blueprint.post("/cases/<uuid:case_id>/notes")
@permission("write_note")
def note(case_id: UUID) -> Response:
    """Adds a note; the same form again adds none, with another text it adds that one."""
    form = NoteForm()
    if not form.validate():
        return _note_again(case_id, form)
    text = str(form.note.data)
    try:
        with writing() as db:
            note_id = uuid5(operation_id(str(form.operation.data)), text)
            again = scalar(db, _NOTED, m=current.merchant_id, n=note_id)
            spoken = add_note(db, current.merchant_id, case_id, current.staff_id, note_id, text)
            for one in [] if again else spoken.people:
                notices.about_cases(db, one.staff_id, "mentioned", ids=[case_id])
    except BadInput as refused:
        form.note.errors = [words.sentence(refused.sentence.partition(": ")[2])]
        return _note_again(case_id, form)
    say("ok", "Note added.", team.told(spoken))
    return see_other("case.show", case_id=case_id)


_NOTED: Final = "SELECT 1 FROM notes WHERE merchant_id = :m AND note_id = :n"


def _note_again(case_id: UUID, form: NoteForm) -> Response:
    with reading() as db:
        found = case_team(db, current.merchant_id, case_id, current.staff_id)
        return page("case.html", status=422, **_case_page(db, case_id, form, found))


@blueprint.get("/cases/<uuid:case_id>/rejection")
@permission("reject")
def rejection(case_id: UUID) -> Response:
    """Asks for the reason."""
    with reading() as db:
        return page("reject.html", **_reject_page(db, case_id, RejectForm()))


@blueprint.post("/cases/<uuid:case_id>/rejection")
@permission("reject")
def reject(case_id: UUID) -> Response:
    """Closes the case without paying; its units are free again."""
    form = RejectForm()
    if not form.validate():
        with reading() as db:
            return page("reject.html", status=422, **_reject_page(db, case_id, form))
    with writing() as db:
        case = cases.reject(db, current.merchant_id, case_id, current.actor, form.reason.data)
    say("ok", f"Case {words.case_reference(case.number)} is rejected.", "Nothing was paid. Its units are free again.")
    return see_other("case.show", case_id=case_id)


@blueprint.post("/cases/<uuid:case_id>/entitlements")
@permission("propose")
def work_out(case_id: UUID) -> Response:
    """Works the amount out anew and asks for its approval by another person; the same form again changes nothing."""
    form = ConsoleForm()
    form.require()
    operation = str(form.operation.data)
    with writing() as db:
        earlier = first_result(db, operation)
        if earlier is None:
            work_out_again(db, current.merchant_id, case_id, current.actor)
            keep_result(db, operation, {})
    say("ok", "Worked out again.", "You asked for it, so another person approves what is proposed.")
    return see_other("case.show", case_id=case_id)


@blueprint.post("/cases/<uuid:case_id>/closing")
@permission("reject")
def close(case_id: UUID) -> Response:
    """The rest is not coming: the case closes with what was paid."""
    ConsoleForm().require()
    with writing() as db:
        case = close_rest(db, current.merchant_id, case_id, current.actor)
    say(
        "ok",
        f"Case {words.case_reference(case.number)} is closed.",
        "What was paid stays; the other units are free again.",
    )
    return see_other("case.show", case_id=case_id)


def read_case(db: Connection, case_id: UUID, most_events: int = read.MOST_EVENTS) -> CaseRows:
    """Every row of the case page. Raises NotFound."""
    merchant_id = current.merchant_id
    head = read.read_head(db, merchant_id, case_id)
    return CaseRows(
        head=head,
        lines=read.read_lines(db, merchant_id, case_id),
        conversations=read.read_conversations(db, merchant_id, case_id),
        findings=read.read_findings(db, merchant_id, case_id),
        photos=read.read_photos(db, merchant_id, case_id),
        parcels=read.read_parcels(db, merchant_id, case_id),
        facts=read_facts_of(db, merchant_id, case_id),
        entitlement=read.read_entitlement(db, merchant_id, case_id),
        intents=read.read_intents(db, merchant_id, case_id),
        earlier=read.read_earlier(db, merchant_id, head),
        events=read.read_events(db, merchant_id, case_id, most_events),
        caps=caps.today(db, merchant_id),
        evidence_digest=evidence_digest(db, merchant_id, case_id),
        outside=outside_of_order(db, merchant_id, head.order_id),
    )


def _case_page(db: Connection, case_id: UUID, form: NoteForm, team_of: CaseTeam) -> dict[str, Any]:
    everything = request.args.get("events") == "all"
    rows = read_case(db, case_id, ALL_EVENTS if everything else read.MOST_EVENTS)
    more = not everything and len(rows.events) == read.MOST_EVENTS
    return {
        "case": cards.case_head(rows, None),
        "place": _place(case_id),
        "hand": team.hand(case_id, team_of.lease, team_of.present, team_of.closed_at),
        "team": team.card(case_id, team_of),
        "colleagues": [one.name for one in colleagues(db, current.merchant_id) if one.staff_id != current.staff_id],
        "four": kind_cards.four(rows, cards.four_things(rows)),
        "charges": _charges(db, rows),
        "claim": cards.claim(rows),
        "asked": kind_cards.asked(read_asked(db, current.merchant_id, case_id), rows.head.reason, rows.head.currency),
        "exchanged": kind_cards.exchanged(read_exchanged(db, current.merchant_id, case_id)),
        "evidence": kind_cards.evidence(rows, cards.evidence(rows)),
        "entitlement": entitlement(rows.entitlement, at_evidence=bool(rows.findings)),
        "no_entitlement_text": cards.no_entitlement(rows),
        "earlier": cards.earlier(rows),
        "signals": cards.signals(rows, customer_days(db, current.merchant_id, [case_id]).get(case_id)),
        "intent": cards.intent_card(rows),
        "no_intent_text": _no_intent(rows),
        "others": cards.other_intents(rows),
        "actions": _actions(rows),
        "timeline": timeline(rows.events),
        "trail_url": url_for("trail.index", case=rows.head.number) if current.may("see_trail") else None,
        "timeline_more_url": url_for("case.show", case_id=case_id, events="all") if more else None,
        "notes": read.read_notes(db, current.merchant_id, case_id),
        "note_form": form if current.may("write_note") else None,
        "note_url": url_for("case.note", case_id=case_id),
    }


def _charges(db: Connection, rows: CaseRows) -> dict[str, Any] | None:
    """The cards of a case about charges, in place of goods and evidence; None for every other."""
    head = rows.head
    if head.kind != DUPLICATE_CHARGE:
        return None
    held = charge_rows.order_charges(db, current.merchant_id, head.order_id)
    reading_ = charge_rows.read_reading(db, current.merchant_id, head.case_id)
    found = charge_rows.read_found(db, current.merchant_id, head.case_id)
    return charges_card(head, rows.conversations, held, reading_, found)


def _place(case_id: UUID) -> dict[str, Any] | None:
    """Where one is, and the way to the ready case after this one."""
    if not current.may("approve"):
        return None
    after = {"url": url_for("queue.next_case", after=case_id), "operation": new_operation()}
    return {"view_label": "Ready", "view_url": url_for("queue.index", view="ready"), "after": after}


def _no_intent(rows: CaseRows) -> str:
    if rows.head.stage == "rejected":
        return "The case was rejected."
    if rows.head.stage == EXCHANGED:
        return "The units were exchanged: no money moves."
    if rows.head.kind == DUPLICATE_CHARGE:
        return "One is proposed by itself when a charge is found to be one too many."
    if rows.head.blocked:
        return "None is proposed while the figures of the order are in question."
    if _may_ask_again(rows):
        return "Money is owed and nothing asks for it now: ask for approval of it."
    return "One is proposed by itself when an amount is owed."


def _actions(rows: CaseRows) -> dict[str, Any]:
    intent, head = rows.intent, rows.head
    main: dict[str, Any] | None = None
    blocked, several = "", sum(one.state == "proposed" for one in rows.intents)
    if intent is not None and intent.state != "proposed":
        main = {"kind": "decision", "url": url_for("decision.show", intent_id=intent.intent_id), "operation": ""}
    if intent is not None and intent.state == "proposed":
        blocked = cards.blocked_text(rows, intent)
        if current.may("approve") and not blocked and several > 1:
            url = url_for("confirm_together.show", case_id=head.case_id)
            main = {"kind": "confirm_all", "url": url, "operation": "", "count": several}
        elif current.may("approve") and not blocked:
            main = {"kind": "confirm", "url": url_for("confirm.show", intent_id=intent.intent_id), "operation": ""}
    elif current.may("propose") and _may_ask_again(rows):
        url = url_for("case.work_out", case_id=head.case_id)
        main = {"kind": "propose", "url": url, "operation": new_operation()}
    return {"main": main, "blocked": blocked, "more": _more(rows)}


def _may_ask_again(rows: CaseRows) -> bool:
    """Money is owed and nothing asks for it: the last refund was refused, or came back."""
    owed = rows.entitlement is not None and rows.entitlement.payable_minor > 0 and rows.head.kind != DUPLICATE_CHARGE
    live = any(intent.state in LIVE for intent in rows.intents)
    return owed and not live and not rows.head.blocked and rows.head.stage in ("refused", "came_back", "needs_person")


def _more(rows: CaseRows) -> list[dict[str, Any]]:
    head, intent, states = rows.head, rows.intent, [intent.state for intent in rows.intents]
    live, paid = any(state in LIVE for state in states), "succeeded" in states
    unsent = all(state not in ("submitting", "unknown", "pending", "needs_review") for state in states)
    found = _without_return(rows)
    if head.closed_at is not None:
        return found
    if head.kind == DUPLICATE_CHARGE:
        return _more_about_charges(rows, paid=paid, unsent=unsent)
    if current.may("report_goods") and head.kind not in KEPT:
        found.append(_act("Report what arrived…", "goods_in.report", head.case_id, method="get"))
        found.append(_act("A parcel is on its way…", "parcels.ask", head.case_id, method="get"))
        found.append(_act("Add a photo…", "photos.ask", head.case_id, method="get"))
        found.append(_act("State a fact…", "facts.index", head.case_id, method="get"))
    if current.may("withdraw") and intent is not None and intent.state in ("approved", "held"):
        found.append(_withdrawal(intent))
    if current.may("propose") and unsent:
        found.append(_act("Work out again", "case.work_out", head.case_id))
    if current.may("reject") and paid and not live:
        found.append(_act("Close the rest: it is not coming", "case.close", head.case_id, danger=True))
    if current.may("reject") and not paid and unsent:
        found.append(_act("Reject this case…", "case.rejection", head.case_id, method="get", danger=True))
    return found


def _more_about_charges(rows: CaseRows, *, paid: bool, unsent: bool) -> list[dict[str, Any]]:
    head, intent, found = rows.head, rows.intent, []
    if current.may("withdraw") and intent is not None and intent.state in ("approved", "held"):
        found.append(_withdrawal(intent))
    if current.may("ask_provider") and unsent and head.stage != "reading":
        found.append({**read_again_act(head), "method": "post", "operation": new_operation(), "danger": False})
    if current.may("reject") and not paid and unsent:
        found.append(_act("Close without a refund…", "case.rejection", head.case_id, method="get", danger=True))
    return found


def _without_return(rows: CaseRows) -> list[dict[str, Any]]:
    """What a person can record beside the return itself."""
    if not current.may("propose"):
        return []
    head, found = rows.head, []
    if kind_cards.may_override(rows):
        found.append(_act("Another amount…", "override.form", head.case_id, method="get"))
    if kind_cards.may_exchange(rows):
        found.append(_act("Exchange…", "exchange.of_case", head.case_id, method="get"))
    url = url_for("kinds.index", order_id=head.order_id)
    return [
        *found,
        {"label": "Without a return…", "url": url, "method": "get", "operation": "", "danger": False},
    ]


def _act(label: str, endpoint: str, case_id: UUID, *, method: str = "post", danger: bool = False) -> dict[str, Any]:
    operation = new_operation() if method == "post" else ""
    url = url_for(endpoint, case_id=case_id)
    return {"label": label, "url": url, "method": method, "operation": operation, "danger": danger}


def _withdrawal(intent: read.CaseIntent) -> dict[str, Any]:
    """Calls the refund back; for one that is held the only way back to a new look."""
    url = url_for("decision.withdraw", intent_id=intent.intent_id)
    label = f"Call {words.refund_reference(intent.number)} back before it is sent"
    return {"label": label, "url": url, "method": "post", "operation": new_operation(), "danger": True}


def _reject_page(db: Connection, case_id: UUID, form: RejectForm) -> dict[str, Any]:
    head = read.read_head(db, current.merchant_id, case_id)
    return {
        "form": form,
        "action_url": url_for("case.reject", case_id=case_id),
        **case_named(head),
        "summary": f"order {head.order_ref}, {head.announced} announced, {head.received} received",
    }
