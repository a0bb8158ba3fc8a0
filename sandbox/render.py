"""Rows into Stripe's JSON objects, as API version 2026-10-28.endive shows them."""

import json
import sqlite3
from typing import Any

Row = sqlite3.Row
Body = dict[str, Any]

compact = json.JSONEncoder(separators=(",", ":")).encode

_CARD_OPTIONS = {"installments": None, "mandate_options": None, "network": None, "request_three_d_secure": "automatic"}


def refund(row: Row) -> Body:
    """A refund. Valueless optional fields are left out, not null (§1)."""
    body: Body = {
        "id": row["id"],
        "object": "refund",
        "amount": row["amount"],
        "balance_transaction": row["balance_transaction"],
        "charge": row["charge"],
        "created": row["created"],
        "currency": row["currency"],
        "customer": row["customer"],
        "customer_account": None,
        "destination_details": {
            "card": {
                "reference_status": "pending",
                "reference_type": "acquirer_reference_number",
                "type": "refund",
            },
            "type": "card",
        },
        "metadata": json.loads(row["metadata"]),
        "payment_intent": row["payment_intent"],
        "payment_method": row["payment_method"],
        "reason": row["reason"],
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": row["status"],
        "transfer_reversal": None,
    }
    for name in ("failure_balance_transaction", "failure_reason", "instructions_email", "pending_reason"):
        if row[name] is not None:
            body[name] = row[name]
    if row["status"] == "requires_action":
        body["next_action"] = {
            "display_details": {
                "email_sent": {"email_sent_at": row["created"], "email_sent_to": row["instructions_email"] or ""},
                "expires_at": row["created"] + 45 * 86400,
            },
            "type": "display_details",
        }
    return body


def _billing(row: Row) -> Body:
    address = dict.fromkeys(("city", "country", "line1", "line2", "postal_code", "state"))
    return {"address": address, "email": row["receipt_email"], "name": None, "phone": None, "tax_id": None}


def _card(row: Row) -> Body:
    authorized = row["status"] in ("requires_capture", "succeeded", "canceled")
    return {
        "amount_authorized": row["amount"] if authorized else None,
        "authorization_code": None,
        "brand": row["brand"],
        "checks": {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass"},
        "country": "US",
        "exp_month": row["exp_month"],
        "exp_year": row["exp_year"],
        "funding": "credit",
        "installments": None,
        "last4": row["last4"],
        "mandate": None,
        "network": row["brand"],
        "network_token": {"used": False},
        "three_d_secure": None,
        "wallet": None,
    }


def _outcome(*, declined: bool) -> Body:
    refusal = {"network_status": "declined_by_network", "reason": "generic_decline", "type": "issuer_declined"}
    consent = {"network_status": "approved_by_network", "reason": None, "type": "authorized"}
    return {
        "advice_code": None,
        "network_advice_code": None,
        "network_decline_code": None,
        "risk_level": "normal",
        "seller_message": "The bank declined the payment." if declined else "Payment complete.",
        **(refusal if declined else consent),
    }


def charge(row: Row) -> Body:
    """The charge of a payment. Refunds are not embedded unless expanded (§5)."""
    failure = json.loads(row["charge_failure"]) if row["charge_failure"] else None
    captured = row["status"] == "succeeded"
    return {
        "id": row["charge"],
        "object": "charge",
        "amount": row["amount"],
        "amount_captured": row["amount_captured"],
        "amount_refunded": row["amount_refunded"],
        "application": None,
        "application_fee": None,
        "application_fee_amount": row["application_fee"],
        "balance_transaction": row["balance_transaction"],
        "billing_details": _billing(row),
        "calculated_statement_descriptor": "SANDBOX",
        "captured": captured,
        "created": row["charge_created"],
        "currency": row["currency"],
        "customer": row["customer"],
        "description": row["description"],
        "disputed": bool(row["disputed"]),
        "failure_balance_transaction": None,
        "failure_code": failure["code"] if failure else None,
        "failure_message": failure["message"] if failure else None,
        "fraud_details": {},
        "livemode": False,
        "metadata": json.loads(row["charge_metadata"] or row["metadata"]),
        "on_behalf_of": None,
        "outcome": _outcome(declined=failure is not None),
        "paid": failure is None,
        "payment_intent": row["id"],
        "payment_method": row["payment_method"],
        "payment_method_details": {"card": _card(row), "type": "card"},
        "receipt_email": row["receipt_email"],
        "receipt_number": None,
        "receipt_url": None,
        "refunded": captured and 0 < row["amount_captured"] == row["amount_refunded"],
        "review": None,
        "shipping": None,
        "source_transfer": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "failed" if failure else "succeeded",
        "transfer_data": {"destination": row["transfer_destination"]} if row["transfer_destination"] else None,
        "transfer_group": None,
    }


def payment_intent(row: Row) -> Body:
    """A payment intent with the id of its latest charge."""
    holding = row["status"] == "requires_capture"
    failure = json.loads(row["charge_failure"]) if row["charge_failure"] else None
    return {
        "id": row["id"],
        "object": "payment_intent",
        "amount": row["amount"],
        "amount_capturable": row["amount"] - row["amount_captured"] if holding else 0,
        "amount_details": {"tip": {}},
        "amount_received": row["amount_captured"],
        "application": None,
        "application_fee_amount": row["application_fee"],
        "automatic_payment_methods": None,
        "canceled_at": row["canceled_at"],
        "cancellation_reason": row["cancellation_reason"],
        "capture_method": row["capture_method"],
        "client_secret": f"{row['id']}_secret_sandbox",
        "confirmation_method": "automatic",
        "created": row["created"],
        "currency": row["currency"],
        "customer": row["customer"],
        "customer_account": None,
        "description": row["description"],
        "last_payment_error": {**failure, "charge": row["charge"]} if failure else None,
        "latest_charge": row["charge"],
        "livemode": False,
        "metadata": json.loads(row["metadata"]),
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None if failure else row["payment_method"],
        "payment_method_configuration_details": None,
        "payment_method_options": {"card": {**_CARD_OPTIONS}},
        "payment_method_types": ["card"],
        "processing": None,
        "receipt_email": row["receipt_email"],
        "review": None,
        "setup_future_usage": None,
        "shipping": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": row["status"],
        "transfer_data": {"destination": row["transfer_destination"]} if row["transfer_destination"] else None,
        "transfer_group": None,
    }


def balance_transaction(row: Row) -> Body:
    """One movement of the account's balance; refunds are negative."""
    fee = row["fee"]
    details = {"amount": fee, "application": None, "currency": row["currency"], "description": "Stripe processing fees"}
    details["type"] = "stripe_fee"
    return {
        "id": row["id"],
        "object": "balance_transaction",
        "amount": row["amount"],
        "available_on": row["created"],
        "balance_type": "payments",
        "created": row["created"],
        "currency": row["currency"],
        "description": None,
        "exchange_rate": None,
        "fee": fee,
        "fee_details": [details] if fee else [],
        "net": row["amount"] - fee,
        "reporting_category": "dispute" if row["type"] == "adjustment" else row["type"],
        "source": row["source"],
        "status": "available",
        "type": row["type"],
    }


def event(row: Row, pending: int, platform_account: str | None = None) -> Body:
    """An event as it was when it happened; ``account`` only where the reader is a platform (§5)."""
    changed: Body = {"object": json.loads(row["object"])}
    if row["previous"]:
        changed["previous_attributes"] = json.loads(row["previous"])
    body: Body = {
        "id": row["id"],
        "object": "event",
        "api_version": "2026-10-28.endive",
        "created": row["created"],
        "data": changed,
        "livemode": False,
        "pending_webhooks": pending,
        "request": {"id": row["request_id"], "idempotency_key": row["idempotency_key"]},
        "type": row["type"],
    }
    if platform_account:
        body["account"] = platform_account
    return body


def page(objects: list[Body], has_more: bool, url: str) -> Body:
    """A list object."""
    return {"object": "list", "data": objects, "has_more": has_more, "url": url}
