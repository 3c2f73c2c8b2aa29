"""`gpuq explain ID`: why a job runs where it runs, or why it waits, in words and with the numbers."""

from __future__ import annotations

from functools import partial

from gpuq import format as fmt
from gpuq.cli import console, job_ids, messages
from gpuq.cli.arguments import Parser, add_id
from gpuq.cli.client import HttpClient, Record
from gpuq.states import ACTIVE, WAITING


def run(words: list[str]) -> int:
    """Explain one job."""
    parser = Parser("explain", "Why a job runs where it runs, or why it waits, with the numbers behind it.")
    add_id(parser)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    jobs = job_ids.named(client, [options.id])
    job = jobs.only if jobs.array is None else telling_task(jobs.array)
    answer: Record = client.get(f"/api/v1/jobs/{job}/explanation")
    console.show(options, answer, partial(screen, label=jobs.label(job)))
    return 0


def telling_task(array: Record) -> int:
    """The first task that waits, else the first that runs, else the first."""
    from gpuq.array import numbers

    first = array["first"]
    task = next((first[state] for state in (*sorted(WAITING, reverse=True), *sorted(ACTIVE)) if state in first), None)
    return int(array["id"]) + (0 if task is None else numbers(array["tasks"]).index(task))


def screen(answer: Record, width: int, colour: bool, label: str | None = None) -> list[str]:
    """The reason first, then the forecast that it rests on. `label` is the job's id as it is shown."""
    headline = f"job {label or answer['id']} {_headline(answer)}"
    lines = [part for line in _answer(answer, headline) for part in console.wrapped(line, width)]
    if lines[0].startswith(headline):
        lines[0] = console.paint(headline, "1", colour) + lines[0][len(headline) :]
    lines += console.section("not on", list(messages.excluded(answer, width)), colour)
    return [*lines, *console.section("expected of it", console.forecast_facts(answer.get("forecast"), width), colour)]


def _answer(answer: Record, headline: str) -> list[str]:
    verdict, waits = answer.get("verdict"), answer["state"] in WAITING
    position, waiting = answer.get("position"), answer.get("waiting") or "?"
    start = messages.expected_start(answer)
    if waits and position is not None and position > 1:
        # A job behind others waits for them first; what refused it comes second.
        lines = [f"{headline}: position {position} of {waiting}; {position - 1} ahead; expected start: {start}."]
        if verdict:
            refused, *helps = messages.lines(verdict)
            lines += [f"When it was last looked at: {refused}", *helps]
        return lines
    if verdict:
        first, *others = messages.lines(verdict)
        # A refusal names its rule; a reason to run reads on: "runs beside 41 because …".
        lines = [f"{headline}: {first}" if waits else f"{headline} because {first}", *others]
    else:
        lines = [f"{headline}.", *([fmt.clean(answer["sentence"])] if answer.get("sentence") else [])]
    if late := messages.slow_start(answer):
        lines.append(f"{late[0].upper()}{late[1:]}. `gpuq cancel {answer['id']}` ends it.")
    opened = answer["attempts"][-1].get("opened_memory_bytes") if answer.get("attempts") else None
    if opened is not None and answer["state"] in ACTIVE:
        lines.append(
            f"It uses none of its devices, so others may join it; {fmt.gib(opened)} of memory stay promised to it."
        )
    if answer.get("lent_cores"):
        lent = len(answer["lent_cores"])
        lines.append(f"{lent} idle core{'s' if lent > 1 else ''} of its host {'are' if lent > 1 else 'is'} lent to it.")
    if answer.get("blink"):
        lines.append(f"Its partner was paused to measure it: {fmt.clean(answer['blink'])}.")
    if position is not None:
        lines.append(f"It is the first of {waiting} waiting jobs; expected start: {start}.")
    return lines


def _headline(answer: Record) -> str:
    state = answer["state"]
    if state in WAITING:
        return "waits" if state == "PENDING" else f"waits ({state})"
    partners = " and ".join(map(str, answer.get("partners") or []))
    device = fmt.device_name(answer)
    where = f" on {device}" if device else ""
    if state in ACTIVE:
        verb = "starts" if state == "STARTING" else "runs"
        return f"{verb}{where} beside {partners}" if partners else f"{verb}{where} alone"
    return f"is {state}; it ran{where}" if where else f"is {state}"
