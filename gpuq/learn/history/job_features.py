"""What forecasts use of a job's features, read from the dictionary that is stored with the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from gpuq.learn.features.architectures import compute_log2
from gpuq.learn.memory.footprint import LayerTerms, parts_of, traced_terms
from gpuq.script.meaning import Meaning, meaning
from gpuq.script.tunables import WRITTEN

Value = float | str
# (owner, or "project" and its name; script; number of devices)
Script = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """What forecasts use of a job's features."""

    script_sha256: str | None = None
    batch_log2: float | None = None
    tokens: tuple[str, ...] = ()
    compute_log2: float | None = None
    """log2 of the multiply-adds per sample of a training step; None where unknown."""
    layers: LayerTerms | None = None
    """Memory terms of its network; None where the network or the batch size is unknown."""
    traced: LayerTerms | None = None
    """What a dry run counted; None where there was none."""
    values: tuple[tuple[str, Value], ...] | None = None
    """Effective settings by name (see `gpuq.script.tunables`), sorted; None in records made before settings were read."""
    given: frozenset[str] = frozenset()
    """Names of the settings that command, variables or configuration files gave; the others are defaults of the script."""
    framework: str | None = None
    script: Script | None = None
    """Whose script it is, its path, number of devices; None where unknown."""

    @classmethod
    def of(cls, features: Mapping[str, Any]) -> JobFeatures:
        """From a features dictionary as it was stored. Values of another type than expected count as unknown."""
        batch, stored, devices = (features.get(name) for name in ("batch_log2", "values", "gpus"))
        owner, project = _text(features.get("owner")), _text(features.get("project"))
        who, script = f"project {project}" if project else owner, _text(features.get("script"))
        values = None
        if isinstance(stored, Mapping):
            values = tuple(
                (intern(name), intern(value) if isinstance(value, str) else float(value))
                for name, value in sorted(stored.items())
                if isinstance(name, str) and isinstance(value, int | float | str) and not isinstance(value, bool)
            )
        return cls(
            script_sha256=_text(features.get("script_sha256")),
            batch_log2=float(batch) if isinstance(batch, int | float) and abs(batch) < 64 else None,
            tokens=tuple(intern(word) for word in _texts(features.get("tokens"))),
            compute_log2=compute_log2(features),
            layers=parts_of(features),
            traced=traced_terms(features),
            values=values,
            given=frozenset(intern(name) for name in _texts(features.get("given"))),
            framework=_text(features.get("framework")),
            script=(who, script, devices if isinstance(devices, int) else 1) if who and script else None,
        )

    def same_work(self, other: JobFeatures) -> bool:
        """Whether script, batch size and all settings are equal, as far as both are known."""
        return (
            _agree(self.script_sha256, other.script_sha256)
            and _agree(self.batch_log2, other.batch_log2)
            and not self.different(other)
        )

    @property
    def resumed(self) -> bool:
        """Whether it goes on from what an earlier run saved, so that its duration is no duration of the work."""
        return any(meaning(name) is Meaning.RESUME for name in self.given)

    def different(self, run: JobFeatures) -> list[str]:
        """The names of the settings that differ from those of a run, sorted; empty for a job whose settings are unknown.

        A setting that only one of the two has counts where it was given to that job: a default of the script that the other's
        version does not have is no change of settings.
        """
        if self.values is None or self.values == run.values:
            return []
        ours, theirs, given = dict(self.values), dict(run.values or ()), self.given | run.given
        # The symmetric difference has the names of settings that either side lacks or has with another value.
        names = {name for name, _ in set(ours.items()) ^ set(theirs.items())}
        compared = (name for name in names if (name in ours and name in theirs) or name in given)
        return sorted(name for name in compared if value_of(ours, name) != value_of(theirs, name))


def value_of(values: Mapping[str, Value], name: str) -> Value | None:
    """The value of a setting. Where the script's own number is not stored, it is the one that the setting has."""
    return values.get(name, values.get(name.removeprefix(WRITTEN)))


def _agree(one: str | float | None, other: str | float | None) -> bool:
    return one is None or other is None or one == other


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
