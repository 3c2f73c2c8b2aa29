"""HTML from Jinja templates, which escape all that is put into them; Python code gives values and no markup.

document.html, document.css   a document that needs no other file: no script, no link; light or dark as the reader's system is
elements.html                 what such documents have in common: tables and pictures
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpuq import format as written

_FOLDER = Path(__file__).parent
# Functions of gpuq.format that are filters of the same name.
_FILTERS = ("about", "clean", "count", "duration", "gib", "hours", "percent", "ratio", "share", "two_places")


def environment(folder: Path) -> Environment:
    """The templates of a folder and of this package. A name without a value raises UndefinedError."""
    made = Environment(
        loader=FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update({name: getattr(written, name) for name in _FILTERS})
    made.filters.update(moment=written.local_time, base64=lambda content: b64encode(content).decode())
    return made


def render(template: Path, **values: Any) -> str:
    """The text of a template that extends `document.html`. It needs the value `title`; the same values give the same text."""
    return environment(template.parent).get_template(template.name).render(values) + "\n"
