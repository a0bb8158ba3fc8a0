"""The whole life of one refund: orders, cases, intents, the journals that move money, and who may touch what."""

from alembic import op

from ledger.migrations import run

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STEPS = ("registry", "orders", "cases", "intents", "work", "guards", "access")


def upgrade() -> None:
    for step in STEPS:
        run.execute_file(op.get_bind(), f"0001_{step}.sql")


def downgrade() -> None:
    run.forward_only()
