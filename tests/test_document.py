"""Documents of HTML: what every template of them can rely on."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from gpuq.document import render

NASTY = '<script>alert("it\'s")</script>\x1b[31m'


def of(folder: Path, main: str, **values: object) -> str:
    template = folder / "page.html"
    elements = '{% from "elements.html" import image, table %}'
    template.write_text(f'{{% extends "document.html" %}}{elements}{{% block main %}}{main}{{% endblock %}}')
    return render(template, **values)


def test_all_that_is_put_into_a_document_is_escaped(tmp_path: Path) -> None:
    main = """{{ name }}<i title="{{ name }}"></i>{{ image(png, name) }}
        {% call table([name], caption=name, words=[name]) %}<tr><td>{{ name | clean }}</td></tr>{% endcall %}"""
    found = of(tmp_path, main, title=NASTY, name=NASTY, png=b"png")
    assert found.count("&lt;script&gt;alert(&#34;it&#39;s&#34;)&lt;/script&gt;") == 7
    assert "<script" not in found
    assert 'src="data:image/png;base64,cG5n"' in found
    assert '<th scope="col" class="words">' in found
    assert found.startswith("<!doctype html>\n")
    assert found.endswith("</html>\n")


def test_a_value_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UndefinedError):
        of(tmp_path, "{{ nmae }}", title="", name="")
