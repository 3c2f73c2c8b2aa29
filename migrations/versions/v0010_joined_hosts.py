"""Hosts that joined, or were invited to; and devices of hosts that were forgotten.

The rows of such devices stay: the types of the devices that past attempts ran on are in them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "joined_hosts",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("invited_until", sa.Double(), nullable=False),
        sa.Column("serial", sa.Text(), nullable=True),
        sa.Column("former_serial", sa.Text(), nullable=True),
        sa.Column("certified_until", sa.Double(), nullable=True),
        sa.Column("renew", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_joined_hosts"),
    )
    with devices() as table:
        table.add_column(sa.Column("forgotten", sa.Boolean(), nullable=True))


def downgrade():
    with devices() as table:
        table.drop_column("forgotten")
    op.drop_table("joined_hosts")


def devices():
    """SQLite appends an added column after the constraints, so there the table is created again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("devices", recreate="always" if on_sqlite else "never")
