"""Payments made through a platform: the right account, what goes back with the refund, and whose key it is."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from pydantic import SecretStr

from jobs.stripe_gateway import StripeGateway
from ledger.database import transaction
from ledger.errors import BadInput, WrongState
from ledger.merchants import NewMerchant, add_merchant
from ledger.policy_publishing import publish
from ledger.refusals import situation
from sandbox.client import Running
from sandbox.ids import account_id
from tests.cases.desk import Desk
from tests.cases.platform import SELLER, balance_of, on_platform, paid_direct, paid_to_seller
from tests.cases.sale import Payment
from tests.refunds import alarms, as_administrator, worker_at
from tests.stack import Stack
from tests.world import World, build_world, usual_policy


def sent(desk: Desk) -> dict[str, str]:
    """The form of the one refund that was asked for."""
    (call,) = desk.calls()
    return dict(parse_qsl(call["body"]))


def test_a_direct_charge_is_refunded_on_the_sellers_account_and_nowhere_else(desk: Desk) -> None:
    on_platform(desk, "direct", SELLER)
    sale = desk.sold(40_00, payments=[paid_direct(desk, 40_00)])
    desk.paid_back(sale, ("L1", 1))
    (call,) = desk.calls()
    assert call["account"] == SELLER
    assert not {"reverse_transfer", "refund_application_fee"} & sent(desk).keys()
    desk.ends(sale, refunds=1, refunded=40_00, left=0)


def test_control_without_the_account_header_the_charge_of_a_seller_is_not_there(desk: Desk) -> None:
    sale = desk.sold(40_00, payments=[paid_direct(desk, 40_00)])
    one = desk.approved(sale, ("L1", 1))
    desk.send()
    assert desk.state(one) != "succeeded"
    assert desk.sandbox.money(sale.payment.payment_intent)["refund_count"] == 0


@pytest.mark.parametrize(
    ("reverse", "fee", "platform", "seller"),
    [(False, False, 10_00 - 50_00, 90_00), (True, False, 10_00 - 50_00 + 45_00, 45_00), (True, True, 10_00 - 50_00 + 45_00, 45_00)],
    ids=["neither", "the transfer", "transfer and fee"],
)  # fmt: skip
def test_a_destination_charge_takes_along_what_the_policy_says(
    desk: Desk, reverse: bool, fee: bool, platform: int, seller: int
) -> None:
    """100.00 with a fee of 10.00; half goes back: from the platform, and with the transfer half of what the seller got."""
    on_platform(desk, "destination", reverse_transfer=reverse, refund_application_fee=fee)
    sale = desk.sold(50_00, 50_00, payments=[paid_to_seller(desk, 100_00, fee=10_00)])
    desk.paid_back(sale, ("L1", 1))
    asked = sent(desk)
    assert (asked.get("reverse_transfer"), asked.get("refund_application_fee")) == (
        "true" if reverse else None, "true" if fee else None,
    )  # fmt: skip
    assert (balance_of(desk), balance_of(desk, SELLER)) == (platform, seller)
    desk.ends(sale, refunds=1, refunded=50_00, left=50_00)


def test_a_seller_without_funds_refuses_the_refund_by_name_and_everything_is_given_back(desk: Desk) -> None:
    on_platform(desk, "destination", reverse_transfer=True)
    sale = desk.sold(40_00, payments=[paid_to_seller(desk, 40_00)])
    desk.sandbox.pay_out(SELLER, 35_00)
    one = desk.approved(sale, ("L1", 1))
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(one), desk.reason(one)) == ("failed", "seller_underfunded")
    desk.ends(sale, refunds=0, refunded=0, left=40_00)
    paid_to_seller(desk, 35_00)
    (again,) = desk.work_out_again(one.case_id)
    desk.approve(again)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=40_00, left=0)


def test_a_separate_transfer_is_never_touched_whatever_the_policy_says(desk: Desk) -> None:
    on_platform(desk, "separate", reverse_transfer=True, refund_application_fee=True)
    sale = desk.sold(40_00)
    desk.paid_back(sale, ("L1", 1))
    assert not {"reverse_transfer", "refund_application_fee"} & sent(desk).keys()
    desk.ends(sale, refunds=1, refunded=40_00, left=0)


def test_a_policy_row_or_charge_type_that_changed_after_the_approval_sends_nothing(desk: Desk) -> None:
    sale = desk.sold(40_00)
    one = desk.approved(sale, ("L1", 1))
    on_platform(desk, "separate")
    assert desk.send() == {}
    assert (desk.state(one), desk.calls()) == ("held", [])
    assert alarms(desk.stack) == {"not_sent_fingerprint"}


def test_a_part_of_a_payment_that_is_still_being_captured_goes_back_without_transfer_or_not_at_all(desk: Desk) -> None:
    on_platform(desk, "destination", reverse_transfer=True)
    held = paid_to_seller(desk, 100_00, capture_method="manual")
    desk.at_provider(f"payment_intents/{held.payment_intent}/capture", amount_to_capture=60_00, final_capture="false")
    sale = desk.sold(20_00, 80_00, payments=[replace(held, captured_minor=60_00, held_minor=40_00)])
    one = desk.owed(sale, ("L1", 1))
    with pytest.raises(WrongState, match="may still be captured"):
        desk.approve(one)
    assert desk.calls() == []
    as_administrator(desk.stack, "UPDATE policies SET document = document - 'connect'")
    desk.approve(desk.work_out_again(one.case_id)[0])
    assert desk.send() == {"claimed": 1, "confirmed": 1}


@pytest.mark.parametrize("expected", ["right", "wrong"])
def test_the_first_call_proves_whose_account_the_key_opens(desk: Desk, expected: str) -> None:
    own = account_id(desk.sandbox.secret_key)
    as_administrator(
        desk.stack,
        "UPDATE provider_accounts SET expected_account_ref = %s",
        own if expected == "right" else "acct_1OfSomebodyElse",
    )
    sale = desk.sold(40_00, 20_00)
    first = desk.approved(sale, ("L1", 1))
    if expected == "right":
        desk.send()
        assert desk.state(first) == "succeeded"
        desk.paid_back(sale, ("L2", 1))
        assert len(desk.calls("GET", "/v1/account")) - len(desk.calls("GET", "/v1/accounts")) == 1
        return
    assert desk.send() == {"claimed": 1, "not_accepted": 1}
    (brake,) = as_administrator(desk.stack, "SELECT stopped_reason FROM merchant_brakes")
    assert brake["stopped_reason"] == "wrong_account"
    assert alarms(desk.stack) == {"submitter_stopped"}
    assert (desk.send(), desk.calls()) == ({}, [])
    assert desk.sandbox.money(sale.payment.payment_intent)["refund_count"] == 0


def test_a_provider_that_does_not_say_whose_account_it_is_sends_nothing_and_stops_nobody(desk: Desk) -> None:
    as_administrator(
        desk.stack, "UPDATE provider_accounts SET expected_account_ref = %s", account_id(desk.sandbox.secret_key)
    )
    one = desk.approved(desk.sold(40_00), ("L1", 1))
    desk.sandbox.fault("error_503", path="/v1/account", method="GET", count=1)
    assert desk.send() == {"disputes_unread": 1}
    assert (desk.calls(), desk.state(one)) == ([], "approved")
    (brake,) = as_administrator(desk.stack, "SELECT stopped_at FROM merchant_brakes")
    assert brake["stopped_at"] is None


def test_control_without_the_expected_account_the_wrong_key_would_pay_from_another_account(desk: Desk) -> None:
    """Another shop's key, and a payment that is there too: nothing but the proof tells them apart."""
    keys = {desk.world.slug: SecretStr("sk_test_another")}
    desk.worker.gateway = StripeGateway(keys, desk.sandbox.base_url, 1, 10.0)
    (made,) = desk.sandbox.create_payments([{"amount": 40_00, "currency": "gbp"}], account="sk_test_another")
    sale = desk.sold(40_00, payments=[Payment(made["payment_intent"], made["charge"], 40_00)])
    one = desk.approved(sale, ("L1", 1))
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert desk.state(one) == "succeeded"


def test_a_credential_serves_one_merchant_at_set_up_and_by_constraint(stack: Stack, world: World) -> None:
    new = NewMerchant("northwind", "Northwind", "Europe/London", "GB", world.slug.replace("-", "_"))
    with pytest.raises(BadInput, match="serves another merchant") as refused, transaction(stack.owner) as db:
        add_merchant(db, new)
    assert world.slug not in str(refused.value)
    with transaction(stack.owner) as db:
        add_merchant(db, replace(new, charge_type="direct", account_ref=SELLER))


def test_a_row_that_names_another_merchants_credential_sends_nothing(
    desk: Desk, stack: Stack, sandbox: Running
) -> None:
    """Northwind's row is edited past every guard to use Harbour's key; its payment is its own and nothing of it is sent."""
    northwind = build_world(stack, "northwind", policy=usual_policy("northwind-usual"))
    one = desk.approved(desk.sold(40_00), ("L1", 1))
    with stack.admin() as admin:
        admin.execute("ALTER TABLE provider_accounts DROP CONSTRAINT one_merchant_per_credential")
        admin.execute(
            "UPDATE provider_accounts SET credential = 'northwind' WHERE merchant_id = %s", (desk.world.merchant_id,)
        )
    try:
        with worker_at(stack, sandbox, northwind) as other:
            desk.worker.gateway = other.gateway
            assert desk.send() == {}
        assert (desk.state(one), desk.calls(), alarms(stack)) == ("held", [], {"not_sent_fingerprint"})
    finally:
        as_administrator(stack, "UPDATE provider_accounts SET credential = %s WHERE merchant_id = %s",
                         desk.world.slug, desk.world.merchant_id)  # fmt: skip
        with stack.admin() as admin:
            admin.execute(
                "ALTER TABLE provider_accounts ADD CONSTRAINT one_merchant_per_credential UNIQUE (credential, account_ref)"
            )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"charge_type": "direct"}, "account"), ({"charge_type": "destination", "account_ref": SELLER}, "account"),
        ({"charge_type": "split"}, "charge_type"), ({"expected_account": "harbour"}, "expected_account"),
    ],
)  # fmt: skip
def test_an_account_that_does_not_fit_its_charges_is_refused(stack: Stack, changes: dict[str, Any], field: str) -> None:
    new = replace(NewMerchant("northwind", "Northwind", "Europe/London", "GB", "northwind"), **changes)
    with pytest.raises(BadInput) as refused, transaction(stack.owner) as db:
        add_merchant(db, new)
    assert refused.value.facts["field"] == field


@pytest.mark.parametrize(
    "connect", [{"refund_application_fee": True}, {"reverse_transfer": "yes"}, {"reverse": True}],
    ids=["the fee without the transfer", "no truth value", "no such field"],
)  # fmt: skip
def test_a_policy_that_no_destination_charge_can_follow_is_not_published(
    stack: Stack, world: World, connect: dict[str, Any]
) -> None:
    as_administrator(stack, "UPDATE provider_accounts SET charge_type = 'destination'")
    document = usual_policy("harbour-new") | {"version": 2, "connect": connect}
    with pytest.raises(BadInput), transaction(stack.owner, world.merchant_id) as db:
        publish(db, world.merchant_id, document, "Mara Velthuis", "Jonas Okonjo", None, None)


def test_the_words_of_a_seller_without_funds_say_what_to_do() -> None:
    row = situation("refused", "seller_underfunded")
    assert "seller" in row.sentence
    assert "approved anew" in row.then
