"""Who has a case in hand, who looks at it, what it is tagged with, whom a note speaks to."""

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Index, Table, Text, Uuid, text

from ledger.tables.base import MOMENT, NOW, metadata

case_leases = Table(
    "case_leases",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("taken_at", MOMENT, nullable=False, server_default=NOW),
    Column("until", MOMENT, nullable=False),
    Column("by_next", Boolean, nullable=False, server_default="false"),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("case_leases_of_person", "merchant_id", "staff_id", "until"),
)

case_presence = Table(
    "case_presence",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("doing", Text, nullable=False),
    Column("seen_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("case_presence_of_case", "merchant_id", "case_id"),
)

case_tags = Table(
    "case_tags",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("tag", Text, primary_key=True),
    Column("staff_id", Uuid, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Column("gone_at", MOMENT),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("case_tags_by_tag", "merchant_id", "tag", "case_id", postgresql_where=text("gone_at IS NULL")),
)

mentions = Table(
    "mentions",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("note_id", Uuid, primary_key=True),
    Column("staff_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Column("read_at", MOMENT),
    ForeignKeyConstraint(
        ["merchant_id", "note_id", "case_id"], ["notes.merchant_id", "notes.note_id", "notes.case_id"]
    ),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("mentions_unread", "merchant_id", "staff_id", "case_id", postgresql_where=text("read_at IS NULL")),
)
