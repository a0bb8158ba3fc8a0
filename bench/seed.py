"""Rows in numbers that no command would make: copies of ones that commands made, with triggers and keys to others left out.

Only in the scratch database of a benchmark, by its administrator.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import psycopg
from psycopg import sql

# Time-ordered ids, so that the indexes grow as they do in life. `n` is the number of the copy.
_ID: Final = "('{kind}0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
_MERCHANT: Final = _ID.format(kind="1")
_CASE: Final = _ID.format(kind="2")
_INTENT: Final = _ID.format(kind="3")


def like_the_first(db: psycopg.Connection, first: UUID, count: int) -> list[UUID]:
    """`count` merchants like the first: account, policy, caps, people."""
    of_first = {"merchant_id": first}
    with _without_triggers(db):
        _copies(
            db,
            "merchants",
            {"id": first},
            count,
            {"id": _MERCHANT, "slug": "slug || '-' || n", "name": "name || ' ' || n"},
        )
        _copies(db, "provider_accounts", of_first, count, {
            "merchant_id": _MERCHANT, "provider_account_id": _ID.format(kind="4"), "account_ref": "'acct_bench' || n",
        })  # fmt: skip
        for table in ("merchant_brakes", "policies", "caps", "memberships"):
            _copies(db, table, of_first, count, {"merchant_id": _MERCHANT})
    made = db.execute("SELECT id FROM merchants WHERE id <> %s AND slug LIKE %s ORDER BY id", [first, "bench-%"])
    return [row[0] for row in made.fetchall()]


def settled_intents(db: psycopg.Connection, merchant_id: UUID, start: int, count: int) -> None:
    """`count` more refunds that were paid long ago, each with its case and its sent request, like the last one paid."""
    paid = db.execute(
        "SELECT intent_id, case_id FROM intents WHERE merchant_id = %s AND state = 'succeeded' ORDER BY number DESC LIMIT 1",
        [merchant_id],
    ).fetchone()
    if paid is None:
        raise RuntimeError("no refund was paid that the others could be like")
    intent = {"merchant_id": merchant_id, "intent_id": paid[0]}
    with _without_triggers(db):
        _copies(db, "cases", {"merchant_id": merchant_id, "case_id": paid[1]}, count, {
            "case_id": _CASE, "number": "100000000 + n",
        }, start)  # fmt: skip
        _copies(db, "intents", intent, count, {
            "intent_id": _INTENT, "case_id": _CASE, "number": "100000000 + n",
            "provider_key": "'onceback-refund-seeded-' || n", "provider_refund_ref": "'re_seeded' || n",
        }, start)  # fmt: skip
        _copies(db, "outbox", intent, count, {"intent_id": _INTENT}, start)
    for table in ("cases", "intents", "outbox"):
        db.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))


class _without_triggers:  # noqa: N801 - read as a word in `with`
    def __init__(self, db: psycopg.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("SET session_replication_role = replica")

    def __exit__(self, *_: object) -> None:
        self._db.execute("RESET session_replication_role")


def _copies(
    db: psycopg.Connection,
    table: str,
    of: Mapping[str, UUID],
    count: int,
    changed: Mapping[str, str],
    start: int = 0,
) -> None:
    found = db.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s"
        " AND is_generated = 'NEVER' ORDER BY ordinal_position", [table],
    )  # fmt: skip
    columns = [row[0] for row in found.fetchall()]
    values = [sql.SQL(changed[name]) if name in changed else sql.Identifier("t", name) for name in columns]
    which = sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(of[name])) for name in of)
    db.execute(sql.SQL("INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series({first}, {last}) n"
                       " CROSS JOIN (SELECT * FROM {table} WHERE {which}) t").format(
        table=sql.Identifier(table), columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(values), first=sql.Literal(start + 1), last=sql.Literal(start + count), which=which,
    ))  # fmt: skip
