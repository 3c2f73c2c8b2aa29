"""The fingerprint of the dispatchers' key, and the number from which new attempts count. Null: none yet, and 1."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade():
    with leadership() as table:
        table.add_column(sa.Column("order_key", sa.Text(), nullable=True))
        table.add_column(sa.Column("first_attempt", sa.Integer(), nullable=True))


def downgrade():
    with leadership() as table:
        table.drop_column("first_attempt")
        table.drop_column("order_key")


def leadership():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("leadership", recreate="always" if on_sqlite else "never")
