"""`gpuq fetch ID`: bring back the files that a job with --sync made or changed."""

from __future__ import annotations

from pathlib import Path

from gpuq import format as fmt
from gpuq.cli import console, job_ids
from gpuq.cli.arguments import Parser, add_id
from gpuq.cli.client import HttpClient
from gpuq.cli.quantities import whole
from gpuq.cli.results import fetch

_MOST_NAMED = 5


def run(words: list[str]) -> int:
    """Fetch. Raises Conflict for files that would be replaced."""
    parser = Parser(
        "fetch",
        "Bring the files here that a job made or changed. It was submitted with --sync.\n"
        "Also while it runs. Nothing is replaced unless --force is given.",
    )
    add_id(parser)
    add = parser.add_argument
    add(
        "patterns",
        metavar="PATTERN",
        nargs="*",
        default=[],
        help="only these files, folders or globs. * also matches /.",
    )
    add("--to", metavar="DIR", help="the folder to bring them into. Default: gpuq-ID, here.")
    add("-f", "--force", action="store_true", help="replace files that are there with another content")
    add("--attempt", metavar="N", help="of this attempt; default: the last, `gpuq show` lists them")
    options = parser.parse_args(words)
    attempt = whole("--attempt", options.attempt, 1, 10**9)
    client = HttpClient.of(options)
    job = job_ids.one(client, options.id)
    to = None if options.to is None else Path(options.to).expanduser()
    found = fetch(client, job, options.patterns, to=to, attempt=attempt, force=options.force)
    if options.json:
        files = [{"name": file.name, "size": file.size} for file in found.files]
        console.print_json({"to": str(found.to), "files": files, "left_out": list(found.left_out)})
        return 0
    for file in found.files:
        print(fmt.clean(file.name))
    size = sum(file.size for file in found.files)
    what = (
        f"{len(found.files):,} file{'s' * (len(found.files) != 1)}, {size:,} bytes, in {fmt.clean(found.to)}"
        if found.files
        else "nothing to fetch"
    )
    console.note(f"gpuq: {what}.")
    if found.left_out:
        named = ", ".join(map(fmt.clean, found.left_out[:_MOST_NAMED]))
        more = f" and {len(found.left_out) - _MOST_NAMED} more" if len(found.left_out) > _MOST_NAMED else ""
        console.note(f"gpuq: left out, as links or no plain files: {named}{more}.")
    return 0
