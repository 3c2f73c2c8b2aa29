"""What was seen on devices, and when: errors of the driver, lowered clocks, pauses for measuring."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "device_marks",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("from_at", sa.Double(), nullable=False),
        sa.Column("until_at", sa.Double(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("device", "kind", "detail", "from_at", name=op.f("pk_device_marks")),
    )
    op.create_index("ix_device_marks_until_at", "device_marks", ["until_at"])


def downgrade():
    op.drop_table("device_marks")
