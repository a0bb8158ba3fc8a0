"""The history of a case in words: one sentence for each event of its chain."""

from datetime import datetime
from typing import Any, Final

from console import words
from console.fact_words import said
from console.filters import instant, money
from console.kind_words import OVERRIDE_REASONS
from ledger.automatic import LEFT
from ledger.automatic_rule import HELD, OBSTACLES
from ledger.queries.case import Event

_KINDS: Final[dict[str, tuple[str, str]]] = {
    "case.opened": ("open", "Opened through {channel}"),
    "conversation.joined": ("chat", "A conversation joined, through {channel}"),
    "goods.reported": ("box", "Goods reported, {channel}"),
    "parcel.reported": ("box", "A parcel is on its way, {channel}"),
    "fact.stated": ("person", "Stated: {fact}"),
    "photo.added": ("camera", "A photo was added"),
    "texts.erased": ("cross", "What was said and noted was erased: {erased}"),
    "photos.erased": ("cross", "The photos were erased: {erased}"),
    "entitlement.derived": ("bars", "Worked out: {amount}"),
    "charges.asked": ("glass", "The charges are read at the provider"),
    "charges.found": ("search", "The charges were read: {found}"),
    "case.no_policy": ("person", "No policy decides it: a person has to look"),
    "case.blocked": ("lock", "No refund is proposed: the figures of the order are in question"),
    "case.recovered": ("paid", "Paid before the books were restored from a backup"),
    "case.rejected": ("cross", "Rejected: {why}"),
    "case.exchanged": ("check", "Exchanged, no money moves"),
    "override.asked": ("person", "Another amount is asked for: {amount}, {why}"),
    "override.taken_back": ("uturn", "The computed amount counts again"),
    "case.assigned": ("person", "Assigned to {to}"),
    "case.snoozed": ("moon", "Rests until {until}: {waits}"),
    "case.woken": ("clock", "Rests no more"),
    "case.due_set": ("clock", "Due on {due}, before on {was}"),
    "case.tagged": ("flag", "Tagged {tag}"),
    "case.untagged": ("minus", "Tag {tag} taken off"),
    "case.rest_closed": ("minus", "The rest is not coming; closed with what was paid"),
    "intent.proposed": ("ring", "{refund} proposed: {amount}"),
    "intent.approved": ("check", "{refund} approved: {amount}"),
    "intent.first_approved": ("check", "{refund} approved by the first of two managers"),
    "automatic.left": ("person", "{refund} is left to a person: {why}"),
    "intent.held": ("pause", "{refund} held: {why}"),
    "intent.released": ("check", "{refund} released, goes now"),
    "intent.submitting": ("send", "{refund} is being sent"),
    "intent.turned_away": ("clock", "{refund} was turned away by the provider, is sent again"),
    "intent.unknown": ("question", "{refund} sent, answer not known"),
    "intent.pending": ("glass", "{refund} accepted, not settled"),
    "intent.succeeded": ("paid", "{refund} paid"),
    "intent.failed": ("cross", "{refund} refused by the provider: {why}"),
    "intent.reversed": ("uturn", "{refund} came back: {why}"),
    "intent.needs_review": ("person", "{refund} needs a person: {why}"),
    "capture.taken": ("paid", "The payment was captured at the provider: {taken} taken"),
    "capture.not_taken": ("minus", "The payment was let go at the provider: {taken} taken"),
    "settlement.recorded": ("gift", "{refund} recorded as paid back by hand"),
    "settlement.not_done": ("gift", "{refund} could not be paid back by hand"),
    "settlement.proposed": ("person", "How {refund} ended was proposed"),
    "settlement.confirmed": ("person", "How {refund} ended was confirmed by a second person"),
    "settlement.turned_down": ("cross", "The proposal how {refund} ended was turned down"),
    "settlement.void": ("uturn", "What two people said of {refund} no longer holds: {why}"),
    "order.settlement_proposed": ("person", "What stands of the order was proposed"),
    "order.settled": ("check", "What stands of the order was confirmed by a second person"),
    "order.settlement_turned_down": ("cross", "The proposal what stands of the order was turned down"),
    "intent.withdrawn": ("minus", "{refund} withdrawn: {why}"),
    "outside.matched": ("check", "A refund made outside was matched to this case: {amount}"),
    "outside.settled": ("paid", "Paid by the refund made outside"),
    "outside.unrelated": ("minus", "A refund made outside was for none of the goods: {amount}"),
    "outside.came_back": ("uturn", "A refund made outside came to nothing: this case is owed again"),
}
WHY: Final = {
    "disputed": "the customer's bank disputes the payment, or asks about it",
    "refunded_outside": "money of the order was refunded outside", "dispute_over": "its approval ran out while the bank decided",
    "recovery": "the books were restored from a backup", "generation": "it was approved before a backup was restored",
    "cap": "daily cap", "seal": "its seal is not ours", "fingerprint": "it no longer matches its approval",
    "expired": "its approval ran out", "left": "its approver may no longer approve",
    "shadow": "shadow mode, it was not sent", "strength": "it takes a manager, or a stronger approval than it has",
    "proof": "the code or passkey it was approved with does not hold any more",
    "blocked": "the order is in question",
    "reservation": "its reservation differs", "no_policy": "no policy decides it any more",
    "evidence_changed": "the evidence changed", "rejected": "the case was rejected",
    "captured_elsewhere": "its payment was captured at the provider", "payment_released": "its payment was let go at the provider",
    "not_done_by_hand": "it could not be paid back by hand",
    "not_paid_by_hand": "it was not paid by hand, or taken back, say two people",
    "charges": "the charges of the order changed since they were read",
    "exchanged": "its units were exchanged", "override": "another amount was asked for",
    "account": "the account that the shop's key opens is not named", "multicapture": "more of its payment may still be captured",
    "not_supported": "the provider's list no longer supports it",
    "not_at_provider": "the provider has no such refund", "keeps_failing": "never clearly answered",
    "key_too_old": "its key passed its safe age", "refund_vanished": "the provider no longer lists it",
    "unlisted_status": "the provider gave a status we do not know", **{k: v.lower() for k, v in words.REJECT_REASONS.items()},
    **{k: v.lower() for k, v in words.WITHDRAW_REASONS.items()},
    **{k: v.lower() for k, v in OVERRIDE_REASONS.items() if k != "other"},
}  # fmt: skip


_FINDINGS: Final = {"verified": "charged twice", "none": "not charged twice", "investigate": "a person has to look"}
_ERASED: Final = {"retention": "the time for it was over", "request": "the customer asked for it"}
_OUTCOMES: Final = {
    "wait": "waits for the goods", "nothing_due": "nothing is due", "refused": "nothing can be paid",
    "needs_review": "a person has to look",
}  # fmt: skip


def why(reason: str) -> str:
    """A reason code in words."""
    if reason.startswith(HELD):
        return f"the policy does not approve it by itself any more: {OBSTACLES.get(reason.removeprefix(HELD), 'not known')}"
    return WHY.get(reason, reason.replace("_", " ").replace(":", ": ") or "no reason was given")


def event_text(event: Event) -> str:
    """One sentence about an event, without who and when."""
    _, text = _KINDS.get(event.kind, ("info", event.kind.replace(".", " ").replace("_", " ")))
    if event.kind == "intent.succeeded" and str(event.body.get("refund", "")).startswith("pi_"):
        text = "{refund}: the payment was let go, nothing was taken"
    return text.format(
        channel=words.channel(str(event.body.get("channel", ""))),
        amount=_amount(event.body),
        refund=words.refund_reference(event.intent_number) if event.intent_number else "A refund",
        why=OBSTACLES.get(event.reason, event.reason) if event.kind == LEFT else why(event.reason),
        taken=_taken(event.body),
        found=_FINDINGS.get(str(event.body.get("finding", "")), ""),
        to=event.about or "nobody",
        until=_day(event.body.get("until")),
        due=_day(event.body.get("to")) if event.kind == "case.due_set" else "",
        was=_day(event.body.get("from")) if event.kind == "case.due_set" else "",
        waits=words.SNOOZE_REASONS.get(event.reason, "").lower(),
        tag=event.body.get("tag", ""),
        fact=_stated(event.body),
        erased=_ERASED.get(str(event.body.get("why", "")), ""),
    )


def _stated(body: dict[str, Any]) -> str:
    text = said(str(body.get("fact", "")), str(body.get("said", "")))
    return f"{text}, line {body['line']}" if body.get("line") else text


def event_icon(event: Event) -> str:
    """The icon beside it."""
    return _KINDS.get(event.kind, ("info", ""))[0]


def timeline(events: list[Event]) -> list[dict[str, Any]]:
    """Rows of the timeline: {icon, what, by, at}."""
    return [{"icon": event_icon(event), "what": event_text(event), "by": event.by, "at": event.at} for event in events]


def _day(at: Any) -> str:
    return instant(datetime.fromisoformat(str(at)), "day") if at else ""


def _taken(body: dict[str, Any]) -> str:
    """What a read of the payment showed as taken."""
    if not body.get("currency") or body.get("amount_minor", "0") == "0":
        return "nothing was"
    return f"{_amount(body)} of it was"


def _amount(body: dict[str, Any]) -> str:
    if body.get("outcome", "payable") != "payable":
        return _OUTCOMES.get(str(body["outcome"]), str(body["outcome"]))
    minor = body.get("amount_minor", body.get("total_minor"))
    return f"{money(int(minor), str(body['currency']))} {body['currency']}" if minor is not None else ""
