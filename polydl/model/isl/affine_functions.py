"""Functions: coordinates and constants, linear ones, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeVar

from polydl.model.isl.isl_types import (
    DEFAULT_CONTEXT,
    DIV,
    IN,
    OUT,
    PARAM,
    SET,
    Aff,
    AffList,
    Dim,
    Factors,
    Map,
    MultiAff,
    MultiPwAff,
    Point,
    PwAff,
    PwAffList,
    PwMultiAff,
    PwQPolynomial,
    QPolynomial,
    Set,
    Space,
    Val,
    fold,
    to_int,
    unnamed_space,
    value,
)
from polydl.model.isl.naming import parameter_space, parameters
from polydl.model.isl.positions import position_of

Function = TypeVar("Function", Aff, PwAff)


def coordinate(of: Set | Space, dim: Dim) -> Aff:
    """{ S[i…] -> [i] } for a dimension of a set."""
    space = of.get_space() if isinstance(of, Set) else of
    return Aff.var_on_domain(space, SET, position_of(space, SET, dim))


def coordinates(of: Set | Space) -> list[Aff]:
    """{ S[i…] -> [i] } for each dimension of a set."""
    space = of.get_space() if isinstance(of, Set) else of
    return [Aff.var_on_domain(space, SET, i) for i in range(space.dim(SET))]


def constant(of: Set | Space, number: int) -> Aff:
    """{ S[i…] -> [number] }."""
    return Aff.val_on_domain_space(of.get_space() if isinstance(of, Set) else of, value(number))


def parameter(name: str) -> Aff:
    """[n] -> { [] -> [n] }."""
    return Aff.var_on_domain(parameter_space([name]), PARAM, 0)


def lifted(function: PwAff, of: Set | Space) -> PwAff:
    """{ S[i…] -> [v] } for a function { [] -> [v] } of the parameters alone."""
    nowhere = MultiPwAff.zero((of.get_space() if isinstance(of, Set) else of).from_domain())
    return function.pullback_multi_pw_aff(nowhere)


def linear(of: Set | Space, factors: Factors, number: int = 0) -> Aff:
    """{ S[i…] -> [sum of dimensions times factors, plus a number] }."""
    aff = constant(of, number)
    space = aff.get_domain_space()
    for dim, factor in factors.items():
        aff = aff.set_coefficient_val(IN, position_of(space, SET, dim), value(factor))
    return aff


def multi(space: Space, name: str, dims: Sequence[str], functions: Sequence[PwAff]) -> MultiPwAff:
    """{ S[i…] -> A[a…] } from { S[i…] -> [a] } for each dimension of A; `space`: that of S."""
    target = unnamed_space(len(dims)).set_tuple_name(SET, name).align_params(space.params())
    for i, dim in enumerate(dims):
        target = target.set_dim_name(SET, i, dim)
    whole = space.map_from_domain_and_range(target)
    if not functions:
        return MultiPwAff.zero(whole)
    found = PwAffList.alloc(DEFAULT_CONTEXT, len(functions))
    for function in functions:
        found = found.add(function)
    return MultiPwAff.from_pw_aff_list(whole, found)


def graph(functions: Sequence[Aff], of: Set) -> Map:
    """{ S[i…] -> [f0, f1, …] } for the points of a set."""
    found = AffList.alloc(DEFAULT_CONTEXT, len(functions))
    for function in functions:
        found = found.add(function)
    whole = of.get_space().from_domain().add_dims(OUT, len(functions))
    return Map.from_multi_aff(MultiAff.from_aff_list(whole, found)).intersect_domain(of)


def floor_div(of: Function, by: int) -> Function:
    """floor(of / by)."""
    return of.scale_down_val(value(by)).floor()


def pieces(function: PwAff) -> list[tuple[Set, Aff]]:
    """(domain, affine expression) of each piece of a piecewise affine function."""
    return list(function.get_pieces())


def everywhere(function: PwAff) -> PwAff:
    """A function that has the value of its first expression, where it has none; 0 where it has none anywhere."""
    expressions = pieces(function)
    if not expressions:
        return PwAff.from_aff(constant(function.get_domain_space(), 0))
    first = PwAff.from_aff(expressions[0][1])
    return first if len(expressions) == 1 else function.union_add(first.subtract_domain(function.domain()))


def components(function: PwMultiAff) -> list[PwAff]:
    """The functions that make up one with several results, in order."""
    return [function.get_pw_aff(i) for i in range(function.dim(OUT))]


def uses(function: PwAff, place: int) -> bool:
    """Whether a function's values, as they are written, are made of the dimension at this place of its domain."""
    return any(bool(aff.involves_dims(IN, place, 1)) for _, aff in pieces(function))


def coefficients(of: Aff) -> tuple[int, ...] | None:
    """The factor of each dimension; None for an expression with integer divisions or fractions."""
    if of.dim(DIV):
        return None
    found = [of.get_coefficient_val(IN, i) for i in range(of.dim(IN))]
    return tuple(map(to_int, found)) if all(v.is_int() for v in found) else None


def parameter_terms(of: Aff) -> dict[tuple[str, ...], int] | None:
    """(parameter,) -> factor, () -> the constant term, those of 0 left out, of { [] -> [v] }; None for an expression
    with fractions."""
    number = offset(of)
    names = parameters(of)
    factors = [of.get_coefficient_val(PARAM, i) for i in range(len(names))]
    if number is None or not all(v.is_int() for v in factors):
        return None
    found = {(name,): to_int(v) for name, v in zip(names, factors, strict=True)} | {(): number}
    return {monomial: factor for monomial, factor in found.items() if factor}


def divisors(of: Aff) -> list[Aff]:
    """The expressions of whose values a function takes the floor."""
    return [of.get_div(i) for i in range(of.dim(DIV))]


def quotient(of: Aff) -> tuple[int, int] | None:
    """(place, positive number) of a dimension divided by it, { S[i…] -> [i / 4] }; None for any other expression."""
    factors = {i: of.get_coefficient_val(IN, i) for i in range(of.dim(IN)) if of.involves_dims(IN, i, 1)}
    others = of.involves_dims(DIV, 0, of.dim(DIV)) or of.involves_dims(PARAM, 0, len(parameters(of)))
    if others or len(factors) != 1 or not of.get_constant_val().is_zero():
        return None
    ((place, factor),) = factors.items()
    return (place, to_int(factor.inv())) if factor.is_pos() and factor.inv().is_int() else None


def offset(of: Aff) -> int | None:
    """The constant term; None for a fraction."""
    found = of.get_constant_val()
    return to_int(found) if found.is_int() else None


def value_text(of: Aff) -> str:
    """`2i + floor(j/32)` of { S[i, j] -> [(2i + floor(j/32))] }."""
    return str(of).rpartition("-> [(")[2].removesuffix(")] }")


def terms(of: QPolynomial) -> list[tuple[Fraction, dict[str, int]]]:
    """The terms of a polynomial in parameters: the factor, and the power of each parameter."""
    names = parameters(of.get_domain_space())
    return [
        (Fraction(t.get_coefficient_val().to_str()), {name: t.get_exp(PARAM, i) for i, name in enumerate(names)})
        for t in of.get_terms()
    ]


def polynomial(space: Space, summands: Iterable[tuple[Fraction, Iterable[tuple[Aff, int]]]]) -> QPolynomial:
    """{ S[i…] -> [sum of factors times powers of functions] } on the space of a set."""
    found = QPolynomial.zero_on_domain(space)
    for factor, powers in summands:
        number = Val(f"{factor.numerator}/{factor.denominator}")
        product = QPolynomial.val_on_domain(space, number)
        for function, power in powers:
            product = product.mul(QPolynomial.from_aff(function).pow(power))
        found = found.add(product)
    return found


def polynomial_space(size: int) -> Space:
    """The space of polynomials of so many dimensions."""
    return polynomial(unnamed_space(size), []).get_space()


def has_floors(of: QPolynomial) -> bool:
    """Whether a floor stands in a term of a polynomial."""
    return any(term.get_exp(DIV, i) for term in of.get_terms() for i in range(term.dim(DIV)))


def bent(of: QPolynomial) -> list[int]:
    """The dimensions of its domain of which a polynomial is no affine function, those in floors included, where one
    of the factors of a term is made of them."""
    found = set()
    for term in of.get_terms():
        factors = [term.get_exp(SET, i) for i in range(term.dim(SET))]
        floors = [(term.get_div(i), term.get_exp(DIV, i)) for i in range(term.dim(DIV))]
        if sum(factors) + sum(power for _, power in floors) > 1:
            found |= {i for i, power in enumerate(factors) if power}
            for function, power in floors:
                found |= {i for i in range(function.dim(IN)) if power and function.involves_dims(IN, i, 1)}
    return sorted(found)


def sized_at(of: PwQPolynomial, dim: int, number: int) -> PwQPolynomial:
    """A piecewise polynomial where a dimension of its domain has this value; nothing is said of other values."""
    return of.fix_val(IN, dim, value(number))


def polynomial_range(of: PwQPolynomial) -> tuple[Fraction, Fraction]:
    """Two numbers between which the values of a piecewise polynomial without parameters are, where it is given; the
    domain is bounded and not empty. They are those of Bernstein's expansion (Clauss et al., "Symbolic polynomial
    maximization over convex sets and its application to memory requirement estimation", 2009)."""
    ends = []
    for kind in (fold.min, fold.max):
        bound, _ = of.bound(kind)
        ends.append(Fraction(bound.eval(Point.zero(bound.domain().get_space())).to_str()))
    return ends[0], ends[1]
