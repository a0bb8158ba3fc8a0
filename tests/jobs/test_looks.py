"""Reading the provider's refunds: found by our id, and never absent because something could not be read (P10)."""

from typing import Any

import pytest

from jobs.stripe_gateway import LookFailed, NoSuchRefund, StripeGateway, TwoRefunds
from ledger.settlement import Confirmed
from sandbox.client import Running
from tests.jobs.calls import ACCOUNT, key, look_for, request_for


def test_our_refund_is_found_by_our_id_among_many(sandbox: Running, gateway: StripeGateway) -> None:
    payment = sandbox.create_payment(100_000)
    request = request_for(payment)
    assert gateway.find(look_for(request)) is None
    assert isinstance(gateway.refund(request, key()), Confirmed)
    for _ in range(105):
        sandbox.dashboard_refund(payment["payment_intent"], 1)
    sandbox.clear_requests()
    found = gateway.find(look_for(request))
    assert found is not None
    assert (found.amount_minor, found.intent_id) == (2490, request["metadata"]["onceback_intent"])
    assert len(sandbox.requests(method="GET")) == 2
    assert gateway.retrieve(ACCOUNT, found.refund_ref) == found


def test_a_second_refund_of_one_intent_is_said_and_a_failed_first_is_not_one(
    sandbox: Running, gateway: StripeGateway
) -> None:
    request = request_for(sandbox.create_payment(100_000))
    first = gateway.refund(request, key())
    assert isinstance(first, Confirmed)
    assert isinstance(gateway.refund(request, key()), Confirmed)
    with pytest.raises(TwoRefunds):
        gateway.find(look_for(request))
    sandbox.change_refund(first.refund.refund_ref, "failed")
    found = gateway.find(look_for(request))
    assert found is not None
    assert found.refund_ref != first.refund.refund_ref


@pytest.mark.parametrize(
    "fault", ["error_503", "lose_reply", "truncated_body", "garbage_200", "unauthorized", "rate_limit", "huge_body"]
)
def test_a_list_that_could_not_be_read_is_never_an_absence(
    sandbox: Running, gateway: StripeGateway, fault: str
) -> None:
    request = request_for(sandbox.create_payment(7470))
    sandbox.fault(fault, method="GET", bytes=20_000_000)
    with pytest.raises(LookFailed):
        gateway.find(look_for(request))
    assert gateway.find(look_for(request)) is None


@pytest.mark.parametrize(
    "fields", [{"data": None}, {"has_more": None}, {"object": "refund"}, {"data": [{"object": "refund", "id": "re_1"}]}]
)
def test_a_list_of_something_else_is_never_an_absence(
    sandbox: Running, gateway: StripeGateway, fields: dict[str, Any]
) -> None:
    request = request_for(sandbox.create_payment(7470))
    sandbox.fault("wrong_answer", method="GET", fields=fields)
    with pytest.raises(LookFailed):
        gateway.find(look_for(request))


def test_an_unknown_payment_is_not_an_empty_list_and_an_unknown_refund_says_so(
    sandbox: Running, gateway: StripeGateway
) -> None:
    with pytest.raises(LookFailed):
        gateway.list_refunds(ACCOUNT, "pi_nobody")
    with pytest.raises(NoSuchRefund):
        gateway.retrieve(ACCOUNT, "re_nobody")
    sandbox.clear_requests()
    for ref in ("", "..", "re_../../charges", "ch_1"):
        with pytest.raises(LookFailed):
            gateway.retrieve(ACCOUNT, ref)
    assert sandbox.requests() == []
