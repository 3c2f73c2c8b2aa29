"""The schema of the oldest gpuq that works with this record. Null: of the one whose schema it has."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade():
    with leadership() as table:
        table.add_column(sa.Column("oldest_gpuq", sa.Text(), nullable=True))


def downgrade():
    with leadership() as table:
        table.drop_column("oldest_gpuq")


def leadership():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("leadership", recreate="always" if on_sqlite else "never")
