"""`gpuq model status|train|rollback|characterize|evaluate`: the prediction model and its evaluation.

The first three ask the daemon. `characterize` and `evaluate` are the laboratory's: they replace this process and need no daemon.
"""

from __future__ import annotations

from gpuq import format as fmt
from gpuq.cli import console, laboratory
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Client, Record
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def run(words: list[str]) -> int:
    """Show the model, or change it."""
    parser = Parser("model", "The prediction model: what serves, train, go back; what measured jobs say.")
    parser.add_argument(
        "action",
        nargs="?",
        choices=["status", "train", "rollback", "characterize", "evaluate"],
        default="status",
        help="default: status",
    )
    parser.add_argument("--data", metavar="DIR", help="characterize: these tables, not this gpuq's finished attempts")
    parser.add_argument("--out", metavar="DIR", help="characterize: also write plots, JSON and an HTML report there")
    parser.add_argument(
        "--singles", metavar="FILE", help="evaluate: CSV of jobs measured with the device to themselves"
    )
    parser.add_argument("--pairs", metavar="FILE", help="evaluate: CSV of slowdowns of jobs measured two at a time")
    parser.add_argument(
        "--holdout", choices=["model", "pair", "time"], help="evaluate: what is held out (default: model)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="train, rollback: also figures, guards and counts")
    options = parser.parse_args(words)
    if options.action == "evaluate":
        return _evaluate(options)
    if options.singles is not None or options.pairs is not None or options.holdout is not None:
        raise BadInput(
            "--singles, --pairs and --holdout go with `evaluate` only.", fix="`gpuq model --help` shows what it takes."
        )
    if options.action == "characterize":
        return _characterize(options)
    if options.data is not None or options.out is not None:
        raise BadInput("--data and --out go with `characterize` only.", fix="`gpuq model --help` shows what it takes.")
    client = Client.of(options)
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


def _status(answer: object, width: int) -> list[str]:
    """The serving version, all versions, and whether forecasts still hold."""
    if not isinstance(answer, dict):
        return screen(answer, width)
    versions = [_version(one) for one in answer.get("versions") or [] if isinstance(one, dict)]
    rest = {name: value for name, value in answer.items() if name not in ("drift", "versions") and value is not None}
    lines = screen({**rest, "versions": versions} if versions else rest, width)
    return [*lines, *drift_lines(answer.get("drift"), width)]


def _version(one: dict[str, object]) -> dict[str, object]:
    """The facts of a version for one row: when it was trained, on how many attempts, and its loss."""
    card = one.get("card")
    if not isinstance(card, dict):
        return one
    figures = (card.get("figures") or {}).get("candidate") or {}
    return {
        "version": one.get("version"),
        "made_at": card.get("made_at"),
        "attempts": card.get("attempts"),
        "loss": figures.get("loss"),
        "problem": one.get("problem"),
    }


def drift_lines(drift: object, width: int) -> list[str]:
    """Whether forecasts still hold, overall and for the kinds that deviate most; empty without data."""
    if not isinstance(drift, dict) or not isinstance(drift.get("overall"), dict):
        return []
    overall, kinds = drift["overall"], [one for one in drift.get("kinds") or [] if isinstance(one, dict)]
    if not overall.get("attempts"):
        return ["", "drift:", *console.facts([("", "no attempt with a forecast has ended yet")], width)]
    held = (
        f"{_percent(overall.get('memory_coverage'))} of the latest attempts; {_percent(drift.get('promised'))} promised"
    )
    alarms = f"{drift.get('kinds_in_alarm', 0)} of {drift.get('kinds_watched', 0)} kinds fail more often than promised"
    points = overall.get("utilization_error_pct")
    lines = console.facts(
        [
            ("bounds held", held),
            ("memory error", _percent(overall.get("memory_error"))),
            ("utilisation", None if points is None else f"off by {points:.1f} points"),
            (
                "slowdown error",
                _percent(overall.get("slowdown_error")) if overall.get("slowdown_error") is not None else None,
            ),
            ("alarm", f"{'yes; ' if overall.get('alarm') else ''}{alarms}"),
        ],
        width,
    )
    columns = [console.Column(name, least=5) for name in ("RUNS", "HELD", "UTIL.", "SLOWD.", "BOUND", "TYPE", "KIND")]
    rows = [
        [
            _text(one.get("attempts")),
            _percent(one.get("memory_coverage")),
            _points(one.get("utilization_error_pct")),
            _percent(one.get("slowdown_error")),
            f"x{one.get('widened', 1):.2f}" if one.get("alarm") else "as is",
            _text(one.get("device_type")),
            _text(one.get("kind")),
        ]
        for one in kinds
    ]
    return ["", "drift:", *lines, "", *("  " + line for line in console.table(columns, rows, width - 2))]


def _percent(share: object) -> str:
    return f"{100 * share:.0f}%" if isinstance(share, int | float) else fmt.UNKNOWN


def _points(value: object) -> str:
    return f"±{value:.1f}" if isinstance(value, int | float) else fmt.UNKNOWN


def _characterize(options: Namespace) -> int:
    if options.host is not None:
        raise BadInput(
            "`characterize` reads the record on this machine, not another gpuq's.",
            fix="Leave out --host, or run it there.",
        )
    command = ["--json"] if options.json else []
    for name, value in (("--data", options.data), ("--out", options.out)):
        command += [] if value is None else [f"{name}={value}"]
    laboratory.become(
        "model-characterize", command, needs=("scipy", "sklearn", *(("matplotlib",) if options.out else ()))
    )
    return 1


def _evaluate(options: Namespace) -> int:
    # It reads the user's own tables only, so --host has no meaning here and is ignored.
    command = ["--json"] if options.json else []
    for name in ("singles", "pairs", "holdout"):
        value = getattr(options, name)
        command += [] if value is None else [f"--{name}={value}"]
    laboratory.become("model-evaluate", command, needs=("scipy", "sklearn"))
    return 1


def screen(value: object, width: int) -> list[str]:
    """Any JSON value of the models endpoint as lines of facts and tables: models bring keys of their own."""
    if not isinstance(value, dict):
        return [_text(value)]
    plain = [(_label(name), _text(part, name)) for name, part in value.items() if not isinstance(part, dict | list)]
    lines = console.facts([(label, text) for label, text in plain], width)
    for name, part in value.items():
        if isinstance(part, dict) and part:
            lines += ["", f"{_label(name)}:", *screen(part, width)]
        elif isinstance(part, list) and part:
            lines += ["", f"{_label(name)}:", *_list(part, width)]
    return lines or ["no model has been trained yet: `gpuq model train` trains one from what has run"]


def _list(items: list[object], width: int) -> list[str]:
    if not all(isinstance(item, dict) for item in items):
        return console.facts([("", ", ".join(map(_text, items)))], width)
    rows = [item for item in items if isinstance(item, dict)]
    names = [name for name in rows[0] if not isinstance(rows[0][name], dict | list)]
    columns = [console.Column(_label(name).upper(), least=6) for name in names]
    return [
        "  " + line
        for line in console.table(columns, [[_text(row.get(name), name) for name in names] for row in rows], width - 2)
    ]


def _label(name: str) -> str:
    return fmt.clean(name).replace("_", " ")


def _text(value: object, name: str = "") -> str:
    if value is None:
        return fmt.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith(("_at", "_unix")):
        return fmt.local_time(value)
    if isinstance(value, str) and name.endswith("_at"):
        return fmt.local_time(value)
    return f"{value:.4g}" if isinstance(value, float) else fmt.clean(value)
