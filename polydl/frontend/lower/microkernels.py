"""Microkernel pragmas: a call in place of loops (call form), or loops that stand for a call (loop form)."""

from __future__ import annotations

from collections.abc import Sequence

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.loop_forms import statements
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.lower.raw import RawAccess, RawArgument, RawStatement
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, number
from polydl.frontend.text.places import Places
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.types import I64


def call_and_loops(
    pragma: Pragma, fragment: Node | None, node: Node, places: Places
) -> tuple[c_ast.FuncCall, list[Node]]:
    """The call and the equivalent loops, of which the pragma holds one and `node` is the other. Raises InputError."""
    items = [] if fragment is None else statements(fragment)
    in_place = pragma.kind == "call"
    if not isinstance(node, (c_ast.For, c_ast.Compound) if in_place else c_ast.FuncCall):
        why = f"'microkernel {pragma.kind}(...)' stands before something that is no {'loop' if in_place else 'call'}"
        hint = f"put it before the {'loops' if in_place else 'call'}"
        raise places.error(why, node, hint, topic="microkernels")
    loops: list[Node] = [node] if in_place else items
    call = node if not in_place else items[0] if len(items) == 1 else None
    if not isinstance(call, c_ast.FuncCall):
        hint = "write microkernel call(f(&A[i][0], &B[0][j], &C[i][j]))"
        raise InputError("the pragma holds no call", pragma.span, hint, topic="microkernels")
    if not loops or not all(isinstance(item, (c_ast.For, c_ast.Compound, c_ast.Assignment)) for item in loops):
        hint = "write microkernel loops(for (...) C[i][j] += A[i][k] * B[k][j];)"
        raise InputError("the pragma holds no loops", pragma.span, hint, topic="microkernels")
    if not isinstance(call.name, c_ast.ID):
        raise places.error(
            "the microkernel is called through an expression", call, "call it by its name", topic="microkernels"
        )
    return call, loops


def executed(inner: Sequence[RawStatement], domain: isl.Set, depth: int) -> isl.Set:
    """The iterations of `domain`, which has `depth` loops, for which the equivalent loops do something."""
    result = isl.Set.empty(domain.get_space())
    for statement in inner:
        result = result.union(isl.some_values(statement.domain, [loop.name for loop in statement.loops[depth:]]))
    result = result.coalesce()
    return domain if domain.is_subset(result) else result


def touched(inner: Sequence[RawStatement]) -> tuple[RawAccess, ...]:
    """Every access of the loops: reads first, then writes; finish.py unites them per array."""
    accesses = [access for statement in inner for access in statement.accesses]
    return (*(a for a in accesses if not a.write), *(a for a in accesses if a.write))


def argument(state: State, node: Node) -> RawArgument:
    """An argument of the call: a place in an array, an affine value, or another value. Raises InputError."""
    expression = state.substituted(node)
    if expression is None:
        raise state.places.error(
            "the argument has a value that a loop or a condition left behind, for which there is no expression",
            node,
            "compute it from the bounds of the loops",
            topic="microkernels",
        )
    text = written(expression)
    address = _address(state, node)
    if address is not None:
        return RawArgument(text, address, None, node)
    try:
        return RawArgument(text, None, state.evaluator.affine(node, state.domain), node)
    except NotAffine:
        pass
    state.values().expression(node, state.domain)
    return RawArgument(text, None, None, node)


def _address(state: State, node: Node) -> RawAccess | None:
    """The element that a pointer argument points at; None for a value."""
    values = state.values()
    while isinstance(node, c_ast.Cast) and isinstance(node.to_type.type, c_ast.PtrDecl):
        node = node.expr
    read = isinstance(node, c_ast.UnaryOp) and node.op == "*"
    if read or not values.is_pointer(node):
        return None
    symbol, subscripts, offset = values.address(node, state.domain)
    subscript_list: list[Value] = [*subscripts, *([offset] if offset is not None else [])]
    subscript_list += [number(0, I64)] * (len(symbol.levels) - len(subscript_list))
    return RawAccess(symbol, False, tuple(subscript_list), state.domain, node)
