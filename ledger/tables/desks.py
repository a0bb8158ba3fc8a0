"""What left as a file, and what the console refused."""

from sqlalchemy import Column, ForeignKeyConstraint, Integer, LargeBinary, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

exports = Table(
    "exports",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("export_id", Uuid, primary_key=True),
    Column("what", Text, nullable=False),
    Column("filter", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

export_ends = Table(
    "export_ends",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("export_id", Uuid, primary_key=True),
    Column("rows", Integer, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "export_id"], ["exports.merchant_id", "exports.export_id"]),
)

refused_acts = Table(
    "refused_acts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("refusal_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)
