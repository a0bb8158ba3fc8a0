"""Policies, and how a version of one comes into force: a draft and its one answer."""

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Integer, LargeBinary, Table, Text, UniqueConstraint, Uuid
from sqlalchemy.dialects.postgresql import JSONB, TSTZRANGE, ExcludeConstraint

from ledger.tables.base import MOMENT, NOW, metadata

policies = Table(
    "policies",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("policy_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("effective", TSTZRANGE, nullable=False),
    Column("document", JSONB, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("author", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("created_at", MOMENT, nullable=False, server_default=NOW),
    ExcludeConstraint(
        ("merchant_id", "="), ("policy_id", "="), ("effective", "&&"), name="policies_never_overlap", using="gist"
    ),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
)

policy_drafts = Table(
    "policy_drafts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("draft_id", Uuid, primary_key=True),
    Column("policy_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("document", JSONB, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("effective_from", MOMENT),
    Column("effective_to", MOMENT),
    Column("raises", Boolean, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("note", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "draft_id", "staff_id"),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)

policy_answers = Table(
    "policy_answers",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("draft_id", Uuid, primary_key=True),
    Column("answer", Text, nullable=False),
    Column("drafted_by", Uuid, nullable=False),
    Column("staff_id", Uuid, nullable=False),
    Column("raises", Boolean, nullable=False),
    Column("note", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "draft_id", "drafted_by"],
        ["policy_drafts.merchant_id", "policy_drafts.draft_id", "policy_drafts.staff_id"],
    ),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
)
