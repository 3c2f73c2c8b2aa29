"""`gpuq db upgrade`: upgrade the database to this version's schema. Becomes the process that migrates."""

from __future__ import annotations

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_module


def run(words: list[str]) -> int:
    """Replace this process by the migration."""
    parser = Parser(
        "db",
        "Bring the database to this version's schema.\nIt is $GPUQ_DATABASE_URL, else the SQLite file in the home.",
    )
    parser.add_argument("action", choices=["upgrade"], metavar="upgrade", help="what to do")
    options = parser.parse_args(words)
    become_module(["gpuq.adapters.store.migrate", *(["--json"] if options.json else [])])
    return 1
