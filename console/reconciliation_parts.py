"""What the reconciliation desk shows of a run and of a discrepancy, in words and in minor units."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import url_for

from console import words
from console.access import current
from ledger.queries.discrepancies import Act, Discrepancy, Progress, Total

KINDS: Final = {
    "missing_there": "Missing there", "missing_here": "Missing here", "amount": "Amount", "currency": "Currency",
    "state": "State", "late": "Late", "duplicate": "Duplicate", "unreadable": "Could not be read",
}  # fmt: skip
MEANINGS: Final = {
    "missing_there": "The books say it was paid back; the provider shows no such refund, or moved nothing for it.",
    "missing_here": "The provider shows a refund that the books did not have.",
    "amount": "Both sides have it, with different amounts.",
    "currency": "Both sides have it, in different currencies.",
    "state": "Both sides have it, and do not agree on what became of it.",
    "late": "The two sides moved it on days far apart, or in different periods.",
    "duplicate": "The provider shows a second refund in the name of one intent.",
    "unreadable": "The provider's answer about it could not be read. Nothing is concluded; the next run reads it again.",
}
_MEANINGS_OF: Final = {
    ("dispute", "missing_there"): "The books have this dispute; the provider does not show it.",
    ("dispute", "missing_here"): "The provider shows a dispute that the books did not have.",
    (
        "payment",
        "amount",
    ): "The provider took another amount than the books say: nothing of it is approved until they agree.",
    (
        "payment",
        "currency",
    ): "The provider took another currency than the books say: nothing of it is approved until they agree.",
    (
        "payment",
        "state",
    ): "The provider paid back more of it than the books know: nothing of it is approved until they agree.",
    ("payment", "missing_there"): "The provider does not show this payment: nothing of it is approved until it does.",
    (
        "payment",
        "unreadable",
    ): "The provider's answer about this payment cannot be read: nothing of it is approved until it can.",
}
_ABOUT: Final = {"refund": "Refund", "dispute": "Dispute", "payment": "Payment"}
CODES: Final = {
    "timing": "Timing: the other side follows", "adopted": "Adopted: it is in the books now",
    "external": "Made outside, and known", "provider_error": "An error of the provider", "our_error": "An error of ours",
    "written_off": "Written off", "duplicate_recovered": "Duplicate, recovered",
}  # fmt: skip
_SYSTEM_CODES: Final = {"healed": "Came to agree by itself", "gone": "No longer found"}
_PARTS: Final = {
    "refunds": "Refunds made there in the period",
    "movements": "Moved in the period, each side by its own date",
    "disputes": "Taken by disputes opened in the period",
}
_FIGURES: Final = (
    ("refund", "Provider's reference"), ("number", "Our refund"), ("state", "State here"), ("status", "Status there"),
    ("failure", "Failure"), ("movement", "Balance movement"), ("type", "Type of movement"), ("charge", "Charge"),
    ("reason", "Why it could not be read"), ("refunded_minor", "Paid back, in minor units"),
)  # fmt: skip
# Of these the value is a code of ours or of the provider's, shown as words; all others are references.
_CODES_SHOWN: Final = frozenset({"state", "status", "failure", "type"})


def run_view(run: Progress) -> dict[str, Any]:
    """A run: period, who asked, how far, both sides' sums, what it found."""
    over = run.finished_at is not None
    return {
        "url": url_for("reconciliation.show_run", run_id=run.run_id),
        "from_at": run.from_at, "to_at": run.to_at, "asked_at": run.asked_at, "finished_at": run.finished_at,
        "asked_by": run.asked_by_name or ("every night" if run.asked_by == "system" else "the command"),
        "percent": 100 if over else run.permille // 10, "permille": 1000 if over else run.permille,
        "state": "Finished" if over else "Waits for the provider" if run.waits_for else "Running" if run.started_at else "Queued",
        "waits_for": run.waits_for, "over": over, "pages": run.pages, "rows_read": run.rows_read,
        "found_text": ", ".join(f"{KINDS[kind].lower()} {number}" for kind, number in sorted(run.found.items())),
        "found": sum(run.found.values()), "totals": [_total(total) for total in run.totals],
        "unexplained": any(total.unexplained_minor for total in run.totals),
    }  # fmt: skip


def _total(total: Total) -> dict[str, Any]:
    return {
        "part": _PARTS[total.part], "currency": total.currency, "ours_minor": total.ours_minor,
        "theirs_minor": total.theirs_minor, "ours_count": total.ours_count, "theirs_count": total.theirs_count,
        "difference_minor": total.difference_minor, "explained_minor": total.explained_minor,
        "unexplained_minor": total.unexplained_minor,
    }  # fmt: skip


def discrepancy_reference(number: int) -> str:
    """How a discrepancy is called: "D-104"."""
    return f"D-{number}"


def discrepancy_row(one: Discrepancy) -> dict[str, Any]:
    """A line of the list, with each side's amount as it was found."""
    return {
        "reference": discrepancy_reference(one.number),
        "url": url_for("reconciliation.show", discrepancy_id=one.discrepancy_id),
        "kind": KINDS[one.kind], "about": _ABOUT[one.about],
        "refund_ref": one.refund_ref, "ours": _amount(one.ours), "theirs": _amount(one.theirs),
        "intent": words.refund_reference(one.intent_number) if one.intent_number else "",
        "intent_url": url_for("decision.show", intent_id=one.intent_id) if one.intent_id else "",
        "dated_at": one.dated_at, "found_at": one.found_at, "owner": one.taken_by or "finance, not taken",
        "resolved": code_text(one.code),
    }  # fmt: skip


def discrepancy_view(one: Discrepancy, acts: list[Act], followed_by: UUID | None) -> dict[str, Any]:
    """The page of one: both sides, its story, and where it goes on."""
    return discrepancy_row(one) | {
        "meaning": _MEANINGS_OF.get((one.about, one.kind)) or MEANINGS[one.kind],
        "sides": [{"label": label, "ours": _figure(one.ours, key), "theirs": _figure(one.theirs, key)}
                  for key, label in _FIGURES if _figure(one.ours, key) or _figure(one.theirs, key)],
        "ours_at": _moment(one.ours.get("moved_at")), "theirs_at": _moment(one.theirs.get("created")),
        "last_seen_at": one.last_seen_at, "occurrence": one.occurrence,
        "follows_url": url_for("reconciliation.show", discrepancy_id=one.follows) if one.follows else "",
        "followed_by_url": url_for("reconciliation.show", discrepancy_id=followed_by) if followed_by else "",
        "mine": one.taken_by_id == current.staff_id,
        "acts": [_act(act) for act in acts],
    }  # fmt: skip


def code_text(code: str) -> str:
    """What a resolution is called, "" for none."""
    return CODES.get(code) or _SYSTEM_CODES.get(code, "")


def _act(act: Act) -> dict[str, Any]:
    what = {"taken": "Taken", "noted": "Note", "resolved": f"Resolved: {code_text(act.code)}"}[act.kind]
    icon = {"taken": "person", "noted": "pencil", "resolved": "check"}[act.kind]
    return {
        "icon": icon,
        "what": f"{what}. {act.note}" if act.note else what,
        "by": act.by or "by itself",
        "at": act.at,
    }


def _amount(figures: Mapping[str, Any]) -> dict[str, Any] | None:
    """Minor units and currency of a side; None for one that has nothing."""
    if "amount_minor" not in figures:
        return None
    return {"minor": int(figures["amount_minor"]), "currency": str(figures["currency"])}


def _figure(figures: Mapping[str, Any], key: str) -> str:
    value = figures.get(key)
    if value in (None, ""):
        return ""
    if key == "state" and value == "needs_review":
        return "needs a person"
    if key == "number":
        return words.refund_reference(int(value))
    return str(value).replace("_", " ") if key in _CODES_SHOWN else str(value)


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None
