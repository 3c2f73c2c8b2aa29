"""Hosts that an operator keeps new jobs off, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "drained_hosts",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_drained_hosts")),
    )


def downgrade():
    op.drop_table("drained_hosts")
