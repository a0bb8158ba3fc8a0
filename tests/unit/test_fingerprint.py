"""What is approved, byte for byte (S24, S26): vectors that any other program can compute, and every field in its place."""

import base64
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import RowMapping

from ledger.fingerprint import connect_flags, fingerprint, frozen_request, request_digest
from ledger.seals import SEALED_COLUMNS, Sealer, SealVerifier
from ledger.tables.intents import approvals


def intent(**changes: Any) -> RowMapping:
    usual = {
        "deployment_id": UUID(int=1), "merchant_id": UUID(int=2), "case_id": UUID(int=3), "intent_id": UUID(int=4),
        "capture_id": UUID(int=5), "account_ref": "acct_1", "provider_account_id": UUID(int=6), "livemode": False,
        "payment_intent_ref": "pi_1", "charge_ref": "ch_1", "amount_minor": 9007199254740993, "currency": "GBP", "exponent": 2,
        "destination_kind": "card", "destination_brand": "visa", "destination_last4": "4242",
        "units": [{"line": "TEE", "from": 0, "to": 2}], "latest_digest": bytes(32), "entitlement_digest": bytes(32),
        "policy_id": "usual", "policy_version": 7, "route": "desk", "requester": "token:chat", "case_opener": "token:chat",
        "provider_key": "onceback-refund-0", "evidence_digest": bytes(32), "credential": "harbour", "act": "refund",
        "charge_type": "destination", "expected_account_ref": "acct_1", "on_hold_minor": 0, "captured_minor": 5800,
        "connect": {"reverse_transfer": True, "refund_application_fee": False}, "override_id": None, "computed_minor": None,
    }  # fmt: skip
    return cast("RowMapping", usual | changes)


CHANGES: dict[str, Any] = {
    "deployment_id": UUID(int=9), "merchant_id": UUID(int=9), "case_id": UUID(int=9), "intent_id": UUID(int=9),
    "capture_id": UUID(int=9), "account_ref": "acct_2", "provider_account_id": UUID(int=9), "livemode": True,
    "payment_intent_ref": "pi_2", "charge_ref": "ch_2", "amount_minor": 9007199254740992, "currency": "EUR", "exponent": 3,
    "destination_kind": "bank", "destination_brand": "mastercard", "destination_last4": "4243",
    "units": [{"line": "TEE", "from": 0, "to": 3}], "latest_digest": bytes(31) + b"\1", "entitlement_digest": bytes(31) + b"\1",
    "policy_id": "other", "policy_version": 8, "route": "manager", "requester": "token:voice", "case_opener": "token:voice",
    "provider_key": "onceback-refund-1", "evidence_digest": bytes(31) + b"\1", "act": "manual", "charge_type": "direct",
    "expected_account_ref": "acct_2", "connect": {"reverse_transfer": True, "refund_application_fee": True},
}  # fmt: skip


def test_the_fingerprint_is_what_another_program_computes_from_the_same_values() -> None:
    print_ = fingerprint(intent(), bytes(32))
    assert print_.hex() == "a111e8be28c1c902fca4dbcbca815b15afaa13c804fda899b86c49e64d6ac618"
    assert (
        request_digest(frozen_request(intent(), print_)).hex()
        == "f4d5e8f4f4cdfb628dafd8b2ae87c70ac90c4f653d014f61d3162833f4741585"
    )


@pytest.mark.parametrize("field", CHANGES)
def test_one_changed_field_is_another_fingerprint(field: str) -> None:
    assert fingerprint(intent(**{field: CHANGES[field]}), bytes(32)) != fingerprint(intent(), bytes(32))


def test_an_amount_other_than_computed_is_bound_to_the_computed_one() -> None:
    asked = {"override_id": UUID(int=7), "computed_minor": 9000}
    prints = {
        fingerprint(intent(**asked | change), bytes(32))
        for change in ({}, {"computed_minor": 9001}, {"override_id": UUID(int=8)})
    }
    assert len(prints | {fingerprint(intent(), bytes(32))}) == 4


def test_a_cancel_is_bound_to_a_payment_of_which_nothing_was_taken() -> None:
    held = {"act": "cancel_payment", "captured_minor": 0, "on_hold_minor": 5800}
    prints = {
        fingerprint(intent(**held | change), bytes(32))
        for change in ({}, {"captured_minor": 5800}, {"on_hold_minor": 5700})
    }
    assert len(prints) == 3


def test_more_taken_of_a_payment_leaves_the_fingerprint_of_a_refund_as_it_was() -> None:
    assert fingerprint(intent(captured_minor=9900, on_hold_minor=1), bytes(32)) == fingerprint(intent(), bytes(32))


@pytest.mark.parametrize(
    ("kind", "terms", "flags"),
    [
        ("own", (True, True), (False, False)), ("direct", (True, True), (False, True)), ("direct", (True, False), (False, False)),
        ("destination", (True, True), (True, True)), ("destination", (False, True), (False, False)),
        ("destination", (True, False), (True, False)), ("separate", (True, True), (False, False)),
    ],
)  # fmt: skip
def test_what_a_refund_takes_along_follows_from_the_charge_and_the_policy(
    kind: str, terms: tuple[bool, bool], flags: tuple[bool, bool]
) -> None:
    names = ("reverse_transfer", "refund_application_fee")
    of = intent(charge_type=kind, connect=dict(zip(names, terms, strict=True)))
    assert connect_flags(of) == dict(zip(names, flags, strict=True))
    assert frozen_request(of, bytes(32)).items() >= connect_flags(of).items()
    assert connect_flags(intent(charge_type=kind, connect=None)) == dict.fromkeys(names, False)


def test_evidence_that_changed_is_another_fingerprint() -> None:
    assert fingerprint(intent(), bytes(31) + b"\1") != fingerprint(intent(), bytes(32))


def test_two_destinations_that_read_alike_when_joined_differ() -> None:
    one, other = intent(destination_brand="visa4", destination_last4="242"), intent()
    assert fingerprint(one, bytes(32)) != fingerprint(other, bytes(32))


APPROVAL: dict[str, Any] = {
    "merchant_id": UUID(int=2), "approval_id": UUID(int=7), "intent_id": UUID(int=4), "seat": 1,
    "approver": f"staff:{UUID(int=8)}", "staff_id": UUID(int=8), "requester": "token:chat", "case_opener": "token:chat",
    "fingerprint": bytes(32), "strength": "session", "note": "", "operation_key": "0" * 32,
    "approved_at": datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "expires_at": datetime(2026, 12, 1, 9, 0, tzinfo=UTC),
    "seal_key_id": "seal-1",
}  # fmt: skip
OTHER: dict[str, Any] = {
    "merchant_id": UUID(int=9), "approval_id": UUID(int=9), "intent_id": UUID(int=9), "seat": 2,
    "approver": f"staff:{UUID(int=9)}", "staff_id": UUID(int=9), "requester": "token:voice", "case_opener": "token:voice",
    "fingerprint": bytes(31) + b"\1", "strength": "passkey", "note": " ", "operation_key": "1" * 32,
    "approved_at": datetime(2026, 11, 30, 9, 0, 1, tzinfo=UTC), "expires_at": datetime(2026, 12, 1, 9, 0, 1, tzinfo=UTC),
}  # fmt: skip


@pytest.fixture
def sealer() -> Sealer:
    return Sealer.from_text(f"seal-1:{base64.b64encode(bytes(range(32))).decode()}")


def test_the_seal_covers_every_column_of_an_approval_but_itself() -> None:
    assert set(SEALED_COLUMNS) == {column.name for column in approvals.columns} - {"seal"}
    assert len(SEALED_COLUMNS) == len(set(SEALED_COLUMNS))


def test_a_seal_is_what_another_program_makes_with_the_same_key(sealer: Sealer) -> None:
    assert sealer.seal(APPROVAL).hex() == (
        "b6c3e49fb8ad6b34b5f96285c0ac4159eb882120a9fe040671c6de8a1d396307"
        "39e16f71e2123bca3ef1e252be0e45be56bccc25fe1230412b57725b89350d09"
    )


@pytest.mark.parametrize("column", OTHER)
def test_a_seal_opens_no_row_that_differs_in_one_column(sealer: Sealer, column: str) -> None:
    row = APPROVAL | {"seal": sealer.seal(APPROVAL)}
    verifier = SealVerifier([sealer.public_text()])
    assert verifier.valid(row)
    assert not verifier.valid(row | {column: OTHER[column]})


def test_a_key_id_that_is_not_known_opens_nothing(sealer: Sealer) -> None:
    row = APPROVAL | {"seal": sealer.seal(APPROVAL)}
    assert not SealVerifier([]).valid(row)
    assert not SealVerifier([sealer.public_text()]).valid(row | {"seal_key_id": "seal-2"})
