"""The names of jobs, for searches. Empty: it has none. Null: the name is in the record alone, as of earlier tasks of arrays."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

AT_ONCE = 1000


def upgrade():
    with jobs() as table:
        table.add_column(sa.Column("name", sa.Text(), nullable=True))
    # Not by SQL: the two databases read JSON differently, and neither all that a name may hold.
    read = sa.text("SELECT job, record FROM job_records WHERE job > :after ORDER BY job LIMIT :most")
    write = sa.text("UPDATE jobs SET name = :name WHERE id = :job")
    connection, after = op.get_bind(), 0
    while rows := connection.execute(read, {"after": after, "most": AT_ONCE}).all():
        connection.execute(write, [{"job": job, "name": name_in(record)} for job, record in rows])
        after = rows[-1].job


def downgrade():
    with jobs() as table:
        table.drop_column("name")


def name_in(record):
    """The name in the record of a job, as JSON text."""
    return json.loads(record)["submission"].get("name") or ""


def jobs():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("jobs", recreate="always" if on_sqlite else "never")
