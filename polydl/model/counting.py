"""How many integer points a set has: exact where it can be, and a type that says so where it cannot.

isl's own `count_val` scans the points; barvinok, which has closed forms, is GPL. Here sets are cut into disjoint
pieces, existential variables become dimensions (an integer division has one value a point, so the number of points
stays), and each piece is counted by `polydl.model.lattice`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from polydl.base.errors import QuotaExceeded
from polydl.model import lattice
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
    coupled dimensions are enumerated up to `budget` values a piece, then scanned by isl up to `operations`
    elementary operations; past both the result has bounds only (`Count.exact` is False).

    Raises ValueError when the set depends on a parameter or is infinite, QuotaExceeded when cutting it into disjoint
    pieces alone takes more than `operations`.
    """
    points = _without_parameters(points)
    with quota("counting the points of a set", operations):
        pieces = disjoint_pieces(points)
    return total(_count_piece(piece, operations, budget) for piece in pieces)


def _without_parameters(points: isl.Set) -> isl.Set:
    parameters = points.dim(isl.dim_type.param)
    if parameters == 0:
        return points
    if points.involves_dims(isl.dim_type.param, 0, parameters):
        raise ValueError(f"the number of points depends on parameters: {points}")
    return points.project_out(isl.dim_type.param, 0, parameters)


def disjoint_pieces(points: isl.Set) -> list[isl.BasicSet]:
    """Disjoint basic sets that cover `points`, every existential variable an explicit integer division."""
    if points.n_basic_set() > 1:
        points = points.coalesce()
    if points.n_basic_set() > 1:
        points = points.make_disjoint()
    pieces: list[isl.BasicSet] = points.get_basic_sets()
    if any(piece.dim(isl.dim_type.div) for piece in pieces):
        # compute_divs may cut a piece in two that overlap nowhere but were one; it keeps disjoint pieces disjoint.
        points = points.compute_divs().make_disjoint()
        pieces = points.get_basic_sets()
    return pieces


_COLUMNS = (isl.dim_type.set, isl.dim_type.div, isl.dim_type.param, isl.dim_type.cst)


def _rows(matrix: isl.Mat) -> list[tuple[int, ...]]:
    columns = matrix.cols()
    return [
        tuple(to_int(matrix.get_element_val(row, column)) for column in range(columns)) for row in range(matrix.rows())
    ]


def _count_piece(piece: isl.BasicSet, operations: int, budget: int) -> Count:
    """Points of one basic set without parameters."""
    width = piece.dim(isl.dim_type.set) + piece.dim(isl.dim_type.div)
    equalities = _rows(piece.equalities_matrix(*_COLUMNS))
    inequalities = _rows(piece.inequalities_matrix(*_COLUMNS)) + _division_rows(piece)
    try:
        return Count.of(lattice.count_points(width, equalities, inequalities, lattice.Budget(budget)))
    except lattice.Unbounded:
        if not piece.is_bounded():
            raise ValueError(f"infinitely many points: {piece}") from None
    except lattice.BudgetExhausted:
        pass
    return _scan_or_bound(piece.to_set(), operations)


def _division_rows(piece: isl.BasicSet) -> list[tuple[int, ...]]:
    """m*q <= e <= m*q + m - 1 for every existential variable q = floor(e / m) of a piece.

    isl may leave these out when it finds them implied by the definition of q, which the rows don't carry.
    """
    dimensions, divisions = piece.dim(isl.dim_type.set), piece.dim(isl.dim_type.div)
    rows = []
    for position in range(divisions):
        definition = piece.get_div(position)
        modulus = to_int(definition.get_denominator_val())
        scaled = definition.scale_val(definition.get_denominator_val())
        numerator = [
            *(to_int(scaled.get_coefficient_val(isl.dim_type.in_, i)) for i in range(dimensions)),
            *(to_int(scaled.get_coefficient_val(isl.dim_type.div, i)) for i in range(divisions)),
            to_int(scaled.get_constant_val()),
        ]
        numerator[dimensions + position] -= modulus
        rows.append(tuple(numerator))
        rows.append((*(-a for a in numerator[:-1]), modulus - 1 - numerator[-1]))
    return rows


def _scan_or_bound(points: isl.Set, operations: int) -> Count:
    """isl's scan within the quota, else bounds: at least one point if any, at most the surrounding box."""
    try:
        with quota("scanning the points of a set", operations):
            scanned = points.count_val()
            # isl loses the error on this path: past the quota the value is a null pointer, which prints as None.
            if scanned.to_str() is not None:
                return Count.of(to_int(scanned))
            raise QuotaExceeded(f"scanning the points of a set needs more than {operations} isl operations")
    except QuotaExceeded:
        upper = 1
        for position in range(points.dim(isl.dim_type.set)):
            upper *= to_int(points.dim_max_val(position)) - to_int(points.dim_min_val(position)) + 1
        return Count(0 if points.is_empty() else 1, upper)


def count_symbolic(points: isl.Set) -> isl.PwQPolynomial | None:
    """Number of points as a piecewise polynomial of the parameters, where dimensions are independent of each other.

    Each disjoint piece must be a product of intervals whose ends are affine in the parameters (a dimension fixed by
    an equality is an interval of one). None when a piece isn't, when there are integer divisions, or when a dimension
    has no bound.
    """
    result: isl.PwQPolynomial | None = None
    for piece in points.coalesce().make_disjoint().get_basic_sets():
        size = _piece_polynomial(piece)
        if size is None:
            return None
        result = size if result is None else result.add(size)
    if result is None:
        nothing = isl.Set.empty(points.get_space().params())
        result = isl.PwQPolynomial.from_pw_aff(isl.PwAff.val_on_domain(nothing, isl.Val.zero(points.get_ctx())))
    return result


def _piece_polynomial(piece: isl.BasicSet) -> isl.PwQPolynomial | None:
    """Product of the extents of a box with parametric ends; None when the piece isn't one."""
    piece = piece.detect_equalities().remove_redundancies()
    if piece.dim(isl.dim_type.div):
        return None
    dimensions = piece.dim(isl.dim_type.set)
    for constraint in piece.get_constraints():
        if sum(constraint.involves_dims(isl.dim_type.set, i, 1) for i in range(dimensions)) > 1:
            return None
    domain = piece.to_set().params()
    result = isl.PwQPolynomial.from_pw_aff(isl.PwAff.val_on_domain(domain, isl.Val.one(domain.get_ctx())))
    for position in range(dimensions):
        try:
            least, greatest = piece.to_set().dim_min(position), piece.to_set().dim_max(position)
        except isl.Error as error:
            if "unbounded" in str(error):
                return None
            raise
        result = result.mul(isl.PwQPolynomial.from_pw_aff(greatest.sub(least).add_constant_val(1)))
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
    space = polynomial.get_domain_space()
    names = [str(space.get_dim_name(isl.dim_type.param, i)) for i in range(space.dim(isl.dim_type.param))]
    for term in polynomial.get_terms():
        powers = [term.get_exp(isl.dim_type.param, i) for i in range(len(names))]
        coefficient = term.get_coefficient_val().to_python()
        factors = [name for name, power in zip(names, powers, strict=True) for _ in range(power)]
        terms.append((-sum(powers), [-power for power in powers], coefficient, "*".join(factors)))
    text = ""
    for _, _, coefficient, product in sorted(terms):
        size = abs(coefficient)
        shown = product if product and size == 1 else f"{size}*{product}" if product else str(size)
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {shown}" if text else (f"-{shown}" if coefficient < 0 else shown)
    return text or "0"
