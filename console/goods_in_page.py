"""What the page of goods in shows: what is announced, or a case line by line with its units, looked at and not yet."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import url_for
from sqlalchemy import Connection
from wtforms import Form

from console import words
from console.access import current
from console.case_named import case_named
from console.filters import instant
from ledger.queries.case import read_head
from ledger.queries.orders import LineAtBench, WaitingCase
from ledger.unit_ranges import first, minus

MOST_UNITS_OF_A_LINE: Final = 25


def ungraded(line: LineAtBench) -> list[int]:
    """The next units of the line without a grade, from 0, at most as many as one form shows."""
    held = tuple((a, b) for a, b in line.held)
    left = minus(held, [(grade["a"], grade["b"]) for grade in line.graded])
    return [unit for a, b in first(left, MOST_UNITS_OF_A_LINE) for unit in range(a, b)]


def arrival_page(
    db: Connection, case_id: UUID, lines: list[LineAtBench], form: Form, wrong: dict[str, str], whole: list[str]
) -> dict[str, Any]:
    """templates/goods_in.html with a case open. `wrong` by the field's name, `whole` about the report."""
    head = read_head(db, current.merchant_id, case_id)
    return {
        **found_page("", []),
        "receipt": {
            **case_named(head), "photo_url": url_for("photos.ask", case_id=case_id),
            "parcel_url": url_for("parcels.ask", case_id=case_id),
            "lines": [_line(line, form, wrong) for line in lines if f"received_{line.position}" in form],
        },
        "bench": _input(form, "bench", "Bench or parcel", {"bench": str(next(iter(form["bench"].errors), ""))}),
        "errors": whole,
        "wrong": bool(wrong or whole or form.errors),
        "action_url": url_for("goods_in.record", case_id=case_id),
        "operation": str(form["operation"].data),
    }  # fmt: skip


def _line(line: LineAtBench, form: Form, wrong: dict[str, str]) -> dict[str, Any]:
    title = line.title or line.sku or line.line_ref
    shown = [unit for unit in ungraded(line) if f"grade_{line.position}_{unit}" in form]
    done = [
        {
            "number": words.units([(grade["a"], grade["b"])]).partition(" ")[2],
            "grade": _NO_INPUT,
            "found": _NO_INPUT,
            "reason": _NO_INPUT,
            "serial": _NO_INPUT,
            "loss": _NO_INPUT,
            "done_text": f"{grade['grade']}, {instant(_at(grade))}",
        }
        for grade in line.graded
    ]
    return {
        "number": line.position, "title": title, "sku": line.sku, "announced": line.announced, "received_before": line.received,
        "received": _input(form, f"received_{line.position}", f"Received of {title}", wrong),
        "alike": _alike_inputs(line, title, form, wrong) if f"alike_{line.position}" in form else None,
        "units": done + [_unit(line, unit, form, wrong) for unit in shown],
    }  # fmt: skip


def _alike_inputs(line: LineAtBench, title: str, form: Form, wrong: dict[str, str]) -> dict[str, dict[str, str]]:
    return {
        "count": _input(form, f"alike_{line.position}", f"So many more units of {title} are alike", wrong),
        "grade": _input(form, f"alikegrade_{line.position}", f"Their grade, of {title}", wrong),
        "reason": _input(form, f"alikereason_{line.position}", f"Why those units of {title} came back", wrong),
        "loss": _input(
            form, f"alikeloss_{line.position}", f"Loss in value of those units of {title}, in percent", wrong
        ),
    }


_NO_INPUT: Final = {"name": "", "label": "", "value": "", "error": ""}


def _at(grade: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(grade["at"])


def _unit(line: LineAtBench, unit: int, form: Form, wrong: dict[str, str]) -> dict[str, Any]:
    of = f"unit {unit + 1} of line {line.position}"
    return {
        "number": str(unit + 1), "done_text": "",
        "grade": _input(form, f"grade_{line.position}_{unit}", f"Grade of {of}", wrong),
        "found": _input(form, f"found_{line.position}_{unit}", f"Finding on {of}", wrong),
        "reason": _input(form, f"reason_{line.position}_{unit}", f"Why {of} came back", wrong),
        "serial": _input(form, f"serial_{line.position}_{unit}", f"Serial of {of}", wrong),
        "loss": _input(form, f"loss_{line.position}_{unit}", f"Loss in value of {of}, in percent", wrong),
    }  # fmt: skip


def _input(form: Form, name: str, label: str, wrong: dict[str, str]) -> dict[str, str]:
    value = str(form[name].data or "") if name in form else ""
    return {"name": name, "label": label, "value": value, "error": wrong.get(name, "")}


def found_page(text: str, found: list[WaitingCase]) -> dict[str, Any]:
    """What templates/goods_in.html needs besides: the search and what it found, and the lists to choose from."""
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
    reasons = [
        {"value": "", "label": "as the customer said"},
        *({"value": code, "label": words.sentence(text)} for code, text in words.REASONS.items()),
    ]
    empty = {"name": "bench", "label": "Bench or parcel", "value": "", "error": ""}
    return {
        "find": {"url": url_for("goods_in.index"), "q": text, "searched": bool(text), "waiting": waiting,
                 "aside_url": url_for("receipts.ask")},
        "grades": grades, "reasons": reasons, "bench": empty, "action_url": "", "operation": "",
    }  # fmt: skip
