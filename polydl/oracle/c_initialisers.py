"""Initialisers, of declarations and compound literals."""

from __future__ import annotations

from dataclasses import replace

from pycparser import c_ast

from polydl.oracle.c_calls import Calls
from polydl.oracle.c_types import Array, CType, Record, Vector, is_scalar, size_of
from polydl.oracle.c_values import NO_EFFECTS, Place, Value, total

Entry = tuple[int, CType, c_ast.Node]
"""Offset in the object, type of what is initialised, expression."""


def is_text(node: c_ast.Node | None) -> bool:
    return isinstance(node, c_ast.Constant) and "string" in node.type


class _Reader:
    """Goes through a list of initialisers: C 6.7.9."""

    def __init__(self, owner: Initialisers) -> None:
        self.owner = owner
        self.found: list[Entry] = []
        self.length = 0
        """Elements that the outermost array needs."""

    def whole(self, kind: CType, node: c_ast.Node, offset: int) -> None:
        """One object from one initialiser."""
        if isinstance(node, c_ast.InitList):
            if isinstance(kind, Array | Record):
                first = node.exprs[0] if node.exprs else None
                if isinstance(kind, Array) and len(node.exprs) == 1 and is_text(first) and size_of(kind.element) == 1:
                    self.whole(kind, node.exprs[0], offset)
                else:
                    self.listed(kind, node.exprs, 0, offset, braced=True)
            elif isinstance(kind, Vector):
                for number, one in enumerate(node.exprs):
                    self.found.append((offset + number * kind.element.size, kind.element, one))
            elif node.exprs:
                self.whole(kind, node.exprs[0], offset)
            return
        if isinstance(kind, Array) and is_text(node):
            assert isinstance(node, c_ast.Constant)
            self.length = len(self.owner.string_bytes(node))
        self.found.append((offset, kind, node))

    def listed(self, kind: CType, nodes: list[c_ast.Node], at: int, offset: int, *, braced: bool) -> int:
        """The parts of an array or structure from a list's entries, from number `at`; the number behind them."""
        position = 0
        while at < len(nodes):
            node = nodes[at]
            if isinstance(node, c_ast.NamedInitializer):
                if not braced:
                    return at
                position, where, inner = self.designated(kind, node.name, offset)
                self.whole(inner, node.expr, where)
                at += 1
            else:
                part = self.part(kind, position)
                if part is None:
                    if braced:
                        raise self.owner.refuse("more initialisers than there are members", node)
                    return at
                at = self.one(part[1], nodes, at, offset + part[0])
            position += 1
            if isinstance(kind, Array) and braced:
                self.length = max(self.length, position) if offset == 0 else self.length
            if isinstance(kind, Record) and kind.union and not braced:
                return at
        return at

    def one(self, kind: CType, nodes: list[c_ast.Node], at: int, offset: int) -> int:
        """A part from the entries from number `at`: braces may be left out."""
        node = nodes[at]
        if isinstance(kind, Array | Record) and not isinstance(node, c_ast.InitList):
            text = isinstance(kind, Array) and is_text(node) and size_of(kind.element) == 1
            same = isinstance(kind, Record) and self.owner.type_of_value(node) is kind
            if not text and not same:
                return self.listed(kind, nodes, at, offset, braced=False)
        self.whole(kind, node, offset)
        return at + 1

    def part(self, kind: CType, position: int) -> tuple[int, CType] | None:
        """Offset and type of a member or element; None behind the last."""
        if isinstance(kind, Array):
            if isinstance(kind.count, int) and position >= kind.count:
                return None
            return position * size_of(kind.element), kind.element
        assert isinstance(kind, Record)
        members = kind.members or ()
        if position >= (1 if kind.union else len(members)):
            return None
        return members[position].offset, members[position].type

    def designated(self, kind: CType, names: list[c_ast.Node], offset: int) -> tuple[int, int, CType]:
        """The position in `kind`, and offset and type of what `[i].name` says."""
        position = 0
        for number, name in enumerate(names):
            if isinstance(name, c_ast.ArrayDesignator):
                if not isinstance(kind, Array):
                    raise self.owner.refuse("a subscript where there is no array", name)
                index = self.owner.constant(name.expr)
                offset, kind = offset + index * size_of(kind.element), kind.element
            else:
                assert isinstance(name, c_ast.ID)
                found = kind.found(name.name) if isinstance(kind, Record) else None
                if found is None or not isinstance(kind, Record):
                    raise self.owner.refuse(f"'{kind}' has no member '{name.name}'", name)
                names_ = [member.name for member in kind.members or ()]
                index = names_.index(name.name) if name.name in names_ else 0
                offset, kind = offset + found[0], found[1]
            position = index if number == 0 else position
        return position, offset, kind


class Initialisers(Calls):
    """Writes objects' first values."""

    def completed(self, kind: CType, node: c_ast.Node | None) -> CType:
        """The type with the length that an initialiser gives."""
        if node is None or not isinstance(kind, Array) or kind.count is not None:
            return kind
        kept = list(self.lines)
        reader = _Reader(self)
        reader.whole(kind, node, 0)
        self.lines[:] = kept
        return replace(kind, count=reader.length)

    def initialise(self, place: Place, node: c_ast.Node) -> None:
        """Give a memory object its first value: what the initialiser does not name is 0. Its bytes are 0 already where
        the initialiser is a list or a string."""
        place = self.fixed(place)
        reader = _Reader(self)
        reader.whole(place.type, node, 0)
        for offset, kind, expression in reader.found:
            part = replace(place, type=kind, offset=total(place.offset, offset), node=expression, effects=NO_EFFECTS)
            if isinstance(kind, Array):
                if not is_text(expression):
                    raise self.refuse("an array that is no list", expression)
                assert isinstance(expression, c_ast.Constant)
                data = self.string_bytes(expression)
                if isinstance(kind.count, int):
                    data = data[: kind.count]
                self.emit(f"{part.obj}.write({part.offset}, {data!r}, {self.at(expression)})")
                continue
            value = self.convert(self.value(expression), kind, expression)
            self.store(part, value.after(NO_EFFECTS), expression)

    def by_list(self, node: c_ast.Node) -> bool:
        """Whether an initialiser leaves what it does not name 0."""
        return isinstance(node, c_ast.InitList) or is_text(node)

    def literal(self, node: c_ast.CompoundLiteral) -> Place:
        kind = self.completed(self.type_of(node.type), node.init)
        obj = self.fresh("o")
        self.emit(f"{obj} = M.new('literal', {self.bytes_of(kind)}, fill=0, origin='automatic')")
        place = Place(kind, node, obj=obj)
        self.initialise(place, node.init)
        return place

    def vector_literal(self, node: c_ast.CompoundLiteral, kind: Vector) -> Value:
        return self.vector_of(node.init, kind, node)

    def vector_of(self, init: c_ast.Node, kind: Vector, node: c_ast.Node) -> Value:
        """A vector from a list of its lanes."""
        values = []
        for one in init.exprs if isinstance(init, c_ast.InitList) else []:
            if isinstance(one, c_ast.NamedInitializer):
                raise self.refuse("designators in a vector", one)
            values.append(self.settled(self.convert(self.value(one), kind.element, one)))
        effects = self.together(node, *(value.effects for value in values))
        zero = self.number(0, kind.element).code
        codes = [value.code for value in values] + [zero] * (kind.lanes - len(values))
        return Value(kind, f"({', '.join(codes)},)", effects=effects)

    def first_value(self, kind: CType, node: c_ast.Node) -> Value:
        """The value of an initialiser of a variable that Python keeps."""
        if isinstance(kind, Vector) and isinstance(node, c_ast.InitList):
            return self.vector_of(node, kind, node)
        if isinstance(node, c_ast.InitList):
            if not is_scalar(kind) or not node.exprs:
                raise self.refuse("an empty list of initialisers", node)
            node = node.exprs[0]
        return self.convert(self.value(node), kind, node)
