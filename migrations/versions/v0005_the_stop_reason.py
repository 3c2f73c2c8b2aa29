"""Why gpuq stops an attempt: `cancelled` or `preempted`, null for one that is not being stopped.

Until now a restarted dispatcher inferred it from the job. Attempts that are being stopped during the upgrade get it in the same
way.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INFER = """
    UPDATE attempts SET stop_reason = :reason WHERE ended_at IS NULL AND job IN
    (SELECT id FROM jobs WHERE state = 'COMPLETING' AND cancel_requested = :cancelled)
"""


def upgrade():
    with attempts() as table:
        table.add_column(sa.Column("stop_reason", sa.Text(), nullable=True))
    infer = sa.text(_INFER).bindparams(sa.bindparam("cancelled", type_=sa.Boolean()))
    for reason, cancelled in (("cancelled", True), ("preempted", False)):
        op.get_bind().execute(infer, {"reason": reason, "cancelled": cancelled})


def downgrade():
    with attempts() as table:
        table.drop_column("stop_reason")


def attempts():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("attempts", recreate="always" if on_sqlite else "never")
