"""Adding a photo to a case: one file, what it shows, and of which unit. `console.pictures` reads it, `case.photo` shows it."""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from flask_wtf.file import FileField, FileRequired
from sqlalchemy import Connection
from wtforms import SelectField, StringField
from wtforms.validators import Length

from console import words
from console.access import current, large, permission, reading, writing
from console.automatic import after_evidence
from console.case_named import case_named
from console.filters import plain
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.operations import first_result, keep_result
from console.pictures import MOST_BYTES, keep_picture, read_picture
from ledger.errors import BadInput
from ledger.queries.case import read_head
from ledger.queries.orders import LineAtBench, lines_at_bench

blueprint = Blueprint("photos", __name__, url_prefix="/<merchant_slug>/goods-in")

MOST_UNITS_NAMED: Final = 25


class PhotoForm(ConsoleForm):
    """One picture of what came back."""

    photo = FileField(
        "Photo", description="JPEG, PNG or WebP, at most 10 MiB", validators=[FileRequired("Choose a photo")]
    )
    of = SelectField("Photo of")
    caption = StringField("What it shows", validators=[Length(max=200, message="Write at most 200 characters")])


@blueprint.get("/<uuid:case_id>/photos")
@permission("report_goods")
def ask(case_id: UUID) -> Response:
    """The form for a photo."""
    with reading() as db:
        return page("photo.html", **_page(db, case_id, _form(db, case_id)))


@blueprint.post("/<uuid:case_id>/photos")
@large(MOST_BYTES)
@permission("report_goods")
def add(case_id: UUID) -> Response:
    """Stores the picture, written anew, as evidence; the same form again stores it once."""
    with reading() as db:
        form = _form(db, case_id)
    if form.validate():
        try:
            _add_once(case_id, form)
        except BadInput as refused:
            form.photo.errors = [words.sentence(refused.sentence.partition(": ")[2])]
        else:
            after_evidence(current.merchant_id, case_id)
            say("ok", "Photo added.", "The amount is worked out again with it.")
            return see_other("case.show", case_id=case_id)
    with reading() as db:
        return page("photo.html", status=422, **_page(db, case_id, form))


def _add_once(case_id: UUID, form: PhotoForm) -> None:
    if set(request.files) != {"photo"} or len(request.files.getlist("photo")) != 1:
        raise BadInput("photo", "send one photo at a time")
    picture = read_picture(form.photo.data.read(MOST_BYTES + 1))
    with writing() as db:
        if first_result(db, str(form.operation.data)) is not None:
            return
        line_id, unit = _shown(lines_at_bench(db, current.merchant_id, case_id), str(form.of.data))
        caption = str(form.caption.data or "").strip()
        photo_id = keep_picture(db, current.merchant_id, case_id, picture, caption, current.actor, line_id, unit)
        keep_result(db, str(form.operation.data), {"photo_id": str(photo_id)})


def _form(db: Connection, case_id: UUID) -> PhotoForm:
    form = PhotoForm()
    form.of.choices = words.choices({"": "The whole case"} | _offered(lines_at_bench(db, current.merchant_id, case_id)))
    return form


def _offered(lines: list[LineAtBench]) -> dict[str, str]:
    """What a photo may be of: a line, or where it has few units one of them. "2" is line 2, "2_0" its first unit."""
    found = {}
    for line in lines:
        found[f"{line.position}"] = f"Line {line.position}, {plain(line.title or line.sku or line.line_ref)}"
        units = [unit for a, b in line.held for unit in range(a, min(b, a + MOST_UNITS_NAMED))][:MOST_UNITS_NAMED]
        found |= {f"{line.position}_{unit}": f"Line {line.position}, unit {unit + 1}" for unit in units}
    return found


def _shown(lines: list[LineAtBench], of: str) -> tuple[UUID | None, int | None]:
    position, _, unit = of.partition("_")
    line_id = next((line.line_id for line in lines if str(line.position) == position), None)
    return line_id, int(unit) if unit else None


def _page(db: Connection, case_id: UUID, form: PhotoForm) -> dict[str, Any]:
    head = read_head(db, current.merchant_id, case_id)
    return {"form": form, "action_url": url_for("photos.add", case_id=case_id), **case_named(head)}
