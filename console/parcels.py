"""That a parcel is on its way back: its tracking number, when it was sent, and who proves it."""

from datetime import date, datetime, time
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import BooleanField, SelectField, StringField
from wtforms.validators import InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.automatic import after_evidence
from console.case_named import case_named
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from ledger.errors import BadInput
from ledger.evidence import Parcel, report_parcel
from ledger.queries.case import read_head

blueprint = Blueprint("parcels", __name__, url_prefix="/<merchant_slug>/goods-in")


class ParcelForm(ConsoleForm):
    """That a parcel is on its way back, and who says so."""

    tracking = StringField("Tracking number", validators=[InputRequired("Give the tracking number"), Length(max=80)])
    sent_on = StringField(
        "Sent on", description="Such as 2026-11-28", validators=[InputRequired("Say on which day it was sent")]
    )
    proof = SelectField(
        "Proof", choices=words.choices({"customer": "The customer's receipt", "carrier": "A scan of the carrier"})
    )
    our_label = BooleanField("With our label")


@blueprint.get("/<uuid:case_id>/parcel")
@permission("report_goods")
def ask(case_id: UUID) -> Response:
    """The form for a parcel that is on its way."""
    with reading() as db:
        return page("parcel.html", **_page(db, case_id, ParcelForm()))


@blueprint.post("/<uuid:case_id>/parcel")
@permission("report_goods")
def record(case_id: UUID) -> Response:
    """Records that a parcel was sent; the same again changes nothing."""
    form = ParcelForm()
    if form.validate():
        try:
            sent_at = datetime.combine(
                date.fromisoformat((form.sent_on.data or "").strip()), time(12), current.time_zone
            )
            with writing() as db:
                report_parcel(
                    db, current.merchant_id, case_id,
                    Parcel(str(form.tracking.data), sent_at, str(form.proof.data), bool(form.our_label.data), "warehouse",
                           current.actor),
                )  # fmt: skip
        except ValueError:
            form.sent_on.errors = ["Write the day as year, month and day, such as 2026-11-28"]
        except BadInput as refused:
            field = form["sent_on" if refused.facts["field"] == "sent_at" else refused.facts["field"]]
            field.errors = [words.sentence(refused.sentence.partition(": ")[2])]
        else:
            after_evidence(current.merchant_id, case_id)
            say("ok", "Recorded that the parcel was sent.", "The amount is worked out again from it.")
            return see_other("case.show", case_id=case_id)
    with reading() as db:
        return page("parcel.html", status=422, **_page(db, case_id, form))


def _page(db: Connection, case_id: UUID, form: ParcelForm) -> dict[str, Any]:
    head = read_head(db, current.merchant_id, case_id)
    return {"form": form, "action_url": url_for("parcels.record", case_id=case_id), **case_named(head)}
