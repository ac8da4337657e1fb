"""From zero-dimensional sets over symbols to isl's statement and array spaces, by name."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model import isl
from polydl.model.expr import Expr, on_affine_values

_CHOSEN = "__polydl_chosen_"
"""Begins the names of subscripts that data choose."""


class StatementSpace:
    """The space `S[i, j]` of one statement, with the scop's parameters."""

    def __init__(self, name: str, iterators: Sequence[str], parameters: Sequence[str]) -> None:
        self.name = name
        self.iterators = tuple(iterators)
        self.parameters = tuple(parameters)
        self._model = isl.parameter_space((*self.parameters, *self.iterators))
        self._space = self.set(isl.Set.universe(self._model)).get_space()

    def set(self, of: isl.Set) -> isl.Set:
        """{ S[i] : … } from a set of symbol values."""
        points = isl.as_dimensions(of.align_params(self._model), self.iterators).set_tuple_name(self.name)
        return isl.parametric(points, self.parameters)

    def function(self, of: isl.PwAff) -> isl.PwAff:
        """{ S[i] -> [v] } from a function of symbols."""
        return isl.function_named(isl.as_arguments(of.align_params(self._model), self.iterators), self.name)

    def multi(self, array: str, subscripts: Sequence[isl.PwAff]) -> isl.MultiPwAff:
        """{ S[i] -> A[a0, …] }."""
        functions = [self.function(subscript) for subscript in subscripts]
        return isl.multi(self._space, array, _elements(subscripts), functions)

    def relation(self, array: str, subscripts: Sequence[isl.PwAff], where: isl.Set) -> isl.Map:
        """{ S[i] -> A[a0, …] : i where it happens }. `where`: a set of this space."""
        multi = self.multi(array, subscripts)
        relation = isl.Map.from_multi_pw_aff(multi).intersect_domain(where).coalesce()
        return isl.range_named(isl.domain_named(relation, self.name, self.iterators), array, _elements(subscripts))

    def chosen(
        self,
        array: str,
        subscripts: Sequence[isl.PwAff | None],
        extents: Sequence[isl.PwAff | None],
        where: isl.Set,
    ) -> isl.Map:
        """{ S[i…] -> A[a0, …] : i where it happens }, with every element where data choose a subscript (None).
        `where`: a set of symbol values; `extents` are functions of symbols."""
        some = {d: f"{_CHOSEN}{d}" for d, one in enumerate(subscripts) if one is None}
        for d, name in some.items():
            one, extent = isl.PwAff.from_aff(isl.parameter(name)), extents[d]
            if extent is not None:
                where = where.intersect(
                    one.ge_set(isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), 0)))
                ).intersect(one.lt_set(extent))
        wide = StatementSpace(self.name, (*self.iterators, *some.values()), self.parameters)
        known = [isl.PwAff.from_aff(isl.parameter(some[d])) if one is None else one for d, one in enumerate(subscripts)]
        relation = isl.domain_onto(wide.relation(array, known, wide.set(where)), range(len(self.iterators)))
        return isl.domain_named(relation, self.name, self.iterators)

    def expression(self, expr: Expr) -> Expr:
        """The expression with its affine values in this space."""
        return on_affine_values(expr, self.function)


def _elements(subscripts: Sequence[isl.PwAff]) -> list[str]:
    """Names of an array's dimensions."""
    return [f"a{number}" for number in range(len(subscripts))]
