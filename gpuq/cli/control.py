"""What `cancel`, `hold` and `release` share: one request per job, each tried; the worst outcome is the exit code."""

from __future__ import annotations

from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import Client, Record, print_json, talk
from gpuq.cli.quantities import parse_ids
from gpuq.errors import GpuqError, Unreachable


def control(verb: str, done: str, summary: str, words: list[str]) -> int:
    """Ask for `verb` on each job. `done` is the word for what then is or will be. The largest exit code."""
    parser = Parser(verb, summary)
    add_ids(parser)
    options = parser.parse_args(words)
    client = Client.of(options)
    ids = parse_ids(options.ids)
    answers, worst, fixes = [], 0, dict[str, None]()
    for job_id in ids:
        try:
            # The answer waits a moment for the dispatcher, so that it can say what came of it; not so for a long list.
            answer: Record = client.post(f"/api/v1/jobs/{job_id}/{verb}" + ("?wait=0" if len(ids) > 1 else ""))
        except Unreachable:
            raise
        except GpuqError as error:
            talk(f"gpuq: {error.message}")
            fixes[error.fix] = None
            worst = max(worst, error.exit_code)
            continue
        answers.append(answer)
        if not options.json:
            talk(_sentence(answer, done))
    for fix in fixes:  # once, however many of a range it is for
        talk(f"  {fix}")
    if options.json:
        print_json(answers)
    return worst


def _sentence(answer: Record, done: str) -> str:
    if answer.get("state") == "COMPLETING":
        return f"Job {answer['id']} is being stopped."
    return (
        f"Job {answer['id']} is {done}."
        if answer.get("done", True)
        else f"Job {answer['id']} will be {done} in a moment."
    )
