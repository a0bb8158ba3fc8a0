"""Settling what only a person can settle, and what follows when money comes back late."""

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
from sqlalchemy.dialects.postgresql import ARRAY

from ledger.tables.base import MOMENT, NOW, metadata

provider_lists = Table(
    "provider_lists",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("list_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("asked_at", MOMENT, nullable=False),
    Column("taken_at", MOMENT, nullable=False, server_default=NOW),
    Column("refunds", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    UniqueConstraint("merchant_id", "list_id", "intent_id"),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["outbox.merchant_id", "outbox.intent_id"]),
    Index("provider_lists_of_intent", "merchant_id", "intent_id", "taken_at"),
)

listed_refunds = Table(
    "listed_refunds",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("list_id", Uuid, primary_key=True),
    Column("refund_ref", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("charge_ref", Text, nullable=False),
    Column("marked", Text, nullable=False),
    Column("created_at", MOMENT),
    ForeignKeyConstraint(["merchant_id", "list_id"], ["provider_lists.merchant_id", "provider_lists.list_id"]),
)

settlements = Table(
    "settlements",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("settlement_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("n", Integer, nullable=False),
    Column("list_id", Uuid),
    Column("outcome", Text, nullable=False),
    Column("refund_ref", Text),
    Column("named", ARRAY(Text), nullable=False, server_default="{}"),
    Column("note", Text, nullable=False),
    Column("proposed_by", Uuid, nullable=False),
    Column("proposed_role", Text, nullable=False),
    Column("proposed_at", MOMENT, nullable=False, server_default=NOW),
    Column("digest", LargeBinary, nullable=False),
    UniqueConstraint("merchant_id", "intent_id", "n"),
    UniqueConstraint("merchant_id", "settlement_id", "digest", "proposed_by", "proposed_role"),
    ForeignKeyConstraint(
        ["merchant_id", "list_id", "intent_id"],
        ["provider_lists.merchant_id", "provider_lists.list_id", "provider_lists.intent_id"],
    ),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(["merchant_id", "proposed_by"], ["memberships.merchant_id", "memberships.staff_id"]),
)

settlement_decisions = Table(
    "settlement_decisions",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("settlement_id", Uuid, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("proposed_by", Uuid, nullable=False),
    Column("proposed_role", Text, nullable=False),
    Column("decided_by", Uuid, nullable=False),
    Column("decided_role", Text, nullable=False),
    Column("confirmed", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("decided_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "settlement_id", "digest", "proposed_by", "proposed_role"],
        ["settlements.merchant_id", "settlements.settlement_id", "settlements.digest", "settlements.proposed_by",
         "settlements.proposed_role"],
    ),
    ForeignKeyConstraint(["merchant_id", "decided_by"], ["memberships.merchant_id", "memberships.staff_id"]),
)  # fmt: skip

settlement_results = Table(
    "settlement_results",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("settlement_id", Uuid, primary_key=True),
    Column("result", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "settlement_id"], ["settlement_decisions.merchant_id", "settlement_decisions.settlement_id"]
    ),
)
