"""Limits of people, pause, shadow, automatic approval."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from ledger.tables.base import MOMENT, NOW, metadata

deployment_brakes = Table(
    "deployment_brakes",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("paused_at", MOMENT, nullable=False),
    Column("paused_by", Text, nullable=False),
    Column("paused_reason", Text, nullable=False),
)

brake_pulls = Table(
    "brake_pulls",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("pull_id", Uuid, primary_key=True),
    Column("brake", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("staff_id", Uuid),
    Column("reason", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

brake_asks = Table(
    "brake_asks",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("ask_id", Uuid, primary_key=True),
    Column("brake", Text, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("role", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "ask_id", "brake", "staff_id", "role"),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

brake_answers = Table(
    "brake_answers",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("ask_id", Uuid, primary_key=True),
    Column("brake", Text, nullable=False),
    Column("asked_by", Uuid, nullable=False),
    Column("asked_role", Text, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("role", Text, nullable=False),
    Column("granted", Boolean, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "ask_id", "brake", "asked_by", "asked_role"],
        ["brake_asks.merchant_id", "brake_asks.ask_id", "brake_asks.brake", "brake_asks.staff_id", "brake_asks.role"],
    ),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

alarm_closings = Table(
    "alarm_closings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("alarm_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("did", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "alarm_id"], ["alarms.merchant_id", "alarms.alarm_id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

reviewer_windows = Table(
    "reviewer_windows",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("span", Text, primary_key=True),
    Column("starts_at", MOMENT, primary_key=True),
    Column("ends_at", MOMENT, nullable=False),
    Column("limit_count", Integer, nullable=False),
    Column("limit_minor", BigInteger, nullable=False),
    Column("used_count", Integer, nullable=False, server_default=text("0")),
    Column("used_minor", BigInteger, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

approval_entries = Table(
    "approval_entries",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("approval_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("seat", SmallInteger, nullable=False),
    Column("staff_id", Uuid),
    Column("currency", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=text("clock_timestamp()")),
    UniqueConstraint("merchant_id", "intent_id", "seat"),
    ForeignKeyConstraint(["merchant_id", "approval_id"], ["approvals.merchant_id", "approvals.approval_id"]),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
)

automatic_days = Table(
    "automatic_days",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("business_day", Date, primary_key=True),
    Column("limit_minor", BigInteger, nullable=False),
    Column("used_count", Integer, nullable=False, server_default=text("0")),
    Column("used_minor", BigInteger, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

shadow_sends = Table(
    "shadow_sends",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("request_digest", LargeBinary, nullable=False),
    Column("currency", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["outbox.merchant_id", "outbox.intent_id"]),
)

alarm_endings = Table(
    "alarm_endings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("alarm_id", Uuid, primary_key=True),
    Column("because", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "alarm_id"], ["alarms.merchant_id", "alarms.alarm_id"]),
)
