"""Microkernel pragmas: a call in place of loops (call form), or loops that stand for a call (loop form)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import islpy as isl
from pycparser import c_ast, c_generator

from polydl.errors import InputError
from polydl.frontend.affine import NotAffine, Value, number
from polydl.frontend.ctypes import LONG
from polydl.frontend.raw import RawAccess, RawArgument, RawCall, RawStatement
from polydl.frontend.spaces import project_symbols
from polydl.frontend.symbols import mentions

if TYPE_CHECKING:
    from polydl.frontend.pragmas import Pragma
    from polydl.frontend.walk import Walker


class MicrokernelWalk:
    """The part of the walk that reads microkernel pragmas."""

    def microkernel(self: Walker, pragma: Pragma, node: Any) -> None:
        """A statement that a microkernel pragma stands before. Raises InputError."""
        fragment = self.settings.unit.fragments.get(pragma.index)
        items = [] if fragment is None else [
            item for item in fragment.block_items or [] if not isinstance(item, c_ast.EmptyStatement)
        ]
        if pragma.kind == "call":
            if not isinstance(node, (c_ast.For, c_ast.Compound)):
                raise self.places.error(
                    "'microkernel call(...)' stands before something that is no loop", node, "put it before the loops"
                )
            if len(items) != 1 or not isinstance(items[0], c_ast.FuncCall):
                raise InputError(
                    "the pragma holds no call", pragma.span, "write microkernel call(f(&A[i][0], &B[0][j], &C[i][j]))"
                )
            call, loops = items[0], [node]
        else:
            if not isinstance(node, c_ast.FuncCall):
                raise self.places.error(
                    "'microkernel loops(...)' stands before something that is no call", node, "put it before the call"
                )
            if not items or not all(isinstance(item, (c_ast.For, c_ast.Compound, c_ast.Assignment)) for item in items):
                raise InputError(
                    "the pragma holds no loops",
                    pragma.span,
                    "write microkernel loops(for (...) C[i][j] += A[i][k] * B[k][j];)",
                )
            call, loops = node, items
        if not isinstance(call.name, c_ast.ID):
            raise self.places.error("the microkernel is called through an expression", call, "call it by its name")
        before = dict(self.environment)
        arguments = tuple(self._argument(argument) for argument in (call.args.exprs if call.args is not None else ()))
        inner = self._inner(loops, pragma.kind == "loops")
        self.environment = {name: known for name, known in self.environment.items() if before.get(name) is known}
        for name in before:
            self.environment.setdefault(name, None)
        if inner is None:
            return
        body = RawCall(call.name.name, arguments, tuple(inner), "loops" if pragma.kind == "call" else "call", pragma.index)
        outer, domain = self.domain, self.domain
        if pragma.kind == "call":
            domain = self._executed(inner)
        self.domain = domain
        try:
            self.emit(self._touched(inner), body, call)
        finally:
            self.domain = outer

    def _inner(self: Walker, loops: list[Any], fragment: bool) -> list[RawStatement] | None:
        """The statements of the equivalent loops; None when they have errors."""
        kept, self.walked.statements = self.walked.statements, []
        count = len(self.errors)
        self._in_fragment, was = fragment, self._in_fragment
        next_position = self._next[-1]
        try:
            for loop in loops:
                self.walk(loop)
        finally:
            inner, self.walked.statements = self.walked.statements, kept
            self._in_fragment = was
            self._next[-1] = next_position
        if len(self.errors) > count:
            self._next[-1] += 1
            return None
        if any(isinstance(statement.body, RawCall) for statement in inner):
            raise self.places.error("a microkernel stands inside the loops of another", loops[0])
        if not inner:
            raise self.places.error("the loops of this microkernel compute nothing", loops[0])
        return inner

    def _executed(self: Walker, inner: list[RawStatement]) -> isl.Set:
        """The outer iterations for which the loops do something."""
        depth = len(self.loops)
        result = isl.Set.empty(self.domain.get_space())
        for statement in inner:
            result = result.union(project_symbols(statement.domain, [loop.name for loop in statement.loops[depth:]]))
        result = result.coalesce()
        return self.domain if self.domain.is_subset(result) else result

    def _touched(self: Walker, inner: list[RawStatement]) -> tuple[RawAccess, ...]:
        """Every access of the loops: reads first, then writes; finish.py unites them per array."""
        accesses = [access for statement in inner for access in statement.accesses]
        return (*(a for a in accesses if not a.write), *(a for a in accesses if a.write))

    def _argument(self: Walker, node: Any) -> RawArgument:
        text = str(c_generator.CGenerator().visit(self.substituted(node)))
        address = self._address(node)
        if address is not None:
            return RawArgument(text, address, None, node)
        try:
            return RawArgument(text, None, self.evaluator.affine(node, self.domain), node)
        except NotAffine:
            pass
        self.values().expression(node, self.domain)
        return RawArgument(text, None, None, node)

    def _address(self: Walker, node: Any) -> RawAccess | None:
        """The element that a pointer argument points at; None for a value."""
        values = self.values()
        while isinstance(node, c_ast.Cast) and isinstance(node.to_type.type, c_ast.PtrDecl):
            node = node.expr
        if isinstance(node, c_ast.ArrayRef):
            base, depth = node, 0
            while isinstance(base, c_ast.ArrayRef):
                base, depth = base.name, depth + 1
            symbol = self.data_symbol(base) if isinstance(base, c_ast.ID) else None
            if symbol is None or len(symbol.levels) <= depth:
                return None
        elif isinstance(node, c_ast.ID):
            symbol = self.data_symbol(node)
            if symbol is None or not symbol.levels:
                return None
        elif not isinstance(node, (c_ast.UnaryOp, c_ast.BinaryOp)) or (
            isinstance(node, c_ast.UnaryOp) and node.op != "&"
        ):
            return None
        elif isinstance(node, c_ast.BinaryOp) and not values.is_pointer(node):
            return None
        symbol, subscripts, offset = values.address(node, self.domain)
        given: list[Value] = [*subscripts, *([offset] if offset is not None else [])]
        given += [number(0, LONG)] * (len(symbol.levels) - len(given))
        return RawAccess(symbol, False, tuple(given), self.domain, node)

    def substituted(self: Walker, node: Any) -> Any:
        """The expression with affine temporaries replaced by what they stand for. Raises InputError."""
        names = set(mentions(node)) & {name for name in self.environment if name in self.walked.temporaries}
        names -= {loop.name for loop, _ in self.loops}
        if not names:
            return node
        return self._replace(copy.deepcopy(node), names)

    def _replace(self: Walker, node: Any, names: set[str]) -> Any:
        if isinstance(node, c_ast.ID) and node.name in names:
            known = self.environment[node.name]
            return node if known is None or known[1] is None else known[1]
        for name in node.__slots__:
            child = getattr(node, name, None)
            if isinstance(child, c_ast.Node):
                setattr(node, name, self._replace(child, names))
            elif isinstance(child, list):
                setattr(node, name, [self._replace(c, names) if isinstance(c, c_ast.Node) else c for c in child])
        return node
