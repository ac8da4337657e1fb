"""Expressions and declarations with members of structures, and structures that are used as a whole."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from pycparser import c_ast, c_generator
from pycparser.c_ast import Node
from pycparser.c_parser import Coord

from polydl.base.records import dataclass
from polydl.frontend.meaning.records import Leaf, Records

MOST_MEMBERS = 32
"""Numbers in a structure up to which it is taken apart."""


class Slot(c_ast.ArrayRef):
    """The element that a member of an array of structures became; `spelled` is the member as it was written."""

    spelled: Node


class Row(c_ast.Decl):
    """The declaration that one of a pointer to a structure became, for members of one type; `spelled` is the one that
    was written."""

    spelled: c_ast.Decl


@dataclass(frozen=True, slots=True)
class Step:
    """What stands behind a name: a member (`.`, `->`) or a subscript (`[]`)."""

    kind: str
    what: Any
    """The member's name, or the subscript."""
    node: Node


def unwound(node: Node) -> tuple[Node, list[Step]]:
    """The name that members and subscripts stand behind, and these in order. A name alone has none."""
    steps: list[Step] = []
    while True:
        match node:
            case c_ast.ArrayRef():
                steps.append(Step("[]", node.subscript, node))
                node = node.name
            case c_ast.UnaryOp(op="*", expr=c_ast.BinaryOp(op="+", left=left, right=right)):
                steps.append(Step("[]", right, node))
                node = left
            case c_ast.UnaryOp(op="*"):
                steps.append(Step("[]", c_ast.Constant("int", "0", node.coord), node))
                node = node.expr
            case c_ast.StructRef(type="->", name=c_ast.UnaryOp(op="&", expr=inner)):
                steps.append(Step(".", node.field.name, node))
                node = inner
            case c_ast.StructRef(type="->", name=c_ast.BinaryOp(op="+", left=left, right=right)):
                steps += [Step(".", node.field.name, node), Step("[]", right, node)]
                node = left
            case c_ast.StructRef(type=".", name=c_ast.UnaryOp(op="*", expr=c_ast.ID() as inner)):
                steps.append(Step("->", node.field.name, node))
                node = inner
            case c_ast.StructRef():
                steps.append(Step(node.type, node.field.name, node))
                node = node.name
            case _:
                return node, steps[::-1]


def element_at(node: Node) -> Node:
    """The element that a pointer expression points at: `p[i]` for `&p[i]` and `p + i`."""
    match node:
        case c_ast.UnaryOp(op="&"):
            return node.expr
        case c_ast.BinaryOp(op="+"):
            return c_ast.ArrayRef(node.left, node.right, node.coord)
        case _:
            return c_ast.ArrayRef(node, c_ast.Constant("int", "0", node.coord), node.coord)


def is_qualified(node: Node, word: str = "const") -> bool:
    """Whether a type is qualified, as it is declared."""
    while isinstance(node, (c_ast.ArrayDecl, c_ast.TypeDecl, c_ast.Typename)):
        if isinstance(node, (c_ast.TypeDecl, c_ast.Typename)):
            return word in (node.quals or [])
        node = node.type
    return isinstance(node, c_ast.PtrDecl) and word in (node.quals or [])


def renamed(type_: Node, name: str) -> Node:
    """A copy of a type that declares another name."""
    made = copy.deepcopy(type_)
    inner: Any = made
    while not isinstance(inner, c_ast.TypeDecl):
        inner = inner.type
    inner.declname = name
    return made


def make_const(type_: Any) -> None:
    """Make the elements of a type const."""
    while not isinstance(type_, c_ast.TypeDecl):
        type_ = type_.type
    if "const" not in (type_.quals or []):
        type_.quals = ["const", *(type_.quals or [])]


def bare(node: c_ast.Decl) -> Node:
    """A declaration without storage class, initialiser, and qualifiers of the variable itself."""
    type_ = copy.deepcopy(node.type)
    if isinstance(type_, (c_ast.PtrDecl, c_ast.TypeDecl)):
        type_.quals = []
    return c_ast.Decl(node.name, [], [], [], [], type_, None, None)


def _places(leaf: Leaf) -> Iterator[tuple[int, ...]]:
    """The subscripts of a member's numbers; `()` of one that is no array."""
    yield from product(*(range(extent) for extent in leaf.dims))


def _member_at(structure: Node, leaf: Leaf, at: Sequence[int], coord: Coord | None) -> Node:
    """The expression `structure.pos[1]`."""
    node = structure
    for name in leaf.path.split(".")[1:]:
        node = c_ast.StructRef(node, ".", c_ast.ID(name, coord), coord)
    for subscript in at:
        node = c_ast.ArrayRef(node, c_ast.Constant("int", str(subscript), coord), coord)
    return node


def copied_apart(records: Records, type_: Node, target: Node, value: Node) -> Node | None:
    """`target = value` of structures as one assignment for each number; None where there are too many, or not only
    numbers. Raises Unknown."""
    leaves = list(records.leaves(type_))
    if any(leaf.pointer for leaf in leaves) or sum(leaf.count for leaf in leaves) > MOST_MEMBERS:
        return None
    made = [
        c_ast.Assignment(
            "=",
            _member_at(target, leaf, at, target.coord),
            _member_at(value, leaf, at, value.coord),
            target.coord,
        )
        for leaf in leaves
        for at in _places(leaf)
    ]
    return c_ast.Compound(made, target.coord)


def given_apart(records: Records, type_: Node, values: c_ast.InitList) -> dict[str, Node | None] | None:
    """What an initialiser in braces gives to the members of a structure, by their paths, None to those that it leaves
    out (they are 0); None where it is of another form. Raises Unknown."""
    leaves = list(records.leaves(type_))
    found: dict[str, Node | None] = {leaf.path: None for leaf in leaves}
    if any(leaf.pointer or leaf.dims for leaf in leaves) or len(values.exprs) > len(leaves):
        return None
    for leaf, value in zip(leaves, values.exprs, strict=False):
        match value:
            case c_ast.NamedInitializer(name=[c_ast.ID(name=name)]) if f".{name}" in found:
                found[f".{name}"] = value.expr
            case c_ast.NamedInitializer() | c_ast.InitList():
                return None
            case _ if any(isinstance(one, c_ast.NamedInitializer) for one in values.exprs):
                return None
            case _:
                found[leaf.path] = value
    return found


class _Writer(c_generator.CGenerator):
    def visit_Slot(self, node: Slot) -> str:  # noqa: N802  (pycparser's name for it)
        return str(self.visit(node.spelled))

    def visit_Row(self, node: Row, no_type: bool = False) -> str:  # noqa: N802
        return str(self.visit_Decl(node.spelled, no_type))

    def visit_Compound(self, node: c_ast.Compound) -> str:  # noqa: N802
        # A pointer is declared once, whatever it points to was taken apart into.
        items = node.block_items or []
        kept = {id(item.spelled) if isinstance(item, Row) else id(item): item for item in items}
        return str(super().visit_Compound(c_ast.Compound([*kept.values()], node.coord)))


def written(node: Node) -> str:
    """C text of a node, members as they were written."""
    return str(_Writer().visit(node))
