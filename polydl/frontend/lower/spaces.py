"""From zero-dimensional sets over symbols to isl's statement and array spaces, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import islpy as isl

from polydl.frontend.meaning.affine import identifier
from polydl.model.expr import AffineValue, Binary, Call, Cast, Conditional, Const, Expr, Load, Unary

Aligned = TypeVar("Aligned", isl.Set, isl.PwAff)


class StatementSpace:
    """The space `S[i, j]` of one statement, with the scop's parameters."""

    def __init__(self, name: str, iterators: Sequence[str], parameters: Sequence[str]) -> None:
        self.name = name
        self.iterators = tuple(iterators)
        self.parameters = tuple(parameters)
        self._model = parameter_space((*self.parameters, *self.iterators))

    def set(self, of: isl.Set) -> isl.Set:
        """{ S[i] : … } from a set of symbol values."""
        of = of.align_params(self._model)
        for position, name in enumerate(self.iterators):
            at = of.find_dim_by_name(isl.dim_type.param, name)
            of = of.move_dims(isl.dim_type.set, position, isl.dim_type.param, at, 1)
        of = of.set_tuple_name(self.name)
        for position, name in enumerate(self.iterators):
            of = of.set_dim_name(isl.dim_type.set, position, name)
        return of.project_out(
            isl.dim_type.param, len(self.parameters), of.dim(isl.dim_type.param) - len(self.parameters)
        )

    def function(self, of: isl.PwAff) -> isl.PwAff:
        """{ S[i] -> [v] } from a function of symbols."""
        of = of.align_params(self._model)
        for position, name in enumerate(self.iterators):
            at = of.find_dim_by_name(isl.dim_type.param, name)
            of = of.move_dims(isl.dim_type.in_, position, isl.dim_type.param, at, 1)
        return of.set_tuple_id(isl.dim_type.in_, identifier(self.name))

    def multi(self, array: str, subscripts: Sequence[isl.PwAff]) -> isl.MultiPwAff:
        """{ S[i] -> A[a0, …] }."""
        functions = [self.function(subscript) for subscript in subscripts]
        space = self.set(isl.Set.universe(self._model)).get_space()
        target = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(subscripts)).set_tuple_name(isl.dim_type.set, array)
        target = target.align_params(parameter_space(self.parameters))
        for position in range(len(subscripts)):
            target = target.set_dim_name(isl.dim_type.set, position, f"a{position}")
        whole = space.map_from_domain_and_range(target)
        result = (
            isl.MultiPwAff.zero(whole) if not functions else isl.MultiPwAff.from_pw_aff_list(whole, _list(functions))
        )
        return result

    def relation(self, array: str, subscripts: Sequence[isl.PwAff], where: isl.Set) -> isl.Map:
        """{ S[i] -> A[a0, …] : i where it happens }."""
        multi = self.multi(array, subscripts)
        relation = isl.Map.from_multi_pw_aff(multi).intersect_domain(self.set(where)).coalesce()
        for position, name in enumerate(self.iterators):
            relation = relation.set_dim_name(isl.dim_type.in_, position, name)
        for position in range(len(subscripts)):
            relation = relation.set_dim_name(isl.dim_type.out, position, f"a{position}")
        return relation

    def expression(self, expr: Expr) -> Expr:
        """The expression with its affine values in this space."""
        match expr:
            case Const() | Load():
                return expr
            case AffineValue(value=value):
                return AffineValue(self.function(value))
            case Unary(op=op, operand=operand):
                return Unary(op, self.expression(operand))
            case Binary(op=op, left=left, right=right):
                return Binary(op, self.expression(left), self.expression(right))
            case Call(function=function, arguments=arguments):
                return Call(function, tuple(self.expression(argument) for argument in arguments))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return Conditional(self.expression(condition), self.expression(then), self.expression(otherwise))
            case Cast(element=element, operand=operand):
                return Cast(element, self.expression(operand))


def _list(functions: Sequence[isl.PwAff]) -> isl.PwAffList:
    result = isl.PwAffList.alloc(isl.DEFAULT_CONTEXT, len(functions))
    for function in functions:
        result = result.add(function)
    return result


def parameter_space(names: Sequence[str]) -> isl.Space:
    """The zero-dimensional set space with these parameters, in order."""
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0)
    for name in names:
        space = space.add_param_id(identifier(name))
    return space


def parametric(of: Aligned, parameters: Sequence[str]) -> Aligned:
    """The same object with exactly these parameters, in this order; it must not involve others."""
    of = of.align_params(parameter_space(parameters))
    extra = of.dim(isl.dim_type.param) - len(parameters)
    if extra == 0:
        return of
    if isinstance(of, isl.Set):
        return of.project_out(isl.dim_type.param, len(parameters), extra)
    return of.drop_dims(isl.dim_type.param, len(parameters), extra)


def project_symbols(of: isl.Set, names: Sequence[str]) -> isl.Set:
    """The set with some symbols existentially quantified."""
    for name in names:
        at = of.find_dim_by_name(isl.dim_type.param, name)
        if at >= 0:
            of = of.project_out(isl.dim_type.param, at, 1)
    return of


def rename_symbol(of: isl.Set, name: str, new: str) -> isl.Set:
    """The set with one symbol called otherwise."""
    at = of.find_dim_by_name(isl.dim_type.param, name)
    return of if at < 0 else of.set_dim_id(isl.dim_type.param, at, identifier(new))
