"""What cases that are no return ask for, exchanges, and amounts other than computed."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import INT4RANGE, ExcludeConstraint

from ledger.tables.base import MOMENT, NOW, metadata

case_asks = Table(
    "case_asks",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("order_id", Uuid, nullable=False),
    Column("line_id", Uuid, nullable=False),
    Column("line_quantity", Integer, nullable=False),
    Column("units", INT4RANGE),
    Column("minor", BigInteger, nullable=False),
    Column("conform_minor", BigInteger),
    Column("entry", Text, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    Column("live", Boolean, nullable=False, server_default="true"),
    ExcludeConstraint(
        ("merchant_id", "="),
        ("line_id", "="),
        ("units", "&&"),
        name="adjusted_once",
        using="gist",
        where=text("live AND kind = 'price_adjustment'"),
    ),
    ExcludeConstraint(
        ("merchant_id", "="),
        ("line_id", "="),
        ("units", "&&"),
        name="reduced_once",
        using="gist",
        where=text("live AND kind = 'price_reduction'"),
    ),
    ForeignKeyConstraint(
        ["merchant_id", "case_id", "order_id"], ["cases.merchant_id", "cases.case_id", "cases.order_id"]
    ),
    ForeignKeyConstraint(["merchant_id", "case_id", "kind"], ["cases.merchant_id", "cases.case_id", "cases.kind"]),
    ForeignKeyConstraint(
        ["merchant_id", "line_id", "order_id", "line_quantity"],
        ["order_lines.merchant_id", "order_lines.line_id", "order_lines.order_id", "order_lines.quantity"],
    ),
    Index("case_asks_of_order", "merchant_id", "order_id"),
    Index("case_asks_of_line", "merchant_id", "line_id"),
)

exchanges = Table(
    "exchanges",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("wish", Text, nullable=False),
    Column("in_stock", Boolean, nullable=False),
    Column("policy_id", Text, nullable=False),
    Column("policy_version", Integer, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "policy_id", "policy_version"],
        ["policies.merchant_id", "policies.policy_id", "policies.version"],
    ),
)

overrides = Table(
    "overrides",
    metadata,
    Column("merchant_id", Uuid, primary_key=True),
    Column("override_id", Uuid, primary_key=True),
    Column("case_id", Uuid, nullable=False),
    Column("n", Integer, nullable=False),
    Column("entitlement_id", Uuid, nullable=False),
    Column("computed_minor", BigInteger, nullable=False),
    Column("minor", BigInteger),
    Column("reason", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("at", MOMENT, nullable=False, server_default=NOW),
    UniqueConstraint("merchant_id", "case_id", "n"),
    UniqueConstraint("merchant_id", "override_id", "case_id", "asked_by"),
    ForeignKeyConstraint(["merchant_id", "case_id"], ["cases.merchant_id", "cases.case_id"]),
    ForeignKeyConstraint(
        ["merchant_id", "entitlement_id", "case_id"],
        ["entitlements.merchant_id", "entitlements.entitlement_id", "entitlements.case_id"],
    ),
)
