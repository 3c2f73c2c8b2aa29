"""The screen of `gpuq report shadow`: what sharing would have saved and cost while shadow mode ran every job alone."""

from __future__ import annotations

from collections.abc import Iterator

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.client import Record

_MOST_PAIRS = 12
_OFF = "Shadow mode is off: `shadow = true` in [scheduling] of the settings turns it on."


def screen(report: Record, width: int) -> list[str]:
    """The savings and costs as sentences, a table of pairs, and how they are computed."""
    sentences = _sentences(report) if report["chances"] else _nothing(report)
    lines = [line for sentence in sentences for line in console.wrapped(sentence, width)]
    if not report["chances"]:
        return lines
    if report["pairs"]:
        lines += ["", *_pairs(report["pairs"], width)]
    return [*lines, "", *console.wrapped(report["definition"], width)]


def _nothing(report: Record) -> Iterator[str]:
    """Why there is nothing to report: shadow mode was off, or no waiting job could have joined a running one."""
    days, ended, shared = _days(report), report["attempts_ended"], report["attempts_shared"]
    if report["on"]:
        yield f"No waiting job could have joined one that ran alone in the last {days}; {ended} runs ended in that time."
    else:
        yield f"Shadow mode was off in the last {days}, so it was not recorded what sharing would have done."
    if shared:
        yield f"{shared} of the {ended} runs that ended really shared a device; `gpuq queue -a` shows what it cost them."
    if not report["on"]:
        yield "`shadow = true` in [scheduling] of the settings runs every job alone and makes this report."


def _sentences(report: Record) -> Iterator[str]:
    yield f"The last {_days(report)}, in which every job ran alone:" if report["on"] else _OFF
    if report["counted"]:
        saved, ran = report["gpu_hours_saved"], report["gpu_hours_run"]
        part = f" of {fmt.hours(ran)}, {saved / ran:.0%}" if ran and saved <= ran else ""
        yield f"Sharing would have saved {fmt.hours(saved)} GPU-hours{part}."
        mean_wait, all_waits = fmt.about(report["wait_avoided_mean_s"]), fmt.about(3600 * report["wait_avoided_hours"])
        yield f"{report['counted']} jobs would have started earlier: {mean_wait} in the mean, {all_waits} together."
        worst, upper = fmt.slowdown(report["slowdown_worst"]), fmt.slowdown(report["slowdown_upper_worst"])
        bound = f"; predicted to stay under {upper}" if upper != fmt.UNKNOWN else ""
        mean = fmt.slowdown(report["slowdown_mean"])
        yield f"Jobs that shared would have been slowed by {mean} in the mean, {worst} at most{bound}."
    rest = [
        f"{report[name]} {words}"
        for name, words in (
            ("open", "still wait or run"),
            ("never_ran", "ended before they ran"),
            ("slowdown_unknown", "have no predicted slowdown"),
        )
        if report[name]
    ]
    if rest:
        yield f"Of {report['chances']} opportunities, {' and '.join(rest)}: they are not in the figures."


def _pairs(pairs: list[Record], width: int) -> list[str]:
    columns = [
        console.Column("NEWCOMER", least=10),
        console.Column("BESIDE", least=10),
        console.Column("TIMES", right=True),
        console.Column("SAVED H", right=True),
        console.Column("SLOWED", right=True),
        console.Column("BESIDE", right=True),
        console.Column("WAITED", right=True, give_up=2),
        console.Column("EVIDENCE", least=8, give_up=1),
    ]
    rows = [
        (
            fmt.clean(pair["newcomer"]),
            fmt.clean(pair["beside"]),
            str(pair["times"]),
            fmt.hours(pair["gpu_hours_saved"]),
            fmt.slowdown(pair["newcomer_slowdown"]),
            fmt.slowdown(pair["beside_slowdown"]),
            fmt.about(pair["wait_avoided_mean_s"]),
            fmt.clean(pair["evidence"] or fmt.UNKNOWN),
        )
        for pair in pairs[:_MOST_PAIRS]
    ]
    more = len(pairs) - len(rows)
    return [*console.table(columns, rows, width), *([f"and {more} more pairs: --json has them"] if more else [])]


def _days(report: Record) -> str:
    return "day" if report["days"] == 1 else f"{report['days']} days"
