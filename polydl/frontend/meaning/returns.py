"""What functions of the file return, as one expression of the model: what rewriting sees of their calls.

None of functions on types that C does not round everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.returned_values import Either, Nothing, NoValue, returned
from polydl.frontend.meaning.symbols import Scope
from polydl.frontend.text.parse import Unit
from polydl.model.conversions import conversion_of, converted, explicit
from polydl.model.expr import Binary, Call, Conditional, Const, Convert, Expr, Load, Unary, operands
from polydl.model.functions import result_of
from polydl.model.scop import Function
from polydl.model.types import F16, I32, ElementType, common, float_literal, integer_literal, promoted

MOST = 1000
"""Operations in an expression at most."""
_DEEPEST = 8
"""Functions that call each other."""


def function_value(name: str, unit: Unit, scope: Scope) -> Function | None:
    """What a function of the file returns; None where that is no expression of its parameters. `scope`: the file's."""
    try:
        return _function(name, unit, scope, ())
    except (NoValue, InputError):
        return None


def _function(name: str, unit: Unit, scope: Scope, around: tuple[str, ...]) -> Function:
    definition = unit.definition(name)
    if definition is None or name in around or len(around) > _DEEPEST:
        raise NoValue
    function = returned(definition)
    types = [_scalar(variable.type, scope) for variable in function.variables][: len(function.parameters)]
    result = _scalar(function.type, scope)
    parameters = {one.name: number for number, one in enumerate(function.parameters)}
    modelled = _Modelled(unit, scope, (*around, name), parameters, types)
    return Function(tuple(types), modelled.as_type(modelled.value(function.value), result), result)


def _scalar(node: Node, scope: Scope) -> ElementType:
    """The arithmetic type that a declaration describes."""
    ctype = scope.arithmetic(node)
    if ctype is None or ctype is F16 or "volatile" in (getattr(node, "quals", None) or ()):
        raise NoValue
    return ctype


class _Modelled:
    """What a function returns, while it is made an expression of the model, each of its parts once."""

    def __init__(
        self,
        unit: Unit,
        scope: Scope,
        around: tuple[str, ...],
        parameters: dict[str, int],
        types: Sequence[ElementType],
    ) -> None:
        self.unit = unit
        self.scope = scope
        self.around = around
        self.parameters = parameters
        self.types = types
        """Of the parameters."""
        self._made: dict[int, Expr] = {}

    def _type(self, value: Expr) -> ElementType:
        return explicit(value, lambda number: self.types[number])[1]

    def as_type(self, value: Expr, target: ElementType) -> Expr:
        """The value as C converts it."""
        source = self._type(value)
        if source.through is not target.through:
            raise NoValue  # C does not convert them
        small = isinstance(value, Const) and source.is_int and target.is_int and (promoted(target) is source)
        if small and isinstance(value, Const) and (found := integer_literal(value.text)) is not None:
            return value if found[0] <= target.maximum else Convert(source, target, value)
        return converted(value, source, target)

    def _alike(self, then: Expr, otherwise: Expr, target: ElementType) -> tuple[Expr, Expr]:
        """Two values of one type: as they are where C's `?:`, which makes them one type, changes none of them."""
        types = self._type(then), self._type(otherwise)
        if all(common(*types).holds(one) for one in types):
            return then, otherwise
        return self.as_type(then, target), self.as_type(otherwise, target)

    @staticmethod
    def _limited(value: Expr) -> Expr:
        if size(value) > MOST:
            raise NoValue
        return value

    def value(self, node: Node) -> Expr:
        """The model of an expression."""
        if id(node) not in self._made:
            self._made[id(node)] = self._limited(self._modelled(node))
        return self._made[id(node)]

    def _modelled(self, node: Node) -> Expr:
        of = self.value
        match node:
            case c_ast.Constant() if node.type not in ("string", "char"):
                text = str(node.value)
                if float_literal(text) is None and integer_literal(text) is None:
                    raise NoValue
                return Const(text)
            case Nothing():
                raise NoValue
            case c_ast.ID(name=name):
                return Load(self.parameters[name]) if name in self.parameters else self._named(name)
            case c_ast.UnaryOp(op="+" | "-" | "!" | "~"):
                return Unary(node.op, of(node.expr))
            case c_ast.BinaryOp():
                return Binary(node.op, of(node.left), of(node.right))
            case Either():
                arms = self._alike(of(node.iftrue), of(node.iffalse), _scalar(node.of, self.scope))
                return Conditional(of(node.cond), *arms)
            case c_ast.TernaryOp():
                return Conditional(of(node.cond), of(node.iftrue), of(node.iffalse))
            case c_ast.Cast():
                return self.as_type(of(node.expr), _scalar(node.to_type.type, self.scope))
            case c_ast.FuncCall(name=c_ast.ID(name=name)):
                return self._call(name, [of(one) for one in (node.args.exprs if node.args else ())])
        raise NoValue

    def _named(self, name: str) -> Expr:
        found = self.scope.find(name)
        if found is not None and found.value is not None and found.integer is not None:
            number = Const(str(abs(found.value)))
            return converted(Unary("-", number) if found.value < 0 else number, I32, promoted(found.integer))
        if found is None and name in LIBRARY_CONSTANTS:
            return Const(name)
        raise NoValue

    def _call(self, name: str, given: Sequence[Expr]) -> Expr:
        conversion = conversion_of(name)
        if conversion is not None and len(given) == 1:
            source, target = conversion
            return Convert(source, target, self.as_type(given[0], source))
        if self.unit.definition(name) is not None:
            function = _function(name, self.unit, self.scope, self.around)
            if len(function.parameters) != len(given):
                raise NoValue
            return function.of([self.as_type(one, t) for one, t in zip(given, function.parameters, strict=True)])
        result = result_of(name)
        if result is not None and name not in self.unit.chunks:
            return Call(name, tuple(given), result)
        raise NoValue


def size(value: Expr) -> int:
    """Operations and operands of an expression."""
    return 1 + sum(map(size, operands(value)))
