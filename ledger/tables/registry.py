"""Deployment, merchants, people, sessions, tokens."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

deployment = Table(
    "deployment",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default="true"),
    Column("deployment_id", Uuid, nullable=False),
    Column("generation", Integer, nullable=False, server_default="1"),
    Column("livemode", Boolean, nullable=False, server_default="false"),
)

merchants = Table(
    "merchants",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("slug", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("region", Text, nullable=False, server_default=""),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    Column("second_factor", Text, nullable=False, server_default="own"),
    UniqueConstraint("slug"),
)

merchant_brakes = Table(
    "merchant_brakes",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("paused_at", MOMENT),
    Column("paused_by", Text),
    Column("stopped_at", MOMENT),
    Column("stopped_reason", Text),
    Column("paused_reason", Text),
    Column("shadow_at", MOMENT),
    Column("shadow_by", Text),
    Column("shadow_reason", Text),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

provider_accounts = Table(
    "provider_accounts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("account_ref", Text, nullable=False, server_default=""),
    Column("livemode", Boolean, nullable=False),
    Column("credential", Text, nullable=False),
    Column("charge_type", Text, nullable=False, server_default="own"),
    Column("expected_account_ref", Text),
    UniqueConstraint("credential", "account_ref"),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

staff = Table(
    "staff",
    metadata,
    Column("staff_id", Uuid, primary_key=True),
    Column("email", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("zone", Text, nullable=False, server_default=""),
    Column("theme", Text, nullable=False, server_default="system"),
    Column("shortcuts", Boolean, nullable=False, server_default="true"),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    Column("last_sign_in_at", MOMENT),
    Column("disabled_at", MOMENT),
    Column("mail_work", Boolean, nullable=False, server_default="false"),
    UniqueConstraint("email"),
)

memberships = Table(
    "memberships",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, primary_key=True),
    Column("role", Text, nullable=False),
    Column("since", MOMENT, nullable=False, server_default=NOW),
    Column("ended_at", MOMENT),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
)

sessions = Table(
    "sessions",
    metadata,
    Column("session_hash", LargeBinary, primary_key=True),
    Column("staff_id", Uuid),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    Column("seen_at", MOMENT, nullable=False, server_default=NOW),
    Column("user_agent_hash", LargeBinary, nullable=False),
    Column("address", Text, nullable=False),
    Column("content", JSONB, nullable=False, server_default="{}"),
    Column("ended_at", MOMENT),
    Column("waits_for", Text),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    Index("sessions_of_staff", "staff_id", postgresql_where=text("ended_at IS NULL")),
)

sign_in_misses = Table(
    "sign_in_misses",
    metadata,
    Column("miss_id", Uuid, primary_key=True),
    Column("bucket", LargeBinary, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Index("sign_in_misses_by_bucket", "bucket", "at"),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("token_id", Text, primary_key=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("networks", ARRAY(Text), nullable=False, server_default="{}"),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    Column("expires_at", MOMENT, nullable=False),
    Column("last_used_at", MOMENT),
    Column("revoked_at", MOMENT),
    UniqueConstraint("token_id"),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_digest", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("answer", JSONB, nullable=False),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)
