"""Which dispatcher leads: one row with the epoch, the holder of the lease, and when it was renewed."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade():
    leadership = op.create_table(
        "leadership",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", NUMBER, nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leadership")),
    )
    op.bulk_insert(leadership, [{"id": 1, "epoch": 0, "holder": None, "renewed_at": 0.0}])


def downgrade():
    op.drop_table("leadership")
