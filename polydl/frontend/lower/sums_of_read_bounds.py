"""Sums in code that is kept as it is written, since data decide its loops' bounds: they may add up in lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.node_copies import mapped
from polydl.frontend.core.tree_parts import declaration, indexed, integer, items_of, text_of, type_named
from polydl.frontend.lower.unroll_and_jam import jammed
from polydl.frontend.lower.upward_loops import Bounds, bounds_of, counts_along, is_pure, is_still
from polydl.frontend.meaning.memory_places import Memory
from polydl.frontend.meaning.symbols import Symbol, mentions, nodes
from polydl.model.combiners import Regrouping, of_assignment
from polydl.model.types import F32, F64, ElementType

_SIMD = "omp simd"
_OWN = "polydl_sum{}"
"""Names of the scalars that stand for elements while the loop runs."""
_ROW = "polydl_row{}"
"""Names of pointers to rows that the loop runs along."""
_CALL = 10
"""Operations that a call of a function counts as."""


def in_lanes(code: Node, find: Callable[[str], Symbol | None]) -> Node | None:
    """Code in which loops that only add up do so in vector lanes: loops of which each iteration declares what
    it needs and adds to scalars or elements of floating point that nothing else in the loop reads or writes. None
    where there are none.

    before:    for (int k = ptr[i]; k < ptr[i + 1]; k++) y[i] += a[k];
    after:     if (ptr[i] < ptr[i + 1]) {
                 float sum = 0;
                 #pragma omp simd reduction(+ : sum)
                 for (int k = ptr[i]; k < ptr[i + 1]; k++) sum += a[k];
                 y[i] += sum;
               }

    A loop inside of others does so where it leads from element to element of the rows that it reads. `find`: what a
    name outside of the code denotes.
    """
    own = {node.name: node for node in nodes(code) if isinstance(node, c_ast.Decl)}
    memory = Memory([code], find)

    def typed(name: str) -> ElementType | None:
        symbol = find(name)
        if name in own:
            return _declared_type(own[name]) if symbol is None else None  # which of the two is not asked
        if symbol is None or symbol.pinned:
            return None
        return symbol.ctype if isinstance(symbol.ctype, ElementType) else None

    found = False

    def changed(node: Node) -> Node:
        nonlocal found
        several = _several(node, typed, memory)
        if several is not None:
            found = True
            return c_ast.Compound([*several[:-1], mapped(several[-1], changed)])
        made = _summed(node, typed, memory)
        if made is None or not (node is code or _along_rows(node)):
            return mapped(node, changed)
        found = True
        return made

    made = changed(code)
    return made if found else None


def _several(node: Node, typed: Callable[[str], ElementType | None], memory: Memory) -> list[Node] | None:
    """A loop whose entries are independent, four at a time, and the loop over what is left; None for other code."""
    bounds = bounds_of(node)
    if bounds is None or not (is_pure(bounds.loop.stmt) and is_pure(bounds.last)):
        return None

    def lanes(loop: c_ast.For, old: Mapping[str, str]) -> Node | None:
        return _summed(loop, lambda name: typed(old.get(name, name)), memory) if _along_rows(loop) else None

    return jammed(bounds, lanes, memory)


def _along_rows(loop: Node) -> bool:
    """Whether the last subscripts of all that a loop adds up count with it, and no others."""
    bounds = bounds_of(loop)
    if bounds is None:
        return False
    counter = bounds.counter

    def follows(node: Node, *, inside: bool = False) -> bool:
        if isinstance(node, c_ast.ArrayRef) and counter in mentions(node):
            return not inside and counts_along(node.subscript, counter) and counter not in mentions(node.name)
        return all(follows(child, inside=inside or isinstance(node, c_ast.ArrayRef)) for _, child in node.children())

    return follows(bounds.loop.stmt)


def _declared_type(decl: c_ast.Decl) -> ElementType | None:
    """Of a scalar of floating point."""
    type_ = decl.type.type if isinstance(decl.type, c_ast.TypeDecl) else None
    names = type_.names if isinstance(type_, c_ast.IdentifierType) else []
    return next((one for one in (F32, F64) if names == [one.c]), None)


def _summed(loop: Node, typed: Callable[[str], ElementType | None], memory: Memory) -> Node | None:
    """A loop that only adds up, in lanes; None for other code."""
    bounds = bounds_of(loop)
    parts = None if bounds is None else _parts(bounds.loop)
    if bounds is None or parts is None:
        return None
    declared, sums = parts
    targets = [_target(one.lvalue, typed) for one in sums]
    places = [each for one in sums for each in indexed(one.lvalue)[1]]
    inside = [*(d.init for d in declared if d.init is not None), *(one.rvalue for one in sums), *places]
    fixed = {bounds.counter, *(d.name for d in declared)}
    named = [t.name for t in targets if t is not None]
    stored = [memory.place(one.lvalue) for one in sums]
    read = any(memory.touches(each, place) for each in (*inside, bounds.first, bounds.last) for place in stored)
    moved = set().union(*map(mentions, places))
    still = all(map(is_still, (*inside, bounds.first, bounds.last)))
    apart = memory.apart(one.lvalue for one in sums)
    if None in targets or not apart or read or moved & fixed or not still:
        return None
    if set(named) & fixed or _mostly_gathered(declared, sums, bounds.counter):
        return None
    return _lanes(declared, sums, [t for t in targets if t is not None], bounds, typed)


def _mostly_gathered(declared: Sequence[c_ast.Decl], sums: Sequence[c_ast.Assignment], counter: str) -> bool:
    """Whether a loop does less than two operations for each element that it gathers. Gathers are no faster in lanes
    than one by one, and the lanes have to be added up at the end: sums of `f[list[k]]` over 4 to 16 entries take 1.1
    to 1.5 times as long in lanes on an Intel Xeon with AVX-512.
    """
    operations, gathered = len(sums), set[str]()
    read = set[str]()
    """Names of what an iteration reads from arrays."""
    codes = [*((one.init, one.name) for one in declared), *((one.rvalue, "") for one in sums)]
    for code, name in codes:
        assert code is not None, "an initial value is asked for before"
        for node in nodes(code, lambda one: isinstance(one, c_ast.ArrayRef)):
            operations += _CALL if isinstance(node, c_ast.FuncCall) else isinstance(node, c_ast.BinaryOp)
        elements = [node for node in nodes(code) if isinstance(node, c_ast.ArrayRef)]
        for one in elements:
            inner = (node for node in nodes(one.subscript) if isinstance(node, c_ast.ArrayRef))
            if read & set(mentions(one.subscript)) or any(counter in mentions(node) for node in inner):
                gathered.add(text_of(one))
        if name and elements:
            read.add(name)
    return operations < 2 * len(gathered)


@dataclass(frozen=True, slots=True)
class _Target:
    """The scalar, or the array of the element, that is added to."""

    name: str
    type: ElementType


def _parts(loop: c_ast.For) -> tuple[list[c_ast.Decl], list[c_ast.Assignment]] | None:
    """What an iteration declares, and its accumulations behind; None where there is anything else."""
    parts = items_of(loop.stmt)
    declared = [part for part in parts if isinstance(part, c_ast.Decl)]
    sums = [part for part in parts if isinstance(part, c_ast.Assignment) and _in_any_order(part.op)]
    scalars = all(isinstance(d.type, c_ast.TypeDecl) and not d.storage and d.init is not None for d in declared)
    return (declared, sums) if sums and scalars and parts == [*declared, *sums] else None


def _in_any_order(op: str) -> bool:
    """Whether lanes may each have a part of what an assignment accumulates: a product might overflow in one."""
    row = of_assignment(op)
    return row is not None and row.floats in (Regrouping.EXACT, Regrouping.ROUNDS)


def _target(place: Node, typed: Callable[[str], ElementType | None]) -> _Target | None:
    """None where it is neither a scalar nor an element, or not of floating point."""
    name, _ = indexed(place)
    found = typed(name) if name else None
    return _Target(name, found) if found in (F32, F64) else None


def _lanes(
    declared: list[c_ast.Decl],
    sums: list[c_ast.Assignment],
    targets: list[_Target],
    bounds: Bounds,
    typed: Callable[[str], ElementType | None],
) -> Node:
    before, after, reductions, inside = list[Node](), list[Node](), "", list[Node]()
    for number, (one, target) in enumerate(zip(sums, targets, strict=True)):
        row = of_assignment(one.op)
        assert row is not None and row.neutral is not None
        name = target.name
        if indexed(one.lvalue)[1]:
            name = _OWN.format(number)
            before.append(declaration(type_named(target.type.c, name), name, integer(row.neutral)))
            after.append(c_ast.Assignment(f"{row.symbol}=", one.lvalue, c_ast.ID(name)))
        reductions += f" reduction({row.symbol} : {name})"
        inside.append(c_ast.Assignment(one.op, c_ast.ID(name), one.rvalue))
    rows: list[Node] = []
    fixed = {bounds.counter, *(one.name for one in declared)}
    inside = [_along_pointers(one, bounds.counter, fixed, rows, typed) for one in inside]
    before += rows
    made = copy(bounds.loop)
    made.stmt = c_ast.Compound([*declared, *inside])
    code = c_ast.Compound([*before, c_ast.Pragma(f"{_SIMD}{reductions}"), made, *after])
    if not before:
        return code
    return c_ast.If(c_ast.BinaryOp(bounds.op, bounds.first, bounds.last), code, None)


def _along_pointers(
    node: Node, counter: str, fixed: set[str], rows: list[Node], typed: Callable[[str], ElementType | None]
) -> Node:
    """Code in which rows that a loop runs along are pointers, whose declarations `rows` gets: of a row of an array that
    is const, as `x[idx[p]]` of `const float x[][9]`, gcc 12 makes no vectors.

    before:    sum += a[i][k] * x[idx[p]][k];
    after:     const float *row0 = a[i], *row1 = x[idx[p]]; … sum += row0[k] * row1[k];
    """
    if isinstance(node, c_ast.ArrayRef) and isinstance(node.name, c_ast.ArrayRef) and counter in mentions(node):
        base, _ = indexed(node.name)
        element = typed(base) if base else None
        if element in (F32, F64) and not fixed & set(mentions(node.name)) and is_still(node.name):
            assert element is not None, "one of these"
            name = _ROW.format(len(rows))
            rows.append(declaration(c_ast.PtrDecl([], type_named(element.c, name, ["const"])), name, node.name))
            made = copy(node)
            made.name = c_ast.ID(name)
            return made
    return mapped(node, lambda inner: _along_pointers(inner, counter, fixed, rows, typed))
