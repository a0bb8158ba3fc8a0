"""The daily cap: what is used, what waits in which order, and a raise that two managers make."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import SelectField, StringField, TextAreaField
from wtforms.validators import DataRequired, InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.filters import money, now
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from console.operations import first_result, keep_result
from ledger import caps
from ledger.caps import CapToday
from ledger.card_numbers import mask_card_numbers
from ledger.errors import BadInput
from ledger.money import MAX_MINOR, parse_major
from ledger.queries import caps as read

blueprint = Blueprint("caps", __name__, url_prefix="/<merchant_slug>/cap")

LONGEST_REASON: Final = 500


class RaiseForm(ConsoleForm):
    """What a manager asks for. The limit is typed in major units and becomes minor units here."""

    currency = SelectField("Currency", validate_choice=True)
    limit = StringField("Limit for today", validators=[InputRequired("Write the limit you ask for"), Length(max=24)])
    reason = TextAreaField("Why today", validators=[DataRequired("Say why"), Length(max=LONGEST_REASON)])


@blueprint.get("/")
@permission("see_caps")
def index() -> Response:
    with reading() as db:
        return page("caps.html", **_page(db, _form(db)))


@blueprint.post("/raises")
@permission("raise_cap")
def ask() -> Response:
    """Asks for a higher cap today; the same form again asks once."""
    with reading() as db:
        form = _form(db)
        limit_minor = _limit(form) if form.validate() else None
        if limit_minor is None:
            return page("caps.html", status=422, **_page(db, form))
    try:
        _ask_once(form, limit_minor)
    except BadInput as refused:
        form[_FIELDS.get(str(refused.facts["field"]), "limit")].errors = [
            words.sentence(refused.sentence.partition(": ")[2])
        ]
        with reading() as db:
            return page("caps.html", status=422, **_page(db, form))
    say("ok", "The raise is asked for.", "A second manager makes it; until then the cap stays.")
    return see_other("caps.index")


@blueprint.post("/raises/<uuid:raise_id>/grant")
@permission("raise_cap")
def grant(raise_id: UUID) -> Response:
    """The second manager makes the raise. Repeated, it changes nothing."""
    return _decide(raise_id, granted=True)


@blueprint.post("/raises/<uuid:raise_id>/refusal")
@permission("raise_cap")
def refuse(raise_id: UUID) -> Response:
    """A manager turns the raise down. Repeated, it changes nothing."""
    return _decide(raise_id, granted=False)


_FIELDS: Final = {"to_minor": "limit", "reason": "reason"}


def _ask_once(form: RaiseForm, limit_minor: int) -> None:
    operation, reason = str(form.operation.data), mask_card_numbers(str(form.reason.data))
    with writing() as db:
        if first_result(db, operation) is None:
            currency = str(form.currency.data)
            raise_id = caps.ask_raise(db, current.merchant_id, current.staff_id, currency, limit_minor, reason)
            keep_result(db, operation, {"raise": str(raise_id)})


def _decide(raise_id: UUID, *, granted: bool) -> Response:
    ConsoleForm().require()
    with writing() as db:
        changed = caps.decide_raise(db, current.merchant_id, raise_id, current.staff_id, granted=granted)
    if changed:
        log.info(
            "cap_raise_decided",
            staff_id=current.staff_id,
            merchant=current.slug,
            outcome="granted" if granted else "refused",
        )
    say("ok", "The cap is raised for today." if granted else "The raise is turned down.",
        "Held refunds that fit go now, in order." if granted else "The cap stays as it was.")  # fmt: skip
    return see_other("caps.index")


def _form(db: Connection) -> RaiseForm:
    form = RaiseForm()
    form.currency.choices = words.choices({cap.currency: cap.currency for cap in caps.today(db, current.merchant_id)})
    return form


def _limit(form: RaiseForm) -> int | None:
    """The typed limit in minor units; None, with the field's error, for what is no amount of that currency."""
    try:
        minor = parse_major(str(form.limit.data).replace(",", "").strip(), str(form.currency.data))
    except ValueError:
        minor = None
    if minor is None or minor > MAX_MINOR:
        form.limit.errors = [f"Write an amount in {form.currency.data}, such as 12000.00"]
        return None
    return minor


def _page(db: Connection, form: RaiseForm) -> dict[str, Any]:
    day = read.business_day(db, current.merchant_id)
    held = read.held_by_cap(db, current.merchant_id)
    reserved = read.reserved_today(db, current.merchant_id, day.business_day)
    today = caps.today(db, current.merchant_id)
    limits = {cap.currency: cap.limit_minor for cap in today}
    raises = read.open_raises(db, current.merchant_id, day.business_day)
    return {
        "business_day": day.business_day,
        "resets_at": day.ends_at,
        "resets_text": f"in {_until(day.ends_at)}",
        "caps": [_cap(cap, reserved.get(cap.currency, 0)) for cap in today],
        "held": [_held(refund, limits, day.ends_at) for refund in held],
        "held_text": f"{words.counted(len(held), 'refund', 'refunds')}, "
        + words.sums((refund.currency, refund.amount_minor) for refund in held),
        "who": _who(read.spenders(db, current.merchant_id, day.business_day)),
        "change": _change(raises[0]) if raises else None,
        "raise_form": form if current.may("raise_cap") and today else None,
        "raise_url": url_for("caps.ask"),
        "operation": str(form.operation.data),
    }


def _until(at: datetime) -> str:
    minutes = max(0, int((at - now()).total_seconds()) // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _cap(cap: CapToday, reserved: int) -> dict[str, Any]:
    used = cap.used_minor - reserved
    limit = max(1, cap.limit_minor)
    spoken_for = (("used", used), ("reserved", reserved), ("left", cap.left_minor))
    parts = [f"{money(minor, cap.currency)} {cap.currency} {what}" for what, minor in spoken_for]
    waits = f"Full. {words.counted(cap.waiting, 'refund waits', 'refunds wait')}." if cap.waiting else ""
    return {
        "currency": cap.currency,
        "limit_minor": cap.limit_minor,
        "used_minor": used,
        "reserved_minor": reserved,
        "left_minor": cap.left_minor,
        "used_permille": used * 1000 // limit,
        "reserved_permille": reserved * 1000 // limit,
        "full": bool(cap.waiting) or cap.left_minor <= 0,
        "meter_text": f"{', '.join(parts)} of {money(cap.limit_minor, cap.currency)} {cap.currency}",
        "waiting_text": waits,
    }


def _held(refund: read.HeldRefund, limits: dict[str, int], ends_at: datetime) -> dict[str, Any]:
    return {
        "reference": words.refund_reference(refund.number),
        "url": url_for("decision.show", intent_id=refund.intent_id),
        "customer": words.customer(refund.customer),
        "approved_by": refund.approved_by,
        "approved_at": refund.approved_at,
        "amount_minor": refund.amount_minor,
        "currency": refund.currency,
        "held_text": "Held: daily cap",
        "goes_at": ends_at if refund.amount_minor <= limits.get(refund.currency, 0) else None,
    }


def _who(found: list[read.Spender]) -> list[dict[str, Any]]:
    people: dict[UUID | str, list[read.Spender]] = {}
    for spender in found:
        people.setdefault(spender.staff_id or spender.name, []).append(spender)
    return [
        {
            "person": words.person(who, spent[0].name) if isinstance(who, UUID) else {**words.POLICY, "name": who},
            "approvals": sum(one.approvals for one in spent),
            "sums_text": words.sums((one.currency, one.amount_minor) for one in spent),
        }
        for who, spent in people.items()
    ]


def _change(asked: read.OpenRaise) -> dict[str, Any]:
    return {
        "reference": str(asked.raise_id),
        "currency": asked.currency,
        "was_minor": asked.from_minor,
        "now_minor": asked.to_minor,
        "from_text": "at once, for today",
        "reason": asked.reason,
        "by": asked.asked_by_name,
        "at": asked.asked_at,
        "own": asked.asked_by == current.staff_id,
        "may": current.may("raise_cap"),
        "activate_url": url_for("caps.grant", raise_id=asked.raise_id),
        "turn_down_url": url_for("caps.refuse", raise_id=asked.raise_id),
        "operation": new_operation(),
    }
