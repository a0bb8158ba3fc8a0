"""The brakes of a merchant: what is on and why, one person's pause, two people's start, and the alarms that wait."""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import TextAreaField
from wtforms.validators import DataRequired, Length
from wtforms.validators import ValidationError as FieldError

from console import words
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.installation import installed
from console.log import log
from console.operations import first_result, keep_result
from ledger import brakes
from ledger.brakes import Brakes
from ledger.card_numbers import mask_card_numbers
from ledger.queries import brakes as read
from ledger.queries.automatic import automatic_today

blueprint = Blueprint("brakes", __name__, url_prefix="/<merchant_slug>/brakes")

LONGEST: Final = 500
# What each brake is called, and what it does while it is on.
TITLES: Final = {
    "pause": ("Refunds are paused", "Nothing is sent to the provider. Approvals can be made and wait."),
    "all": ("Refunds of every shop are paused", "Nothing is sent for any shop of this installation."),
    "stop": ("Sending stopped by an alarm", "The cause has to be looked at first: see the alarms below."),
    "shadow": ("Shadow mode", "Everything is worked out, approved and recorded. Nothing is sent."),
}
PULLED: Final = {
    "pause": "Refunds are paused.",
    "all": "Refunds of every shop are paused.",
    "shadow": "Shadow mode is on.",
}


class ReasonForm(ConsoleForm):
    """One sentence, kept with the act."""

    reason = TextAreaField("Reason", validators=[DataRequired("Say why"), Length(max=LONGEST)])

    def validate_reason(self, field: TextAreaField) -> None:
        """Blank is no reason."""
        if not str(field.data or "").strip():
            raise FieldError("Say why")


@blueprint.get("/")
@permission("see_brakes")
def index() -> Response:
    with reading() as db:
        return page("brakes.html", **_page(db))


@blueprint.post("/<any(pause, all, shadow):brake>")
@permission("pause")
def pull(brake: str) -> Response:
    """Stops at once: one person is enough, and a second press changes nothing."""
    form = ReasonForm()
    if not form.validate():
        return _again(form, brake)
    with writing() as db:
        if first_result(db, str(form.operation.data)) is None:
            reason = mask_card_numbers(str(form.reason.data))
            brakes.pull(db, current.merchant_id, brake, reason, staff_id=current.staff_id)
            keep_result(db, str(form.operation.data), {"brake": brake})
    log.warning("brake_pulled", kind=brake, staff_id=current.staff_id, merchant=current.slug)
    say("warn", PULLED[brake], "Two people take it off, one of them finance.")
    return see_other("brakes.index")


@blueprint.post("/<any(pause, all, stop, shadow):brake>/request")
@permission("start_again")
def ask(brake: str) -> Response:
    """The first of two asks to start again."""
    form = ReasonForm()
    if not form.validate():
        return _again(form, brake)
    with writing() as db:
        if first_result(db, str(form.operation.data)) is None:
            reason = mask_card_numbers(str(form.reason.data))
            ask_id = brakes.ask_release(db, current.merchant_id, brake, current.staff_id, reason)
            keep_result(db, str(form.operation.data), {"ask": str(ask_id)})
    say("ok", "Asked for.", "A second person starts again; until then nothing is sent.")
    return see_other("brakes.index")


@blueprint.post("/requests/<uuid:ask_id>/grant")
@permission("start_again")
def grant(ask_id: UUID) -> Response:
    """The second person starts again. Repeated, it changes nothing."""
    return _answer(ask_id, granted=True)


@blueprint.post("/requests/<uuid:ask_id>/refusal")
@permission("start_again")
def refuse(ask_id: UUID) -> Response:
    """The request is turned down; the brake stays on."""
    return _answer(ask_id, granted=False)


@blueprint.post("/alarms/<uuid:alarm_id>/closing")
@permission("close_alarm")
def close(alarm_id: UUID) -> Response:
    """Closes an alarm with a word on what was done."""
    form = ReasonForm()
    if not form.validate():
        return _again(form, str(alarm_id))
    with writing() as db:
        did = mask_card_numbers(str(form.reason.data))
        changed = brakes.close_alarm(db, current.merchant_id, alarm_id, current.staff_id, did)
    if changed:
        log.info("alarm_closed", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "The alarm is closed.", "What was done is kept with it.")
    return see_other("brakes.index")


def _answer(ask_id: UUID, *, granted: bool) -> Response:
    ConsoleForm().require()
    with writing() as db:
        changed = brakes.answer_release(db, current.merchant_id, ask_id, current.staff_id, granted=granted)
    if changed:
        outcome = "granted" if granted else "refused"
        log.warning("brake_release_answered", outcome=outcome, staff_id=current.staff_id, merchant=current.slug)
    say("ok", "Started again." if granted else "Turned down.", "" if granted else "The brake stays on.")
    return see_other("brakes.index")


def _again(form: ReasonForm, about: str) -> Response:
    with reading() as db:
        return page("brakes.html", status=422, **_page(db, form, about))


def _page(db: Connection, form: ReasonForm | None = None, about: str = "") -> dict[str, Any]:
    now = brakes.read_brakes(db, current.merchant_id)
    asks = brakes.open_asks(db, current.merchant_id)
    on = [_on(now, brake, asks.get(brake)) for brake in brakes.BRAKES if now.since(brake)]
    offered = [brake for brake in ("pause", "shadow", "all") if not now.since(brake)] if current.may("pause") else []
    alarms = read.open_alarms(db, current.merchant_id)
    typed = {"about": about, "text": str(form.reason.data or ""), "error": str(form.reason.errors[0])} if form else None
    return {
        "on": on,
        "offered": [
            {"brake": brake, "url": url_for("brakes.pull", brake=brake), "operation": new_operation()} for brake in offered
        ],
        "alarms": [_alarm(alarm) for alarm in alarms],
        "alarms_text": words.counted(len(alarms), "open alarm", "open alarms"),
        "closed": [
            {"text": one.text, "did": one.did, "by": one.closed_by, "at": one.closed_at}
            for one in read.closed_alarms(db, current.merchant_id)
        ],
        "shadowed": _shadowed(db),
        "automatic": _automatic(db),
        "typed": typed,
        "longest": LONGEST,
    }  # fmt: skip


def _on(now: Brakes, brake: str, asked: Any) -> dict[str, Any]:
    title, does = TITLES[brake]
    by, reason = {
        "pause": (now.paused_by, now.paused_reason),
        "all": (now.all_paused_by, now.all_paused_reason),
        "stop": (None, now.stopped_reason),
        "shadow": (now.shadow_by, now.shadow_reason),
    }[brake]
    may = current.may("start_again")
    return {
        "brake": brake, "title": title, "does": does, "by": by or "", "reason": reason or "", "since": now.since(brake),
        "ask_url": url_for("brakes.ask", brake=brake) if may and asked is None else None, "operation": new_operation(),
        "asked": _asked(asked, may) if asked is not None else None,
    }  # fmt: skip


def _asked(asked: Any, may: bool) -> dict[str, Any]:
    own = asked["staff_id"] == current.staff_id
    with_finance = "finance" in (asked["role"], current.role)
    return {
        "by": asked["name"], "role_text": ROLE_TEXTS[asked["role"]], "at": asked["at"], "reason": asked["reason"], "own": own,
        "needs_finance": may and not own and not with_finance,
        "grant_url": url_for("brakes.grant", ask_id=asked["ask_id"]) if may and not own and with_finance else None,
        "refuse_url": url_for("brakes.refuse", ask_id=asked["ask_id"]) if may else None, "operation": new_operation(),
    }  # fmt: skip


def _alarm(alarm: read.Alarm) -> dict[str, Any]:
    return {
        "id": str(alarm.alarm_id), "text": alarm.text, "kind": alarm.kind.replace("_", " "), "raised_at": alarm.raised_at,
        "url": url_for("decision.show", intent_id=alarm.intent_id) if alarm.intent_id and current.may("see_cases") else None,
        "close_url": url_for("brakes.close", alarm_id=alarm.alarm_id) if current.may("close_alarm") else None,
        "operation": new_operation(),
    }  # fmt: skip


def _automatic(db: Connection) -> dict[str, Any]:
    """What the policy in force approves by itself, and how much of today's limit is used."""
    found = automatic_today(db, current.merchant_id)
    off = "The policy in force sets no limit for it in any currency: a person approves every refund."
    if found and installed().policy_sealer is None:
        off = "This installation has no key for it, so a person approves every refund."
    return {
        "policy": found[0].policy if found else "",
        "off": off if not found or installed().policy_sealer is None else "",
        "rows": [
            {"currency": row.currency, "most_minor": row.most_minor, "used_minor": row.used_minor, "day_minor": row.day_minor,
             "count": row.used_count}
            for row in found
        ],
    }  # fmt: skip


def _shadowed(db: Connection) -> dict[str, Any] | None:
    found = read.shadow_sums(db, current.merchant_id)
    if not found:
        return None
    sums = words.sums((row.currency, row.amount_minor) for row in found)
    return {
        "counts_text": f"{words.counted(sum(row.refunds for row in found), 'refund', 'refunds')}, {sums}",
        "since_text": "None of these goes by itself, now or later. Cancel it at the refund and have it proposed and approved anew.",
        "rows": [{"currency": row.currency, "count": row.refunds, "amount_minor": row.amount_minor, "kept": row.kept}
                 for row in found],
    }  # fmt: skip
