"""A database that went back in time: generations, and what must be read again before it is paid."""

from sqlalchemy import BigInteger, Column, Date, ForeignKeyConstraint, Index, Integer, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

recoveries = Table(
    "recoveries",
    metadata,
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("first_engineer", Text, nullable=False),
    Column("second_engineer", Text, nullable=False),
    Column("backup_at", MOMENT, nullable=False),
    Column("started_at", MOMENT, nullable=False, server_default=NOW),
    Column("finished_at", MOMENT),
)

recovered_refunds = Table(
    "recovered_refunds",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("refund_ref", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("case_id", Uuid),
    Column("intent_id", Uuid),
    Column("capture_id", Uuid),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("reference", Text, nullable=False, server_default=""),
    Column("units", JSONB, nullable=False, server_default=text("'[]'")),
    Column("reason", Text, nullable=False, server_default=""),
    Column("refunded_at", MOMENT, nullable=False),
    Column("found_at", MOMENT, nullable=False, server_default=NOW),
    Column("first_engineer", Text),
    Column("second_engineer", Text),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["generation"], ["recoveries.generation"]),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "capture_id"], ["captures.merchant_id", "captures.capture_id"]),
    Index("recovered_refunds_of_case", "merchant_id", "case_id"),
)

void_approvals = Table(
    "void_approvals",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("approval_id", Uuid, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "approval_id"], ["approvals.merchant_id", "approvals.approval_id"]),
    ForeignKeyConstraint(["generation"], ["recoveries.generation"]),
)

recovered_cap_entries = Table(
    "recovered_cap_entries",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("refund_ref", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("currency", Text, nullable=False),
    Column("business_day", Date, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("counted_minor", BigInteger, nullable=False, server_default=text("0")),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "refund_ref"], ["external_refunds.merchant_id", "external_refunds.refund_ref"]
    ),
    Index("recovered_cap_entries_of_day", "merchant_id", "currency", "business_day"),
)

people_let_in = Table(
    "people_let_in",
    metadata,
    Column("staff_id", Uuid, primary_key=True),
    Column("at", MOMENT, primary_key=True, server_default=NOW),
    Column("engineer", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
)
