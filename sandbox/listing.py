"""Stripe's lists: newest first, ``limit``, ``starting_after``, ``ending_before``, ``created`` (§5)."""

import sqlite3
from collections.abc import Callable
from typing import Any

from sandbox.calls import TABLES, Call, find
from sandbox.render import Body, page


class Filter:
    """Conditions of one list, each a piece of SQL and its values."""

    def __init__(self, account: str) -> None:
        self.conditions = ["account = ?"]
        self.values: list[Any] = [account]

    def add(self, condition: str, *values: Any) -> None:
        self.conditions.append(condition)
        self.values.extend(values)

    def add_period(self, bounds: dict[str, int] | None) -> None:
        for sign, bound in (bounds or {}).items():
            self.add(f"created {sign} ?", bound)


def listed(db: sqlite3.Connection, call: Call, what: str, wanted: Filter, shown: Callable[[sqlite3.Row], Body]) -> Body:
    """One page of objects of a kind, newest first. An unknown cursor is 404 ``resource_missing``."""
    table = TABLES[what][0]
    limit = call.params.get("limit", 10)
    wanted.add_period(call.params.get("created"))
    backwards = "ending_before" in call.params
    cursor = call.params.get("ending_before") or call.params.get("starting_after")
    if cursor:
        at = find(db, call.account, what, cursor, "ending_before" if backwards else "starting_after")
        wanted.add(f"(created, seq) {'>' if backwards else '<'} (?, ?)", at["created"], at["seq"])
    order = "asc" if backwards else "desc"
    rows = db.execute(
        f"select * from {table} where {' and '.join(wanted.conditions)} "  # noqa: S608 - values are bound
        f"order by created {order}, seq {order} limit ?",
        (*wanted.values, limit + 1),
    ).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    if backwards:
        rows.reverse()
    return page([shown(row) for row in rows], more, call.path)
