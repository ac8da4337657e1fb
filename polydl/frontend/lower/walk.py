"""The walk over a region: C statements -> raw statements with domains, positions and accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.evolution import merged
from polydl.frontend.lower import microkernels, segments, written_out
from polydl.frontend.lower.inlined import Expanded
from polydl.frontend.lower.iterations import Iterations
from polydl.frontend.lower.member_nodes import Row
from polydl.frontend.lower.raw import RawCall
from polydl.frontend.meaning.affine import NotAffine, constant, tidy
from polydl.frontend.meaning.ctypes import VOID
from polydl.frontend.meaning.liveness import leaves
from polydl.frontend.meaning.lookup import Settings
from polydl.frontend.text.pragmas import Pragma
from polydl.model.scop import Storage
from polydl.model.types import literal_value

_REFUSED = {
    c_ast.Goto: ("'goto' leaves the structured control flow of the scop", "use for, if and else"),
    c_ast.Label: ("a label lets control enter the scop in the middle", "use for, if and else"),
    c_ast.Break: ("'break' makes the number of iterations depend on data", "move the condition into the loop bound"),
    c_ast.Continue: ("'continue' is not supported in a scop", "use if and else"),
    c_ast.Return: ("'return' leaves the scop early", "move it behind the region"),
}


class Walker(Iterations):
    """One walk over one region. Errors are collected: a bad statement does not hide the next one."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._handlers: dict[type, Callable[[Any], None]] = {
            c_ast.Compound: self._compound,
            Expanded: self._compound,
            c_ast.For: self._loop,
            c_ast.While: self._loop,
            c_ast.DoWhile: self._do,
            c_ast.If: self._if,
            c_ast.Decl: self._declaration,
            Row: self._declaration,
            c_ast.FuncCall: self._call,
        }
        self.begin_parameters()

    def walk(self, node: Node) -> None:
        """Walk one statement, collecting its errors."""
        try:
            self._statement(node)
        except NotAffine as error:
            self.errors.append(self.values().not_affine("expression", error, node))
        except InputError as error:
            self.errors.append(error)

    def _statement(self, node: Node) -> None:
        if isinstance(node, c_ast.Pragma):
            self._pragma(node)
            return
        if self.pending is not None and not isinstance(node, c_ast.EmptyStatement):
            pragma, self.pending = self.pending, None
            self._microkernel(pragma, node)
            return
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
            return
        match node:
            case c_ast.DeclList(decls=parts) | c_ast.ExprList(exprs=parts):
                for part in parts:
                    self.walk(part)
            case c_ast.Assignment(rvalue=c_ast.Assignment() as inner):
                # a = b = e: what the inner one stored is the value of the outer one
                self.walk(inner)
                stored = _same_in_every_type(inner)
                self._assignment(node, node.lvalue, node.op, inner.lvalue if stored is None else stored)
            case c_ast.Assignment():
                self._assignment(node, node.lvalue, node.op, node.rvalue)
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--"):
                one = c_ast.Constant("int", "1", node.coord)
                self._assignment(node, node.expr, "+=" if "+" in node.op else "-=", one)
            case c_ast.EmptyStatement():
                pass
            case c_ast.Typedef():
                self.scope.declare(node, Storage.REGION, constant)
            case c_ast.Break() | c_ast.Continue() if self.in_black_box:
                pass
            case c_ast.Switch():
                self._switch(node)
            case c_ast.Cast() if self.type_of(node.to_type) == VOID and isinstance(
                node.expr, c_ast.ID | c_ast.Constant
            ):
                pass
            case _:
                reason, hint = _REFUSED.get(
                    type(node), ("this statement is not supported in a scop", "use for, if and assignments")
                )
                raise self.places.error(reason, node, hint, topic="control-flow")

    def _compound(self, node: c_ast.Compound) -> None:
        with self.scoped():
            for item in segments.in_elements(node.block_items or (), self):
                self.walk(item)
            self.no_pending()

    def _do(self, node: c_ast.DoWhile) -> None:
        if constant(node.cond, self.scope) == 0 and not leaves(node.stmt):
            self.walk(node.stmt)  # do … while (0), as macros have it
        else:
            self._loop(node)

    def _pragma(self, node: c_ast.Pragma) -> None:
        words = str(node.string).split()
        if words[:1] != ["polydl"]:
            return
        pragma = self.settings.pragmas[int(words[1])]
        if pragma.kind in ("call", "loops"):
            self.no_pending()
            self.pending = pragma

    def _call(self, node: c_ast.FuncCall) -> None:
        name = node.name.name if isinstance(node.name, c_ast.ID) else ""
        if name in written_out.FILLING and name not in self.settings.unit.chunks:
            self.walk(written_out.filled(node, self))
            return
        if name == "assert" and name not in self.settings.unit.chunks and node.args is not None:
            self._assertion(node, node.args.exprs[0])
            return
        self.values().expression(node, self.domain)
        raise self.places.error(
            "the result of this call is not used: it does nothing, or has effects that are unknown",
            node,
            "say what it computes with '#pragma polydl microkernel loops(...)'",
            topic="calls",
        )

    def _assertion(self, node: c_ast.FuncCall, asserted: Node) -> None:
        """An assertion that always holds does nothing. Raises InputError for others."""
        try:
            fails = self.domain.subtract(self.evaluator.condition(asserted, self.domain))
        except NotAffine:
            fails = self.domain
        if not fails.is_empty():
            raise self.places.error(
                "this assertion is not shown to hold: it may end the program in the middle of the loops",
                node,
                "assert it in front of the loops, or leave assertions out (-D NDEBUG)",
                topic="calls",
            )

    def _if(self, node: c_ast.If) -> None:
        try:
            holds = self.evaluator.condition(node.cond, self.domain)
        except NotAffine:
            self._undecided(node, node.cond, [part for part in (node.iftrue, node.iffalse) if part is not None])
            return
        before, outer = dict(self.environment), self.domain
        self.domain = tidy(outer.intersect(holds))
        self.branch(node.iftrue)
        after_then, self.environment = self.environment, dict(before)
        self.domain = tidy(outer.subtract(holds))
        if node.iffalse is not None:
            self.branch(node.iffalse)
        after_else, self.domain = self.environment, outer
        self.environment = {
            name: merged(after_then.get(name), after_else.get(name), holds) for name in {*after_then, *after_else}
        }

    def _microkernel(self, pragma: Pragma, node: Node) -> None:
        """Make one statement of a call and the loops that say what it computes. Raises InputError."""
        self._no_pointers(node)
        fragment = self.settings.unit.fragments.get(pragma.index)
        call, loops = microkernels.call_and_loops(pragma, fragment, node, self.places)
        before, errors = dict(self.environment), len(self.errors)
        arguments = tuple(microkernels.argument(self, a) for a in (call.args.exprs if call.args is not None else ()))
        was, self.in_fragment = self.in_fragment, pragma.kind == "loops"
        try:
            with self.collected() as inner:
                for loop in loops:
                    self.walk(loop)
        finally:
            self.in_fragment = was
        known = {name: known for name, known in self.environment.items() if before.get(name) is known}
        self.environment = {**dict.fromkeys(before), **known}
        if len(self.errors) > errors:
            return
        if any(isinstance(statement.body, RawCall) for statement in inner):
            raise self.places.error("a microkernel stands inside the loops of another", loops[0], topic="microkernels")
        if not inner:
            raise self.places.error("the loops of this microkernel compute nothing", loops[0], topic="microkernels")
        form = "loops" if pragma.kind == "call" else "call"
        assert isinstance(call.name, c_ast.ID), "call_and_loops lets no others through"
        body = RawCall(call.name.name, arguments, tuple(inner), form, pragma.index)
        domain = microkernels.executed(inner, self.domain, len(self.loops)) if pragma.kind == "call" else self.domain
        self.emit(microkernels.touched(inner), body, call, domain)


def _same_in_every_type(node: Node) -> Node | None:
    """The literal 0 or 1 that an assignment stores, however many variables it goes through; None for other values."""
    while isinstance(node, c_ast.Assignment) and node.op == "=":
        node = node.rvalue
    if not isinstance(node, c_ast.Constant) or node.type in ("char", "string"):
        return None
    return node if literal_value(node.value) in (0.0, 1.0) else None
