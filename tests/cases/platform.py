"""Payments made through a platform: whose account they are on, what the policy takes along, what each side holds afterwards."""

import sqlite3
from typing import Any

from sandbox.ids import account_id
from tests.cases.desk import Desk
from tests.cases.sale import Payment
from tests.refunds import as_administrator

SELLER = "acct_1SellerOfShirts"


def on_platform(desk: Desk, charge_type: str, account: str = "", **connect: bool) -> None:
    """The merchant's payments are made this way, and its policy says what goes back along."""
    as_administrator(
        desk.stack, "UPDATE provider_accounts SET charge_type = %s, account_ref = %s", charge_type, account
    )  # fmt: skip
    for name, value in connect.items():
        as_administrator(
            desk.stack, "UPDATE policies SET document = jsonb_set(document, '{connect}', coalesce(document->'connect', '{}')"
            " || jsonb_build_object(%s::text, %s::boolean))", name, value,
        )  # fmt: skip


def paid_direct(desk: Desk, minor: int) -> Payment:
    """A direct charge: the seller's own account takes the money."""
    desk.sandbox.connect_account(SELLER)
    (made,) = desk.sandbox.create_payments([{"amount": minor, "currency": "gbp"}], account=SELLER)
    return Payment(made["payment_intent"], made["charge"], minor)


def paid_to_seller(desk: Desk, minor: int, fee: int = 0, **more: Any) -> Payment:
    """A destination charge: the platform takes the money, keeps its fee and sends the rest on to the seller."""
    fees: dict[str, Any] = {"application_fee_amount": fee} if fee else {}
    made = desk.at_provider(
        "payment_intents", amount=minor, currency="gbp", confirm="true", payment_method="pm_card_visa",
        **{"payment_method_types[]": "card", "transfer_data[destination]": SELLER}, **fees, **more,
    )  # fmt: skip
    return Payment(made["id"], made["latest_charge"], minor)


def balance_of(desk: Desk, account: str | None = None) -> int:
    """What an account holds at the provider but for the provider's own fees, in minor units."""
    with sqlite3.connect(desk.sandbox.db) as db:
        found = db.execute(
            "SELECT coalesce(sum(amount), 0) FROM balance_transactions WHERE account = ?",
            (account or account_id(desk.sandbox.secret_key),),
        ).fetchone()
    return int(found[0])
