"""Refund intents, approvals, and the journals that move money."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

Sequence("intent_number", start=1001, data_type=BigInteger, metadata=metadata)

LIVE = "state IN ('proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review')"

intent_transitions = Table(
    "intent_transitions",
    metadata,
    Column("from_state", Text, primary_key=True),
    Column("to_state", Text, primary_key=True),
)

intents = Table(
    "intents",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("number", BigInteger, nullable=False, server_default=text("nextval('intent_number'::regclass)")),
    Column("case_id", Uuid, nullable=False),
    Column("order_id", Uuid, nullable=False),
    Column("capture_id", Uuid, nullable=False),
    Column("entitlement_id", Uuid, nullable=False),
    Column("replaces", Uuid),
    Column("amount_minor", BigInteger, nullable=False),
    Column("order_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("exponent", SmallInteger, nullable=False),
    Column("destination_kind", Text, nullable=False),
    Column("destination_brand", Text, nullable=False),
    Column("destination_last4", Text, nullable=False),
    Column("provider_account_id", Uuid),
    Column("payment_intent_ref", Text),
    Column("charge_ref", Text),
    Column("units", JSONB, nullable=False),
    Column("entitlement_digest", LargeBinary, nullable=False),
    Column("evidence_digest", LargeBinary, nullable=False),
    Column("policy_id", Text, nullable=False),
    Column("policy_version", Integer, nullable=False),
    Column("requester", Text, nullable=False),
    Column("case_opener", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("provider_key", Text, nullable=False),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    Column("state", Text, nullable=False, server_default="proposed"),
    Column("state_at", MOMENT, nullable=False, server_default=NOW),
    Column("state_reason", Text, nullable=False, server_default=""),
    Column("provider_refund_ref", Text),
    Column("provider_reference", Text, nullable=False, server_default=""),
    Column("lock_no", Integer, nullable=False, server_default="0"),
    Column("act", Text, nullable=False, server_default="refund"),
    Column("computed_minor", BigInteger),
    Column("override_id", Uuid),
    UniqueConstraint("provider_key"),
    UniqueConstraint("merchant_id", "number"),
    UniqueConstraint("merchant_id", "provider_refund_ref"),
    UniqueConstraint("merchant_id", "intent_id", "requester", "case_opener"),
    UniqueConstraint("merchant_id", "intent_id", "capture_id", "currency"),
    UniqueConstraint("merchant_id", "intent_id", "case_id"),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "order_id"], ["cases.merchant_id", "cases.case_id", "cases.order_id"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "case_opener"], ["cases.merchant_id", "cases.case_id", "cases.opened_by"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "capture_id", "currency"], ["captures.merchant_id", "captures.capture_id", "captures.currency"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "entitlement_id", "case_id"],
        ["entitlements.merchant_id", "entitlements.entitlement_id", "entitlements.case_id"],
    ),
    ForeignKeyConstraint(["merchant_id", "replaces"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "override_id", "case_id", "requester"],
        ["overrides.merchant_id", "overrides.override_id", "overrides.case_id", "overrides.asked_by"],
    ),
    ForeignKeyConstraint(
        ["merchant_id", "policy_id", "policy_version"],
        ["policies.merchant_id", "policies.policy_id", "policies.version"],
    ),
    Index(
        "one_live_intent_per_case_and_capture",
        "merchant_id",
        "case_id",
        "capture_id",
        unique=True,
        postgresql_where=text(LIVE),
    ),
    Index("intents_of_case", "merchant_id", "case_id"),
    Index("intents_of_order", "merchant_id", "order_id"),
    Index("intents_of_capture", "merchant_id", "capture_id"),
    Index(
        "intents_of_asker", "merchant_id", "requester", "created_at", postgresql_where=text("requester LIKE 'staff:%'")
    ),
    Index("intents_waiting", "merchant_id", "state", "state_at", "intent_id", postgresql_where=text(LIVE)),
    Index(
        "intents_exceptional",
        "merchant_id",
        "case_id",
        postgresql_where=text("state = 'proposed' AND route <> 'desk'"),
    ),
)

approvals = Table(
    "approvals",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("approval_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("seat", SmallInteger, nullable=False),
    Column("approver", Text, nullable=False),
    Column("staff_id", Uuid),
    Column("requester", Text, nullable=False),
    Column("case_opener", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("strength", Text, nullable=False),
    Column("note", Text, nullable=False, server_default=""),
    Column("operation_key", Text, nullable=False),
    Column("approved_at", MOMENT, nullable=False),
    Column("expires_at", MOMENT, nullable=False),
    Column("seal_key_id", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    UniqueConstraint("merchant_id", "intent_id", "seat", name="approved_once_per_seat"),
    UniqueConstraint("merchant_id", "intent_id", "approver", name="one_seat_per_person"),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "intent_id", "requester", "case_opener"],
        ["intents.merchant_id", "intents.intent_id", "intents.requester", "intents.case_opener"],
    ),
)

transfers = Table(
    "transfers",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("transfer_id", Uuid, primary_key=True),
    Column("capture_id", Uuid, nullable=False),
    Column("currency", Text, nullable=False),
    Column("intent_id", Uuid),
    Column("source_ref", Text),
    Column("step", Text, nullable=False),
    Column("from_balance", Text, nullable=False),
    Column("to_balance", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Column("part", SmallInteger, nullable=False, server_default=text("1")),
    UniqueConstraint("merchant_id", "intent_id", "step", name="one_transfer_per_step"),
    UniqueConstraint("merchant_id", "source_ref", "step", "part", name="one_transfer_per_part"),
    ForeignKeyConstraint(
        ["merchant_id", "capture_id", "currency"], ["captures.merchant_id", "captures.capture_id", "captures.currency"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "intent_id", "capture_id", "currency"],
        ["intents.merchant_id", "intents.intent_id", "intents.capture_id", "intents.currency"],
    ),
    Index("transfers_of_capture", "merchant_id", "capture_id"),
)

line_claims = Table(
    "line_claims",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("claim_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("line_id", Uuid, nullable=False),
    Column("step", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "intent_id", "line_id", "step"),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(["merchant_id", "line_id"], ["order_lines.merchant_id", "order_lines.line_id"]),
    Index("line_claims_of_line", "merchant_id", "line_id"),
)

caps = Table(
    "caps",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("limit_minor", BigInteger, nullable=False),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

cap_days = Table(
    "cap_days",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("business_day", Date, primary_key=True),
    Column("limit_minor", BigInteger, nullable=False),
    Column("used_minor", BigInteger, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["merchant_id", "currency"], ["caps.merchant_id", "caps.currency"]),
)

cap_entries = Table(
    "cap_entries",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("currency", Text, nullable=False),
    Column("business_day", Date, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    Index("cap_entries_of_day", "merchant_id", "currency", "business_day"),
)

cap_raises = Table(
    "cap_raises",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("raise_id", Uuid, primary_key=True),
    Column("currency", Text, nullable=False),
    Column("business_day", Date, nullable=False),
    Column("from_minor", BigInteger, nullable=False),
    Column("to_minor", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("asked_by", Uuid, nullable=False),
    Column("asked_at", MOMENT, nullable=False, server_default=NOW),
    Column("decided_by", Uuid),
    Column("decided_at", MOMENT),
    Column("granted", Boolean),
    ForeignKeyConstraint(["merchant_id", "asked_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "decided_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "currency"], ["caps.merchant_id", "caps.currency"]),
)

events = Table(
    "events",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("event_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", MOMENT, nullable=False),
    Column("intent_id", Uuid),
    Column("from_state", Text),
    Column("to_state", Text),
    Column("reason", Text, nullable=False, server_default=""),
    Column("case_stage", Text),
    Column("body", JSONB, nullable=False),
    Column("previous_number", Integer),
    Column("previous_hash", LargeBinary),
    Column("hash", LargeBinary, nullable=False),
    UniqueConstraint("merchant_id", "case_id", "number", "hash"),
    UniqueConstraint("merchant_id", "event_id"),
    ForeignKeyConstraint(
        ["from_state", "to_state"],
        ["intent_transitions.from_state", "intent_transitions.to_state"],
        name="listed_transitions",
    ),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "previous_number", "previous_hash"],
        ["events.merchant_id", "events.case_id", "events.number", "events.hash"],
        name="chained",
    ),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "intent_id", "case_id"], ["intents.merchant_id", "intents.intent_id", "intents.case_id"]
    ),
    Index("proposed_once", "merchant_id", "intent_id", unique=True, postgresql_where=text("from_state = 'new'::text")),
    Index("events_of_intent", "merchant_id", "intent_id", postgresql_where=text("intent_id IS NOT NULL")),
    Index("events_rejecting", "merchant_id", "event_id", postgresql_where=text("kind = 'case.rejected'::text")),
)
