"""Whether two accesses of a region may touch the same memory.

A name is no memory: a pointer that the region sets leads into an array, as do a row, an address and a conversion of
one. Arrays and pointers that the region is given stand for themselves; that they do not overlap is checked, or said,
elsewhere (lower.overlap, lower.bounds_checks). Whatever is not followed may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.tree_parts import indexed
from polydl.frontend.meaning.symbols import Symbol, nodes

_STEPS = frozenset({"p++", "p--", "++", "--"})


@dataclass(frozen=True, slots=True)
class Place:
    """The memory that an access may touch: whole arrays and scalars."""

    objects: frozenset[str] | None
    """By name, each of which is one; None: any."""


ANYWHERE, NOWHERE = Place(None), Place(frozenset())


def conflict(one: Place, other: Place) -> bool:
    """Whether two accesses may touch the same memory; they may where that is not known."""
    return one.objects is None or other.objects is None or not one.objects.isdisjoint(other.objects)


class Memory:
    """What names lead to in some code of a region."""

    def __init__(
        self,
        code: Iterable[Node],
        find: Callable[[str], Symbol | None],
        pointed: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`find`: what a name outside of the code denotes; `pointed`: the array that a pointer leads into which the
        region has set before, None of other names."""
        self._find, self._pointed = find, pointed
        self._set: dict[str, list[Node | None]] = {}
        """Pointers that the code declares, with all that they are given."""
        self._numbers: set[str] = set()
        """Scalars that it declares."""
        every = [node for part in code for node in nodes(part)]
        for node in every:
            if isinstance(node, c_ast.Decl) and node.name is not None:
                if isinstance(node.type, c_ast.PtrDecl):
                    self._set.setdefault(node.name, []).append(node.init)
                elif isinstance(node.type, c_ast.TypeDecl):
                    self._numbers.add(node.name)
        for node in every:
            if isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID):
                if node.lvalue.name in self._set and node.op == "=":
                    self._set[node.lvalue.name].append(node.rvalue)

    def place(self, node: Node) -> Place:
        """What an lvalue touches, or what a pointer leads to."""
        return self._led_to(node, frozenset())

    def _led_to(self, node: Node, seen: frozenset[str]) -> Place:
        match node:
            case c_ast.ID(name=name):
                return self._named(str(name), seen)
            case c_ast.ArrayRef(name=inner) | c_ast.Cast(expr=inner):
                return self._led_to(inner, seen)
            case c_ast.UnaryOp(op="*" | "&" | "p++" | "p--" | "++" | "--", expr=inner):
                return self._led_to(inner, seen)
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                sides = [side for side in (left, right) if not self._is_number(side)]
                return _either(*(self._led_to(side, seen) for side in sides)) if sides else NOWHERE
            case c_ast.TernaryOp(iftrue=left, iffalse=right):
                return _either(self._led_to(left, seen), self._led_to(right, seen))
        return ANYWHERE

    def _is_number(self, node: Node) -> bool:
        """Whether it surely is none of the places that a pointer is so far from."""
        match node:
            case c_ast.ID(name=name):
                found = self._find(str(name))
                return name not in self._set and (name in self._numbers or (found is not None and found.is_scalar))
            case c_ast.Constant():
                return True
            case c_ast.BinaryOp() if node.op not in ("+", "-"):
                return True
            case c_ast.BinaryOp(left=left, right=right):
                return self._is_number(left) and self._is_number(right)
            case c_ast.UnaryOp(op="-" | "+" | "~" | "sizeof"):
                return True
            case c_ast.Cast(expr=inner) if not isinstance(node.to_type.type, c_ast.PtrDecl):
                return self._is_number(inner) or (isinstance(inner, c_ast.BinaryOp) and inner.op not in ("+", "-"))
            case c_ast.ArrayRef():
                array, subscripts = indexed(node)
                found = self._find(array) if array and array not in self._set else None
                return found is not None and len(found.levels) == len(subscripts)
        return False

    def _named(self, name: str, seen: frozenset[str]) -> Place:
        if name in seen:
            return NOWHERE
        if name in self._set:
            found = Place(frozenset({name}))
            for given in self._set[name]:
                found = _either(found, ANYWHERE if given is None else self._led_to(given, seen | {name}))
            return found
        array = self._pointed(name)
        return Place(frozenset({name} if array is None else {name, array}))

    def read(self, node: Node) -> Iterator[Place]:
        """What a subtree may read, or lead to: of each name in it."""
        for part in nodes(node):
            if isinstance(part, c_ast.ID):
                yield self._named(str(part.name), frozenset())

    def stored(self, node: Node) -> Iterator[Place]:
        """What a subtree may store to; initial values do not count."""
        for part in nodes(node):
            if isinstance(part, c_ast.Assignment):
                yield self.place(part.lvalue)
            elif isinstance(part, c_ast.UnaryOp) and part.op in _STEPS:
                yield self.place(part.expr)
            elif isinstance(part, c_ast.FuncCall) and part.args is not None:
                # A microkernel's loops stand in a pragma; what is given a number stores to nothing by it.
                for given in part.args.exprs:
                    if not self._is_number(given):
                        yield from self.read(given)

    def touches(self, node: Node, place: Place) -> bool:
        """Whether a subtree may read or write the memory of an access."""
        return any(conflict(one, place) for one in self.read(node))

    def changes(self, node: Node, place: Place) -> bool:
        """Whether a subtree may store to the memory of an access."""
        return any(conflict(one, place) for one in self.stored(node))

    def changes_what_is_read(self, node: Node, read: Node) -> bool:
        """Whether a subtree may store to what an expression reads."""
        return any(self.changes(node, place) for place in self.read(read))

    def apart(self, several: Iterable[Node]) -> bool:
        """Whether no two of these lvalues touch the same memory."""
        return not any(conflict(one, other) for one, other in combinations(map(self.place, several), 2))


def _either(*several: Place) -> Place:
    known = [one.objects for one in several if one.objects is not None]
    return Place(frozenset().union(*known)) if len(known) == len(several) else ANYWHERE
