"""Conditions that only leave out products with zero.

    if (A[i][k] == 0) continue;
    for (int j = 0; j < N; j++)
        C[i][j] += A[i][k] * B[k][j];

Adding such a product changes no integer. Of floats it changes what is not finite, and the sign of a zero: these
conditions are dropped with leave to take such values for others (`--fast-math`) alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.tree_parts import indexed, items_of, text_of
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.liveness import changed_names, stored_names
from polydl.frontend.meaning.symbols import Symbol, mentions
from polydl.model.combiners import adds
from polydl.model.scop import Storage
from polydl.model.types import F32, F64, ElementType, literal_value


def unskipped(node: c_ast.If, state: State) -> Node | None:
    """What an `if` runs, where it does the same with the condition as without; None for any other `if`."""
    tested = _not_zero(node.cond) if node.iffalse is None else None
    return node.iftrue if tested is not None and _adds_nothing(tested, node, node.iftrue, state) else None


def without_continue(body: Node, state: State) -> Node | None:
    """The body of a loop without the `continue` that leaves out products with zero; None for any other body."""
    items = list(body.block_items or ()) if isinstance(body, c_ast.Compound) else []
    for place, item in enumerate(items):
        if isinstance(item, c_ast.If):
            tested = _zero(item.cond) if item.iffalse is None and _continues(item.iftrue) else None
            rest = c_ast.Compound(items[place + 1 :], body.coord)
            with state.scoped():
                for declared in items[:place]:
                    if isinstance(declared, c_ast.Decl):
                        state.scope.declare(declared, Storage.REGION, constant)
                if tested is None or not _adds_nothing(tested, item, rest, state):
                    return None
            return c_ast.Compound([*items[:place], rest], body.coord)
    return None


def _continues(node: Node) -> bool:
    items = items_of(node)
    return isinstance(node, c_ast.Continue) or (len(items) == 1 and items[0] is not node and _continues(items[0]))


def _not_zero(condition: Node) -> Node | None:
    """x of `x`, `x != 0` and `!(x == 0)`; None for other conditions."""
    match condition:
        case c_ast.BinaryOp(op="!="):
            return _beside_zero(condition)
        case c_ast.UnaryOp(op="!"):
            return _zero(condition.expr)
        case c_ast.ID() | c_ast.ArrayRef():
            return condition
    return None


def _zero(condition: Node) -> Node | None:
    """x of `x == 0` and `!x`; None for other conditions."""
    match condition:
        case c_ast.BinaryOp(op="=="):
            return _beside_zero(condition)
        case c_ast.UnaryOp(op="!"):
            return _not_zero(condition.expr)
    return None


def _beside_zero(condition: c_ast.BinaryOp) -> Node | None:
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if (
            isinstance(one, c_ast.ID | c_ast.ArrayRef)
            and isinstance(other, c_ast.Constant)
            and literal_value(other.value) == 0
        ):
            return one
    return None


def _adds_nothing(tested: Node, asking: Node, body: Node, state: State) -> bool:
    """Whether the code at `body` does nothing where `tested` is zero but add products with it; notes what is taken for
    granted with that, and the stores that would not have happened."""
    if id(asking) in state.settings.kept or (changed_names(body) | stored_names(body)) & set(mentions(tested)):
        return False
    several = list(_statements(body, state))
    found = [one for one in several if one is not None and _is_product(tested, one)]
    if not found or len(found) < len(several):
        return False
    types = {_type(place, state) for one in found for place in (one.lvalue, *_places(one.rvalue))}
    if state.settings.fast_math and types <= {F32, F64}:
        span = state.places.span(asking)
        where = "the region" if span is None else f"line {span.line}"
        granted = f"what {where} leaves out where '{text_of(tested)}' is 0 would change nothing (--fast-math)"
        state.walked.granted.setdefault(granted)
        return True
    # An element that was left out might lie outside of its array; a third factor might overflow with the second.
    inside = all(_inside(place, state) for one in found for place in (one.lvalue, *_places(one.rvalue)))
    whole = all(element is not None and element.is_int for element in types)
    if not inside or not whole or any(len(list(_factors(one.rvalue))) > 2 for one in found):
        return False
    state.walked.stores.update((id(one), (one, asking)) for one in found)
    return True


def _statements(node: Node, state: State) -> Iterator[c_ast.Assignment | None]:
    """The assignments in loops and blocks; None for anything else."""
    match node:
        case c_ast.Compound():
            for item in node.block_items or ():
                yield from _statements(item, state)
        case c_ast.For(init=c_ast.DeclList()):
            yield from _statements(node.stmt, state)
        case c_ast.For(init=c_ast.Assignment(lvalue=c_ast.ID(name=name))) if name not in state.settings.escaping:
            yield from _statements(node.stmt, state)
        case c_ast.Assignment() if adds(node.op):
            yield node
        case c_ast.EmptyStatement():
            pass
        case _:
            yield None


def _is_product(tested: Node, one: c_ast.Assignment) -> bool:
    """Whether an assignment adds a product of which `tested` is a factor."""
    factors = list(_factors(one.rvalue))
    return text_of(tested) in {"" if factor is None else text_of(factor) for factor in factors} and None not in factors


def _factors(value: Node) -> Iterator[Node | None]:
    """The factors of a product; None for one that is neither a place in memory nor a literal."""
    match value:
        case c_ast.BinaryOp(op="*"):
            yield from _factors(value.left)
            yield from _factors(value.right)
        case c_ast.Cast():
            yield from _factors(value.expr)
        case c_ast.ID() | c_ast.ArrayRef() | c_ast.Constant():
            yield value
        case _:
            yield None


def _places(value: Node) -> list[Node]:
    """The factors of a product that are no literals."""
    return [one for one in _factors(value) if one is not None and not isinstance(one, c_ast.Constant)]


def _symbol(place: Node, state: State) -> Symbol | None:
    return state.scope.find(indexed(place)[0])


def _type(place: Node, state: State) -> ElementType | None:
    symbol = _symbol(place, state)
    return symbol.ctype if symbol is not None and isinstance(symbol.ctype, ElementType) else None


def _inside(place: Node, state: State) -> bool:
    """Whether it is known how many elements there are, so that it is known that this is one of them."""
    symbol = _symbol(place, state)
    return symbol is not None and all(level.extent is not None for level in symbol.levels)
