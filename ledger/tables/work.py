"""What the workers need."""

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Integer, LargeBinary, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.base import MOMENT, NOW, metadata

outbox = Table(
    "outbox",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("request", JSONB, nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("trace", Text, nullable=False, server_default=""),
    Column("approved_at", MOMENT, nullable=False),
    Column("due_at", MOMENT, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("done_at", MOMENT),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    Index("outbox_due", "merchant_id", "due_at", "intent_id", postgresql_where=text("done_at IS NULL")),
)

attempts = Table(
    "attempts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("attempt_no", Integer, primary_key=True, autoincrement=False),
    Column("worker_id", BigInteger, nullable=False),
    Column("started_at", MOMENT, nullable=False, server_default=NOW),
    Column("lease_until", MOMENT, nullable=False),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["outbox.merchant_id", "outbox.intent_id"]),
)

attempt_results = Table(
    "attempt_results",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("attempt_no", Integer, primary_key=True, autoincrement=False),
    Column("outcome", Text, nullable=False),
    Column("http_status", Integer),
    Column("provider_request_ref", Text, nullable=False, server_default=""),
    Column("refund_ref", Text),
    Column("refund_status", Text),
    Column("code", Text, nullable=False, server_default=""),
    Column("detail", Text, nullable=False, server_default=""),
    Column("recorded_by", BigInteger, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(
        ["merchant_id", "intent_id", "attempt_no"],
        ["attempts.merchant_id", "attempts.intent_id", "attempts.attempt_no"],
    ),
)

looks = Table(
    "looks",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("look_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, nullable=False),
    Column("found", Text, nullable=False),
    Column("refund_ref", Text),
    Column("refund_status", Text),
    Column("detail", Text, nullable=False, server_default=""),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["outbox.merchant_id", "outbox.intent_id"]),
    Index("looks_of_intent", "merchant_id", "intent_id", "at"),
)

provider_events = Table(
    "provider_events",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("event_ref", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("object_ref", Text, nullable=False),
    Column("payment_intent_ref", Text, nullable=False, server_default=""),
    Column("created_at", MOMENT, nullable=False),
    Column("body_digest", LargeBinary, nullable=False),
    Column("received_at", MOMENT, nullable=False, server_default=NOW),
    Column("done_at", MOMENT),
    Column("result", Text, nullable=False, server_default=""),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    Index("provider_events_waiting", "merchant_id", "received_at", postgresql_where=text("done_at IS NULL")),
)

alarms = Table(
    "alarms",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("alarm_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("intent_id", Uuid),
    Column("text", Text, nullable=False),
    Column("raised_at", MOMENT, nullable=False, server_default=NOW),
    Column("closed_at", MOMENT),
    ForeignKeyConstraint(["merchant_id"], ["merchants.id"]),
    Index("alarms_open", "merchant_id", "raised_at", postgresql_where=text("closed_at IS NULL")),
)
