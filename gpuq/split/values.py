"""What the analysis of a kernel works with: the launch's index space, and what it knows of single values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuq.split.linear import Facts, LinearForm, Symbol


class NotSplittable(Exception):
    """The kernel does something that the analysis does not follow, or that a split cannot do. Its text is the reason."""


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """The index space of a launch, by dimension: offset of the ids, work-items, and work-items of a group."""

    offset: tuple[int, ...]
    size: tuple[int, ...]
    local: tuple[int, ...]

    def groups(self, dimension: int) -> int:
        """How many work-groups lie along a dimension."""
        return self.size[dimension] // self.local[dimension]


@dataclass(frozen=True, slots=True)
class Access:
    """One store or load of `width` bytes at `offset` bytes from the start of a buffer. `offset` None: anywhere."""

    buffer: str
    stores: bool
    offset: LinearForm | None
    width: int
    facts: Facts


@dataclass(frozen=True, slots=True)
class Ids:
    """The symbols of the ids of one launch: group and local id, or the global id alone where those are not used apart."""

    range: IndexSpace
    group: tuple[Symbol, ...]
    local: tuple[Symbol, ...]
    whole: tuple[Symbol | None, ...]

    @classmethod
    def of(cls, launch: IndexSpace, apart: frozenset[int]) -> Ids:
        """`apart`: the dimensions in which a group's and a local id are used besides the global id."""
        group = tuple(Symbol(f"group{d}", 0, launch.groups(d) - 1, exact=True) for d in range(len(launch.size)))
        local = tuple(Symbol(f"local{d}", 0, size - 1, exact=True) for d, size in enumerate(launch.local))
        whole = tuple(
            None if d in apart else Symbol(f"global{d}", start, start + launch.size[d] - 1, exact=True)
            for d, start in enumerate(launch.offset)
        )
        return cls(launch, group, local, whole)

    def value(self, name: str, d: int) -> LinearForm | None:
        """What a work-item function gives, or None if it is none of those."""
        inside = d < len(self.range.size)
        if name == "get_global_id":
            if not inside:
                return LinearForm(0)
            if (whole := self.whole[d]) is not None:
                return LinearForm.of(whole)
            start = LinearForm(self.range.offset[d])
            return start + LinearForm.of(self.group[d]) * self.range.local[d] + LinearForm.of(self.local[d])
        if name in ("get_group_id", "get_local_id"):
            return (
                LinearForm(0)
                if not inside
                else LinearForm.of((self.group if name == "get_group_id" else self.local)[d])
            )
        if name == "get_global_offset":
            return LinearForm(self.range.offset[d] if inside else 0)
        if name == "get_work_dim":
            return LinearForm(len(self.range.size))
        sizes = {"get_global_size": self.range.size, "get_local_size": self.range.local}
        if name == "get_num_groups":
            return LinearForm(self.range.groups(d) if inside else 1)
        return LinearForm(sizes[name][d] if inside else 1) if name in sizes else None


class Origin(Enum):
    """Where an address points that is not in a buffer of the launch. No name of a buffer equals one of these."""

    PRIVATE = "memory of a group or a work-item"
    TABLE = "a constant of the program"
    UNKNOWN = "anywhere"


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: `base` is a buffer's name, or what else is known of it."""

    base: str | Origin
    offset: LinearForm | None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of `bits` bits, as its signed value."""

    bits: int
    form: LinearForm


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison: facts that hold if it is true, and if it is false. Each form is at least 0."""

    true: tuple[LinearForm, ...]
    false: tuple[LinearForm, ...]


Value = Pointer | Whole | Condition | None
Argument = int | str | Origin | None
"""What a kernel's argument is: a whole number, the name of a buffer, private for local memory, or None for other scalars."""
