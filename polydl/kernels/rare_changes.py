"""Loops that hand on a few values which most iterations leave as they are: `if (!(x[j] <= m)) { m = x[j]; at = j; }`.

As long as no column of a block passes a test, what the tests compare with stays as it is, so that all of its columns
can be tested at once, in vectors. From a column on that passes the loop runs as it is written, one column after the
other. However a test is spelled, and whatever it says of NaN, the result is that of the loop. Where columns pass again
and again, fewer and fewer of them are tested before they run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import reduce

from polydl.base.records import dataclass
from polydl.kernels.family import Cycles
from polydl.kernels.innermost import Innermost, OfRows, RowFunction, stated
from polydl.kernels.microkernel import environment
from polydl.kernels.row_builder import RowArgument, RowBuilder
from polydl.kernels.rows import row_prologue
from polydl.kernels.scalar_text import scalar_text
from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, own_prologues
from polydl.kernels.whole_text import number_text
from polydl.model.expr import (
    Binary,
    Call,
    Conditional,
    Const,
    Expr,
    Gather,
    Load,
    Unary,
    affine_values,
    every_part,
    joined,
    loads,
)
from polydl.model.functions import function_of
from polydl.model.scop import Access, Assignment
from polydl.model.types import ElementType, common
from polydl.target.instructions import RATE
from polydl.target.isa import ROW_TYPES, Isa, lanes_name

_ALWAYS = Const("1")
_OTHERWISE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class ChangesUse:
    """What a piece tests, and what it does."""

    element: ElementType
    """Of what is tested."""
    tests: tuple[str, ...]
    """C of lanes, of the columns from `polydl_column` on; where none of them holds, nothing changes."""
    held: tuple[str, ...]
    """C declarations of what the tests compare with, made of the values that there are."""
    surely: tuple[str, ...]
    """C conditions on these under which a column may pass though its lane does not say so."""
    values: tuple[tuple[RowArgument, str], ...]
    """What is handed on, with the variable for it."""
    plain: tuple[str, ...]
    """C of column j on these variables."""
    meaning: tuple[str, ...]
    """The same on memory."""
    arguments: tuple[RowArgument, ...]
    own: tuple[str, ...]
    """Prologues of functions that the tests call."""
    long: str
    """See `model.scop.Scop`."""


class RareChanges(OfRows):
    """See the module."""

    name = "rare changes"

    def matches(self, piece: Innermost) -> Sequence[ChangesUse]:
        """Statements that store to one element each in all columns, or leave it as it is."""
        where = piece.printed
        if where is None or where.turned or piece.inner:
            return ()
        tested = {
            piece.arrays[s.accesses[access].array].element
            for at, s in enumerate(piece.statements)
            if isinstance(s.body, Assignment)
            for access in _conditional_loads(s.body.value)
            if piece.moves[at][access] == 1
        }
        # What is handed on is compared with elements of its own type, mostly.
        held = {piece.arrays[s.target.array].element for s in piece.statements if isinstance(s.body, Assignment)}
        for element in sorted(tested & {*ROW_TYPES}, key=lambda t: (t not in held, -t.bytes, t.name)):
            try:
                return (_Columns(piece, RowBuilder(piece, where, element), element).use(),)
            except NotVectorised:
                continue
        return ()

    def cycles(self, use: ChangesUse, shape: int, isa: Isa) -> Cycles:
        return Cycles(step=shape * 2 * len(use.tests) / RATE)

    def emit(self, use: ChangesUse, shape: int) -> RowFunction:
        t = use.element
        declared = "".join(f", {one.declaration}" for one in use.arguments)
        content = repr((t, use.tests, use.held, use.surely, use.plain, declared))
        name = f"polydl_changes_{lanes_name(t)}_{hashlib.sha256(content.encode()).hexdigest()[:10]}"
        signature = f"const ptrdiff_t n{declared}"
        template = environment().get_template("rare_changes.c.j2")
        body = template.render(t=t, v=f"polydl_{lanes_name(t)}", use=use, together=max(1, min(4, t.bytes)))
        before = (*row_prologue(t, use.long), *([math_prologue(t), *use.own] if t.is_float else []))
        text = stated(name, signature, self.meaning(use, shape), body)
        return RowFunction(name, text, signature, before, tuple(a.of for a in use.arguments), gathers=True)

    def meaning(self, use: ChangesUse, shape: int) -> str:
        return f"for (ptrdiff_t j = 0; j < n; j++) {{ {' '.join(use.meaning)} }}"


def _conditional_loads(value: Expr) -> Iterator[int]:
    """The accesses that the conditions of an expression read."""
    for part in every_part(value):
        if isinstance(part, Conditional):
            yield from (one.access for one in every_part(part.condition) if isinstance(one, Load))


@dataclass(slots=True)
class _Columns:
    """The columns of a piece: what tests them, and what they do."""

    piece: Innermost
    builder: RowBuilder
    element: ElementType
    variables: dict[str, str] = field(default_factory=dict)
    """By the name of the argument that points to what is handed on, the variable for it."""
    held: dict[str, str] = field(default_factory=dict)
    """C of what the tests compare with, by variable."""
    surely: list[str] = field(default_factory=list)
    tested: set[tuple[int, int]] = field(default_factory=set)
    """Statements and accesses that the tests load in vectors."""

    def use(self) -> ChangesUse:
        """Raises NotVectorised where the statements are others."""
        bodies = []
        for at, statement in enumerate(self.piece.statements):
            body = statement.body
            assert isinstance(body, Assignment), "a row is made of assignments"
            kept = statement.target.array in self.builder.where.private
            if body.op != "=" or self.builder.move(at, body.target) != 0 or kept:
                raise NotVectorised(f"{statement.name} does more than to hand on a value")
            for part in every_part(body.value):
                if isinstance(part, Gather) or (isinstance(part, Call) and function_of(part.function) is None):
                    raise NotVectorised("an element that data choose, or a function of the program")
            self._check_apart(at, statement.target)
            pointer = self.builder.argument(at, body.target, pointer=True)
            self.variables.setdefault(pointer.name, f"polydl_m{len(self.variables)}")
            bodies.append(body)
        tests = dict[str, None]()
        for at, body in enumerate(bodies):
            found = self._changes(at, body.value)
            if found is _ALWAYS:
                raise NotVectorised("a value that changes in each column")
            for one in joined(found, "||") if found is not None else ():
                tests[self._test(at, self._tested_part(at, one), holds=True)] = None
        if not tests or not self.tested:
            raise NotVectorised("nothing that is tested in vectors")
        self.builder.check_loads(self.tested)
        both = [self._plain(at, body) for at, body in enumerate(bodies)]
        pointers = {a.name: a for a in self.builder.arguments}
        return ChangesUse(
            self.element,
            tuple(tests),
            tuple(f"const {self.builder.vector} {name} = {text};" for text, name in self.held.items()),
            tuple(dict.fromkeys(self.surely)),
            tuple((pointers[name], variable) for name, variable in self.variables.items()),
            tuple(plain for plain, _ in both),
            tuple(meaning for _, meaning in both),
            tuple(self.builder.arguments),
            own_prologues([b.value for b in bodies], self.element, fast=self.builder.where.options.fast_math),
            self.builder.where.options.long,
        )

    def _check_apart(self, at: int, target: Access) -> None:
        """What a statement stores to is touched as the same element or not at all. Raises NotVectorised."""
        where = self.builder.where
        mine = where.relation(at, target)
        for other, statement in enumerate(self.piece.statements):
            for access in statement.accesses:
                theirs = where.relation(other, access)
                if access.array == target.array and not mine.is_equal(theirs) and not where.apart(mine, theirs):
                    raise NotVectorised(f"{target.array} is read beside")

    def _changes(self, at: int, value: Expr) -> Expr | None:
        """A condition without which a statement leaves its target as it is; None: it always does."""
        match value:
            case Load(access) if self._pointer(at, access) == self._target(at):
                return None
            case Conditional(condition, then, otherwise):
                one, two = self._changes(at, then), self._changes(at, otherwise)
                some = [] if one is None else [condition if one is _ALWAYS else Binary("&&", condition, one)]
                if two is not None and one is _ALWAYS:
                    some.append(two)
                elif two is not None:
                    unless = Unary("!", condition)
                    some.append(unless if two is _ALWAYS else Binary("&&", unless, two))
                if _ALWAYS in some or (one is _ALWAYS and two is _ALWAYS):
                    return _ALWAYS
                return Binary("||", *some) if len(some) == 2 else next(iter(some), None)
        return _ALWAYS

    def _tested_part(self, at: int, condition: Expr) -> Expr:
        """A condition without those of its conjuncts that are about elements of other types: columns pass more often
        then, and run as they are written. Raises NotVectorised where what is left asks for nothing that is handed
        on."""
        parts = list(joined(condition, "&&"))
        kept = [
            part
            for part in parts
            if all(
                self.builder.held(at, a) is self.element or self._pointer(at, a) or self.builder.move(at, a) == 0
                for a in loads(part)
            )
        ]
        if len(kept) == len(parts):
            return condition
        if not any(self._pointer(at, a) for part in kept for a in loads(part)):
            raise NotVectorised("a test of values of several types")
        return reduce(lambda one, two: Binary("&&", one, two), kept)

    def _target(self, at: int) -> str:
        return self.builder.argument(at, self.builder.target(at), pointer=True).name

    def _pointer(self, at: int, access: int) -> str | None:
        """The argument that points to what is handed on and a statement reads; None: it reads something else."""
        where = self.builder.where
        array, mine = self.piece.statements[at].accesses[access].array, None
        for other, statement in enumerate(self.piece.statements):
            target = statement.accesses[self.builder.target(other)]
            if target.array == array:
                mine = mine or where.relation(at, self.piece.statements[at].accesses[access])
                if mine.is_equal(where.relation(other, target)):
                    return self._target(other)
        return None

    def _plain(self, at: int, body: Assignment) -> tuple[str, str]:
        """C of a statement in column j, on the variables and on memory. Raises NotVectorised."""
        elsewhere: dict[int, str] = {}
        for access in loads(body.value):
            if self._pointer(at, access) is None:
                steps = self.builder.steps(at, access)
                if steps is None:
                    raise NotVectorised("an element that does not move evenly")
                name = self.builder.argument(at, access, pointer=steps != 0).name
                place = "j" if steps == 1 else f"j * {steps}"
                elsewhere[access] = f"{name}[{place}]" if steps else name
        affine = {id(one.value): self.builder.affine(at, one.value) for one in affine_values(body.value)}

        def text(held: Callable[[str], str]) -> str:
            def load(access: int) -> str:
                return elsewhere.get(access) or held(self._pointer(at, access) or "")

            value = scalar_text(body.value, load, lambda one: affine[id(one)])
            return f"{held(self._target(at))} = {value};"

        return text(self.variables.__getitem__), text("*{}".format)

    def _vectors(self, at: int) -> Vectors:
        return self.builder.vectors(at, lambda access: self._load(at, access))

    def _load(self, at: int, access: int) -> str:
        """C of a vector of what a test reads. Raises NotVectorised."""
        if self.builder.held(at, access) is not self.element:
            raise NotVectorised("a test of values of several types")
        pointer, move = self._pointer(at, access), self.builder.move(at, access)
        if pointer is not None:
            return self._hold(f"{self.builder.vector}_all({self.variables[pointer]})")
        if move == 0:
            return self._hold(f"{self.builder.vector}_all({self.builder.argument(at, access, pointer=False).name})")
        if move != 1:
            raise NotVectorised(f"a test of elements that move by {move}")
        self.tested.add((at, access))
        return f"{self.builder.vector}_load({self.builder.argument(at, access, pointer=True).name} + polydl_column)"

    def _hold(self, text: str) -> str:
        return self.held.setdefault(text, f"polydl_h{len(self.held)}")

    def _test(self, at: int, condition: Expr, *, holds: bool) -> str:
        """C of the lanes in which a condition holds (or does not), and perhaps of some more. Raises NotVectorised."""
        vectors = self._vectors(at)
        if self.element.is_float:
            text = vectors.test(condition)
            return text if holds else f"{vectors.prefix}_not({text})"
        match condition:
            case Unary("!", operand):
                return self._test(at, operand, holds=not holds)
            case Binary("&&" | "||" as op, left, right):
                name = "and" if (op == "&&") == holds else "or"
                sides = (self._test(at, one, holds=holds) for one in (left, right))
                return f"{vectors.prefix}_{name}({', '.join(sides)})"
            case Binary(op, left, right) if op in _OTHERWISE:
                asked = op if holds else _OTHERWISE[op]
                for x, m, way in ((left, right, asked), (right, left, _MIRRORED[asked])):
                    if isinstance(m, Load) and self.builder.held(at, m.access) is not self.element:
                        return self._among_others(at, x, way, m.access)
                return vectors.test(Binary(asked, left, right))
        text = vectors.test(condition)
        return text if holds else f"{vectors.prefix}_not({text})"

    def _among_others(self, at: int, x: Expr, op: str, access: int) -> str:
        """C of the lanes in which `x op m` holds, m being an integer of another type that is the same in all columns:
        it is put between the ends of the lanes' type. Raises NotVectorised."""
        t, other, vectors = self.element, self.builder.held(at, access), self._vectors(at)
        pointer = self._pointer(at, access)
        both = common(t, other)
        if self.builder.move(at, access) != 0 or not other.is_int or not (both.holds(t) and both.holds(other)):
            raise NotVectorised("a comparison with another type")
        m = self.variables[pointer] if pointer else self.builder.argument(at, access, pointer=False).name
        made = m
        low, high = (f"({number_text(number, t)})" for number in (t.minimum, t.maximum))
        if other.maximum > t.maximum:
            made = f"{m} > {high} ? {high} : {made}"
            self.surely += [f"{m} > {high}"] * (op in ("<", "!="))
        if other.minimum < t.minimum:
            made = f"{m} < {low} ? {low} : {made}"
            self.surely += [f"{m} < {low}"] * (op in (">", "!="))
        lanes = self._hold(f"{self.builder.vector}_all(({t})({made}))")
        name = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}[op]
        return f"{vectors.prefix}_{name}({vectors.compared(x)}, {lanes})"
