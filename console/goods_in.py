"""Goods in: what arrived for a case, counted per line and graded per unit. What was received is the ceiling (DESIGN §2)."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import StringField
from wtforms.validators import Length

from console import words
from console.access import current, permission, reading, writing
from console.filters import instant
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.operations import first_result, keep_result
from ledger.card_numbers import mask_card_numbers
from ledger.errors import BadInput, WrongState
from ledger.events import lock_order_and_case
from ledger.evidence import Arrival, ReceivedLine, report_arrival
from ledger.queries.case import read_head
from ledger.queries.orders import LineAtBench, WaitingCase, find_cases, lines_at_bench, waiting_for_goods
from ledger.unit_ranges import first, minus

blueprint = Blueprint("goods_in", __name__, url_prefix="/<merchant_slug>/goods-in")

LONGEST_SEARCH: Final = 120
# Fields of one form: each unit takes two of at most 200 parts, each line one more.
MOST_UNITS: Final = 60
MOST_UNITS_OF_A_LINE: Final = 25
MOST_LINES: Final = 40


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
        return page("goods_in.html", receipt=None, errors=[], wrong=False, **_find(text, found))


@blueprint.get("/<uuid:case_id>")
@permission("report_goods")
def report(case_id: UUID) -> Response:
    """The form for one case."""
    with reading() as db:
        lines = _lines(db, case_id)
        return page("goods_in.html", **_page(db, case_id, lines, _form(lines), {}, []))


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


def _grades(line: LineAtBench, form: ArrivalForm) -> tuple[tuple[tuple[int, str, str], ...], dict[str, str]]:
    grades, wrong, gap = [], {}, False
    for unit in _ungraded(line):
        name = f"grade_{line.position}_{unit}"
        if name not in form:
            break
        grade, note = (form[name].data or "").strip(), (form[f"found_{line.position}_{unit}"].data or "").strip()
        if not grade:
            gap = True
            if note:
                wrong[name] = "a finding needs a grade"
            continue
        if grade not in words.GRADES:
            wrong[name] = "choose a grade of the list"
        elif gap:
            wrong[name] = "grade the units in their order, without a gap"
        grades.append((1, grade, mask_card_numbers(note)[:200]))
    return tuple(grades), wrong


def _graded_meanwhile(line: LineAtBench, form: ArrivalForm) -> dict[str, str]:
    """A unit that the page offered and somebody else graded since: the typed grade is not taken quietly for another."""
    for grade in line.graded:
        for unit in range(grade["a"], min(grade["b"], grade["a"] + MOST_UNITS)):
            name = f"grade_{line.position}_{unit}"
            if name in form and form[name].data:
                return {
                    "": f"Unit {unit + 1} of line {line.position} was graded meanwhile, {grade['grade']}. Look at it again."
                }
    return {}


def _ungraded(line: LineAtBench) -> list[int]:
    """The next units of the line without a grade, from 0, at most as many as one form shows."""
    held = tuple((a, b) for a, b in line.held)
    left = minus(held, [(grade["a"], grade["b"]) for grade in line.graded])
    return [unit for a, b in first(left, MOST_UNITS_OF_A_LINE) for unit in range(a, b)]


def _form(lines: list[LineAtBench]) -> ArrivalForm:
    fields: dict[str, Any] = {}
    units = 0
    for line in lines[:MOST_LINES]:
        fields[f"received_{line.position}"] = StringField()
        for unit in _ungraded(line):
            units += 1
            if units <= MOST_UNITS:
                fields[f"grade_{line.position}_{unit}"] = StringField()
                fields[f"found_{line.position}_{unit}"] = StringField()
    fields |= _submitted(lines)
    made: ArrivalForm = type("ArrivalFormOfCase", (ArrivalForm,), fields)()
    return made


def _submitted(lines: list[LineAtBench]) -> dict[str, Any]:
    """Fields that a page of this case offered before: each unit it holds was offered once."""
    held = {str(line.position): line.held for line in lines}
    found = {}
    for name in request.form:
        kind, _, place = name.partition("_")
        position, _, unit = place.partition("_")
        if kind not in ("grade", "found") or not (unit.isascii() and unit.isdigit() and len(unit) <= 7):
            continue
        if any(a <= int(unit) < b for a, b in held.get(position, [])):
            found[name] = StringField()
            found[f"{'found' if kind == 'grade' else 'grade'}_{place}"] = StringField()
    return found


def _again(case_id: UUID, form: ArrivalForm, wrong: dict[str, str], whole: list[str]) -> Response:
    with reading() as db:
        lines = lines_at_bench(db, current.merchant_id, case_id)
        return page("goods_in.html", status=422, **_page(db, case_id, lines, form, wrong, whole))


def _page(
    db: Connection, case_id: UUID, lines: list[LineAtBench], form: ArrivalForm, wrong: dict[str, str], whole: list[str]
) -> dict[str, Any]:
    head = read_head(db, current.merchant_id, case_id)
    return {
        **_find("", []),
        "receipt": {
            "case_reference": words.case_reference(head.number), "case_url": url_for("case.show", case_id=case_id),
            "order_reference": head.order_ref, "customer": words.customer(head.customer),
            "lines": [_line(line, form, wrong) for line in lines if f"received_{line.position}" in form],
        },
        "bench": _input(form, "bench", "Bench or parcel", {"bench": str(next(iter(form.bench.errors), ""))}),
        "errors": whole,
        "wrong": bool(wrong or whole or form.errors),
        "action_url": url_for("goods_in.record", case_id=case_id),
        "operation": str(form.operation.data),
    }  # fmt: skip


def _line(line: LineAtBench, form: ArrivalForm, wrong: dict[str, str]) -> dict[str, Any]:
    title = line.title or line.sku or line.line_ref
    shown = [unit for unit in _ungraded(line) if f"grade_{line.position}_{unit}" in form]
    done = [
        {
            "number": words.units([(grade["a"], grade["b"])]).partition(" ")[2],
            "grade": _NO_INPUT,
            "found": _NO_INPUT,
            "done_text": f"{grade['grade']}, {instant(_at(grade))}",
        }
        for grade in line.graded
    ]
    return {
        "number": line.position, "title": title, "sku": line.sku, "announced": line.announced, "received_before": line.received,
        "received": _input(form, f"received_{line.position}", f"Received of {title}", wrong),
        "units": done + [_unit(line, unit, form, wrong) for unit in shown],
    }  # fmt: skip


_NO_INPUT: Final = {"name": "", "label": "", "value": "", "error": ""}


def _at(grade: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(grade["at"])


def _unit(line: LineAtBench, unit: int, form: ArrivalForm, wrong: dict[str, str]) -> dict[str, Any]:
    of = f"unit {unit + 1} of line {line.position}"
    return {
        "number": str(unit + 1), "done_text": "",
        "grade": _input(form, f"grade_{line.position}_{unit}", f"Grade of {of}", wrong),
        "found": _input(form, f"found_{line.position}_{unit}", f"Finding on {of}", wrong),
    }  # fmt: skip


def _input(form: ArrivalForm, name: str, label: str, wrong: dict[str, str]) -> dict[str, str]:
    value = str(form[name].data or "") if name in form else ""
    return {"name": name, "label": label, "value": value, "error": wrong.get(name, "")}


def _find(text: str, found: list[WaitingCase]) -> dict[str, Any]:
    waiting = [
        {
            "reference": words.case_reference(case.number), "url": url_for("goods_in.report", case_id=case.case_id),
            "order_reference": case.order_ref, "customer": words.customer(case.customer), "announced_text": case.summary,
            "announced_at": case.opened_at,
        }
        for case in found
    ]  # fmt: skip
    grades = [
        {"value": "", "label": "not inspected"},
        *({"value": k, "label": f"{k} {v}"} for k, v in words.GRADES.items()),
    ]
    empty = {"name": "bench", "label": "Bench or parcel", "value": "", "error": ""}
    return {
        "find": {"url": url_for("goods_in.index"), "q": text, "searched": bool(text), "waiting": waiting},
        "grades": grades, "bench": empty, "action_url": "", "operation": "",
    }  # fmt: skip
