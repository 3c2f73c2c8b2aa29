"""`gpuq graph`: which jobs wait for which, as a tree, as Graphviz's DOT, or as JSON.

Tasks of an array that are in the same state, and wait for the same and are waited for alike, are one node: `12_0-99`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuq import array
from gpuq import format as fmt
from gpuq.cli import console, job_ids, job_labels
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.follow import jobs_of, listed
from gpuq.cli.verbs.queue import LIVE, newest

# A job that waits for its turn among those of its name.
_SINGLETON = "singleton"
_CORR = "corr"


@dataclass(frozen=True)
class Wait:
    """Job `to` waits for the jobs `of`, in the way that `type` says."""

    of: range
    type: str
    to: int


def run(words: list[str]) -> int:
    """Print the graph."""
    parser = Parser(
        "graph",
        "Which waiting and running jobs wait for which. Below a job stand those that wait\n"
        "for it: ok (to succeed), any (to end), fail (to end without success), start,\n"
        "corr (each task for that of its number), singleton (an earlier job of its name).\n"
        "A job that waits for several stands below each. Alike tasks of an array are one\n"
        "line.",
    )
    add_ids(parser, optional=True)
    parser.add_argument("-a", "--all", action="store_true", help="all users' jobs; default: yours")
    parser.add_argument("--dot", action="store_true", help="write DOT, for Graphviz: gpuq graph --dot | dot -Tsvg")
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    live = newest(client, ",".join(LIVE), {"owner": "all" if options.all else "me"}, None)
    ids = job_ids.several(client, options.ids) if options.ids else None
    waits = _waits(live)
    graph = graph_of(_known(client, live, waits), waits, ids)
    if ids is not None and not graph["edges"]:
        known = {job["id"] for job in live}
        jobs_of(client, [job for job in ids if job not in known])  # raises where there is none
    if options.dot and not options.json:
        print("\n".join(dot(graph)))
    elif options.json or graph["edges"]:
        console.show(options, graph, screen)
    else:
        console.note("No job waits for another one." if ids is None else "None of these waits for another one.")
    return 0


def _waits(live: Sequence[Record]) -> list[Wait]:
    waits = []
    last_of: dict[tuple[str, str | None], int] = {}
    for job in live:
        for dependency in job.get("after") or []:
            type_, _, of = dependency.partition(":")
            first, _, last = of.partition("-")
            waits.append(Wait(range(int(first), int(last or first) + 1), type_, job["id"]))
        name = (job["owner"], job["name"])
        if job.get("singleton") and name in last_of:
            waits.append(Wait(range(last_of[name], last_of[name] + 1), _SINGLETON, job["id"]))
        last_of[name] = job["id"]
    return waits


def _known(client: HttpClient, live: Sequence[Record], waits: Sequence[Wait]) -> dict[int, Record]:
    """The jobs that wait or are waited for, by id. Of a range of jobs that are no tasks at most the first is needed."""
    known = {job["id"]: job for job in live}
    known |= _ended(client, {wait.of[0] for wait in waits} - known.keys())
    arrays = [wait.of for wait in waits if known.get(wait.of[0], {}).get("array") is not None]
    return known | _ended(client, {job for of in arrays for job in of} - known.keys())


def _ended(client: HttpClient, ids: Iterable[int]) -> dict[int, Record]:
    """Those of these jobs that there are."""
    return {job["id"]: job for job in listed(client, sorted(ids))}


def graph_of(known: Mapping[int, Record], waits: Sequence[Wait], wanted: Iterable[int] | None) -> Record:
    """{jobs: [{id, name, state}], edges: [{from, to, type}]} of these waits; with `wanted` only what these jobs are connected to.

    Ids are texts: of a job, of tasks as `12_0-99`, or of other jobs that are waited for together, `12-21`, of which the state is
    null.
    """
    nodes = _Nodes(known, waits)
    edges = list(dict.fromkeys(edge for wait in waits for edge in nodes.edges(wait)))
    if wanted is not None:
        edges = _connected(edges, {nodes.of_job(job) for job in wanted})
    ids = sorted({end for first, last, _ in edges for end in (first, last)})
    texts = {node: nodes.record(node) for node in ids}
    return {
        "jobs": list(texts.values()),
        "edges": [{"from": texts[of]["id"], "to": texts[to]["id"], "type": type_} for of, to, type_ in edges],
    }


_Node = tuple[int, int]
"""A node by its first job, and its last one where it is a range of jobs that are not known one by one."""
_Edge = tuple[_Node, _Node, str]


class _Nodes:
    """The nodes of a graph: jobs, ranges of jobs, and tasks that are alike."""

    def __init__(self, known: Mapping[int, Record], waits: Sequence[Wait]) -> None:
        self._known = known
        before: dict[int, list[Wait]] = {}
        behind: dict[int, set[tuple[str, int]]] = {}
        for wait in waits:
            before.setdefault(wait.to, []).append(wait)
            for job in wait.of if self._is_array(wait.of) else ():
                if self._array(job) != self._array(wait.to):
                    behind.setdefault(job, set()).add((self._type(wait), self._array(wait.to) or wait.to))
        self._first: dict[int, int] = {}
        self._jobs: dict[int, list[int]] = {}
        alike: dict[object, int] = {}
        # A job waits for earlier ones only, so the nodes of these are known when its own is looked for.
        for id_, record in sorted(known.items()):
            if record.get("array") is None:
                continue
            waits_for = {
                (self._type(wait), *self._sources(wait)) for wait in before.get(id_, ()) if not self._is_inner(wait)
            }
            key = record["array"], record["state"], frozenset(waits_for), frozenset(behind.get(id_, ()))
            self._first[id_] = first = alike.setdefault(key, id_)
            self._jobs.setdefault(first, []).append(id_)

    def of_job(self, job: int) -> _Node:
        """The node that the job is in."""
        first = self._first.get(job, job)
        return first, first

    def edges(self, wait: Wait) -> Iterator[_Edge]:
        """The edges between nodes; none between tasks that are one node."""
        to = self.of_job(wait.to)
        for of in self._sources(wait):
            if of != to:
                yield of, to, self._type(wait)

    def record(self, node: _Node) -> Record:
        """The node, as the graph has it."""
        first, last = node
        if first not in self._known or last != first:
            return {"id": f"{first}-{last}" if last != first else str(first), "name": None, "state": None}
        job, jobs = self._known[first], self._jobs.get(first, [first])
        if len(jobs) == 1:
            return {"id": job_labels.id_of(job), "name": job["name"], "state": job["state"]}
        tasks = array.text_of([self._known[one]["task"] for one in jobs])
        names = {self._known[one]["name"] for one in jobs}
        name = job["name"] if len(names) == 1 else f"{job['name']} …"
        return {"id": f"{job['array']}_{f'[{tasks}]' if ',' in tasks else tasks}", "name": name, "state": job["state"]}

    def _sources(self, wait: Wait) -> Iterator[_Node]:
        if self._is_array(wait.of):
            yield from dict.fromkeys(map(self.of_job, wait.of))
        else:
            yield wait.of[0], wait.of[-1]

    def _array(self, job: int) -> int | None:
        return self._known.get(job, {}).get("array")

    def _is_array(self, of: range) -> bool:
        """Whether these are tasks of one array."""
        return self._array(of[0]) is not None and len({self._array(job) for job in of}) == 1

    def _is_inner(self, wait: Wait) -> bool:
        """Whether a task waits for one of its own array."""
        return self._is_array(wait.of) and self._array(wait.of[0]) == self._array(wait.to)

    def _type(self, wait: Wait) -> str:
        """The type of the wait; `corr` for a task on the success of the one of its number in another array."""
        of, to = self._known.get(wait.of[0], {}), self._known[wait.to]
        if wait.type != "ok" or len(wait.of) > 1 or None in (of.get("array"), to.get("array")):
            return wait.type
        return _CORR if of["task"] == to["task"] else wait.type


def _connected(edges: list[_Edge], wanted: set[_Node]) -> list[_Edge]:
    """The edges of the parts of the graph that these nodes are in."""
    reached, before = set(wanted), set[_Node]()
    while reached != before:
        before = set(reached)
        for of, to, _ in edges:
            if of in before or to in before:
                reached |= {of, to}
    return [edge for edge in edges if edge[0] in reached]


def screen(graph: Record, _width: int, colour: bool) -> Iterator[str]:
    """The tree, with the jobs that wait for none on top."""
    below: dict[str, list[Record]] = {}
    for edge in graph["edges"]:
        below.setdefault(edge["from"], []).append(edge)
    jobs = {job["id"]: job for job in graph["jobs"]}
    shown: set[str] = set()
    waiting = {edge["to"] for edge in graph["edges"]}
    # Tasks of an array of singletons can wait for each other's states in a circle, so that none is a root.
    for root in [*(job for job in jobs if job not in waiting), *jobs]:
        if root not in shown:
            yield from _tree(root, jobs, below, shown, colour)


def _tree(
    root: str, jobs: Mapping[str, Record], below: Mapping[str, Sequence[Record]], shown: set[str], colour: bool
) -> Iterator[str]:
    """The lines of a job and those that wait for it; `shown` are those that have had theirs."""
    # (text before the branch, the branch, what is waited for, the job); the last one is next.
    left = [("", "", "", root)]
    while left:
        before, branch, type_, id_ = left.pop()
        again = id_ in shown and id_ in below
        shown.add(id_)
        yield f"{before}{branch}{type_}{_label(jobs[id_], colour)}{' …' * again}"
        if again:
            continue
        deeper = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        edges = below.get(id_, [])
        for place, edge in reversed(list(enumerate(edges, start=1))):
            left.append((deeper, "└─ " if place == len(edges) else "├─ ", f"{edge['type']} ", edge["to"]))


def _label(job: Record, colour: bool) -> str:
    name, state = fmt.clean(job["name"] or ""), job["state"]
    if state is None:
        return f"{'jobs' if '-' in job['id'] else 'job'} {job['id']}"
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
