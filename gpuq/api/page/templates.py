"""The templates. All that is put into them is escaped; no markup is made outside of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from gpuq import format as written
from gpuq.api.page.why import deciding_numbers
from gpuq.document import environment
from gpuq.messages.verdicts import label, quantity, title

_FOLDER = Path(__file__).parent / "templates"


def render(name: str, **values: Any) -> str:
    """The HTML document of the template `name`."""
    return _environment().get_template(name).render(values)


def login_page(sentence: str) -> str:
    """The page for a browser without the cookie: `sentence`, and a form for the token."""
    return render("login.html", sentence=sentence)


def welcome(page_key: str) -> str:
    """A page that keeps the key and leads on to `/`. The browser sends its new cookie: the navigation is from our own page."""
    return render("welcome.html", page_key=page_key)


@cache
def _environment() -> Environment:
    made = environment(_FOLDER)
    made.filters.update(
        moment_after=moment_after,
        slowdown=slowdown,
        arguments=arguments,
        deciding=deciding_numbers,
        title=lambda verdict: title(verdict.rule, verdict.numbers),
        label=label,
        quantity=quantity,
    )
    return made


def arguments(command: list[str]) -> str:
    """What tells commands apart: without the interpreter, and of the script only its name."""
    script, *others = command[1:] or [""]
    return " ".join([script.rpartition("/")[2], *others])


def moment_after(value: object, start: object) -> str:
    """The time of day where it is the day of `start`; else with the day."""
    text = written.local_time(value)
    day, _, time = text.partition(" ")
    return time if time and day == written.local_time(start).partition(" ")[0] else text


def slowdown(ratio: float | None) -> str:
    """`+12%` of 1.12."""
    text = written.slowdown(ratio)
    return text if ratio is None or text.startswith("-") else f"+{text}"
