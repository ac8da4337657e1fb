"""Constant expressions: enumerators, `const` variables with constant initialisers, literals."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.affine import Evaluator, NotAffine, Value, number, universe
from polydl.frontend.meaning.ctypes import CType
from polydl.frontend.meaning.symbols import Scope
from polydl.model import isl


class _Constants:
    """The identifiers of constant expressions."""

    in_value = False

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def integer(self, node: Node) -> Value:
        name = str(getattr(node, "name", ""))
        found = self.scope.find(name)
        integer = None if found is None else found.integer
        if found is None or integer is None or found.value is None:
            raise NotAffine(f"'{name}' is not constant", node)
        return number(found.value, integer)

    def address(self, node: Node) -> Value:
        return self.integer(node)

    def size_of(self, node: Node) -> int | None:
        if not isinstance(node, c_ast.Typename):
            return None
        ctype, levels, _, _ = self.scope.resolve(node)
        return ctype.bytes if ctype.bytes and not levels else None

    def type_of(self, node: Node) -> CType:
        return self.scope.resolve(node)[0]

    def call(self, node: Node, arguments: list[Value], where: isl.Set) -> Value:
        raise NotAffine("a function is called", node)


def constant(node: Node, scope: Scope) -> int | None:
    """Value of a constant expression; None when it is not constant."""
    try:
        return Evaluator(_Constants(scope)).value(node, universe()).constant
    except NotAffine:
        return None
