"""What lists show of jobs, apart from the rest of their records. Jobs from before have none: lists read their records."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade():
    op.create_table(
        "job_lines",
        sa.Column("job", NUMBER, autoincrement=False, nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_job_lines_job")),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_job_lines")),
    )


def downgrade():
    op.drop_table("job_lines")
