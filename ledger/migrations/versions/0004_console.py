"""What people prove themselves with, how strong an approval is, what leaves as a file or was refused, who works on what,
and how people come in."""

from alembic import op

from ledger.migrations import run

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Row-level security and revoked functions are given to whatever is new, as revision 0002 did.
STEPS = (
    "0004_factors",
    "0004_approving",
    "0004_desks",
    "0004_teamwork",
    "0004_receipts",
    "0004_erasure",
    "0004_people",
    "0004_accounts",
    "0002_access",
)


def upgrade() -> None:
    for step in STEPS:
        run.execute_file(op.get_bind(), f"{step}.sql")


def downgrade() -> None:
    run.forward_only()
