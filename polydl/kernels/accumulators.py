"""What a row gathers: sums, products, least and greatest values, each in one vector or several at a time.

What C computes one column after the other, each lane computes of its own columns; at the end the lanes become one.
Sums and products may round otherwise then (reassociation). The least and the greatest value come out to the bit:
`x > m ? x : m` leaves m where x is NaN, and a NaN that m starts from stays in every lane, as it does in C. Of equal
values only zeros have different bits; C keeps the first, so a row whose result is zero looks for it
(`Accumulator.search`). fmax and fmin leave the sign of zeros open, in C as here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from polydl.model.combiners import MAX, MIN, named, of_function
from polydl.model.expr import Binary, Call, Conditional, Expr, Load, loads
from polydl.model.scop import Assignment, Statement

MOST_TOGETHER = 4
"""Vectors that a row takes at a time, at most: an addition is done after four cycles (Isa.latency), and a core starts
one or two in each."""
_MOST_ACCUMULATORS = 8
"""Vectors that are accumulated in, of all kinds: half of the registers of the smallest instruction set."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value that a row gathers, and where it belongs."""

    name: str
    operation: str
    """The name of its combiner (model.combiners)."""
    place: str
    """The address that holds it before and after."""
    op: str
    """Operator that takes a sum or a product there; `=` of the others."""
    x: str
    """Plain C of one column's value; empty where no column's bits are wanted."""
    before: tuple[str, ...] = ()
    """Plain C of what its column makes before."""
    beside: tuple[tuple[str, str], ...] = ()
    """(address, plain C of the value that goes there) of what is kept of the column that has the greatest value."""
    vector_x: tuple[tuple[str, ...], str] = ((), "")
    """C of the vectors that a step makes before, and of the vector that it looks at."""

    @property
    def search(self) -> tuple[tuple[str, ...], str] | None:
        """Plain C of what a column makes and of its value, where the bits of a zero are those of the first column that
        has one; None: of any."""
        return (self.before, self.x) if self.x and not self.beside else None

    @property
    def better(self) -> str:
        """The comparison with what there was."""
        return named(self.operation).better

    def start(self, vector: str) -> str:
        """C of the vector to start from."""
        neutral = named(self.operation).neutral
        if neutral == "0":
            return f"{vector}_zero()"
        return f"{vector}_all({f'*{self.place}' if neutral is None else neutral})"

    def taken(self, vector: str, x: str, mine: str) -> str:
        """C of the vector with one more."""
        return named(self.operation).step.format(v=vector, m=mine, x=x)

    def line(self, vector: str, value: str) -> str:
        """C of one step: lanes beyond a remainder change nothing."""
        neutral = self.start(vector)
        if named(self.operation).neutral is not None:
            more = self.taken(vector, f"(cut ? {vector}_keep(part, polydl_x, {neutral}) : polydl_x)", f"*{self.name}")
        else:
            better = self.taken(vector, "polydl_x", f"*{self.name}")
            more = f"cut ? {vector}_keep(part, {better}, *{self.name}) : {better}"
        return f"{{ const {vector} polydl_x = {value}; *{self.name} = {more}; }}"

    def gathered(self, vector: str) -> str:
        """C of the one value that the lanes make."""
        return f"{vector}_{named(self.operation).gather}({self.name})"


@dataclass(frozen=True, slots=True)
class Winner:
    """`at = x > m ? value : at` before `m = x > m ? x : m`: what is kept of the column with the greatest value."""

    greatest: str
    """The array that m is in."""
    operation: str
    """`max` or `min`."""
    x: Expr
    value: Expr


def winners(statement: Statement) -> Iterator[Winner]:
    """What a statement keeps of a column, as far as it shows alone, whichever of the sides is m."""
    body, accesses = statement.body, statement.accesses
    if not isinstance(body, Assignment) or body.op != "=":
        return
    target = accesses[body.target].array
    match body.value:
        case Conditional(Binary(">" | "<" as op, left, right), then, Load(access)) if accesses[access].array == target:
            for x, mine, greater in ((left, right, op == ">"), (right, left, op == "<")):
                if not isinstance(mine, Load) or accesses[mine.access].array == target:
                    continue
                m = accesses[mine.access].array
                read = {accesses[i].array for i in loads(then)}
                if m not in read | {accesses[i].array for i in loads(x)} and target not in read:
                    yield Winner(m, (MAX if greater else MIN).name, x, then)


def keeps(statement: Statement) -> bool:
    """Whether a statement may keep something of the column with the greatest value."""
    return next(winners(statement), None) is not None


def extreme(value: Expr, own: Callable[[int], bool], same: Callable[[Expr, Expr], bool]) -> tuple[str, Expr] | None:
    """(operation, other operand) of `s = max(s, e)` in one of its spellings."""
    match value:
        case Call(name, (left, right)) if (row := of_function(name)) is not None and row.gather:
            for mine, other in ((left, right), (right, left)):
                if isinstance(mine, Load) and own(mine.access) and not mentions(other, own):
                    return row.name, other
        case Conditional(Binary(">" | "<" as op, left, right), then, otherwise):
            sides = (left, right)
            for k, mine in enumerate(sides):
                other = sides[1 - k]
                if not (isinstance(mine, Load) and own(mine.access)) or mentions(other, own):
                    continue
                if not (isinstance(otherwise, Load) and own(otherwise.access) and same(then, other)):
                    continue
                # e > s ? e : s keeps s when e is NaN, as the vector form does.
                greater = (op == ">") == (k == 1)
                return (MAX if greater else MIN).name, other
    return None


def mentions(value: Expr, own: Callable[[int], bool]) -> bool:
    """Whether an expression reads through one of some accesses."""
    return any(own(access) for access in loads(value))


def together(accumulators: int, cycles: float) -> int:
    """Vectors that a row takes at a time, each with accumulators of its own, so that none waits for the last: a step
    takes so many cycles without waiting."""
    wanted = 1
    while (
        wanted < MOST_TOGETHER and wanted * cycles < MOST_TOGETHER and 2 * wanted * accumulators <= _MOST_ACCUMULATORS
    ):
        wanted *= 2
    return wanted if accumulators else 1
