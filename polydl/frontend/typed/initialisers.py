"""Initialisers: zeros where a list leaves something out, and a store for each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pycparser import c_ast

from polydl.frontend.typed.core_values import ArrayOf, Const, Field, Index, Place, Record, Type, Value, Why
from polydl.frontend.typed.declared_types import has_member, member
from polydl.frontend.typed.emitter import NotUnderstood
from polydl.frontend.typed.literals import characters
from polydl.frontend.typed.nodes import Fill
from polydl.frontend.typed.pure_values import bytes_of, convert, unsigned_size
from polydl.frontend.typed.resolved_calls import Calls
from polydl.model.types import CHAR, I32, I64, U8, ElementType

_MOST = 1 << 16
"""Values of a list."""


class Initialisers(Calls):
    """Resolves initialisers of memory."""

    def initialise(self, place: Place, node: c_ast.Node) -> None:
        """Store the first value of an object."""
        kind = place.type
        if isinstance(node, c_ast.InitList) and not isinstance(kind, ArrayOf | Record):
            if len(node.exprs) != 1:
                raise NotUnderstood("a list for one value")
            self.initialise(place, node.exprs[0])
        elif isinstance(node, c_ast.InitList):
            self._zero(place, node)
            rest = self._list(place, list(node.exprs), braces=True)
            if rest:
                raise NotUnderstood("more values than there are places")
        elif _is_text(node) and isinstance(kind, ArrayOf):
            self._text(place, node)
        else:
            value = convert(self.value(node), kind, Why.ASSIGN, self.span(node))
            self.touched.sequence_point()
            self.assign(place, value, node)

    def _zero(self, place: Place, node: c_ast.Node) -> None:
        size = unsigned_size(bytes_of(place.type))
        self.items.append(Fill(place, Const(0, I32), size, self.span(node)))

    def _text(self, place: Place, node: c_ast.Node) -> None:
        """An array of characters."""
        assert isinstance(node, c_ast.Constant) and isinstance(place.type, ArrayOf)
        kind, count = place.type.element, place.type.count
        if kind not in (CHAR, U8) and not (isinstance(kind, ElementType) and kind.bytes == 1):
            raise NotUnderstood("text for other elements than characters")
        if not isinstance(count, Const) or not isinstance(count.number, int):
            raise NotUnderstood("text for an array of unknown size")
        self._zero(place, node)
        for at, byte in enumerate(characters(node.value)[: count.number]):
            value = convert(Const(byte, I32), kind, Why.ASSIGN)
            self.assign(element_of(place, at), value, node)

    def _list(self, place: Place, given: list[c_ast.Node], *, braces: bool) -> list[c_ast.Node]:
        """Values for the parts of an aggregate; what is left behind its last part, where it has no braces."""
        parts = _parts(place)
        at = 0
        while given:
            one = given[0]
            if isinstance(one, c_ast.NamedInitializer):
                if not braces:
                    return given
                way, part = self._way(place, one.name)
                at = way[0]
                if len(way) > 1:
                    self.initialise(part, one.expr)
                    given, at = given[1:], at + 1
                    if given and not isinstance(given[0], c_ast.NamedInitializer):
                        raise NotUnderstood("a value behind that of a part of a part")
                else:
                    given = [one.expr, *given[1:]]
                continue
            if at >= len(parts) or at >= _MOST:
                return given
            part = _part(place, parts[at])
            inner = isinstance(part.type, ArrayOf | Record)
            if inner and not isinstance(one, c_ast.InitList) and not (_is_text(one) and isinstance(part.type, ArrayOf)):
                given = self._inner(part, given)
            else:
                self.initialise(part, one)
                given = given[1:]
            at += len(parts) if isinstance(place.type, Record) and place.type.union else 1
        return given

    def _way(self, place: Place, names: Sequence[c_ast.Node]) -> tuple[list[int], Place]:
        """The part that `.x.y[2]` names, and the numbers on the way there."""
        way = []
        for name in names:
            while True:
                number, reached = self._designated(place, name)
                if number not in _parts(place):
                    raise NotUnderstood("a value for what is no part")
                way.append(number)
                place = _part(place, number)
                if reached:
                    break
        return way, place

    def _inner(self, part: Place, given: list[c_ast.Node]) -> list[c_ast.Node]:
        """Values for an aggregate without braces of its own: a structure, or those of its parts."""
        if isinstance(part.type, Record) and self.type_in(given[0]) is part.type:
            self.initialise(part, given[0])
            return given[1:]
        return self._list(part, given, braces=False)

    def _designated(self, place: Place, name: c_ast.Node) -> tuple[int, bool]:
        """Which part of an aggregate `.x` or `[k]` names; False: one that has no name, in which it is."""
        if isinstance(place.type, Record):
            assert isinstance(name, c_ast.ID), "pycparser has nothing else there"
            for number, one in enumerate(place.type.members or ()):
                if one.name == name.name:
                    return number, True
                if one.name is None and isinstance(one.type, Record) and has_member(one.type, str(name.name)):
                    return number, False
            raise NotUnderstood(f"a member '{name.name}', which is not there")
        return self._number(name), True

    def _number(self, name: c_ast.Node) -> int:
        """`k` of `[k]`."""
        inner = name.expr if isinstance(name, c_ast.ArrayDesignator) else name
        value = self.value(inner)
        if not isinstance(value, Const) or not isinstance(value.number, int):
            raise NotUnderstood("the number of an element that is not constant")
        return value.number

    def completed(self, kind: Type, init: c_ast.Node | None) -> Type:
        """The type of what is declared with an initialiser, which says the size of `a[]`."""
        if not isinstance(kind, ArrayOf) or kind.count is not None or init is None:
            return kind
        if _is_text(init):
            assert isinstance(init, c_ast.Constant)
            return replace(kind, count=Const(len(characters(init.value)) + 1, I64))
        if not isinstance(init, c_ast.InitList):
            raise NotUnderstood("an array with the value of an expression")
        at = most = 0
        for one in init.exprs:
            if isinstance(one, c_ast.NamedInitializer):
                at = self._number(one.name[0])
                one = one.expr
            aggregate = isinstance(kind.element, ArrayOf | Record)
            if aggregate and not isinstance(one, c_ast.InitList | c_ast.NamedInitializer):
                raise NotUnderstood("an array without a size, of parts without braces")
            at += 1
            most = max(most, at)
        return replace(kind, count=Const(most, I64))


def _is_text(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "string"


def _parts(place: Place) -> Sequence[int]:
    """The numbers of the parts of an aggregate; of a union, its first member."""
    kind = place.type
    if isinstance(kind, Record):
        if kind.members is None:
            member(kind, "")
        return range(len(kind.members or ()))
    assert isinstance(kind, ArrayOf)
    if not isinstance(kind.count, Const) or not isinstance(kind.count.number, int):
        raise NotUnderstood("values for an array of unknown size")
    return range(kind.count.number)


def _part(place: Place, number: int) -> Place:
    kind = place.type
    if isinstance(kind, Record):
        found = (kind.members or ())[number]
        return Place(place.base, (*place.path, Field(found.offset, found.name or "")), found.type, place.volatile)
    return element_of(place, number)


def element_of(place: Place, number: int) -> Place:
    """The element of an array with a constant number."""
    kind = place.type
    assert isinstance(kind, ArrayOf)
    index: Value = Const(number, I64)
    way = Index(index, bytes_of(kind.element), kind.count)
    return Place(place.base, (*place.path, way), kind.element, place.volatile)
