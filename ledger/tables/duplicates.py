"""Duplicate charges: which payments a case claims, the readings that were asked for, and what was found."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

charge_claims = Table(
    "charge_claims",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("claim_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("order_id", Uuid, nullable=False),
    Column("capture_id", Uuid, nullable=False),
    Column("live", Boolean, nullable=False, server_default="true"),
    UniqueConstraint("merchant_id", "case_id", "capture_id"),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "order_id"], ["cases.merchant_id", "cases.case_id", "cases.order_id"]
    ),
    ForeignKeyConstraint(["merchant_id", "capture_id"], ["captures.merchant_id", "captures.capture_id"]),
    Index(
        "one_live_duplicate_case_per_capture", "merchant_id", "capture_id", unique=True, postgresql_where=text("live")
    ),
    Index("charge_claims_of_order", "merchant_id", "order_id"),
)

charge_readings = Table(
    "charge_readings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("reading_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("asked_at", MOMENT, nullable=False, server_default=NOW),
    Column("due_at", MOMENT, nullable=False, server_default=NOW),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("done_at", MOMENT),
    UniqueConstraint("merchant_id", "reading_id", "case_id"),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    Index("one_reading_at_a_time", "merchant_id", "case_id", unique=True, postgresql_where=text("done_at IS NULL")),
    Index("charge_readings_due", "merchant_id", "due_at", postgresql_where=text("done_at IS NULL")),
)

charge_findings = Table(
    "charge_findings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("finding_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("n", Integer, nullable=False),
    Column("reading_id", Uuid, nullable=False),
    Column("finding", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("capture_id", Uuid),
    Column("amount_minor", BigInteger),
    Column("inputs", JSONB, nullable=False),
    Column("record", JSONB, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "case_id", "n"),
    UniqueConstraint("merchant_id", "reading_id"),
    ForeignKeyConstraint(
        ["merchant_id", "reading_id", "case_id"],
        ["charge_readings.merchant_id", "charge_readings.reading_id", "charge_readings.case_id"],
    ),
    ForeignKeyConstraint(["merchant_id", "capture_id"], ["captures.merchant_id", "captures.capture_id"]),
)
