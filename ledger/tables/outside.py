"""What others do at the provider: refunds made there by hand, disputes."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from ledger.tables.base import MOMENT, NOW, metadata

ZERO = text("0")


def _found(name: str, ref: str, *own: Column[object]) -> Table:
    """The columns that a refund made outside and a dispute have in common."""
    return Table(
        name,
        metadata,
        Column("merchant_id", Uuid, primary_key=True),
        Column(ref, Text, primary_key=True),
        Column("provider_account_id", Uuid, nullable=False),
        Column("charge_ref", Text, nullable=False),
        Column("payment_intent_ref", Text, nullable=False),
        Column("amount_minor", BigInteger, nullable=False),
        Column("currency", Text, nullable=False),
        Column("created_at", MOMENT, nullable=False),
        Column("found_by", Text, nullable=False),
        Column("found_at", MOMENT, nullable=False, server_default=NOW),
        Column("status", Text, nullable=False, server_default=""),
        Column("status_at", MOMENT, nullable=False, server_default=NOW),
        Column("placed_minor", BigInteger, nullable=False, server_default=ZERO),
        Column("next_look_at", MOMENT),
        *own,
        ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
        ForeignKeyConstraint(
            ["merchant_id", "provider_account_id"],
            ["provider_accounts.merchant_id", "provider_accounts.provider_account_id"],
        ),
        Index(f"{name}_of_charge", "merchant_id", "charge_ref"),
        Index(f"{name}_to_look_at", "merchant_id", "next_look_at", postgresql_where=text("next_look_at IS NOT NULL")),
        Index(f"{name}_by_age", "merchant_id", "created_at"),
    )


external_refunds = _found(
    "external_refunds",
    "refund_ref",
    Column("kind", Text, nullable=False),
    Column("allocated_minor", BigInteger, nullable=False, server_default=ZERO),
)

disputes = _found(
    "disputes",
    "dispute_ref",
    Column("reason", Text, nullable=False),
    Column("due_at", MOMENT),
)

external_refund_states = Table(
    "external_refund_states",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("refund_ref", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("failure_reason", Text, nullable=False, server_default=""),
    Column("seen_by", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "refund_ref"], ["external_refunds.merchant_id", "external_refunds.refund_ref"]
    ),
)

external_allocations = Table(
    "external_allocations",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("allocation_id", Uuid, primary_key=True),
    Column("refund_ref", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("releases", Uuid),
    Column("case_id", Uuid),
    Column("line_id", Uuid),
    Column("amount_minor", BigInteger, nullable=False),
    Column("order_minor", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "releases"),
    ForeignKeyConstraint(
        ["merchant_id", "refund_ref"], ["external_refunds.merchant_id", "external_refunds.refund_ref"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "releases"], ["external_allocations.merchant_id", "external_allocations.allocation_id"]
    ),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "line_id"], ["order_lines.merchant_id", "order_lines.line_id"]),
    Index("external_allocations_of_case", "merchant_id", "case_id", postgresql_where=text("case_id IS NOT NULL")),
    Index("external_allocations_of_refund", "merchant_id", "refund_ref"),
)

dispute_states = Table(
    "dispute_states",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("dispute_ref", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("due_at", MOMENT),
    Column("seen_by", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "dispute_ref"], ["disputes.merchant_id", "disputes.dispute_ref"]),
)

dispute_rulings = Table(
    "dispute_rulings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("ruling_id", Uuid, primary_key=True),
    Column("dispute_ref", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "dispute_ref"),
    ForeignKeyConstraint(["merchant_id", "dispute_ref"], ["disputes.merchant_id", "disputes.dispute_ref"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

account_readings = Table(
    "account_readings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, primary_key=True),
    Column("list", Text, primary_key=True),
    Column("done_to", MOMENT),
    Column("began_at", MOMENT),
    Column("page_after", Text),
    Column("read_at", MOMENT),
    Column("failing_since", MOMENT),
    Column("due_at", MOMENT, nullable=False, server_default=NOW),
    Column("let_be_until", MOMENT),
    ForeignKeyConstraint(
        ["merchant_id", "provider_account_id"],
        ["provider_accounts.merchant_id", "provider_accounts.provider_account_id"],
    ),
)

payment_reads = Table(
    "payment_reads",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("payment_intent_ref", Text, primary_key=True),
    Column("minute_at", MOMENT, nullable=False, server_default=NOW),
    Column("reads", Integer, nullable=False, server_default=text("1")),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)
