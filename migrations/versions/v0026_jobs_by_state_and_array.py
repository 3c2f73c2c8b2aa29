"""An index by which the jobs of a state that belong to no array are found without reading the tasks of arrays."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TASKS = sa.text("of_array IS NOT NULL")


def upgrade():
    op.create_index("ix_jobs_state_of_array_id", "jobs", ["state", "of_array", "id"])
    op.drop_index("ix_jobs_state_of_array", "jobs")


def downgrade():
    op.create_index("ix_jobs_state_of_array", "jobs", ["state", "of_array"], sqlite_where=TASKS, postgresql_where=TASKS)
    op.drop_index("ix_jobs_state_of_array_id", "jobs")
