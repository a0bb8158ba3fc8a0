"""Forms of payment: authorised, captured in parts, through a platform, split, paid back by hand."""

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Table, Text, UniqueConstraint, Uuid

from ledger.tables.base import MOMENT, NOW, metadata

capture_facts = Table(
    "capture_facts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("fact_id", Uuid, primary_key=True),
    Column("capture_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("payment_status", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "capture_id"], ["captures.merchant_id", "captures.capture_id"]),
    Index("capture_facts_of_capture", "merchant_id", "capture_id"),
)

manual_settlements = Table(
    "manual_settlements",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("tender", Text, nullable=False),
    Column("reference", Text),
    Column("reason", Text, nullable=False, server_default=""),
    Column("recorded_by", Uuid, nullable=False),
    Column("recorded_at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "tender", "reference"),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(["merchant_id", "recorded_by"], ["memberships.merchant_id", "memberships.staff_id"]),
)
