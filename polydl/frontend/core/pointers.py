"""Pointers that move, as integers that count from where they point at first.

    *p = a; p++; q[1] = *p;                    p[p_at] = a; p_at++; q[1] = p[p_at];
    for (p = a; p != a + n; p++) *p = 0;       for (p_at = 0; p_at < n; p_at++) a[p_at] = 0;
    for (p = a + n; p-- > a;) *p = 0;          for (p_at = n; p_at-- > 0;) a[p_at] = 0;
    end = a + n; while (a != end) *a++ = 0;    while (a_at < n) { a[a_at] = 0; a_at++; }

What a pointer counts from, its base, is followed through a region: the array, row or pointer of the place that it was
set to last. Two places with one base are compared and subtracted as integers. Where a pointer would never meet the end,
C leaves open what happens, so that `!=` means `<` for one that is stepped upwards. What is done to the integers is
found out like what is done to all others (core.evolution).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pycparser import c_ast
from pycparser.c_ast import Node
from pycparser.c_parser import Coord

from polydl.frontend.core.loop_forms import STEPS, AnyLoop, listed, step_of, stepped, value_before
from polydl.frontend.core.node_copies import copied, mapped
from polydl.frontend.core.tree_parts import declaration, indexed, integer, type_named
from polydl.frontend.lower.inlined import Given
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.liveness import assigned_names, changed_names, has_address_taken
from polydl.frontend.meaning.memory_places import Memory
from polydl.frontend.meaning.symbols import Scope, mentions, nodes
from polydl.frontend.text.parse import Unit
from polydl.model.scop import Storage

_COMPARED = ("<", "<=", ">", ">=", "==", "!=", "-")


class _NotFollowed(Exception):
    """It is not known what a pointer counts from."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def subscripted(found: Found, unit: Unit) -> Found:
    """The region with subscripts in the place of the pointers that move in it."""
    moving = dict.fromkeys(name for item in found.items for node in nodes(item) for name in _stepped(node))
    declared = {
        node.name: node
        for item in found.items
        for node in nodes(item)
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.PtrDecl)
    }
    outside = [name for name in moving if name not in declared and _may_move(found, name)]
    inside = dict.fromkeys([*(name for name in moving if name in declared), *_in_headers(found.items)])
    for name, node in declared.items():  # and those that are so far behind others
        if node.init is not None and not {*mentions(node.init)}.isdisjoint({*outside, *inside}):
            inside.setdefault(name)
    region = c_ast.Compound(found.items)
    within = [name for name in inside if not has_address_taken(region, name)]
    while outside or within:
        rewriting = _Rewriting(found, unit, outside, within)
        try:
            return replace(found, items=rewriting.region())
        except _NotFollowed as error:
            outside = [name for name in outside if name != error.name]
            within = [name for name in within if name != error.name]
    return found


def _stepped(node: Node) -> Iterable[str]:
    """What a node steps, or the header of a loop sets."""
    name = stepped(node)
    if name is not None:
        yield name
    for part in listed(node.init) if isinstance(node, c_ast.For) else ():
        if isinstance(part, c_ast.Assignment) and isinstance(part.lvalue, c_ast.ID):
            yield part.lvalue.name


def _in_headers(items: Sequence[Node]) -> Iterable[str]:
    """Pointers that headers of loops declare."""
    for node in (node for item in items for node in nodes(item) if isinstance(node, c_ast.For)):
        for part in listed(node.init):
            if isinstance(part, c_ast.Decl) and isinstance(part.type, c_ast.PtrDecl):
                yield part.name


def _may_move(found: Found, name: str) -> bool:
    """Whether a name is a pointer declared outside of a region, that the region may change."""
    symbol = found.scope.find(name)
    pointer = symbol is not None and bool(symbol.levels) and symbol.levels[0].pointer
    return pointer and not has_address_taken(found.function.body, name) and not found.escapes(name)


@dataclass(slots=True)
class _Rewriting:
    """A pass over a region. `_NotFollowed` where a pointer that moves is used and nothing is known of its base."""

    found: Found
    unit: Unit
    outside: Sequence[str]
    """Pointers that move and are declared in front of the region."""
    inside: Sequence[str]
    """Those that the region declares."""
    assigned: frozenset[str] = field(init=False)
    """Names that the region changes, but for what it declares."""
    at: dict[str, str] = field(init=False)
    """By pointer, the integer that becomes of it."""
    bases: dict[str, Node | None] = field(default_factory=dict)
    """By pointer, what it counts from at the moment; None: that is not known."""
    still: dict[str, Given] = field(default_factory=dict)
    """Where pointers point that do not move."""
    scope: Scope = field(init=False)
    shared: frozenset[str] = frozenset()
    """What the pointers that are declared in front of the region point into where it begins."""
    code: Sequence[Node] = field(init=False)
    """What may change where pointers point: the function, and the region as it is after expansion."""
    memory: Memory = field(init=False)
    """What names lead to in it."""
    directions: dict[str, int] = field(default_factory=dict)
    """1 or -1 by pointer, in the condition of a loop that steps it; empty elsewhere."""

    def __post_init__(self) -> None:
        words = set(re.findall(r"[A-Za-z_]\w*", self.unit.source.text))
        self.at = {}
        for name in (*self.outside, *self.inside):
            own = f"{name}_at"
            while own in words:
                own += "_"
            words.add(own)
            self.at[name] = own
        self.scope = Scope(self.found.scope)
        self.assigned = frozenset().union(*map(changed_names, self.found.items))
        self.code = (self.found.function.body, *self.found.items)
        self.memory = Memory(self.code, self.found.scope.find)

    def region(self) -> list[Node]:
        """The statements that the region becomes."""
        items = self.found.items
        where = items[0].coord
        begins = {name: Given(c_ast.ID(name, where)) for name in self.outside}
        found = {name: known for name in self._named_outside() if (known := self._known_before(name)) is not None}
        for name, known in found.items():
            if self._stays(known):
                (begins if name in self.outside else self.still)[name] = known
        self.bases = {name: place.base for name, place in begins.items()}
        self.shared = frozenset(_root_of(place.base) for place in begins.values())
        counters = [self._counter(name, _offset_of(place, items[0]), where) for name, place in begins.items()]
        return [*counters, *self._statements(items)]

    def _named_outside(self) -> Iterable[str]:
        for name in dict.fromkeys(name for item in self.found.items for name in mentions(item)):
            if self._points(name):
                yield name

    def _points(self, name: str) -> bool:
        """Whether a name is a pointer that the function declares in front of the region."""
        symbol = self.found.scope.find(name)
        pointer = symbol is not None and bool(symbol.levels) and symbol.levels[0].pointer
        return pointer and symbol is not None and symbol.storage is Storage.LOCAL

    def _known_before(self, name: str) -> Given | None:
        """Where a pointer of the function points in front of the region, in terms of what the region does not change
        or of where other pointers point there."""
        function, symbol = self.found.function.body, self.found.scope.find(name)
        value = value_before(name, self.found.before, places=True)
        if value is None:
            changed = changed_names(function)
            value = getattr(symbol.node, "init", None) if symbol is not None and name not in changed else None
            if value is None or changed & {*mentions(value)}:
                return None
        for other in mentions(value):
            if other not in (name, *self.still) and self._points(other):
                behind = self._known_before(other)
                self.still |= {} if behind is None or not self._stays(behind) else {other: behind}
        known = self._place(value)
        if known is None or has_address_taken(function, name):
            return None
        return None if _read_by(known) & self.assigned else known

    def _stays(self, place: Given, *, base: bool = False) -> bool:
        """Whether nothing that the function stores to decides where a place is; `base`: where it counts from."""
        parts = [] if base or place.at is None else [place.at]
        rows = place.base
        while isinstance(rows, c_ast.ArrayRef):
            parts.append(rows.subscript)
            rows = rows.name
        read = [node for part in parts for node in nodes(part) if _is_element(node)]
        return not any(self.memory.changes_what_is_read(part, one) for one in read for part in self.code)

    # Statements

    def _statements(self, items: Iterable[Node]) -> list[Node]:
        return [made for item in items for made in self._statement(item)]

    def _one(self, node: Node) -> Node:
        made = self._statements([node])
        return made[0] if len(made) == 1 else c_ast.Compound(made, node.coord)

    def _statement(self, node: Node) -> list[Node]:
        match node:
            case c_ast.Compound():
                return [c_ast.Compound(self._scoped(node.block_items or []), node.coord)]
            case c_ast.Case() | c_ast.Default():
                made = mapped(node, lambda inner: inner)
                made.stmts = self._statements(node.stmts or [])
                return [made]
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                return [self._loop(node)]
            case c_ast.If():
                return [self._if(node)]
            case c_ast.Switch():
                self._forget_set([node])
                switch = c_ast.Switch(self._expression(node.cond), self._one(node.stmt), node.coord)
                self._forget_set([node])
                return [switch]
            case c_ast.Decl():
                return self._declaration(node)
            case c_ast.Assignment(lvalue=c_ast.ID(name=name)) if name in self.at and stepped(node) is None:
                return [self._set(node, name)]
            case c_ast.UnaryOp(expr=c_ast.ID(name=name)) | c_ast.Assignment(lvalue=c_ast.ID(name=name)) if (
                name in self.at
            ):
                return [self._stepped(node, name)]
            case _:
                expression = self._expression(node)
                self._changed(assigned_names(node))
                return [expression]

    def _scoped(self, items: Sequence[Node]) -> list[Node]:
        before, self.scope = self.scope, Scope(self.scope)
        try:
            return self._statements(items)
        finally:
            self._changed(frozenset(self.scope.symbols))  # these names mean something else behind it
            self.scope = before

    def _declaration(self, node: c_ast.Decl) -> list[Node]:
        self.scope.declare(node, Storage.REGION, constant)
        self.still.pop(node.name, None)
        place = self._place(node.init) if isinstance(node.type, c_ast.PtrDecl) and node.init is not None else None
        if node.name in self.at:
            if node.init is not None and (place is None or not self._stays(place, base=True)):
                raise _NotFollowed(node.name)
            self.bases[node.name] = None if place is None else place.base
            return [self._counter(node.name, None if place is None else _offset_of(place, node), node.coord)]
        if place is not None and self._stays(place):
            self.still[node.name] = place
        return [self._expression(node)]

    def _counter(self, name: str, value: Node | None, coord: Coord | None) -> Node:
        return declaration(type_named("long", self.at[name]), self.at[name], value, coord)

    def _set(self, node: c_ast.Assignment, name: str) -> Node:
        place = self._place(node.rvalue) if node.op == "=" else None
        if place is None or not self._stays(place, base=True):
            raise _NotFollowed(name)
        self.bases[name] = place.base
        return c_ast.Assignment("=", c_ast.ID(self.at[name], node.coord), _offset_of(place, node), node.coord)

    def _stepped(self, node: c_ast.UnaryOp | c_ast.Assignment, name: str) -> Node:
        own = c_ast.ID(self.at[name], node.coord)
        self._base(name)
        if isinstance(node, c_ast.UnaryOp):
            return c_ast.UnaryOp(node.op, own, node.coord)
        value = node.rvalue
        if node.op == "=":
            assert isinstance(value, c_ast.BinaryOp), "it is a step"
            if not isinstance(value.left, c_ast.ID) or value.left.name != name:
                raise _NotFollowed(name)
            value = c_ast.BinaryOp(value.op, own, self._expression(value.right), value.coord)
            return c_ast.Assignment("=", own, value, node.coord)
        return c_ast.Assignment(node.op, own, self._expression(value), node.coord)

    def _if(self, node: c_ast.If) -> Node:
        condition = self._expression(node.cond)
        before = dict(self.bases)
        then = self._one(node.iftrue)
        behind, self.bases = self.bases, dict(before)
        otherwise = None if node.iffalse is None else self._one(node.iffalse)
        for name, base in self.bases.items():
            if base is None or (other := behind.get(name)) is None or written(other) != written(base):
                self.bases[name] = None
        self._changed(assigned_names(node))
        return c_ast.If(condition, then, otherwise, node.coord)

    def _loop(self, node: AnyLoop) -> Node:
        before, self.scope = self.scope, Scope(self.scope)
        try:
            made = mapped(node, lambda inner: inner)
            if isinstance(node, c_ast.For) and isinstance(made, c_ast.For):
                parts = [made for part in listed(node.init) for made in self._statement(part)]
                made.init = _header(parts, node)
            again = [part for part in (node.cond, node.stmt, getattr(node, "next", None)) if part is not None]
            self._forget_set(again)
            self._changed(frozenset().union(*map(assigned_names, again)))
            if node.cond is not None:
                self.directions = self._stepped_one_way(again)
                made.cond = self._expression(node.cond)
                self.directions = {}
            made.stmt = self._one(node.stmt)
            if isinstance(node, c_ast.For) and isinstance(made, c_ast.For):
                made.next = _header([step for part in listed(node.next) for step in self._statement(part)], node)
            self._forget_set(again)
            return made
        finally:
            self._changed(frozenset(self.scope.symbols))
            self.scope = before

    def _forget_set(self, parts: Iterable[Node]) -> None:
        """What pointers count from that a loop sets anew is not known where it begins, nor behind it."""
        for node in (node for part in parts for node in nodes(part)):
            if isinstance(node, c_ast.Assignment) and stepped(node) is None and isinstance(node.lvalue, c_ast.ID):
                if node.lvalue.name in self.bases:
                    self.bases[node.lvalue.name] = None

    def _changed(self, names: frozenset[str]) -> None:
        """Bases and places in terms of what has changed are not known any more."""
        names |= {self.at[name] for name in names if name in self.at}
        for name, base in self.bases.items():
            if base is not None and not isinstance(base, c_ast.ID) and names & {*mentions(base)}:
                self.bases[name] = None
        for name, place in list(self.still.items()):
            if names & _read_by(place):
                del self.still[name]

    def _stepped_one_way(self, parts: Iterable[Node]) -> dict[str, int]:
        ways: dict[str, set[int]] = {}
        for node in (node for part in parts for node in nodes(part)):
            step = step_of(node)
            if step is not None:
                way = (1 if step.op == "+" else -1) if isinstance(step.by, c_ast.Constant) else 0
                ways.setdefault(step.name, set()).add(way)
            elif isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID):
                ways.setdefault(node.lvalue.name, set()).add(0)
        return {name: way for name, (way, *rest) in ways.items() if way and not rest}

    # Expressions

    def _expression(self, node: Node) -> Node:
        match node:
            case c_ast.BinaryOp(op=op, left=left, right=right) if op in _COMPARED:
                made = self._compared(node, left, right)
                return mapped(node, self._expression) if made is None else made
            case c_ast.UnaryOp(op="*", expr=pointer) if self._moves(pointer):
                return self._element(pointer, None, node)
            case c_ast.ArrayRef(name=pointer, subscript=at) if self._moves(pointer):
                return self._element(pointer, self._expression(at), node)
            case c_ast.ID(name=name) if name in self.at:
                return c_ast.BinaryOp("+", copied(self._base(name)), c_ast.ID(self.at[name], node.coord), node.coord)
            case c_ast.StructRef():
                return c_ast.StructRef(self._expression(node.name), node.type, node.field, node.coord)
        return mapped(node, self._expression)

    def _element(self, pointer: Node, at: Node | None, node: Node) -> Node:
        place = self._place(pointer)
        if place is None:
            return mapped(node, self._expression)
        return c_ast.ArrayRef(place.base, _offset_of(_further(place, at, "+", node), node), node.coord)

    def _compared(self, node: c_ast.BinaryOp, left: Node, right: Node) -> Node | None:
        """A comparison or difference of places with one base as one of integers; None for others."""
        one, other = self._place(left), self._place(right)
        if one is None or other is None:
            return None
        if written(one.base) != written(other.base):
            return None
        op = node.op
        if op == "!=":
            way = self.directions.get(_root_of(left), 0) or -self.directions.get(_root_of(right), 0)
            op = "<" if way > 0 else ">" if way < 0 else op
        return c_ast.BinaryOp(op, _offset_of(one, node), _offset_of(other, node), node.coord)

    def _moves(self, pointer: Node) -> bool:
        """Whether an expression is a pointer that moves, or one into the same array as one of those, or so far behind
        it."""
        root = _root_of(pointer)
        return root in self.at or (root in self.still and _root_of(self.still[root].base) in self.shared)

    def _base(self, name: str) -> Node:
        base = self.bases.get(name)
        if base is None:
            raise _NotFollowed(name)
        return base

    def _place(self, node: Node) -> Given | None:
        """The array, row or pointer that a pointer expression counts from, and how far; None for other expressions."""
        match node:
            case c_ast.ID(name=name) if name in self.at and name in self.bases:
                return Given(self._base(name), c_ast.ID(self.at[name], node.coord))
            case c_ast.ID(name=name) if name in self.still:
                return self.still[name]
            case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in STEPS and name in self.at:
                if not self.directions:
                    raise _NotFollowed(name)  # it may happen, or not
                return Given(self._base(name), c_ast.UnaryOp(op, c_ast.ID(self.at[name], node.coord), node.coord))
            case c_ast.ID() | c_ast.ArrayRef():
                name, subscripts = indexed(node)
                symbol, depth = self.scope.find(name), len(subscripts)
                changes = symbol is not None and symbol.name in self.assigned and symbol.name not in self.outside
                if symbol is None or changes or len(symbol.levels) <= depth:
                    return None
                return Given(self._expression(node) if depth else node)
            case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=array, subscript=at)):
                inner = self._place(array)
                return None if inner is None else _further(inner, self._expression(at), "+", node)
            case c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right):
                inner, far = self._place(left), right
                if inner is None and op == "+":
                    inner, far = self._place(right), left
                return None if inner is None else _further(inner, self._expression(far), op, node)
            case c_ast.StructRef():
                return Given(node)
            case _:
                return None


def _header(parts: list[Node], node: Node) -> Node | None:
    """What stands in a header between two semicolons, of its parts."""
    if not parts:
        return None
    declared = [part for part in parts if isinstance(part, c_ast.Decl)]
    if len(declared) == len(parts):
        return c_ast.DeclList(declared, node.coord)
    return parts[0] if len(parts) == 1 else c_ast.ExprList(parts, node.coord)


def _root_of(pointer: Node) -> str:
    """The name of the pointer that an expression is so far behind."""
    match pointer:
        case c_ast.ID(name=name):
            return str(name)
        case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
            return _root_of(left) or _root_of(right)
        case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=inner)):
            return _root_of(inner)
        case c_ast.UnaryOp(op=op, expr=inner) if op in STEPS:
            return _root_of(inner)
        case _:
            return ""


def _read_by(place: Given) -> set[str]:
    """The names of whose values a place is made, but for the pointer or array that it counts from."""
    parts = [part for part in (place.base, place.at) if part is not None and not (part is place.base and _is_id(part))]
    return {name for part in parts for name in mentions(part)}


def _is_element(node: Node) -> bool:
    """Whether an expression reads memory."""
    return isinstance(node, c_ast.ArrayRef | c_ast.StructRef) or (isinstance(node, c_ast.UnaryOp) and node.op == "*")


def _is_id(node: Node) -> bool:
    return isinstance(node, c_ast.ID)


def _further(place: Given, by: Node | None, op: str, node: Node) -> Given:
    """A place so many elements behind another, or in front of it."""
    if by is None:
        return place
    if place.at is None:
        return Given(place.base, by if op == "+" else c_ast.UnaryOp("-", by, node.coord))
    return Given(place.base, c_ast.BinaryOp(op, place.at, by, node.coord))


def _offset_of(place: Given, node: Node) -> Node:
    return integer(0, node.coord) if place.at is None else place.at
