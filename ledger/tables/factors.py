"""What people prove themselves with, and what they showed with it."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from ledger.tables.base import MOMENT, NOW, metadata

totp_factors = Table(
    "totp_factors",
    metadata,
    Column("factor_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("sealed_seed", LargeBinary, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    Column("confirmed_at", MOMENT),
    Column("last_step", BigInteger),
    Column("last_used_at", MOMENT),
    Column("ended_at", MOMENT),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    Index(
        "one_app_of_a_person",
        "staff_id",
        unique=True,
        postgresql_where=text("confirmed_at IS NOT NULL AND ended_at IS NULL"),
    ),
)

passkeys = Table(
    "passkeys",
    metadata,
    Column("credential_id", LargeBinary, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("device_bound", Boolean, nullable=False),
    Column("enrolled_at", MOMENT, nullable=False),
    Column("seal_key_id", Text, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("backed_up", Boolean, nullable=False),
    Column("last_used_at", MOMENT),
    Column("ended_at", MOMENT),
    Column("ended_because", Text),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    Index("passkeys_of_staff", "staff_id", postgresql_where=text("ended_at IS NULL")),
)

recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("code_hash", LargeBinary, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    Column("ended_at", MOMENT),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    Index("recovery_codes_of_staff", "staff_id", postgresql_where=text("ended_at IS NULL")),
)

factor_acts = Table(
    "factor_acts",
    metadata,
    Column("act_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("session_hash", LargeBinary, nullable=False),
    Column("kind", Text, nullable=False),
    Column("signs_money", Boolean, nullable=False),
    Column("shown_at", MOMENT, nullable=False, server_default=NOW),
    Column("spent_at", MOMENT),
    Column("approval_id", Uuid),
    UniqueConstraint("approval_id"),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    ForeignKeyConstraint(["session_hash"], ["sessions.session_hash"]),
    Index("factor_acts_unspent", "session_hash", postgresql_where=text("spent_at IS NULL")),
    Index("factor_acts_recovered", "staff_id", "shown_at", postgresql_where=text("kind = 'recovery'")),
)

key_ceremonies = Table(
    "key_ceremonies",
    metadata,
    Column("nonce", LargeBinary, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("session_hash", LargeBinary, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    Column("spent_at", MOMENT),
    ForeignKeyConstraint(["staff_id"], ["staff.staff_id"]),
    ForeignKeyConstraint(["session_hash"], ["sessions.session_hash"]),
)

approval_challenges = Table(
    "approval_challenges",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("nonce", LargeBinary, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("session_hash", LargeBinary, nullable=False),
    Column("intent_id", Uuid, nullable=False),
    Column("act", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("earlier", LargeBinary, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    Column("spent_at", MOMENT),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
)

approval_assertions = Table(
    "approval_assertions",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("approval_id", Uuid, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("credential_id", LargeBinary, nullable=False),
    Column("act", Text, nullable=False),
    Column("earlier", LargeBinary, nullable=False),
    Column("client_data", LargeBinary, nullable=False),
    Column("authenticator_data", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("counter_before", BigInteger, nullable=False),
    Column("counter_after", BigInteger, nullable=False),
    UniqueConstraint("merchant_id", "nonce", name="signed_once"),
    ForeignKeyConstraint(["merchant_id", "nonce"], ["approval_challenges.merchant_id", "approval_challenges.nonce"]),
    ForeignKeyConstraint(
        ["merchant_id", "approval_id"],
        ["approvals.merchant_id", "approvals.approval_id"],
        name="of_its_approval",
        deferrable=True,
        initially="DEFERRED",
    ),
)

factor_resets = Table(
    "factor_resets",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("reset_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("reason", Text, nullable=False),
    Column("lost_since", MOMENT, nullable=False),
    Column("asked_by", Uuid, nullable=False),
    Column("asked_at", MOMENT, nullable=False, server_default=NOW),
    Column("decided_by", Uuid),
    Column("decided_at", MOMENT),
    Column("granted", Boolean),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "asked_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    ForeignKeyConstraint(["merchant_id", "decided_by"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index(
        "one_open_reset_of_a_person",
        "merchant_id",
        "staff_id",
        unique=True,
        postgresql_where=text("decided_at IS NULL"),
    ),
)
