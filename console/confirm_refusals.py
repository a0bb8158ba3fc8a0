"""Why a refund is not approved by this person now, in what confirm_refusal.html shows: whose it is, its state, what changed."""

from typing import Any, Final

from sqlalchemy import Connection

from console import proving, who_decides, words
from console.access import current
from console.filters import money
from console.reconciliation_parts import discrepancy_reference
from console.timeline import event_text
from ledger.approvals import reaches_sum, role_reaches
from ledger.errors import LedgerError, NotEnoughMoneyLeft, SumTakesTwo
from ledger.limits import Sum, read_sum, windows
from ledger.money import exponent
from ledger.queries.case import read_events
from ledger.queries.decision import Decision
from ledger.verification import differing_payment, waits_for_reading

_ASKED_TOO_MUCH: Final = (
    "Together with what the same person asked for in 24 hours this is above what you may approve. Hand it to a manager."
)


def refusal_of_person(db: Connection, decision: Decision) -> dict[str, Any] | None:
    """Why this person may not approve this refund: they asked for it (P7), or it is above their limit."""
    if current.actor in (decision.requester, decision.case_opener):
        return {"kind": "own"}
    together = read_sum(db, current.merchant_id, decision.intent_id) if decision.state == "proposed" else None
    if role_reaches(current.role, decision.route) and (together is None or reaches_sum(current.role, together)):
        if decision.state != "proposed" or together is None:
            return None
        return refusal_of_windows(db, [decision]) or proving.refusal_of_factors(
            db, decision.intent_id, together.strength
        )
    if together is not None and together.takes_one_more and current.role == "manager":
        return {"kind": "others", "text": SumTakesTwo().sentence}
    if together is not None and together.asked_minor and not together.others:
        return {"kind": "others", "text": _ASKED_TOO_MUCH}
    if together is not None and together.manager_from_minor is not None and together.others:
        alone = decision.amount_minor < together.manager_from_minor
        if alone and together.together_minor >= together.manager_from_minor:
            return {"kind": "sum", "together_minor": together.together_minor, "currency": together.currency,
                    "others_text": words.counted(together.others, "other refund", "other refunds"),
                    "limit_minor": together.manager_from_minor - 1}  # fmt: skip
    return _refusal_of_route(decision, together)


def _refusal_of_route(decision: Decision, together: Sum | None) -> dict[str, Any]:
    """Others decide: from an amount on, or for another reason."""
    limit = together.manager_from_minor if together is not None else None
    same = decision.currency == decision.order_currency
    only_amount = decision.route == "desk" or who_decides.first_limit(decision.decided_by) is not None
    if same and only_amount and limit is not None and decision.amount_minor >= limit:
        return {"kind": "limit", "amount_minor": decision.amount_minor, "limit_minor": limit - 1,
                "currency": decision.currency}  # fmt: skip
    if decision.route == "desk" and limit is None:
        text = f"The policy of today names no amount in {decision.order_currency} for the desk. Hand it to a manager."
        return {"kind": "others", "text": text}
    return {"kind": "others", "text": not_yours(decision)}


def not_yours(decision: Decision) -> str:
    """Why the refund is not this person's to approve, and what to do."""
    return who_decides.not_yours(
        decision.decided_by, decision.route, decision.order_currency, decision.amount_minor, decision.currency
    )


def refusal_of_windows(db: Connection, together: list[Decision]) -> dict[str, Any] | None:
    """Which of the person's hour and day does not take refunds of one currency, what is left of it and when it frees."""
    currency, amount_minor = together[0].currency, sum(one.amount_minor for one in together)
    for window in windows(db, current.merchant_id, current.staff_id, currency, exponent(currency)):
        if not window.takes(amount_minor, len(together)):
            return {"kind": "window", "span": window.span, "left": window.limit_count - window.used_count,
                    "most": window.limit_count, "left_minor": window.limit_minor - window.used_minor,
                    "limit_minor": window.limit_minor, "currency": window.currency, "ends_at": window.ends_at}  # fmt: skip
    return None


def refusal_of_state(decision: Decision) -> dict[str, Any] | None:
    """Why nobody may approve it as it stands."""
    if decision.state == "proposed":
        return {"kind": "blocked"} if decision.blocked else None
    return {"kind": "gone", "state": decision.state, "by": decision.withdrawn_by or "", "at": decision.state_at}


def refusal_of_reading(db: Connection, decision: Decision) -> dict[str, Any] | None:
    """After a backup was restored the payment is read at the provider before anything of it is approved (S87)."""
    if decision.state != "proposed" or not waits_for_reading(db, current.merchant_id, decision.intent_id):
        return None
    number = differing_payment(db, current.merchant_id, decision.intent_id)
    return {"kind": "unread", "discrepancy": discrepancy_reference(number) if number is not None else ""}


def refusal_of_change(db: Connection, refused: LedgerError, seen: Decision) -> dict[str, Any]:
    """Old and new values, who changed it and how."""
    if isinstance(refused, NotEnoughMoneyLeft):
        left = {
            "what": "money left on the payment",
            "was": _amount(seen.amount_minor, seen.currency),
            "now": "less than that",
        }
        return {"kind": "changed", "changes": [left], "reason": refused.sentence, "by": "", "at": None}
    facts = refused.facts
    if facts["new_minor"] is None and facts["state"] != "proposed":
        return {"kind": "gone", "state": facts["state"], "by": facts["changed_by"], "at": facts["changed_at"]}
    new_minor = facts["new_minor"] if facts["new_minor"] is not None else seen.amount_minor
    changes = [
        {
            "what": "amount",
            "was": _amount(facts["old_minor"], facts["currency"]),
            "now": _amount(new_minor, facts["currency"]),
        }
    ]
    if facts["old_minor"] == new_minor:
        changes = [{"what": "evidence", "was": "as the page showed it", "now": "as below"}]
    last = [
        event
        for event in read_events(db, current.merchant_id, seen.case_id, most=20)
        if event.kind == facts["changed_kind"]
    ]
    reason = f"{event_text(last[0])}." if last else ""
    return {
        "kind": "changed",
        "changes": changes,
        "reason": reason,
        "by": facts["changed_by"],
        "at": facts["changed_at"],
    }


def _amount(minor: int, currency: str) -> str:
    return f"{money(minor, currency)} {currency}"
