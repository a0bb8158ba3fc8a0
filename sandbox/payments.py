"""Payment intents: create (paid at once when confirmed), confirm, capture, cancel, retrieve, list; and many at once."""

import json
import re
import sqlite3
from typing import Any

from sandbox import balance, disputes, refunds, render
from sandbox.calls import Actor, Call, find
from sandbox.errors import ProviderError, not_valid
from sandbox.events import emit
from sandbox.forms import (
    EXPAND,
    PAGE,
    Check,
    flag,
    free_text,
    items,
    merge,
    metadata,
    nested,
    one_of,
    period,
    text,
    whole,
)
from sandbox.ids import new_id
from sandbox.listing import Filter, listed
from sandbox.render import Body

_CONFIRM: dict[str, Check] = EXPAND | {
    "payment_method": text,
    "payment_method_types": items,
    "payment_method_options": nested,
    "capture_method": one_of("automatic", "automatic_async", "manual"),
    "off_session": free_text,
    "receipt_email": free_text,
    "return_url": text,
    "shipping": nested,
    "setup_future_usage": one_of("off_session", "on_session"),
}
UPDATE: dict[str, Check] = EXPAND | {"metadata": metadata, "description": free_text, "receipt_email": free_text}
CREATE: dict[str, Check] = (
    _CONFIRM
    | UPDATE
    | {
        "amount": whole,
        "currency": text,
        "confirm": flag,
        "customer": text,
        "automatic_payment_methods": nested,
        "confirmation_method": one_of("automatic", "manual"),
        "statement_descriptor": text,
        "statement_descriptor_suffix": text,
        "application_fee_amount": whole,
        "on_behalf_of": text,
        "transfer_data": nested,
    }
)
CONFIRM = _CONFIRM
CAPTURE: dict[str, Check] = EXPAND | {"amount_to_capture": whole, "final_capture": flag, "metadata": metadata}
CANCEL: dict[str, Check] = EXPAND | {
    "cancellation_reason": one_of("duplicate", "fraudulent", "requested_by_customer", "abandoned")
}
LIST = PAGE | {"customer": text, "created": period}

# Stripe's test payment methods: brand, last four digits, what happens.
_CARDS: dict[str, tuple[str, str, str]] = {
    "pm_card_visa": ("visa", "4242", ""),
    "pm_card_mastercard": ("mastercard", "4444", ""),
    "pm_card_amex": ("amex", "8431", ""),
    "pm_card_refundFail": ("visa", "5126", "fails_late"),
    "pm_card_pendingRefund": ("visa", "7726", "pending"),
    "pm_card_chargeDeclined": ("visa", "0002", "declined"),
    "pm_card_visa_chargeDeclined": ("visa", "0002", "declined"),
    "pm_card_createDispute": ("visa", "0259", "dispute"),
    "pm_card_createDisputeInquiry": ("visa", "1976", "inquiry"),
}
AUTHORISATION_SECONDS = 7 * 24 * 3600
MOST_MINOR = 99_999_999  # §6: eight digits
_CURRENCY = re.compile(r"[a-z]{3}\Z")
_FEE_FIXED_MINOR, _FEE_PER_MILLE = 30, 29
_PARAMS_KEPT = ("customer", "description", "receipt_email")


def _insert(db: sqlite3.Connection, row: dict[str, Any]) -> sqlite3.Row:
    statement = f"insert into payments ({', '.join(row)}) values ({', '.join('?' * len(row))}) returning *"  # noqa: S608
    made: sqlite3.Row = db.execute(statement, tuple(row.values())).fetchone()
    return made


def _set(db: sqlite3.Connection, payment: sqlite3.Row, **changes: Any) -> sqlite3.Row:
    names = ", ".join(f"{name} = ?" for name in changes)
    statement = f"update payments set {names} where seq = ? returning *"  # noqa: S608 - names are this module's
    row: sqlite3.Row = db.execute(statement, (*changes.values(), payment["seq"])).fetchone()
    return row


def _card(method: str) -> tuple[str, str, str]:
    if method in _CARDS:
        return _CARDS[method]
    raise ProviderError(
        f"No such PaymentMethod: '{method}'; the sandbox knows {', '.join(sorted(_CARDS))}.",
        status=400,
        code="resource_missing",
        param="payment_method",
    )


def create(db: sqlite3.Connection, call: Call) -> Body:
    """Make a payment intent; with ``confirm=true`` it is paid (or authorised, or declined) at once."""
    params = call.params
    for name in ("amount", "currency"):
        if name not in params:
            raise not_valid(f"Missing required param: {name}.", name, "parameter_missing")
    currency = params["currency"].lower()
    if not _CURRENCY.match(currency):
        raise not_valid(f"Invalid currency: {currency}.", "currency")
    if not 1 <= params["amount"] <= MOST_MINOR:
        raise ProviderError(
            "This value must be greater than or equal to 1." if params["amount"] < 1 else "Amount is too large.",
            code="parameter_invalid_integer" if params["amount"] < 1 else "amount_too_large",
            param="amount",
        )
    method = params.get("payment_method")
    brand, last4, _ = _card(method) if method else ("visa", "4242", "")
    payment = _insert(
        db,
        {
            "account": call.account,
            "id": new_id("pi_3"),
            "created": call.now,
            "amount": params["amount"],
            "currency": currency,
            "capture_method": params.get("capture_method", "automatic"),
            "status": "requires_confirmation" if method else "requires_payment_method",
            "payment_method": method,
            "brand": brand,
            "last4": last4,
            "exp_month": 12,
            "exp_year": 2034,
            "metadata": json.dumps(merge({}, params.get("metadata", {}))),
            "transfer_destination": (params.get("transfer_data") or {}).get("destination"),
            "application_fee": params.get("application_fee_amount"),
            **{name: params.get(name) or None for name in _PARAMS_KEPT},
        },
    )
    emit(db, call.actor, "payment_intent.created", render.payment_intent(payment))
    return _pay(db, call.actor, payment) if params.get("confirm") else render.payment_intent(payment)


def confirm(db: sqlite3.Connection, call: Call) -> Body:
    payment = _in_state(db, call, "confirm", ("requires_confirmation", "requires_payment_method"))
    method = call.params.get("payment_method", payment["payment_method"])
    if method:
        brand, last4, _ = _card(method)
        asked = call.params.get("capture_method", payment["capture_method"])
        card = {"payment_method": method, "brand": brand, "last4": last4, "charge_failure": None}
        payment = _set(db, payment, capture_method=asked, **card)
    return _pay(db, call.actor, payment)


def _in_state(db: sqlite3.Connection, call: Call, verb: str, states: tuple[str, ...]) -> sqlite3.Row:
    payment = find(db, call.account, "payment_intent", call.ids[0], "intent")
    if payment["status"] not in states:
        raise ProviderError(
            f"You cannot {verb} this PaymentIntent because it has a status of {payment['status']}. Only a "
            f"PaymentIntent with one of the following statuses may be used here: {', '.join(states)}.",
            code="payment_intent_unexpected_state",
            payment_intent=render.payment_intent(payment),
        )
    return payment


def _pay(db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row) -> Body:
    if not payment["payment_method"]:
        raise ProviderError(
            "You cannot confirm this PaymentIntent because it's missing a payment method.",
            code="payment_intent_unexpected_state",
            payment_intent=render.payment_intent(payment),
        )
    behaviour = _card(payment["payment_method"])[2]
    charged: dict[str, Any] = {"charge": new_id("ch_3"), "charge_created": actor.now}
    if behaviour == "declined":
        failure = {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}
        failure["decline_code"] = "generic_decline"
        payment = _set(db, payment, status="requires_payment_method", charge_failure=json.dumps(failure), **charged)
        body = render.payment_intent(payment)
        emit(db, actor, "charge.failed", render.charge(payment))
        emit(db, actor, "payment_intent.payment_failed", body)
        more = {"decline_code": "generic_decline", "charge": payment["charge"], "payment_intent": body}
        raise ProviderError(failure["message"], status=402, kind="card_error", code="card_declined", **more)
    charged |= {"refund_behaviour": behaviour or None, "charge_metadata": payment["metadata"]}
    payment = _set(db, payment, **charged)
    if payment["capture_method"] == "manual":
        payment = _set(db, payment, status="requires_capture")
        body = render.payment_intent(payment)
        emit(db, actor, "charge.succeeded", render.charge(payment))
        emit(db, actor, "payment_intent.amount_capturable_updated", body)
        return body
    payment = _take(db, actor, payment, payment["amount"])
    emit(db, actor, "charge.succeeded", render.charge(payment))
    body = render.payment_intent(payment)
    emit(db, actor, "payment_intent.succeeded", body)
    if behaviour in ("dispute", "inquiry"):
        disputes.open_one(db, actor, payment, payment["amount"], inquiry=behaviour == "inquiry", reason="fraudulent")
    return body


def _take(
    db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row, amount: int, status: str = "succeeded"
) -> sqlite3.Row:
    """Money comes in; of a destination charge all but the platform's fee goes on to the seller."""
    fee = _FEE_FIXED_MINOR + amount * _FEE_PER_MILLE // 1000
    moved = balance.move(db, actor, "charge", amount, payment["currency"], payment["charge"], fee)
    if payment["transfer_destination"]:
        to_seller, seller = (
            amount - (payment["application_fee"] or 0),
            Actor(payment["transfer_destination"], actor.now),
        )
        balance.move(db, actor, "transfer", -to_seller, payment["currency"], payment["charge"])
        balance.move(db, seller, "payment", to_seller, payment["currency"], payment["charge"])
    so_far = payment["amount_captured"] + amount
    return _set(db, payment, status=status, amount_captured=so_far, balance_transaction=moved)


def capture(db: sqlite3.Connection, call: Call) -> Body:
    """Take what was authorised, or part of it; the rest is let go (§2: the base of refunds is what was captured).

    With ``final_capture=false`` the rest stays held, and more may be captured.
    """
    payment = _in_state(db, call, "capture", ("requires_capture",))
    left = payment["amount"] - payment["amount_captured"]
    amount = call.params.get("amount_to_capture", left)
    if not 1 <= amount <= left:
        raise ProviderError(
            f"The requested capture amount must be between 1 and the authorized amount {left}.",
            code="amount_too_large" if amount > left else "parameter_invalid_integer",
            param="amount_to_capture",
        )
    changed = merge(json.loads(payment["metadata"]), call.params.get("metadata", {}))
    status = "requires_capture" if call.params.get("final_capture") is False and amount < left else "succeeded"
    payment = _take(db, call.actor, _set(db, payment, metadata=json.dumps(changed)), amount, status)
    body = render.payment_intent(payment)
    emit(db, call.actor, "charge.captured", render.charge(payment))
    emit(
        db,
        call.actor,
        "payment_intent.succeeded" if status == "succeeded" else "payment_intent.amount_capturable_updated",
        body,
    )
    return body


def expire(db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row) -> Body:
    """The authorisation lapses by itself, seven days by default; Stripe then writes a refund that says so (§2)."""
    payment = _set(db, payment, status="canceled", canceled_at=actor.now, cancellation_reason="automatic")
    refunds.write_expired(db, actor, payment)
    body = render.payment_intent(payment)
    emit(db, actor, "charge.expired", render.charge(payment))
    emit(db, actor, "payment_intent.canceled", body)
    return body


def expire_due(db: sqlite3.Connection, now: int) -> int:
    """Let every authorisation lapse whose time has come; returns how many."""
    held = "select * from payments where status = 'requires_capture' and charge_created <= ? limit 100"
    due = db.execute(held, (now - AUTHORISATION_SECONDS,)).fetchall()
    for row in due:
        expire(db, Actor(row["account"], now, origin="stripe"), row)
    return len(due)


def cancel(db: sqlite3.Connection, call: Call) -> Body:
    """Void: nothing was captured, nothing is refunded. A paid one is refused with itself in the error (§2)."""
    states = ("requires_payment_method", "requires_capture", "requires_confirmation", "requires_action", "processing")
    payment = _in_state(db, call, "cancel", states)
    reason = call.params.get("cancellation_reason")
    payment = _set(db, payment, status="canceled", canceled_at=call.now, cancellation_reason=reason)
    body = render.payment_intent(payment)
    emit(db, call.actor, "payment_intent.canceled", body)
    return body


def update(db: sqlite3.Connection, call: Call) -> Body:
    payment = find(db, call.account, "payment_intent", call.ids[0], "intent")
    after = merge(json.loads(payment["metadata"]), call.params.get("metadata", {}))
    texts = {name: call.params.get(name, payment[name]) or None for name in ("description", "receipt_email")}
    return render.payment_intent(_set(db, payment, metadata=json.dumps(after), **texts))


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return render.payment_intent(find(db, call.account, "payment_intent", call.ids[0], "intent"))


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    wanted = Filter(call.account)
    if "customer" in call.params:
        wanted.add("customer = ?", call.params["customer"])
    return listed(db, call, "payment_intent", wanted, render.payment_intent)
