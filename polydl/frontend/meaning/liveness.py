"""Which scalars a piece of C assigns, and whether a value from before it may be read in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.symbols import mentions, nodes


class Effect(Enum):
    """What code does to the value that a variable has before it."""

    NONE = "none"
    """Neither reads it nor surely overwrites it."""
    KILLS = "kills"
    """Overwrites it before any read, on every path."""
    READS = "reads"
    """May read it."""


def assigned_names(node: Node) -> frozenset[str]:
    """Scalars (plain identifiers) that a subtree assigns to, increments, declares or takes the address of."""
    return frozenset(_collected(node, True))


def changed_names(node: Node) -> frozenset[str]:
    """Scalars that a subtree assigns to, increments or takes the address of; initialisers do not count."""
    return frozenset(_collected(node, False))


def stored_names(root: Node) -> frozenset[str]:
    """Names of what a subtree may store something in, itself or through pointers that it declares; initialisers do not
    count."""
    found: set[str] = set()
    pointers: list[c_ast.Decl] = []
    for node in nodes(root):
        target = None
        if isinstance(node, c_ast.Assignment):
            target = node.lvalue
        elif isinstance(node, c_ast.UnaryOp) and node.op in _CHANGES:
            target = node.expr
        elif isinstance(node, c_ast.FuncCall):
            target = node.args  # of a microkernel, whose loops stand in a pragma
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.PtrDecl):
            pointers.append(node)
        found |= set(_bases(target)) if target is not None else set()
    for pointer in reversed(pointers):  # one may be given another that is declared before it
        if pointer.name in found and pointer.init is not None:
            found |= set(_bases(pointer.init))
    return frozenset(found)


def given_values(root: Node, name: str) -> Iterator[Node]:
    """What a subtree gives to a scalar, or adds to it and so on; itself where its address is taken."""
    for node in nodes(root):
        match node:
            case c_ast.Assignment(lvalue=c_ast.ID(name=given), rvalue=value) if given == name:
                yield value
            case c_ast.Decl(name=given, init=c_ast.Node() as value) if given == name:
                yield value
            case c_ast.UnaryOp(op="&", expr=c_ast.ID(name=given)) if given == name:
                yield node


def _bases(place: Node) -> Iterator[str]:
    """Names that may be the array or pointer which an lvalue or a pointer expression leads to."""
    while isinstance(place, c_ast.ArrayRef):
        place = place.name
    if isinstance(place, c_ast.ID):
        yield place.name
    for part in place:
        yield from _bases(part)


def _collected(root: Node, declared: bool) -> Iterator[str]:
    for node in nodes(root):
        if isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID):
            yield node.lvalue.name
        elif isinstance(node, c_ast.UnaryOp) and node.op in _CHANGES and isinstance(node.expr, c_ast.ID):
            yield node.expr.name
        elif declared and isinstance(node, c_ast.Decl) and node.name is not None:
            yield node.name


_CHANGES = ("p++", "p--", "++", "--", "&")
"""Operators that change their operand, or may let others change it."""


def has_address_taken(root: Node, name: str) -> bool:
    """Whether a subtree takes the address of a scalar."""
    return any(isinstance(n, c_ast.UnaryOp) and n.op == "&" and name in mentions(n.expr) for n in nodes(root))


def mentioned_apart(node: Node, apart: Iterable[Node], name: str) -> bool:
    """Whether a subtree mentions a name anywhere but in some of its parts and where it is declared."""
    parts = {id(part) for part in apart}
    return any(isinstance(at, c_ast.ID) and at.name == name for at in nodes(node, lambda at: id(at) in parts))


class Beyond(c_ast.EmptyStatement):
    """Where a `break` or `continue` before it may go on."""


def effect(nodes: Iterable[Node | None], name: str) -> Effect:
    """What a sequence of statements does to the value that `name` has before it. Jumps make any mention a read."""
    items = [node for node in nodes if node is not None]
    for at, node in enumerate(items):
        targets = [k for k in range(at + 1, len(items)) if isinstance(items[k], Beyond)] if leaves(node) else []
        if any(effect(items[k:], name) is Effect.READS for k in targets):
            return Effect.READS
        one = _effect(node, name)
        if one is not Effect.NONE:
            return one
    return Effect.NONE


def _effect(node: Node, name: str) -> Effect:
    match node:
        case c_ast.Compound():
            items = list(node.block_items or [])
            for at, item in enumerate(items):
                if isinstance(item, c_ast.Decl) and item.name == name:
                    before = effect([*items[:at], item.init], name)
                    # from here on the name means something else
                    return before
            return effect(items, name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=target)) if target == name:
            return Effect.READS if effect([node.rvalue], name) is Effect.READS else Effect.KILLS
        case c_ast.If():
            first = effect([node.cond], name)
            if first is not Effect.NONE:
                return first
            return _either(effect([node.iftrue], name), effect([node.iffalse], name))
        case c_ast.For() | c_ast.While() | c_ast.DoWhile():
            return _of_loop(node, name)
        case c_ast.Decl():
            return effect([node.init], name)
        case c_ast.DeclList() | c_ast.ExprList():
            return effect([child for _, child in node.children()], name)
        case c_ast.Return():
            # nothing of the function runs after it
            return Effect.READS if name in mentions(node) else Effect.KILLS
    return Effect.READS if name in mentions(node) else Effect.NONE


def _of_loop(node: c_ast.For | c_ast.While | c_ast.DoWhile, name: str) -> Effect:
    """What a loop does; the body of a `do` loop surely runs."""
    if isinstance(node, c_ast.DoWhile):
        inside = effect([node.stmt, node.cond], name)
        return Effect.NONE if inside is Effect.KILLS and leaves(node.stmt) else inside
    init = node.init if isinstance(node, c_ast.For) else None
    if isinstance(init, c_ast.DeclList) and any(decl.name == name for decl in init.decls):
        return effect([decl.init for decl in init.decls], name)
    first = effect([init, node.cond], name)
    if first is not Effect.NONE:
        return first
    inside = effect([node.stmt, node.next if isinstance(node, c_ast.For) else None], name)
    return Effect.READS if inside is Effect.READS else Effect.NONE


def _either(one: Effect, other: Effect) -> Effect:
    if Effect.READS in (one, other):
        return Effect.READS
    return one if one is other else Effect.NONE


def returns(root: Node) -> bool:
    """Whether a subtree holds a return."""
    return any(isinstance(node, c_ast.Return) for node in nodes(root))


def jumps(root: Node) -> bool:
    """Whether a subtree holds a goto or a label."""
    return any(isinstance(node, (c_ast.Goto, c_ast.Label)) for node in nodes(root))


def leaves(node: Node) -> bool:
    """Whether a loop body holds a break or continue of its own loop."""
    if isinstance(node, (c_ast.Break, c_ast.Continue)):
        return True
    if isinstance(node, (c_ast.For, c_ast.While, c_ast.DoWhile)):
        return False
    if isinstance(node, c_ast.Switch):
        return continues(node.stmt)
    return any(leaves(child) for child in node)


def continues(root: Node) -> bool:
    """Whether the body of a switch holds a continue of the loop around it."""
    own = nodes(root, lambda node: isinstance(node, (c_ast.For, c_ast.While, c_ast.DoWhile)))
    return any(isinstance(node, c_ast.Continue) for node in own)
