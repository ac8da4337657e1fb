"""Integer functions of the file in subscripts, bounds and conditions: `clamp(i + k, 0, n - 1)` is what it returns.

    static inline int clamp(int v, int low, int high) { if (v < low) return low; return v > high ? high : v; }

The expression that it returns is evaluated with the arguments in place of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.affine import Evaluator, NotAffine, Symbols, Value, number
from polydl.frontend.meaning.returned_values import Either, Nothing, NoValue, returned
from polydl.frontend.meaning.symbols import nodes
from polydl.model import isl
from polydl.model.types import ElementType


def called(
    definition: c_ast.FuncDef,
    arguments: list[Value],
    node: Node,
    where: isl.Set,
    outer: Symbols,
    pure: Callable[[str], ElementType | None],
) -> Value:
    """What a call, `node`, returns where `where` holds. `definition`: the function's; `outer`: what names mean at the
    call; `pure`: the result of functions without effects.

    Raises NotAffine where the body does more than choose between affine values.
    """
    name = definition.decl.name

    def more(what: str) -> NotAffine:
        return NotAffine(f"it calls '{name}', which {what}", node, data=True)

    def integer_type(type_: Node) -> ElementType:
        ctype, levels, _, is_function = outer.scope.file.resolve(type_)
        if levels or is_function or not isinstance(ctype, ElementType) or not ctype.is_int:
            raise more("works on other values than integers")
        return ctype

    try:
        function = returned(definition)
    except NoValue as why:
        raise more(str(why)) from None
    if len(function.parameters) != len(arguments):
        raise NotAffine(f"'{name}' is called with other arguments than it takes", node)
    types = [integer_type(variable.type) for variable in function.variables]
    convert = outer.evaluator.convert
    given = {
        parameter.name: convert(argument, ctype, node, where)
        for parameter, argument, ctype in zip(function.parameters, arguments, types, strict=False)
    }
    names = _Names(outer, given, more)
    value = convert(names.evaluator.value(function.value, where), integer_type(function.type), node, where)
    # What of the body is not in the value has to be nothing but numbers, too.
    calls = (one for one in nodes(definition.body) if isinstance(one, c_ast.FuncCall))
    if not all(isinstance(one.name, c_ast.ID) and pure(one.name.name) is not None for one in calls):
        raise more("does more than choose between integers")
    return value


class _Names(Symbols):
    """What names mean in what a function returns."""

    def __init__(self, outer: Symbols, given: Mapping[str, Value], more: Callable[[str], NotAffine]) -> None:
        super().__init__(outer.scope.file)
        self.in_value = outer.in_value
        self.evaluator = _Evaluator(self)
        self._outer = outer
        self._given = given
        self._more = more

    def integer(self, node: c_ast.ID) -> Value:
        if isinstance(node, Nothing):
            raise self._more(
                f"reads '{node.name}' before it surely has a value" if node.name else "may end without a value"
            )
        if node.name in self._given:
            return self._given[node.name]
        try:
            return super().integer(node)
        except NotAffine:
            raise self._more(f"uses '{node.name}'") from None

    def call(self, node: c_ast.FuncCall, arguments: list[Value], where: isl.Set) -> Value:
        return self._outer.call(node, arguments, where)


class _Evaluator(Evaluator):
    """Evaluates what a function returns, each of its parts once."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(symbols)
        self._known: dict[int, tuple[isl.Set, Value]] = {}

    def value(self, node: Node, where: isl.Set) -> Value:
        """See `affine.Evaluator`."""
        if not isinstance(node, Either | c_ast.Cast):
            return super().value(node, where)
        known = self._known.get(id(node))
        if known is None or not where.is_subset(known[0]):
            made = self._either(node, where) if isinstance(node, Either) else super().value(node, where)
            known = self._known[id(node)] = where, made
        return known[1]

    def _either(self, node: Either, where: isl.Set) -> Value:
        ctype = self.symbols.scope.resolve(node.of)[0]
        holds = self.condition(node.cond, where)
        values = [
            (part, self.convert(self.value(arm, part), ctype, node, part))
            for arm, part in ((node.iftrue, where.intersect(holds)), (node.iffalse, where.subtract(holds)))
            if not part.is_empty()
        ]
        if not values:
            return self.convert(number(0), ctype, node, where)
        if len(values) == 1:
            return values[0][1]
        then, otherwise = (self.require(value, node).intersect_domain(part) for part, value in values)
        return Value(then.union_add(otherwise).coalesce(), None, values[0][1].ctype)
