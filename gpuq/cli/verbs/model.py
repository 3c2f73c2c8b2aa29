"""`gpuq model status|train|rollback|characterize|evaluate`: the prediction model and its evaluation.

The first three ask the daemon. `characterize` and `evaluate` are the laboratory's: they replace this process and need no daemon.
"""

from __future__ import annotations

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.programs import become_laboratory
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any


def run(words: list[str]) -> int:
    """Show the model, or change it."""
    parser = Parser("model", "The prediction model: what serves, train, go back; what measured jobs say.")
    actions = ["status", "train", "rollback", "characterize", "evaluate"]
    add = parser.add_argument
    add("action", nargs="?", choices=actions, default="status", help="default: status")
    add("--data", metavar="DIR", help="characterize: these tables, not this gpuq's finished attempts")
    add("--out", metavar="DIR", help="characterize: also write plots, JSON and an HTML report there")
    add("--singles", metavar="FILE", help="evaluate: CSV of jobs measured with the device to themselves")
    add("--pairs", metavar="FILE", help="evaluate: CSV of slowdowns of jobs measured two at a time")
    add("--holdout", choices=["model", "pair", "time"], help="evaluate: what is held out (default: model)")
    add("--budget", metavar="SLOWDOWN", help="evaluate: the slowdown budget that pairs are to keep (default: 1.15)")
    add("-v", "--verbose", action="store_true", help="train, rollback: also figures, guards and counts")
    options = parser.parse_args(words)
    fix = "`gpuq model --help` shows what it takes."
    if options.action == "evaluate":
        # It reads the user's own tables only, so --host has no meaning here and is ignored.
        return _become_laboratory(options, ("singles", "pairs", "holdout", "budget"), needs=("scipy", "sklearn"))
    if any(getattr(options, name) is not None for name in ("singles", "pairs", "holdout", "budget")):
        raise BadInput("--singles, --pairs, --holdout and --budget go with `evaluate` only.", fix=fix)
    if options.action == "characterize":
        if options.host is not None:
            sentence = "`characterize` reads the record on this machine, not another gpuq's."
            raise BadInput(sentence, fix="Leave out --host, or run it there.")
        plots = ("matplotlib",) if options.out else ()
        return _become_laboratory(options, ("data", "out"), needs=("scipy", "sklearn", *plots))
    if options.data is not None or options.out is not None:
        raise BadInput("--data and --out go with `characterize` only.", fix=fix)
    client = HttpClient.of(options)
    if options.action == "status":
        answer = client.get("/api/v1/models")
    else:
        if options.action == "train":
            console.note("gpuq: training; this takes a while.")
        answer = client.post(f"/api/v1/models/{options.action}", {}, patient=True)
    width = console.terminal_width()
    if options.json:
        console.print_json(answer)
    elif options.action == "status":
        print("\n".join(_status(answer, width)))
    else:
        details = ["", *screen(answer, width)] if options.verbose else []
        print("\n".join([*console.wrapped(_outcome(answer), width), *details]))
        if not options.verbose:
            console.note("gpuq: -v shows how it was judged.")
    return 0


def _outcome(answer: Record) -> str:
    """A sentence on whether a model was published, and why."""
    reason, before = fmt.clean(answer.get("reason") or "no reason is given"), answer.get("previous")
    if answer.get("published"):
        was = f", before it {fmt.clean(before)}" if before else ""
        return f"Published: {fmt.clean(answer.get('version') or 'no model')} serves now{was}: {reason}."
    stays = f"{fmt.clean(before)} still serves" if before else "no model serves"
    return f"Not published, {stays}: {reason}."


def _status(answer: Record, width: int) -> list[str]:
    """The serving version, a row for each version, and whether forecasts still hold."""
    rest = {name: value for name, value in answer.items() if name not in ("drift", "versions") and value is not None}
    versions: list[Record] = []
    for one in answer.get("versions") or []:
        card = one.get("card")
        if card is None:  # a version that cannot be read: its problem only
            versions.append(one)
            continue
        versions.append(
            {
                "version": one.get("version"),
                "made_at": card.get("made_at"),
                "attempts": card.get("attempts"),
                "loss": ((card.get("figures") or {}).get("candidate") or {}).get("loss"),
                "problem": one.get("problem"),
            }
        )
    lines = screen({**rest, "versions": versions} if versions else rest, width)
    return [*lines, *(_drift(answer["drift"], width) if answer.get("drift") else [])]


def _drift(drift: Record, width: int) -> list[str]:
    """Whether forecasts still hold, overall and for the kinds that deviate most."""
    overall, kinds = drift["overall"], drift.get("kinds") or []
    if not overall.get("attempts"):
        return ["", "drift:", *console.facts([("", "no attempt with a forecast has ended yet")], width)]
    held = (
        f"{_percent(overall.get('memory_coverage'))} of the latest attempts; {_percent(drift.get('promised'))} promised"
    )
    alarms = f"{drift.get('kinds_in_alarm', 0)} of {drift.get('kinds_watched', 0)} kinds fail more often than promised"
    points, slowdown_error = overall.get("utilization_error_pct"), overall.get("slowdown_error")
    facts = [
        ("bounds held", held),
        ("memory error", _percent(overall.get("memory_error"))),
        ("utilisation", None if points is None else f"off by {points:.1f} points"),
        ("slowdown error", None if slowdown_error is None else _percent(slowdown_error)),
        ("alarm", f"{'yes; ' if overall.get('alarm') else ''}{alarms}"),
    ]
    columns = [console.Column(name, least=5) for name in ("RUNS", "HELD", "UTIL.", "SLOWD.", "BOUND", "TYPE", "KIND")]
    rows = [
        [
            _text(one.get("attempts")),
            _percent(one.get("memory_coverage")),
            "-" if one.get("utilization_error_pct") is None else f"±{one['utilization_error_pct']:.1f}",
            _percent(one.get("slowdown_error")),
            f"x{one.get('widened', 1):.2f}" if one.get("alarm") else "as is",
            _text(one.get("device_type")),
            _text(one.get("kind")),
        ]
        for one in kinds
    ]
    table = ("  " + line for line in console.table(columns, rows, width - 2))
    return ["", "drift:", *console.facts(facts, width), "", *table]


def _percent(share: float | None) -> str:
    return fmt.percent(None if share is None else 100 * share)


def _become_laboratory(options: Namespace, names: Sequence[str], needs: tuple[str, ...]) -> int:
    """Replace this process by the laboratory's program for the action, with those of the options `names` that were given."""
    given = [f"--{name}={getattr(options, name)}" for name in names if getattr(options, name) is not None]
    become_laboratory(f"model-{options.action}", [*(["--json"] if options.json else []), *given], needs)
    return 1


def screen(value: object, width: int) -> list[str]:
    """Any JSON value of the models endpoint as lines of facts and tables: models bring keys of their own."""
    if not isinstance(value, dict):
        return [_text(value)]
    plain = ((_label(name), _text(part, name)) for name, part in value.items() if not isinstance(part, dict | list))
    lines = console.facts(plain, width)
    for name, part in value.items():
        if isinstance(part, dict) and part:
            lines += ["", f"{_label(name)}:", *screen(part, width)]
        elif isinstance(part, list) and part:
            lines += ["", f"{_label(name)}:", *_list(part, width)]
    return lines or ["no model has been trained yet: `gpuq model train` trains one from what has run"]


def _list(items: list[Any], width: int) -> list[str]:
    if not all(isinstance(item, dict) for item in items):
        return console.facts([("", ", ".join(map(_text, items)))], width)
    names = [name for name, value in items[0].items() if not isinstance(value, dict | list)]
    columns = [console.Column(_label(name).upper(), least=6) for name in names]
    rows = [[_text(item.get(name), name) for name in names] for item in items]
    return ["  " + line for line in console.table(columns, rows, width - 2)]


def _label(name: str) -> str:
    return fmt.clean(name).replace("_", " ")


def _text(value: object, name: str = "") -> str:
    if value is None:
        return fmt.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_at") or (isinstance(value, int | float) and name.endswith("_unix")):
        return fmt.local_time(value)
    return f"{value:.4g}" if isinstance(value, float) else fmt.clean(value)
