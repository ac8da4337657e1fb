"""Microkernel pragmas: a call in place of loops (call form), or loops that stand for a call (loop form)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import islpy as isl
from pycparser import c_ast, c_generator

from polydl.base.errors import InputError
from polydl.frontend.lower.raw import RawAccess, RawArgument, RawCall, RawStatement
from polydl.frontend.lower.spaces import project_symbols
from polydl.frontend.meaning.affine import NotAffine, Value, number
from polydl.frontend.meaning.ctypes import LONG
from polydl.frontend.meaning.symbols import mentions

if TYPE_CHECKING:
    from polydl.frontend.lower.walk import Walker
    from polydl.frontend.text.pragmas import Pragma


def microkernel(walker: Walker, pragma: Pragma, node: Any) -> None:
    """A statement that a microkernel pragma stands before. Raises InputError."""
    fragment = walker.settings.unit.fragments.get(pragma.index)
    items = (
        []
        if fragment is None
        else [item for item in fragment.block_items or [] if not isinstance(item, c_ast.EmptyStatement)]
    )
    if pragma.kind == "call":
        if not isinstance(node, (c_ast.For, c_ast.Compound)):
            raise walker.places.error(
                "'microkernel call(...)' stands before something that is no loop",
                node,
                "put it before the loops",
                topic="microkernels",
            )
        if len(items) != 1 or not isinstance(items[0], c_ast.FuncCall):
            raise InputError(
                "the pragma holds no call",
                pragma.span,
                "write microkernel call(f(&A[i][0], &B[0][j], &C[i][j]))",
                topic="microkernels",
            )
        call, loops = items[0], [node]
    else:
        if not isinstance(node, c_ast.FuncCall):
            raise walker.places.error(
                "'microkernel loops(...)' stands before something that is no call",
                node,
                "put it before the call",
                topic="microkernels",
            )
        if not items or not all(isinstance(item, (c_ast.For, c_ast.Compound, c_ast.Assignment)) for item in items):
            raise InputError(
                "the pragma holds no loops",
                pragma.span,
                "write microkernel loops(for (...) C[i][j] += A[i][k] * B[k][j];)",
                topic="microkernels",
            )
        call, loops = node, items
    if not isinstance(call.name, c_ast.ID):
        raise walker.places.error(
            "the microkernel is called through an expression", call, "call it by its name", topic="microkernels"
        )
    before = dict(walker.environment)
    arguments = tuple(_argument(walker, argument) for argument in (call.args.exprs if call.args is not None else ()))
    inner = _inner(walker, loops, pragma.kind == "loops")
    walker.environment = {name: known for name, known in walker.environment.items() if before.get(name) is known}
    for name in before:
        walker.environment.setdefault(name, None)
    if inner is None:
        return
    body = RawCall(call.name.name, arguments, tuple(inner), "loops" if pragma.kind == "call" else "call", pragma.index)
    outer, domain = walker.domain, walker.domain
    if pragma.kind == "call":
        domain = _executed(walker, inner)
    walker.domain = domain
    try:
        walker.emit(_touched(walker, inner), body, call)
    finally:
        walker.domain = outer


def _inner(walker: Walker, loops: list[Any], fragment: bool) -> list[RawStatement] | None:
    """The statements of the equivalent loops; None when they have errors."""
    kept, walker.walked.statements = walker.walked.statements, []
    count = len(walker.errors)
    walker.in_fragment, was = fragment, walker.in_fragment
    next_position = walker.counters[-1]
    try:
        for loop in loops:
            walker.walk(loop)
    finally:
        inner, walker.walked.statements = walker.walked.statements, kept
        walker.in_fragment = was
        walker.counters[-1] = next_position
    if len(walker.errors) > count:
        walker.counters[-1] += 1
        return None
    if any(isinstance(statement.body, RawCall) for statement in inner):
        raise walker.places.error("a microkernel stands inside the loops of another", loops[0], topic="microkernels")
    if not inner:
        raise walker.places.error("the loops of this microkernel compute nothing", loops[0], topic="microkernels")
    return inner


def _executed(walker: Walker, inner: list[RawStatement]) -> isl.Set:
    """The outer iterations for which the loops do something."""
    depth = len(walker.loops)
    result = isl.Set.empty(walker.domain.get_space())
    for statement in inner:
        result = result.union(project_symbols(statement.domain, [loop.name for loop in statement.loops[depth:]]))
    result = result.coalesce()
    return walker.domain if walker.domain.is_subset(result) else result


def _touched(walker: Walker, inner: list[RawStatement]) -> tuple[RawAccess, ...]:
    """Every access of the loops: reads first, then writes; finish.py unites them per array."""
    accesses = [access for statement in inner for access in statement.accesses]
    return (*(a for a in accesses if not a.write), *(a for a in accesses if a.write))


def _argument(walker: Walker, node: Any) -> RawArgument:
    text = str(c_generator.CGenerator().visit(substituted(walker, node)))
    address = _address(walker, node)
    if address is not None:
        return RawArgument(text, address, None, node)
    try:
        return RawArgument(text, None, walker.evaluator.affine(node, walker.domain), node)
    except NotAffine:
        pass
    walker.values().expression(node, walker.domain)
    return RawArgument(text, None, None, node)


def _address(walker: Walker, node: Any) -> RawAccess | None:
    """The element that a pointer argument points at; None for a value."""
    values = walker.values()
    while isinstance(node, c_ast.Cast) and isinstance(node.to_type.type, c_ast.PtrDecl):
        node = node.expr
    if isinstance(node, c_ast.ArrayRef):
        base, depth = node, 0
        while isinstance(base, c_ast.ArrayRef):
            base, depth = base.name, depth + 1
        symbol = walker.data_symbol(base) if isinstance(base, c_ast.ID) else None
        if symbol is None or len(symbol.levels) <= depth:
            return None
    elif isinstance(node, c_ast.ID):
        symbol = walker.data_symbol(node)
        if symbol is None or not symbol.levels:
            return None
    elif (
        not isinstance(node, (c_ast.UnaryOp, c_ast.BinaryOp))
        or (isinstance(node, c_ast.UnaryOp) and node.op != "&")
        or (isinstance(node, c_ast.BinaryOp) and not values.is_pointer(node))
    ):
        return None
    symbol, subscripts, offset = values.address(node, walker.domain)
    given: list[Value] = [*subscripts, *([offset] if offset is not None else [])]
    given += [number(0, LONG)] * (len(symbol.levels) - len(given))
    return RawAccess(symbol, False, tuple(given), walker.domain, node)


def substituted(walker: Walker, node: Any) -> Any:
    """The expression with affine temporaries replaced by what they stand for. Raises InputError."""
    names = set(mentions(node)) & {name for name in walker.environment if name in walker.walked.temporaries}
    names -= {loop.name for loop, _ in walker.loops}
    if not names:
        return node
    return _replace(walker, copy.deepcopy(node), names)


def _replace(walker: Walker, node: Any, names: set[str]) -> Any:
    if isinstance(node, c_ast.ID) and node.name in names:
        known = walker.environment[node.name]
        return node if known is None or known[1] is None else known[1]
    for name in node.__slots__:
        child = getattr(node, name, None)
        if isinstance(child, c_ast.Node):
            setattr(node, name, _replace(walker, child, names))
        elif isinstance(child, list):
            setattr(node, name, [_replace(walker, c, names) if isinstance(c, c_ast.Node) else c for c in child])
    return node
