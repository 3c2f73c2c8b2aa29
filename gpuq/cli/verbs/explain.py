"""`gpuq explain ID`: why a job runs where it runs, or why it waits, in words and with the numbers."""

from __future__ import annotations

import time

from gpuq import format as fmt
from gpuq.cli import console, messages
from gpuq.cli.arguments import Parser, add_id, one_id
from gpuq.cli.client import Client, Record
from gpuq.states import ACTIVE, WAITING


def run(words: list[str]) -> int:
    """Explain one job."""
    parser = Parser("explain", "Why a job runs where it runs, or why it waits, with the numbers behind it.")
    add_id(parser)
    options = parser.parse_args(words)
    told: Record = Client.of(options).get(f"/api/v1/jobs/{one_id(options.id)}/explanation")
    if options.json:
        console.print_json(told)
    else:
        print("\n".join(screen(told, console.terminal_width(), console.coloured(options.no_color))))
    return 0


def screen(told: Record, width: int, colour: bool) -> list[str]:
    """The answer first, then what it rests on."""
    headline = f"job {told['id']} {_headline(told)}"
    lines = [part for line in _answer(told, headline) for part in console.wrapped(line, width)]
    if lines[0].startswith(headline):
        lines[0] = console.paint(headline, "1", colour) + lines[0][len(headline) :]
    return [*lines, *console.section("expected of it", console.forecast_facts(told.get("forecast"), width), colour)]


def _answer(told: Record, headline: str) -> list[str]:
    verdict, waits = told.get("verdict"), told["state"] in WAITING
    if waits and (told.get("position") or 0) > 1:
        return _in_line(told, headline)
    if verdict:
        first, *others = messages.lines(verdict)
        # A refusal names its rule; a reason to run reads on: "runs beside 41 because …".
        lines = [f"{headline}: {first}" if waits else f"{headline} because {first}", *others]
    else:
        lines = [f"{headline}.", *([fmt.clean(told["sentence"])] if told.get("sentence") else [])]
    if told.get("blink"):
        lines.append(f"Its partner was paused to measure it: {fmt.clean(told['blink'])}.")
    if told.get("position") is not None:
        lines.append(f"It is the first of {told.get('waiting') or '?'} waiting jobs; expected start: {_start(told)}.")
    return lines


def _in_line(told: Record, headline: str) -> list[str]:
    """A job behind others waits for them first; what refused it comes second."""
    position = told["position"]
    place = (
        f"position {position} of {told.get('waiting') or '?'}; {position - 1} ahead; expected start: {_start(told)}."
    )
    if not told.get("verdict"):
        return [f"{headline}: {place}"]
    refused, *helps = messages.lines(told["verdict"])
    return [f"{headline}: {place}", f"When it was last looked at: {refused}", *helps]


def _start(told: Record) -> str:
    return fmt.expected_start(told.get("expected_start"), time.time()) or "unknown, there is no calibrated estimate yet"


def _headline(told: Record) -> str:
    state = told["state"]
    if state in WAITING:
        return "waits" if state == "PENDING" else f"waits ({state})"
    partners = " and ".join(map(str, told.get("partners") or []))
    device = fmt.device_name(told)
    where = f" on {device}" if device else ""
    if state in ACTIVE:
        return f"runs{where} beside {partners}" if partners else f"runs{where} alone"
    return f"is {state}; it ran{where}" if where else f"is {state}"
