"""Groups that become one function of several nests, so that the search lets them share loops.

before:    scores = product(q, k)        (a group)
           weights = softmax of its rows (a group)
           mixed = product(weights, v)   (a group)
after:     one function of three nests; what only they read is its scratch memory
requires:  a group around a product, what alone reads its result and reduces rows of it, and what alone reads that and
           is a product: attention, as people write it

Other neighbours gain nothing by it: each is a pass over memory that caches do not hold, or one that they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from torch import fx

from polydl.model.types import ElementType
from polydl.torch_backend.graph_values import Value
from polydl.torch_backend.loop_index import Var
from polydl.torch_backend.loop_program import Array, Program, Statement
from polydl.torch_backend.operator_call import Kind

PRODUCTS = frozenset(f"aten.{name}.default" for name in ("mm", "bmm", "addmm", "baddbmm", "linear"))
"""Operators that are products of matrices."""
MOST_INPUTS = 16
"""Tensors that one function reads."""
_APART = 1 << 20
"""More than the number of any variable of one group."""


@dataclass(frozen=True, slots=True)
class Link:
    """A group that may be chained."""

    kinds: frozenset[Kind]
    product: bool
    """Whether it is around a product of matrices."""
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    program: Program
    """Before its loops are joined."""
    indices: frozenset[fx.Node]
    """Inputs whose elements are checked before the function runs: they cannot be computed in it."""


def chains(links: Sequence[Link]) -> list[tuple[int, ...]]:
    """Numbers of groups that become one, in the order in which they run; each group is in one of them."""
    readers: dict[fx.Node, list[int]] = {}
    for number, link in enumerate(links):
        for value in link.inputs:
            readers.setdefault(value.node, []).append(number)

    def next_of(number: int) -> int | None:
        """What alone reads the only result of a group."""
        outputs = links[number].outputs
        its = readers.get(outputs[0].node, []) if len(outputs) == 1 else []
        return its[0] if len(its) == 1 and outputs[0].node not in links[its[0]].indices else None

    found: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for number, link in enumerate(links):
        middle = next_of(number)
        if middle is None or not link.product or Kind.ROW not in links[middle].kinds:
            continue
        last = next_of(middle)
        if last is None or not links[last].product or not taken.isdisjoint((number, middle, last)):
            continue
        if len({one.node for n in (number, middle, last) for one in links[n].inputs}) <= MOST_INPUTS:
            found[last] = (number, middle, last)
            taken |= {number, middle, last}
    return [found.get(n, (n,)) for n in range(len(links)) if n not in taken or n in found]


def one_of(links: Sequence[Link], wanted: Set[fx.Node]) -> Link:
    """One function of several nests in place of functions; what nobody else reads is its scratch memory."""
    if len(links) == 1:
        return links[0]
    arrays: dict[fx.Node, Array] = {}
    inputs: list[Value] = []
    outputs: list[Value] = []
    scratch: list[Array] = []
    body: list[Statement] = []
    for number, link in enumerate(links):
        read = {value.node for later in links[number + 1 :] for value in later.inputs}
        by: dict[Array, Array] = {}
        for value, array in zip(link.inputs, link.program.inputs, strict=True):
            if value.node not in arrays:
                arrays[value.node] = replace(array, name=f"a{len(inputs)}")
                inputs.append(value)
            by[array] = arrays[value.node]
        for value, array in zip(link.outputs, link.program.outputs, strict=True):
            inner = value.node in read and value.node not in wanted
            name = f"s{len(scratch)}" if inner else f"o{len(outputs)}"
            arrays[value.node] = by[array] = replace(array, name=name)
            if inner:
                scratch.append(by[array])
            else:
                outputs.append(value)
        body += _Moved(by, number).of(link.program.body)
    made = (arrays[value.node] for value in outputs)
    program = Program(tuple(arrays[value.node] for value in inputs), tuple(made), tuple(body), tuple(scratch))
    kinds, indices = (
        frozenset[Any]().union(*sets) for sets in zip(*((one.kinds, one.indices) for one in links), strict=True)
    )
    return Link(kinds, True, tuple(inputs), tuple(outputs), program, indices)


class _Moved:
    """Statements with other arrays, and variables of their own."""

    def __init__(self, arrays: Mapping[Array, Array], number: int) -> None:
        self._arrays, self._number = dict(arrays), number

    def of(self, value: Any) -> Any:
        match value:
            case Array():
                if value not in self._arrays:
                    self._arrays[value] = replace(value, name=f"{value.name}_{self._number}")
                return self._arrays[value]
            case Var(number):
                return replace(value, number=number + self._number * _APART)
            case ElementType():
                return value
            case tuple() | list():
                return type(value)(map(self.of, value))
            case frozenset():
                return frozenset(map(self.of, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: self.of(getattr(value, one.name)) for one in fields(value)})
        return value
