"""With which combiner a statement accumulates, however it is spelled: the one place that finds reductions.

    s += e;    m = e > m ? e : m;    m = fmaxf(m, e);    m = e < 0 && e > m ? e : m;    all &= e;

Whatever is decided about reductions (legality, partial results, vector lanes, proofs) asks here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polydl.base.records import dataclass
from polydl.model.combiners import Combiner, Regrouping, adds, of_assignment, of_comparison, of_function
from polydl.model.conversions import explicit
from polydl.model.expr import Binary, Call, Conditional, Expr, Load, Unary, joined, loads, on_operands
from polydl.model.functions import function_of
from polydl.model.scop import Array, Assignment, Scop, Statement
from polydl.model.types import BOOL, ElementType

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`m = m (+) value`, perhaps under conditions on other things than m."""

    combiner: Combiner
    value: Expr
    """What is combined with the old value, in terms of the statement's accesses."""
    own: frozenset[int]
    """Indices of the accesses through which the accumulator is read and written."""
    regrouping: Regrouping
    """What becomes of the result in another grouping. FIRST is left to floats whose signed zeros count."""
    guards: tuple[tuple[Expr, bool], ...] = ()
    """Conditions, outermost first, each with the truth for which the value counts; otherwise m stays."""

    @property
    def rounds(self) -> bool:
        """Whether another grouping gives other bits."""
        return self.regrouping is Regrouping.ROUNDS


def accumulation(scop: Scop, statement: Statement) -> Accumulation | None:
    """How a statement of a program accumulates (`accumulation_in`)."""
    return accumulation_in(scop.arrays, statement, fast_math=scop.fast_math)


def accumulation_in(arrays: Mapping[str, Array], statement: Statement, *, fast_math: bool) -> Accumulation | None:
    """How a statement accumulates into the element that it writes; None where it does something else, or what only its
    own order computes: a product of floats.

    Other elements of the same array may be read. A value whose type the target does not hold is combined only where
    rounding it first changes no comparison, or the arithmetic is modular.
    """
    body = statement.body
    if not isinstance(body, Assignment):
        return None
    of = [arrays[a.array].element for a in statement.accesses]
    if body.op != "=":
        row = of_assignment(body.op)
        if row is None or body.target_read is None:
            return None
        return _allowed(row, body.value, frozenset({body.target, body.target_read}), (), of, body, fast_math)
    if not isinstance(body.value, Conditional | Call):
        return None
    own = same_elements(statement, body.target)
    if len(own) < 2:
        return None
    whole = of[body.target].is_int
    found = _Finder(statement, own, fast_math or whole, whole).find(body.value)
    if found is None:
        return None
    row, value, guards = found
    if own & set(loads(value)):
        return None
    return _allowed(row, value, own, guards, of, body, fast_math)


@dataclass(frozen=True, slots=True)
class Place:
    """`at = x > m ? value : at` in front of `m = x > m ? x : m`: what is kept of the instance that has the greatest x,
    as far as the statement shows alone."""

    extreme: str
    """The array that m is in."""
    combiner: Combiner
    """Of the statement that finds m."""
    x: Expr
    value: Expr
    guards: tuple[Expr, ...] = ()
    """Conditions on other things than m, all of which hold where the value is kept."""
    last: bool = False
    """`x >= m`: of equal ones the last."""


def places(statement: Statement) -> Iterator[Place]:
    """What a statement keeps beside an extreme; several where either side of its comparison may be m."""
    body, accesses = statement.body, statement.accesses
    if not isinstance(body, Assignment) or body.op != "=" or not isinstance(body.value, Conditional):
        return
    target, chosen = accesses[body.target].array, body.value
    if not isinstance(chosen.otherwise, Load) or accesses[chosen.otherwise.access].array != target:
        return
    asked = list(joined(chosen.condition, "&&"))
    for test in asked:
        found = _compared(test)
        if found is None:
            continue
        compared, none = found
        left, right, held = compared.left, compared.right, compared.op
        rest = tuple(one for one in asked if one is not test)
        for x, mine, op in ((left, right, held), (right, left, _MIRRORED[held])):
            if not isinstance(mine, Load) or accesses[mine.access].array == target:
                continue
            m, row = accesses[mine.access].array, of_comparison(op[0], renews=bool(none))
            read = {accesses[i].array for i in loads(chosen.then)}
            others = {accesses[i].array for one in (x, *rest) for i in loads(one)}
            if any(accesses[i].array != m for i in none):
                continue
            if row is not None and m not in read | others and target not in read | others:
                yield Place(m, row, x, chosen.then, rest, len(op) > 1)


def keeps(statement: Statement) -> bool:
    """Whether a statement may keep something beside an extreme."""
    return next(places(statement), None) is not None


def _compared(condition: Expr) -> tuple[Binary, tuple[int, ...]] | None:
    """The comparison of `x > m`, and of `x > m || m != m`, or `|| isnan(m)`, whose accesses to m come with it."""
    found: list[Binary] = []
    none: list[int] = []
    for one in joined(condition, "||"):
        match one:
            case Binary("!=", Load(a), Load(b)) | Unary("!", Binary("==", Load(a), Load(b))):
                none += [a, b]
            case Call(name, (Load(a),)) if (row := function_of(name)) is not None and row.itself == "!=":
                none.append(a)
            case Binary(op) if op in _MIRRORED:
                found.append(one)
            case _:
                return None
    return (found[0], tuple(none)) if len(found) == 1 else None


def addition(statement: Statement) -> Assignment | None:
    """What a statement does that adds to an element, or takes away from it; None for others."""
    body = statement.body
    return body if isinstance(body, Assignment) and adds(body.op) else None


def accumulates(scop: Scop, statement: Statement) -> bool:
    """Whether a statement accumulates (`accumulation`)."""
    return accumulation(scop, statement) is not None


def same_elements(statement: Statement, access: int) -> frozenset[int]:
    """Indices of the accesses that touch just what one of them touches, that one included."""
    one = statement.accesses[access]
    return frozenset(
        i
        for i, a in enumerate(statement.accesses)
        if a is one or (a.array == one.array and bool(a.relation.is_equal(one.relation)))
    )


def _allowed(
    row: Combiner,
    value: Expr,
    own: frozenset[int],
    guards: tuple[tuple[Expr, bool], ...],
    of: list[ElementType],
    body: Assignment,
    fast_math: bool,
) -> Accumulation | None:
    """The accumulation, where the types let groups be combined."""
    element, made = of[body.target], explicit(value, of.__getitem__)[1]
    if row.compounds:
        # Of integers all is modular, as long as no value comes in between that is none. A truth adds up differently.
        fits = not element.is_int or (made.is_int and (element is not BOOL or row.idempotent))
    else:
        # Rounding keeps the order of what is rounded; cutting off and wrapping around do not.
        fits = not element.is_int or element.holds(made)
    if not fits:
        return None
    regrouping = row.regrouping(element, fast_math=fast_math)
    if regrouping is Regrouping.LEAVES_RANGE:
        return None
    return Accumulation(row, value, own, regrouping, guards)


@dataclass(frozen=True, slots=True)
class _Finder:
    statement: Statement
    own: frozenset[int]
    numbers: bool
    """Whether neither NaN nor the sign of a zero counts."""
    whole: bool
    """Whether m is an integer."""

    def find(self, value: Expr) -> tuple[Combiner, Expr, tuple[tuple[Expr, bool], ...]] | None:
        """Combiner, other value and guards of the new value of an accumulator."""
        match value:
            case Call(name, (one, two)) if self.is_old(one) != self.is_old(two):
                row = of_function(name)
                return None if row is None else (row, two if self.is_old(one) else one, ())
            case Conditional(condition, then, otherwise):
                return self.chosen(condition, then, otherwise) or self.guarded(condition, then, otherwise)
        return None

    def chosen(self, condition: Expr, then: Expr, otherwise: Expr) -> tuple[Combiner, Expr, tuple[()]] | None:
        """Of `e > m ? e : m`. `m > e ? m : e` is another thing where e may be no number, which forgets m, and
        of zeros, of which it takes the last, as `e >= m ? e : m` does. `e > m || m != m ? e : m` forgets an m that is
        no number."""
        found = _compared(condition)
        if found is None or not self.own.issuperset(found[1]):
            return None
        (op, left, right), none = (found[0].op, found[0].left, found[0].right), found[1]
        if self.is_old(left):
            op, left, right = _MIRRORED[op], right, left
        if not self.is_old(right) or self.is_old(left):
            return None
        if self.is_old(then):
            # m where e is more: the least of both.
            op, then, otherwise = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}[op], otherwise, then
            if not self.numbers or none:
                return None
        if not self.is_old(otherwise) or not self.same(left, then) or (op in (">=", "<=") and not self.numbers):
            return None
        row = of_comparison(op[0], renews=bool(none) and not self.whole)
        return None if row is None else (row, then, ())

    def guarded(
        self, condition: Expr, then: Expr, otherwise: Expr
    ) -> tuple[Combiner, Expr, tuple[tuple[Expr, bool], ...]] | None:
        """Of `c ? e > m ? e : m : m`, and of `c && e > m && d ? e : m`."""
        asked = list(joined(condition, "&&"))
        if len(asked) > 1 and self.is_old(otherwise):
            others = [one for one in asked if not self.own & set(loads(one))]
            mine = [one for one in asked if self.own & set(loads(one))]
            for one in (*mine, *reversed(others)):
                then = Conditional(one, then, otherwise)
            return self.find(then) if len(mine) < 2 else None
        if self.own & set(loads(condition)) or self.is_old(then) == self.is_old(otherwise):
            return None
        inner = self.find(otherwise if self.is_old(then) else then)
        return None if inner is None else (inner[0], inner[1], ((condition, self.is_old(otherwise)), *inner[2]))

    def is_old(self, value: Expr) -> bool:
        return isinstance(value, Load) and value.access in self.own

    def same(self, one: Expr, other: Expr) -> bool:
        """Whether two expressions read the same elements and compute the same of them."""
        return self.plain(one) == self.plain(other)

    def plain(self, value: Expr) -> Expr:
        """The expression with the first of the accesses that touch the same elements in place of each."""
        if isinstance(value, Load):
            return Load(min(same_elements(self.statement, value.access)))
        return on_operands(value, self.plain)
