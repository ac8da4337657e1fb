"""How far two orders of the same arithmetic may be from each other: by the types that a result is rounded to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from polydl.base.records import dataclass
from polydl.kernels.vector_text import SHORT_ULPS
from polydl.measure.compare import terms
from polydl.model.conversions import TRUTHS, explicit
from polydl.model.expr import Binary, Call, Conditional, Const, Convert, Expr, Gather, Unary, operands
from polydl.model.scop import Assignment, BlackBox, MicrokernelCall, Scop, Statement
from polydl.model.types import I32, ElementType, Kind, common

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
    statements = tuple(_assignments(scop))
    arrays = dict.fromkeys(a.array for s in statements for a in s.statement.accesses if a.write)
    behind = _behind(statements)
    return {
        name: 0.0 if scop.arrays[name].element.is_int else 2 * gamma(_errors(statements, behind[name], behind))
        for name in arrays
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
    rounded: Roundings
    added: float | None
    """What one instance rounds (`roundings`)."""
    reads: frozenset[str]
    writes: frozenset[str]


def _assignments(scop: Scop) -> Iterator[_Counted]:
    """The assignments among the statements, including those inside of microkernel calls."""
    for statement in scop.statements:
        inside = statement.body.inner if isinstance(statement.body, MicrokernelCall) else (statement,)
        for one in inside:
            reads = frozenset(a.array for a in one.accesses if not a.write)
            writes = frozenset(a.array for a in one.accesses if a.write)
            yield _Counted(one, terms(statement), *roundings(scop, one), reads, writes)


def _behind(statements: Sequence[_Counted]) -> Mapping[str, frozenset[str]]:
    """By array those that its contents depend on, over any number of steps; itself among them."""
    direct: dict[str, set[str]] = {}
    for one in statements:
        for name in one.writes:
            direct.setdefault(name, set()).update(one.reads)
    found: dict[str, frozenset[str]] = {}
    for name in {*direct, *(n for one in statements for n in one.reads)}:
        reached, new = {name}, [name]
        while new:
            more = direct.get(new.pop(), set()) - reached
            reached |= more
            new += more
        found[name] = frozenset(reached)
    return found


def _errors(statements: Sequence[_Counted], reached: frozenset[str], behind: Mapping[str, frozenset[str]]) -> float:
    """The sum of the unit roundoffs on the way to an element of an array that depends on those that are `reached`."""
    total, finest = 0.0, 1.0
    for one in statements:
        if one.writes.isdisjoint(reached):
            continue
        found, added = one.rounded, one.added
        # What is written again, and made of what was there, is rounded again.
        again = one.terms if added is None and any(one.writes & behind[name] for name in one.reads) else 1
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
    # With AVX512-FP16, compilers round halves after each operation.
    value, made = explicit(body.value, of, arithmetic=lambda element: element)
    found: Roundings = Counter()
    _count(value, of, found, SHORT_ULPS if scop.fast_math else CALL_ROUNDINGS)
    target = of(body.target)
    if body.op == "=":
        if not target.holds(made):
            found[target] += 1
        return found, None
    sum_type = common(made, target)
    return found, sum_type.roundoff + (0.0 if target.holds(sum_type) else target.roundoff)


def _count(value: Expr, of: Callable[[int], ElementType], found: Roundings, call: int) -> ElementType:
    """Add the roundings of an expression whose conversions are all explicit; the type that it is evaluated in."""
    inside = () if isinstance(value, Gather) else operands(value)
    types = [_count(one, of, found, call) for one in inside]
    match value:
        case Binary(op) if op in _ARITHMETIC:
            made = types[0]
            found[made] += _COMPLEX_PRODUCT if made.kind is Kind.COMPLEX and op in "*/" else 1
            return made
        case Call():
            found[value.element] += call
            return value.element
        case Convert(_, target, inner):
            constant = isinstance(inner, Const) or (isinstance(inner, Unary) and isinstance(inner.operand, Const))
            if not (constant or value.exact):  # a constant is converted when it is compiled, in every order the same
                found[target] += 1
            return target
        case Conditional():
            return types[1]
        case Binary(op) if op in TRUTHS:
            return I32
        case Unary("!"):
            return I32
    return types[0] if types else explicit(value, of)[1]
