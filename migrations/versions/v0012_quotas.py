"""Quotas of users and projects, and the project of a job in a column, to count its waiting jobs."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

WAITS = "state = 'HELD' OR state = 'PENDING'"


def upgrade():
    op.create_table(
        "quotas",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("running_devices", sa.Integer(), nullable=True),
        sa.Column("waiting_jobs", sa.Integer(), nullable=True),
        sa.Column("device_hours", sa.Double(), nullable=True),
        sa.Column("window_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_quotas")),
    )
    with jobs() as table:
        table.add_column(sa.Column("project", sa.Text(), nullable=True))
    fill_projects(op.get_bind())
    for column in ("owner", "project"):
        op.create_index(
            f"ix_jobs_waiting_{column}",
            "jobs",
            [column],
            sqlite_where=sa.text(WAITS),
            postgresql_where=sa.text(WAITS),
        )


def downgrade():
    op.drop_index("ix_jobs_waiting_project", "jobs")
    op.drop_index("ix_jobs_waiting_owner", "jobs")
    with jobs() as table:
        table.drop_column("project")
    op.drop_table("quotas")


def jobs():
    """SQLite puts a column that is added behind the constraints, so there the table is made again."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    return op.batch_alter_table("jobs", recreate="always" if on_sqlite else "never")


def fill_projects(connection):
    """Read by Python: the two databases have different words for what is inside JSON."""
    after, many = 0, 1000
    page = sa.text("SELECT job, record FROM job_records WHERE job > :after ORDER BY job LIMIT :many")
    change = sa.text("UPDATE jobs SET project = :project WHERE id = :job")
    while rows := connection.execute(page, {"after": after, "many": many}).all():
        after = rows[-1].job
        projects = {row.job: json.loads(row.record)["submission"].get("project") for row in rows}
        values = [{"job": job, "project": project} for job, project in projects.items() if project is not None]
        if values:
            connection.execute(change, values)
