"""Devices that users have booked from one moment to another."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "bookings",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("from_at", sa.Double(), nullable=False),
        sa.Column("until_at", sa.Double(), nullable=False),
        sa.Column("cancelled_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bookings")),
    )
    op.create_index("ix_bookings_until_at", "bookings", ["until_at"])


def downgrade():
    op.drop_table("bookings")
