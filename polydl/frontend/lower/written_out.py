"""What C does at once, as the loops and assignments that it stands for: `memset`, `memcpy`, arrays with initialisers.

memset(x, 0, n * sizeof *x);        for (k = 0; k < n; k++) x[k] = 0;
memcpy(y, x, sizeof y);             for (k = 0; k < 64; k++) y[k] = x[k];
double acc[4] = {1};                for (k = 0; k < 4; k++) acc[k] = 0; acc[0] = 1;
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.tree_parts import counting, integer
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine
from polydl.frontend.meaning.data_subscripts import Chosen
from polydl.frontend.meaning.symbols import Level, Symbol
from polydl.model.types import ElementType

FILLING = frozenset({"memset", "memcpy", "memmove"})
"""Functions of <string.h> that are written out."""
_COUNTER = "k"


def filled(call: c_ast.FuncCall, state: State) -> Node:
    """The loops that a call of one of `FILLING` stands for. Raises InputError where it is another function, or fills
    something else than whole elements."""
    assert isinstance(call.name, c_ast.ID), "it is one of these"
    name = call.name.name
    arguments = list(call.args.exprs) if call.args is not None else []
    if len(arguments) != 3:
        raise _refused(call, state, f"'{name}' is called with other arguments than it takes")
    target, given, size = arguments
    symbol, extents = _pointed(target, state)
    element = symbol.ctype
    assert isinstance(element, ElementType), "Values lets no others through"
    _known_size(size, name, state)
    count = _elements(size, element, extents, state)
    if name == "memset":
        byte = _constant(given, state)
        if byte is None or (byte != 0 and element.bits != 8):
            raise _refused(given, state, f"'memset' sets elements of '{element}' to other bytes than 0")
        return _loops(target, integer(byte, given.coord), count, call, state, read=False)
    source, inner = _pointed(given, state)
    if source.ctype is not element or inner != extents:
        raise _refused(given, state, f"'{name}' copies elements of '{source.ctype.c}' to others of '{element}'")
    if source is symbol and name == "memmove":
        raise _refused(call, state, "'memmove' moves elements of one array, which may overlap")
    return _loops(target, given, count, call, state, read=True)


def initialised(decl: c_ast.Decl, found: Symbol, state: State) -> list[Node]:
    """The statements that give an array of the region what its initialiser says. Raises InputError."""
    known, name = _extents(found.levels, state), c_ast.ID(found.name, decl.coord)
    if not isinstance(decl.init, c_ast.InitList) or known is None or any(extent <= 0 for extent in known):
        raise _refused(decl, state, "an array is initialised in the scop with something else than a list")
    listed = list(_listed(decl.init, name, known, state))
    total = 1
    for extent in known:
        total *= extent
    made = [] if len(listed) == total else [_loops(name, integer(0, decl.coord), known, decl, state, read=False)]
    zero = [one for one in listed if made and _constant(one.rvalue, state) == 0]
    return [*made, *(one for one in listed if one not in zero)]


def without_const(decl: c_ast.Decl) -> c_ast.Decl:
    """A declaration of an array whose elements may be written."""
    made = copy.copy(decl)
    made.quals = [word for word in decl.quals or [] if word != "const"]
    made.type = copy.deepcopy(decl.type)
    inner: Any = made.type
    while not isinstance(inner, c_ast.TypeDecl):
        inner = inner.type
    inner.quals = [word for word in inner.quals or [] if word != "const"]
    return made


def _listed(values: c_ast.InitList, place: Node, extents: Sequence[int], state: State) -> Iterator[c_ast.Assignment]:
    """The assignments of what an initialiser lists."""
    if len(values.exprs) > extents[0]:
        raise _refused(place, state, "an initialiser lists more than the array holds")
    for at, value in enumerate(values.exprs):
        element = c_ast.ArrayRef(place, integer(at, value.coord), value.coord)
        if isinstance(value, c_ast.NamedInitializer) or isinstance(value, c_ast.InitList) != (len(extents) > 1):
            if len(extents) > 1 and len(values.exprs) == 1 and _constant(value, state) == 0:
                return  # {0} of an array of arrays
            raise _refused(place, state, "an array is initialised in the scop with designators or without inner braces")
        if isinstance(value, c_ast.InitList):
            yield from _listed(value, element, extents[1:], state)
        else:
            yield c_ast.Assignment("=", element, value, value.coord)


def _pointed(node: Node, state: State) -> tuple[Symbol, list[int]]:
    """The array that a pointer points into, and the extents of the arrays that are its elements. Raises InputError."""
    builder = state.values()
    node = _uncast(node)
    if not builder.is_pointer(node):
        raise _refused(node, state, "what is filled is no place in an array")
    symbol, subscripts, offset = builder.pointed_at(node, state.domain)
    if any(isinstance(one, Chosen) for one in (*subscripts, offset)):
        raise _refused(node, state, "data choose what is filled")
    extents = _extents(symbol.levels[len(subscripts) + 1 :], state)
    if not isinstance(symbol.ctype, ElementType) or extents is None or symbol.members is not None:
        raise _refused(node, state, f"how many elements of '{symbol.shown}' are filled is not known")
    return symbol, extents


def _extents(levels: Sequence[Level], state: State) -> list[int] | None:
    """The extents of dimensions; None where one is not known."""
    found = [None if level.extent is None else _constant(level.extent, state) for level in levels]
    known = [extent for extent in found if extent is not None]
    return known if len(known) == len(found) else None


def _elements(size: Node, element: ElementType, inner: Sequence[int], state: State) -> list[Node | int]:
    """How often each of the loops runs that fill so many bytes, outermost first. Raises InputError."""
    factors, bytes_ = [], 1
    for part in _multiplied(size):
        value = _constant(part, state)
        if value is None:
            factors.append(part)
        else:
            bytes_ *= value
    whole = element.bytes
    for extent in inner:
        whole *= extent
    if bytes_ % whole:
        raise _refused(size, state, f"it fills no whole number of elements of {whole} bytes, as far as is known")
    count: Node = integer(bytes_ // whole, size.coord)
    for factor in factors:
        count = factor if getattr(count, "value", "") == "1" else c_ast.BinaryOp("*", count, factor, size.coord)
    return [count, *inner]


def _known_size(size: Node, name: str, state: State) -> None:
    """The size is evaluated once, before anything is stored. Raises InputError where data decide it: the loops would
    read it again in each iteration, from what may have been stored to."""
    for factor in _multiplied(size):
        try:
            state.evaluator.value(factor, state.domain)
        except NotAffine as error:
            if error.data:
                hint = "write it as a loop over elements, up to a bound that is known before"
                why = f"data decide how many bytes '{name}' fills: {error.why}"
                raise state.places.error(why, size, hint, topic="depends-on-data") from None


def _multiplied(node: Node) -> list[Node]:
    """What a product is of, conversions left out."""
    inner = _uncast(node)
    if isinstance(inner, c_ast.BinaryOp) and inner.op == "*":
        return [*_multiplied(inner.left), *_multiplied(inner.right)]
    return [inner]


def _loops(target: Node, value: Node, extents: Sequence[Node | int], node: Node, state: State, *, read: bool) -> Node:
    """Loops that store a value, or with `read` the elements of what `value` points to."""
    words = set(re.findall(r"[A-Za-z_]\w*", state.settings.unit.preprocessed.text))
    names: list[str] = []
    number = 0
    while len(names) < len(extents):
        name = f"{_COUNTER}{number}"
        if name not in words:
            names.append(name)
        number += 1
    places = [_uncast(target)] + ([_uncast(value)] if read else [])
    for name in names:
        places = [c_ast.ArrayRef(place, c_ast.ID(name, node.coord), node.coord) for place in places]
    made: Node = c_ast.Assignment("=", places[0], places[1] if read else value, node.coord)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        bound = integer(extent, node.coord) if isinstance(extent, int) else extent
        made = counting("long", name, bound, made, node.coord)
    return made


def _uncast(node: Node) -> Node:
    while isinstance(node, c_ast.Cast):
        node = node.expr
    return node


def _constant(node: Node, state: State) -> int | None:
    try:
        return state.evaluator.number(node)
    except NotAffine:
        return None


def _refused(node: Node, state: State, reason: str) -> InputError:
    return state.places.error(reason, node, "write it as loops over elements", topic="declarations")
