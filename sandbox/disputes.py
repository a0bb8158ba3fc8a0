"""Disputes: formal ones take the money and stop refunds; inquiries (``warning_*``) do neither (§7)."""

import json
import sqlite3

from sandbox import balance, render
from sandbox.calls import Actor, Call, find
from sandbox.errors import ProviderError
from sandbox.events import emit
from sandbox.forms import PAGE, period, text
from sandbox.ids import new_id
from sandbox.listing import Filter, listed
from sandbox.render import Body

LIST = PAGE | {"charge": text, "payment_intent": text, "created": period}
_FEE_MINOR = 1500
_DAYS_TO_ANSWER_SECONDS = 9 * 86400
_EVIDENCE = [
    "access_activity_log",
    "billing_address",
    "cancellation_policy",
    "cancellation_policy_disclosure",
    "cancellation_rebuttal",
    "customer_communication",
    "customer_email_address",
    "customer_name",
    "customer_purchase_ip",
    "customer_signature",
    "duplicate_charge_documentation",
    "duplicate_charge_explanation",
    "duplicate_charge_id",
    "product_description",
    "receipt",
    "refund_policy",
    "refund_policy_disclosure",
    "refund_refusal_explanation",
    "service_date",
    "service_documentation",
    "shipping_address",
    "shipping_carrier",
    "shipping_date",
    "shipping_documentation",
    "shipping_tracking_number",
    "uncategorized_file",
    "uncategorized_text",
]


def shown(db: sqlite3.Connection, row: sqlite3.Row) -> Body:
    moves = db.execute("select * from balance_transactions where source = ? order by seq", (row["id"],)).fetchall()
    return {
        "id": row["id"],
        "object": "dispute",
        "amount": row["amount"],
        "balance_transactions": [render.balance_transaction(move) for move in moves],
        "charge": row["charge"],
        "created": row["created"],
        "currency": row["currency"],
        "enhanced_eligibility_types": [],
        "evidence": {**dict.fromkeys(_EVIDENCE), "enhanced_evidence": {}},
        "evidence_details": {
            "due_by": row["created"] + _DAYS_TO_ANSWER_SECONDS,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
        },
        "is_charge_refundable": bool(row["inquiry"]),
        "livemode": False,
        "metadata": json.loads(row["metadata"]),
        "payment_intent": row["payment_intent"],
        "reason": row["reason"],
        "status": row["status"],
    }


def open_one(
    db: sqlite3.Connection, actor: Actor, payment: sqlite3.Row, amount: int, *, inquiry: bool, reason: str
) -> Body:
    """The customer's bank asks (inquiry) or takes the money back (formal): then refunds get ``charge_disputed``."""
    if payment["status"] != "succeeded":
        raise ProviderError("Only a captured payment can be disputed.")
    row = db.execute(
        "insert into disputes (account, id, payment_intent, charge, amount, currency, created, reason, status, inquiry)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning *",
        (
            actor.account,
            new_id("dp_1"),
            payment["id"],
            payment["charge"],
            amount,
            payment["currency"],
            actor.now,
            reason,
            "warning_needs_response" if inquiry else "needs_response",
            inquiry,
        ),
    ).fetchone()
    if not inquiry:
        _withdraw(db, actor, row)
    body = shown(db, row)
    emit(db, actor, "charge.dispute.created", body)
    if not inquiry:
        emit(db, actor, "charge.dispute.funds_withdrawn", body)
    return body


def escalate_one(db: sqlite3.Connection, actor: Actor, dispute: sqlite3.Row) -> Body:
    """The bank has no answer to its inquiry, and takes the money back: a formal dispute of the same id."""
    if not dispute["inquiry"] or dispute["status"] == "warning_closed":
        raise ProviderError(f"A dispute that is {dispute['status']} is no open inquiry.")
    row = db.execute(
        "update disputes set status = 'needs_response', inquiry = 0 where seq = ? returning *", (dispute["seq"],)
    ).fetchone()
    _withdraw(db, actor, row)
    body = shown(db, row)
    emit(db, actor, "charge.dispute.updated", body)
    emit(db, actor, "charge.dispute.funds_withdrawn", body)
    return body


def _withdraw(db: sqlite3.Connection, actor: Actor, row: sqlite3.Row) -> None:
    balance.move(db, actor, "adjustment", -row["amount"], row["currency"], row["id"], _FEE_MINOR)
    db.execute("update payments set disputed = 1 where charge = ?", (row["charge"],))


def close_one(db: sqlite3.Connection, actor: Actor, dispute: sqlite3.Row, outcome: str) -> Body:
    """End a dispute ``won``, ``lost`` or, for an inquiry, ``warning_closed``. After a lost one refunds stay refused."""
    allowed = ("warning_closed",) if dispute["inquiry"] else ("won", "lost")
    if outcome not in allowed or dispute["status"] in ("won", "lost", "warning_closed"):
        raise ProviderError(
            f"A dispute that is {dispute['status']} does not end as {outcome}; it can end as {' or '.join(allowed)}."
        )
    row = db.execute("update disputes set status = ? where seq = ? returning *", (outcome, dispute["seq"])).fetchone()
    if outcome == "won":
        balance.move(db, actor, "adjustment", row["amount"], row["currency"], row["id"])
        db.execute("update payments set disputed = 0 where charge = ?", (row["charge"],))
    body = shown(db, row)
    if outcome == "won":
        emit(db, actor, "charge.dispute.funds_reinstated", body)
    emit(db, actor, "charge.dispute.closed", body)
    return body


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return shown(db, find(db, call.account, "dispute", call.ids[0], "dispute"))


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    wanted = Filter(call.account)
    for name in ("charge", "payment_intent"):
        if name in call.params:
            wanted.add(f"{name} = ?", call.params[name])
    return listed(db, call, "dispute", wanted, lambda row: shown(db, row))
