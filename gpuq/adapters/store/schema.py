"""The tables, for SQLite and PostgreSQL alike. `migrations/` creates them.

A value that is filtered or sorted by has a column; the rest is JSON as text. Some need an explanation:

- `numbers` has one row: the last job id and the last request id. A submission locks it first, so ids follow the order of commits,
  and the look-up of an idempotency key sees every earlier submission, on both databases.
- `leadership` has one row, too: the dispatcher that leads, when it last renewed its lease, and what all dispatchers share.
- `job_records` is apart from `jobs` because a submission carries a whole environment: a new verdict for thousands of waiting
  jobs rewrites the small rows only.
- `job_lines` has of each long record what lists show, because a record with a script on standard input may have a megabyte. The
  others, and those that an earlier gpuq wrote, are read whole.
- `jobs.name` is the name as it was submitted, empty for a job without one, so that a search reads no `job_records`. It is null
  where an earlier gpuq wrote the row; then the name is in the record alone.
- `arrays` has what all tasks of an array have in common, and their parameters, in one record. The tasks are `count` jobs that are
  numbered from `id` on; they have no row in `job_records` and `job_lines`.
- `journal` has the lowest and highest job id of an entry in columns, and all of them as runs in `jobs` ("5-900,903"). Nearly
  every entry names one job and is found by an index; a Hold may name thousands and is still one row.

Partial indexes have their condition in `info["where"]` and not in SQLAlchemy's `postgresql_where`: that imports PostgreSQL's
dialect into every process, a sixth of what SQLAlchemy takes to import. So `create_all` alone would make them without it.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

HEAD = "0028"
"""The schema revision of this gpuq. Revisions are numbers of four digits, each one higher than the one before."""

OLDEST_GPUQ = "0005"
"""The lowest schema revision whose gpuq works with this schema: since then tables and columns were only added, nothing that it
writes is refused, and it can read what is written now. An upgrade stores it, so that an earlier gpuq knows whether it may go on
with this record."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

WAITS = "state = 'HELD' OR state = 'PENDING'"
"""The condition of an index. SQLite uses it only for queries that have these very words."""

# In SQLite only INTEGER is an alias of the row number.
Number: TypeEngine[int] = BigInteger().with_variant(Integer, "sqlite")


numbers = Table(
    "numbers",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last_job", Number, nullable=False),
    Column("last_request", Number, nullable=False),
)

leadership = Table(
    "leadership",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Number, nullable=False),
    Column("holder", Text),
    Column("renewed_at", Double, nullable=False),
    Column("order_key", Text),
    Column("first_attempt", Integer),
    Column("oldest_gpuq", Text),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("owner", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("state", Text, nullable=False),
    Column("state_since", Double, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("verdict", Text),
    Column("reason", Text),
    Column("project", Text),
    Column("of_array", Number),
    Column("waits", Text),
    Column("edits", Text),
    Column("name", Text),
    Index("ix_jobs_state_id", "state", "id"),
    Index("ix_jobs_owner_id", "owner", "id"),
    Index(
        "uq_jobs_owner_idempotency_key",
        "owner",
        "idempotency_key",
        unique=True,
        info={"where": "idempotency_key IS NOT NULL"},
    ),
    Index("ix_jobs_waiting_owner", "owner", info={"where": WAITS}),
    Index("ix_jobs_waiting_project", "project", info={"where": WAITS}),
    Index("ix_jobs_state_of_array_id", "state", "of_array", "id"),
)

arrays = Table(
    "arrays",
    metadata,
    Column("id", Number, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("record", Text, nullable=False),
)

job_records = Table(
    "job_records",
    metadata,
    Column("job", Number, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("record", Text, nullable=False),
)

job_lines = Table(
    "job_lines",
    metadata,
    Column("job", Number, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("line", Text, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job", Number, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("devices", Text, nullable=False),
    Column("launched_at", Double, nullable=False),
    Column("model_version", Text),
    Column("claimed_at", Double),
    Column("boot_id", Text),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("ending", Text),
    Column("exit_code", Integer),
    Column("log_path", Text),
    Column("reason", Text),
    Column("launch", Text, nullable=False),
    Column("features", Text, nullable=False),
    Column("measurement", Text),
    Column("actual", Text),
    Column("stop_reason", Text),
    Column("instance", Text),
    Column("revoked_at", Double),
    Column("opened_memory", Number),
    Index("ix_attempts_live", "job", "number", info={"where": "ended_at IS NULL"}),
    Index(
        "ix_attempts_finished",
        "ended_at",
        "job",
        "number",
        info={"where": "ended_at IS NOT NULL AND started_at IS NOT NULL"},
    ),
)

chances = Table(
    "chances",
    metadata,
    Column("job", Number, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("device", Text, nullable=False),
    Column("beside_job", Number, nullable=False),
    Column("beside_attempt", Integer, nullable=False),
    Column("free_at", Double),
    Column("rule", Text, nullable=False),
    Column("evidence", Text),
    Column("newcomer", Double),
    Column("newcomer_upper", Double),
    Column("resident", Double),
    Column("resident_upper", Double),
    Index("ix_chances_at", "at"),
)

requests = Table(
    "requests",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("verb", Text, nullable=False),
    Column("job", Number, ForeignKey("jobs.id")),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("body", Text, nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("name", Text, nullable=False),
    Column("first_job", Number),
    Column("last_job", Number),
    Column("jobs", Text),
    Column("body", Text, nullable=False),
    Index("ix_journal_of_jobs", "seq", info={"where": "first_job IS NOT NULL"}),
    Index("ix_journal_of_one_job", "first_job", "seq", info={"where": "first_job = last_job"}),
    Index("ix_journal_of_many_jobs", "seq", "first_job", "last_job", info={"where": "first_job < last_job"}),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("note", Text),
    Column("made_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("uid", BigInteger),
)

hosts = Table(
    "hosts",
    metadata,
    Column("host", Text, primary_key=True),
    Column("boot_id", Text, nullable=False),
    Column("spooled", Number, nullable=False),
)

drained_hosts = Table(
    "drained_hosts",
    metadata,
    Column("host", Text, primary_key=True),
    Column("why", Text, nullable=False),
)

host_leases = Table(
    "host_leases",
    metadata,
    Column("host", Text, primary_key=True),
    Column("instance", Text, nullable=False),
    Column("renewed_at", Double, nullable=False),
)

joined_hosts = Table(
    "joined_hosts",
    metadata,
    Column("host", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("invited_until", Double, nullable=False),
    Column("serial", Text),
    Column("former_serial", Text),
    Column("certified_until", Double),
    Column("renew", Boolean, nullable=False),
)

quotas = Table(
    "quotas",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("running_devices", Integer),
    Column("waiting_jobs", Integer),
    Column("device_hours", Double),
    Column("window_s", Double, nullable=False),
)

bookings = Table(
    "bookings",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("user", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("devices", Text, nullable=False),
    Column("from_at", Double, nullable=False),
    Column("until_at", Double, nullable=False),
    Column("cancelled_at", Double),
    Index("ix_bookings_until_at", "until_at"),
)

device_marks = Table(
    "device_marks",
    metadata,
    Column("device", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("detail", Text, primary_key=True),
    Column("from_at", Double, primary_key=True),
    Column("until_at", Double, nullable=False),
    Column("count", Integer, nullable=False),
    Index("ix_device_marks_until_at", "until_at"),
)

devices = Table(
    "devices",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("total_memory", Number, nullable=False),
    Column("sharing", Text),
    Column("index", Text),
    Column("forgotten", Boolean),
    Column("features", Text),
)
