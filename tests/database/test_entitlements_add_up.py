"""What is owed adds up line by line, whoever writes it; and what could be stored without that guard."""

import json
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.database import run, transaction
from ledger.ids import uuid7
from tests.database import rows as put
from tests.stack import Stack, without
from tests.world import World

RECORD: dict[str, Any] = {
    "lines": [{"minor": 2500, "tax": {"minor": 400}}, {"minor": -300, "tax": {"minor": -48}}],
    "subtotals": {"goods": 2500, "deductions": -300},
    "claimed": {"TEE": 2500},
    "retained": {"TEE": 300},
    "total": 2200,
    "tax": 352,
    "paid_before": 200,
    "draws": [{"order_minor": 1900}],
    "funding_shortfall_minor": 100,
    "bound": put.BOUND,
}
ROW = {"total": 2200, "tax": 352, "payable": 2000}


def store(db: Connection, world: World, record: dict[str, Any], **row: int) -> None:
    case_id = put.open_case(db, world)
    run(
        db, "INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest,"
        " outcome, currency, total_minor, tax_minor, payable_minor, record, digest, allocation_digest, evidence, priors)"
        " VALUES (:m, :e, :c, 1, :policy, 1, :seen, 'payable', 'GBP', :total, :tax, :payable, CAST(:record AS jsonb), :digest,"
        " :allocation, '{}', '{}')", m=world.merchant_id, e=uuid7(), allocation=put.source(db, world),
        c=case_id, policy=world.policy_id, seen=sha256(b"seen").digest(), record=json.dumps(record),
        digest=sha256(b"record").digest(), **(ROW | row),
    )  # fmt: skip


def test_a_record_that_adds_up_is_stored(db: Connection, harbour: World) -> None:
    store(db, harbour, RECORD)


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({}, {"total": 2201}),
        ({}, {"tax": 351}),
        ({}, {"payable": 2001}),
        ({"lines": [{"minor": 2501, "tax": {"minor": 400}}, *RECORD["lines"][1:]]}, {}),
        ({"lines": [{"minor": 2500, "tax": {"minor": 401}}, *RECORD["lines"][1:]]}, {}),
        ({"subtotals": {"goods": 2500, "deductions": -299}}, {}),
        ({"claimed": {"TEE": 2501}}, {}),
        ({"retained": {"TEE": 299}}, {}),
        ({"released": {"TEE": 1}}, {}),
        ({"draws": [{"order_minor": 1901}]}, {}),
        ({"funding_shortfall_minor": 99}, {}),
        ({"paid_before": 201}, {}),
        ({"total": None}, {}),
    ],
)
def test_a_figure_that_does_not_add_up_is_refused(
    db: Connection, harbour: World, changed: dict[str, Any], row: dict[str, int]
) -> None:
    with pytest.raises(IntegrityError, match="an entitlement adds up"):
        store(db, harbour, RECORD | changed, **row)


def test_without_the_guard_more_would_be_payable_than_its_lines_say(stack: Stack, world: World) -> None:
    without(stack, "DROP TRIGGER adds_up ON entitlements")
    with transaction(stack.owner, world.merchant_id) as db:
        store(db, world, RECORD, total=9900, payable=9700)
