import importlib.util

import pytest

from gpuq.cli.verbs import split
from gpuq.errors import BadInput


def test_without_the_extra_the_verb_says_how_to_install_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyopencl" else found(name))
    with pytest.raises(BadInput, match="needs pyopencl") as caught:
        split.run(["run", "launch.toml"])
    assert "pip install 'gpuq-daemon[split]'" in caught.value.fix


def test_with_it_the_process_becomes_the_package(monkeypatch):
    became = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(split, "become_module", became.append)
    split.run(["check", "launch.toml", "--limit", "30s", "--json"])
    assert became == [["gpuq.split", "check", "--limit-s=30.0", "--json", "--", "launch.toml"]]
