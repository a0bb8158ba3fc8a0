"""How long personal data is kept, and who asked to be forgotten."""

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Index, Integer, Table, Text, Uuid, text

from ledger.tables.base import MOMENT, NOW, metadata

retention = Table(
    "retention",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("text_months", Integer, nullable=False, server_default=text("24")),
    Column("photo_days", Integer, nullable=False, server_default=text("540")),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

erasures = Table(
    "erasures",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("erasure_id", Uuid, primary_key=True),
    Column("customer_id", Uuid, nullable=False),
    Column("reason", Text, nullable=False),
    Column("asked_by", Uuid, nullable=False),
    Column("asked_at", MOMENT, nullable=False, server_default=NOW),
    Column("decided_by", Uuid),
    Column("decided_at", MOMENT),
    Column("granted", Boolean),
    Column("done_at", MOMENT),
    Column("cases", Integer),
    Column("photos", Integer),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["merchant_id", "customer_id"], ["customers.merchant_id", "customers.customer_id"]),
    ForeignKeyConstraint(["merchant_id", "asked_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "decided_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index(
        "one_erasure_waits",
        "merchant_id",
        "customer_id",
        unique=True,
        postgresql_where=text("decided_at IS NULL OR granted AND done_at IS NULL"),
    ),
)
