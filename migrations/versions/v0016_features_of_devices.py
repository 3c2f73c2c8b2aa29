"""The features of devices, as JSON. Null: none."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade():
    with devices() as table:
        table.add_column(sa.Column("features", sa.Text(), nullable=True))


def downgrade():
    with devices() as table:
        table.drop_column("features")


def devices():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("devices", recreate="always" if on_sqlite else "never")
