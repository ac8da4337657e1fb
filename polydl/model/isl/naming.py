"""Names of tuples, dimensions and parameters: read, given, and given back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from polydl.model.isl.isl_types import (
    IN,
    OUT,
    PARAM,
    SET,
    Aff,
    BasicMap,
    BasicSet,
    Map,
    MultiUnionPwAff,
    PwAff,
    PwMultiAff,
    PwQPolynomial,
    Set,
    Space,
    dim_type,
    identifier,
    unnamed_space,
)
from polydl.model.isl.positions import position_of, without

Dimensioned: TypeAlias = Set | BasicSet | Map | BasicMap | Aff | PwAff | PwMultiAff | Space
Renamed = TypeVar("Renamed", Set, Map, Aff, PwAff)
Parametric = TypeVar("Parametric", Set, Aff, PwAff)


def _names(of: Dimensioned, kind: dim_type) -> tuple[str, ...]:
    return tuple(of.get_dim_name(kind, i) or "" for i in range(of.dim(kind)))


def parameters(of: Dimensioned) -> tuple[str, ...]:
    """Names of the parameters, in order."""
    return _names(of, PARAM)


def arity(of: Set | BasicSet | Space) -> int:
    """Number of dimensions of a set."""
    return int(of.dim(SET))


def domain_arity(of: Map | Aff | PwAff | PwMultiAff) -> int:
    """Number of dimensions of what a relation or function starts from."""
    return int(of.dim(IN))


def range_arity(of: Map | PwMultiAff | MultiUnionPwAff) -> int:
    """Number of dimensions of what a relation leads to."""
    return int(of.dim(OUT))


def domain_name(of: Map | Aff | PwAff) -> str:
    """Name of the tuple that a relation or function starts from: a statement."""
    return str(of.get_space().get_tuple_name(IN))


def range_name(of: Map) -> str:
    """Name of the tuple that a relation leads to: an array, or a statement."""
    return str(of.get_space().get_tuple_name(OUT))


def named(of: Set, dims: Sequence[str]) -> Set:
    """A set whose dimensions are called so, in order."""
    for i, name in enumerate(dims):
        of = of.set_dim_name(SET, i, name)
    return of


def domain_named(of: Map, name: str | None, dims: Sequence[str] = ()) -> Map:
    """A relation that starts from a tuple of another name (None: without one), with dimensions called so."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(IN, i, dim)
    return of.reset_tuple_id(IN) if name is None else of.set_tuple_name(IN, name)


def range_named(of: Map, name: str | None, dims: Sequence[str] = ()) -> Map:
    """A relation that leads to a tuple of another name (None: without one), with dimensions called so."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(OUT, i, dim)
    return of.reset_tuple_id(OUT) if name is None else of.set_tuple_name(OUT, name)


def domain_renamed(of: Aff, dims: Sequence[str]) -> Aff:
    """A function of dimensions called so, in order."""
    for i, dim in enumerate(dims):
        of = of.set_dim_name(IN, i, dim)
    return of


def function_named(of: PwAff, name: str) -> PwAff:
    """A function on a tuple of another name."""
    return of.set_tuple_id(IN, identifier(name))


def renamed(of: Renamed, new: Mapping[str, str]) -> Renamed:
    """Parameters and dimensions called as `new` says, where it says something."""
    for kind in (PARAM, IN, OUT):
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
        return without(of, PARAM, range(len(names), of.dim(PARAM)))
    return of.drop_dims(PARAM, len(names), of.dim(PARAM) - len(names))


def involved_parameters(of: Set | Aff | PwAff) -> tuple[str, ...]:
    """The parameters that a set or a function depends on."""
    return tuple(name for i, name in enumerate(_names(of, PARAM)) if of.involves_dims(PARAM, i, 1))


def without_parameters(of: Set) -> Set:
    """The points that some values of the parameters have in the set."""
    return without(of, PARAM, range(of.dim(PARAM)))


def some_values(of: Set, names: Iterable[str]) -> Set:
    """The points that some values of these parameters have in the set."""
    known = parameters(of)
    return without(of, PARAM, [known.index(name) for name in names if name in known])


def rename_parameter(of: Set, name: str, new: str) -> Set:
    """The set with one parameter called otherwise."""
    place = of.find_dim_by_name(PARAM, name)
    return of if place < 0 else of.set_dim_id(PARAM, place, identifier(new))


def as_dimensions(of: Set, names: Sequence[str]) -> Set:
    """{ [i] : … } from [i] -> { [] : … }: parameters become the dimensions of a set."""
    for i, name in enumerate(names):
        of = of.move_dims(SET, i, PARAM, position_of(of, PARAM, name), 1)
    return named(of, names)


def parameters_first(of: Set) -> Set:
    """{ [p…, i…] : … } from [p…] -> { A[i…] : … }: parameters become dimensions in front of the others."""
    for place in range(of.dim(PARAM)):
        of = of.move_dims(SET, place, PARAM, 0, 1)
    return of.reset_tuple_id() if of.has_tuple_id() else of


def of_parameters(of: PwQPolynomial, names: Sequence[str]) -> PwQPolynomial:
    """[p…] -> { … } from { [p…] -> … }: dimensions of a polynomial's domain become parameters."""
    of = of.move_dims(PARAM, 0, IN, 0, len(names))
    for place, name in enumerate(names):
        of = of.set_dim_name(PARAM, place, name)
    return of.project_domain_on_params()


def as_arguments(of: PwAff, names: Sequence[str]) -> PwAff:
    """{ [i] -> [v] } from [i] -> { [] -> [v] }: parameters become what a function depends on."""
    for i, name in enumerate(names):
        of = of.move_dims(IN, i, PARAM, position_of(of, PARAM, name), 1)
    return of
