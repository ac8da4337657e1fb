"""Runs the body of a generated function on symbols: which elements it stores, and what it has made of which others.

Integers are numbers, or symbols where the function is told them; pointers are affine in the counters of the loops
around; a vector is its lanes, and a lane an element of memory, a sum of products of two, or an operation on such
elements. Loops whose counter only moves addresses are run once, for every iteration at the same time: what one adds to
a sum is added in each of them. All other loops are run as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.kernels.packing import square_columns
from polydl.kernels.transposes import BLOCK_LINES
from polydl.prove.body_values import Env, Evaluator, LocalArray, added, lane_of
from polydl.prove.integers import ZERO, Affine, Unreadable, number
from polydl.prove.printed_program import Pointer
from polydl.prove.syntax import counted, line_of, matters, only_prefetches, subscripted, without_effect
from polydl.prove.vector_lanes import NARROW, VECTOR, Counters, Vector, grown
from polydl.target.isa import ROW_TYPES, lanes_name

MOST_STEPS = 400_000
"""Expressions that are evaluated for one function before it counts as unreadable: seconds."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One vector or element that is stored, in each iteration of the loops around."""

    at: Pointer
    lanes: Vector
    around: Counters = ()


@dataclass(frozen=True, slots=True)
class Called:
    """A call that is not looked into, with its arguments by the names of the parameters."""

    arguments: Mapping[str, Any]
    around: Counters = ()


@dataclass(frozen=True, slots=True)
class _Counter:
    """A loop's counter: `start`, `start + step`, …, so many times."""

    name: str
    start: int
    step: int
    times: Affine


@dataclass(slots=True)
class Runner(Evaluator):
    """Runs functions of a parsed file."""

    closed: str = ""
    """Functions whose names end so are not looked into."""
    stored: list[Stored] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    _counters: int = 0

    def run(self, name: str, arguments: Mapping[str, Any], body: Any = None) -> None:
        """Run a function, or another body for it; what it stores and calls goes to `stored` and `called`.

        Raises Unreadable.
        """
        self._statement(self.functions[name].body if body is None else body, dict(arguments))

    # Statements. Each answers None, or the word that ends its block: `continue`, `break`, `return`.

    def _statement(self, item: Any, env: Env) -> str | None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Unreadable("a function that takes too long to follow")
        match item:
            case c_ast.Compound():
                return self._block(item.block_items or [], env)
            case c_ast.If():
                if only_prefetches(item.iftrue) and item.iffalse is None:
                    return None
                taken = item.iftrue if self._truth(item.cond, env) else item.iffalse
                return None if taken is None else self._statement(taken, env)
            case c_ast.For():
                return self._for(item, env)
            case c_ast.Switch():
                return self._switch(item, env)
            case c_ast.Continue():
                return "continue"
            case c_ast.Break():
                return "break"
            case c_ast.Return() if item.expr is None:
                return "return"
        self._simple(item, env)
        return None

    def _simple(self, item: Any, env: Env) -> None:
        """A statement that goes on with the next one."""
        match item:
            case c_ast.Decl():
                self._declare(item, env)
            case c_ast.DeclList():
                for one in item.decls:
                    self._declare(one, env)
            case c_ast.Assignment():
                self._assign(item, env)
            case c_ast.UnaryOp(op="p++" | "++"):
                self._set(item.expr, added(self._value(item.expr, env), number(1)), env)
            case c_ast.FuncCall():
                self._call(item, env)
            case c_ast.ExprList() if any(isinstance(e, c_ast.Assignment | c_ast.UnaryOp) for e in item.exprs):
                for part in item.exprs:
                    self._simple(part, env)
            case c_ast.Cast() | c_ast.EmptyStatement() | c_ast.ExprList():
                without_effect(item)
            case _:
                raise Unreadable(f"line {line_of(item)}: a {type(item).__name__} in a generated function")

    def _block(self, items: Sequence[Any], env: Env) -> str | None:
        outside = set(env)
        ends = None
        for item in items:
            ends = self._statement(item, env)
            if ends is not None:
                break
        for name in [n for n in env if n not in outside]:
            # An element of an array from outside, set here for the first time, stays.
            if not (isinstance(name, tuple) and name[0] in outside):
                del env[name]
        return ends

    def _declare(self, item: Any, env: Env) -> None:
        if item.name in env:
            raise Unreadable(f"line {line_of(item)}: a second {item.name}")
        if isinstance(item.type, c_ast.ArrayDecl):
            env[item.name] = LocalArray(item.name)
        elif item.init is not None:
            env[item.name] = self._value(item.init, env)

    def _assign(self, item: Any, env: Env) -> Any:
        again = isinstance(item.rvalue, c_ast.Assignment)
        value = self._assign(item.rvalue, env) if again else self._value(item.rvalue, env)
        if item.op == "+=":
            value = added(self._value(item.lvalue, env), value)
        elif item.op != "=":
            raise Unreadable(f"line {line_of(item)}: the operator {item.op}")
        self._set(item.lvalue, value, env)
        return value

    def _set(self, place: Any, value: Any, env: Env) -> None:
        match place:
            case c_ast.ID():
                env[place.name] = value
            case c_ast.ArrayRef():
                base, subscripts = subscripted(place)
                if isinstance(base, c_ast.ID) and isinstance(env.get(base.name), LocalArray):
                    env[base.name, tuple(self._number(s, env) for s in subscripts)] = value
                else:
                    self._store(self._address(place, env), (lane_of(value),))
            case _:
                raise Unreadable(f"line {line_of(place)}: an assignment to a {type(place).__name__}")

    def _store(self, at: Pointer, lanes: Vector) -> None:
        self.stored.append(Stored(at, lanes, tuple(self._around)))

    def _send(self, to: Pointer, apart: int, source: Pointer, own: int, length: int, count: int) -> None:
        """Rows of a buffer, `own` elements apart, go to rows of memory: what was stored into them was stored there.
        Raises Unreadable."""
        kept = [one for one in self.stored if one.at.base != source.base]
        for one in (one for one in self.stored if one.at.base == source.base):
            offset = one.at.offset.plus(source.offset, -1)
            row, place = divmod(offset.constant, own)
            moved, last, least = number(row * apart + place), place + len(one.lanes), row
            times = dict(one.around)
            for counter, step in offset.terms:
                rows, places = divmod(step, own)
                moved = moved.plus(Affine(((counter, 1),)), rows * apart + places)
                often = times[counter]
                if often.terms or rows < 0:
                    raise Unreadable("rows of a buffer in another order")
                last, least = last + places * (often.constant - 1), least + rows * (often.constant - 1)
            if last > length or not 0 <= row <= least < count:
                raise Unreadable("elements of a buffer that are not sent")
            kept.append(Stored(Pointer(to.base, to.offset.plus(moved)), one.lanes, one.around))
        self.stored[:] = kept

    def _switch(self, item: Any, env: Env) -> str | None:
        value = self._number(item.cond, env)
        for case in item.stmt.block_items:
            if isinstance(case, c_ast.Case) and self._number(case.expr, env) == value:
                ends = self._block(case.stmts, env)
                if ends is None:
                    raise Unreadable(f"line {line_of(case)}: a case that falls through")
                return None if ends == "break" else ends
        return None

    def _for(self, item: Any, env: Env) -> str | None:
        outside = set(env)
        if item.init is not None:
            self._statement(item.init, env)
        ends: str | None = None
        counter = self._at_once(item, env)
        if counter is not None:
            self._every(item, counter, env)
        else:
            while self._truth(item.cond, env):
                ends = self._statement(item.stmt, env)
                if ends in ("break", "return"):
                    break
                self._statement(item.next, env)
        for name in [n for n in env if n not in outside and not (isinstance(n, tuple) and n[0] in outside)]:
            del env[name]
        return ends if ends == "return" else None

    def _at_once(self, item: Any, env: Env) -> _Counter | None:
        """The counter of a loop all of whose iterations can be run at the same time; None for any other loop."""
        found = counted(item.next)
        start = env.get(found[0]) if found is not None else None
        condition = item.cond
        if found is None or not isinstance(start, Affine) or start.terms or not isinstance(condition, c_ast.BinaryOp):
            return None
        arrays = {name for name, value in env.items() if isinstance(value, LocalArray)}
        if matters(item.stmt, found[0], arrays, self.closed):
            return None
        left: Any = condition.left
        beyond = isinstance(left, c_ast.BinaryOp) and left.op == "+" and condition.op == "<="
        name = left.left if beyond else left if condition.op == "<" else None
        if not isinstance(name, c_ast.ID) or name.name != found[0]:
            return None
        bound = self._value(condition.right, env)
        if beyond:  # c + more <= bound
            bound = bound.plus(number(1 - self._number(left.right, env)))
        step = found[1]
        if bound.terms:
            return _Counter(found[0], 0, 1, bound) if step == 1 and start == ZERO else None
        times = max(0, -(-(bound.constant - start.constant) // step))
        return _Counter(found[0], start.constant, step, number(times))

    def _every(self, item: Any, counter: _Counter, env: Env) -> None:
        """All iterations at the same time: addresses move by the same distance in each, sums grow by the same terms.
        Raises Unreadable where something else changes."""
        times = counter.times
        if times == ZERO:
            return
        name = f"t{self._counters}"
        self._counters += 1
        here = Affine(((name, 1),))
        moved: dict[Any, int] = {}
        start = dict(env)
        before = len(self.stored), len(self.called), len(self.read)
        for attempt in range(2):
            env.clear()
            env.update(start)
            env[counter.name] = number(counter.start).plus(here, counter.step)
            for key, distance in moved.items():
                at = start[key]
                env[key] = Pointer(at.base, at.offset.plus(here, distance))
            del self.stored[before[0] :], self.called[before[1] :], self.read[before[2] :]
            began = dict(env)
            self._around.append((name, times))
            if self._statement(item.stmt, env) in ("break", "return"):
                raise Unreadable(f"line {line_of(item)}: a loop that ends early")
            self._statement(item.next, env)
            if env[counter.name] != began[counter.name].plus(number(counter.step)):
                raise Unreadable(f"line {line_of(item)}: a loop whose counter changes inside of it")
            self._around.pop()
            if attempt == 0:
                moved = {k: d for k, v in began.items() if k != counter.name and (d := _distance(v, env.get(k)))}
        for key in list(env):
            if key == counter.name:
                env[key] = number(counter.start).plus(times, counter.step)
                continue
            value, old = env[key], began.get(key)
            if key in moved:
                if _distance(old, value) != moved[key]:
                    raise Unreadable(f"line {line_of(item)}: an address that moves in another way each time")
                env[key] = Pointer(value.base, start[key].offset.plus(times, moved[key]))
            elif value != old:
                env[key] = grown(old, value, name, times)

    def _call(self, item: Any, env: Env) -> None:
        name = item.name.name
        arguments = item.args.exprs if item.args is not None else []
        if name == "__builtin_prefetch" or re.fullmatch(r"POLYDL\d*_(OPAQUE|KEEP)", name):
            return
        vector = VECTOR.fullmatch(name)
        if vector is not None:
            self._vector_statement(vector.group(1), vector.group(2), arguments, env)
            return
        narrow = NARROW.fullmatch(name)
        if narrow is not None and narrow.group(2) == "store":
            part = "_part" if narrow.group(4) else ""
            self._vector_statement(narrow.group(1), f"store{part}", arguments, env)
            return
        definition = self.functions.get(name)
        if definition is None:
            raise Unreadable(f"line {line_of(item)}: the function {name}")
        parameters = [p.name for p in definition.decl.type.args.params]
        bound = {p: self._value(a, env) for p, a in zip(parameters, arguments, strict=True)}
        if self.closed and name.endswith(self.closed):
            self.called.append(Called(bound, tuple(self._around)))
        else:
            self._statement(definition.body, bound)

    def _vector_statement(self, kind: str, name: str, arguments: Sequence[Any], env: Env) -> None:
        if name in ("store", "store_part", "stream"):
            at, value = self._pointer(arguments[0], env), self._vector(arguments[-1], env)
            kept = self._number(arguments[1], env) if name == "store_part" else self.lanes[kind]
            self._store(at, value[:kept])
        elif name == "transpose":
            array, count = arguments[0].name, self.lanes[kind]
            # Where there are fewer vectors than lanes, each has as many elements of every width-th row.
            width = square_columns(next(t for t in ROW_TYPES if lanes_name(t) == kind), count)
            rows = [env[array, (i,)] for i in range(width)]
            for i in range(width):
                env[array, (i,)] = tuple(rows[lane % width][lane // width * width + i] for lane in range(count))
        elif name == "send":
            to, source = self._pointer(arguments[0], env), self._pointer(arguments[2], env)
            apart, length, count = (self._number(arguments[k], env) for k in (1, 3, 4))
            self._send(to, apart, source, 64 // self.bytes[kind] * (BLOCK_LINES + 1), length, count)
        elif name == "send_rest":
            pass  # of what was sent, which is followed as if nothing had to wait
        else:
            raise Unreadable(f"the vector function {name}")


def _distance(before: Any, after: Any) -> int:
    """Elements by which an address has moved; 0 where it is none, or has not. Raises Unreadable."""
    if not isinstance(before, Pointer) or not isinstance(after, Pointer) or before == after:
        return 0
    moved = after.offset.plus(before.offset, -1)
    if before.base != after.base or moved.terms:
        raise Unreadable("an address that moves in another way each time")
    return moved.constant
