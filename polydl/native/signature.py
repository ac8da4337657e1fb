"""Reads the signature of a C function, its parameters and result, from its definition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
from pycparser import c_ast, c_generator

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.ctypes import VOID, CType
from polydl.frontend.meaning.symbols import Scope, mentions
from polydl.frontend.text.parse import Unit
from polydl.model import isl
from polydl.model.isl import quota, to_int
from polydl.model.scop import Region, Scop, Storage
from polydl.model.types import CHAR, ElementType, element_type


@cache
def dtypes(element: ElementType) -> tuple[str, ...]:
    """The names of the element types that are the same, as NumPy and torch say them."""
    names = [np.dtype(element.numpy).name] if element.numpy else []
    names += [element.torch] if element.torch else []
    # The sign of plain char is the compiler's choice: bytes of either kind are such elements.
    names += ["uint8"] if element is CHAR else []
    return tuple(dict.fromkeys(names))


_CONTAINERS = (
    c_ast.Compound, c_ast.If, c_ast.For, c_ast.While, c_ast.DoWhile,
    c_ast.Switch, c_ast.Case, c_ast.Default, c_ast.Label,
)  # fmt: skip
"""Statements that may contain a scop."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a C function."""

    name: str
    element: ElementType
    """Of an element, or of the scalar."""
    dims: tuple[str | None, ...] | None
    """C text of the extents, in terms of integer parameters. Only the first may be None, if it is not declared. None
    for all: a scalar."""
    const: bool
    restrict: bool
    written: bool
    """Whether the function may write to the array."""
    least: int | None = None
    """For an array without a declared first extent: the number of elements (of rows, if it has more dimensions) that
    the scops reach at the sizes that they were read with. None: they reach none."""
    default: int | None = None
    """For an integer: the size that the kernel was made for."""
    any_value: bool = False
    """For an integer: no size was given, and the kernel is made for every value."""

    @property
    def is_array(self) -> bool:
        return self.dims is not None

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the element types that this parameter takes."""
        return dtypes(self.element)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the result of a C function."""

    function: str
    parameters: tuple[Parameter, ...]
    result: ElementType | None
    """Of the value it returns; None: void."""

    def without_sizes(self, names: Collection[str]) -> Signature:
        """The same for a kernel that is made for every value of these parameters."""
        free = (replace(p, default=None, any_value=True) if p.name in names else p for p in self.parameters)
        return replace(self, parameters=tuple(free))

    def to_data(self) -> dict[str, Any]:
        """For JSON; `from_data` reads it back."""
        parameters = [
            {f.name: getattr(p, f.name) for f in fields(p)} | {"element": p.element.c} for p in self.parameters
        ]
        result = None if self.result is None else self.result.c
        return {"function": self.function, "parameters": parameters, "result": result}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Signature:
        parameters = [
            Parameter(
                **{
                    **p,
                    "element": element_type(p["element"]),
                    "dims": None if p["dims"] is None else tuple(p["dims"]),
                }
            )
            for p in data["parameters"]
        ]
        result = None if data["result"] is None else element_type(data["result"])
        return Signature(data["function"], tuple(parameters), result)


def variables(unit: Unit) -> frozenset[str]:
    """The names of all variables and parameters that the file itself declares, not its headers."""
    own = [e for e in unit.externals if e.coord is not None and str(e.coord.file) == unit.source.path]
    return frozenset(name for external in own for name in _declared(external))


def _declared(node: Any) -> Iterator[str]:
    if isinstance(node, c_ast.Decl) and node.name and not isinstance(node.type, c_ast.FuncDecl):
        yield node.name
    for _, child in node.children():
        yield from _declared(child)


def signature(scops: Sequence[Scop], unit: Unit) -> Signature:
    """The signature of the function that the scops stand in; `unit`: the file.

    Raises InputError for parameters that have no counterpart in Python, and for scops that write to global arrays.
    """
    first = scops[0]
    scope = Scope()
    definition = None
    for external in unit.externals:
        scope.declare(external.decl if isinstance(external, c_ast.FuncDef) else external, Storage.GLOBAL, constant)
        if isinstance(external, c_ast.FuncDef) and external.decl.name == first.function:
            definition = external
    if definition is None:
        raise InputError(f"the definition of {first.function} is not found", first.span)
    for scop in scops:
        _no_globals_written(scop)
    declaration: Any = definition.decl.type
    outside = frozenset(_named_outside(definition.body, scops))
    declared = declaration.args.params if declaration.args is not None else []
    parameters = []
    for node in declared:
        if isinstance(node, c_ast.Typename) and scope.resolve(node.type)[0] == VOID and len(declared) == 1:
            break
        parameters.append(_parameter(node, scope, scops, outside))
    result, levels, _, _ = scope.resolve(declaration.type)
    value = _in_python(result)
    if levels or (result != VOID and value is None):
        raise InputError(f"{first.function} returns a value that Python has no type for", first.span)
    return Signature(first.function, tuple(parameters), value)


def _in_python(ctype: CType) -> ElementType | None:
    """A type of which Python has values; None for others."""
    return ctype if isinstance(ctype, ElementType) and dtypes(ctype) else None


def _parameter(node: Any, scope: Scope, scops: Sequence[Scop], outside: frozenset[str]) -> Parameter:
    function, span = scops[0].function, scops[0].span
    if not isinstance(node, c_ast.Decl):
        raise InputError(f"a parameter of {function} has no name, or there is any number of them", span)
    ctype, levels, const, is_function = scope.resolve(node.type)
    name = str(node.name)
    element = _in_python(ctype)
    if is_function or element is None or any(level.pointer for level in levels[1:]):
        hint = "parameters are arrays, pointers to elements, and scalars of C's arithmetic types"
        raise InputError(f"parameter '{name}' of {function} has no counterpart in Python", span, hint)
    if not levels:
        default = next((s.sizes[name] for s in scops if name in s.sizes and element.is_int), None)
        return Parameter(name, element, None, const, False, False, default=default)
    writer = c_generator.CGenerator()
    dims = tuple(None if level.extent is None else str(writer.visit(level.extent)) for level in levels)
    # A pointer declares no first extent, and neither does `A[*]`.
    dims = (None if levels[0].pointer else dims[0], *dims[1:])
    inside = any(a.array == name and a.write for s in scops for st in s.statements for a in st.accesses)
    written = not const and (inside or name in outside)
    least = _least(name, scops) if dims[0] is None else None
    return Parameter(name, element, dims, const, levels[0].restrict, written, least)


def _named_outside(body: Any, scops: Sequence[Scop]) -> Iterator[str]:
    """The names that the function uses outside of its scops."""
    inside = [_lines(s.source.text, s.region) for s in scops]
    waiting = [body]
    while waiting:
        node = waiting.pop()
        line = node.coord.line if node.coord is not None else 0
        # On a line that a region shares with other code, its loops are the region's, and what is no loop is not.
        if any(first <= line <= last and (not shared or isinstance(node, c_ast.For)) for first, last, shared in inside):
            continue
        if isinstance(node, _CONTAINERS):
            waiting += [child for _, child in node.children()]
        else:
            yield from mentions(node)


def _lines(text: str, region: Region) -> tuple[int, int, bool]:
    """First and last line of a region, and whether other code stands on one of them."""
    before = text[text.rfind("\n", 0, region.start) + 1 : region.start]
    after, _, _ = text[region.end :].partition("\n")
    first, last = (text.count("\n", 0, place) + 1 for place in (region.start, region.end))
    return first, last, bool(before.strip() or after.strip())


def _no_globals_written(scop: Scop) -> None:
    for statement in scop.statements:
        for access in statement.accesses:
            array = scop.arrays[access.array]
            if access.write and array.storage is Storage.GLOBAL:
                raise InputError(
                    f"{scop.function} writes to the global '{array.name}', which a call from Python cannot pass",
                    access.span or scop.span,
                    f"make '{array.name}' a parameter",
                )


def _least(name: str, scops: Sequence[Scop]) -> int | None:
    """1 + the largest first subscript, or the largest offset of a linear array, over all accesses."""
    highest: int | None = None
    for scop in scops:
        array = scop.arrays.get(name)
        if array is None:
            continue
        for access in (a for s in scop.statements for a in s.accesses if a.array == name):
            with quota(f"the elements of {name} that {scop.function} reaches"):
                reached = access.relation.range()
                if reached.is_empty() or not (access.exact or reached.is_bounded()):
                    continue  # nothing is read, or nothing says how far
                if array.layout.packed is not None:
                    ends = [array.layout.offset(isl.lex_extreme(reached, greatest=last)) for last in (False, True)]
                    low, high = map(isl.value, ends)
                elif array.linear:
                    reached = isl.project_onto(reached, range(len(array.extents) - array.behind))
                    offset = array.in_front.layout.address(reached)
                    low, high = reached.min_val(offset), reached.max_val(offset)
                else:
                    offset = isl.coordinate(reached, 0)
                    low, high = reached.min_val(offset), reached.max_val(offset)
            if not low.is_int() or to_int(low) < 0:
                raise InputError(f"{scop.function} reaches elements before the start of '{name}'", access.span)
            highest = max(to_int(high), -1 if highest is None else highest)
    return None if highest is None else highest + 1
