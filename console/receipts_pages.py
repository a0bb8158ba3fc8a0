"""What the desk of unmatched receipts shows: the list, one of them with what it may be of, and what does not fit a case."""

from typing import Any, Final

from flask import url_for
from wtforms import Form

from console import words
from console.access import current
from console.case_named import case_named
from console.filters import age
from ledger.queries.case import CaseHead
from ledger.queries.orders import FoundOrder, LineAtBench
from ledger.queries.receipts import Candidate, Receipt

WHY: Final = {
    "nothing_named": "no return is named",
    "no_case": "no open return has that reference",
    "several_cases": "the order has several open returns",
    "rejected": "its return was rejected",
    "at_bench": "nobody announced it",
}
CLOSED: Final = {
    "sent_back": "Sent back to the sender", "not_ours": "Not goods of this shop", "empty": "Empty, or nothing to use",
}  # fmt: skip


def list_page(waiting: list[Receipt], answered: list[Receipt]) -> dict[str, Any]:
    """templates/receipts.html."""
    return {
        "waiting": [_row(receipt) for receipt in waiting],
        "answered": [_row(receipt) for receipt in answered],
        "new_url": url_for("receipts.ask"),
    }


def _row(receipt: Receipt) -> dict[str, Any]:
    return {
        "reference": f"P-{receipt.number}", "url": url_for("receipts.show", receipt_id=receipt.receipt_id),
        "at": receipt.at, "age": age(receipt.at), "why": words.sentence(WHY[receipt.why]),
        "named": receipt.case_ref or receipt.order_ref, "parcel": receipt.parcel, "contents": _contents(receipt),
        "channel": words.channel(receipt.channel), "answer": answer_text(receipt), "answered_at": receipt.answered_at,
        "case_url": url_for("case.show", case_id=receipt.case_id) if receipt.case_id else "",
        "case_reference": words.case_reference(receipt.case_number) if receipt.case_number else "",
    }  # fmt: skip


def answer_text(receipt: Receipt) -> str:
    """What became of it; "" while it waits."""
    if receipt.kind is None:
        return ""
    return {"matched": "Put on case", "opened": "A return was opened:", **CLOSED}[receipt.kind]


def _contents(receipt: Receipt) -> str:
    counted = ", ".join(f"{line['count']} of {line['line']}" for line in receipt.lines)
    return " · ".join(part for part in (counted, receipt.note) if part)


def receipt_page(receipt: Receipt, text: str, found: list[Candidate], orders: list[FoundOrder]) -> dict[str, Any]:
    """templates/receipt.html without its form."""
    may_open = current.may("open_return")
    return {
        "receipt": _row(receipt) | {
            "by": receipt.by or "",
            "lines": [
                {
                    "line": line["line"], "count": line["count"],
                    "grades": ", ".join(f"{row['count']} {row['grade']}" for row in line["grades"]),
                    "found": "; ".join(row["note"] for row in line["grades"] if row["note"]),
                }
                for line in receipt.lines
            ],
            "note": receipt.note,
        },
        "find": {"url": url_for("receipts.show", receipt_id=receipt.receipt_id), "q": text,
                 "searched": bool(text or receipt.case_ref or receipt.order_ref or receipt.parcel)},
        "cases": [
            {
                "reference": words.case_reference(case.number), "order_reference": case.order_ref,
                "url": url_for("receipts.ask_match", receipt_id=receipt.receipt_id, case_id=case.case_id),
                "customer": words.customer(case.customer), "summary": case.summary, "opened_at": case.opened_at,
                "badge": words.case_badge(case.stage), "received_text": f"{case.received} of {case.announced}",
            }
            for case in found
        ],
        "orders": [
            {
                "reference": order.external_ref, "customer": words.customer(order.customer), "placed_at": order.placed_at,
                "url": url_for("counter.order", order_id=order.order_id, receipt=receipt.receipt_id),
                "lines_text": words.counted(order.lines, "line", "lines"),
            }
            for order in orders if may_open
        ],
        "close_url": url_for("receipts.close", receipt_id=receipt.receipt_id),
    }  # fmt: skip


def counts_offered(receipt: Receipt, lines: list[LineAtBench]) -> dict[int, int]:
    """By the line's position, what was reported of it: under its own reference, or under its stock code where one line has it."""
    reported = {line["line"]: line["count"] for line in receipt.lines}
    by_sku = [line.sku for line in lines]
    return {
        line.position: reported.get(line.line_ref, reported.get(line.sku, 0) if by_sku.count(line.sku) == 1 else 0)
        for line in lines
    }


def does_not_fit(receipt: Receipt, order_ref: str, lines: list[LineAtBench], closed: bool) -> list[str]:
    """What a person has to know before they put the goods on this case, in sentences."""
    found = []
    if receipt.order_ref and receipt.order_ref != order_ref:
        found.append(f"The parcel names order {receipt.order_ref}; this case is of order {order_ref}.")
    known = {line.line_ref for line in lines} | {line.sku for line in lines}
    found += [
        f"{line['count']} of {line['line']} were reported, and this case holds no units of that. They stay off it."
        for line in receipt.lines if line["count"] and line["line"] not in known
    ]  # fmt: skip
    offered = counts_offered(receipt, lines)
    for line in lines:
        title, more = line.title or line.sku or line.line_ref, offered[line.position]
        if line.received:
            found.append(
                f"{line.received} of {line.announced} of {title} are booked in already. Is this another parcel?"
            )
        if more and line.received + more > line.announced:
            found.append(
                f"{line.received + more} of {title} would be here, and {line.announced} were announced: no more is paid."
            )
    if closed:
        found.append("The case is closed. What is booked in now may open it again for a person.")
    return found


def case_page(
    receipt: Receipt, head: CaseHead, lines: list[LineAtBench], form: Form, wrong: dict[str, str], whole: list[str]
) -> dict[str, Any]:
    """templates/receipt_case.html."""
    return {
        "receipt": _row(receipt), **case_named(head),
        "conflicts": does_not_fit(receipt, head.order_ref, lines, head.closed_at is not None),
        "lines": [
            {
                "number": line.position, "title": line.title or line.sku or line.line_ref, "sku": line.sku,
                "announced": line.announced, "received": line.received,
                "count": {
                    "name": f"count_{line.position}", "label": f"Units of {line.title or line.sku or line.line_ref} in this parcel",
                    "value": form[f"count_{line.position}"].data or "", "error": wrong.get(f"count_{line.position}", ""),
                },
            }
            for line in lines if f"count_{line.position}" in form
        ],
        "errors": whole, "wrong": bool(wrong or whole or form.errors), "operation": str(form["operation"].data),
        "action_url": url_for("receipts.match", receipt_id=receipt.receipt_id, case_id=head.case_id),
    }  # fmt: skip
