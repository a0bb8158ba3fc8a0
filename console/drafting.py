"""Drafting a version of a policy: by fields for the common terms, or as the whole document for those who know it.

Both forms carry the whole document, so that what the fields do not show is kept, and either leads to the other with nothing lost.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final
from uuid import uuid5

from flask import Blueprint, Response, request, url_for
from wtforms import HiddenField, StringField, TextAreaField
from wtforms.validators import AnyOf, DataRequired, Length

from console import policy_fields, words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from console.operations import operation_id
from ledger.errors import BadInput
from ledger.order_document import Problem
from ledger.policy_document import FIELDS, MAX_CHARACTERS, read_document
from ledger.policy_publishing import MOST_NOTE, NewDraft, draft
from ledger.policy_terms import TermsRefused
from ledger.queries import policies as read

blueprint = Blueprint("drafting", __name__, url_prefix="/<merchant_slug>/policies")

# What the first policy of a shop begins with in the form; every field that is left out has its default.
FIRST: Final = {
    "policy_id": "returns", "title": "Returns of the shop", "window": {"days": 30, "starts": "delivered"},
    "refund_trigger": "inspected", "shipping": {"full_return": "standard", "partial_return": "on_last_unit"},
    "routes": {"manager_from_minor": {"EUR": 25000}}, "signals": {},
}  # fmt: skip
_NOT_TYPED: Final = ("version", "status", "effective_from", "effective_to")


class WhenForm(ConsoleForm):
    """What both forms have: the days, why, and the button that was pressed."""

    begins = StringField(
        "In force from", validators=[Length(max=10)],
        description="A day such as 2027-01-01, in the shop's zone. Empty: as soon as it is approved.",
    )  # fmt: skip
    ends = StringField(
        "Until",
        validators=[Length(max=10)],
        description="The first day on which it is over. Empty: until another follows.",
    )
    note = TextAreaField("Why", validators=[DataRequired("Say why"), Length(max=MOST_NOTE)])
    step = StringField(default="keep", validators=[AnyOf(["keep", "turn"], message="Open this page again.")])

    def turns(self) -> bool:
        """Whether the other form is asked for. Nothing is kept then, and nothing has to be right yet."""
        return str(self.step.data) == "turn"


class DocumentForm(WhenForm):
    """The whole document as text."""

    document = TextAreaField(
        "Policy document", validators=[DataRequired("Write the document"), Length(max=MAX_CHARACTERS)],
        description="JSON. Amounts are minor units by currency (25000 is 250.00), shares are hundredths of a percent"
        " (3000 is 30 %). A field that is left out has its default.",
    )  # fmt: skip


class _Fields(WhenForm):
    document = HiddenField(validators=[Length(max=MAX_CHARACTERS)])


FieldsForm: Final[type[_Fields]] = type("FieldsForm", (_Fields,), policy_fields.fields())


@blueprint.get("/drafting")
@permission("draft_policy")
def fields() -> Response:
    """The form by fields, with the newest version of the policy in `of` to begin from."""
    begun = _begun_from()
    with reading():
        return _fields_page(_of_document(begun))


@blueprint.get("/drafting/document")
@permission("draft_policy")
def document() -> Response:
    """The same as text."""
    begun = _begun_from()
    with reading():
        return _document_page(DocumentForm(formdata=None, document=_text(begun)))


@blueprint.post("/drafts/fields")
@permission("draft_policy")
def keep_fields() -> Response:
    """Keeps the draft, or turns to the document with what was typed in it. What is wrong is said by its field."""
    form = FieldsForm()
    valid = form.validate() or form.turns()
    try:
        held = read_document(str(form.document.data))
    except TermsRefused as refused:
        return _fields_again(form, refused.problems)
    laid = policy_fields.laid_over(held, form._fields)
    if form.turns() and not any(form[term.name].errors for term in policy_fields.TERMS):
        turned = DocumentForm(formdata=None, document=_text(laid), **_when(form))
        with reading():
            return _document_page(turned)
    if not valid or form.errors:
        return _fields_again(form)
    try:
        return _kept(form, json.dumps(laid, ensure_ascii=False))
    except TermsRefused as refused:
        return _fields_again(form, refused.problems)
    except BadInput as refused:
        form[str(refused.facts["field"])].errors = [_said(refused)]
        return _fields_again(form)


@blueprint.post("/drafts")
@permission("draft_policy")
def keep_document() -> Response:
    """The same for the document; turned to the fields, it has to be JSON."""
    form = DocumentForm()
    try:
        if form.turns():
            turned = _of_document(read_document(str(form.document.data or "")), **_when(form))
            with reading():
                return _fields_page(turned)
        if not form.validate():
            return _document_again(form)
        return _kept(form, str(form.document.data))
    except TermsRefused as refused:
        form.validate()
        form.document.errors = ["The document cannot be kept as it is: see what is wrong above"]
        return _document_again(form, refused.problems)
    except BadInput as refused:
        form[str(refused.facts["field"])].errors = [_said(refused)]
        return _document_again(form)


def _begun_from() -> dict[str, Any]:
    """What is typed of the newest version of the policy in `of`, or of a shop's first."""
    policy_id = request.args.get("of", "")
    with reading() as db:
        newest = next((one for one in read.read_versions(db, current.merchant_id) if one.policy_id == policy_id), None)
        held = read.read_text(db, current.merchant_id, policy_id, newest.version) if newest is not None else None
    of = held or FIRST
    return {name: of[name] for name in FIELDS if name not in _NOT_TYPED and name in of}


def _kept(form: WhenForm, text: str) -> Response:
    """The draft, once: the same form again leads to it, one that was gone back to and changed makes another.

    Raises TermsRefused, BadInput.
    """
    typed = NewDraft(text, _day(form.begins), _day(form.ends), str(form.note.data))
    draft_id = uuid5(operation_id(str(form.operation.data)), repr(typed))
    with writing() as db:
        if not read.has_draft(db, current.merchant_id, draft_id):
            draft(db, current.merchant_id, current.staff_id, draft_id, typed)
            log.info("policy_drafted", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "The draft is kept.", "Another manager puts it into force; until then nothing changes.")
    return see_other("policies.show_draft", draft_id=draft_id)


def _day(field: StringField) -> datetime | None:
    """The typed day's beginning in the shop's zone, None for none. Raises BadInput."""
    text = str(field.data or "").strip()
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        raise BadInput(field.name, "write a day such as 2027-01-01, or leave it empty") from None
    return datetime(day.year, day.month, day.day, tzinfo=current.time_zone) if day else None


def _said(refused: BadInput) -> str:
    return words.sentence(refused.sentence.partition(": ")[2])


def _when(form: WhenForm) -> dict[str, str]:
    return {name: str(form[name].data or "") for name in ("begins", "ends", "note", "operation")}


def _text(held: dict[str, Any]) -> str:
    return json.dumps(held, indent=2, ensure_ascii=False)


def _of_document(held: dict[str, Any], **when: str) -> _Fields:
    carried = json.dumps(held, ensure_ascii=False)
    return FieldsForm(formdata=None, document=carried, **policy_fields.said(held), **when)


def _fields_again(form: _Fields, problems: Iterable[Problem] = ()) -> Response:
    """The form with each problem at its field; what only the document has is said above it."""
    rest = []
    for one in problems:
        name = policy_fields.field_of(one.field)
        if name:
            form[name].errors = [f"{form[name].label.text}: {policy_fields.in_words(name, one.say)}"]
        else:
            rest.append(one if one.field != "document" else replace(one, field="", say=_of_the_whole(one.say)))
    with reading():
        return _fields_page(form, rest, status=422)


def _of_the_whole(say: str) -> str:
    """What is wrong with the document as such, for whoever does not see one."""
    same = say.startswith("says the same")
    return f"This draft {say}" if same else "What came along with this form cannot be read: open the form again"


def _fields_page(form: _Fields, rest: Iterable[Problem] = (), *, status: int = 200) -> Response:
    parts = [{"title": title, "fields": [form[term.name] for term in terms]} for title, terms in policy_fields.PARTS]
    return page("policy_fields.html", status=status, form=form, parts=parts, problems=_listed(rest),
                action_url=url_for("drafting.keep_fields"), back_url=url_for("policies.index"))  # fmt: skip


def _document_again(form: DocumentForm, problems: Iterable[Problem] = ()) -> Response:
    with reading():
        return _document_page(form, problems, status=422)


def _document_page(form: DocumentForm, problems: Iterable[Problem] = (), *, status: int = 200) -> Response:
    return page("policy_drafting.html", status=status, form=form, problems=_listed(problems),
                action_url=url_for("drafting.keep_document"), back_url=url_for("policies.index"))  # fmt: skip


def _listed(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"field": one.field, "say": one.say} for one in problems]
