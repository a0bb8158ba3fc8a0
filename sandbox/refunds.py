"""Refunds: create, list, retrieve, change metadata, cancel (§1, §2)."""

import json
import sqlite3
from typing import Any

from sandbox import balance, render
from sandbox.calls import Actor, Call, find
from sandbox.errors import THREE_DECIMAL, ProviderError, amount_text, missing, not_valid
from sandbox.events import emit
from sandbox.forms import EXPAND, PAGE, Check, flag, merge, metadata, one_of, period, text, whole
from sandbox.ids import new_id
from sandbox.listing import Filter, listed
from sandbox.render import Body

CREATE: dict[str, Check] = EXPAND | {
    "amount": whole,
    "charge": text,
    "currency": text,
    "customer": text,
    "instructions_email": text,
    "metadata": metadata,
    "origin": one_of("customer_balance", "customer_balance"),
    "payment_intent": text,
    "reason": one_of("duplicate", "fraudulent", "requested_by_customer"),
    "refund_application_fee": flag,
    "reverse_transfer": flag,
}
UPDATE: dict[str, Check] = EXPAND | {"metadata": metadata}
LIST = PAGE | {"charge": text, "payment_intent": text, "created": period}

_PAID_BACK = ("pending", "requires_action", "succeeded")
_CHANGES = {"pending": ("succeeded", "failed", "canceled"), "succeeded": ("failed", "canceled")}
_CHANGES["requires_action"] = ("pending", *_CHANGES["pending"])


def _payment_of(db: sqlite3.Connection, call: Call) -> sqlite3.Row:
    charge, intent = call.params.get("charge"), call.params.get("payment_intent")
    if charge and intent:
        raise not_valid("You may only specify one of these parameters: charge, payment_intent.")
    if charge:
        return find(db, call.account, "charge", charge, "id")  # §2: the param is named id here
    if intent:
        row = find(db, call.account, "payment_intent", intent)
        if not row["charge"] or row["charge_failure"]:
            raise ProviderError(f"This PaymentIntent ({intent}) does not have a successful charge to refund.")
        return row
    raise not_valid("One of the following params should be provided for this request: payment_intent or charge.")


def refundable_amount(payment: sqlite3.Row, amount: int | None) -> int:
    """The minor units to send back, or the refusal of §2, in Stripe's order."""
    charge, currency = payment["charge"], payment["currency"]
    if amount is not None and amount < 1:
        message = "This value must be greater than or equal to 1."
        raise ProviderError(message, code="parameter_invalid_integer", param="amount")
    if payment["status"] != "succeeded" and not payment["amount_captured"]:
        raise ProviderError(
            f"This uncaptured Charge was created by a PaymentIntent ({payment['id']}). You must cancel the "
            "PaymentIntent instead of refunding the Charge directly."
        )
    if payment["disputed"]:
        message = f"Charge {charge} has been charged back; cannot issue a refund."
        raise ProviderError(message, code="charge_disputed", charge=charge)
    remainder = payment["amount_captured"] - payment["amount_refunded"]
    if remainder == 0:
        message = f"Charge {charge} has already been refunded."
        raise ProviderError(message, code="charge_already_refunded", charge=charge)
    amount = remainder if amount is None else amount
    if amount > remainder:
        raise ProviderError(
            f"Refund amount ({amount_text(amount, currency)}) is greater than unrefunded amount on charge "
            f"({amount_text(remainder, currency)})",
            param="amount",
            charge=charge,
        )
    step = 10 if currency in THREE_DECIMAL else 100 if currency in ("isk", "ugx") else 1  # §6
    if amount % step:
        raise ProviderError(f"Invalid amount: must be a multiple of {step} in {currency}.", param="amount")
    return amount


def create(db: sqlite3.Connection, call: Call) -> Body:
    """Make a refund. Without ``amount`` the whole remainder. Two keys make two refunds, however alike."""
    payment = _payment_of(db, call)
    amount = refundable_amount(payment, call.params.get("amount"))
    options = dict(call.options)
    if options.get("refuse_for_balance"):
        message = "Insufficient funds in your Stripe balance to refund this amount."
        raise ProviderError(message, message_code="insufficient_balance_for_refund")
    _take_along(db, call, payment, amount)
    return make(db, call.actor, payment, amount, call.params, options)


def _take_along(db: sqlite3.Connection, call: Call, payment: sqlite3.Row, amount: int) -> None:
    """Reverse the transfer of a destination charge and give its fee back, in the share of the refund (§2, Connect)."""
    reverse, fee_back = bool(call.params.get("reverse_transfer")), bool(call.params.get("refund_application_fee"))
    destination, fee = payment["transfer_destination"], payment["application_fee"] or 0
    for asked, there, name, word in (
        (fee_back, fee, "refund_application_fee", "application fee"),
        (reverse, destination, "reverse_transfer", "transfer"),
    ):
        if asked and not there:
            raise ProviderError(f"Charge {payment['charge']} has no {word} to refund or reverse.", param=name)
    if not (reverse or fee_back):
        return
    if fee_back and destination and not reverse:
        raise ProviderError("Refunding the application fee of a destination charge requires reverse_transfer.")
    partial = amount < payment["amount_captured"] - payment["amount_refunded"]
    if partial and payment["status"] == "requires_capture":
        raise ProviderError(
            "Partial refunds of a payment that is still being captured take no transfer and no fee along."
        )
    share = amount * fee // payment["amount_captured"] if fee_back else 0
    if reverse:
        transferred = payment["amount_captured"] - fee
        back = amount * transferred // payment["amount_captured"]
        held = db.execute(
            "select coalesce(sum(amount - fee), 0) as held from balance_transactions where account = ? and currency = ?",
            (destination, payment["currency"]),
        ).fetchone()["held"]
        if held < back:
            raise ProviderError(
                f"The connected account {destination} does not have enough funds to reverse this transfer.",
                code="balance_insufficient",
            )
        seller = Actor(destination, call.now)
        balance.move(db, seller, "payment_refund", -back, payment["currency"], payment["charge"])
        balance.move(db, call.actor, "transfer_refund", back, payment["currency"], payment["charge"])
        db.execute(
            "update payments set transfer_reversed = transfer_reversed + ? where seq = ?", (back, payment["seq"])
        )
    db.execute("update payments set fee_refunded = fee_refunded + ? where seq = ?", (share, payment["seq"]))


def write_expired(db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row) -> None:
    """The refund Stripe writes for an authorisation that lapsed: no money moves."""
    row = {
        "account": actor.account, "id": new_id("re_3"), "payment_intent": payment["id"], "charge": payment["charge"],
        "amount": payment["amount"] - payment["amount_captured"], "currency": payment["currency"], "created": actor.now,
        "status": "succeeded", "reason": "expired_uncaptured_charge", "payment_method": payment["payment_method"],
        "listed_at": actor.now, "origin": "stripe",
    }  # fmt: skip
    marks = ", ".join("?" * len(row))
    statement = f"insert into refunds ({', '.join(row)}) values ({marks}) returning *"  # noqa: S608 - fixed names
    emit(db, actor, "refund.created", render.refund(db.execute(statement, tuple(row.values())).fetchone()))


def make(
    db: sqlite3.Connection,
    actor: Actor,
    payment: sqlite3.Row,
    amount: int,
    params: dict[str, Any],
    options: dict[str, Any],
) -> Body:
    """Write a refund whose amount was found refundable, move the money and tell it."""
    _as_test_card(payment, options)
    status = options.get("status", "succeeded")
    row = {
        "account": actor.account,
        "id": new_id("re_3"),
        "payment_intent": payment["id"],
        "charge": payment["charge"],
        "amount": amount,
        "currency": payment["currency"],
        "created": actor.now,
        "status": status,
        "reason": params.get("reason"),
        "instructions_email": params.get("instructions_email"),
        "metadata": json.dumps(merge({}, params.get("metadata", {}))),
        "payment_method": payment["payment_method"],
        "customer": payment["customer"],
        "listed_at": actor.now + int(options.get("lag_seconds", 0)),
        "origin": actor.origin,
        "idempotency_key": actor.key,
        "request_id": actor.request_id,
        **_what_comes(status, options, actor.now),
    }
    if status == "succeeded":
        row["balance_transaction"] = balance.move(db, actor, "refund", -amount, payment["currency"], row["id"])
    marks = ", ".join("?" * len(row))
    statement = f"insert into refunds ({', '.join(row)}) values ({marks}) returning *"  # noqa: S608 - fixed names
    body = render.refund(db.execute(statement, tuple(row.values())).fetchone())
    emit(db, actor, "refund.created", body)
    if status == "failed":
        emit(db, actor, "refund.failed", body)
    else:
        _give_back(db, actor, payment, amount)
    return body


def _what_comes(status: str, options: dict[str, Any], now: int) -> dict[str, Any]:
    """Why it is in its state, and what becomes of it by itself."""
    comes = options.get("next_status")
    return {
        "pending_reason": options.get("pending_reason", "processing") if status == "pending" else None,
        "failure_reason": options.get("failure_reason", "unknown") if status == "failed" else None,
        "next_status": comes,
        "next_reason": options.get("failure_reason"),
        "next_at": now + int(options.get("after_seconds", 0)) if comes else None,
    }


def _as_test_card(payment: sqlite3.Row, options: dict[str, Any]) -> None:
    """Stripe's test cards whose refunds behave in a known way."""
    if payment["refund_behaviour"] and "status" not in options:
        options.setdefault("after_seconds", 2)
        if payment["refund_behaviour"] == "fails_late":  # 4000000000005126
            options.setdefault("next_status", "failed")
            options.setdefault("failure_reason", "expired_or_canceled_card")
        elif payment["refund_behaviour"] == "pending":  # 4000000000007726
            options.setdefault("status", "pending")
            options.setdefault("next_status", "succeeded")


def _give_back(db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row, amount: int) -> None:
    now_refunded = db.execute(
        "update payments set amount_refunded = amount_refunded + ? where seq = ? returning *", (amount, payment["seq"])
    ).fetchone()
    if amount > 0:
        previous = {"amount_refunded": payment["amount_refunded"]}
        emit(db, actor, "charge.refunded", render.charge(now_refunded), previous)


def change_status(
    db: sqlite3.Connection, actor: Actor, refund: sqlite3.Row, status: str, reason: str | None = None
) -> Body:
    """Move a refund along §1's transitions, also the late ``succeeded`` → ``failed``; failing gives the money back.

    Raises ``ProviderError`` 400 when the state it is in does not allow the move.
    """
    before = refund["status"]
    if status not in _CHANGES.get(before, ()):
        raise ProviderError(f"A refund that is {before} does not become {status}.")
    changes: dict[str, Any] = {"status": status, "pending_reason": None, "next_status": None, "next_at": None}
    if status == "pending":
        changes["pending_reason"] = reason or "processing"
    elif status == "succeeded":
        changes["balance_transaction"] = balance.move(
            db, actor, "refund", -refund["amount"], refund["currency"], refund["id"]
        )
    else:
        changes["failure_reason"] = reason or ("unknown" if status == "failed" else "merchant_request")
        if refund["balance_transaction"]:
            changes["failure_balance_transaction"] = balance.move(
                db, actor, "refund_failure", refund["amount"], refund["currency"], refund["id"]
            )
        payment = find(db, actor.account, "charge", refund["charge"])
        _give_back(db, actor, payment, -refund["amount"])
    body = render.refund(_changed(db, refund, changes))
    previous = {name: refund[name] for name in ("status", "pending_reason") if refund[name] != body.get(name)}
    for kind in ("refund.updated", "charge.refund.updated"):
        emit(db, actor, kind, body, previous)
    if status == "failed":
        emit(db, actor, "refund.failed", body)
    return body


def _changed(db: sqlite3.Connection, refund: sqlite3.Row, changes: dict[str, Any]) -> sqlite3.Row:
    names = ", ".join(f"{name} = ?" for name in changes)
    row: sqlite3.Row = db.execute(
        f"update refunds set {names} where seq = ? returning *",  # noqa: S608 - names are constants of this module
        (*changes.values(), refund["seq"]),
    ).fetchone()
    return row


def apply_due(db: sqlite3.Connection, now: int) -> int:
    """Make the status changes whose time has come; returns how many."""
    rows = db.execute("select * from refunds where next_at <= ? order by next_at, seq limit 100", (now,)).fetchall()
    for row in rows:
        change_status(db, Actor(row["account"], now, origin="stripe"), row, row["next_status"], row["next_reason"])
    return len(rows)


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return render.refund(find(db, call.account, "refund", call.ids[0], "id"))


def update(db: sqlite3.Connection, call: Call) -> Body:
    """Change metadata, the only thing that can be changed (§1)."""
    refund = find(db, call.account, "refund", call.ids[0], "id")
    before = json.loads(refund["metadata"])
    after = merge(before, call.params.get("metadata", {}))
    body = render.refund(_changed(db, refund, {"metadata": json.dumps(after)}))
    if after != before:
        emit(db, call.actor, "refund.updated", body, {"metadata": before})
    return body


def cancel(db: sqlite3.Connection, call: Call) -> Body:
    """Cancel a refund that waits for the customer; any other is refused (§1, §2)."""
    refund = find(db, call.account, "refund", call.ids[0], "id")
    if refund["status"] != "requires_action":
        raise ProviderError("Canceling this refund is unsupported.")
    return change_status(db, call.actor, refund, "canceled")


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    """Newest first. A refund whose appearance is delayed is left out until its time; retrieving it works (§5)."""
    wanted = Filter(call.account)
    for name, column in (("charge", "charge"), ("payment_intent", "id")):
        if name in call.params:
            known = db.execute(
                f"select 1 from payments where {column} = ? and account = ?",  # noqa: S608 - constants above
                (call.params[name], call.account),
            ).fetchone()
            if not known:
                raise missing(name, call.params[name], name)
            wanted.add(f"{name} = ?", call.params[name])
    wanted.add("listed_at <= ?", call.now)
    return listed(db, call, "refund", wanted, render.refund)
