"""Which worker service has a host's name, which one claimed an attempt, and when a launch was revoked.

Null for attempts of earlier versions: their claims are of an unknown instance.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade():
    with attempts() as table:
        table.add_column(sa.Column("instance", sa.Text(), nullable=True))
        table.add_column(sa.Column("revoked_at", sa.Double(), nullable=True))
    op.create_table(
        "host_leases",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_host_leases"),
    )


def downgrade():
    op.drop_table("host_leases")
    with attempts() as table:
        table.drop_column("revoked_at")
        table.drop_column("instance")


def attempts():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("attempts", recreate="always" if on_sqlite else "never")
