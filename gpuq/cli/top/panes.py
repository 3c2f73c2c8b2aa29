"""A pane: lines of which one is chosen. It draws those that can be seen, and nothing while they stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuq.cli.top.feed import Key
from gpuq.cli.top.lines import PaneLine


class Pane(ScrollView, can_focus=True):
    """`keys` has what each line is about, None for headings; `line(number)` makes one."""

    BINDINGS: ClassVar = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(Message):
        """Enter was pressed on the chosen line."""

        def __init__(self, pane: Pane, key: Key) -> None:
            super().__init__()
            self.pane, self.key = pane, key

    def __init__(self, *, id: str) -> None:  # noqa: A002 - as Textual calls it
        super().__init__(id=id)
        self._keys: Sequence[Key | None] = ()
        self._line: Callable[[int], PaneLine] = lambda _: PaneLine(None, "")
        self.chosen: Key | None = None

    def fill(self, keys: Sequence[Key | None], line: Callable[[int], PaneLine]) -> None:
        """Show these lines. The one about what was chosen stays chosen; where that is gone, the one in its place."""
        before = self._number()
        self._keys, self._line = keys, line
        if self.chosen is None or self.chosen not in keys:
            self.chosen = None
            self._choose(min(before, len(keys) - 1), 1)
        self.virtual_size = Size(self.size.width, len(keys))
        self.refresh()

    @property
    def on_screen(self) -> list[Key]:
        """What the lines that can be seen are about."""
        first = self.scroll_offset.y
        return [key for key in self._keys[first : first + self.size.height] if key is not None]

    def render_line(self, y: int) -> Strip:
        """The line at this height of the screen."""
        number, width = y + self.scroll_offset.y, self.size.width
        if not 0 <= number < len(self._keys):
            return Strip.blank(width)
        line = self._line(number)
        is_chosen = line.key is not None and line.key == self.chosen
        # A mark as well as reversed colours, which some terminals do not have.
        text = f">{line.text[1:]}" if is_chosen and self.has_focus and line.text.startswith(" ") else line.text
        style = Style(bold=line.key is None, color=line.colour, reverse=is_chosen and self.has_focus)
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def action_move(self, by: int) -> None:
        """Choose another line, past headings."""
        self._choose(self._number() + by, 1 if by > 0 else -1)

    def action_page(self, by: int) -> None:
        """Choose the line a page further."""
        self.action_move(by * max(1, self.size.height - 1))

    def action_open(self) -> None:
        """Open what the chosen line is about."""
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def _number(self) -> int:
        return 0 if self.chosen is None or self.chosen not in self._keys else self._keys.index(self.chosen)

    def _choose(self, number: int, step: int) -> None:
        """Choose this line, or the next one in this direction that is no heading, or the one before it in the other direction."""
        number = max(0, min(number, len(self._keys) - 1))
        for numbers in (range(number, len(self._keys) if step > 0 else -1, step), range(len(self._keys))):
            for candidate in numbers:
                if self._keys[candidate] is not None:
                    self.chosen = self._keys[candidate]
                    above = candidate - 1 if candidate and self._keys[candidate - 1] is None else candidate
                    top, height = self.scroll_offset.y, max(1, self.size.height)
                    if above < top:
                        self.scroll_to(y=above, animate=False)
                    elif candidate >= top + height:
                        self.scroll_to(y=candidate - height + 1, animate=False)
                    self.refresh()
                    return
