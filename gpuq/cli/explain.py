"""`gpuq explain ID`: why a job runs where it runs, or why it waits, in words and with the numbers."""

from __future__ import annotations

from textwrap import wrap

from gpuq.cli import format as fmt
from gpuq.cli import verdicts
from gpuq.cli.arguments import Parser, add_id, one_id
from gpuq.cli.client import Client, Record, print_json
from gpuq.cli.sections import forecast_facts, section

_WAITING = frozenset({"PENDING", "HELD"})


def run(words: list[str]) -> int:
    """Explain one job."""
    parser = Parser("explain", "Why a job runs where it runs, or why it waits, with the numbers behind it.")
    add_id(parser)
    options = parser.parse_args(words)
    told: Record = Client.of(options).get(f"/api/v1/jobs/{one_id(options.id)}/explanation")
    if options.json:
        print_json(told)
    else:
        print("\n".join(screen(told, fmt.terminal_width(), fmt.coloured(options.no_color))))
    return 0


def screen(told: Record, width: int, colour: bool) -> list[str]:
    """The answer first, then what it rests on."""
    lines = [part for line in _answer(told) for part in wrap(line, width)]
    lines[0] = fmt.paint(lines[0], "1", colour)
    return [*lines, *section("expected of it", forecast_facts(told.get("forecast"), width), colour)]


def _answer(told: Record) -> list[str]:
    verdict = told.get("verdict")
    lines = [f"job {told['id']} {_headline(told)}"]
    if verdict:
        lines += verdicts.lines(verdict)
    elif told.get("sentence"):
        lines.append(fmt.clean(told["sentence"]))
    if told.get("position") is not None:
        lines.append(f"It is number {told['position']} of {told.get('waiting') or '?'} waiting jobs.")
    return lines


def _headline(told: Record) -> str:
    state, verdict = told["state"], told.get("verdict")
    if state in _WAITING:
        return f"waits: {verdict['rule']}" if verdict and not verdict["admitted"] else f"waits ({state})"
    partners = " and ".join(map(str, told.get("partners") or []))
    where = f" on {fmt.device_name(told['device'])}" if told.get("device") else ""
    if state in {"STARTING", "RUNNING", "COMPLETING"}:
        return f"runs{where} beside {partners}" if partners else f"runs{where}, alone"
    return f"is {state}; it was{where}" if where else f"is {state}"
