"""The seed's own time: `now()` of its connections, and of the defaults of columns, is that of a schema dropped at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Final
from unittest.mock import patch
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine, event

from ledger import ids
from ledger.database import connect

ZONE: Final = ZoneInfo("Europe/Berlin")
CLOCK = """
    CREATE SCHEMA IF NOT EXISTS seed_clock;
    CREATE OR REPLACE FUNCTION seed_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS
        $$ SELECT coalesce(nullif(current_setting('seed.now', true), '')::timestamptz, pg_catalog.now()) $$;
    GRANT USAGE ON SCHEMA seed_clock TO onceback_console, onceback_worker;
    GRANT EXECUTE ON FUNCTION seed_clock.now() TO onceback_console, onceback_worker;
"""


# A default is bound to its function when the table is made, so `at` of what the seed inserts would be the real time, hours after
# the provider's date of the same refund.
MOVE_DEFAULTS = """
    DO $$ DECLARE c record; BEGIN
        FOR c IN SELECT d.adrelid::regclass AS of_table, a.attname FROM pg_attrdef d
            JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
            JOIN pg_class k ON k.oid = d.adrelid AND k.relnamespace = 'public'::regnamespace
            WHERE pg_get_expr(d.adbin, d.adrelid) IN ('now()', 'seed_clock.now()') LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT {clock}.now()', c.of_table, c.attname);
        END LOOP; END $$
"""

# It counts a person's approvals by the hour, and its own search path would leave it at the real one.
COUNTING = "ALTER FUNCTION public.count_approval() SET search_path = {path}"


class Clock:
    """The seed's time; every connection of its engines reads it."""

    def __init__(self) -> None:
        self.start = datetime.now(UTC)
        self.now = self.start
        self._ticks = 0

    def days_ago(self, days: float) -> None:
        """Sets the clock. Cases of one day fall on different minutes, so ages differ."""
        self.now = self.start - timedelta(days=days)

    def earlier_today(self, opened: float) -> None:
        """Within the last four hours of the shop's day, what was opened first first."""
        midnight = self.start.astimezone(ZONE).replace(hour=0, minute=0, second=1, microsecond=0)
        self.now = max(midnight.astimezone(UTC), self.start - timedelta(minutes=5 + 15 * opened))

    def time_ns(self) -> int:
        """What `time.time_ns` would have said; it goes on between two readings of one moment, as time does."""
        self._ticks += 1
        return int(self.now.timestamp() * 1000) * 1_000_000 + self._ticks * 1_000_000

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
        db.exec_driver_sql(MOVE_DEFAULTS.replace("{clock}", "seed_clock").replace("%", "%%"))
        db.exec_driver_sql(COUNTING.replace("{path}", "seed_clock, pg_catalog, public, pg_temp"))
    clock = Clock()
    try:
        # Ids are in the order of time, and pages that read by them would show the whole past as of today.
        with patch.object(ids, "time", SimpleNamespace(time_ns=clock.time_ns)):
            yield clock
    finally:
        with owner.begin() as db:
            db.exec_driver_sql(MOVE_DEFAULTS.replace("{clock}", "pg_catalog").replace("%", "%%"))
            db.exec_driver_sql(COUNTING.replace("{path}", "public, pg_temp"))
            db.exec_driver_sql("DROP SCHEMA seed_clock CASCADE")
