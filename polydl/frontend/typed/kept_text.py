"""Which statements are kept as text together, and what such text does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pycparser import c_ast

_LOOPS = c_ast.For | c_ast.While | c_ast.DoWhile


def every(node: c_ast.Node) -> Iterator[c_ast.Node]:
    """A node and all below it."""
    yield node
    for _, child in node.children():
        yield from every(child)


def leaves(node: c_ast.Node, loops: bool = False, switch: bool = False) -> bool:
    """Whether a statement may jump out of itself; `loops`, `switch`: a loop or switch of it is around the node."""
    match node:
        case c_ast.Return() | c_ast.Goto():
            return True
        case c_ast.Break():
            return not (loops or switch)
        case c_ast.Continue():
            return not loops
        case c_ast.For() | c_ast.While() | c_ast.DoWhile():
            loops, switch = True, False
        case c_ast.Switch():
            switch = True
    return any(leaves(child, loops, switch) for _, child in node.children())


def targets(node: c_ast.Node) -> set[str]:
    """The labels that the gotos of a statement name."""
    return {str(one.name) for one in every(node) if isinstance(one, c_ast.Goto)}


def runs(items: Sequence[c_ast.Node]) -> Iterator[tuple[int, int]]:
    """Statements of a block, as ranges [first, last]: one for each, but one for all that gotos join."""
    jumps = [
        {str(one.name) for one in every(item) if isinstance(one, c_ast.Goto | c_ast.Label)} if _jumps(item) else set()
        for item in items
    ]
    gotos = set().union(*(targets(item) for item in items))
    at = 0
    while at < len(items):
        last, reached = at, at
        while reached <= last:
            for label in jumps[reached] & gotos:
                last = max(last, *(number for number, names in enumerate(jumps) if label in names))
            reached += 1
        yield at, last
        at = last + 1


def _jumps(item: c_ast.Node) -> bool:
    return any(isinstance(one, c_ast.Goto | c_ast.Label) for one in every(item))


def names(node: c_ast.Node) -> Iterator[str]:
    """The names of variables that text mentions or declares, members left out."""
    if isinstance(node, c_ast.ID) or (isinstance(node, c_ast.Decl) and node.name is not None):
        yield str(node.name)
    for field, child in node.children():
        if not (isinstance(node, c_ast.StructRef) and field == "field"):
            yield from names(child)
