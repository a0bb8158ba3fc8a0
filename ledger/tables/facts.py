"""What is stated of a case beside goods and parcels."""

from sqlalchemy import Column, ForeignKeyConstraint, Index, Integer, Table, Text, UniqueConstraint, Uuid, text

from ledger.tables.base import MOMENT, NOW, metadata

case_facts = Table(
    "case_facts",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("fact_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("order_id", Uuid, nullable=False),
    Column("line_id", Uuid),
    Column("line_quantity", Integer),
    Column("said", Text, nullable=False),
    Column("cure", Text),
    Column("happened_at", MOMENT),
    Column("customer_ref", Text),
    Column("note", Text, nullable=False, server_default=""),
    Column("channel", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "case_id", "number"),
    Index("case_facts_cured", "merchant_id", "order_id", postgresql_where=text("kind = 'cure'")),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "order_id"], ["cases.merchant_id", "cases.case_id", "cases.order_id"]
    ),
    ForeignKeyConstraint(
        ["merchant_id", "line_id", "order_id", "line_quantity"],
        ["order_lines.merchant_id", "order_lines.line_id", "order_lines.order_id", "order_lines.quantity"],
    ),
)
