"""Integers that each iteration of a loop changes by the same number, as functions of the loop's variable.

    k = 3;                                  k is 3 + 2 * i where the body begins,
    for (i = 0; i < n; i++) {               3 + 2 * n behind the loop
        y[i] = x[k];
        k += 2;
    }

The number may come of loops inside: `k++` in a loop of `w` iterations adds w to it, as long as w stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from polydl.base.errors import InputError
from polydl.frontend.lower import for_loops
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, constant_aff, number, symbol
from polydl.frontend.meaning.liveness import assigned_names, leaves
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.model import isl
from polydl.model.types import I64, ElementType


@dataclass(slots=True)
class Advances:
    """What a loop adds to integers."""

    each: dict[str, Value] = field(default_factory=dict)
    """By name, what each iteration adds."""
    doubtful: set[str] = field(default_factory=set)
    """Those of which this holds where a loop inside runs, in which alone they are used."""


def advances(loop: for_loops.Header, names: frozenset[str], where: isl.Set, state: State) -> Advances:
    """The integers to which each iteration of a loop adds the same number. `where`: its iterations."""
    body = loop.node.stmt
    found = Advances()
    if leaves(body):
        return found
    fixed = assigned_names(body) | {loop.variable} | {other.variable for other in loop.others}
    for name in sorted(names):
        known = state.environment.get(name)
        if known is None or name in state.settings.data or not _grows(known[0], body, name):
            continue
        try:
            added = _Advance(name, body, where, state, found.doubtful).of(body, fixed)
        except (NotAffine, InputError, NeedsData):
            continue
        if added is not None:
            found.each[name] = added
    return found


def _grows(begin: Value, body: Any, name: str) -> bool:
    """Whether an unsigned integer is surely only counted up, from 0 or more."""
    if not begin.ctype.unsigned:
        return True
    downwards = any(
        (isinstance(node, c_ast.UnaryOp) and node.op in ("p--", "--") and name in mentions(node))
        or (isinstance(node, c_ast.Assignment) and name in mentions(node.lvalue) and not _counts_up(node))
        for node in nodes(body)
    )
    return begin.constant is not None and begin.constant >= 0 and not downwards


def _counts_up(node: Any) -> bool:
    return not isinstance(node.lvalue, c_ast.ID) or (node.op == "+=" and isinstance(node.rvalue, c_ast.Constant))


def moved(begin: Value, added: Value, count: Value | None, state: State) -> Value | None:
    """The value behind so many iterations; None where it is not found."""
    if count is None:
        return None
    try:
        distance = state.evaluator.product(added, count, I64)
        return state.evaluator.combine(begin, distance, 1, begin.ctype)
    except NotAffine:
        return None


def iteration(loop: for_loops.Header, start: Value, integer: ElementType, state: State) -> Value | None:
    """How many iterations of a loop are done where its body begins."""
    begin = start
    if loop.counted:
        begin = state.evaluator.combine(start, number(loop.step, I64), 1, I64)
    return _divided(state.evaluator.combine(symbol(loop.variable, integer), begin, -1, I64), loop.step)


def _divided(distance: Value, step: int) -> Value | None:
    sign = 1 if step > 0 else -1
    pw = None if distance.pw is None else distance.pw.scale_val(isl.value(sign))
    if abs(step) == 1:
        poly = None if distance.poly is None else {m: c * sign for m, c in distance.poly.items()}
        return Value(pw, poly, I64, distance.parts)
    return None if pw is None else Value(pw.scale_down_val(isl.value(abs(step))), None, I64)


@dataclass(frozen=True, slots=True)
class _Advance:
    """What the statements of a loop's body add to an integer."""

    name: str
    body: Any
    where: isl.Set
    state: State
    doubtful: set[str]

    def of(self, node: Any, fixed: frozenset[str]) -> Value | None:
        """What a statement adds each time; None where that depends, or where it does something else to it."""
        evaluator = self.state.evaluator
        match node:
            case c_ast.Compound():
                total = number(0, I64)
                for item in node.block_items or []:
                    added = self.of(item, fixed)
                    if added is None:
                        return None
                    total = evaluator.combine(total, added, 1, I64)
                return total
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--", expr=c_ast.ID(name=name)) if name == self.name:
                return number(1 if "+" in node.op else -1, I64)
            case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=name)) if name == self.name:
                return self._constant(node.rvalue, op, fixed)
            case c_ast.Assignment(
                op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-" as op, left=c_ast.ID(name=own))
            ) if name == own == self.name:
                return self._constant(node.rvalue.right, op, fixed)
            case c_ast.For() if self.name in assigned_names(node.stmt):
                return self._loop(node, fixed)
        return None if self.name in assigned_names(node) else number(0, I64)

    def _constant(self, node: Any, op: str, fixed: frozenset[str]) -> Value | None:
        if set(mentions(node)) & fixed:
            return None
        value = self.state.evaluator.value(node, self.where)
        return self.state.evaluator.product(value, number(1 if "+" in op else -1, I64), I64)

    def _loop(self, node: Any, fixed: frozenset[str]) -> Value | None:
        """What a loop inside adds: as much as its body does, times its iterations."""
        head = [part for part in (node.init, node.cond, node.next) if part is not None]
        if leaves(node.stmt) or any(self.name in mentions(part) for part in head):
            return None
        loop = for_loops.header(node, self.state.evaluator, self.state.places)
        added = self.of(node.stmt, fixed | assigned_names(node.stmt) | {loop.variable})
        found = trips(loop, fixed - {loop.variable}, self.where, self.state)
        if added is None or found is None:
            return None
        count, sure = found
        if not sure:
            if [*mentions(self.body)].count(self.name) != [*mentions(node.stmt)].count(self.name):
                return None
            self.doubtful.add(self.name)
        return self.state.evaluator.product(added, count, I64)


def trips(loop: for_loops.Header, changing: frozenset[str], where: isl.Set, state: State) -> tuple[Value, bool] | None:
    """How often a loop runs where it stands in `where`, and whether that is surely 0 or more; None where it changes
    from time to time, with what is `changing`, or is not found."""
    variable, step, condition = loop.variable, loop.step, loop.condition
    if loop.counted or abs(step) != 1 or loop.others or not isinstance(condition, c_ast.BinaryOp):
        return None
    op, bound = condition.op, condition.right
    judged = isinstance(condition.left, c_ast.ID) and condition.left.name == variable
    if not judged or op not in (("<", "<=") if step > 0 else (">", ">=")):
        return None
    if {*mentions(bound), *mentions(loop.start)} & {variable, *changing}:
        return None
    try:
        first, last = state.evaluator.value(loop.start, where), state.evaluator.value(bound, where)
        high, low = (last, first) if step > 0 else (first, last)
        count = state.evaluator.combine(high, low, -1, I64)
        if op.endswith("="):
            count = state.evaluator.combine(count, number(1, I64), 1, I64)
    except NotAffine:
        return None
    if count.pw is None:
        return None
    return count, where.intersect(count.pw.lt_set(constant_aff(0))).is_empty()
