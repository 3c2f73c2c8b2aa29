"""What is promised to attempts that were opened to partners because they were idle. Null: they were not."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade():
    with attempts() as table:
        table.add_column(
            sa.Column("opened_memory", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True)
        )


def downgrade():
    with attempts() as table:
        table.drop_column("opened_memory")


def attempts():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("attempts", recreate="always" if on_sqlite else "never")
