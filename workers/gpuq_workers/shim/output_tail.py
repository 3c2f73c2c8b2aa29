"""What a program's output ends with: the exceptions it ended with, and its last lines.

A traceback that was printed and handled is not how the program ended. So only the last chain of exceptions counts, of each rank
where lines are marked with ranks, and only if no more was printed after it than programs print on their way out. Where the last
exception only reports another process's failure, all exceptions count. Standard library only, as all of the shim.
"""

from __future__ import annotations

import re

from gpuq_workers.shim.error_patterns import FORWARDERS

# At most so many lines are printed after an uncaught exception, by loggers at exit, launchers or the interpreter itself.
_MOST_AFTER, _LAST_LINES, _LONGEST_TEXT = 12, 8, 120

_NEW_LINE = re.compile(rb"\r\n|\n|\r")
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# torch `[rank0]: `, torchrun --tee `[default0]:`, mpirun `[1,0]<stderr>:`, srun -l `0: `, Ray `(Worker pid=7) `.
_RANK = re.compile(
    rb"(\[(?:rank|default|\w*pid=)?\d+(?:,\d+)?\](?:<std(?:err|out)>)?:|\([\w.]{0,60} ?pid=\d+[^)]{0,60}\)|\d{1,5}:(?= )) ?"
)
_EXCEPTION_GROUP = re.compile(rb"^\s*[+|][-+| ]*")
_EXCEPTION = re.compile(rb"^[A-Za-z_][\w.]*(?:\([\w.]*\))?(?::|$)")
_HEADER = b"Traceback (most recent call last)"
_SAME_CHAIN = re.compile(
    rb"direct cause of the following exception|another exception occurred|terminated with the following (?:error|exception)"
    rb"|Original Traceback|RemoteTraceback|^\"\"\"$"
)
# Exceptions that Python reports at exit and ignores: no program ends by them.
_NOT_AN_END = re.compile(rb"^Exception ignored |^Error in atexit|^Exception ignored in atexit")
# Lines that do not say how a program ended: dumps of threads or C++ frames, warnings, a shell's or a logger's last line.
_ASIDE = re.compile(
    rb"^\s*$|^\[gpuq\] |^  File |^(?:Current t|T)hread 0x|^Extension modules:|^Fatal Python error|<no Python frame>"
    rb"|^wandb:|^srun: |^make: "
    rb"|^frame #\d+: |^Exception raised from |^(?:\d[\d:. -]{9,30} [WI]|\[?[WI]\d{4}|\[[WI]) "
    rb"|^\s*\[\d+\] |^(?:.{0,80}: line \d+: .{0,40})?(?:Aborted|Killed|Terminated|Segmentation fault|Bus error)\b"
)
# What a library's threads still log after the program has failed.
_ECHO = re.compile(rb"^(?:\d[\d:. -]{9,30} E|\[?E\d{4}|\[E) ")


class OutputTail:
    """`raised`: the exceptions that the program ended with, each with the text after it, the last first. `lines`: its last lines,
    the last first, empty where it raised. `after`: the number of lines after the last exception, 0 without one.
    """

    def __init__(self, raised: list[bytes], lines: list[bytes], after: int) -> None:
        self.raised = raised
        self.lines = lines
        self.after = after


class _Raised:
    """One traceback with its exception. `at` is the line number of the exception; `joined`: it continues the chain before it."""

    def __init__(self, joined: bool, ignored: bool) -> None:
        self.joined = joined
        self.ignored = ignored
        self.at = -1
        self.text: list[bytes] = []


def read(tail: bytes) -> OutputTail:
    """Parse the end of an output. Never raises, whatever the bytes are."""
    lines = [_COLOUR.sub(b"", line) for line in _NEW_LINE.split(tail)]
    streams: dict[bytes, list[tuple[int, bytes]]] = {}
    for number, line in enumerate(lines):
        rank = _RANK.match(line)
        tag, text = (rank.group(1), line[rank.end() :]) if rank else (b"", line)
        streams.setdefault(tag, []).append((number, text))
    chains = {tag: _chains(stream) for tag, stream in streams.items()}
    # So many lines after an exception without a rank show that the program handled it.
    final = [
        chain
        for tag, found in chains.items()
        for chain in found[-1:]
        if tag or _count_after(chain[-1].at, lines) <= _MOST_AFTER
    ]
    final.sort(key=lambda chain: chain[-1].at)
    if any(re.search(FORWARDERS, _text(one)) for chain in final for one in chain):
        final = sorted((chain for found in chains.values() for chain in found), key=lambda chain: chain[-1].at)
    raised = [_text(one) for chain in reversed(final) for one in reversed(chain)]
    after = _count_after(final[-1][-1].at, lines) if final else 0
    merged = sorted(one for stream in streams.values() for one in stream)
    last = [text for _, text in merged if not _ASIDE.match(text)][-_LAST_LINES:]
    # Beside an exception the last lines are what followed it, and part of its text.
    return OutputTail(raised, [] if final else last[::-1], after)


def _chains(stream: list[tuple[int, bytes]]) -> list[list[_Raised]]:
    """The tracebacks of one process, chained ones together, without those that Python ignored."""
    found: list[_Raised] = []
    open_one: _Raised | None = None
    before = b""
    for number, raw in stream:
        line = _EXCEPTION_GROUP.sub(b"", raw) if raw.lstrip()[:1] in (b"|", b"+") else raw
        if _HEADER in line:
            joined = bool(_SAME_CHAIN.search(before) or _SAME_CHAIN.search(line))
            open_one = _Raised(joined, bool(_NOT_AN_END.match(before)))
            found.append(open_one)
        elif open_one is not None and open_one.at < 0:
            if _EXCEPTION.match(line):
                open_one.at = number
                open_one.text.append(line)
        elif open_one is not None and len(open_one.text) < _LONGEST_TEXT and not _NOT_AN_END.match(line):
            open_one.text.append(line)
        if line.strip():
            before = line
    chains: list[list[_Raised]] = []
    for one in found:
        if one.at < 0 or one.ignored:
            continue
        if one.joined and chains:
            chains[-1].append(one)
        else:
            chains.append([one])
    return chains


def _text(one: _Raised) -> bytes:
    return b"\n".join(one.text)


def _count_after(at: int, lines: list[bytes]) -> int:
    """Lines after the exception that are not indented, because indented ones continue a message."""
    return sum(not (_ASIDE.match(line) or _ECHO.match(line) or line[:1].isspace()) for line in lines[at + 1 :])
