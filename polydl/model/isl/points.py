"""Points of sets and pairs of relations: their coordinates, extremes and samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeVar

from polydl.model.isl.affine_functions import constant, coordinates, multi, parameter
from polydl.model.isl.isl_types import (
    DEFAULT_CONTEXT,
    IN,
    OUT,
    PARAM,
    SET,
    BasicSet,
    Dim,
    Error,
    Map,
    MultiAff,
    MultiPwAff,
    PwAff,
    PwAffList,
    Set,
    Space,
    Val,
    identifier,
    to_int,
    unnamed_space,
    value,
)
from polydl.model.isl.naming import (
    as_arguments,
    domain_arity,
    function_named,
    involved_parameters,
    parameter_space,
    parameters,
    without_parameters,
)
from polydl.model.isl.positions import onto, position_of, without

Located = TypeVar("Located", Set, Map)


def united(several: Iterable[Located]) -> Located | None:
    """The union of sets, or of relations; None where there are none."""
    return reduce(lambda one, other: one.union(other), found) if (found := list(several)) else None


def project_onto(of: Set, dims: Iterable[Dim]) -> Set:
    """The values that these dimensions take, in the order in which the set has them."""
    return onto(of, SET, dims)


def domain_onto(of: Map, dims: Iterable[Dim]) -> Map:
    """A relation that starts from these dimensions only."""
    return onto(of, IN, dims)


def range_onto(of: Map, dims: Iterable[Dim]) -> Map:
    """A relation that leads to these dimensions only."""
    return onto(of, OUT, dims)


def fix(of: Set, dim: Dim, number: int) -> Set:
    """The points with this value of a dimension."""
    return of.fix_val(SET, position_of(of, SET, dim), value(number))


def at_values(of: Located, values: Mapping[str, int]) -> Located:
    """The set or map for these values of parameters, which are no parameters of it any more."""
    known = parameters(of)
    return without(fix_parameters(of, values), PARAM, [i for i, name in enumerate(known) if name in values])


def function_at(of: PwAff, values: Mapping[str, int]) -> PwAff:
    """The function for these values of parameters, which are no parameters of it any more."""
    names = [name for name in parameters(of) if name in values]
    if not names:
        return of
    before = of.get_domain_space()
    if before.is_params():
        of = of.insert_domain(unnamed_space(0).align_params(before))
    moved = as_arguments(of, names)
    space = moved.get_domain_space().drop_dims(SET, 0, len(names))
    here = Space.map_from_domain_and_range(space, moved.get_domain_space())
    inside = MultiAff.zero(here)
    for place, own in enumerate(names):
        inside = inside.set_aff(place, constant(space, values[own]))
    for place, of_space in enumerate(coordinates(space)):
        inside = inside.set_aff(len(names) + place, of_space)
    found = moved.pullback_multi_aff(inside).coalesce()
    unnamed = before.is_params() or not before.has_tuple_name(SET)
    return found if unnamed else function_named(found, before.get_tuple_name(SET))


def substituted(of: PwAff, values: Mapping[str, PwAff]) -> PwAff:
    """{ [] -> [v] }: the function with functions { [] -> [v] } in the place of some of its parameters."""
    names = [name for name in parameters(of) if name in values]
    if not names:
        return of
    moved = as_arguments(of, names)
    nowhere = moved.get_domain_space().drop_dims(SET, 0, len(names))
    given = PwAffList.alloc(DEFAULT_CONTEXT, len(names))
    for name in names:
        given = given.add(values[name])
        nowhere = nowhere.align_params(values[name].get_domain_space())
    space = Space.map_from_domain_and_range(nowhere, moved.get_domain_space().align_params(nowhere))
    return moved.pullback_multi_pw_aff(MultiPwAff.from_pw_aff_list(space, given)).coalesce()


def functions_at(of: MultiPwAff, values: Mapping[str, int]) -> MultiPwAff:
    """The functions for these values of parameters, which are no parameters of them any more."""
    target = of.get_space().range()
    names = [target.get_dim_name(SET, place) or "" for place in range(target.dim(SET))]
    every = [function_at(of.get_pw_aff(place), values) for place in range(target.dim(SET))]
    space = function_at(PwAff.from_aff(constant(of.get_domain_space(), 0)), values).get_domain_space()
    return multi(space, target.get_tuple_name(SET), names, every)


def parameter_values(values: Mapping[str, int]) -> Set:
    """{ [parameters] } with one value of each."""
    return fix_parameters(Set.universe(parameter_space(values)), values)


def near_multiples(name: str, period: int, width: int) -> Set:
    """{ [parameters] } where one of them is a multiple of a period above zero, or by less than a width more."""
    size = parameter(name)
    rest = size.mod_val(value(period))
    above = size.ge_set(constant(size.get_domain_space(), period))
    return above.intersect(rest.lt_set(constant(size.get_domain_space(), width))).params()


def fix_parameters(of: Located, values: Mapping[str, int]) -> Located:
    """The set or map where parameters have these values; of those that it has not nothing is said."""
    for name, number in values.items():
        place = of.find_dim_by_name(PARAM, name)
        of = of if place < 0 else of.fix_val(PARAM, place, value(number))
    return of


def fix_domain(of: Map, point: Iterable[int]) -> Map:
    """The pairs whose source begins with these coordinates."""
    for i, number in enumerate(point):
        of = of.fix_val(IN, i, value(number))
    return of


def fix_range(of: Map, coordinate: int, number: int) -> Map:
    """The pairs whose target has this value of a coordinate."""
    return of.fix_val(OUT, coordinate, value(number))


def between(of: Set, dim: Dim, low: int, high: int) -> Set:
    """The points with a dimension's value from `low` to `high`, both included."""
    at = position_of(of, SET, dim)
    return of.lower_bound_val(SET, at, value(low)).upper_bound_val(SET, at, value(high))


def domain_between(of: Map, dim: Dim, low: int | None, high: int | None) -> Map:
    """The pairs whose source has a coordinate from `low` to `high`, both included; None: no limit."""
    at = position_of(of, IN, dim)
    of = of if low is None else of.lower_bound_val(IN, at, value(low))
    return of if high is None else of.upper_bound_val(IN, at, value(high))


def at_parameter(of: Set, dim: Dim, name: str) -> Set:
    """The points where a dimension has the value of a parameter, which is new."""
    place = of.dim(PARAM)
    named = of.add_dims(PARAM, 1).set_dim_id(PARAM, place, identifier(name))
    return named.equate(PARAM, place, SET, position_of(of, SET, dim))


def agree(of: Map, coordinates: Iterable[int]) -> Map:
    """The pairs whose source and target have the same values of these coordinates."""
    for i in coordinates:
        of = of.equate(IN, i, OUT, i)
    return of


def agrees(of: Map, coordinate: int) -> bool:
    """Whether source and target have the same value of a coordinate in all pairs."""
    return of.is_subset(agree(Map.universe(of.get_space()), [coordinate]))


def distance(of: Map, source: int, target: int) -> int | None:
    """How much larger a coordinate of the target is than one of the source, where that is the same number in all pairs,
    for all values of the parameters; None where it is not."""
    pairs = range_onto(domain_onto(of, [source]), [target])
    apart = pairs.reset_tuple_id(IN).reset_tuple_id(OUT).deltas()
    low = least(apart, 0)
    return low if low is not None and low == greatest(apart, 0) else None


def ascending(of: Map, coordinate: int) -> Map:
    """The pairs whose source has the lower value of a coordinate."""
    return of.order_lt(IN, coordinate, OUT, coordinate)


def descending(of: Map, coordinate: int) -> Map:
    """The pairs whose source has the higher value of a coordinate."""
    return of.order_gt(IN, coordinate, OUT, coordinate)


def differ(of: Map, coordinates: Iterable[int]) -> Map:
    """The pairs whose source and target have different values of one of these coordinates."""
    return of.subtract(agree(of, coordinates))


def _extreme(of: Set, place: int, greatest: bool) -> Val:
    """The least (greatest) value of a dimension: NaN or infinite where there is none.

    Piece by piece: isl takes 0 for the extreme of a first piece that holds no integer point, and so for the least value
    of { [0] : no integer; [x] : 512 <= x <= 2999 }.
    """
    pieces = [Set.from_basic_set(piece) for piece in of.get_basic_sets()] if of.n_basic_set() > 1 else [of]
    found = [piece.dim_max_val(place) if greatest else piece.dim_min_val(place) for piece in pieces]
    there = [one for one in found if not one.is_nan()]
    return reduce(Val.max if greatest else Val.min, there) if there else Val.nan(DEFAULT_CONTEXT)


def least(of: Set, dim: Dim) -> int | None:
    """Least value of a dimension; None where there is none."""
    found = _extreme(of, position_of(of, SET, dim), greatest=False)
    return to_int(found) if found.is_int() else None


def greatest(of: Set, dim: Dim) -> int | None:
    """Greatest value of a dimension; None where there is none."""
    found = _extreme(of, position_of(of, SET, dim), greatest=True)
    return to_int(found) if found.is_int() else None


def is_determined(of: Set, coordinate: int) -> bool:
    """Whether a coordinate of each point is a function of the coordinates before it."""
    ends_there = Map.from_range(project_onto(of, range(coordinate + 1)))
    return bool(ends_there.move_dims(IN, 0, OUT, 0, coordinate).is_single_valued())


def stride(of: Set, dim: Dim) -> int:
    """The greatest number that divides all differences of a dimension's values."""
    return to_int(of.get_stride(position_of(of, SET, dim)))


def bounds(of: Set, dim: Dim) -> tuple[int, int]:
    """Least and greatest value of a dimension. Raises ValueError where it has none."""
    at = position_of(of, SET, dim)
    return to_int(_extreme(of, at, greatest=False)), to_int(_extreme(of, at, greatest=True))


def symbolic_bounds(of: Set, dim: Dim) -> tuple[PwAff, PwAff]:
    """Least and greatest value of a dimension as functions of the parameters. Raises Error where it is unbounded."""
    at = position_of(of, SET, dim)
    return of.dim_min(at), of.dim_max(at)


def lex_extreme(points: Set, greatest: bool = False) -> tuple[int, ...]:
    """Coordinates of the lexicographically least (greatest) point of a bounded set without parameters, not empty.

    One integer minimum per coordinate: isl's own lexmin fails on some sets with existential variables ("affine
    expression involves some of the domain dimensions").
    """
    found = []
    for at in range(points.dim(SET)):
        bound = _extreme(points, at, greatest)
        found.append(to_int(bound))
        points = points.fix_val(SET, at, bound)
    return tuple(found)


def least_pair(of: Map) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Source and target of the lexicographically least pair of a bounded relation, not empty."""
    both = lex_extreme(of.wrap().flatten())
    return both[: domain_arity(of)], both[domain_arity(of) :]


def points(of: Set) -> list[tuple[int, ...]]:
    """Every point of a bounded set without parameters, in no order. Raises Error for one without a bound."""
    found: list[tuple[int, ...]] = []
    dims = range(of.dim(SET))
    of.foreach_point(lambda one: found.append(tuple(to_int(one.get_coordinate_val(SET, i)) for i in dims)))
    return found


def pairs(of: Map) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Source and target of every pair of a bounded relation without parameters, in no order. Raises Error for one
    without a bound."""
    split = domain_arity(of)
    return [(both[:split], both[split:]) for both in points(of.flatten_domain().flatten_range().wrap().flatten())]


def first_point(of: Set) -> tuple[tuple[int, ...], dict[str, int]]:
    """The lexicographically least point of a set that is not empty; where it has parameters, as `sample`."""
    return sample(of) if involved_parameters(of) else (lex_extreme(without_parameters(of)), {})


def sample(of: Set | BasicSet) -> tuple[tuple[int, ...], dict[str, int]]:
    """Some point of a set that is not empty, with the values of the parameters for which it is in the set."""
    point = of.sample_point()
    space = point.get_space()
    given = {name: to_int(point.get_coordinate_val(PARAM, i)) for i, name in enumerate(parameters(space))}
    return tuple(to_int(point.get_coordinate_val(SET, i)) for i in range(space.dim(SET))), given


def latest(pairs: Map) -> Map:
    """The lexicographically greatest of all that each point is related to, as `lexmax`, which some versions of isl
    refuse for relations with remainders ("involves some of the domain dimensions"): then those that none follows."""
    try:
        return pairs.lexmax()
    except Error as error:
        if "domain dimensions" not in str(error):
            raise
    after = Map.lex_gt(pairs.get_space().range())
    return pairs.subtract(pairs.apply_range(after))
