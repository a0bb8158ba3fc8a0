"""Goods that belong to no return we know of, and the one answer to each."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

Sequence("receipt_number", start=5001, data_type=BigInteger, metadata=metadata)

unmatched_receipts = Table(
    "unmatched_receipts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("receipt_id", Uuid, primary_key=True),
    Column("number", BigInteger, nullable=False, server_default=text("nextval('receipt_number'::regclass)")),
    Column("why", Text, nullable=False),
    Column("case_ref", Text, nullable=False, server_default=""),
    Column("order_ref", Text, nullable=False, server_default=""),
    Column("parcel", Text, nullable=False, server_default=""),
    Column("note", Text, nullable=False, server_default=""),
    Column("lines", JSONB, nullable=False),
    Column("channel", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Column("answered_at", MOMENT),
    UniqueConstraint("merchant_id", "number"),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    Index("unmatched_receipts_open", "merchant_id", "at", "receipt_id", postgresql_where=text("answered_at IS NULL")),
    Index(
        "unmatched_receipts_answered", "merchant_id", "answered_at", postgresql_where=text("answered_at IS NOT NULL")
    ),
)

receipt_answers = Table(
    "receipt_answers",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("receipt_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("case_id", Uuid),
    Column("counts", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("staff_id", Uuid, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "receipt_id"], ["unmatched_receipts.merchant_id", "unmatched_receipts.receipt_id"]
    ),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("receipt_answers_of_case", "merchant_id", "case_id", postgresql_where=text("case_id IS NOT NULL")),
)
