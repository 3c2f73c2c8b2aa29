"""`gpuq predict`: the forecast of a job that is not submitted, its evidence, and how reliable it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuq import format as fmt
from gpuq.cli import console, job_body, job_options, messages
from gpuq.cli.client import HttpClient, Record, with_query
from gpuq.errors import NeverFits

_ORIGINS = {
    "argument": "from the command",
    "config file": "from its configuration file",
    "default": "the script's default",
    "script": "in the script",
}
_MOST_LAYERS = 6
_MOST_FREE = 3


def run(words: list[str]) -> int:
    """Predict. Exit code 7 if the job could never run."""
    parser = job_options.job_parser(
        "predict",
        "What gpuq believes of a job, from what evidence, and how sure it is.\n"
        "Nothing is queued or run. Exit code 7 if it could never run.",
    )
    add = parser.group("the question")
    add("--beside", metavar="JOB|KIND", help="what sharing a device with that job or kind would cost")
    add("--device-type", metavar="TYPE", help="only this type of device, as `gpuq gpus` names it")
    job_options.add_job_options(parser, named=True)
    options, body = job_body.parse(parser, words)
    query = {"beside": options.beside, "device_type": options.device_type}
    return predict(HttpClient.of(options), body, query, as_json=options.json, colour=console.coloured(options.no_color))


def predict(
    client: HttpClient, body: Record, query: dict[str, str | None] | None = None, *, as_json: bool, colour: bool = False
) -> int:
    """Ask for the forecast of `body` and print it. Gives the exit code."""
    answer: Record = client.post(with_query("/api/v1/predict", query or {}), body)
    if as_json:
        console.print_json(answer)
    else:
        print("\n".join(screen(answer, console.terminal_width(), alone=body["share"] == "never", colour=colour)))
    return NeverFits.exit_code if answer.get("never_fits") else 0


def screen(answer: Record, width: int, *, alone: bool = False, colour: bool = False) -> list[str]:
    """The kind, what was read, what is expected on each type of device, and which jobs it might share with."""
    lines = [f"kind: {fmt.clean(answer['kind'])}"]
    lines += console.section(
        "read in the command and the script", console.facts(_read(answer.get("features") or {}), width), colour
    )
    for one in answer.get("device_types") or [{"device_type": None, "forecast": answer.get("forecast")}]:
        title = "expected" + (f" on {fmt.clean(one['device_type'])}" if one["device_type"] else "")
        lines += console.section(
            title, console.facts(_expected(one.get("forecast") or {}, one.get("evidence") or {}), width), colour
        )
    if not answer.get("never_fits"):
        lines += console.section("if it came now", console.facts([("starts", _starts(answer))], width), colour)
    lines += console.section("not on", list(messages.excluded(answer, width)), colour)
    lines += console.section("beside", list(_beside(answer.get("beside") or [], width)), colour)
    return [*lines, "", *console.wrapped(_conclusion(answer, alone), width)]


def _starts(answer: Record) -> str:
    """When it would start: now, as estimated, or unknown."""
    free = [fmt.clean(name) for name in answer.get("free_devices") or []]
    if free:
        shown = ", ".join(free[:_MOST_FREE])
        more = f" and {len(free) - _MOST_FREE} more" if len(free) > _MOST_FREE else ""
        return f"now: {shown}{more} would take it"
    return fmt.expected_start(answer.get("expected_start"), time.time()) or (
        "unknown: no device is seen that would take it now, and there is no estimate of when one will"
    )


# --- what was read --------------------------------------------------------------------------------------------------


def _read(features: Record) -> Iterator[tuple[str, str | None]]:
    """The features that the forecast is made from, and where each was found."""
    origins = features.get("origins") or {}

    def setting_line(name: str, setting: str) -> str | None:
        value = features.get(name)
        if value is None:
            return None
        where = _ORIGINS.get(origins.get(setting, ""), "")
        text = fmt.clean(f"{value:g}" if isinstance(value, float) else value)
        return f"{text} ({where})" if where else text

    model, family = setting_line("model", "model"), features.get("model_family")
    if family is not None and (model is None or family not in model.lower()):
        model = f"{model}, of the family {fmt.clean(family)}" if model else f"of the family {fmt.clean(family)}"
    layers = sorted((features.get("layers") or {}).items(), key=lambda pair: (-pair[1], pair[0]))
    built_of = [f"{count} {fmt.clean(name)}" for name, count in layers[:_MOST_LAYERS]]
    if len(layers) > _MOST_LAYERS:
        built_of.append(f"{len(layers) - _MOST_LAYERS} more kinds")
    yield "framework", setting_line("framework", "")
    yield "model", model
    yield "made by", fmt.clean(", ".join(features.get("constructors") or [])) or None
    yield "built of", ", ".join(built_of) or None
    yield "parameters", _count(features.get("parameters"))
    yield "batch size", setting_line("batch_size", "batch")
    yield "image size", setting_line("image_size", "image")
    yield "sequence", setting_line("sequence_length", "sequence")
    yield "precision", setting_line("precision", "precision")
    yield "optimiser", setting_line("optimizer", "optimizer")
    yield "epochs", setting_line("epochs", "epochs")
    traced = (features.get("traced") or {}).get("reserved_bytes")
    yield "dry run", None if traced is None else f"{fmt.gib(traced)} of GPU memory, without the driver's own"


def _count(number: int | None) -> str | None:
    if number is None:
        return None
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,}"


# --- what is expected -----------------------------------------------------------------------------------------------


def _expected(forecast: Record, evidence: Record) -> Iterator[tuple[str, str | None]]:
    text = fmt.clean(evidence.get("text") or forecast.get("evidence") or "none")
    known = forecast.get("peak_utilization_pct") is not None or forecast.get("upper_memory_bytes") is not None
    if not known:
        never = text == "none"
        why = "never seen, and nothing like it has been seen" if never else "what ran so far did not show them"
        yield "needs", f"unknown: {why}"
    else:
        yield "peak utilisation", fmt.expected_peak(forecast.get("peak_utilization_pct"))
        upper = fmt.gib(forecast.get("upper_memory_bytes"))
        yield "peak memory", console.with_upper(fmt.gib(forecast.get("peak_memory_bytes")), upper)
    half, most = (fmt.duration(forecast.get(name)) for name in ("duration_p50_s", "duration_p90_s"))
    yield "duration", None if half == fmt.UNKNOWN else half if half == most else f"{half} (9 of 10 within {most})"
    yield "power", fmt.watts(forecast.get("power_w"))
    yield "evidence", text
    runs = evidence.get("own_runs") or 0
    yield "own runs", str(runs) if runs and "own history" not in text else None
    near = [f"{fmt.clean(one['kind'])} ({one['likeness']:.0%} alike)" for one in evidence.get("nearest") or []]
    yield "like it", "; ".join(near) or None
    if known and evidence:
        held, judged_on = evidence.get("bounds_held"), evidence.get("judged_on")
        measured = "how often it did is not measured yet"
        if held is not None and judged_on:
            attempts = "one attempt" if judged_on == 1 else f"{judged_on} attempts"
            measured = f"it held for {held:.0%} of the {attempts} that this model was judged on"
        meant = f"{evidence['bounds_meant_to_hold']:.0%} of jobs"
        yield "how sure", f"the memory bound is made to hold for {meant}; {measured}"
    model = forecast.get("model_version")
    yield "model", fmt.clean(model) if model else None


# --- partners -------------------------------------------------------------------------------------------------------


def _beside(places: list[Record], width: int) -> Iterator[str]:
    """Whether it might share each device, and what that would cost both jobs. Devices with the same answer share a line."""
    alike: dict[tuple[bool, str, tuple[str, ...], str], list[Record]] = {}
    for place in places:
        costs = tuple(filter(None, map(_cost, place["partners"])))
        empty = "" if place["device"] else f"an empty {fmt.clean(place['device_type'])}"
        alike.setdefault((place["verdict"]["admitted"], _why(place), costs, empty), []).append(place)
    for (admitted, why, costs, empty), there in alike.items():
        names = []
        for partner in there[0]["partners"]:
            name = f" ({fmt.clean(partner['name'])})" if partner.get("name") else ""
            names.append(
                f"kind {fmt.clean(partner['kind'])}" if partner["job"] is None else f"job {partner['job']}{name}"
            )
        where = empty or ", ".join(filter(None, map(fmt.device_name, there)))
        beside = f" beside {' and '.join(names)}" if len(there) == 1 else ""
        yield from _indented(f"{'yes' if admitted else 'no'}, on {where}{beside}: {why}", width, "  ")
        for cost in costs:
            yield from _indented(cost, width, "    ")


def _why(place: Record) -> str:
    """The verdict's calculation; the device and the partners stand before it."""
    text = messages.lines({**place["verdict"], "device": None, "device_name": None})[0]
    for partner in place["partners"]:
        if partner["job"] is None:
            text = text.replace(f"job {fmt.clean(partner['kind'])}", "that kind")
    return text.partition(": ")[2] if text.startswith("it fitted") else text


def _cost(partner: Record) -> str | None:
    if partner.get("unsafe"):
        return "one of the two ran out of memory beside the other before"
    expected = partner["expected_slowdown"], partner["partner_slowdown"]
    if expected == (None, None):
        return None
    uppers = partner["upper_slowdown"], partner["partner_upper_slowdown"]
    own, its = (
        "unknown" if ratio is None else console.with_upper(fmt.slowdown(ratio), fmt.slowdown(upper))
        for ratio, upper in zip(expected, uppers, strict=True)
    )
    evidence = f" ({fmt.clean(partner['evidence'])})" if partner.get("evidence") else ""
    return f"slowdown: this job {own}; that one {its}{evidence}"


def _indented(text: str, width: int, margin: str) -> Iterator[str]:
    first, *rest = console.wrapped(text, width - len(margin) - 2)
    yield margin + first
    yield from (f"{margin}  {line}" for line in rest)


def _conclusion(answer: Record, alone: bool) -> str:
    forecast = answer.get("forecast") or {}
    if answer.get("never_fits"):
        return f"It could never run: {fmt.clean(answer['never_fits'])}"
    if alone:
        return "It would run alone, as asked."
    if forecast.get("peak_utilization_pct") is None or forecast.get("upper_memory_bytes") is None:
        return "It would run alone first, and be measured: too little is known of it to share a device."
    if any(place["device"] and place["verdict"]["admitted"] for place in answer.get("beside") or []):
        return "It may share a device, and could now."
    return "It may share a device with jobs that leave it room."
