"""The seed's own time: `now()` of its connections is looked up in a schema that is dropped at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine, event

from ledger.database import connect

ZONE: Final = ZoneInfo("Europe/Berlin")
CLOCK = """
    CREATE SCHEMA IF NOT EXISTS seed_clock;
    CREATE OR REPLACE FUNCTION seed_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS
        $$ SELECT current_setting('seed.now')::timestamptz $$;
    GRANT USAGE ON SCHEMA seed_clock TO onceback_console, onceback_worker;
    GRANT EXECUTE ON FUNCTION seed_clock.now() TO onceback_console, onceback_worker;
"""


class Clock:
    """The seed's time; every connection of its engines reads it."""

    def __init__(self) -> None:
        self.start = datetime.now(UTC)
        self.now = self.start

    def days_ago(self, days: float) -> None:
        """Sets the clock. Cases of one day fall on different minutes, so ages differ."""
        self.now = self.start - timedelta(days=days)

    def earlier_today(self, opened: float) -> None:
        """Within the last four hours of the shop's day, what was opened first first."""
        midnight = self.start.astimezone(ZONE).replace(hour=0, minute=0, second=1, microsecond=0)
        self.now = max(midnight.astimezone(UTC), self.start - timedelta(minutes=5 + 15 * opened))

    def engine(self, url: str) -> Engine:
        """An engine whose `now()` is this clock's."""
        made = connect(url, pool_size=4, statement_seconds=30, name="seed")
        event.listen(made, "begin", self._set)
        return made

    def _set(self, db: Connection) -> None:
        cursor = db.connection.cursor()
        cursor.execute("SET LOCAL search_path = seed_clock, pg_catalog, public")
        cursor.execute("SELECT set_config('seed.now', %s, true)", (self.now.isoformat(),))
        cursor.close()


@contextmanager
def seeding_clock(owner: Engine) -> Iterator[Clock]:
    """The clock and its schema, for the length of a block. `owner` is the schema owner's engine."""
    with owner.begin() as db:
        db.connection.cursor().execute(CLOCK)
    try:
        yield Clock()
    finally:
        with owner.begin() as db:
            db.exec_driver_sql("DROP SCHEMA seed_clock CASCADE")
