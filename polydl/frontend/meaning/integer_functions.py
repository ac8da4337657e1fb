"""Integer functions of the file in subscripts, bounds and conditions: `clamp(i + k, 0, n - 1)` is what it returns.

    static inline int clamp(int v, int low, int high) { if (v < low) return low; return v > high ? high : v; }

The body is evaluated with the arguments in place of its parameters. Nothing but scalars of its own is changed in it.
"""

from __future__ import annotations

from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.affine import Evaluator, NotAffine, Symbols, Value, number
from polydl.frontend.meaning.ctypes import CType
from polydl.frontend.meaning.symbols import Scope, parameters_of
from polydl.model import isl
from polydl.model.types import ElementType


def returned(
    definition: c_ast.FuncDef, arguments: list[Value], node: Node, where: isl.Set, symbols: Symbols, scope: Scope
) -> Value:
    """What a call, `node`, returns where `where` holds. `definition`: the function's; `scope`: that of the file.

    Raises NotAffine where the body does more than choose between affine values.
    """
    function = definition.decl.type
    parameters = parameters_of(definition)
    declared = [p for p in parameters if isinstance(p, c_ast.Decl)]
    name = definition.decl.name
    if not len(parameters) == len(declared) == len(arguments) or not isinstance(function, c_ast.FuncDecl):
        raise NotAffine(f"'{name}' is called with other arguments than it takes", node)
    body = _Body(name, node, symbols, scope)
    for parameter, argument in zip(declared, arguments, strict=True):
        body.declare(parameter, argument, where)
    left = body.run(definition.body, where)
    if not body.found or not left.is_empty():
        raise NotAffine(f"it calls '{name}', which may end without a value", node)
    result = body.integer_type(function.type)
    values = [(part, body.evaluator.convert(value, result, node, part)) for part, value in body.found]
    if len(values) == 1:
        return values[0][1]
    pieces = [body.evaluator.require(value, node).intersect_domain(part) for part, value in values]
    return Value(reduce(lambda a, b: a.union_add(b), pieces).coalesce(), None, result)


class _Body:
    """The body of a function while it is evaluated, and what its names mean (affine.Symbols)."""

    def __init__(self, name: str, node: Node, outer: Symbols, scope: Scope) -> None:
        self.name = name
        self.node = node
        """The call."""
        self.in_value = outer.in_value
        self.evaluator = Evaluator(self)
        self.found: list[tuple[isl.Set, Value]] = []
        """Where something is returned, and what."""
        self._types: dict[str, ElementType] = {}
        """Of parameters and variables of its own."""
        self._values: dict[str, Value] = {}
        """Those of them that have one."""
        self._outer = outer
        self._scope = scope

    def address(self, node: c_ast.ID) -> Value:
        """See `affine.Symbols`."""
        return self.integer(node)

    def integer(self, node: c_ast.ID) -> Value:
        """See `affine.Symbols`."""
        if node.name in self._types:
            if node.name not in self._values:
                raise self._more(f"reads '{node.name}' before it surely has a value")
            return self._values[node.name]
        found = self._scope.find(node.name)
        if found is None or found.value is None:
            raise self._more(f"uses '{node.name}'")
        assert found.integer is not None, "a constant has a type"
        return number(found.value, found.integer)

    def size_of(self, node: Node) -> int | None:
        """See `affine.Symbols`."""
        return self._outer.size_of(node) if isinstance(node, c_ast.Typename) else None

    def type_of(self, node: Node) -> CType:
        """See `affine.Symbols`."""
        return self._outer.type_of(node)

    def call(self, node: c_ast.FuncCall, arguments: list[Value], where: isl.Set) -> Value:
        """See `affine.Symbols`."""
        return self._outer.call(node, arguments, where)

    def integer_type(self, node: Node) -> ElementType:
        """The integer type that a declaration describes. Raises NotAffine for others."""
        ctype, levels, _, is_function = self._scope.resolve(node.type if isinstance(node, c_ast.FuncDecl) else node)
        if levels or is_function or not isinstance(ctype, ElementType) or not ctype.is_int:
            raise self._more("works on other values than integers")
        return ctype

    def declare(self, node: c_ast.Decl, value: Value | None, where: isl.Set) -> None:
        """Enter a parameter or variable. Raises NotAffine for one of another name's, or of no integer type."""
        if node.name in self._types or node.storage:
            raise self._more(f"declares '{node.name}' twice, or static")
        self._types[node.name] = self.integer_type(node.type)
        if value is not None:
            self._assign(node.name, value, where)

    def _assign(self, name: str, value: Value, where: isl.Set) -> None:
        self._values[name] = self.evaluator.convert(value, self._types[name], self.node, where)

    def _more(self, what: str) -> NotAffine:
        return NotAffine(f"it calls '{self.name}', which {what}", self.node, data=True)

    def run(self, node: Node, where: isl.Set) -> isl.Set:
        """Run a statement where `where` holds; gives where the one behind it is reached. Raises NotAffine."""
        match node:
            case c_ast.EmptyStatement():
                return where
            case c_ast.Compound():
                for item in node.block_items or []:
                    where = self.run(item, where)
                return where
            case c_ast.Decl():
                self.declare(node, None if node.init is None else self.evaluator.value(node.init, where), where)
                return where
            case c_ast.Assignment(lvalue=c_ast.ID(name=name)) if name in self._types:
                value = node.rvalue
                if node.op != "=":
                    value = c_ast.BinaryOp(node.op[:-1], node.lvalue, value, node.coord)
                self._assign(name, self.evaluator.value(value, where), where)
                return where
            case c_ast.If():
                return self._if(node, where)
            case c_ast.Return() if node.expr is not None:
                if not where.is_empty():
                    self.found.append((where, self.evaluator.value(node.expr, where)))
                return where.subtract(where)
        raise self._more("does more than choose between integers")

    def _if(self, node: c_ast.If, where: isl.Set) -> isl.Set:
        holds = self.evaluator.condition(node.cond, where)
        before = dict(self._values)
        there = self.run(node.iftrue, where.intersect(holds))
        then, self._values = self._values, before
        rest = where.subtract(holds)
        elsewhere = rest if node.iffalse is None else self.run(node.iffalse, rest)
        if elsewhere.is_empty():
            self._values = then
        elif not there.is_empty():
            common = [name for name in then if name in self._values]
            self._values = {name: self._either(then[name], there, self._values[name], elsewhere) for name in common}
        return there.union(elsewhere).coalesce()

    def _either(self, one: Value, there: isl.Set, two: Value, elsewhere: isl.Set) -> Value:
        """A variable's value behind a condition."""
        if one is two:
            return one
        first, second = (self.evaluator.require(value, self.node) for value in (one, two))
        merged = first.intersect_domain(there).union_add(second.intersect_domain(elsewhere))
        return Value(merged.coalesce(), None, one.ctype)
