"""Runs that compare the books with the provider, and the discrepancies they name."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
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

_ACCOUNT = ["provider_accounts.merchant_id", "provider_accounts.provider_account_id"]
_RUN = ["reconciliation_runs.merchant_id", "reconciliation_runs.run_id"]
_DISCREPANCY = ["discrepancies.merchant_id", "discrepancies.discrepancy_id"]

reconciliation_runs = Table(
    "reconciliation_runs",
    metadata,
    Column("merchant_id", Uuid, ForeignKey("merchants.id"), primary_key=True),
    Column("run_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, nullable=False),
    Column("from_at", MOMENT, nullable=False),
    Column("to_at", MOMENT, nullable=False),
    Column("night", Date),
    Column("asked_by", Text, nullable=False),
    Column("asked_at", MOMENT, nullable=False, server_default=NOW),
    Column("started_at", MOMENT),
    Column("finished_at", MOMENT),
    Column("worker_id", BigInteger),
    Column("lease_until", MOMENT),
    Column("waits_for", Text, nullable=False, server_default=""),
    UniqueConstraint("merchant_id", "provider_account_id", "night"),
    ForeignKeyConstraint(["merchant_id", "provider_account_id"], _ACCOUNT),
    Index("reconciliation_runs_open", "merchant_id", "asked_at", postgresql_where=text("finished_at IS NULL")),
)

reconciliation_sides = Table(
    "reconciliation_sides",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("run_id", Uuid, primary_key=True),
    Column("side", Text, primary_key=True),
    Column("position", SmallInteger, nullable=False),
    Column("cursor", Text, nullable=False, server_default=""),
    Column("reached_at", MOMENT),
    Column("pages", Integer, nullable=False, server_default="0"),
    Column("rows_read", BigInteger, nullable=False, server_default=text("0")),
    Column("done_at", MOMENT),
    UniqueConstraint("merchant_id", "run_id", "position"),
    ForeignKeyConstraint(["merchant_id", "run_id"], _RUN),
)

reconciliation_totals = Table(
    "reconciliation_totals",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("run_id", Uuid, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("ours_minor", BigInteger, nullable=False, server_default=text("0")),
    Column("theirs_minor", BigInteger, nullable=False, server_default=text("0")),
    Column("ours_count", BigInteger, nullable=False, server_default=text("0")),
    Column("theirs_count", BigInteger, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["merchant_id", "run_id"], _RUN),
)

provider_refunds = Table(
    "provider_refunds",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, primary_key=True),
    Column("refund_ref", Text, primary_key=True),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("payment_intent_ref", Text, nullable=False),
    Column("charge_ref", Text, nullable=False),
    Column("intent_ref", Text, nullable=False),
    Column("failure_reason", Text, nullable=False),
    Column("created_at", MOMENT, nullable=False),
    Column("seen_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "provider_account_id"], _ACCOUNT),
)

provider_movements = Table(
    "provider_movements",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, primary_key=True),
    Column("movement_ref", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("source_ref", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("converted", Boolean, nullable=False),
    Column("created_at", MOMENT, nullable=False),
    Column("seen_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "provider_account_id"], _ACCOUNT),
    Index("provider_movements_of_source", "merchant_id", "provider_account_id", "source_ref"),
)

provider_disputes = Table(
    "provider_disputes",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("provider_account_id", Uuid, primary_key=True),
    Column("dispute_ref", Text, primary_key=True),
    Column("amount_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("charge_ref", Text, nullable=False),
    Column("payment_intent_ref", Text, nullable=False),
    Column("created_at", MOMENT, nullable=False),
    Column("seen_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "provider_account_id"], _ACCOUNT),
)

Sequence("discrepancy_number", start=101, data_type=BigInteger, metadata=metadata)

discrepancies = Table(
    "discrepancies",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("discrepancy_id", Uuid, primary_key=True),
    Column("number", BigInteger, nullable=False, server_default=text("nextval('discrepancy_number'::regclass)")),
    Column("provider_account_id", Uuid, nullable=False),
    Column("run_id", Uuid),
    Column("kind", Text, nullable=False),
    Column("refund_ref", Text, nullable=False),
    Column("intent_id", Uuid),
    Column("occurrence", Integer, nullable=False),
    Column("follows", Uuid),
    Column("ours", JSONB, nullable=False),
    Column("theirs", JSONB, nullable=False),
    Column("owner", Text, nullable=False, server_default="finance"),
    Column("dated_at", MOMENT, nullable=False),
    Column("found_at", MOMENT, nullable=False, server_default=NOW),
    Column("about", Text, nullable=False, server_default="refund"),
    UniqueConstraint("merchant_id", "number"),
    UniqueConstraint(
        "merchant_id", "provider_account_id", "refund_ref", "kind", "occurrence", name="one_row_for_one_finding"
    ),
    ForeignKeyConstraint(["merchant_id", "run_id"], _RUN),
    ForeignKeyConstraint(["merchant_id", "provider_account_id"], _ACCOUNT),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(["merchant_id", "follows"], _DISCREPANCY),
    Index("discrepancies_by_time", "merchant_id", text("found_at DESC"), text("discrepancy_id DESC")),
)

reconciliation_findings = Table(
    "reconciliation_findings",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("run_id", Uuid, primary_key=True),
    Column("discrepancy_id", Uuid, nullable=False),
    Column("part", Text, primary_key=True),
    Column("source_ref", Text, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("difference_minor", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "run_id"], _RUN),
    ForeignKeyConstraint(["merchant_id", "discrepancy_id"], _DISCREPANCY),
    Index("reconciliation_findings_of_discrepancy", "merchant_id", "discrepancy_id"),
)

discrepancy_acts = Table(
    "discrepancy_acts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("act_id", Uuid, primary_key=True),
    Column("discrepancy_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("code", Text),
    Column("note", Text, nullable=False, server_default=""),
    Column("actor", Text, nullable=False),
    Column("staff_id", Uuid),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "discrepancy_id"], _DISCREPANCY),
    ForeignKeyConstraint(["merchant_id", "staff_id"], ["memberships.merchant_id", "memberships.staff_id"]),
    Index("discrepancy_acts_of_discrepancy", "merchant_id", "discrepancy_id", "at"),
    Index(
        "discrepancy_resolved_once",
        "merchant_id",
        "discrepancy_id",
        unique=True,
        postgresql_where=text("kind = 'resolved'"),
    ),
)

self_checks = Table(
    "self_checks",
    metadata,
    Column("merchant_id", Uuid, ForeignKey("merchants.id"), primary_key=True),
    Column("night", Date, primary_key=True),
    Column("checked_at", MOMENT, nullable=False, server_default=NOW),
    Column("faults", Integer, nullable=False),
)
