"""How a device is shared: MPS, time-slicing, or (null) not known."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade():
    with devices() as table:
        table.add_column(sa.Column("sharing", sa.Text(), nullable=True))


def downgrade():
    with devices() as table:
        table.drop_column("sharing")


def devices():
    """SQLite appends an added column after the constraints, so there the table is created again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("devices", recreate="always" if on_sqlite else "never")
