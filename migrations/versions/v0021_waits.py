"""What has become of the things that a job waits for besides a device. Null: it waits for nothing else."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade():
    with jobs() as table:
        table.add_column(sa.Column("waits", sa.Text(), nullable=True))


def downgrade():
    with jobs() as table:
        table.drop_column("waits")


def jobs():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("jobs", recreate="always" if on_sqlite else "never")
