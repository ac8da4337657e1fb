"""What the groups of a region are called with: values numbered as inputs, outputs, then inner ones in an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

from torch import fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend import arena_layout, size_polynomials
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_values import Value
from polydl.torch_backend.group_code import GroupCode
from polydl.torch_backend.loop_program import Array, Program, SizeName
from polydl.torch_backend.size_polynomials import Number
from polydl.torch_backend.sized_programs import at_sizes


class Group(Protocol):
    """`groups.Group`: operators that are one function of C."""

    @property
    def nodes(self) -> tuple[fx.Node, ...]: ...
    @property
    def inputs(self) -> tuple[Value, ...]: ...
    @property
    def outputs(self) -> tuple[Value, ...]: ...
    @property
    def program(self) -> Program: ...
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
    stack: tuple[tuple[int, Number, tuple[int, ...]], ...]
    """The same for any sizes: numbers of offsets from the lowest up, each with the bytes that are used there and the
    numbers of those below that are in use at the same time (`arena_layout.stacked`)."""
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


def at(group: Any, values: Sequence[int]) -> Group:
    """A group that takes sizes where these have values: its tensors have numbers. Its loops stay as they are."""

    def tensor(one: Value) -> Value:
        return replace(one, sizes=at_sizes(one.sizes, values), strides=at_sizes(one.strides, values))

    scratch = tuple(replace(one, shape=at_sizes(one.shape, values)) for one in group.program.scratch)
    made: Group = replace(
        group, inputs=tuple(map(tensor, group.inputs)), outputs=tuple(map(tensor, group.outputs)),
        program=replace(group.program, scratch=scratch), index_ranges=at_sizes(group.index_ranges, values),
    )  # fmt: skip
    return made


def planned(unit: Region, made: Sequence[Made]) -> RegionPlan:
    """The plan of a region's groups, in order."""
    written = {value.node: value for one in made for value in one.group.outputs}
    read = (value for one in made for value in one.group.inputs if value.node not in written)
    inputs = {value.node: value for value in read}
    inner = [value for node, value in written.items() if node not in unit.wanted]
    number = {node: i for i, node in enumerate([*inputs, *unit.wanted, *(value.node for value in inner)])}
    scratch = [arena_layout.Life(size, i, i) for i, one in enumerate(made) for size in one.group.scratch]
    lives = [*(_life(value, made) for value in inner), *scratch]
    offsets, arena = arena_layout.offsets(lives)
    held = [*map(_bytes, inner), *(_array_bytes(one) for each in made for one in each.group.program.scratch)]
    stack = tuple((k, held[k], below) for k, below in arena_layout.stacked(lives, offsets))
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
    return RegionPlan(
        tuple(inputs.values()), tuple(written[n] for n in unit.wanted), tuple(offsets), arena, stack, steps
    )


def _bytes(value: Value) -> Number:
    return size_polynomials.times(size_polynomials.elements(value.sizes, value.strides), value.dtype.itemsize)


def _array_bytes(array: Array) -> Number:
    return size_polynomials.times(size_polynomials.product(array.shape), array.type.bytes)


def _life(value: Value, made: Sequence[Made]) -> arena_layout.Life:
    steps = [
        i for i, one in enumerate(made) if any(v.node is value.node for v in (*one.group.inputs, *one.group.outputs))
    ]
    return arena_layout.Life(value.elements * value.dtype.itemsize, steps[0], steps[-1])
