"""Counts the integer points of sets: exactly where possible, otherwise between bounds (`Count.exact` tells which).

isl's own `count_val` scans the points; barvinok, which has closed forms, is GPL. Here sets are cut into disjoint
pieces, existential variables become dimensions (an integer division has one value per point, so the number of points
stays), and each piece is counted by `polydl.model.lattice`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.model import isl, lattice, parametric_counting
from polydl.model.isl import DEFAULT_QUOTA, quota, to_int

ENUMERATION_BUDGET = 20_000
"""Values of a coupled dimension that one piece may enumerate: each costs tens of microseconds, so about a second."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things, known exactly or between two bounds."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise ValueError(f"not a count: between {self.lower} and {self.upper}")

    @classmethod
    def of(cls, value: int) -> Count:
        """The exact count `value`."""
        return cls(value, value)

    @property
    def exact(self) -> bool:
        return self.lower == self.upper

    @property
    def value(self) -> int:
        """The count. Raises ValueError when it is not exact."""
        if not self.exact:
            raise ValueError(f"the count is not exact: {self}")
        return self.lower

    def __add__(self, other: Count) -> Count:
        return Count(self.lower + other.lower, self.upper + other.upper)

    def __mul__(self, factor: int) -> Count:
        """`factor` times as many, factor >= 0 (elements to bytes)."""
        return Count(self.lower * factor, self.upper * factor)

    def __str__(self) -> str:
        return str(self.lower) if self.exact else f"between {self.lower} and {self.upper}"


ZERO = Count(0, 0)


def total(counts: Iterable[Count]) -> Count:
    """Sum of counts."""
    result = ZERO
    for item in counts:
        result += item
    return result


def count(points: isl.Set, operations: int = DEFAULT_QUOTA, budget: int = ENUMERATION_BUDGET) -> Count:
    """Number of integer points of a set without parameters.

    Boxes, tiles and windows, polygons and products of these are counted in closed form whatever their size. Other
    coupled dimensions are enumerated up to `budget` values per piece, then scanned by isl up to `operations`
    elementary operations; past both the result has bounds only (`Count.exact` is False).

    Raises ValueError when the set depends on a parameter or is infinite, QuotaExceeded when cutting it into disjoint
    pieces alone takes more than `operations`.
    """
    points = _without_parameters(points)
    with quota("counting the points of a set", operations):
        pieces = disjoint_pieces(points)
    return total(_count_piece(piece, operations, budget) for piece in pieces)


def _without_parameters(points: isl.Set) -> isl.Set:
    if isl.involved_parameters(points):
        raise ValueError(f"the number of points depends on parameters: {points}")
    return isl.without_parameters(points)


def disjoint_pieces(points: isl.Set) -> list[isl.BasicSet]:
    """Disjoint basic sets that cover `points`, every existential variable an explicit integer division."""
    if points.n_basic_set() > 1:
        points = points.coalesce()
    if points.n_basic_set() > 1:
        points = points.make_disjoint()
    pieces: list[isl.BasicSet] = points.get_basic_sets()
    if any(isl.divisions(piece) for piece in pieces):
        # compute_divs may cut a piece in two that overlap nowhere but were one; it keeps disjoint pieces disjoint.
        points = points.compute_divs().make_disjoint()
        pieces = points.get_basic_sets()
    return pieces


@lru_cache(maxsize=1024)
def _points(width: int, equalities: tuple[lattice.Row, ...], inequalities: tuple[lattice.Row, ...], budget: int) -> int:
    """As `lattice.count_points`; the domains of a program are counted by several estimates of it."""
    return lattice.count_points(width, equalities, inequalities, lattice.Budget(budget))


def _count_piece(piece: isl.BasicSet, operations: int, budget: int) -> Count:
    """Points of one basic set without parameters."""
    width = isl.arity(piece) + isl.divisions(piece)
    equalities, inequalities = isl.rows(piece)
    try:
        return Count.of(_points(width, tuple(map(tuple, equalities)), tuple(map(tuple, inequalities)), budget))
    except lattice.Unbounded:
        if not piece.is_bounded():
            raise ValueError(f"infinitely many points: {piece}") from None
    except lattice.BudgetExhausted:
        pass
    return _scan_or_bound(piece.to_set(), operations)


def _scan_or_bound(points: isl.Set, operations: int) -> Count:
    """isl's scan within the quota, else bounds: at least one point if any, at most the surrounding box."""
    try:
        with quota("scanning the points of a set", operations):
            return Count.of(to_int(points.count_val()))
    except QuotaExceeded:
        ends = (isl.bounds(points, d) for d in range(isl.arity(points)))
        upper = math.prod(high - low + 1 for low, high in ends)
        return Count(0 if points.is_empty() else 1, upper)


MOST_SHOWN = 8
"""Cases of a symbolic count, at most: more tell nobody anything."""


def count_symbolic(points: isl.Set) -> isl.PwQPolynomial | None:
    """Number of points as a piecewise polynomial of the parameters, triangles and other coupled bounds included.

    None where there is no such polynomial without floors, where it has more than MOST_SHOWN cases, or where a dimension
    has no bound.
    """
    names = isl.parameters(points)
    known = len(names)
    result = isl.PwQPolynomial.zero(isl.polynomial_space(known))
    try:
        for piece in disjoint_pieces(isl.parameters_first(points.coalesce())):
            for domain, size in _fibres_of(piece, known):
                result = result.add(isl.PwQPolynomial.alloc(domain, size))
    except parametric_counting.NotClosedForm:
        return None
    result = result.coalesce()
    if result.n_piece() > MOST_SHOWN or any(isl.has_floors(size) for _, size in result.get_pieces()):
        return None
    return isl.of_parameters(result, names)


def count_fibres(relation: isl.Map) -> isl.PwQPolynomial:
    """{ [i…] -> [number of targets of i] } for a relation without parameters, with tuples of any names; 0 where it says
    nothing.

    Raises NotClosedForm (see `polydl.model.parametric_counting`), and Error where isl finds no description of the pairs
    that it can be counted from.
    """
    source = isl.unnamed_space(isl.domain_arity(relation))
    result = isl.PwQPolynomial.from_qpolynomial(isl.polynomial(source, []))
    for piece in disjoint_pieces(relation.wrap().flatten()):
        for domain, size in _fibres_of(piece, isl.arity(source)):
            result = result.add(isl.PwQPolynomial.alloc(domain, size))
    return result


def _fibres_of(piece: isl.BasicSet, known: int) -> list[tuple[isl.Set, isl.QPolynomial]]:
    """Numbers of points of a basic set by its first `known` dimensions, where they are not 0."""
    size, width = isl.arity(piece), isl.arity(piece) + isl.divisions(piece)
    floors = isl.definitions(piece)
    space = isl.unnamed_space(known)
    functions = dict(enumerate(isl.coordinates(space)))
    # Integer divisions of what is known are known as well. They stand in front of the dimensions: isl puts the last
    # column of an equality into the other rows, so that i = 16*q leaves rows of q that can be divided by 16.
    divisions = []
    for at, (numerator, modulus) in enumerate(floors):
        if all(i in functions for i, a in enumerate(numerator[:-1]) if a):
            whole = _sum(space, [(functions[i], a) for i, a in enumerate(numerator[:-1]) if a], numerator[-1])
            functions[size + at] = isl.floor_div(whole, modulus)
            divisions.append(size + at)
    given = [*divisions, *range(known)]
    order = [*given, *(i for i in range(width) if i not in functions)]
    columns = [functions[i] for i in given]
    equalities, inequalities = ([(*(row[i] for i in order), row[-1]) for row in rows] for rows in isl.rows(piece))
    definitions = [row for row in inequalities if not any(row[len(given) : -1])]
    found = []
    for case in parametric_counting.count(len(given), equalities, inequalities):
        rows = [(*row[: len(given)], row[-1]) for row in (*definitions, *case.rows)]
        every = isl.basic_set(len(given), [], rows).to_set()
        domain = isl.project_onto(every, range(len(divisions), len(given)))
        summands = [
            (factor, [(_floor(space, columns, symbol), power) for symbol, power in monomial])
            for monomial, factor in case.size.items()
        ]
        found.append((domain, isl.polynomial(space, summands)))
    return found


def _floor(space: isl.Space, columns: Sequence[isl.Aff], symbol: parametric_counting.Symbol) -> isl.Aff:
    row, by = symbol
    whole = _sum(space, [(column, row[i]) for i, column in enumerate(columns) if row[i]], row[-1])
    return whole if by == 1 else isl.floor_div(whole, by)


def _sum(space: isl.Space, summands: Iterable[tuple[isl.Aff, int]], number: int) -> isl.Aff:
    whole = isl.constant(space, number)
    for function, factor in summands:
        whole = whole.add(function.scale_val(isl.value(factor)))
    return whole


def count_above(size: isl.PwQPolynomial, limit: int, budget: int = ENUMERATION_BUDGET) -> Count:
    """For how many points a piecewise polynomial is greater than a limit.

    Where it is affine, that is another constraint; else the values of a dimension that it is no affine function of are
    taken one by one, up to `budget` of them; past it the count is between none and all of the points of the piece.
    """
    result = ZERO
    for domain, polynomial in size.get_pieces():
        result += _piece_above(domain, polynomial, limit, budget)
    return result


def _piece_above(domain: isl.Set, polynomial: isl.QPolynomial, limit: int, budget: int) -> Count:
    if domain.is_empty():
        return ZERO
    if polynomial.isa_aff():
        function = polynomial.as_aff()
        more = isl.constant(function.get_domain_space(), limit + 1)
        return count(domain.intersect(function.ge_set(more)))
    whole = isl.PwQPolynomial.alloc(domain, polynomial)
    least, greatest = isl.polynomial_range(whole)
    if greatest <= limit:
        return ZERO
    if least > limit:
        return count(domain)
    ends = {dim: isl.bounds(domain, dim) for dim in isl.bent(polynomial)}
    chosen = min(ends, key=lambda dim: ends[dim][1] - ends[dim][0])
    low, high = ends[chosen]
    if high - low + 1 > budget:
        return Count(0, count(domain).upper)
    result = ZERO
    for number in range(low, high + 1):
        result += count_above(isl.sized_at(whole, chosen, number), limit, budget // (high - low + 1))
    return result


def format_symbolic(size: isl.PwQPolynomial, context: isl.Set | None = None) -> str:
    """A parametric count as people write it: `2*K + 3`, or `{ … if …; … }` when it has several cases.

    `context` (a parameter set) is what is known about the parameters: cases that it excludes are not shown.
    """
    if context is not None:
        size = size.intersect_params(context).gist_params(context)
    cases = [(_format_polynomial(polynomial), domain) for domain, polynomial in size.get_pieces()]
    if not cases:
        return "0"
    if len(cases) == 1 and cases[0][1].plain_is_universe():
        return cases[0][0]
    return "{ " + "; ".join(f"{text} if {_condition(domain)}" for text, domain in cases) + " }"


def _condition(domain: isl.Set) -> str:
    text = str(domain)
    return text[text.rindex("{") + 1 : text.rindex("}")].strip().removeprefix(":").strip()


def _format_polynomial(polynomial: isl.QPolynomial) -> str:
    """Terms by falling degree, then in the order of the parameters."""
    terms = []
    for coefficient, powers in isl.terms(polynomial):
        factors = [name for name, power in powers.items() for _ in range(power)]
        terms.append((-len(factors), [-power for power in powers.values()], coefficient, "*".join(factors)))
    text = ""
    for _, _, coefficient, product in sorted(terms):
        size = abs(coefficient)
        shown = product if product and size == 1 else f"{size}*{product}" if product else str(size)
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {shown}" if text else (f"-{shown}" if coefficient < 0 else shown)
    return text or "0"
