"""Arrays: which one a job is a task of, and what the tasks have in common."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0016"
branch_labels = None
depends_on = None

TASKS = "of_array IS NOT NULL"


def upgrade():
    with jobs() as table:
        table.add_column(sa.Column("of_array", number(), nullable=True))
    op.create_index(
        "ix_jobs_state_of_array",
        "jobs",
        ["state", "of_array"],
        sqlite_where=sa.text(TASKS),
        postgresql_where=sa.text(TASKS),
    )
    op.create_table(
        "arrays",
        sa.Column("id", number(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["jobs.id"], name=op.f("fk_arrays_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_arrays")),
    )


def downgrade():
    op.drop_table("arrays")
    op.drop_index("ix_jobs_state_of_array", "jobs")
    with jobs() as table:
        table.drop_column("of_array")


def number():
    """In SQLite only INTEGER is an alias of the row number."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def jobs():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("jobs", recreate="always" if on_sqlite else "never")
