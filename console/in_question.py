"""Orders in question: figures that do not add up or were stated twice, settled by one who proposes and another who confirms."""

from typing import Any, Final
from uuid import UUID, uuid5

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, RadioField, SelectField, TextAreaField
from wtforms.validators import DataRequired, InputRequired, Length, Regexp

from console import in_question_words, words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm, with_ids
from console.fragments import page, say, see_other
from console.log import log
from console.operations import operation_id
from ledger.errors import BadInput, LedgerError, NotFound, SamePerson, Stale, WrongState
from ledger.order_settlements import MOST_NOTE, Typed, answer_settlement, propose_settlement, still_as_proposed
from ledger.order_settling import Choice, InQuestion, changes, choices, read_in_question
from ledger.queries import in_question as read

blueprint = Blueprint("in_question", __name__, url_prefix="/<merchant_slug>/orders-in-question")

_DIGEST: Final = Regexp(r"\A[0-9a-f]{64}\Z", message="Open this page again.")
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class ProposeForm(ConsoleForm):
    """Which way out, why, and how it is known; `seen` is what was shown."""

    choice = RadioField("What stands", validators=[InputRequired("Choose what stands")], validate_choice=False)
    reason = SelectField(
        "Why",
        choices=words.choices({"": "Choose…", **in_question_words.REASONS}),
        validators=[DataRequired("Choose why")],
    )
    note = TextAreaField(
        "How you know", validators=[DataRequired("Say how you know"), Length(max=MOST_NOTE)],
        description="Who said so, or which paper shows it. It stays with the order.",
    )  # fmt: skip
    seen = HiddenField(validators=[_DIGEST])


class ConfirmForm(ConsoleForm):
    """`seen`: exactly what was proposed."""

    seen = HiddenField(validators=[_DIGEST])


class TurnDownForm(ConfirmForm):
    reason = TextAreaField("Why not", validators=[DataRequired("Say why not"), Length(max=MOST_NOTE)])


@blueprint.get("/")
@permission("see_questions")
def index() -> Response:
    with reading() as db:
        waiting = read.waiting_orders(db, current.merchant_id)
        return page(
            "in_question.html", waiting=[_waiting(one) for one in waiting],
            total_text=words.counted(len(waiting), "order", "orders"),
            settled=[_settled(one, {}) for one in read.last_settled(db, current.merchant_id)],
        )  # fmt: skip


@blueprint.get("/<uuid:order_id>")
@permission("see_questions")
def show(order_id: UUID) -> Response:
    """One order: what is in question, what is proposed or can be, and what was settled before."""
    with reading() as db:
        return page("in_question_order.html", **_one(db, order_id))


@blueprint.post("/<uuid:order_id>/proposal")
@permission("settle_order")
def propose(order_id: UUID) -> Response:
    """Keeps a proposal. A second submit of the same page lands on it."""
    form = ProposeForm()
    if not form.validate():
        with reading() as db:
            return page("in_question_order.html", status=422, **_one(db, order_id, form=form))
    settlement_id = uuid5(operation_id(str(form.operation.data)), str(order_id))
    typed = Typed(str(form.choice.data), str(form.reason.data), str(form.note.data), bytes.fromhex(str(form.seen.data)))
    try:
        with writing() as db:
            if settlement_id not in {
                one.settlement_id for one in read.settlements_of(db, current.merchant_id, order_id)
            }:
                propose_settlement(db, current.merchant_id, order_id, settlement_id, current.staff_id, typed)
    except BadInput as refused:
        form[str(refused.facts["field"])].errors = [words.sentence(refused.sentence.partition(": ")[2])]
        with reading() as db:
            return page("in_question_order.html", status=422, **_one(db, order_id, form=form))
    except (Stale, WrongState) as refused:
        return _refused(order_id, refused, form)
    log.info("order_settlement_proposed", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "Proposed.", "Another manager or somebody of finance confirms it; until then nothing is paid.")
    return see_other("in_question.show", order_id=order_id)


@blueprint.post("/<uuid:order_id>/settlements/<uuid:settlement_id>/confirmation")
@permission("settle_order")
def confirm(order_id: UUID, settlement_id: UUID) -> Response:
    """The second person confirms what the page showed. Repeated, it changes nothing."""
    form = ConfirmForm()
    form.require()
    return _answered(order_id, settlement_id, str(form.seen.data), confirmed=True)


@blueprint.post("/<uuid:order_id>/settlements/<uuid:settlement_id>/refusal")
@permission("settle_order")
def turn_down(order_id: UUID, settlement_id: UUID) -> Response:
    """Anybody who may settle turns it down, the proposer too."""
    form = TurnDownForm()
    if not form.validate():
        with reading() as db:
            return page("in_question_order.html", status=422, **_one(db, order_id, down=form))
    return _answered(order_id, settlement_id, str(form.seen.data), confirmed=False, reason=str(form.reason.data))


def _answered(order_id: UUID, settlement_id: UUID, seen: str, *, confirmed: bool, reason: str = "") -> Response:
    try:
        with writing() as db:
            if settlement_id not in {
                one.settlement_id for one in read.settlements_of(db, current.merchant_id, order_id)
            }:
                raise NotFound
            answer_settlement(
                db, current.merchant_id, settlement_id, current.staff_id, bytes.fromhex(seen), confirmed=confirmed, reason=reason
            )  # fmt: skip
    except (Stale, WrongState, SamePerson) as refused:
        return _refused(order_id, refused)
    log.info("order_settlement_answered", outcome="confirmed" if confirmed else "turned_down", staff_id=current.staff_id,
             merchant=current.slug)  # fmt: skip
    if confirmed:
        say("ok", "Settled.", "The order is shared out anew, and its open cases are worked out again.")
    else:
        say("ok", "Turned down.", "Nothing changed; the order waits for another proposal.")
    return see_other("in_question.show", order_id=order_id)


def _refused(order_id: UUID, refused: LedgerError, form: ProposeForm | None = None) -> Response:
    with reading() as db:
        return page("in_question_order.html", status=409, **_one(db, order_id, form=form, refused=refused.sentence))


def _waiting(one: read.Waiting) -> dict[str, Any]:
    facts = {found["name"]: found["facts"] for found in one.found}
    names = [code for code in one.names if in_question_words.discrepancy(code, {}, one.currency)["blocking"]]
    return {
        "reference": one.reference, "url": url_for("in_question.show", order_id=one.order_id),
        "customer": words.customer(one.customer), "since": one.since, "cases": one.cases,
        "total_minor": one.total_minor, "captured_minor": one.captured_minor, "currency": one.currency,
        "found": [in_question_words.discrepancy(code, facts.get(code, {}), one.currency) for code in names],
        "statements": one.statements, "proposed_by": one.proposed_by, "proposed_at": one.proposed_at,
    }  # fmt: skip


def _one(
    db: Connection,
    order_id: UUID,
    *,
    form: ProposeForm | None = None,
    down: TurnDownForm | None = None,
    refused: str = "",
) -> dict[str, Any]:
    """The page of one order, in question or settled. Raises NotFound for one that never was."""
    reference = read.reference_of(db, current.merchant_id, order_id)
    past = read.settlements_of(db, current.merchant_id, order_id)
    try:
        asked = read_in_question(db, current.merchant_id, order_id)
    except WrongState:
        if not past:
            raise NotFound from None
        asked = None
    when = {one.conflict_id: one.at for one in asked.others} if asked else {}
    waits = next((one for one in past if not one.answer), None)
    view: dict[str, Any] = {
        "reference": reference, "refused": refused, "back_url": url_for("in_question.index"), "found": [], "others": [],
        "lines": [], "ways": [], "shut": [], "none_fits": False, "confirm": None, "form": None, "proposed": None, "down": None,
        "cases": [
            {"reference": words.case_reference(row["number"]), "url": url_for("case.show", case_id=row["case_id"]),
             "badge": words.case_badge(row["stage"])}
            for row in read.cases_of(db, current.merchant_id, order_id)
        ],
        "past": [_settled(one, when) for one in past if one.answer], "may": current.may("settle_order"),
    }  # fmt: skip
    if asked is not None:
        view |= _question(asked)
        if waits is not None:
            view |= _proposed(db, asked, waits, when, down)
        else:
            view |= _offer(asked, when, form)
    return view


def _question(asked: InQuestion) -> dict[str, Any]:
    currency = asked.order["currency"]
    found = [
        in_question_words.discrepancy(one.name, dict(one.facts), currency) for one in asked.allocation.discrepancies
    ]
    others = [
        {"at": one.at, "rows": [in_question_words.changed(change, currency) for change in changes(asked.first, one)]}
        for one in asked.others
    ]
    return {
        "currency": currency, "since": asked.order["imported_at"], "found": found, "others": others,
        "total_minor": asked.order["total_minor"],
        "captured_minor": sum(row["order_minor"] for row in asked.captures.values()),
        "lines_minor": sum(row["gross_minor"] for row in asked.lines.values()),
    }  # fmt: skip


def _offer(asked: InQuestion, when: dict[Any, Any], form: ProposeForm | None) -> dict[str, Any]:
    offered = choices(asked)
    open_ways = [one for one in offered if not one.why_not][: len(LETTERS)]
    ways = [
        {"letter": LETTERS[place], "text": in_question_words.way(one, when, bool(asked.others)), "total_minor": one.total_minor,
         "method": one.allocation.method, "key": one.key}
        for place, one in enumerate(open_ways)
    ]  # fmt: skip
    shut = [
        {"text": in_question_words.way(one, when, bool(asked.others)), "why": one.why_not}
        for one in offered if one.why_not
    ]  # fmt: skip
    made = form or ProposeForm(formdata=None, seen=asked.seen.hex())
    made.choice.choices = [(way["key"], f"{way['letter']}: {way['text']}") for way in ways]
    if form is not None:
        form.seen.data = asked.seen.hex()
    return {
        "ways": ways, "shut": shut, "none_fits": not ways, "lines": _lines(asked, open_ways),
        "form": made if ways and current.may("settle_order") else None,
        "propose_url": url_for("in_question.propose", order_id=asked.order["order_id"]),
    }  # fmt: skip


def _lines(asked: InQuestion, offered: list[Choice]) -> list[dict[str, Any]]:
    """Each line as the books have it now, and as each way would make it."""
    names: dict[str, str] = {ref: row["title"] or ref for ref, row in asked.lines.items()}
    for one in offered:
        for line in one.allocation.lines:
            names.setdefault(line.line_id, line.title)
    rows = []
    for ref, title in names.items():
        after = [one.allocation.line(ref) for one in offered]
        now = asked.lines.get(ref)
        rows.append({"ref": ref, "title": title, "now": now["gross_minor"] if now else None,
                     "after": [line.gross_minor if line else None for line in after]})  # fmt: skip
    return rows


def _proposed(
    db: Connection, asked: InQuestion, waits: read.Settled, when: dict[Any, Any], down: TurnDownForm | None
) -> dict[str, Any]:
    holds = still_as_proposed(db, current.merchant_id, waits.settlement_id)
    own = waits.proposed_by == current.staff_id
    seen = {"seen": waits.digest.hex()}
    may = current.may("settle_order")
    known = set(waits.conflicts)
    return {
        "proposed": _settled(waits, when) | {
            "own": own, "holds": holds, "lines": [
                {"ref": line["line_id"], "title": line["title"], "after": line["gross_minor"],
                 "now": asked.lines[line["line_id"]]["gross_minor"] if line["line_id"] in asked.lines else None}
                for line in waits.lines
            ],
            "payments": [
                f"{one['tender'].replace('_', ' ')} {one['capture_ref']}, "
                f"{in_question_words.value('minor', one['captured_minor'], one['currency'])}" for one in waits.payments
            ],
            "then": [in_question_words.name(code) for code in waits.discrepancies],
            "then_statements": 1 + len(known), "now_statements": 1 + len(asked.others),
            "now": [in_question_words.name(code) for code in asked.order["discrepancies"]],
            "confirm_url": url_for("in_question.confirm", order_id=waits.order_id, settlement_id=waits.settlement_id),
            "turn_down_url": url_for("in_question.turn_down", order_id=waits.order_id, settlement_id=waits.settlement_id),
        },
        "confirm": with_ids(ConfirmForm(formdata=None, **seen), "confirm") if may and holds and not own else None,
        "down": with_ids(down or TurnDownForm(formdata=None, **seen), "down") if may else None,
    }  # fmt: skip


def _settled(one: read.Settled, when: dict[Any, Any]) -> dict[str, Any]:
    return {
        "reference": one.reference, "url": url_for("in_question.show", order_id=one.order_id), "currency": one.currency,
        "text": in_question_words.chosen(one.conflict_id, one.choice, when, bool(one.conflicts)),
        "total_minor": one.total_minor, "method": one.method, "reason": in_question_words.REASONS[one.reason], "note": one.note,
        "by": one.by, "at": one.proposed_at, "answer": one.answer, "answered_by": one.answered_by, "answered_at": one.answered_at,
        "answer_note": one.answer_note, "n": one.n,
    }  # fmt: skip
