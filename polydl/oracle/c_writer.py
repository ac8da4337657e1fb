"""Writes the Python that a C function is translated to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pycparser import c_ast

from polydl.oracle.c_types import VOID, Arithmetic, CType, Integer, PointerTo, Real
from polydl.oracle.c_values import NO_EFFECTS, Effects, Place, Scope, Touched, Value
from polydl.oracle.c_verdicts import Unsupported, place_of


class Writer:
    """Lines of Python, fresh names, and the conflicts of effects without an order.

    Parts of the translator derive from it one after the other; what they need of later ones is declared here.
    """

    def __init__(self, scope: Scope, nodes: list[c_ast.Node], traced: bool) -> None:
        self.scope = scope
        self.nodes = nodes
        """What the written Python calls N: places of errors, and of accesses for a tracer."""
        self.traced = traced
        """Every variable is in memory, and every access is told."""
        self.lines: list[str] = []
        self.links: dict[str, str] = {}
        """Names of objects with static storage, and the Python that finds them."""
        self._indent = 2
        self._names = 0
        self._numbers: dict[int, int] = {}

    # What the parts derived from this one give.

    def value(self, node: c_ast.Node) -> Value:
        """Translate an expression."""
        raise NotImplementedError

    def place(self, node: c_ast.Node, *, address: bool = False) -> Place:
        """Translate an lvalue; `address`: it is not accessed, so that it may be one past an array."""
        raise NotImplementedError

    def convert(self, value: Value, to: CType, node: c_ast.Node) -> Value:
        raise NotImplementedError

    # Lines.

    def emit(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Lines that belong to `if …:`; an empty block passes."""
        self.emit(opening)
        count = len(self.lines)
        self._indent += 1
        yield
        if len(self.lines) == count:
            self.emit("pass")
        self._indent -= 1

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        self.scope = Scope(self.scope)
        yield
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def fresh(self, word: str = "t") -> str:
        self._names += 1
        return f"{word}{self._names}"

    def at(self, node: c_ast.Node) -> str:
        """Python for a node: the place of an error."""
        number = self._numbers.get(id(node))
        if number is None:
            number = self._numbers[id(node)] = len(self.nodes)
            self.nodes.append(node)
        return f"N[{number}]"

    def refuse(self, reason: str, node: c_ast.Node | None) -> Unsupported:
        return Unsupported(reason, place_of(node))

    # Values.

    def atom(self, code: str) -> str:
        """A name or number that may be written several times."""
        if code.isidentifier() or code.lstrip("-").isdigit():
            return code
        name = self.fresh()
        self.emit(f"{name} = {code}")
        return name

    def settled(self, value: Value) -> Value:
        """The value as an atom, rounded to float where that was still to be done."""
        if value.raw:
            name = self.fresh()
            self.emit(f"C4[0] = {value.code}")
            self.emit(f"{name} = C4[0]")
            return Value(value.type, name, excess=value.excess, effects=value.effects)
        if isinstance(value.type, PointerTo):
            return Value(value.type, self.atom(value.code), self.atom(value.offset), effects=value.effects)
        if value.constant is not None:
            return value
        return Value(
            value.type,
            self.atom(value.code),
            excess=value.excess,
            bounds=value.bounds,
            effects=value.effects,
        )

    def number(self, constant: int | float, kind: Arithmetic) -> Value:
        """A constant."""
        if isinstance(kind, Integer):
            return Value(kind, str(int(constant)), constant=int(constant))
        value = float(constant)
        code = repr(value) if abs(value) < float("inf") else ("NAN" if value != value else f"{'-' * (value < 0)}INF")
        return Value(kind, f"({code})" if code[0] == "-" else code, constant=value)

    def nothing(self, effects: Effects = NO_EFFECTS) -> Value:
        """The value of an expression of type void."""
        return Value(VOID, "None", effects=effects)

    def truth(self, value: Value) -> str:
        """Python that is true where the C value is not 0."""
        if isinstance(value.type, PointerTo):
            return f"({value.code} is not NULL or {value.offset} != 0)"
        if not isinstance(value.type, Integer | Real):
            raise self.refuse(f"a condition of type '{value.type}'", None)
        return self.settled(value).code if value.raw else value.code

    def single(self, value: Value) -> str:
        """One Python value: of a pointer its object and offset in a tuple."""
        if isinstance(value.type, PointerTo):
            return f"({value.code}, {value.offset})"
        return self.settled(value).code if value.raw else value.code

    def spread(self, code: str, kind: CType, effects: Effects = NO_EFFECTS) -> Value:
        """The value that one Python value is."""
        name = self.fresh()
        if isinstance(kind, PointerTo):
            self.emit(f"{name}o, {name}f = {code}")
            return Value(kind, f"{name}o", f"{name}f", effects=effects)
        self.emit(f"{name} = {code}")
        return Value(kind, name, effects=effects)

    # Effects.

    def together(self, node: c_ast.Node, *effects: Effects) -> Effects:
        """The effects of operands that C evaluates in no order; what conflicts is undefined where it happens."""
        for number, one in enumerate(effects):
            for other in effects[:number]:
                self._against(one.writes, other.reads + other.writes, node)
                self._against(other.writes, one.reads, node)
        found = NO_EFFECTS
        for one in effects:
            found = found + one
        return found

    def written(self, place: Place, size: int, effects: Effects, node: c_ast.Node, *, again: bool = False) -> Effects:
        """The effects of an assignment whose operands have these: its own write comes after their values, but not
        after their pending effects. `again`: the place is read first, as in `+=`.

        The write of `=` and `+=` counts as ended for an assignment around it: C11 leaves `a[i] = a[j] = x` undefined
        where i is j, but no compiler does, and C++ does not.
        """
        mine = place.touched(size)
        self._against((mine,), effects.pending, node)
        reads = (*effects.reads, mine) if again else effects.reads
        if isinstance(node, c_ast.Assignment):
            return Effects(reads, (*effects.done, mine), effects.pending)
        return Effects(reads, effects.done, (*effects.pending, mine))

    def _against(self, writes: tuple[Touched, ...], others: tuple[Touched, ...], node: c_ast.Node) -> None:
        for one in writes:
            for other in others:
                self.conflict(one, other, node)

    def conflict(self, one: Touched, other: Touched, node: c_ast.Node) -> None:
        conditions = [part for part in (one.condition, other.condition) if part]
        if one.offset is None or other.offset is None:
            if one.offset is not other.offset or one.obj != other.obj:
                return
        else:
            conditions.append(f"{one.obj} is {other.obj}")
            conditions.append(f"-{other.size} < {other.offset} - {one.offset} < {one.size}")
        self.emit(f"if {' and '.join(conditions) or 'True'}: unsequenced({self.at(node)})")
