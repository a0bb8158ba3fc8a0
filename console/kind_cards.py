"""What the case page shows otherwise for cases that are no return, for exchanges, and for amounts other than computed."""

from typing import Any

from console import words
from console.case_cards import CaseRows
from console.fact_words import said
from console.kind_words import ENTRIES, KEPT, KINDS, amount, reason
from ledger.queries.kinds import Asked, Exchanged
from ledger.states import MONEY_OUT


def four(rows: CaseRows, usual: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The four things of the case: with the goods kept nothing arrives, with an exchange nothing is paid."""
    if rows.head.kind == "cancellation":
        found = [one for one in rows.facts if one.kind == "not_delivered" and one.newest]
        text = said("not_delivered", found[-1].said) if found else "Not known where the goods are"
        at = found[-1].at if found else None
        return [usual[0], {"mark": "done" if found else "now", "text": text, "at": at}, *usual[2:]]
    if rows.head.kind == "warranty":
        return [usual[0], {"mark": "done", "text": "Warranty", "at": None}, *usual[2:]]
    if rows.head.kind in KEPT:
        return [usual[0], {"mark": "done", "text": "Goods stay", "at": None}, *usual[2:]]
    if rows.head.stage == "exchanged":
        at = next((event.at for event in rows.events if event.kind == "case.exchanged"), None)
        return [
            *usual[:2],
            {"mark": "done", "text": "Exchanged", "at": at},
            {"mark": "open", "text": "No money", "at": None},
        ]
    return usual


def asked(row: Asked | None, head_reason: str, currency: str) -> dict[str, str] | None:
    """What was asked for, in words: {what, line, units_text, amount_text, reason}."""
    if row is None:
        return None
    whole = row.a is None or row.b is None
    units = "the whole line" if whole else words.units([(row.a or 0, row.b or 0)])
    typed = f"{amount(row.minor, currency)} {ENTRIES[row.entry]}"
    if row.conform_minor is not None:
        typed = f"{amount(row.minor, currency)}, without it {amount(row.conform_minor, currency)}"
    return {
        "what": words.sentence(KINDS[row.kind]["name"]), "line": row.title or row.sku,
        "units_text": f"{words.sentence(units)} {'' if whole else f'of {row.quantity} '}of line {row.position}".replace("  ", " "),
        "amount_text": f"{KINDS[row.kind]['amount']}: {typed}",
        "reason": reason(head_reason),
    }  # fmt: skip


def exchanged(row: Exchanged | None) -> dict[str, Any] | None:
    """{wish, by, at}."""
    return {"wish": row.wish, "by": row.by, "at": row.at} if row else None


def evidence(rows: CaseRows, usual: dict[str, Any]) -> dict[str, Any]:
    """With the goods kept there is nothing to inspect."""
    if rows.head.kind == "cancellation" and not rows.head.received:
        return usual | {"empty_text": "These goods are not with the customer; somebody states where they are."}
    return (
        usual | {"empty_text": "The goods stay with the customer; nothing is to arrive."}
        if rows.head.kind in KEPT
        else usual
    )


def may_override(rows: CaseRows) -> bool:
    """Whether another amount can be asked for: of an open return that owes something, nothing of which has left."""
    head, owed = rows.head, rows.entitlement is not None and rows.entitlement.total_minor > 0
    left = any(one.state in MONEY_OUT and one.state != "succeeded" for one in rows.intents)
    return head.kind == "return" and head.closed_at is None and owed and not left


def may_exchange(rows: CaseRows) -> bool:
    """Whether an exchange can be recorded: of an open return of which no money left."""
    return rows.head.kind in ("return", "exchange") and rows.head.closed_at is None and not any(
        one.state in MONEY_OUT for one in rows.intents
    )  # fmt: skip
