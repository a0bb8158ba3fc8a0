"""How people come, and how their roles change: by two admins."""

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata


def _decided() -> tuple[Column[object], ...]:
    """Who asked, and what the second admin said."""
    return (
        Column("asked_by", Uuid, nullable=False),
        Column("asked_at", MOMENT, nullable=False, server_default=NOW),
        Column("decided_by", Uuid),
        Column("decided_at", MOMENT),
        Column("granted", Boolean),
    )


def _member(column: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["merchant_id", column], ["memberships.merchant_id", "memberships.staff_id"])


def _invitation() -> ForeignKeyConstraint:
    columns = ["merchant_id", "invitation_id"]
    return ForeignKeyConstraint(columns, [f"invitations.{column}" for column in columns])


role_changes = Table(
    "role_changes",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("change_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("was", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("reason", Text, nullable=False),
    *_decided(),
    _member("staff_id"),
    _member("asked_by"),
    _member("decided_by"),
    Index(
        "one_open_change_of_a_person",
        "merchant_id",
        "staff_id",
        unique=True,
        postgresql_where=text("decided_at IS NULL"),
    ),
)

invitations = Table(
    "invitations",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("invitation_id", Uuid, primary_key=True),
    Column("email", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    *_decided(),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    _member("asked_by"),
    _member("decided_by"),
)

invitation_links = Table(
    "invitation_links",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("link_hash", LargeBinary, primary_key=True),
    Column("invitation_id", Uuid, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    _invitation(),
)

invitation_ends = Table(
    "invitation_ends",
    metadata,
    Column("merchant_id", Uuid),
    Column("invitation_id", Uuid),
    Column("staff_id", Uuid),
    Column("called_back_by", Uuid),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("merchant_id", "invitation_id", name="invited_once"),
    ForeignKeyConstraint(
        ["merchant_id", "staff_id"],
        ["memberships.merchant_id", "memberships.staff_id"],
        name="who_came",
        deferrable=True,
        initially="DEFERRED",
    ),
    _invitation(),
    _member("called_back_by"),
)

mails = Table(
    "mails",
    metadata,
    Column("mail_id", Uuid, primary_key=True),
    Column("to_address", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("facts", JSONB, nullable=False),
    Column("made_at", MOMENT, nullable=False, server_default=NOW),
    Column("due_at", MOMENT, nullable=False, server_default=NOW),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("sent_at", MOMENT),
    Column("given_up_at", MOMENT),
    Column("fault", Text),
    Index("mails_due", "due_at", postgresql_where=text("sent_at IS NULL AND given_up_at IS NULL")),
)
