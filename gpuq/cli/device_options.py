"""The options that choose devices: they make the field `constraints` of a submission."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

from gpuq.cli.quantities import parse_size
from gpuq.errors import BadInput

# The forms of `gpuq.messages.submission.Constraints`, checked here so that the message can name the option.
_FEATURE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RANGE = re.compile(r"([A-Za-z0-9._-]*)\[([0-9,-]+)\]([A-Za-z0-9._-]*)")
_LOCAL_NAME = re.compile(r"(gpu|cpu)?[0-9]+")
_MOST = 64


def add_device_options(add: Callable[..., object]) -> None:
    """Add the options by the `add` of a group of a parser."""
    add("--gpu-type", metavar="TYPE", help="only on these types: 'H100|A100'. Words of their names will do.")
    names = "On all these devices: gpu0 or node2:gpu3,node2:gpu4. With --gpus on so many of them."
    add("--device", rare=True, metavar="NAMES", help=names)
    least = "Only on devices with this much memory, as they are sold: 40G."
    add("--gpu-mem-min", rare=True, metavar="SIZE", help=least)
    hosts = "On all these hosts: node1,node[3-5]. With --hosts on so many of them."
    add("-w", "--nodelist", rare=True, metavar="HOSTS", help=hosts)
    add("-x", "--exclude", rare=True, metavar="HOSTS", help="On none of these hosts.")
    features = "Only where the settings of hosts offer these features: 'nvlink&ib', 'fast|tall'."
    add("--constraint", rare=True, metavar="FEATURES", help=features)


def constraints(options: argparse.Namespace) -> dict[str, Any] | None:
    """The field for these options; None if none was given. Raises BadInput."""
    asked = {
        "types": _types(options.gpu_type),
        "least_memory": None if options.gpu_mem_min is None else _size(options.gpu_mem_min),
        "hosts": hosts("--nodelist", options.nodelist),
        "excluded_hosts": hosts("--exclude", options.exclude),
        "devices": devices(options.device),
        "features": _features(options.constraint),
    }
    return {name: value for name, value in asked.items() if value} or None


def hosts(option: str, text: str | None) -> list[str]:
    """The names in `node1,node[3-5]`, as Slurm writes them. Raises BadInput."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text.strip()) if text is not None else []:
        match = _RANGE.fullmatch(part)
        names += [f"{match[1]}{number}{match[3]}" for number in _numbers(match[2])] if match else [part]
    wrong = next((name for name in names if not _HOST.fullmatch(name)), None)
    if wrong is not None or len(names) > _MOST:
        what = "too many hosts" if wrong is None else f"`{wrong}`, which is no name of a host"
        raise BadInput(f"{option} has {what}.", fix=f"Write up to {_MOST} names, as in {option} node1,node[3-5].")
    return list(dict.fromkeys(names))


def devices(text: str | None) -> list[str]:
    """The names in `gpu0,node2:gpu3`. Raises BadInput."""
    names = [] if text is None else text.strip().split(",")
    if not all(names) or len(names) > _MOST:
        fix = "Write names as `gpuq gpus` shows them: gpu0,gpu3 or node2:gpu3."
        raise BadInput(f"--device `{text}` is no list of devices.", fix=fix)
    return list(dict.fromkeys(names))


def hosts_of(names: list[str]) -> set[str]:
    """The hosts that these names of devices name."""
    return {
        host for name in names for host in [name.partition(":")[0]] if host != name and not _LOCAL_NAME.fullmatch(host)
    }


def _numbers(text: str) -> list[str]:
    """The numbers of `1,3-05`, with the zeros that they begin with; a wrong part as it is."""
    found = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and (high or low).isdecimal() and int(high or low) - int(low) < _MOST:
            found += [str(number).zfill(len(low)) for number in range(int(low), int(high or low) + 1)]
        else:
            found.append(f"[{part}]")
    return found


def _types(text: str | None) -> list[str]:
    types = [] if text is None else [one.strip() for one in re.split(r"[|,]", text)]
    if not all(re.search(r"[A-Za-z0-9]", one) for one in types) or len(types) > 16:
        raise BadInput(f"--gpu-type `{text}` names no types.", fix="Write words of their names, as in 'H100|A100'.")
    return types


def _size(text: str) -> int:
    """Bytes. The bare letters count in powers of 1000, by which GPUs are sold: an 80 GB H100 has 79.6 GiB."""
    try:
        return parse_size(re.sub(r"(?<=[0-9 ])([kmgtKMGT])$", r"\1B", text))
    except BadInput as error:
        raise BadInput(f"--gpu-mem-min: {error.message}", fix="Write the size that it is sold with: 40G.") from error


def _features(text: str | None) -> list[list[str]]:
    """The groups of `nvlink`, `a&b`, `a|b` and `(a&b)|c`, of which one is wanted completely. Raises BadInput."""
    groups: list[list[str]] = []
    alternatives = [] if text is None else text.split("|")
    for alternative in map(str.strip, alternatives):
        enclosed = alternative.startswith("(") and alternative.endswith(")")
        group = [name.strip() for name in alternative.removeprefix("(").removesuffix(")").split("&")]
        unclear = len(group) > 1 and len(alternatives) > 1 and not enclosed
        if unclear or not all(map(_FEATURE.fullmatch, group)):
            fix = "Write names with & for all of them and | for one of them; both together as (nvlink&ib)|fast."
            raise BadInput(f"--constraint `{text}` cannot be read.", fix=fix)
        groups.append(group)
    return groups
