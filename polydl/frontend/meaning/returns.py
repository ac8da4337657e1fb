"""What functions of the file return, as one expression of their parameters.

    static inline int clamp(int v, int low, int high)          v < low ? low : v > high ? high : v
    {
        if (v < low)
            return low;
        else if (v > high)
            v = high;
        return v;
    }

Statements are gone through with the values that the function's variables have there; behind an `if` they have one or
the other. Functions with loops have no such expression, nor those on types that C does not round everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.liveness import returns
from polydl.frontend.meaning.symbols import Scope, parameters_of
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
_STEPS = 1000
"""Statements and operations that are gone through: what follows an `if` that may return is, for each of its arms."""


class _No(Exception):
    """The function returns no expression of its parameters."""


def function_value(name: str, unit: Unit, scope: Scope) -> Function | None:
    """What a function of the file returns; None where that is no expression of its parameters. `scope`: the file's."""
    try:
        return _function(name, unit, scope, ())
    except (_No, InputError):
        return None


def _function(name: str, unit: Unit, scope: Scope, around: tuple[str, ...]) -> Function:
    definition = next((e for e in unit.externals if isinstance(e, c_ast.FuncDef) and e.decl.name == name), None)
    if definition is None or name in around or len(around) > _DEEPEST:
        raise _No
    body = _Body(unit, scope, (*around, name))
    parameters = [p for p in parameters_of(definition) if not isinstance(p, c_ast.Typename)]
    given = [p for p in parameters if isinstance(p, c_ast.Decl)]
    declared = definition.decl.type
    if len(given) < len(parameters) or not isinstance(declared, c_ast.FuncDecl):
        raise _No
    types = tuple(body.scalar(p.type) for p in given)
    known = {p.name: Load(number) for number, p in enumerate(given)}
    body.types.update(zip(known, types, strict=True))
    body.result = body.scalar(declared.type)
    value = body.returned(definition.body.block_items or (), known)
    return Function(types, body.as_type(value, body.result), body.result)


Known = Mapping[str, Expr]
"""The values of variables, each in its own type."""


class _Body:
    """The body of a function while it is gone through."""

    def __init__(self, unit: Unit, scope: Scope, around: tuple[str, ...]) -> None:
        self.unit = unit
        self.scope = scope
        self.around = around
        self.types: dict[str, ElementType] = {}
        """Of parameters and variables."""
        self.result = I32
        """Of the function."""
        self._left = _STEPS

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _No

    def scalar(self, node: Node) -> ElementType:
        """The arithmetic type that a declaration describes."""
        ctype, levels, _, is_function = self.scope.resolve(node)
        plain = not levels and not is_function and isinstance(ctype, ElementType) and ctype is not F16
        if not plain or "volatile" in (getattr(node, "quals", None) or ()):
            raise _No
        assert isinstance(ctype, ElementType)
        return ctype

    # Statements

    def returned(self, items: Sequence[Node], known: Known) -> Expr:
        """The value that statements return."""
        self._step()
        for place, item in enumerate(items):
            rest = items[place + 1 :]
            match item:
                case c_ast.Return() if item.expr is not None:
                    return self.value(item.expr, known)
                case c_ast.Compound():
                    # No name is declared twice on a way through the function, so that blocks need no scopes.
                    return self.returned([*(item.block_items or ()), *rest], known)
                case c_ast.If() if returns(item):
                    arms = [[] if arm is None else [arm] for arm in (item.iftrue, item.iffalse)]
                    before = dict(self.types)
                    then = self.returned([*arms[0], *rest], known)
                    self.types = before
                    otherwise = self.returned([*arms[1], *rest], known)
                    return self._limited(Conditional(self.value(item.cond, known), *self._alike(then, otherwise)))
                case _:
                    known = self.run(item, known)
        raise _No

    def run(self, item: Node, known: Known) -> Known:
        """The values of variables behind a statement."""
        match item:
            case c_ast.EmptyStatement():
                return known
            case c_ast.Compound():
                return reduce(lambda before, one: self.run(one, before), item.block_items or (), known)
            case c_ast.Decl():
                if item.storage or item.name in self.types:
                    raise _No
                self.types[item.name] = self.scalar(item.type)
                if item.init is None:
                    return known
                return {**known, item.name: self._stored(item.name, self.value(item.init, known))}
            case c_ast.DeclList():
                return reduce(lambda before, one: self.run(one, before), item.decls, known)
            case c_ast.Assignment(lvalue=c_ast.ID(name=name)) if name in self.types:
                value = item.rvalue
                if item.op != "=":
                    value = c_ast.BinaryOp(item.op[:-1], item.lvalue, value, item.coord)
                return {**known, name: self._stored(name, self.value(value, known))}
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--", expr=c_ast.ID(name=name)) if name in self.types:
                counted = Binary(item.op[-1], self._read(name, known), Const("1"))
                return {**known, name: self._stored(name, counted)}
            case c_ast.If():
                condition = self.value(item.cond, known)
                then = self.run(item.iftrue, known)
                otherwise = known if item.iffalse is None else self.run(item.iffalse, known)
                both = [name for name in then if name in otherwise]
                return {
                    name: then[name]
                    if then[name] is otherwise[name]
                    else self._stored(name, Conditional(condition, then[name], otherwise[name]))
                    for name in both
                }
        raise _No

    # Values

    def _type(self, value: Expr) -> ElementType:
        parameters = list(self.types.values())  # the first of them are those of the function, in order
        return explicit(value, lambda number: parameters[number])[1]

    def _read(self, name: str, known: Known) -> Expr:
        if name not in known:
            raise _No
        return known[name]

    def _stored(self, name: str, value: Expr) -> Expr:
        return self._limited(self.as_type(value, self.types[name]))

    def as_type(self, value: Expr, target: ElementType) -> Expr:
        """The value as C converts it."""
        source = self._type(value)
        if source.through is not target.through:
            raise _No  # C does not convert them
        small = isinstance(value, Const) and source.is_int and target.is_int and (promoted(target) is source)
        if small and isinstance(value, Const) and (found := integer_literal(value.text)) is not None:
            return value if found[0] <= target.maximum else Convert(source, target, value)
        return converted(value, source, target)

    def _alike(self, then: Expr, otherwise: Expr) -> tuple[Expr, Expr]:
        """Two returned values: as they are where C's `?:`, which makes them one type, changes none of them."""
        types = self._type(then), self._type(otherwise)
        if all(common(*types).holds(one) for one in types):
            return then, otherwise
        return self.as_type(then, self.result), self.as_type(otherwise, self.result)

    @staticmethod
    def _limited(value: Expr) -> Expr:
        if size(value) > MOST:
            raise _No
        return value

    def value(self, node: Node, known: Known) -> Expr:
        """The model of an expression."""
        self._step()

        def of(one: Node) -> Expr:
            return self.value(one, known)

        match node:
            case c_ast.Constant() if node.type not in ("string", "char"):
                text = str(node.value)
                if float_literal(text) is None and integer_literal(text) is None:
                    raise _No
                return Const(text)
            case c_ast.ID():
                if node.name in self.types:
                    return self._read(node.name, known)
                return self._named(node.name)
            case c_ast.UnaryOp(op="+" | "-" | "!" | "~"):
                return Unary(node.op, of(node.expr))
            case c_ast.BinaryOp():
                return self._limited(Binary(node.op, of(node.left), of(node.right)))
            case c_ast.TernaryOp():
                return self._limited(Conditional(of(node.cond), of(node.iftrue), of(node.iffalse)))
            case c_ast.Cast():
                return self.as_type(of(node.expr), self.scalar(node.to_type.type))
            case c_ast.FuncCall(name=c_ast.ID(name=name)):
                return self._limited(self._call(name, [of(one) for one in (node.args.exprs if node.args else ())]))
        raise _No

    def _named(self, name: str) -> Expr:
        found = self.scope.find(name)
        if found is not None and found.value is not None and found.integer is not None:
            number = Const(str(abs(found.value)))
            return converted(Unary("-", number) if found.value < 0 else number, I32, promoted(found.integer))
        if found is None and name in LIBRARY_CONSTANTS:
            return Const(name)
        raise _No

    def _call(self, name: str, given: Sequence[Expr]) -> Expr:
        conversion = conversion_of(name)
        if conversion is not None and len(given) == 1:
            source, target = conversion
            return Convert(source, target, self.as_type(given[0], source))
        own = any(isinstance(e, c_ast.FuncDef) and e.decl.name == name for e in self.unit.externals)
        if own:
            function = _function(name, self.unit, self.scope, self.around)
            if len(function.parameters) != len(given):
                raise _No
            return function.of([self.as_type(one, t) for one, t in zip(given, function.parameters, strict=True)])
        result = result_of(name)
        if result is not None and name not in self.unit.chunks:
            return Call(name, tuple(given), result)
        raise _No


def size(value: Expr) -> int:
    """Operations and operands of an expression."""
    return 1 + sum(map(size, operands(value)))
