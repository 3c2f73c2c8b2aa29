"""The options that choose devices, as a user types them and as a submission has them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.cli import device_options
from gpuq.cli.arguments import Parser
from gpuq.errors import BadInput
from gpuq.messages.submit_options import constraint_options


def constraints(*words: str) -> dict[str, Any] | None:
    parser = Parser("submit", "")
    device_options.add_device_options(parser.group("devices"))
    return device_options.constraints(parser.parse_args([*words]))


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], None),
        (["--gpu-type", "H100|A100 80GB"], {"types": ["H100", "A100 80GB"]}),
        (["--gpu-mem-min", "80G"], {"least_memory": 80 * 10**9}),
        (["--gpu-mem-min", "40GiB"], {"least_memory": 40 * 2**30}),
        (["-w", "node[08-10],big,gpu[1,3]-x"], {"hosts": ["node08", "node09", "node10", "big", "gpu1-x", "gpu3-x"]}),
        (["-x", "old"], {"excluded_hosts": ["old"]}),
        (["--device", "gpu0,node2:gpu3:1"], {"devices": ["gpu0", "node2:gpu3:1"]}),
        (["--constraint", "nvlink&ib"], {"features": [["nvlink", "ib"]]}),
        (["--constraint", "(a & b)|c"], {"features": [["a", "b"], ["c"]]}),
    ],
)
def test_what_is_typed_becomes_constraints_and_back(words: list[str], asked: dict[str, Any] | None) -> None:
    assert constraints(*words) == asked
    again = (f"{option}={value}" for option, value in constraint_options(asked or {}).items())
    assert constraints(*again) == asked


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpu-type", "|"], "names no types"),
        (["--gpu-mem-min", "much"], "--gpu-mem-min: `much` is not a size"),
        (["-w", "a,,b"], "``, which is no name of a host"),
        (["-w", "a[1-1000]"], "`a[1-1000]`, which is no name of a host"),
        (["-x", "a b"], "`a b`, which is no name of a host"),
        (["--device", ","], "is no list of devices"),
        (["--constraint", "a&b|c"], "cannot be read"),
        (["--constraint", "a&(b|c)"], "cannot be read"),
        (["--constraint", "[rack1|rack2]"], "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_option(words: list[str], sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        constraints(*words)
    assert sentence in caught.value.message
    assert caught.value.fix
