"""Goods in: what arrived for a case, counted per line and graded per unit. What was received is the ceiling (DESIGN §2)."""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request
from sqlalchemy import Connection
from wtforms import StringField
from wtforms.validators import Length

from console import words
from console.access import current, permission, reading, writing
from console.automatic import after_evidence
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.goods_in_page import MOST_UNITS_OF_A_LINE, arrival_page, found_page, ungraded
from console.operations import first_result, keep_result
from console.typed import percent
from ledger.card_numbers import mask_card_numbers
from ledger.errors import BadInput, WrongState
from ledger.events import lock_order_and_case
from ledger.evidence import (
    LONGEST_SERIAL,
    Arrival,
    Graded,
    ReceivedLine,
    report_arrival,
)
from ledger.queries.case import read_head
from ledger.queries.orders import LineAtBench, find_cases, lines_at_bench, waiting_for_goods

blueprint = Blueprint("goods_in", __name__, url_prefix="/<merchant_slug>/goods-in")

LONGEST_SEARCH: Final = 120
# Fields of one form, of at most 200 parts: each unit takes five, each line one, and four more for units that are alike.
MOST_FIELDS: Final = 185
MOST_LINES: Final = 40
_OF_A_UNIT: Final = ("grade", "found", "reason", "serial", "loss")
_OF_UNITS_ALIKE: Final = ("alike", "alikegrade", "alikereason", "alikeloss")
# Only these grades lose value by what the customer did (ENTITLEMENT §5).
_LOSING: Final = ("C", "D")


class ArrivalForm(ConsoleForm):
    """Where it was looked at; `_form` adds a count for each line, a grade and a finding for each unit."""

    bench = StringField("Bench or parcel", validators=[Length(max=80, message="Write at most 80 characters")])


@blueprint.get("/")
@permission("report_goods")
def index() -> Response:
    """What is announced and not here, or the cases with this number or order."""
    text = request.args.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    with reading() as db:
        found = find_cases(db, current.merchant_id, text) if text else waiting_for_goods(db, current.merchant_id)
        return page("goods_in.html", receipt=None, errors=[], wrong=False, **found_page(text, found))


@blueprint.get("/<uuid:case_id>")
@permission("report_goods")
def report(case_id: UUID) -> Response:
    """The form for one case."""
    with reading() as db:
        lines = _lines(db, case_id)
        return page("goods_in.html", **arrival_page(db, case_id, lines, _form(lines), {}, []))


@blueprint.post("/<uuid:case_id>")
@permission("report_goods")
def record(case_id: UUID) -> Response:
    """Records what arrived; the same form again records it once."""
    with reading() as db:
        form = _form(_lines(db, case_id))
    valid = form.validate()
    wrong: dict[str, str] = {}
    try:
        if valid:
            with writing() as db:
                wrong = _record_once(db, case_id, form)
    except BadInput as refused:
        return _again(case_id, form, {}, [words.sentence(refused.sentence.partition(": ")[2])])
    if not valid or wrong:
        return _again(case_id, form, wrong, [wrong.pop("")] if "" in wrong else [])
    after_evidence(current.merchant_id, case_id)
    say("ok", "Recorded what arrived.", "The amount is worked out again from it.")
    return see_other("case.show", case_id=case_id)


def _lines(db: Connection, case_id: UUID) -> list[LineAtBench]:
    """The lines whose units the case holds. Raises NotFound, and WrongState when it holds none: it was rejected."""
    head = read_head(db, current.merchant_id, case_id)
    found = lines_at_bench(db, current.merchant_id, case_id)
    if not found:
        raise WrongState(f"Case {words.case_reference(head.number)} was rejected. Open a new return for what arrived.")
    return found


def _record_once(db: Connection, case_id: UUID, form: ArrivalForm) -> dict[str, str]:
    """Reports the arrival unless this form did before. Returns what is wrong, by field, and then records nothing.

    Order and case are locked first: two who count the same bench add up to what both counted, not to twice as much.
    """
    operation = str(form.operation.data)
    if first_result(db, operation) is not None:
        return {}
    lock_order_and_case(db, current.merchant_id, case_id)
    reported, wrong = _reported(lines_at_bench(db, current.merchant_id, case_id), form)
    if wrong or not reported:
        return wrong or {"": "Say what arrived: this is what was recorded before."}
    parcel = mask_card_numbers((form.bench.data or "").strip())
    report_arrival(db, current.merchant_id, case_id, Arrival(tuple(reported), "warehouse", current.actor, parcel))
    keep_result(db, operation, {"case_id": str(case_id)})
    return {}


def _reported(lines: list[LineAtBench], form: ArrivalForm) -> tuple[list[ReceivedLine], dict[str, str]]:
    """What is new on each line: units above those received before, and grades of the next units."""
    found: list[ReceivedLine] = []
    wrong: dict[str, str] = {}
    for line in lines:
        name = f"received_{line.position}"
        if name not in form:
            continue
        text = (form[name].data or "").strip()
        grades, fault = _grades(line, form)
        wrong |= fault | _graded_meanwhile(line, form)
        if text and not (text.isascii() and text.isdigit() and len(text) <= 6):
            wrong[name] = "write a whole number"
        elif text and int(text) < line.received:
            wrong[name] = f"{line.received} were received before; what is recorded stays"
        elif grades or (text and (int(text) > line.received or int(text) == 0)):
            found.append(ReceivedLine(line.line_ref, max(0, int(text or 0) - line.received), grades))
    return found, wrong


def _grades(line: LineAtBench, form: ArrivalForm) -> tuple[tuple[Graded, ...], dict[str, str]]:
    grades: list[Graded] = []
    wrong: dict[str, str] = {}
    gap = False
    for unit in ungraded(line):
        name = f"grade_{line.position}_{unit}"
        if name not in form:
            break
        grade, note, reason, serial, loss = (_typed(form, f"{part}_{line.position}_{unit}") for part in _OF_A_UNIT)
        if not grade:
            gap = True
            if note or reason or serial or loss:
                wrong[name] = "a finding needs a grade"
            continue
        if grade not in words.GRADES:
            wrong[name] = "choose a grade of the list"
        elif gap:
            wrong[name] = "grade the units in their order, without a gap"
        if reason and reason not in words.REASONS:
            wrong[f"reason_{line.position}_{unit}"] = "choose a reason of the list"
        assessed, unread = _loss(loss, grade)
        if unread:
            wrong[f"loss_{line.position}_{unit}"] = unread
        serial_ = serial[:LONGEST_SERIAL] or None
        grades.append(Graded(1, grade, mask_card_numbers(note)[:200], reason or None, serial_, assessed))
    alike, fault = _alike(line, form)
    return (*grades, *alike), wrong | fault


def _alike(line: LineAtBench, form: ArrivalForm) -> tuple[list[Graded], dict[str, str]]:
    """Many units of one grade, after those that were looked at one by one."""
    count, grade, reason, loss = (_typed(form, f"{part}_{line.position}") for part in _OF_UNITS_ALIKE)
    name = f"alike_{line.position}"
    if not count:
        return [], {name: "say how many units have this grade"} if grade or loss else {}
    if not (count.isascii() and count.isdigit() and len(count) <= 6 and int(count)):
        return [], {name: "write a whole number of at least 1"}
    if grade not in words.GRADES or (reason and reason not in words.REASONS):
        return [], {f"alikegrade_{line.position}": "choose a grade, and a reason, of the list"}
    assessed, fault = _loss(loss, grade)
    wrong = {f"alikeloss_{line.position}": fault} if fault else {}
    return [Graded(int(count), grade, "", reason or None, None, assessed)], wrong


def _loss(typed: str, grade: str) -> tuple[int | None, str]:
    """A loss in value as typed, in ten-thousandths, and what is wrong with it."""
    if not typed:
        return None, ""
    if grade not in _LOSING:
        return None, "only grades C and D have a loss"
    bps = percent(typed)
    return bps, "" if bps is not None else "write 0 to 100 percent, such as 12.5"


def _typed(form: ArrivalForm, name: str) -> str:
    return (form[name].data or "").strip() if name in form else ""


def _graded_meanwhile(line: LineAtBench, form: ArrivalForm) -> dict[str, str]:
    """A unit that the page offered and somebody else graded since: the typed grade is not taken quietly for another."""
    for grade in line.graded:
        for unit in range(grade["a"], min(grade["b"], grade["a"] + MOST_UNITS_OF_A_LINE)):
            name = f"grade_{line.position}_{unit}"
            if name in form and form[name].data:
                return {
                    "": f"Unit {unit + 1} of line {line.position} was graded meanwhile, {grade['grade']}. Look at it again."
                }
    return {}


def _form(lines: list[LineAtBench]) -> ArrivalForm:
    fields: dict[str, Any] = {}
    for line in lines[:MOST_LINES]:
        fields[f"received_{line.position}"] = StringField()
        if len(ungraded(line)) > 1:
            fields |= {f"{part}_{line.position}": StringField() for part in _OF_UNITS_ALIKE}
    for line in lines[:MOST_LINES]:
        for unit in ungraded(line):
            if len(fields) + len(_OF_A_UNIT) <= MOST_FIELDS:
                fields |= {f"{part}_{line.position}_{unit}": StringField() for part in _OF_A_UNIT}
    fields |= _submitted(lines)
    made: ArrivalForm = type("ArrivalFormOfCase", (ArrivalForm,), fields)()
    return made


def _submitted(lines: list[LineAtBench]) -> dict[str, Any]:
    """Fields that a page of this case offered before: each unit it holds was offered once."""
    held = {str(line.position): line.held for line in lines}
    found = {}
    for name in request.form:
        kind, _, place = name.partition("_")
        if kind in _OF_UNITS_ALIKE and place in held:
            found[name] = StringField()
        position, _, unit = place.partition("_")
        if kind not in _OF_A_UNIT or not (unit.isascii() and unit.isdigit() and len(unit) <= 7):
            continue
        if any(a <= int(unit) < b for a, b in held.get(position, [])):
            found |= {f"{part}_{place}": StringField() for part in _OF_A_UNIT}
    return found


def _again(case_id: UUID, form: ArrivalForm, wrong: dict[str, str], whole: list[str]) -> Response:
    with reading() as db:
        lines = lines_at_bench(db, current.merchant_id, case_id)
        return page("goods_in.html", status=422, **arrival_page(db, case_id, lines, form, wrong, whole))
