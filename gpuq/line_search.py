"""The lines of a job's output that contain a text, found while the output comes in pieces."""

from __future__ import annotations

LONGEST_LINE_BYTES = 2**20


class LineSearch:
    """Finds the lines that contain `text`, byte by byte, as UTF-8.

    A line ends at a newline or at a carriage return, with which progress bars write over themselves. A line of more than a
    mebibyte is searched in parts.
    """

    def __init__(self, text: str) -> None:
        # A command line may hold bytes that are no UTF-8.
        self._text = text.encode(errors="surrogateescape")
        self._unfinished = b""

    def found(self, piece: bytes) -> bytes:
        """The lines with the text that end in this piece, each with a newline."""
        *lines, unfinished = (self._unfinished + piece).replace(b"\r", b"\n").split(b"\n")
        if len(unfinished) > LONGEST_LINE_BYTES:
            lines.append(unfinished)
            unfinished = b""
        self._unfinished = unfinished
        return b"".join(line + b"\n" for line in lines if self._text in line)

    def last(self) -> bytes:
        """The line without an end, if it has the text. The next piece begins a new line."""
        unfinished, self._unfinished = self._unfinished, b""
        return unfinished + b"\n" if self._text in unfinished else b""
