"""Limits of people, pause, shadow, automatic approval."""

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Table, Text, UniqueConstraint, Uuid, text

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
