"""The record as it first was: jobs, attempts, requests, journal, hosts, devices."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def where(condition):
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade():
    create_numbers()
    create_jobs()
    create_attempts()
    create_requests()
    create_journal()
    create_hosts_and_devices()


def create_numbers():
    numbers = op.create_table(
        "numbers",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_job", NUMBER, nullable=False),
        sa.Column("last_request", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_numbers")),
    )
    op.bulk_insert(numbers, [{"id": 1, "last_job": 0, "last_request": 0}])


def create_jobs():
    op.create_table(
        "jobs",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_since", sa.Double(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_state_id", "jobs", ["state", "id"])
    op.create_index("ix_jobs_owner_id", "jobs", ["owner", "id"])
    op.create_index(
        "uq_jobs_owner_idempotency_key",
        "jobs",
        ["owner", "idempotency_key"],
        unique=True,
        **where("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "job_records",
        sa.Column("job", NUMBER, autoincrement=False, nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_job_records_job")),
        sa.PrimaryKeyConstraint("job", name=op.f("pk_job_records")),
    )


def create_attempts():
    op.create_table(
        "attempts",
        sa.Column("job", NUMBER, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("launched_at", sa.Double(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.Double(), nullable=True),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("ending", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("log_path", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("features", sa.Text(), nullable=False),
        sa.Column("measurement", sa.Text(), nullable=True),
        sa.Column("actual", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_attempts_job")),
        sa.PrimaryKeyConstraint("job", "number", name=op.f("pk_attempts")),
    )
    op.create_index("ix_attempts_live", "attempts", ["job", "number"], **where("ended_at IS NULL"))
    op.create_index(
        "ix_attempts_finished",
        "attempts",
        ["ended_at", "job", "number"],
        **where("ended_at IS NOT NULL AND started_at IS NOT NULL"),
    )


def create_requests():
    op.create_table(
        "requests",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("job", NUMBER, nullable=True),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=op.f("fk_requests_job")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
    )


def create_journal():
    op.create_table(
        "journal",
        sa.Column("seq", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_job", NUMBER, nullable=True),
        sa.Column("last_job", NUMBER, nullable=True),
        sa.Column("jobs", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_journal")),
    )
    op.create_index("ix_journal_of_jobs", "journal", ["seq"], **where("first_job IS NOT NULL"))
    op.create_index("ix_journal_of_one_job", "journal", ["first_job", "seq"], **where("first_job = last_job"))
    op.create_index(
        "ix_journal_of_many_jobs", "journal", ["seq", "first_job", "last_job"], **where("first_job < last_job")
    )


def create_hosts_and_devices():
    op.create_table(
        "hosts",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("spooled", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_hosts")),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("total_memory", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_devices")),
    )


def downgrade():
    for table in ("devices", "hosts", "journal", "requests", "attempts", "job_records", "jobs", "numbers"):
        op.drop_table(table)
