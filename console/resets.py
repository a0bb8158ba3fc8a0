"""Resetting a person's factors (S8): an admin asks, a second one decides, and both are on the record."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection, RowMapping
from wtforms import DateTimeLocalField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import notices, sessions, words
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.filters import shown_zone
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from ledger.database import first, rows
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.factor_resets import LONGEST_REASON, Reset, answer_reset, ask_reset, resets

blueprint = Blueprint("resets", __name__, url_prefix="/<merchant_slug>/people/factors")


class AskForm(ConsoleForm):
    """What was lost, since when. The time is in the zone that the person sees times in."""

    reason = TextAreaField(
        "What was lost, and how you know who asks",
        validators=[InputRequired("Say what was lost."), Length(max=LONGEST_REASON)],
    )
    lost_since = DateTimeLocalField(
        "Lost since", description="What they approved from then on and was not sent is held.",
        validators=[InputRequired("Give the time since when it is lost.")],
    )  # fmt: skip


@blueprint.get("")
@permission("reset_factors")
def index() -> Response:
    with reading() as db:
        people = [_person(row) for row in rows(db, _PEOPLE, m=current.merchant_id)]
        return page("resets.html", people=people, resets=[_reset(one) for one in resets(db, current.merchant_id)])


@blueprint.get("/<uuid:staff_id>")
@permission("reset_factors")
def ask(staff_id: UUID) -> Response:
    with reading() as db:
        return _ask_page(db, staff_id, AskForm(formdata=None))


@blueprint.post("/<uuid:staff_id>")
@permission("reset_factors")
def asked(staff_id: UUID) -> Response:
    """Asks for the reset; a second press changes nothing."""
    form = AskForm()
    if form.validate() and form.lost_since.data is not None:
        since = form.lost_since.data.replace(tzinfo=shown_zone()).astimezone(UTC)
        try:
            with writing() as db:
                ask_reset(
                    db, current.merchant_id, _id_of(form), staff_id, current.staff_id, str(form.reason.data), since
                )
        except BadInput as refused:
            form[refused.facts["field"]].errors = [words.sentence(refused.sentence.partition(": ")[2]) + "."]
        except (WrongState, SamePerson) as refused:
            say("no", "Nothing was asked for.", refused.sentence)
            return see_other("resets.index")
        else:
            log.warning("factor_reset_asked", staff_id=current.staff_id, merchant=current.slug)
            say(
                "ok",
                "The reset is asked for.",
                "A second admin decides it. Until then everything of theirs works as before.",
            )
            return see_other("resets.index")
    with reading() as db:
        return _ask_page(db, staff_id, form, status=422)


@blueprint.post("/resets/<uuid:reset_id>/grant")
@permission("reset_factors")
def grant(reset_id: UUID) -> Response:
    """Resets: app, passkeys and codes are over, their sessions end, and what waits is held."""
    return _answered(reset_id, granted=True)


@blueprint.post("/resets/<uuid:reset_id>/refusal")
@permission("reset_factors")
def refuse(reset_id: UUID) -> Response:
    """Leaves everything as it is."""
    return _answered(reset_id, granted=False)


def _answered(reset_id: UUID, *, granted: bool) -> Response:
    ConsoleForm().require()
    try:
        with writing() as db:
            done = answer_reset(db, current.merchant_id, reset_id, current.staff_id, granted=granted)
            if done is not None and granted:
                sessions.end_of_person(db, done[0])
                notices.factor_changed(
                    db, done[0], "Two admins reset what you sign in with. Your password is as it was."
                )
    except SamePerson as refused:
        say("no", "Nothing was reset.", refused.sentence)
        return see_other("resets.index")
    if done is None:
        say("info", "That was decided before.", "Your click changed nothing.")
    else:
        log.warning(
            "factor_reset_decided", staff_id=current.staff_id, merchant=current.slug, outcome=str(granted), count=done[1]
        )  # fmt: skip
        held = f" {words.counted(done[1], 'refund', 'refunds')} held." if done[1] else ""
        text = f"They sign in with their password and add new ones.{held}" if granted else _AS_BEFORE
        say("ok", "Reset." if granted else "Not reset.", text)
    return see_other("resets.index")


def _id_of(form: AskForm) -> UUID:
    try:
        return UUID(hex=str(form.operation.data))
    except ValueError:
        raise BadInput("operation", "open the page again") from None


def _ask_page(db: Connection, staff_id: UUID, form: AskForm, *, status: int = 200) -> Response:
    row = first(db, _PEOPLE + " AND s.staff_id = :s", m=current.merchant_id, s=staff_id)
    if row is None or staff_id == current.staff_id:
        raise NotFound
    if form.lost_since.data is None and status == 200:
        form.lost_since.data = datetime.now(shown_zone()).replace(tzinfo=None, second=0, microsecond=0)
    return page(
        "reset.html", status=status, person=_person(row), form=form, action_url=url_for("resets.asked", staff_id=staff_id),
        back_url=url_for("resets.index"),
    )  # fmt: skip


_AS_BEFORE: Final = "Everything of theirs works as before."
_PEOPLE: Final = """
    SELECT s.staff_id, s.name, m.role,
        EXISTS (SELECT 1 FROM totp_factors t WHERE t.staff_id = s.staff_id AND t.ended_at IS NULL AND t.confirmed_at IS NOT NULL)
            AS app,
        (SELECT count(*) FROM passkeys k WHERE k.staff_id = s.staff_id AND k.ended_at IS NULL) AS passkeys,
        (SELECT count(*) FROM recovery_codes c WHERE c.staff_id = s.staff_id AND c.ended_at IS NULL) AS codes
    FROM memberships m JOIN staff s ON s.staff_id = m.staff_id
    WHERE m.merchant_id = :m AND m.ended_at IS NULL AND s.disabled_at IS NULL
"""


def _person(row: RowMapping) -> dict[str, Any]:
    mine = row["staff_id"] == current.staff_id
    return {
        "name": row["name"], "role_text": ROLE_TEXTS[row["role"]], "app": row["app"], "passkeys": row["passkeys"],
        "codes": row["codes"], "reset_url": None if mine else url_for("resets.ask", staff_id=row["staff_id"]),
    }  # fmt: skip


def _reset(one: Reset) -> dict[str, Any]:
    mine = current.staff_id in (one.asked_by, one.staff_id)
    return {
        "name": one.name, "reason": one.reason, "lost_since": one.lost_since, "asked_by": one.asked_by_name,
        "asked_at": one.asked_at, "decided_by": one.decided_by_name, "decided_at": one.decided_at, "granted": one.granted,
        "grant": None if mine else {"url": url_for("resets.grant", reset_id=one.reset_id), "operation": new_operation()},
        "refuse": {"url": url_for("resets.refuse", reset_id=one.reset_id), "operation": new_operation()},
    }  # fmt: skip
