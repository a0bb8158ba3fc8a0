"""What Alembic runs for every command: one connection as the owner, one lock, time limits, the mirror."""

import os

from alembic import context
from alembic.util import CommandError

from ledger import tables
from ledger.migrations.run import only_migrator


def main() -> None:
    if context.is_offline_mode():
        raise CommandError("Migrations run against a database, never as printed SQL: leave out --sql.")
    url = context.config.attributes.get("url") or os.environ.get("DATABASE_URL", "")
    if not url:
        raise CommandError("Set DATABASE_URL to the database to migrate, as onceback_owner or as an administrator.")
    with only_migrator(url) as connection:
        context.configure(
            connection=connection,
            target_metadata=tables.metadata,
            compare_type=True,
            compare_server_default=tables.same_default,
            include_object=tables.compared,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()


main()
