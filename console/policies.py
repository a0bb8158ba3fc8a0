"""Policies: what is in force, drafts with what they change, and the second manager's approval."""

import json
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import TextAreaField
from wtforms.validators import Length

from console import policy_words, words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from ledger.errors import WrongState
from ledger.policy_changes import changes, is_readable, raised
from ledger.policy_publishing import MOST_NOTE, answer
from ledger.queries import policies as read

blueprint = Blueprint("policies", __name__, url_prefix="/<merchant_slug>/policies")


class AnswerForm(ConsoleForm):
    """A word of the one who answers; it stays with the version."""

    note = TextAreaField("Note", validators=[Length(max=MOST_NOTE)])


@blueprint.get("/")
@permission("see_policies")
def index() -> Response:
    with reading() as db:
        versions = read.read_versions(db, current.merchant_id)
        drafts = read.waiting_drafts(db, current.merchant_id)
        unused = read.unused_drafts(db, current.merchant_id)
        return page(
            "policies.html", stands=_by_time(versions),
            drafts=[_draft(one) for one in drafts], unused=[_draft(one) for one in unused], presets=policy_words.presets(),
            drafting_url=url_for("drafting.fields") if current.may("draft_policy") else None,
        )  # fmt: skip


@blueprint.get("/<policy_id>/<int:version>")
@permission("see_policies")
def show(policy_id: str, version: int) -> Response:
    """One version, beside the one before it."""
    with reading() as db:
        found, document = read.read_version(db, current.merchant_id, policy_id, version)
        return page("policy.html", one=_version(found), draft=None, **_compared(db, policy_id, version, document))


@blueprint.get("/drafts/<uuid:draft_id>")
@permission("see_policies")
def show_draft(draft_id: UUID) -> Response:
    with reading() as db:
        return page("policy.html", **_draft_page(db, draft_id, AnswerForm()))


@blueprint.post("/drafts/<uuid:draft_id>/approval")
@permission("approve_policy")
def approve(draft_id: UUID) -> Response:
    """Another manager puts it into force. Repeated, it changes nothing."""
    return _answered(draft_id, "approved")


@blueprint.post("/drafts/<uuid:draft_id>/refusal")
@permission("approve_policy")
def refuse(draft_id: UUID) -> Response:
    """Another manager turns it down."""
    return _answered(draft_id, "turned_down")


@blueprint.post("/drafts/<uuid:draft_id>/withdrawal")
@permission("draft_policy")
def withdraw(draft_id: UUID) -> Response:
    """The drafter takes it back."""
    return _answered(draft_id, "withdrawn")


_ANSWERS: Final = {
    "approved": (
        "The version is approved.",
        "New sales fall under it from its time on; what was decided keeps its version.",
    ),
    "turned_down": ("The draft is turned down.", "Nothing changes."),
    "withdrawn": ("The draft is withdrawn.", "Nothing changes."),
}


def _answered(draft_id: UUID, word: str) -> Response:
    form = AnswerForm()
    if not form.validate():
        with reading() as db:
            return page("policy.html", status=422, **_draft_page(db, draft_id, form))
    try:
        with writing() as db:
            held = answer(db, current.merchant_id, draft_id, current.staff_id, word, str(form.note.data or ""))
    except WrongState as refused:
        with reading() as db:
            shown = _draft_page(db, draft_id, form)
            if shown["draft"]["answer"]:
                raise
            form.form_errors.append(refused.sentence)
            return page("policy.html", status=409, **shown)
    strong, text = _ANSWERS[word]
    if held is not None:
        log.warning("policy_answered", outcome=word, staff_id=current.staff_id, merchant=current.slug)
        count = held.of_people + held.of_policies
        if count:
            text = (
                f"{words.counted(count, 'approved refund is', 'approved refunds are')} above what it allows and held."
            )
    say("ok", strong, text)
    return see_other("policies.show_draft", draft_id=draft_id)


def _by_time(versions: list[read.Version]) -> dict[str, list[dict[str, Any]]]:
    return {kind: [_version(one) for one in versions if one.stands == kind] for kind in ("now", "coming", "over")}


def _version(one: read.Version) -> dict[str, Any]:
    return {
        "cited": f"{one.policy_id}@{one.version}", "title": one.title or one.policy_id, "version": one.version,
        "begins": one.begins, "ends": one.ends, "stands": one.stands, "author": one.author, "approver": one.approver,
        "note": one.note, "approval_note": one.approval_note, "at": one.at,
        "url": url_for("policies.show", policy_id=one.policy_id, version=one.version),
        "drafting_url": url_for("drafting.fields", of=one.policy_id) if current.may("draft_policy") else None,
    }  # fmt: skip


def _draft(one: read.Draft) -> dict[str, Any]:
    return {
        "cited": f"{one.policy_id}@{one.version}", "title": one.title or one.policy_id, "version": one.version,
        "begins": one.begins, "ends": one.ends, "past": one.begins is not None and one.begins < one.at, "raises": one.raises,
        "by": one.by, "note": one.note, "at": one.at, "own": one.staff_id == current.staff_id, "answer": one.answer,
        "answered_by": one.answered_by, "answer_note": one.answer_note, "answered_at": one.answered_at,
        "url": url_for("policies.show_draft", draft_id=one.draft_id),
        "version_url": url_for("policies.show", policy_id=one.policy_id, version=one.version),
    }  # fmt: skip


def _draft_page(db: Connection, draft_id: UUID, form: AnswerForm) -> dict[str, Any]:
    found, document = read.read_draft(db, current.merchant_id, draft_id)
    one = _draft(found)
    decides, takes_back = (
        not found.answer and not one["own"] and current.may("approve_policy"),
        not found.answer and one["own"],
    )
    may = {
        "approve_url": url_for("policies.approve", draft_id=draft_id) if decides else None,
        "refuse_url": url_for("policies.refuse", draft_id=draft_id) if decides else None,
        "withdraw_url": url_for("policies.withdraw", draft_id=draft_id) if takes_back else None,
        "operation": new_operation(), "form": form,
    }  # fmt: skip
    return {"one": None, "draft": one | may, **_compared(db, found.policy_id, found.version, document)}


def _compared(db: Connection, policy_id: str, version: int, document: dict[str, Any]) -> dict[str, Any]:
    """What a document changes of the version before, which is there or not, and the document itself."""
    before = read.read_text(db, current.merchant_id, policy_id, version - 1)
    base = before if before is not None and is_readable(before) else None
    readable = is_readable(document)
    more = {one.field for one in raised(base, document)} if base is not None and readable else set()
    shown = policy_words.compared(changes(base, document)) if readable else []
    return {
        "readable": readable,
        "changes": [row | {"raises": row["field"] in more} for row in shown],
        "before": f"{policy_id}@{version - 1}" if base is not None else "",
        "text": json.dumps(document, indent=2, ensure_ascii=False),
    }  # fmt: skip
