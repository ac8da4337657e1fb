"""Rows that tables lead to, fetched some entries ahead of their use: hardware follows neighbouring lines, but not
`b[idx[p]]`.

before:    for (p = ptr[i]; p < ptr[i + 1]; p++) for (c = 0; c < k; c++) s[p] += a[i][c] * b[idx[p]][c];
after:     for (p = ptr[i]; p < ptr[i + 1]; p++) {
             if (p < ptr[end] && ahead < ptr[end] - p)
               for (line = 0; line < k && line < 256; line += 16) __builtin_prefetch(&b[idx[p + ahead]][line]);
             for (c = 0; c < k; c++) s[p] += a[i][c] * b[idx[p]][c];
           }
requires:  each iteration reads idx[p] where the loop over the row has iterations, and nothing ends the loop early; the
           program goes through all entries from p to ptr[end] - 1

`ahead` and `end` are those of `model.segment_ends`, declared where the text is printed; loops of other forms look ahead
to the end of their own segment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.node_copies import mapped
from polydl.frontend.core.tree_parts import declaration, indexed, integer, items_of, replaced, type_named
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.lower.upward_loops import PREFETCH, Bounds, bounds_of, counts_along, is_still
from polydl.frontend.meaning.liveness import assigned_names
from polydl.frontend.meaning.memory_places import Memory
from polydl.frontend.meaning.symbols import Symbol, mentions, nodes
from polydl.model.segment_ends import AHEAD, END, LINE_BYTES, MOST_LINES
from polydl.model.types import ElementType

_LINE = "polydl_line"
_LEAVES = (c_ast.Break, c_ast.Continue, c_ast.Goto, c_ast.Return)
_PERHAPS = (c_ast.TernaryOp, c_ast.If, c_ast.Switch, c_ast.For, c_ast.While, c_ast.DoWhile)


@dataclass(frozen=True, slots=True)
class Fetching:
    """Code that fetches rows ahead."""

    code: Node
    arrays: tuple[str, ...]
    """Of the rows."""


def fetching(code: Node, table: str, find: Callable[[str], Symbol | None]) -> Fetching | None:
    """The code with rows fetched ahead in its loops over entries; None where they read none by tables. `table`: the
    array whose elements bound the segment that the code is a loop over; empty: they are not known. `find`: what a name
    outside of the code denotes."""
    arrays: dict[str, None] = {}

    def changed(node: Node) -> Node:
        if not isinstance(node, c_ast.For):
            return mapped(node, changed)
        bounds = bounds_of(node)
        if bounds is None or not is_still(bounds.last):
            return mapped(node, changed)
        end = c_ast.ArrayRef(c_ast.ID(table), c_ast.ID(END)) if node is code and table else bounds.past
        rows = _rows(node, bounds, find)
        if not rows:
            return mapped(node, changed)
        arrays.update(dict.fromkeys(one.array for one in rows))
        made = copy(node)
        made.stmt = c_ast.Compound([*(_fetch(one, bounds.counter, end) for one in rows), *items_of(node.stmt)])
        return made

    made = changed(code)
    return Fetching(made, tuple(arrays)) if arrays else None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that a loop inside of one over entries runs along."""

    element: Node
    """`b[idx[p]][c]`."""
    array: str
    bounds: Bounds
    """Of the loop along it."""
    step: int
    """Elements of a line."""


def _rows(loop: c_ast.For, bounds: Bounds, find: Callable[[str], Symbol | None]) -> list[_Row]:
    """What loops directly inside of a loop over entries read by tables that the entry subscripts."""
    if any(isinstance(node, _LEAVES) for node in nodes(loop.stmt)):
        return []
    own = assigned_names(loop.stmt)
    if bounds.counter in own or own & set(mentions(bounds.last)):
        return []
    memory = Memory([loop], find)
    if memory.changes_what_is_read(loop.stmt, bounds.last):
        return []
    found: dict[str, _Row] = {}
    for inner in items_of(loop.stmt):
        along = bounds_of(inner)
        if along is None:
            continue
        heads = (along.first, along.last)
        if any({bounds.counter, *own} & set(mentions(one)) or not is_still(one) for one in heads):
            continue
        for element in _elements(along.loop.stmt):
            row = _row(element, bounds.counter, along, own, find)
            # A table that the loop makes itself is not known ahead.
            tables = [one for one in indexed(element)[1] if along.counter not in mentions(one)]
            changed = any(memory.changes_what_is_read(loop.stmt, one) for one in tables)
            if row is not None and not changed:
                found.setdefault(written(element), row)
    return list(found.values())


def _row(
    element: c_ast.ArrayRef, entry: str, along: Bounds, own: Collection[str], find: Callable[[str], Symbol | None]
) -> _Row | None:
    array, subscripts = indexed(element)
    symbol = find(array) if array and array not in own else None
    if symbol is None or not isinstance(symbol.ctype, ElementType):
        return None
    *others, last = subscripts
    neighbours = counts_along(last, along.counter)
    named = {name for one in subscripts for name in mentions(one)} - {along.counter}
    if not neighbours or any(along.counter in mentions(one) for one in others) or named & set(own):
        return None
    read = [node for one in subscripts for node in nodes(one) if isinstance(node, c_ast.ArrayRef)]
    by_table = any(entry in mentions(one.subscript) and _is_table(one, find) for one in read)
    if not by_table or not all(map(is_still, subscripts)):
        return None
    return _Row(element, array, along, max(LINE_BYTES // symbol.ctype.bytes, 1))


def _is_table(element: c_ast.ArrayRef, find: Callable[[str], Symbol | None]) -> bool:
    """Whether it is an element of an array of integers."""
    symbol = find(element.name.name) if isinstance(element.name, c_ast.ID) else None
    return symbol is not None and isinstance(symbol.ctype, ElementType) and symbol.ctype.is_int


def _elements(node: Node) -> list[c_ast.ArrayRef]:
    """The elements that code reads whatever its data are, each whole: `b[i][c]` and not its `b[i]`."""
    if isinstance(node, _PERHAPS) or (isinstance(node, c_ast.BinaryOp) and node.op in ("&&", "||")):
        return []
    if isinstance(node, c_ast.ArrayRef):
        return [node]
    return [one for _, child in node.children() for one in _elements(child)]


def _fetch(row: _Row, entry: str, end: Node) -> Node:
    """Fetch the row of an entry that comes later, if it is one."""
    ahead = c_ast.ID(AHEAD)
    later: Mapping[str, Node] = {
        entry: c_ast.BinaryOp("+", c_ast.ID(entry), ahead), row.bounds.counter: c_ast.ID(_LINE)
    }  # fmt: skip
    call = c_ast.FuncCall(c_ast.ID(PREFETCH), c_ast.ExprList([c_ast.UnaryOp("&", replaced(row.element, later))]))
    most = integer(MOST_LINES * row.step)
    first, at = row.bounds.first, c_ast.ID(_LINE)
    is_zero = isinstance(first, c_ast.Constant) and first.value == "0"
    few = c_ast.BinaryOp("<", at if is_zero else c_ast.BinaryOp("-", at, first), most)
    inside = c_ast.BinaryOp("&&", c_ast.BinaryOp(row.bounds.op, at, row.bounds.last), few)
    step = c_ast.Assignment("+=", at, integer(row.step))
    decl = declaration(type_named("long", _LINE), _LINE, first)
    lines = c_ast.For(c_ast.DeclList([decl]), inside, step, call)
    left = c_ast.BinaryOp("<", ahead, c_ast.BinaryOp("-", end, c_ast.ID(entry)))
    return c_ast.If(c_ast.BinaryOp("&&", c_ast.BinaryOp("<", c_ast.ID(entry), end), left), lines, None)
