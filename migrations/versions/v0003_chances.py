"""Chances: what sharing would have done, while a gpuq ran exclusively."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade():
    op.create_table(
        "chances",
        sa.Column("job", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("beside_job", NUMBER, nullable=False),
        sa.Column("beside_attempt", sa.Integer(), nullable=False),
        sa.Column("free_at", sa.Double(), nullable=True),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("newcomer", sa.Double(), nullable=True),
        sa.Column("newcomer_upper", sa.Double(), nullable=True),
        sa.Column("resident", sa.Double(), nullable=True),
        sa.Column("resident_upper", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_chances_job")),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_chances")),
    )
    op.create_index("ix_chances_at", "chances", ["at"])


def downgrade():
    op.drop_table("chances")
