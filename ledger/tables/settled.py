"""Orders in question as two people settled them, and every allocation an order has had."""

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
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from ledger.tables.base import MOMENT, NOW, metadata

order_settlements = Table(
    "order_settlements",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("settlement_id", Uuid, primary_key=True),
    Column("order_id", Uuid, nullable=False),
    Column("before_digest", LargeBinary, nullable=False),
    Column("discrepancies", ARRAY(Text), nullable=False),
    Column("conflicts", ARRAY(Uuid), nullable=False),
    Column("conflict_id", Uuid),
    Column("choice", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("total_minor", BigInteger, nullable=False),
    Column("allocation_digest", LargeBinary, nullable=False),
    Column("names_after", ARRAY(Text), nullable=False),
    Column("line_ids", JSONB, nullable=False),
    Column("captures", JSONB, nullable=False),
    Column("parts", JSONB, nullable=False),
    Column("proposed_by", Uuid, nullable=False),
    Column("proposed_role", Text, nullable=False),
    Column("proposed_at", MOMENT, nullable=False, server_default=NOW),
    Column("digest", LargeBinary, nullable=False),
    UniqueConstraint("merchant_id", "settlement_id", "digest", "proposed_by"),
    ForeignKeyConstraint(["merchant_id", "order_id"], ["orders.merchant_id", "orders.order_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "order_id", "conflict_id"],
        ["order_conflicts.merchant_id", "order_conflicts.order_id", "order_conflicts.conflict_id"],
    ),
    ForeignKeyConstraint(
        ["merchant_id", "allocation_digest"], ["entitlement_sources.merchant_id", "entitlement_sources.digest"]
    ),
    ForeignKeyConstraint(["merchant_id", "proposed_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("order_settlements_of_order", "merchant_id", "order_id", "proposed_at"),
)

order_settlement_answers = Table(
    "order_settlement_answers",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("settlement_id", Uuid, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("proposed_by", Uuid, nullable=False),
    Column("decided_by", Uuid, nullable=False),
    Column("decided_role", Text, nullable=False),
    Column("confirmed", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("decided_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "settlement_id", "digest", "proposed_by"],
        ["order_settlements.merchant_id", "order_settlements.settlement_id", "order_settlements.digest",
         "order_settlements.proposed_by"],
    ),
    ForeignKeyConstraint(["merchant_id", "decided_by"], ["memberships.merchant_id", "memberships.staff_id"]),
)  # fmt: skip

order_allocations = Table(
    "order_allocations",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("order_id", Uuid, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("settlement_id", Uuid),
    Column("customer_id", Uuid),
    Column("facts", JSONB, nullable=False),
    Column("facts_digest", LargeBinary, nullable=False),
    Column("total_minor", BigInteger, nullable=False),
    Column("allocation", JSONB, nullable=False),
    Column("allocation_method", Text, nullable=False),
    Column("allocation_digest", LargeBinary, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "settlement_id"),
    ForeignKeyConstraint(["merchant_id", "order_id"], ["orders.merchant_id", "orders.order_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "settlement_id"],
        ["order_settlement_answers.merchant_id", "order_settlement_answers.settlement_id"],
    ),
)
