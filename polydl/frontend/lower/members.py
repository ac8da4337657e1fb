"""Members of structures, put in terms of plain arrays and scalars before the walk.

    p[i].vx            an element of a two-dimensional array: p[i][2], the third of the floats of an element
    p[i].kind          where members of another type are used as well: p_int[i][6], of a second array
    m->data[i]         m_data[i], with `float *m_data = m->data;` in front of the region (a view)
    m->rows, m.rows    m_rows, with `const int m_rows = m->rows;` in front of the region
    s->sum += e        s_sum[0] += e, with `float *s_sum = &s->sum;`
    struct p *a = &p[i]; a->x, a[k].x      rows of p: a[0][0], a[k][0]
    struct p t = p[i]; p[j] = t    t_x = p[i][0], … and p[j][0] = t_x, …

So members that differ are elements that differ, distances in memory are those of C, and nothing behind the front end
knows of structures but what prints an element (`Members`) and what declares the views (`View`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.tree_parts import integer, items_of, type_named
from polydl.frontend.lower.member_nodes import (
    Row,
    Slot,
    Step,
    copied_apart,
    element_at,
    given_apart,
    is_qualified,
    unwound,
    written,
)  # fmt: skip
from polydl.frontend.lower.regions import Found
from polydl.frontend.lower.views import Reached, Views
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.ctypes import OtherType
from polydl.frontend.meaning.records import Records, Unknown
from polydl.frontend.meaning.symbols import Level, Scope, Symbol, nodes
from polydl.frontend.text.parse import Unit
from polydl.model.scop import Members, Storage, View
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Plain:
    """A region without members of structures."""

    items: list[Node]
    """Its statements."""
    scope: Scope
    """Names visible at its start, with the arrays and views that members became."""
    views: dict[str, View] = field(default_factory=dict)
    """By name."""


def plain(found: Found, unit: Unit) -> Plain:
    """The region with members of structures in terms of arrays and scalars. Raises InputError."""
    if not any(_of_structures(node, found.scope) for item in found.items for node in nodes(item)):
        return Plain(found.items, found.scope)
    rewriting = _Rewriting(found, unit)
    for _ in range(2):  # what is subscripted, and what is written, has to be known before anything is replaced
        rewriting.run()
    items = rewriting.run(last=True)
    return Plain(items, rewriting.outer, rewriting.views)


def _of_structures(node: Node, scope: Scope) -> bool:
    """Whether a node is a member, or names structures."""
    symbol = scope.find(node.name) if isinstance(node, c_ast.ID) else None
    other = symbol is not None and not symbol.is_function and isinstance(symbol.ctype, OtherType)
    return isinstance(node, c_ast.StructRef) or other


class _Rewriting(Views):
    """Passes over the statements of a region, which leave them as they are and give changed ones."""

    def __init__(self, found: Found, unit: Unit) -> None:
        super().__init__(found, unit)
        self._indexed: set[str] = set()
        """Pointers to structures, and arrays of them, that are subscripted."""
        self._elements: dict[str, dict[ElementType, None]] = {}
        """By the same texts: the types of the members that are used, in the order of their first uses."""
        self._others: dict[tuple[str, ElementType], str] = {}
        """An array of structures, or a pointer of the region to an element, and a type that is not the first -> the
        name of the array of the members of this type, or of the pointer to its row."""
        self._rows: dict[str, str] = {}
        """Pointers of the region to an element -> the text of the array."""
        self._parts: dict[tuple[int, str], str] = {}
        """Structures that the region declares, by their Decl, and the path of a member -> the variable in its place."""
        self._always = True
        """What is looked at is evaluated however often the loops run."""

    def run(self, *, last: bool = False) -> list[Node]:
        """One pass; the `last` knows everything."""
        self.last = last
        self.outer = Scope(self.found.scope)
        self.views, self.named = {}, {}
        inside = self.scope = Scope(self.outer)
        made = []
        for item in self.found.items:
            if isinstance(item, c_ast.For):
                self._always, self.scope = True, Scope(inside)
                for part in (item.init, item.cond):
                    self._visit(part)
            self._always, self.scope = not isinstance(item, _CONTROL), inside
            made += self._several(item)
        return made

    # The walk

    def _visit(self, node: Any) -> Any:
        match node:
            case None:
                return None
            case c_ast.Compound() | c_ast.For():
                before, self.scope = self.scope, Scope(self.scope)
                try:
                    return self._children(node)
                finally:
                    self.scope = before
            case c_ast.Decl():
                (made,) = self._declared(node)
                return made
            case c_ast.Typedef():
                self.scope.declare(node, Storage.REGION, constant)
                return node
            case c_ast.BinaryOp(op="&&" | "||") | c_ast.TernaryOp():
                made = copy.copy(node)
                first = "left" if isinstance(node, c_ast.BinaryOp) else "cond"
                setattr(made, first, self._visit(getattr(node, first)))
                always, self._always = self._always, False
                for name in ("right",) if first == "left" else ("iftrue", "iffalse"):
                    setattr(made, name, self._visit(getattr(node, name)))
                self._always = always
                return made
            case c_ast.Assignment():
                whole = self._copy(node)
                if whole is not None:
                    return self._children(whole)
                self._changed(node.lvalue)
                return self._children(node)
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--" | "&"):
                self._changed(node.expr)
                return self._children(node)
            case c_ast.StructRef() | c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
                base, steps = unwound(node)
                if any(step.kind != "[]" for step in steps):
                    return self._member(node, base, steps)
                return self._children(node)
        return self._children(node)

    def _children(self, node: Node) -> Node:
        """The node with its parts visited, in textual order."""
        made = copy.copy(node)
        for name in type(node).__slots__:
            child = getattr(node, name, None)
            if isinstance(child, c_ast.Node):
                setattr(made, name, self._visit(child))
            elif isinstance(child, list):
                parts = [self._several(c) if isinstance(c, c_ast.Node) else [c] for c in child]
                setattr(made, name, [part for several in parts for part in several])
        return made

    def _several(self, node: Node) -> list[Node]:
        """A node of a list; a structure that the region declares becomes a variable for each member."""
        if isinstance(node, c_ast.Decl) and node.name is not None:
            records = self.records
            if isinstance(records.peeled(node.type), c_ast.Struct) and not node.storage:
                return self._apart(node, records)
            return self._declared(node)
        return [self._visit(node)]

    def _apart(self, node: c_ast.Decl, records: Records) -> list[Node]:
        self.scope.declare(node, Storage.REGION, constant)
        made: list[Node] = []
        after: list[Node] = []
        try:
            leaves = list(records.leaves(node.type))
            values: dict[str, Node | None] | None = {}
            if isinstance(node.init, c_ast.InitList):
                values = given_apart(records, node.type, node.init)
            elif node.init is not None:
                copied = copied_apart(records, node.type, c_ast.ID(node.name, node.coord), node.init)
                after = items_of(copied)
                values = None if copied is None else values
        except Unknown as error:
            raise self.error(f"where the members of '{node.name}' lie is not known: {error}", node) from None
        if values is None or any(leaf.pointer for leaf in leaves):
            raise self.error(f"the structure '{node.name}' is declared in the scop, and holds more than numbers", node)
        for leaf in leaves:
            name = node.name + leaf.path.replace(".", "_")
            while name in self.words:
                name += "_"
            self._parts[id(node), leaf.path] = name
            type_: Node = type_named(leaf.ctype.c, name, node.quals)
            for extent in reversed(leaf.dims):
                type_ = c_ast.ArrayDecl(type_, integer(extent, node.coord), [], node.coord)
            value = self._visit(values.get(leaf.path))
            if isinstance(node.init, c_ast.InitList) and value is None:
                value = integer(0, node.coord)
            made.append(c_ast.Decl(name, list(node.quals), [], [], [], type_, value, None, node.coord))
        return [*made, *(self._visit(assignment) for assignment in after)]

    def _copy(self, node: c_ast.Assignment) -> Node | None:
        """An assignment of structures member by member; None for other assignments."""
        base, steps = unwound(node.lvalue)
        symbol = self.scope.find(base.name) if isinstance(base, c_ast.ID) else None
        if node.op != "=" or symbol is None or symbol.is_function:
            return None
        records = self.records
        type_: Node | None = symbol.decl.type
        for step in steps:
            type_ = records.inner(type_) if type_ is not None and step.kind in ("[]", "->") else type_
            if step.kind != "[]":
                decl = None if type_ is None else records.member(type_, step.what)
                type_ = None if decl is None else decl.type
            if type_ is None:
                return None
        assert type_ is not None, "it has one"
        if not isinstance(records.peeled(type_), c_ast.Struct):
            return None
        try:
            return copied_apart(records, type_, node.lvalue, node.rvalue)
        except Unknown:
            return None

    def _changed(self, target: Node) -> None:
        if isinstance(target, c_ast.StructRef):
            base, steps = unwound(target)
            if isinstance(base, c_ast.ID):
                self.written.add(base.name + "".join(f"{step.kind}{step.what}" for step in steps))

    def _declared(self, node: c_ast.Decl) -> list[Node]:
        """A declaration of the region; a pointer to an element of an array of structures is one to a row, of the array
        of each type."""
        records = self.records
        inner = records.inner(node.type) if node.name is not None else None
        init = self._visit(node.init)
        self.scope.declare(node, Storage.REGION, constant)
        made = copy.copy(node)
        made.init = init
        pointer = isinstance(records.peeled(node.type), c_ast.PtrDecl)
        if inner is None or not pointer or records.struct(inner) is None or node.init is None:
            return [made]
        pointed = element_at(node.init)
        base, steps = unwound(pointed)
        symbol = self.scope.find(base.name) if isinstance(base, c_ast.ID) else None
        if symbol is None or symbol.storage is Storage.REGION:
            raise self.error(f"'{node.name}' is given something else than an element of an array", node.init)
        reached, rest = self._followed(symbol, steps, pointed)
        if any(step.kind != "[]" for step in rest):
            raise self.error(f"'{node.name}' points into an element of '{reached.text}'", node.init, "name the member")
        self._indexed.add(reached.text)
        self._rows[node.name] = reached.text
        if reached.text not in self._elements:
            return [made]  # in the first pass
        rows: list[Node] = []
        for element in self._elements[reached.text]:
            row = Row(node.name, made.quals, made.align, made.storage, made.funcspec, made.type, None, None, node.coord)
            row.spelled = node
            array = self._array(reached, inner, element, pointed)
            assert isinstance(array, c_ast.ID), "a member's array has a name"
            row.init = c_ast.UnaryOp("&", self._subscripted(array, rest), pointed.coord)
            row.name = self._named(node.name, reached.text, element)
            slots = self.outer.symbols[array.name].levels[-1].extent
            declared = type_named(element.c, row.name)
            row.type = c_ast.PtrDecl([], c_ast.ArrayDecl(declared, slots, [], node.coord), node.coord)
            rows.append(row)
        return rows

    # Members

    def _member(self, node: Node, base: Node, steps: Sequence[Step]) -> Node:
        """What an expression with members becomes."""
        symbol = self.scope.find(base.name) if isinstance(base, c_ast.ID) else None
        if symbol is None or symbol.is_function:
            raise self.error("this is no member of a variable", node)
        reached, rest = self._followed(symbol, steps, node)
        if all(step.kind == "[]" for step in rest):
            if symbol.storage is Storage.REGION:
                part = self._parts.get((id(symbol.node), reached.text.removeprefix(symbol.name)))
                if part is None:
                    raise self.error(f"the structure '{symbol.name}' is declared in the scop", node, "use scalars")
                return self._subscripted(c_ast.ID(part, node.coord), rest)
            return self._subscripted(self.view(reached, node), rest)
        return self._element(reached, rest, node)

    def _followed(self, symbol: Symbol, steps: Sequence[Step], node: Node) -> tuple[Reached, list[Step]]:
        """Follow members up to the first subscript."""
        at = Reached(symbol, symbol.name, [symbol.name], symbol.decl.type, None)
        records = self.records
        rest = list(steps)
        while rest and rest[0].kind != "[]":
            step = rest[0]
            of: Node | None = at.type
            if step.kind == "->":
                of = records.inner(at.type)
                row = symbol.storage is Storage.REGION and at.text in self._rows
                if at.text in self._indexed or row or isinstance(records.peeled(at.type), c_ast.ArrayDecl):
                    # `p->x` beside `p[i].x` is `p[0].x`
                    zero = c_ast.Constant("int", "0", step.node.coord)
                    return at, [Step("[]", zero, step.node), Step(".", step.what, step.node), *rest[1:]]
            if of is None or records.struct(of) is None:
                what = "a union" if of is not None and isinstance(records.peeled(of), c_ast.Union) else "no structure"
                raise self.error(f"'{at.text}' is {what} whose members are declared here", step.node)
            decl = records.member(of, step.what)
            if decl is None:
                raise self.error(f"'{at.text}' has no member '{step.what}'", step.node, "correct the name")
            if step.kind == "->":
                at.pointers.append((at.text, of))
                at.offset, at.unknown, at.const = 0, "", is_qualified(of)
            at.const = at.const or is_qualified(decl.type)
            try:
                at.offset += records.offset(of, step.what)
            except Unknown as error:
                at.unknown = str(error)
            at.text += f"{step.kind}{step.what}"
            at.words.append(step.what)
            at.type, at.decl = decl.type, decl
            if decl.bitsize is not None:
                raise self.error(f"'{at.text}' is a bit-field", step.node)
            if is_qualified(of, "volatile") or is_qualified(decl.type, "volatile"):
                raise self.error(f"'{at.text}' is volatile", step.node, "accesses to it cannot be reordered")
            rest.pop(0)
        if self._always:
            self.sure |= {text for text, _ in at.pointers}
        return at, rest

    def _subscripted(self, base: Node, steps: Sequence[Step]) -> Node:
        for step in steps:
            base = c_ast.ArrayRef(base, self._visit(step.what), step.node.coord)
        return base

    def _base(self, reached: Reached, node: Node) -> Node:
        """The name of the array that is subscripted."""
        return c_ast.ID(reached.root.name, node.coord) if reached.decl is None else self.view(reached, node)

    def _element(self, reached: Reached, rest: list[Step], node: Node) -> Node:
        """A member of an element of an array of structures."""
        records = self.records
        self._indexed.add(reached.text)
        at: Node | None = reached.type
        indices = []
        while rest and rest[0].kind == "[]" and at is not None and records.struct(at) is None:
            indices.append(rest.pop(0))
            at = records.inner(at)
        if at is None or records.struct(at) is None or not rest:
            raise self.error(f"'{reached.text}' is no array of structures whose members are declared here", node)
        struct = at
        try:
            at, path, offset, scaled = self._placed(struct, rest, node)
        except Unknown as error:
            raise self.error(f"where the members of '{reached.text}' lie is not known: {error}", node) from None
        element = records.ctype(at)
        kind = records.peeled(at)
        if not isinstance(kind, (c_ast.IdentifierType, c_ast.Enum)) or not isinstance(element, ElementType):
            raise self.error(f"'{reached.text}[…]{path}' is no number", node, "use its elements, which are numbers")
        row = reached.root.storage is Storage.REGION
        key = self._rows.get(reached.text, reached.text) if row else reached.text
        self._elements.setdefault(key, {}).setdefault(element)
        slot: Node = c_ast.Constant("int", str(offset // element.bytes), node.coord)
        for subscript, step_bytes in scaled:
            part = self._visit(subscript)
            if step_bytes != element.bytes:
                factor = c_ast.Constant("int", str(step_bytes // element.bytes), node.coord)
                part = c_ast.BinaryOp("*", factor, part, node.coord)
            slot = part if getattr(slot, "value", "") == "0" else c_ast.BinaryOp("+", slot, part, node.coord)
        if row:
            if reached.text not in self._rows:
                raise self.error(f"the structures '{reached.text}' are declared in the scop", node)
            base: Node = c_ast.ID(self._named(reached.text, key, element), node.coord)
        else:
            base = self._array(reached, struct, element, node)
        made = Slot(self._subscripted(base, indices), slot, node.coord)
        made.spelled = node
        return made

    def _placed(self, at: Any, steps: Sequence[Step], node: Node) -> tuple[Node, str, int, list[tuple[Node, int]]]:
        """(type, path, offset, subscripts with what one more adds), in bytes, of a member of a structure.

        Raises InputError, Unknown."""
        records = self.records
        path, offset, scaled = "", 0, []
        for step in steps:
            path += f"[{written(step.what)}]" if step.kind == "[]" else f".{step.what}"
            if step.kind == "[]" and isinstance(records.peeled(at), c_ast.ArrayDecl):
                at = records.inner(at)
                scaled.append((step.what, records.size(at)[0]))
            elif step.kind == "." and (decl := records.member(at, step.what)) is not None:
                offset += records.offset(at, step.what)
                at = decl.type
                if is_qualified(at, "volatile"):
                    raise self.error(f"'{path}' is volatile", node, "accesses to it cannot be reordered")
            elif isinstance(records.peeled(at), c_ast.PtrDecl):
                raise self.error(
                    f"'{path}' follows a pointer that is a member of an array's elements: each may point anywhere",
                    node,
                    "use an array of numbers",
                )
            else:
                what = "a union" if isinstance(records.peeled(at), c_ast.Union) else "no structure with this member"
                raise self.error(f"what '{path}' is a member of is {what}", node, "use members of structures")
        return at, path, offset, scaled

    def _named(self, name: str, text: str, element: ElementType) -> str:
        """The name of what has the members of one type of the array `text`: `name` for the first type."""
        if element is next(iter(self._elements[text])):
            return name
        if (name, element) not in self._others:
            self._others[name, element] = found = self.free(f"{name}_{element.c.replace(' ', '_')}")
            self.words |= {found}
        return self._others[name, element]

    def _array(self, reached: Reached, struct: Node, element: ElementType, node: Node) -> Node:
        """The array of the members of one type, declared as one of numbers."""
        base = self._base(reached, node)
        assert isinstance(base, c_ast.ID), "views and arrays are named"
        name = self._named(base.name, reached.text, element)
        old = self.outer.find(base.name)
        assert old is not None
        if (known := self.outer.symbols.get(name)) is not None and known.members is not None:
            return c_ast.ID(name, node.coord)
        records = self.records
        try:
            several = base.name if len(self._elements[reached.text]) > 1 else ""
            members = Members(_paths(records, struct, element), records.size(struct)[0], several)
        except Unknown as error:
            raise self.error(f"where the members of '{reached.text}' lie is not known: {error}", node) from None
        slots = Level(False, c_ast.Constant("int", str(len(members.paths)), old.node.coord))
        levels = old.levels if old.members is None else old.levels[:-1]
        made = replace(old, name=name, ctype=element, levels=(*levels, slots), members=members)
        self.outer.symbols[name] = made
        return c_ast.ID(name, node.coord)


_CONTROL = (c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.If, c_ast.Switch)
"""Statements of which a part may not run."""


def _paths(records: Records, struct: Node, element: ElementType) -> tuple[str, ...]:
    """How the members of a type are written behind an element, for each place where one could lie; empty where none
    does. Raises Unknown."""
    paths = [""] * (records.size(struct)[0] // element.bytes)
    for leaf in records.leaves(struct):
        if leaf.ctype is element and not leaf.pointer:
            for at in range(leaf.count):
                subscripts, left = "", at
                for extent in reversed(leaf.dims):
                    left, digit = divmod(left, extent)
                    subscripts = f"[{digit}]{subscripts}"
                paths[leaf.offset // element.bytes + at] = leaf.path + subscripts
    return tuple(paths)
