"""What lowerings of operators are made of: the call of an operator with its arguments by name, tensors as functions
of their subscripts, and what a lowering says of its loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from operator import getitem
from typing import Any, NoReturn, Protocol

import torch
from torch import fx

from polydl.model.types import BF16_BITS, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, ElementType
from polydl.torch_backend.loop_index import ZERO, Index, Var
from polydl.torch_backend.loop_program import Array, Const, Expr, Load, Op
from polydl.torch_backend.loop_writer import Made, Writer

STORED: dict[torch.dtype, ElementType] = {
    torch.float32: F32,
    torch.float64: F64,
    torch.float16: F16,
    torch.bfloat16: BF16_BITS,
    torch.int8: I8,
    torch.uint8: U8,
    torch.int16: I16,
    torch.int32: I32,
    torch.int64: I64,
    torch.bool: U8,
}
"""The types of elements that can be lowered, as they are in memory; a truth is a byte of 0 or 1."""

At = Callable[[tuple[Index, ...]], Expr]


class Unsupported(Exception):
    """Why an operator is not lowered, as a clause behind "because"."""


def computed(dtype: torch.dtype) -> ElementType:
    """The type that is computed with: of the two narrow floating-point types float, as eager kernels do (opmath)."""
    if dtype is torch.bool:
        return BOOL
    stored = STORED[dtype]
    return F32 if stored in (F16, BF16_BITS) else stored


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """A tensor as a function of its subscripts."""

    sizes: tuple[int, ...]
    dtype: torch.dtype
    at: At
    """An expression of type `computed(dtype)`."""
    absent: bool = False
    """Of a result: whether the call does not ask for it."""

    @property
    def type(self) -> ElementType:
        return computed(self.dtype)


class Kind(Enum):
    """How an operator's loops can stand with those of others."""

    VIEW = "view"
    """The same memory with other subscripts: never written."""
    POINTWISE = "pointwise"
    """One element of few others; written once, read in the loop that writes it."""
    ROW = "row"
    """Reductions along some axes of what it reads, and elements computed of them: one that is computed before may be
    computed again in the reduction's loop."""
    CONTRACTION = "contraction"
    """A long sum per element: computed once."""
    WHOLE = "whole"
    """Loops of its own, which write its results."""


Place = Callable[[tuple[Index, ...]], tuple[Index, ...]]


def same_place(point: tuple[Index, ...]) -> tuple[Index, ...]:
    """Of a result whose dimensions are the axes of the domain."""
    return point


def along(axes: Sequence[int]) -> Place:
    """Of a result whose dimensions are these axes of the domain, in order; -1: one of a single element."""
    return lambda point: tuple(point[axis] if axis >= 0 else ZERO for axis in axes)


@dataclass(frozen=True, slots=True)
class Result:
    """One tensor that an operator gives."""

    element: Element
    place: Place
    """Its subscripts at a point of the domain."""


def written(sizes: tuple[int, ...], dtype: torch.dtype) -> Result:
    """A result that loops of the operator's own write."""
    element = computed(dtype)
    return Result(Element(sizes, dtype, lambda _: Const(_number(0, element), element)), same_place)


ABSENT = Result(Element((0,), torch.float32, lambda _: Const(0.0, F32), absent=True), same_place)


Target = Callable[[tuple[Index, ...]], Load]
"""An element of a result in memory, by its subscripts."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """An operator's loops: a domain, and what its results are at a point of it."""

    kind: Kind
    domain: tuple[int, ...]
    results: tuple[Result, ...]
    reduced: frozenset[int] = frozenset()
    """Of a row: the axes along which it reduces."""
    write: Callable[[Sequence[Target | None]], None] | None = None
    """Of a whole: writes the loops; a target for each result, None for one that nobody reads."""


class Scope(Protocol):
    """What a lowering may ask for."""

    writer: Writer

    def element(self, node: fx.Node) -> Element:
        """The tensor that a node gives."""
        ...

    def bound(self, node: fx.Node, least: int, most: int, *, known: bool = False) -> None:
        """Has it checked before the loops run that the elements of a tensor of indices lie between two numbers, unless
        that is known of how they are computed."""
        ...


EVERYWHERE = "polydl_values"
"""Under which a node of a graph with sizes that change keeps what it gives at each point at which the graph was looked
at."""


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call of an ATen operator by the names of its schema, with those that are left out."""
    assert isinstance(node.target, torch._ops.OpOverload)
    schema = node.target._schema.arguments
    given: dict[str, Any] = {one.name: one.default_value for one in schema if one.has_default_value()}
    return {**given, **dict(zip((one.name for one in schema), node.args, strict=False)), **node.kwargs}


class Call:
    """A call of an operator: its arguments by the names of its schema."""

    def __init__(self, node: fx.Node, scope: Scope) -> None:
        self.node = node
        self.scope = scope
        self.w = scope.writer
        self._given = arguments_of(node)

    def __getitem__(self, name: str) -> Any:
        """An argument that is no tensor; lists as they are. Raises Unsupported for one that is computed."""
        found = self._given.get(name)
        if isinstance(found, fx.Node):
            raise Unsupported(f"its argument '{name}' is computed")
        return found

    def given(self, name: str) -> bool:
        """Whether there is such an argument, other than None."""
        return self._given.get(name) is not None

    def raw(self, name: str) -> Any:
        """An argument as it stands in the graph."""
        return self._given.get(name)

    def is_tensor(self, name: str) -> bool:
        return isinstance(self._given.get(name), fx.Node)

    def meta(self, name: str) -> torch.Tensor:
        """Dtype, sizes and strides of an argument that is a tensor."""
        found: torch.Tensor = self._given[name].meta["val"]
        return found

    def most(self, name: str, dims: Sequence[int]) -> int:
        """The elements of a tensor along some of its dimensions; where its sizes change, the most that were seen."""
        every: tuple[torch.Tensor, ...] = self._given[name].meta.get(EVERYWHERE, (self.meta(name),))
        return max(prod(one.shape[d] for d in dims) for one in every)

    def element(self, name: str) -> Element:
        """An argument that is a tensor."""
        return self.scope.element(self._given[name])

    def elements(self, name: str) -> list[Element]:
        """An argument that is a list of tensors."""
        return [self.scope.element(one) for one in self._given[name]]

    def optional(self, name: str) -> Element | None:
        return self.element(name) if self.given(name) else None

    def out(self, number: int = 0) -> torch.Tensor:
        """Dtype, sizes and strides of a result."""
        found = self.asked()[number]
        assert found is not None
        return found

    def outs(self) -> list[torch.Tensor]:
        """Dtype, sizes and strides of all results."""
        return [one for one in self.asked() if one is not None]

    def asked(self) -> list[torch.Tensor | None]:
        """The same, None for each that the call does not ask for."""
        found = self.node.meta["val"]
        return list(found) if isinstance(found, list | tuple) else [found]

    @property
    def name(self) -> str:
        """Of the operator, without its overload."""
        return str(self.node.target).split(".")[1]

    def used(self, number: int) -> bool:
        """Whether something reads a result, of several."""
        return any(user.target is getitem and user.args[1] == number for user in self.node.users)

    def whole(self, write: Callable[[Sequence[Target | None]], None]) -> Lowered:
        """Loops that write the results themselves: each may be read as well, once it is written."""
        results = [ABSENT if out is None else written(tuple(out.shape), out.dtype) for out in self.asked()]
        first = next(one for one in results if one is not ABSENT)
        return Lowered(Kind.WHOLE, first.element.sizes, tuple(results), write=write)

    def sizes(self, number: int = 0) -> tuple[int, ...]:
        return tuple(int(one) for one in self.out(number).shape)

    def refuse(self, why: str) -> NoReturn:
        raise Unsupported(why)

    def once(self, what: str, index: tuple[Index, ...], make: Callable[[], Made]) -> Made:
        """What statements compute for the operator at an index: written once, as far outside as can be."""
        free: frozenset[Var] = frozenset()
        for one in index:
            free |= one.variables
        return self.w.once((self.node, what, index), free, make)

    def view(self, at: At, source: Element) -> Lowered:
        """Another view of a tensor."""
        sizes = self.sizes()
        return Lowered(Kind.VIEW, sizes, (Result(Element(sizes, source.dtype, at), same_place),))

    def pointwise(self, at: At) -> Lowered:
        """A result that is computed element by element; `at` gives it in the type in which its dtype is computed."""
        sizes = self.sizes()
        return Lowered(Kind.POINTWISE, sizes, (Result(Element(sizes, self.out().dtype, at), same_place),))


def cast(value: Expr, element: ElementType) -> Expr:
    """A value in another type, as torch converts it: to bool, whether it is not zero."""
    if value.type is element:
        return value
    if isinstance(value, Const):
        return Const(_number(value.value, element), element)
    if element is BOOL:
        return Op("cast", (Op("!=", (value, Const(0, value.type)), I32),), BOOL)
    return Op("cast", (value,), element)


def _number(value: int | float | bool, element: ElementType) -> int | float | bool:
    """A number as torch converts it: one that an integer type does not hold wraps around."""
    if element is BOOL:
        return bool(value)
    if not element.is_int:
        return float(value)
    return (int(value) - element.minimum) % (1 << element.bits) + element.minimum


def stored_value(value: Expr, dtype: torch.dtype) -> Expr:
    """What is stored in memory of a value in the type in which its dtype is computed."""
    stored = STORED[dtype]
    if value.type is stored:
        return value
    return Op("cast", (value,), stored)


def loaded(array: Array, index: tuple[Index, ...], dtype: torch.dtype) -> Expr:
    """An element of memory in the type in which its dtype is computed."""
    value = Load(array, index)
    if dtype is torch.bool:
        return Op("!=", (value, Const(0, value.type)), BOOL)
    return cast(value, computed(dtype)) if STORED[dtype] is not computed(dtype) else value


def broadcast(source: Element, sizes: Sequence[int]) -> At:
    """A tensor that is broadcast to these sizes."""
    if source.sizes == tuple(sizes):
        return source.at
    skipped = len(sizes) - len(source.sizes)

    def at(index: tuple[Index, ...]) -> Expr:
        own = index[skipped:]
        return source.at(tuple(ZERO if n == 1 else one for n, one in zip(source.sizes, own, strict=True)))

    return at


def constant(value: int | float | bool, dtype: torch.dtype) -> Element:
    """A tensor without dimensions that is a number."""
    element = computed(dtype)
    return Element((), dtype, lambda _: Const(_number(value, element), element))


def axis_of(dim: int, rank: int) -> int:
    """A dimension that may be counted from the end."""
    return dim + rank if dim < 0 else dim


Lowering = Callable[[Call], Lowered]
LOWERINGS: dict[str, Lowering] = {}
"""By the name of an operator's overload, `aten.add.Tensor`."""


def lowers(*names: str, library: str = "aten") -> Callable[[Lowering], Lowering]:
    """Registers a lowering for operators of a library by the names of their overloads."""

    def put(function: Lowering) -> Lowering:
        for name in names:
            assert f"{library}.{name}" not in LOWERINGS, name
            LOWERINGS[f"{library}.{name}"] = function
        return function

    return put
