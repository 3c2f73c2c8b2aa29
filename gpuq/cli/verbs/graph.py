"""`gpuq graph`: which jobs wait for which, as a tree, as Graphviz's DOT, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuq import format as fmt
from gpuq.cli import console, job_ids
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.follow import jobs_of
from gpuq.cli.verbs.queue import LIVE, newest

# A job that waits for its turn among those of its name.
_SINGLETON = "singleton"


def run(words: list[str]) -> int:
    """Print the graph."""
    parser = Parser(
        "graph",
        "Which waiting and running jobs wait for which. Below a job stand those that wait\n"
        "for it: ok (to succeed), any (to end), fail (to end without success), singleton\n"
        "(an earlier job of its name). A job that waits for several stands below each.",
    )
    add_ids(parser, optional=True)
    parser.add_argument("-a", "--all", action="store_true", help="all users' jobs; default: yours")
    parser.add_argument("--dot", action="store_true", help="write DOT, for Graphviz: gpuq graph --dot | dot -Tsvg")
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    live = newest(client, ",".join(LIVE), {"owner": "all" if options.all else "me"}, None)
    ids = job_ids.several(client, options.ids) if options.ids else None
    edges = _connected(_edges(live), None if ids is None else {str(job) for job in ids})
    if ids is not None and not edges:
        known = {job["id"] for job in live}
        jobs_of(client, [job for job in ids if job not in known])  # raises where there is none
    graph = {"jobs": _jobs(client, live, edges), "edges": edges}
    if options.dot and not options.json:
        print("\n".join(dot(graph)))
    elif options.json or edges:
        console.show(options, graph, screen)
    else:
        console.note("No job waits for another one." if ids is None else "None of these waits for another one.")
    return 0


def _edges(live: Sequence[Record]) -> list[Record]:
    """{from, to, type} for each dependency of these jobs. Ids are texts, because one may be a range: `12-21`."""
    edges = []
    last_of: dict[tuple[str, str | None], int] = {}
    for job in live:
        for dependency in job.get("after") or []:
            type_, _, of = dependency.partition(":")
            edges.append({"from": of, "to": str(job["id"]), "type": type_})
        name = (job["owner"], job["name"])
        if job.get("singleton") and name in last_of:
            edges.append({"from": str(last_of[name]), "to": str(job["id"]), "type": _SINGLETON})
        last_of[name] = job["id"]
    return edges


def _connected(edges: list[Record], wanted: set[str] | None) -> list[Record]:
    """The edges of the parts of the graph that these jobs are in; all for None."""
    if wanted is None:
        return edges
    reached, before = set(wanted), set[str]()
    while reached != before:
        before = set(reached)
        for edge in edges:
            if edge["from"] in before or edge["to"] in before:
                reached |= {edge["from"], edge["to"]}
    return [edge for edge in edges if edge["from"] in reached]


def _jobs(client: HttpClient, live: Sequence[Record], edges: Sequence[Record]) -> list[Record]:
    """What is shown of each job, or range of them, in the graph, by id. `state` is null for a range."""
    ids = sorted({edge[end] for edge in edges for end in ("from", "to")}, key=_first)
    known = {str(job["id"]): job for job in live}
    ended = [int(job) for job in ids if job not in known and "-" not in job]
    known |= {str(job["id"]): job for job in jobs_of(client, ended)}
    return [
        {"id": id_, "name": known[id_]["name"], "state": known[id_]["state"]}
        if id_ in known
        else {"id": id_, "name": None, "state": None}
        for id_ in ids
    ]


def _first(job: str) -> int:
    return int(job.partition("-")[0])


def screen(graph: Record, _width: int, colour: bool) -> Iterator[str]:
    """The tree, with the jobs that wait for none on top."""
    below: dict[str, list[Record]] = {}
    for edge in graph["edges"]:
        below.setdefault(edge["from"], []).append(edge)
    jobs = {job["id"]: job for job in graph["jobs"]}
    shown: set[str] = set()
    waiting = {edge["to"] for edge in graph["edges"]}
    # (text before the branch, the branch, what is waited for, the job); the last one is next.
    left = [("", "", "", job) for job in reversed(jobs) if job not in waiting]
    while left:
        before, branch, type_, id_ = left.pop()
        again = id_ in shown and id_ in below
        yield f"{before}{branch}{type_}{_label(jobs[id_], colour)}{' …' * again}"
        if again:
            continue
        shown.add(id_)
        deeper = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        edges = below.get(id_, [])
        for place, edge in reversed(list(enumerate(edges, start=1))):
            left.append((deeper, "└─ " if place == len(edges) else "├─ ", f"{edge['type']} ", edge["to"]))


def _label(job: Record, colour: bool) -> str:
    name, state = fmt.clean(job["name"] or ""), job["state"]
    if state is None:
        return f"jobs {job['id']}"
    return f"{job['id']} {name}  {console.paint(state, console.state_style(state) or '', colour)}"


def dot(graph: Record) -> Iterator[str]:
    """The graph in Graphviz's language."""
    yield "digraph gpuq {"
    for job in graph["jobs"]:
        label = fmt.clean(f"{job['id']} {job['name'] or ''}").replace("\\", "\\\\").replace('"', '\\"')
        yield f'  "{job["id"]}" [label="{label}\\n{job["state"] or "jobs"}"];'
    for edge in graph["edges"]:
        yield f'  "{edge["from"]}" -> "{edge["to"]}" [label="{edge["type"]}"];'
    yield "}"
