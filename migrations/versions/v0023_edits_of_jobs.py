"""What was changed of jobs after their submission. Null: nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade():
    with jobs() as table:
        table.add_column(sa.Column("edits", sa.Text(), nullable=True))


def downgrade():
    with jobs() as table:
        table.drop_column("edits")


def jobs():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("jobs", recreate="always" if on_sqlite else "never")
