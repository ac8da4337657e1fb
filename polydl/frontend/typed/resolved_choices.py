"""What C evaluates only under a condition: `&&`, `||` and `?:`."""

from __future__ import annotations

from collections.abc import Callable

from pycparser import c_ast

from polydl.frontend.typed.core_values import Const, Pointer, Record, Ref, Scalar, Value, Void, Why
from polydl.frontend.typed.declared_types import TypeReader
from polydl.frontend.typed.emitter import NotUnderstood, Touched, as_block, can_trap
from polydl.frontend.typed.nodes import If, Node
from polydl.frontend.typed.pure_values import ONE, ZERO, chosen, convert, truth
from polydl.model.types import I32, ElementType, common

NOTHING = Const(0, I32)
"""The value of what has none."""


class Choices(TypeReader):
    """Resolves choices: a value where neither side has an effect or may trap, else an If with a result."""

    def branch(self, make: Callable[[], Value]) -> tuple[list[Node], Value, Touched]:
        """What is evaluated only under a condition: its effects, its value, what it touches."""
        outer, self.touched = self.touched, Touched()
        try:
            with self.block() as items:
                value = make()
            return list(items), value, self.touched
        finally:
            self.touched = outer

    def short_circuit(self, node: c_ast.BinaryOp) -> Value:
        left = truth(self.value(node.left))
        self.touched.sequence_point()
        items, right, touched = self.branch(lambda: truth(self.value(node.right)))
        self.touched.add(touched)
        both = node.op == "&&"
        if not items and not can_trap(right):
            return chosen(left, right, ZERO, I32) if both else chosen(left, ONE, right, I32)
        result = Ref(self.fresh(), I32)
        asked, known = as_block(items, right), as_block([], ZERO if both else ONE)
        then, other = (asked, known) if both else (known, asked)
        self.items.append(If(left, then, other, (result,), self.span(node)))
        return result

    def conditional(self, node: c_ast.TernaryOp) -> Value:
        condition = truth(self.value(node.cond))
        self.touched.sequence_point()
        first, a, touched = self.branch(lambda: self.value(node.iftrue))
        second, b, others = self.branch(lambda: self.value(node.iffalse))
        self.touched.add(touched)
        self.touched.add(others)
        if a is NOTHING or b is NOTHING:  # void
            self.items.append(If(condition, as_block(first), as_block(second), (), self.span(node)))
            return NOTHING
        kind = self._common(a, b)
        a, b = convert(a, kind, Why.USUAL, self.span(node)), convert(b, kind, Why.USUAL, self.span(node))
        if not first and not second and not can_trap(a) and not can_trap(b) and not isinstance(kind, Record):
            return chosen(condition, a, b, kind)
        result = Ref(self.fresh(), kind)
        self.items.append(If(condition, as_block(first, a), as_block(second, b), (result,), self.span(node)))
        return result

    def _common(self, a: Value, b: Value) -> Scalar | Record:
        """The type of `?:`."""
        if isinstance(a.type, ElementType) and isinstance(b.type, ElementType):
            return common(a.type, b.type)
        pointers = [one for one in (a, b) if isinstance(one.type, Pointer)]
        if pointers:
            typed = [one for one in pointers if not (isinstance(one, Const) and one.number == 0)] or pointers
            void = next((one for one in typed if one.type == Pointer(Void())), typed[0])
            assert isinstance(void.type, Pointer)
            return void.type
        if isinstance(a.type, Record) and a.type is b.type:
            return a.type
        raise NotUnderstood(f"'?:' of '{a.type}' and '{b.type}'")
