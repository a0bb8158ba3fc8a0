"""Money movement under every fault: what others do at the provider, review, forms of payment, brakes, reconciliation, watch."""

from alembic import op

from ledger.migrations import run

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STEPS = ("roles", "outside", "review", "payments", "brakes", "reconciliation", "recovery", "access")


def upgrade() -> None:
    for step in STEPS:
        run.execute_file(op.get_bind(), f"0002_{step}.sql")


def downgrade() -> None:
    run.forward_only()
