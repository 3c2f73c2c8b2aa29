"""Alembic's way in: run the asked steps on the connection that was handed over, else on the database of the settings.

All steps of one call are one transaction, on SQLite too.
"""

from alembic import context

from gpuq import settings
from gpuq.adapters.store import migrate
from gpuq.adapters.store.schema import metadata


def run(connection):
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_from_command_line():
    if context.is_offline_mode():
        raise SystemExit("gpuq migrates a database it can look at: run this without --sql.")
    url = context.get_x_argument(as_dictionary=True).get("url") or settings.load().database_url
    with migrate.exclusive(url) as connection:
        run(connection)


handed_over = context.config.attributes.get("connection")
if handed_over is None:
    run_from_command_line()
else:
    run(handed_over)
