"""What functions of the file return, as one C expression of their parameters.

    static inline int clamp(int v, int low, int high)          v < low ? low : v > high ? high : v
    {
        if (v < low)
            return low;
        else if (v > high)
            v = high;
        return v;
    }

Statements are gone through with the expressions that the function's variables are worth there; behind an `if` they are
one or the other. Functions with loops have no such expression.

For a call in a subscript, bound or condition it is evaluated with the arguments in place of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.tree_parts import assigned_value, integer, replaced
from polydl.frontend.meaning.affine import Evaluator, NotAffine, Symbols, Value, number
from polydl.frontend.meaning.liveness import returns
from polydl.frontend.meaning.symbols import nodes, parameters_of
from polydl.model import isl
from polydl.model.types import ElementType

_STEPS = 1000
"""Statements that are gone through: what follows an `if` that may return is, for each of its arms."""
_MORE = "does more than choose between integers"


class NoValue(Exception):
    """The function returns no expression of its parameters; the message says what it does."""


class Either(c_ast.TernaryOp):
    """One of two values, by a condition: of an arm that is never chosen no value is asked for."""

    of: Node
    """The type of both."""


class Nothing(c_ast.ID):
    """A variable that was given no value; without a name, what a function returns that ends without a `return`."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function returns."""

    parameters: tuple[c_ast.Decl, ...]
    variables: tuple[c_ast.Decl, ...]
    """Parameters first."""
    type: Node
    value: Node
    """Identifiers in it are parameters and what the file declares; parts are shared."""


def returned(definition: c_ast.FuncDef) -> Returned:
    """What a function returns. Raises NoValue."""
    function = definition.decl.type
    parameters = [p for p in parameters_of(definition) if not isinstance(p, c_ast.Typename)]
    declared = [p for p in parameters if isinstance(p, c_ast.Decl)]
    if len(declared) < len(parameters) or not isinstance(function, c_ast.FuncDecl):
        raise NoValue("is called with other arguments than it takes")
    body = _Body(function.type, declared)
    value = body.returned(definition.body.block_items or (), {p.name: c_ast.ID(p.name) for p in declared})
    return Returned(tuple(declared), tuple(body.variables), function.type, value)


class _Body:
    """The body of a function while it is gone through. `known`: the values of variables, each in its own type."""

    def __init__(self, result: Node, parameters: Sequence[c_ast.Decl]) -> None:
        self.variables = list(parameters)
        self._result = result
        self._types: dict[str, Node] = {p.name: p.type for p in parameters}
        """Of parameters and variables."""
        self._left = _STEPS

    def returned(self, items: Sequence[Node], known: dict[str, Node]) -> Node:
        """The value that statements return."""
        self._left -= 1
        if self._left < 0:
            raise NoValue(_MORE)
        for place, item in enumerate(items):
            rest = items[place + 1 :]
            match item:
                case c_ast.Return(expr=c_ast.Node() as value):
                    return self._value(value, known)
                case c_ast.Compound():
                    # No name is declared twice on a way through the function, so that blocks need no scopes.
                    return self.returned([*(item.block_items or ()), *rest], known)
                case c_ast.If() if returns(item):
                    condition, before = self._value(item.cond, known), dict(self._types)
                    then = self.returned([item.iftrue, *rest], dict(known))
                    self._types = before
                    arm = [] if item.iffalse is None else [item.iffalse]
                    return _either(condition, then, self.returned([*arm, *rest], known), self._result)
                case _:
                    self._run(item, known)
        return Nothing("")

    def _run(self, item: Node, known: dict[str, Node]) -> None:
        """Go through a statement: what is known is changed."""
        match item:
            case c_ast.EmptyStatement():
                pass
            case c_ast.Compound(block_items=items) | c_ast.DeclList(decls=items):
                for one in items or ():
                    self._run(one, known)
            case c_ast.Decl():
                if item.storage or item.name in self._types:
                    raise NoValue(f"declares '{item.name}' twice, or static")
                self._types[item.name] = item.type
                self.variables.append(item)
                known[item.name] = Nothing(item.name)
                if item.init is not None:
                    self._give(item.name, item.init, known)
            case c_ast.Assignment(lvalue=c_ast.ID(name=name)) if name in self._types:
                self._give(name, assigned_value(item), known)
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--" as op, expr=c_ast.ID(name=name)) if name in self._types:
                self._give(name, c_ast.BinaryOp(op[-1], item.expr, integer(1), item.coord), known)
            case c_ast.If():
                condition, arms = self._value(item.cond, known), (dict(known), dict(known))
                for arm, there in zip((item.iftrue, item.iffalse), arms, strict=True):
                    if arm is not None:
                        self._run(arm, there)
                then, otherwise = arms
                for name in known:
                    one, other = then[name], otherwise[name]
                    known[name] = one if one is other else _either(condition, one, other, self._types[name])
            case _:
                raise NoValue(_MORE)

    def _give(self, name: str, value: Node, known: dict[str, Node]) -> None:
        """What a variable is assigned to, as C converts it."""
        known[name] = c_ast.Cast(c_ast.Typename(None, [], None, self._types[name]), self._value(value, known))

    def _value(self, node: Node, known: dict[str, Node]) -> Node:
        """An expression in terms of the parameters."""
        for one in nodes(node):
            if isinstance(one, c_ast.Assignment) or getattr(one, "op", "") in ("p++", "++", "p--", "--"):
                raise NoValue(_MORE)
        return replaced(node, {name: Nothing(name) for name in self._types} | known)


def _either(condition: Node, then: Node, otherwise: Node, of: Node) -> Either:
    made = Either(condition, then, otherwise)
    made.of = of
    return made


def evaluated(
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
        ctype = outer.scope.file.arithmetic(type_)
        if ctype is None or not ctype.is_int:
            raise more("works on other values than integers")
        return ctype

    try:
        function = returned(definition)
    except NoValue as why:
        raise more(str(why)) from None
    if len(function.parameters) != len(arguments):
        raise NotAffine(f"'{name}' is called with other arguments than it takes", node)
    types = [integer_type(variable.type) for variable in function.variables]
    names = _Names(outer, more)
    convert = names.evaluator.convert
    for parameter, argument, ctype in zip(function.parameters, arguments, types, strict=False):
        names.given[parameter.name] = convert(argument, ctype, node, where)
    value = convert(names.evaluator.value(function.value, where), integer_type(function.type), node, where)
    # What of the body is not in the value has to be nothing but numbers, too.
    calls = (one for one in nodes(definition.body) if isinstance(one, c_ast.FuncCall))
    if not all(isinstance(one.name, c_ast.ID) and pure(one.name.name) is not None for one in calls):
        raise more(_MORE)
    return value


class _Names(Symbols):
    """What names mean in what a function returns."""

    def __init__(self, outer: Symbols, more: Callable[[str], NotAffine]) -> None:
        super().__init__(outer.scope.file)
        self.evaluator = _Evaluator(self)
        self._outer = outer
        self.given: dict[str, Value] = {}
        """By parameter."""
        self._more = more

    def integer(self, node: c_ast.ID) -> Value:
        if isinstance(node, Nothing):
            raise self._more(
                f"reads '{node.name}' before it surely has a value" if node.name else "may end without a value"
            )
        if node.name in self.given:
            return self.given[node.name]
        try:
            return super().integer(node)
        except NotAffine:
            raise self._more(f"uses '{node.name}'") from None

    def size_of(self, node: Node) -> int | None:
        # Names may be those of parameters, and something else outside.
        return super().size_of(node) if isinstance(node, c_ast.Typename) else None

    def call(self, node: c_ast.FuncCall, arguments: list[Value], where: isl.Set) -> Value:
        return self._outer.call(node, arguments, where)

    @property
    def strict(self) -> bool:
        return self._outer.strict

    def variable(self, name: str) -> tuple[ElementType, bool] | None:
        return self._outer.variable(name)

    def ahead(self) -> bool:
        return self._outer.ahead()

    def grant(self, what: str, outside: isl.Set | None) -> None:
        self._outer.grant(what, outside)


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
        wrapped = any(value.wrapped for _, value in values)
        return Value(then.union_add(otherwise).coalesce(), None, values[0][1].ctype, wrapped=wrapped)
