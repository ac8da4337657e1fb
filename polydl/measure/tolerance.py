"""How far two orders of the same arithmetic may be from each other: by the types that a result is rounded to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from polydl.kernels.vector_text import FAST_ULPS
from polydl.measure.compare import terms
from polydl.model.conversions import explicit
from polydl.model.expr import Binary, Call, Const, Convert, Expr, Gather, Unary, operands
from polydl.model.scop import Assignment, BlackBox, MicrokernelCall, Scop, Statement
from polydl.model.types import ElementType, Kind, common

CALL_ROUNDINGS = 8
"""Units in the last place by which a libm call may differ: glibc documents 4 for its vector variants (libmvec)."""
_COMPLEX_PRODUCT = 8
"""Units in the last place by which the product or quotient of two complex numbers may differ (Higham, §3.6: less than 3
for a product, less than 8 for a quotient)."""
_OPERATIONS = re.compile(r"[-+*/(]")
_ARITHMETIC = frozenset("+-*/")

Roundings = Counter[ElementType]
"""How often something is rounded to each type."""


def tolerances(scop: Scop) -> dict[str, float]:
    """Per array that is written, 2·γ: how far two results may be apart, relative to Σ|terms|.

    γ = s / (1 - s), s the sum of the unit roundoffs of all roundings on the way to an element (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., lemma 3.1 and §3.4): of the terms of the longest sum in the type of the
    sum, of each operation, of what is converted for it or for its store, and one more, of the finest type, for what
    compilers make of a division. Only statements count that the array depends on. 0 for arrays of integers and where
    nothing rounds; at most 2: the original has no certain digit then either.
    """
    statements = tuple(_assignments(scop.statements))
    arrays = dict.fromkeys(a.array for s in statements for a in s.statement.accesses if a.write)
    return {
        name: 0.0 if scop.arrays[name].element.is_int else 2 * gamma(_errors(scop, statements, name)) for name in arrays
    }


def gamma(errors: float) -> float:
    """s / (1 - s) for the sum s of the unit roundoffs of some roundings, which bounds the relative error of them all
    together; at most 1."""
    return errors / (1 - errors) if errors < 0.5 else 1.0


@dataclass(frozen=True, slots=True)
class _Counted:
    statement: Statement
    terms: int
    """Values that one element gets, at most."""

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(a.array for a in self.statement.accesses if a.write)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(a.array for a in self.statement.accesses if not a.write)


def _assignments(statements: Sequence[Statement]) -> Iterator[_Counted]:
    """The assignments among the statements, including those inside of microkernel calls."""
    for statement in statements:
        inside = statement.body.inner if isinstance(statement.body, MicrokernelCall) else (statement,)
        yield from (_Counted(one, terms(statement)) for one in inside)


def _behind(statements: Sequence[_Counted], arrays: frozenset[str]) -> frozenset[str]:
    """The arrays that the contents of some depend on, over any number of steps; those themselves among them."""
    reached = arrays
    while True:
        more = reached.union(*(s.reads for s in statements if s.writes & reached))
        if more == reached:
            return reached
        reached = more


def _errors(scop: Scop, statements: Sequence[_Counted], name: str) -> float:
    """The sum of the unit roundoffs on the way to an element of an array."""
    reached = _behind(statements, frozenset({name}))
    total, finest = 0.0, 1.0
    for one in statements:
        if not one.writes & reached:
            continue
        found, added = roundings(scop, one.statement)
        # What is written again, and made of what was there, is rounded again.
        again = one.terms if added is None and one.writes & _behind(statements, one.reads) else 1
        total += again * sum(times * element.roundoff for element, times in found.items())
        total += one.terms * (added or 0.0)
        finest = min([finest, *(t.roundoff for t in found if t.rounds), *([added] if added else [])])
    return total + finest if total else 0.0


def roundings(scop: Scop, statement: Statement) -> tuple[Roundings, float | None]:
    """What one instance rounds, by type, without the operation on what is there (`+=`), and the unit roundoff of that;
    None where it has none."""

    def of(access: int) -> ElementType:
        return scop.arrays[statement.accesses[access].array].element

    body = statement.body
    assert not isinstance(body, MicrokernelCall), "the statements inside of it stand for it"
    if isinstance(body, BlackBox):
        # only its text is known: each operator and parenthesis counts as an operation, in the coarsest type
        coarsest = max((of(access) for access in range(len(statement.accesses))), key=lambda t: t.roundoff)
        return Counter({coarsest: len(_OPERATIONS.findall(body.text))}), coarsest.roundoff
    assert isinstance(body, Assignment)
    value, made = explicit(body.value, of)
    found: Roundings = Counter()
    _count(value, of, found, FAST_ULPS if scop.fast_math else CALL_ROUNDINGS)
    target = of(body.target)
    if body.op == "=":
        if not target.holds(made):
            found[target] += 1
        return found, None
    sum_type = common(made, target)
    return found, sum_type.roundoff + (0.0 if target.holds(sum_type) else target.roundoff)


def _count(value: Expr, of: Callable[[int], ElementType], found: Roundings, call: int) -> None:
    """Add the roundings of an expression whose conversions are all explicit."""
    if isinstance(value, Gather):
        return
    match value:
        case Binary(op, left, _) if op in _ARITHMETIC:
            made = explicit(left, of)[1]
            found[made] += _COMPLEX_PRODUCT if made.kind is Kind.COMPLEX and op in "*/" else 1
        case Call():
            found[value.element] += call
        case Convert(_, _, Const() | Unary(_, Const())):
            pass  # converted when it is compiled, in every order the same
        case Convert(_, target, _) if not value.exact:
            found[target] += 1
    for one in operands(value):
        _count(one, of, found, call)
