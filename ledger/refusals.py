"""What the provider can answer, in one table: what each answer does to a refund, and the sentences staff read about it.

`jobs.stripe_answers` turns an answer into one of these codes by status, type, code, param and message code, never by the
message: that is no contract. The code is kept with the attempt and as the reason of the state; a page may quote the
provider's words beside the sentence, and nothing is decided by them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ledger.automatic_rule import HELD, OBSTACLES

Becomes = Literal["refused", "stopped", "later", "unknown", "review", "pending", "came_back"]


@dataclass(frozen=True)
class Situation:
    """One answer. `sentence`: what it is, `then`: what to do next, both whole sentences for staff.

    `reread`: somebody acted elsewhere, so the payment is read again at once. `alarm`: the kind of alarm raised, or "".
    """

    becomes: Becomes
    sentence: str
    then: str
    reread: bool = False
    alarm: str = ""


_NEW: Final = "Another try is a new refund with a new approval."
_AGAIN: Final = "It goes again by itself, under the same key. Nothing is to be done."
_ASKED: Final = "The provider is asked for its list. Do not repeat it by hand."
_TWO: Final = "A manager and somebody of finance settle it with the provider's list, at the desk for unknown outcomes."
_TOP_UP: Final = "Finance puts money on the balance at the provider."
_OURS: Final = "This is a fault of Onceback or of its data: tell the engineers; the alarm names the refund."
_CREDENTIAL: Final = (
    "Nothing of this shop is sent until an engineer has put the credential right and two people, one of"
    " them finance, start it again on the page Brakes. Nothing is lost."
)

# STRIPE.md §2's table, and the codes of the same kind that the provider lists beside it.
# One row a code: the code, what it is, what to do next, whether the payment is read again at once, the kind of alarm.
_REFUSED_ROWS: Final = (
    ("charge_already_refunded",
     "Nothing is left on this payment: it was refunded already.",
     "The payment is read again now. See the external refunds before anything new is asked for.", True, ""),
    ("amount_not_accepted",
     "The provider does not take this amount: less may be left on the payment than we thought.",
     "The payment is read again now. See the external refunds, then work the case out again.", True, ""),
    ("charge_disputed",
     "The customer's bank has disputed this payment, so the provider refunds nothing of it.",
     "The payment is read again now. Finance answers the dispute. Pay no other way while it is open.", True, ""),
    ("refund_disputed_payment",
     "This payment is disputed, so the provider refunds nothing of it.",
     "The payment is read again now. Finance answers the dispute. Pay no other way while it is open.", True, ""),
    ("charge_not_refundable",
     "The payment is too old, or otherwise closed for refunds.",
     "It cannot go back to where it came from. Arrange another way with the customer and record it by hand.", False, ""),
    ("not_refundable_as_it_stands",
     "The provider refunds nothing of this payment as it stands: it may not be captured, or never was paid.",
     "The payment is read again now. One that was only authorised is cancelled instead.", True, ""),
    ("payment_intent_unexpected_state",
     "The payment is not in a state that allows this: somebody changed it at the provider.",
     f"The payment is read again now. {_NEW}", True, ""),
    ("captured_elsewhere",
     "Somebody captured this payment at the provider meanwhile, so it is not canceled.",
     "The payment is read again now, and a refund of what was taken is proposed in its place.", True, ""),
    ("seller_underfunded",
     "The seller's balance at the provider is too low to take the transfer back.",
     f"The seller tops up the balance there, then it is approved anew. {_NEW}", False, ""),
    ("resource_missing",
     "The provider has no such payment in this shop's account.",
     f"The account or the payment's reference is wrong. {_OURS}", False, "no_such_payment"),
    ("insufficient_balance_for_refund",
     "The shop's balance at the provider is too low for this refund.",
     f"{_TOP_UP} {_NEW}", False, ""),
    ("balance_insufficient",
     "The balance at the provider that pays this refund is too low.",
     f"{_TOP_UP} {_NEW}", False, ""),
    ("insufficient_funds",
     "The balance at the provider that pays this refund was too low for too long.",
     f"{_TOP_UP} {_NEW}", False, ""),
    ("amount_too_large",
     "The amount is more than the provider takes.",
     _OURS, False, "request_not_valid"),
    ("amount_too_small",
     "The amount is below what the provider takes.",
     _OURS, False, "request_not_valid"),
    ("parameter_not_accepted",
     "The provider finds our request not valid.",
     _OURS, False, "request_not_valid"),
    ("not_at_provider",
     "Two people settled it: the provider has no such refund.",
     _NEW, False, ""),
    ("card_error",
     "The card's bank does not take it.",
     _NEW, False, ""),
)  # fmt: skip
_REFUSED: Final = {
    code: Situation("refused", sentence, then, reread, alarm) for code, sentence, then, reread, alarm in _REFUSED_ROWS
}

_STOPPED: Final = {
    code: Situation("stopped", sentence, _CREDENTIAL, alarm="submitter_stopped")
    for code, sentence in {
        "unauthorized": "The provider does not accept the shop's credential.",
        "forbidden": "The shop's credential may not make refunds, or not in this account.",
        "account_invalid": "The shop's credential does not reach this account at the provider.",
        "api_key_expired": "The shop's credential at the provider has ended.",
        "platform_api_key_expired": "The platform's credential at the provider has ended.",
        "livemode_mismatch": "The shop's credential is of the other mode: test and live do not mix.",
        "wrong_account": "The shop's credential opens another account than the one it was set up for.",
        "no_credential": "The worker holds no credential of this shop.",
        "credential_of_other_mode": "The worker's credential of this shop is of the other mode.",
    }.items()
}

_LATER: Final = {
    code: Situation("later", sentence, _AGAIN)
    for code, sentence in {
        "idempotency_key_in_use": "The provider is still at work on this very request.",
        "lock_timeout": "The provider is at work on another request about this payment.",
        "rate_limit": "The provider takes no more calls of this shop for a moment.",
        "connection_refused": "The provider could not be reached; nothing has left.",
        "not_sent": "The worker gave it back before it was sent.",
        "paused": "A brake was put on before it was sent; nothing has left.",
    }.items()
}

_UNKNOWN: Final = {
    code: Situation("unknown", sentence, _ASKED)
    for code, sentence in {
        "no_answer": "It was sent and no answer came.",
        "timeout": "It was sent and no answer came in time.",
        "connection": "The connection ended before an answer came.",
        "worker_gone": "The worker stopped while it was being sent.",
        "unreadable_answer": "The provider said yes, with an answer that cannot be read.",
        "unreadable_error": "The provider's answer names neither a refund nor a reason.",
        "api_error": "The provider had a fault of its own, and cannot say what became of it.",
    }.items()
}

_REVIEW: Final = {
    code: Situation("review", sentence, _TWO, alarm=alarm)
    for code, sentence, alarm in (
        ("idempotency_error",
         "The provider knows this key from another request.", "idempotency_error"),
        ("not_sendable",
         "The payment's reference, or the amount, is none that the provider takes.", "not_sendable"),
        ("answer_differs", "The provider's refund is not what was asked for.", "answer_differs"),
        ("differs:amount", "The provider's refund has another amount than was approved.", "answer_differs"),
        ("differs:currency", "The provider's refund is in another currency than was approved.", "answer_differs"),
        ("differs:charge", "The provider's refund is of another payment than was approved.", "answer_differs"),
        ("differs:metadata", "The provider's refund does not carry our mark.", "answer_differs"),
        ("differs:refund", "The provider shows another refund than the one it had named.", "answer_differs"),
        ("two_refunds", "The provider shows two refunds of this one.", "two_refunds"),
        ("refund_vanished", "The provider no longer lists the refund it had named.", "refund_vanished"),
        ("unlisted_status", "The provider gives the refund a status that we do not know.", "unlisted_status"),
        ("key_too_old", "Its key has passed its safe age, and the provider does not list it.", ""),
        ("keeps_failing", "It was sent many times under its key, and the provider never gave a clear answer.", "keeps_failing"),
        ("expired", "Its approval ran out before it was known what became of it.", "not_sent_expired"),
        ("seal", "Its approval does not bear our seal.", "not_sent_seal"),
        ("fingerprint", "It no longer is what was approved.", "not_sent_fingerprint"),
        ("left", "Whoever approved it may no longer approve.", "not_sent_left"),
        ("strength", "Its approval is weaker than it has to be by now.", "not_sent_strength"),
        ("proof", "The code or passkey it was approved with does not hold any more.", "not_sent_proof"),
        ("blocked", "The figures of its order are in question.", "not_sent_blocked"),
        ("reservation", "What is set aside for it differs from it.", "not_sent_reservation"),
        ("generation", "Its approval is of before the books were restored from a backup.", "not_sent_generation"),
        ("disputed", "The customer's bank has disputed the payment, or asked about it, since it was sent.", ""),
        ("charges", "By the charges as they are read now, this payment was not made twice.", "not_sent_charges"),
        ("account", "Nobody named the account at the provider that the key of this shop opens.", "not_sent_account"),
        ("multicapture", "The provider refunds no part while the rest of the payment is on hold.", "not_sent_multicapture"),
    )
} | {
    f"{HELD}{code}": Situation("review", f"The policy that approved it may not approve it any more: {why}.", _TWO,
                               alarm=f"not_sent_{HELD}{code}")
    for code, why in OBSTACLES.items()
}  # fmt: skip

# A refund that the provider has and has not settled.
_PENDING: Final = {
    code: Situation("pending", sentence, then)
    for code, sentence, then in (
        ("pending", "The provider has it and has not settled it yet.", "It is asked about until it is settled."),
        ("pending:processing", "The provider is at work on it.", "It is asked about until it is settled."),
        ("pending:insufficient_funds", "The provider holds it until the shop's balance there suffices.",
         f"{_TOP_UP} It then goes by itself."),
        ("pending:charge_pending", "The provider holds it until the customer's own payment is settled.",
         "It is asked about until it is settled."),
        ("pending:requires_action", "The customer has to tell the provider where the money shall go.",
         "The provider has written to the customer. Ask the customer to look for that message."),
    )
}  # fmt: skip

# Why a refund that was on its way, or paid, came to nothing (STRIPE.md §1, failure_reason).
_CAME_BACK: Final = {
    code: Situation("came_back", sentence, f"Arrange another way with the customer. {_NEW}")
    for code, sentence in {
        "lost_or_stolen_card": "The card is reported lost or stolen.",
        "expired_or_canceled_card": "The card has ended or was cancelled.",
        "declined": "The customer's bank did not take it.",
        "failed": "The provider says that it failed, and not why.",
        "canceled": "It was cancelled at the provider.",
        "merchant_request": "Somebody of the shop cancelled it at the provider.",
        "unknown": "The provider says that it failed, and not why.",
    }.items()
} | {
    "charge_for_pending_refund_disputed": Situation(
        "came_back", "The customer's bank disputed the payment while the refund was waiting.",
        "Finance answers the dispute. Pay no other way while it is open.", reread=True,
    ),
}  # fmt: skip

SITUATIONS: Final[dict[str, Situation]] = _REFUSED | _STOPPED | _LATER | _UNKNOWN | _REVIEW | _PENDING | _CAME_BACK
_ELSE: Final[dict[Becomes, Situation]] = {
    "refused": Situation("refused", "The provider refused it, for a reason this version has no words for.", _NEW),
    "stopped": _STOPPED["unauthorized"],
    "later": Situation("later", "The provider turned it away before looking at it.", _AGAIN),
    "unknown": Situation("unknown", "It was sent and there is no clear answer.", _ASKED),
    "review": Situation("review", "What the provider shows and what we have do not agree.", _TWO),
    "pending": _PENDING["pending"],
    "came_back": Situation("came_back", "It came to nothing at the provider.", f"Arrange another way with the customer. {_NEW}"),
}  # fmt: skip


def situation(becomes: Becomes, code: str) -> Situation:
    """The row of a code. One that the table does not have has the sentence of what it became: the set is open."""
    found = SITUATIONS.get(code)
    return found if found is not None and found.becomes == becomes else _ELSE[becomes]


def after_nothing(code: str, *, paid: bool) -> Situation:
    """The row of a refund that came to nothing: refused at once, or failed or cancelled later (`paid`: it was settled)."""
    found = SITUATIONS.get(code)
    if found is not None and found.becomes in ("refused", "came_back"):
        return found
    return _ELSE["came_back" if paid else "refused"]


# In review although the provider did answer: what it shows is known, and is not what was asked for.
ANSWERED: Final = frozenset((
    "answer_differs", "differs:amount", "differs:currency", "differs:charge", "differs:metadata", "differs:refund",
    "two_refunds", "unlisted_status",
))  # fmt: skip


# Alarms about an answer that is missing or contradicts: over once two people have settled the refund. Those about a fault of
# ours, or about an approval that does not hold, still ask for somebody who finds out why.
OVER_WHEN_SETTLED: Final = frozenset((
    "answer_differs", "two_refunds", "refund_vanished", "unlisted_status", "keeps_failing", "unknown_too_long",
    "settlement_void",
))  # fmt: skip


def said_otherwise(state: str, reason: str) -> str:
    """What the provider's answer says, as a sentence, for a refund whose answer is known and differs; else ""."""
    return SITUATIONS[reason].sentence if state == "needs_review" and reason in ANSWERED else ""


def of_kind(becomes: Becomes) -> Iterable[str]:
    """The codes of one kind."""
    return (code for code, row in SITUATIONS.items() if row.becomes == becomes)


def refusal_code(code: str, param: str, message_code: str, kind: str) -> str:
    """Our code for a refusal. Several refusals of refunds have no code: `param` and `message_code` tell them apart (§2).

    Without either it is about the payment as a whole, which then is read again.
    """
    if code == "parameter_invalid_integer" or code.startswith("parameter_"):
        return "parameter_not_accepted"
    if code or message_code:
        return code or message_code
    if kind == "card_error":
        return kind
    if param == "amount":
        return "amount_not_accepted"
    return "parameter_not_accepted" if param else "not_refundable_as_it_stands"
