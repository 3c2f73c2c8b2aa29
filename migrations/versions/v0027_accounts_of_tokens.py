"""The number of the account that a token was made for. Null: unknown, as of earlier tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("tokens", sa.Column("uid", sa.BigInteger(), nullable=True))


def downgrade():
    with op.batch_alter_table("tokens") as table:
        table.drop_column("uid")
