"""Structures that are used as a whole, member by member: copies, and variables of the region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from pycparser import c_ast
from pycparser.c_ast import Node
from pycparser.c_parser import Coord

from polydl.frontend.meaning.records import Leaf, Records

MOST_MEMBERS = 32
"""Numbers in a structure up to which it is taken apart."""


def places(leaf: Leaf) -> Iterator[tuple[int, ...]]:
    """The subscripts of a member's numbers; `()` of one that is no array."""
    yield from product(*(range(extent) for extent in leaf.dims))


def member_at(structure: Node, leaf: Leaf, at: Sequence[int], coord: Coord | None) -> Node:
    """The expression `structure.pos[1]`."""
    node = structure
    for name in leaf.path.split(".")[1:]:
        node = c_ast.StructRef(node, ".", c_ast.ID(name, coord), coord)
    for subscript in at:
        node = c_ast.ArrayRef(node, c_ast.Constant("int", str(subscript), coord), coord)
    return node


def copied(records: Records, type_: Node, target: Node, value: Node) -> Node | None:
    """`target = value` of structures as one assignment for each number; None where there are too many, or not only
    numbers. Raises Unknown."""
    leaves = list(records.leaves(type_))
    if any(leaf.pointer for leaf in leaves) or sum(leaf.count for leaf in leaves) > MOST_MEMBERS:
        return None
    made = [
        c_ast.Assignment(
            "=",
            member_at(target, leaf, at, target.coord),
            member_at(value, leaf, at, value.coord),
            target.coord,
        )
        for leaf in leaves
        for at in places(leaf)
    ]
    return c_ast.Compound(made, target.coord)


def given(records: Records, type_: Node, values: c_ast.InitList) -> dict[str, Node | None] | None:
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
