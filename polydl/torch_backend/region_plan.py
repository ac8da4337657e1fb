"""What the groups of a region are called with: values numbered as inputs, outputs, then inner ones in an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from torch import fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend import arena_layout
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_values import Value
from polydl.torch_backend.group_code import GroupCode
from polydl.torch_backend.loop_program import SizeName


class Group(Protocol):
    """`groups.Group`: operators that are one function of C."""

    @property
    def nodes(self) -> tuple[fx.Node, ...]: ...
    @property
    def inputs(self) -> tuple[Value, ...]: ...
    @property
    def outputs(self) -> tuple[Value, ...]: ...
    @property
    def scratch(self) -> tuple[int, ...]: ...
    @property
    def sizes(self) -> tuple[SizeName, ...]: ...
    @property
    def work(self) -> float: ...
    @property
    def moved(self) -> int: ...
    @property
    def index_ranges(self) -> tuple[tuple[int, int, int], ...]: ...
    @property
    def known_ranges(self) -> tuple[tuple[int, int, int], ...]: ...

    def text(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A group with its code."""

    group: Group
    code: GroupCode


@dataclass(frozen=True, slots=True)
class Bound:
    """What the elements of a tensor of indices must lie between before a group runs."""

    number: int
    """Of the value."""
    bytes: int
    """Of an element, a signed integer."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Step:
    """The call of a group."""

    made: Made
    numbers: tuple[int, ...]
    """Of the values that it is given: inputs, outputs, scratch memory."""
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """Values and calls of a region."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    """Those that are wanted, in order."""
    offsets: tuple[int, ...]
    """In the arena, of each inner value and then of each group's scratch memory: bytes."""
    arena: int
    """Its bytes."""
    steps: tuple[Step, ...]

    @property
    def sized(self) -> bool:
        """Whether groups take sizes."""
        return any(step.made.group.sizes for step in self.steps)


class GroupsDifferError(PolyDLError):
    """Operators whose groups are not the same at all sizes."""

    def __init__(self, nodes: Sequence[fx.Node], reason: str) -> None:
        super().__init__(reason)
        self.nodes = tuple(nodes)


def planned(unit: Region, made: Sequence[Made]) -> RegionPlan:
    """The plan of a region's groups, in order."""
    written = {value.node: value for one in made for value in one.group.outputs}
    read = (value for one in made for value in one.group.inputs if value.node not in written)
    inputs = {value.node: value for value in read}
    inner = [value for node, value in written.items() if node not in unit.wanted]
    number = {node: i for i, node in enumerate([*inputs, *unit.wanted, *(value.node for value in inner)])}
    scratch = [arena_layout.Life(size, i, i) for i, one in enumerate(made) for size in one.group.scratch]
    offsets, arena = arena_layout.offsets([*(_life(value, made) for value in inner), *scratch])
    places = count(len(number))

    def bounds(group: Group) -> tuple[Bound, ...]:
        checked = ((group.inputs[position], least, most) for position, least, most in group.index_ranges)
        return tuple(
            Bound(number[one.node], one.dtype.itemsize, one.sizes, one.strides, least, most)
            for one, least, most in checked
        )

    def numbers(group: Group) -> tuple[int, ...]:
        values = (number[value.node] for value in (*group.inputs, *group.outputs))
        return (*values, *(next(places) for _ in group.scratch))

    steps = tuple(Step(one, numbers(one.group), bounds(one.group)) for one in made)
    return RegionPlan(tuple(inputs.values()), tuple(written[n] for n in unit.wanted), tuple(offsets), arena, steps)


def _life(value: Value, made: Sequence[Made]) -> arena_layout.Life:
    steps = [
        i for i, one in enumerate(made) if any(v.node is value.node for v in (*one.group.inputs, *one.group.outputs))
    ]
    return arena_layout.Life(value.elements * value.dtype.itemsize, steps[0], steps[-1])
