"""From what was put together in Python (`model.build`) to a scop with the C that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from polydl.base.errors import InputError, Span
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.build_terms import (
    Comparison,
    Index,
    Number,
    Operation,
    Read,
    Term,
    Update,
    functions,
    index,
    indices,
    reads,
    symbol,
)
from polydl.model.expr import Binary, Expr, Load
from polydl.model.scop import Access, Array, Assignment, Header, Region, Scop, Source, Statement, Storage
from polydl.model.spaces import StatementSpace
from polydl.model.types import I32, ElementType


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a program that is being built."""

    name: str
    begin: Index
    end: Index

    def head(self) -> str:
        return f"for (int {self.name} = {self.begin.text}; {self.name} < {self.end.text}; {self.name}++)"


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A statement."""

    target: Read
    op: str
    value: Term
    loops: tuple[Loop, ...]
    conditions: tuple[Comparison, ...]
    position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """What stands behind the head of a loop or a condition."""

    head: str
    items: list[Block | Stored] = field(default_factory=list)


class Program(Protocol):
    """What is being built."""

    def store(self, target: Read, value: Term | Number | Update) -> None:
        """What an assignment to an element does."""


class BuiltArray:
    """An array of a program that is being built. `A[i, j]` is an element of it, which can be stored to."""

    def __init__(self, program: Program, name: str, element: ElementType, shape: tuple[Index, ...], own: bool) -> None:
        self.program, self.name, self.element, self.shape = program, name, element, shape
        self.own = own
        """Whether it is the function's own, and no parameter."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __getitem__(self, subscripts: Index | int | tuple[Index | int, ...]) -> Read:
        several = subscripts if isinstance(subscripts, tuple) else (subscripts,)
        if len(several) != self.rank:
            shape = "".join(f"[{extent.text}]" for extent in self.shape)
            raise InputError(
                f"'{self.name}' has {self.rank} dimensions and is used with {len(several)} subscripts",
                hint=f"it is {self.element.c} {self.name}{shape}",
            )
        return Read(self.program, self.name, self.element, tuple(index(one) for one in several))

    def __setitem__(self, subscripts: Index | int | tuple[Index | int, ...], value: Term | Number | Update) -> None:
        self.program.store(self[subscripts], value)

    def declaration(self, const: bool) -> str:
        """In C."""
        dims = [extent.text for extent in self.shape]
        if dims and not self.own:
            dims[0] = f"restrict {dims[0]}"
        return f"{'const ' if const else ''}{self.element.c} {self.name}" + "".join(f"[{dim}]" for dim in dims)


@dataclass(slots=True)
class Made:
    """A scop in the making."""

    function: str
    named: Mapping[str, Index | BuiltArray | Read]
    """What the function declares, in the order of its parameters."""
    stored: Sequence[Stored]
    """Statements in the order in which they are written."""
    block: Block
    """The body of the function."""
    assumed: Sequence[Comparison]
    """What holds for the sizes."""
    lines: list[str] = field(default_factory=list)
    """Of the text."""
    spans: dict[int, Span] = field(default_factory=dict)
    """By statement (its identity), where it stands in the text."""

    def scop(self) -> Scop:
        """Raises InputError where what is assumed contradicts itself."""
        used = self._used()
        parameters = self._parameters(used)
        path = Path(f"{self.function}.c")
        source, region = self._source(path)
        context = self._context(used)
        arrays = {name: self._array(name, parameters) for name in used}
        statements = [self._statement(f"S{k}", one, parameters, context) for k, one in enumerate(self.stored)]
        head = source.text.count("\n", 0, region.helpers) + 1
        return Scop(
            self.function, Span(str(path), head, 1), source, region, parameters,
            isl.parametric(context, parameters), arrays, tuple(statements),
            live_out=frozenset(n for n, one in arrays.items() if one.extents and one.storage is Storage.PARAMETER),
        )  # fmt: skip

    def _used(self) -> list[str]:
        """Arrays and scalars in the order of their use, what is stored to before what is read."""
        names = [one.array for s in self.stored for one in (s.target, *reads(s.value))]
        return list(dict.fromkeys(names))

    def _parameters(self, used: Sequence[str]) -> tuple[str, ...]:
        every: list[Index] = [bound for s in self.stored for loop in s.loops for bound in (loop.begin, loop.end)]
        every += [one for s in self.stored for read in (s.target, *reads(s.value)) for one in read.subscripts]
        every += [one for s in self.stored for part in (s.value, *s.conditions) for one in indices(part)]
        every += [extent for name in used if isinstance(one := self.named[name], BuiltArray) for extent in one.shape]
        every += [one for condition in self.assumed for one in indices(condition)]
        involved = {name for one in every for name in one.names}
        return tuple(name for name, one in self.named.items() if isinstance(one, Index) and name in involved)

    def _context(self, used: Sequence[str]) -> isl.Set:
        known = isl.Set.universe(isl.unnamed_space(0)).params()
        for extent in (e for n in used if isinstance(one := self.named[n], BuiltArray) for e in one.shape):
            if extent.names:
                known = known.intersect(extent.function.nonneg_set().params())
        for condition in self.assumed:
            known = known.intersect(condition.holds())
        if known.is_empty():
            raise InputError("what is assumed contradicts the sizes or something else that is assumed")
        return isl.Set.universe(isl.unnamed_space(0)).intersect_params(known)

    def _array(self, name: str, parameters: Sequence[str]) -> Array:
        one = self.named[name]
        if isinstance(one, Read):
            return Array(name, one.type, (), Storage.PARAMETER, f"{one.type.c} {name}", restrict=True)
        assert isinstance(one, BuiltArray), "sizes are never read as arrays are"
        extents = tuple(isl.parametric(extent.function, parameters) for extent in one.shape)
        storage = Storage.REGION if one.own else Storage.PARAMETER
        const = self._const(one)
        return Array(
            name, one.element, extents, storage, one.declaration(const), restrict=True, const=const,
        )  # fmt: skip

    def _const(self, one: BuiltArray) -> bool:
        return not one.own and all(s.target.array != one.name for s in self.stored)

    def _statement(self, name: str, stored: Stored, parameters: Sequence[str], context: isl.Set) -> Statement:
        where = isl.Set.universe(isl.unnamed_space(0))
        for loop in stored.loops:
            variable = symbol(loop.name).function
            where = where.intersect(variable.ge_set(loop.begin.function)).intersect(variable.lt_set(loop.end.function))
        for condition in stored.conditions:
            where = where.intersect_params(condition.holds())
        iterators = tuple(loop.name for loop in stored.loops)
        space = StatementSpace(name, iterators, parameters)
        domain = space.set(where.gist(context)).coalesce()
        found = list(reads(stored.value))
        places = iter(range(len(found)))
        value = stored.value.expression(lambda read: next(places), stored.target.type)
        op, value, again = _accumulated(stored, value, found)
        if op != "=" and again is None:
            again = len(found)
            found.append(stored.target)
        span = self.spans[id(stored)]
        accesses = [
            Access(one.array, write, space.relation(one.array, [i.function for i in one.subscripts], domain), span)
            for one, write in [*((one, False) for one in found), (stored.target, True)]
        ]
        body = Assignment(len(accesses) - 1, op, space.expression(value), again)
        return Statement(name, iterators, domain, stored.position, frozenset(), tuple(accesses), body, span)

    def _source(self, path: Path) -> tuple[Source, Region]:
        """The C that the program stands for."""
        before = ["#include <math.h>"] if any(functions(s.value) for s in self.stored) else []
        given = [(name, f"int {name}") for name, one in self.named.items() if isinstance(one, Index)]
        given += [(name, self._declared(name)) for name, one in self.named.items() if self._is_parameter(one)]
        prototype = f"void {self.function}({', '.join(text for _, text in given) or 'void'})"
        self.lines = [*before, prototype, "{"]
        self.lines += [f"#pragma polydl assume{one.c(I32)}" for one in self.assumed]
        self.lines.append("#pragma scop")
        first = len(self.lines)
        for one in self.named.values():
            if isinstance(one, BuiltArray) and one.own:
                self.lines.append(f"    {one.declaration(const=False)};")
        self._print(self.block, 1)
        start = sum(len(line) + 1 for line in self.lines[:first])
        end = sum(len(line) + 1 for line in self.lines)
        text = "\n".join([*self.lines, "#pragma endscop", "}", ""])
        spans = {key: replace(s, file=str(path), text=self.lines[s.line - 1]) for key, s in self.spans.items()}
        self.spans = spans
        return Source(path, text, declared=frozenset({self.function})), Region(
            start, end, sum(len(line) + 1 for line in before), header=Header(prototype, "void", tuple(given))
        )

    @staticmethod
    def _is_parameter(one: Index | BuiltArray | Read) -> bool:
        return isinstance(one, Read) or (isinstance(one, BuiltArray) and not one.own)

    def _declared(self, name: str) -> str:
        one = self.named[name]
        return one.declaration(self._const(one)) if isinstance(one, BuiltArray) else self._array(name, ()).declaration

    def _print(self, block: Block, depth: int) -> None:
        for item in block.items:
            pad = "    " * depth
            if isinstance(item, Block):
                self.lines.append(f"{pad}{item.head} {{")
                self._print(item, depth + 1)
                self.lines.append(f"{pad}}}")
                continue
            value = item.value.c(item.target.type)
            whole = isinstance(item.value, Operation) and item.value.form.startswith("({}")
            value = value[1:-1] if whole else value
            text = f"{item.target.c(item.target.type)} {item.op} {value};"
            self.lines.append(pad + text)
            self.spans[id(item)] = Span("", len(self.lines), len(pad) + 1, len(text))


def _accumulated(stored: Stored, value: Expr, found: Sequence[Read]) -> tuple[str, Expr, int | None]:
    """Operator, value and the read of the target: `x = x + e` is `x += e`, as in the front end."""
    if stored.op == "=" and isinstance(value, Binary) and value.op in ("+", "*", "-"):
        sides = [(value.left, value.right)] + [(value.right, value.left)] * (value.op != "-")
        for same, other in sides:
            if isinstance(same, Load) and stored.target.same(found[same.access]):
                return f"{value.op}=", other, same.access
    return stored.op, value, None
