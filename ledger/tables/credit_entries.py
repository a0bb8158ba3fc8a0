"""Credit entries of refunds that were paid, or came back; and what the shop calls its invoices."""

from sqlalchemy import BigInteger, Column, Date, ForeignKeyConstraint, Index, Integer, Table, Text, Uuid

from ledger.tables.base import MOMENT, NOW, metadata

order_invoices = Table(
    "order_invoices",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("order_id", Uuid, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("invoice_ref", Text, nullable=False),
    Column("stated_at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "order_id"], ["orders.merchant_id", "orders.order_id"]),
)

credit_entries = Table(
    "credit_entries",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("order_id", Uuid, nullable=False),
    Column("invoice_ref", Text),
    Column("reason", Text, nullable=False),
    Column("dated_on", Date, nullable=False),
    Column("order_currency", Text, nullable=False),
    Column("order_minor", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),
    Column("person", Text, nullable=False, server_default=""),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "intent_id"], ["intents.merchant_id", "intents.intent_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "order_id"], ["cases.merchant_id", "cases.case_id", "cases.order_id"]
    ),
    Index("credit_entries_dated", "merchant_id", "dated_on", "intent_id"),
    Index("credit_entries_of_case", "merchant_id", "case_id"),
)

credit_rows = Table(
    "credit_rows",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("intent_id", Uuid, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("line_ref", Text, nullable=False),
    Column("units", Text, nullable=False),
    Column("code", Text),
    Column("rate_ppm", Integer),
    Column("gross_minor", BigInteger, nullable=False),
    Column("net_minor", BigInteger, nullable=False),
    Column("tax_minor", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["merchant_id", "intent_id", "step"],
        ["credit_entries.merchant_id", "credit_entries.intent_id", "credit_entries.step"],
    ),
)
