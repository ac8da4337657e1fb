"""The only door to isl: its types, and its operations with dimensions by name. No other file imports islpy.

isl counts dimensions by kind and position, and a position means another loop as soon as somebody projects one out.
Here a dimension (`Dim`) goes by its name where it has one: parameters, and the iterators of a statement `S[i, j]`.
Coordinates of tuples without names go by number, from 0: of a time `[t0, …, tn]` that is the depth, of an element
`A[a0, …, an]` the subscript. isl forgets names in many operations; `named` and its like give them back.

Nothing is wrapped: the classes are islpy's own. The package namedisl 2026.1, which wraps them, takes 4.2 times as long
over 11 operations that polydl does most (geometric mean; 16 to 20 times for compositions) and has no names of tuples,
unions, schedule trees or ASTs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from islpy import (
    DEFAULT_CONTEXT,
    Aff,
    AstBuild,
    AstExpr,
    AstNode,
    BasicMap,
    BasicSet,
    Constraint,
    Context,
    Error,
    Id,
    IdList,
    Map,
    Mat,
    MultiAff,
    MultiPwAff,
    MultiUnionPwAff,
    PwAff,
    PwAffList,
    PwMultiAff,
    PwQPolynomial,
    QPolynomial,
    Schedule,
    ScheduleConstraints,
    ScheduleNode,
    Set,
    Space,
    UnionAccessInfo,
    UnionFlow,
    UnionMap,
    UnionPwAff,
    UnionPwAffList,
    UnionSet,
    UnionSetList,
    Val,
    ast_loop_type,
    dim_type,
)

from polydl.base.errors import QuotaExceeded

Dim: TypeAlias = str | int
"""A dimension: its name, or the number of a coordinate that has none."""

Factors: TypeAlias = Mapping[str, int] | Mapping[int, int]
"""What each dimension is multiplied by; 0 where nothing is said."""

DEFAULT_QUOTA = 20_000_000
"""Elementary isl operations one step may take (isl_ctx_set_max_operations): of the order of some seconds."""

_PARAM, _SET, _IN, _OUT, _DIV = dim_type.param, dim_type.set, dim_type.in_, dim_type.out, dim_type.div

Dimensioned: TypeAlias = Set | BasicSet | Map | BasicMap | Aff | PwAff | PwMultiAff | Space
Projected = TypeVar("Projected", Set, Map)
Renamed = TypeVar("Renamed", Set, Map, Aff, PwAff)
Parametric = TypeVar("Parametric", Set, Aff, PwAff)
Function = TypeVar("Function", Aff, PwAff)


def context() -> Context:
    """The isl context that every object of the process lives in."""
    return DEFAULT_CONTEXT


@contextmanager
def quota(what: str, operations: int = DEFAULT_QUOTA) -> Iterator[None]:
    """Run isl operations under a quota (isl's max_operations), so that no input hangs the tool.

    Raises QuotaExceeded, naming `what`, when the quota is used up. Nested quotas: the innermost counts.
    """
    ctx = context()
    outer = ctx.get_max_operations()
    ctx.set_max_operations(operations)
    ctx.reset_operations()
    try:
        yield
    except Error as error:
        if "maximal number of operations exceeded" in str(error):
            raise QuotaExceeded(
                f"{what} needs more than {operations} isl operations",
                hint="simplify the bounds and subscripts of the nest, or give its sizes with -D or --size",
            ) from error
        raise
    finally:
        ctx.set_max_operations(outer)
        ctx.reset_operations()


# Numbers and names


def value(number: int) -> Val:
    """An integer of any size for isl. Its methods take Python's too, and are three times as slow then."""
    return Val.int_from_si(DEFAULT_CONTEXT, number) if abs(number) < 1 << 62 else Val(str(number))


def to_int(value: Val) -> int:
    """A Python int from an integral isl value. Raises ValueError on infinities, NaN and fractions."""
    if not value.is_int():
        raise ValueError(f"not an integer: {value}")
    return int(value.to_python())


def identifier(name: str) -> Id:
    """The identifier that isl gives to a name. `Id(name)` would carry a Python object and differ from it."""
    return Space.params_alloc(DEFAULT_CONTEXT, 1).set_dim_name(_PARAM, 0, name).get_dim_id(_PARAM, 0)


def _names(of: Dimensioned, kind: dim_type) -> tuple[str, ...]:
    return tuple(str(of.get_dim_name(kind, i)) for i in range(of.dim(kind)))


def parameters(of: Dimensioned) -> tuple[str, ...]:
    """Names of the parameters, in order."""
    return _names(of, _PARAM)


def names(of: Set | BasicSet | Space) -> tuple[str, ...]:
    """Names of a set's dimensions, in order."""
    return _names(of, _SET)


def arity(of: Set | BasicSet | Space) -> int:
    """Number of dimensions of a set."""
    return int(of.dim(_SET))


def domain_arity(of: Map | Aff | PwAff | PwMultiAff) -> int:
    """Number of dimensions of what a relation or function starts from."""
    return int(of.dim(_IN))


def range_arity(of: Map | PwMultiAff | MultiUnionPwAff) -> int:
    """Number of dimensions of what a relation leads to."""
    return int(of.dim(_OUT))


def domain_name(of: Map | Aff | PwAff) -> str:
    """Name of the tuple that a relation or function starts from: a statement."""
    return str(of.get_space().get_tuple_name(_IN))


def range_name(of: Map) -> str:
    """Name of the tuple that a relation leads to: an array, or a statement."""
    return str(of.get_space().get_tuple_name(_OUT))


def named(of: Set, dims: Sequence[str]) -> Set:
    """A set whose dimensions are called so, in order."""
    for i, name in enumerate(dims):
        of = of.set_dim_name(_SET, i, name)
    return of


def domain_named(of: Map, name: str | None, dims: Sequence[str] = ()) -> Map:
    """A relation that starts from a tuple of another name (None: without one), with dimensions called so."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(_IN, i, dim)
    return of.reset_tuple_id(_IN) if name is None else of.set_tuple_name(_IN, name)


def range_named(of: Map, name: str | None, dims: Sequence[str] = ()) -> Map:
    """A relation that leads to a tuple of another name (None: without one), with dimensions called so."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(_OUT, i, dim)
    return of.reset_tuple_id(_OUT) if name is None else of.set_tuple_name(_OUT, name)


def domain_renamed(of: Aff, dims: Sequence[str]) -> Aff:
    """A function of dimensions called so, in order."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(_IN, i, dim)
    return of


def function_named(of: PwAff, name: str) -> PwAff:
    """A function on a tuple of another name."""
    return of.set_tuple_id(_IN, identifier(name))


def renamed(of: Renamed, new: Mapping[str, str]) -> Renamed:
    """Parameters and dimensions called as `new` says, where it says something."""
    for kind in (_PARAM, _IN, _OUT):
        for i in range(of.dim(kind)):
            name = new.get(of.get_dim_name(kind, i) or "")
            if name is not None:
                of = of.set_dim_id(kind, i, identifier(name))
    return of


def parameter_space(names: Iterable[str]) -> Space:
    """The space { [] } with these parameters, in order."""
    space = unnamed_space(0)
    for name in names:
        space = space.add_param_id(identifier(name))
    return space


def parametric(of: Parametric, names: Sequence[str]) -> Parametric:
    """The same with exactly these parameters, in this order; it must not depend on others."""
    of = of.align_params(parameter_space(names))
    if isinstance(of, Set):
        return _without(of, _PARAM, range(len(names), of.dim(_PARAM)))
    return of.drop_dims(_PARAM, len(names), of.dim(_PARAM) - len(names))


# Coordinates


def _place(of: Any, kind: dim_type, dim: Dim) -> int:
    """Position of a dimension. Raises KeyError when there is none of that name."""
    if isinstance(dim, int):
        return dim
    position: int = of.find_dim_by_name(kind, dim)
    if position < 0:
        raise KeyError(f"no dimension '{dim}' in {of.get_space()}")
    return position


def _without(of: Projected, kind: dim_type, places: Iterable[int]) -> Projected:
    """Neighbouring dimensions go together, the last first."""
    run: list[int] = []
    for place in (*sorted(places, reverse=True), None):
        if run and place != run[-1] - 1:
            of = of.project_out(kind, run[-1], len(run))
            run = []
        if place is not None:
            run.append(place)
    return of


def _only(of: Projected, kind: dim_type, dims: Iterable[Dim]) -> Projected:
    kept = {_place(of, kind, dim) for dim in dims}
    return _without(of, kind, (i for i in range(of.dim(kind)) if i not in kept))


def divisions(of: BasicSet | Aff) -> int:
    """Number of integer divisions, or other existential variables, in the description of a set or function."""
    return int(of.dim(_DIV))


def project_onto(of: Set, dims: Iterable[Dim]) -> Set:
    """The values that these dimensions take, in the order in which the set has them."""
    return _only(of, _SET, dims)


def project_out(of: Set, dims: Iterable[Dim]) -> Set:
    """The values that the other dimensions take."""
    return _without(of, _SET, {_place(of, _SET, dim) for dim in dims})


def domain_onto(of: Map, dims: Iterable[Dim]) -> Map:
    """A relation that starts from these dimensions only."""
    return _only(of, _IN, dims)


def range_onto(of: Map, dims: Iterable[Dim]) -> Map:
    """A relation that leads to these dimensions only."""
    return _only(of, _OUT, dims)


def fix(of: Set, dim: Dim, number: int) -> Set:
    """The points with this value of a dimension."""
    return of.fix_val(_SET, _place(of, _SET, dim), value(number))


def fix_domain(of: Map, point: Iterable[int]) -> Map:
    """The pairs whose source begins with these coordinates."""
    for i, number in enumerate(point):
        of = of.fix_val(_IN, i, value(number))
    return of


def domain_between(of: Map, dim: Dim, low: int | None, high: int | None) -> Map:
    """The pairs whose source has a coordinate from `low` to `high`, both included; None: no limit."""
    place = _place(of, _IN, dim)
    of = of if low is None else of.lower_bound_val(_IN, place, value(low))
    return of if high is None else of.upper_bound_val(_IN, place, value(high))


def agree(of: Map, coordinates: Iterable[int]) -> Map:
    """The pairs whose source and target have the same values of these coordinates."""
    for i in coordinates:
        of = of.equate(_IN, i, _OUT, i)
    return of


def agrees(of: Map, coordinate: int) -> bool:
    """Whether source and target have the same value of a coordinate in all pairs."""
    return of.is_subset(agree(Map.universe(of.get_space()), [coordinate]))


def ascending(of: Map, coordinate: int) -> Map:
    """The pairs whose source has the lower value of a coordinate."""
    return of.order_lt(_IN, coordinate, _OUT, coordinate)


def descending(of: Map, coordinate: int) -> Map:
    """The pairs whose source has the higher value of a coordinate."""
    return of.order_gt(_IN, coordinate, _OUT, coordinate)


def differ(of: Map, coordinates: Iterable[int]) -> Map:
    """The pairs whose source and target have different values of one of these coordinates."""
    return of.subtract(agree(of, coordinates))


# Extremes and points


def least(of: Set, dim: Dim) -> int | None:
    """Least value of a dimension; None where there is none."""
    found = of.dim_min_val(_place(of, _SET, dim))
    return to_int(found) if found.is_int() else None


def greatest(of: Set, dim: Dim) -> int | None:
    """Greatest value of a dimension; None where there is none."""
    found = of.dim_max_val(_place(of, _SET, dim))
    return to_int(found) if found.is_int() else None


def bounds(of: Set, dim: Dim) -> tuple[int, int]:
    """Least and greatest value of a dimension. Raises ValueError where it has none."""
    place = _place(of, _SET, dim)
    return to_int(of.dim_min_val(place)), to_int(of.dim_max_val(place))


def symbolic_bounds(of: Set, dim: Dim) -> tuple[PwAff, PwAff]:
    """Least and greatest value of a dimension as functions of the parameters. Raises Error where it is unbounded."""
    place = _place(of, _SET, dim)
    return of.dim_min(place), of.dim_max(place)


def lex_extreme(points: Set, greatest: bool = False) -> tuple[int, ...]:
    """Coordinates of the lexicographically least (greatest) point of a bounded set without parameters, not empty.

    One integer minimum per coordinate: isl's own lexmin fails on some sets with existential variables ("affine
    expression involves some of the domain dimensions").
    """
    found = []
    for place in range(points.dim(_SET)):
        bound = points.dim_max_val(place) if greatest else points.dim_min_val(place)
        found.append(to_int(bound))
        points = points.fix_val(_SET, place, bound)
    return tuple(found)


def least_pair(of: Map) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Source and target of the lexicographically least pair of a bounded relation, not empty."""
    both = lex_extreme(of.wrap().flatten())
    return both[: domain_arity(of)], both[domain_arity(of) :]


def sample(of: Set | BasicSet) -> tuple[tuple[int, ...], dict[str, int]]:
    """Some point of a set that is not empty, with the values of the parameters for which it is in the set."""
    point = of.sample_point()
    space = point.get_space()
    given = {name: to_int(point.get_coordinate_val(_PARAM, i)) for i, name in enumerate(_names(space, _PARAM))}
    return tuple(to_int(point.get_coordinate_val(_SET, i)) for i in range(space.dim(_SET))), given


def involved_parameters(of: Set | Aff | PwAff) -> tuple[str, ...]:
    """The parameters that a set or a function depends on."""
    return tuple(name for i, name in enumerate(_names(of, _PARAM)) if of.involves_dims(_PARAM, i, 1))


def without_parameters(of: Set) -> Set:
    """The points that some values of the parameters have in the set."""
    return _without(of, _PARAM, range(of.dim(_PARAM)))


# Functions


def pieces(function: PwAff) -> list[tuple[Set, Aff]]:
    """(domain, affine expression) of each piece of a piecewise affine function."""
    return list(function.get_pieces())


def components(function: PwMultiAff) -> list[PwAff]:
    """The functions that make up one with several results, in order."""
    return [function.get_pw_aff(i) for i in range(function.dim(_OUT))]


def coordinate(of: Set | Space, dim: Dim) -> Aff:
    """{ S[i…] -> [i] } for a dimension of a set."""
    space = of.get_space() if isinstance(of, Set) else of
    return Aff.var_on_domain(space, _SET, _place(space, _SET, dim))


def coordinates(of: Set | Space) -> list[Aff]:
    """{ S[i…] -> [i] } for each dimension of a set."""
    space = of.get_space() if isinstance(of, Set) else of
    return [Aff.var_on_domain(space, _SET, i) for i in range(space.dim(_SET))]


def constant(of: Set | Space, number: int) -> Aff:
    """{ S[i…] -> [number] }."""
    return Aff.val_on_domain_space(of.get_space() if isinstance(of, Set) else of, value(number))


def linear(of: Set | Space, factors: Factors, number: int = 0) -> Aff:
    """{ S[i…] -> [sum of dimensions times factors, plus a number] }."""
    aff = constant(of, number)
    space = aff.get_domain_space()
    for dim, factor in factors.items():
        aff = aff.set_coefficient_val(_IN, _place(space, _SET, dim), value(factor))
    return aff


def floor_div(of: Function, by: int) -> Function:
    """floor(of / by)."""
    return of.scale_down_val(value(by)).floor()


def coefficients(of: Aff) -> tuple[int, ...] | None:
    """The factor of each dimension; None for an expression with integer divisions or fractions."""
    if of.dim(_DIV):
        return None
    found = [of.get_coefficient_val(_IN, i) for i in range(of.dim(_IN))]
    return tuple(map(to_int, found)) if all(v.is_int() for v in found) else None


def offset(of: Aff) -> int | None:
    """The constant term; None for a fraction."""
    found = of.get_constant_val()
    return to_int(found) if found.is_int() else None


def terms(of: QPolynomial) -> list[tuple[Any, dict[str, int]]]:
    """The terms of a polynomial in parameters: the factor (int or Fraction), and the power of each parameter."""
    names = parameters(of.get_domain_space())
    return [
        (t.get_coefficient_val().to_python(), {name: t.get_exp(_PARAM, i) for i, name in enumerate(names)})
        for t in of.get_terms()
    ]


# Constraints


def unnamed_space(size: int) -> Space:
    """The space { [x0, …] } of tuples without names and parameters."""
    return Space.set_alloc(DEFAULT_CONTEXT, 0, size)


def interval(low: int, high: int) -> Set:
    """{ [x] : low <= x <= high }."""
    of = Set.universe(unnamed_space(1)).lower_bound_val(_SET, 0, value(low))
    return of.upper_bound_val(_SET, 0, value(high))


def not_negative(of: BasicSet, factors: Factors, number: int = 0) -> BasicSet:
    """The points where the sum of dimensions times factors, plus a number, is at least 0."""
    return of.add_constraint(Constraint.inequality_from_aff(linear(of.get_space(), factors, number)))


def meet(of: Map, source: Aff, target: Aff) -> Map:
    """The pairs for which a function of the source has the value of a function of the target."""
    return of.intersect(Map.from_aff(source).apply_range(Map.from_aff(target).reverse()))


def equalities(of: BasicSet) -> list[Aff]:
    """The affine expressions without integer divisions that are 0 in the whole set, as it is given."""
    return [c.get_aff() for c in of.get_constraints() if c.is_equality() and not c.dim(_DIV)]


def is_box(of: BasicSet) -> bool:
    """Whether no constraint has an integer division or bounds more than one dimension: a product of intervals."""
    return not of.dim(_DIV) and all(
        sum(constraint.involves_dims(_SET, i, 1) for i in range(of.dim(_SET))) <= 1
        for constraint in of.get_constraints()
    )


def _rows(matrix: Mat) -> list[tuple[int, ...]]:
    columns = range(matrix.cols())
    return [tuple(to_int(matrix.get_element_val(r, c)) for c in columns) for r in range(matrix.rows())]


def rows(of: BasicSet) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Equalities (= 0) and inequalities (>= 0) of a set without parameters: the factors of its dimensions, of its
    existential variables, the constant.

    For every existential variable q = floor(e / m), m*q <= e <= m*q + m - 1 is among them, which isl leaves out when
    it finds it implied by the definition of q.
    """
    columns = (_SET, _DIV, _PARAM, dim_type.cst)
    inequalities = _rows(of.inequalities_matrix(*columns))
    dimensions, divisions = of.dim(_SET), of.dim(_DIV)
    for place in range(divisions):
        definition = of.get_div(place)
        modulus = to_int(definition.get_denominator_val())
        scaled = definition.scale_val(definition.get_denominator_val())
        numerator = [
            *(to_int(scaled.get_coefficient_val(_IN, i)) for i in range(dimensions)),
            *(to_int(scaled.get_coefficient_val(_DIV, i)) for i in range(divisions)),
            to_int(scaled.get_constant_val()),
        ]
        numerator[dimensions + place] -= modulus
        inequalities += [tuple(numerator), (*(-a for a in numerator[:-1]), modulus - 1 - numerator[-1])]
    return _rows(of.equalities_matrix(*columns)), inequalities


def openscop_rows(of: BasicMap) -> tuple[tuple[int, int, int], list[tuple[int, ...]]]:
    """(output, input, existential dimensions), and a row for each constraint as OpenScop has it: 1 for an inequality,
    the factors of these dimensions and of the parameters, the constant."""
    columns = (_OUT, _IN, _DIV, _PARAM, dim_type.cst)
    equal = [(0, *row) for row in _rows(of.equalities_matrix(*columns))]
    return (of.dim(_OUT), of.dim(_IN), of.dim(_DIV)), [
        *equal,
        *((1, *row) for row in _rows(of.inequalities_matrix(*columns))),
    ]
