"""`gpuq predict`: what gpuq expects of a job before it is submitted, and what that rests on."""

from __future__ import annotations

from gpuq.cli import asking
from gpuq.cli import format as fmt
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Client, Record, print_json
from gpuq.cli.sections import forecast_facts

_NEVER_FITS = 7


def run(words: list[str]) -> int:
    """Predict. Exit code 7 if the job could never run."""
    parser = Parser(
        "predict",
        "What gpuq expects of a job, without queueing it.\nExit code 7 if it could never run.",
        usage=asking.USAGE.format(verb="predict"),
        epilog=asking.EPILOG,
    )
    asking.add_job_options(parser)
    own, verbatim, command = parser.split(words)
    options = parser.parse_args(own)
    return foretell(Client.of(options), asking.submission(options, command, verbatim), as_json=options.json)


def foretell(client: Client, body: Record, *, as_json: bool) -> int:
    """Ask for the forecast of `body` and print it."""
    told: Record = client.post("/api/v1/predict", body)
    if as_json:
        print_json(told)
    else:
        print("\n".join(screen(told, fmt.terminal_width(), alone=body["share"] == "never")))
    return _NEVER_FITS if told.get("never_fits") else 0


def screen(told: Record, width: int, *, alone: bool = False) -> list[str]:
    """The kind, the forecast, and what follows from it."""
    forecast = told.get("forecast") or {}
    lines = [f"kind: {fmt.clean(told['kind'])}", *forecast_facts(told.get("forecast"), width)]
    if told.get("never_fits"):
        lines.append(f"It could never run: {fmt.clean(told['never_fits'])}")
    elif alone:
        lines.append("It would run alone, as asked.")
    elif forecast.get("peak_utilization_pct") is None or forecast.get("upper_memory_bytes") is None:
        lines.append("It would run alone: too little is known of it to share a device.")
    else:
        lines.append("It may share a device with jobs that leave it room.")
    return lines
