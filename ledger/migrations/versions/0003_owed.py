"""What approves itself, what finishes the books, and what exactly is owed."""

from alembic import op

from ledger.migrations import run

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Row-level security and revoked functions are given to whatever is new, as revision 0002 did.
STEPS = (
    "0003_ceilings",
    "0003_automatic",
    "0003_books",
    "0003_speed",
    "0003_entitlement",
    "0003_store",
    "0003_deliveries",
    "0003_kinds",
    "0003_facts",
    "0003_credits",
    "0003_duplicates",
    "0003_policies",
    "0003_settled",
    "0003_exchange_credit",
    "0002_access",
)


def upgrade() -> None:
    for step in STEPS:
        run.execute_file(op.get_bind(), f"{step}.sql")


def downgrade() -> None:
    run.forward_only()
