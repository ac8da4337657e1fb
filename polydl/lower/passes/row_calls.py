"""Turns innermost loops into calls of vector functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from itertools import product as every_way

from polydl.base.records import dataclass
from polydl.kernels.families import row_function
from polydl.kernels.innermost import Argument, RowOptions, printed
from polydl.kernels.row_loops import in_columns, may_run, row_loops, together
from polydl.kernels.tree_rows import common_options
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.ctree import (
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    If,
    Instance,
    Int,
    Invoke,
    Marked,
    Name,
    Node,
    Paren,
    Scope,
    Unary,
    Way,
    every,
    names,
    substituted,
    with_children,
)
from polydl.lower.instance import Names
from polydl.lower.instance_marks import row_mark
from polydl.lower.passes.row_lengths import length, product, runs
from polydl.lower.passes.transpose_calls import transposed
from polydl.model.scop import Scop

_MOST_CONDITIONS = 6
"""In a row, at most: each of the ways in which they may hold has a row of its own."""


@dataclass(slots=True)
class Rows:
    """The pass, and what its functions need."""

    scop: Scop
    names: Names
    private: Sequence[str]
    """Scalars of which each thread has its own."""
    options: Mapping[str, RowOptions]
    """By statement; loops around others stay loops."""
    prologue: list[str] = field(default_factory=list)
    """File-scope pieces of the functions made so far."""
    streams: bool = False
    """Whether one of them stores past the caches."""

    def __call__(self, node: Node, *, marked: bool = False) -> Node:
        """Code with calls in place of the loops that are rows; `marked`: the next loop runs in a way of its own."""
        match node:
            case Marked(Way.SIMD | Way.SUM, For() as loop) if (called := self._row(loop)) is not None:
                return called
            case Marked(Way.SIMD, For()):
                return node  # in lanes, with what is inside
            case Marked(way) if way.takes_loops:
                return with_children(node, lambda child: self(child, marked=True))
            case Marked():
                return with_children(node, self)
            case For():
                called = None if marked else self._row(node) or self._transposed(node)
                below = node.once and marked
                return called or with_children(node, lambda child: self(child, marked=below))
            case _:
                return with_children(node, lambda child: self(child, marked=marked))

    def _row(self, node: For) -> Node | None:
        """The call in place of the loops from here on; None where they are no row."""
        chain = [node]
        while isinstance(chain[-1].body, For):
            chain.append(chain[-1].body)
        called = self._of(chain)
        if called is None and len(chain) > 1:
            called = self._of(chain[:-1])  # each column adds something up in the last one
        return called

    def _of(self, chain: Sequence[For]) -> Node | None:
        """The call in place of these loops, which stand in one another; None where they are no row."""
        parts = _parts(chain[-1].body)
        if parts is None:
            return None
        conditions = tuple(dict.fromkeys(condition for part in parts for condition in part.conditions))
        if not conditions:
            return self._call(chain, parts)
        inside = {loop.variable for loop in chain}
        options = self._options(part.instance for part in parts)
        if options is None or not options.jam or any(inside & set(names(condition)) for condition in conditions):
            return None
        return self._cases(chain, parts, conditions)

    def _options(self, instances: Iterable[Instance]) -> RowOptions | None:
        """What a loop around these may become; None: it stays a loop."""
        names = [one.row.statement.name for one in instances if one.row is not None]
        return common_options(names, self.options)

    def _transposed(self, node: For) -> Node | None:
        """The call in place of the loops from here on that read along one and write along another; None: they don't."""
        chain = [node]
        while isinstance(chain[-1].body, For):
            chain.append(chain[-1].body)
        parts = _parts(chain[-1].body)
        if parts is None or len(parts) != 1 or parts[0].conditions:
            return None
        options = self._options([parts[0].instance])
        if options is None:
            return None
        found = transposed(self.scop, chain, parts[0].instance, options, self.names.integer)
        if found is None:
            return None
        call, made = found
        self.prologue += (*made.prologue, made.text)
        self.streams = self.streams or made.streams
        return call

    def _cases(self, chain: Sequence[For], parts: Sequence[_Part], conditions: tuple[Expr, ...]) -> Node | None:
        """A row for each of the ways in which conditions may hold that do not change in it: where iterations are left
        over that do not fill a block, less runs. None where these are too many."""
        if len(conditions) > _MOST_CONDITIONS or any(part.instance.row is None or part.inner for part in parts):
            return None
        found: Node | None = None
        for held in every_way((False, True), repeat=len(conditions)):
            true = {one for one, holds in zip(conditions, held, strict=True) if holds}
            running = [part for part in parts if true.issuperset(part.conditions)]
            rows = [part.instance.row for part in running]
            others = [part.instance.row for part in parts if not true.issuperset(part.conditions)]
            if not may_run([one for one in rows if one], [one for one in others if one]):
                continue
            called = self._call(chain, running) if running else Block(())
            if called is None:
                return None
            guard = tuple(one if one in true else Unary("!", Paren(one)) for one in conditions)
            found = called if found is None else If(every(guard), called, found)
        return found

    def _call(self, chain: Sequence[For], parts: Sequence[_Part]) -> Node | None:
        """The call that runs the loops with these statements in the innermost one."""
        node, instances = chain[0], [part.instance for part in parts]
        users = [(one, one.row) for one in instances if one.row is not None]
        last = [loop.last for loop in chain if loop.last is not None]
        if len(users) < len(instances) or len(last) < len(chain):
            return None
        options = self._options(instances)
        if options is None:
            return None
        if not options.jam and len({at.statement.name for _, at in users}) < len(users):
            return None  # iterations written out, which share what they load
        inner = [(loop.first, loop.last) for loop in chain[1:]]
        numbers = [(low.value, high.value) for low, high in inner if isinstance(low, Int) and isinstance(high, Int)]
        if len(numbers) + 1 < len(chain):
            return None
        inside = {at.statement.name for _, at in users}
        private = frozenset(
            name
            for name in self.private
            if all(s.name in inside for s in self.scop.statements if any(a.array == name for a in s.accesses))
        )
        try:
            further = [part.inner is not None for part in parts]
            statements = together([at for _, at in users], further)
            loops = row_loops(in_columns(statements, further), numbers)
            sums = {at: part.inner.iterations for at, part in enumerate(parts) if part.inner is not None}
            piece = printed(self.scop.arrays, private, loops, statements, options, sums)
        except NotVectorised:
            return None
        made = row_function(piece)
        if made is None:
            return None
        self.prologue += (*made.prologue, made.text)
        self.streams = self.streams or made.streams
        columns = reduce(product, map(Int, loops.extents), length(node))
        condition = runs(node) if made.always_touches else None
        given = [_argument(argument, [user for user, _ in users]) for argument in made.arguments]
        call: Expr = Invoke(made.name, (columns, *given))
        turned = piece.printed is not None and piece.printed.turned
        begins = {loop.variable: end if turned else loop.first for loop, end in zip(chain, last, strict=True)}
        known = {name: begin for name, begin in begins.items() if isinstance(begin, Int) and begin.value >= 0}
        known |= {part.inner.variable: Int(part.inner.first) for part in parts if part.inner is not None}
        if known:
            call = substituted(call, known)
        counted = zip(chain, [1, *loops.extents], strict=True)
        hints = [
            row_mark([(Name(v := loop.variable), begins[v], Int(extent)) for loop, extent in counted], back=turned),
            *(hint for user, _ in users for hint in user.hints),
        ]
        hinted = tuple(hints) if any(user.hints for user, _ in users) else ()
        used = set(names(call))
        declared = tuple((name, begin) for name, begin in begins.items() if name in used)
        code = Block((*hinted, Evaluate(call)))
        if declared:
            code = Block((Declare(f"const {self.names.integer}", declared), *code.parts))
        if condition is not None:
            return If(condition, code)
        return Scope(code.parts) if declared else code


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement in the body of a loop."""

    instance: Instance
    conditions: tuple[Expr, ...]
    """It runs where these hold."""
    inner: _Inner | None = None
    """The loop around it inside of the row."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """A loop of constant length."""

    variable: str
    first: int
    iterations: int


def _parts(node: Node, conditions: tuple[Expr, ...] = ()) -> list[_Part] | None:
    """The statements in the body of a loop; None where there is anything else."""
    match node:
        case Instance():
            return [_Part(node, conditions)]
        case Block(parts):
            found = [_parts(part, conditions) for part in parts]
            return None if None in found else [one for part in found if part is not None for one in part]
        case If(condition, then, None):
            return _parts(then, (*conditions, condition))
        case For(first=Int(first), last=Int(last)) if first >= 0 and not conditions:
            found = [_parts(part) for part in (node.body.parts if isinstance(node.body, Block) else (node.body,))]
            inside = [one for part in found if part is not None for one in part]
            if None in found or any(one.conditions or one.inner for one in inside):
                return None
            inner = _Inner(node.variable, first, last - first + 1)
            return [replace(one, inner=inner) for one in inside]
        case _:
            return None


def _argument(argument: Argument, users: Sequence[Instance]) -> Expr:
    if argument.affine:
        return users[argument.statement].values[argument.access]
    element = users[argument.statement].elements[argument.access]
    return Unary("&", element) if argument.pointer else element
