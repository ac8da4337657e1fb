"""Parts of pycparser's trees that the front end asks for and makes everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycparser import c_ast, c_generator
from pycparser.c_ast import Node
from pycparser.c_parser import Coord

from polydl.frontend.core.node_copies import mapped


def items_of(node: Node | None) -> list[Node]:
    """The statements of a block; of another statement, itself."""
    if isinstance(node, c_ast.Compound):
        return list(node.block_items or ())
    return [] if node is None else [node]


def indexed(node: Node) -> tuple[str, list[Node]]:
    """The name and the subscripts of an element, `a[i][j]`, or of a scalar; an empty name where it is something else
    that is subscripted."""
    subscripts: list[Node] = []
    while isinstance(node, c_ast.ArrayRef):
        subscripts.insert(0, node.subscript)
        node = node.name
    return (str(node.name) if isinstance(node, c_ast.ID) else ""), subscripts


def summands(node: Node, op: str = "+") -> list[Node]:
    """What an operator joins, in order."""
    if isinstance(node, c_ast.BinaryOp) and node.op == op:
        return [*summands(node.left, op), *summands(node.right, op)]
    return [node]


def replaced(node: Node, known: Mapping[str, Node]) -> Node:
    """A copy of a tree with expressions in the place of names."""
    if isinstance(node, c_ast.ID) and node.name in known:
        return known[node.name]
    return mapped(node, lambda inner: replaced(inner, known))


def assigned_value(node: c_ast.Assignment) -> Node:
    """What an assignment stores: `x + 1` of `x += 1`."""
    return node.rvalue if node.op == "=" else c_ast.BinaryOp(node.op[:-1], node.lvalue, node.rvalue, node.coord)


def negated(condition: Node) -> Node:
    """The opposite of a condition."""
    if isinstance(condition, c_ast.UnaryOp) and condition.op == "!":
        return condition.expr
    return c_ast.UnaryOp("!", condition, condition.coord)


def text_of(node: Node) -> str:
    """C text of a tree."""
    return str(c_generator.CGenerator().visit(node))


def integer(number: int | str, at: Coord | None = None) -> c_ast.Constant:
    """A literal of type int."""
    return c_ast.Constant("int", str(number), at)


def type_named(words: str, name: str | None = None, quals: Sequence[str] = ()) -> c_ast.TypeDecl:
    """An arithmetic type, `unsigned int`, as the declaration of something of it has it."""
    return c_ast.TypeDecl(name, list(quals), None, c_ast.IdentifierType(words.split()))


def declaration(type_: Node, name: str, value: Node | None = None, at: Coord | None = None) -> c_ast.Decl:
    """`type name = value`, with the qualifiers of the type."""
    return c_ast.Decl(name, list(getattr(type_, "quals", None) or ()), [], [], [], type_, value, None, at)


def counting(words: str, name: str, last: Node, body: Node, at: Coord | None = None) -> c_ast.For:
    """`for (type name = 0; name < last; name++) body`"""
    variable = c_ast.ID(name, at)
    first = c_ast.DeclList([declaration(type_named(words, name), name, integer(0, at), at)], at)
    return c_ast.For(first, c_ast.BinaryOp("<", variable, last, at), c_ast.UnaryOp("p++", variable, at), body, at)
