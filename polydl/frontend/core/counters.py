"""What counts a loop, and the values that it takes, exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.frontend.core.loop_forms import Loop, begun_by
from polydl.frontend.core.tree_parts import integer, replaced, summands
from polydl.frontend.lower.raw import SourceLoop
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, Value, number, symbol, tidy
from polydl.frontend.meaning.affine_terms import constant_aff, symbol_aff, universe
from polydl.frontend.meaning.integer_ranges import own_range
from polydl.frontend.meaning.liveness import assigned_names
from polydl.frontend.meaning.symbols import mentions
from polydl.frontend.text.places import Places
from polydl.model import isl
from polydl.model.polynomials import Poly
from polydl.model.scop import Storage
from polydl.model.types import I32, I64, U32, ElementType

_EARLIER = "__polydl_earlier"
_OTHERWISE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "==": "=="}


@dataclass(frozen=True, slots=True)
class Counter:
    """What counts a loop: a variable of its condition that each iteration adds a number to, or a new one that counts
    iterations from 0, where the values of that variable cannot be those of a loop's dimension."""

    loop: Loop
    variable: str
    """The dimension."""
    judged: str
    """The variable of the condition."""
    ctype: ElementType
    """Of the dimension."""
    step: int
    """What is added to the dimension; not 0."""
    start: Value | None
    """What the dimension is where the condition is asked first; None: that is not known, or data decide it."""
    shift: int
    """What the condition adds to it: the body sees that much more than the condition."""
    condition: Node
    """In terms of what the body sees of the dimension."""

    @property
    def name(self) -> str | None:
        """The variable that the dimension is; None for a new one."""
        return self.judged if self.variable == self.judged else None

    @property
    def asked_at(self) -> isl.PwAff:
        """What the variable is where the condition is asked, if it is the dimension."""
        return symbol_aff(self.variable).sub(constant_aff(self.shift))

    @property
    def start_node(self) -> Node:
        """Where it is given its first value, as far as the loop says so."""
        value = given(self.loop, self.judged)
        return self.loop.node if value is None else value


@dataclass(frozen=True, slots=True)
class Trips:
    """How often a loop runs."""

    exact: Value
    running: Value
    """The same where it runs at all: a simpler function."""
    sure: bool
    """Whether this is so elsewhere, too."""


def counter_of(loop: Loop, each: Mapping[str, Value], state: State) -> Counter | None:
    """What counts a loop; None where nothing in its condition evolves by a number. `each`: what iterations add."""
    asked = loop.condition
    if asked is None:
        return None
    for name in loop.exit_variables:
        step = each[name].constant if name in each else None
        found = state.scope.find(name)
        if not step or found is None or found.integer is None:
            continue
        known = state.environment.get(name)
        condition = _passing_zero(straight(asked), name, step, found.integer)
        steps = [part for part in (*loop.test_effects, *loop.step) if name in assigned_names(part)]
        own = len(steps) == 1 and (name in loop.header_stepped or name not in loop.inside)
        own = own and found.storage is not Storage.PARAMETER
        if not own:
            return Counter(loop, fresh(f"{name}_index", state), name, I64, 1, number(0, I64), 0, condition)
        shift = step if any(steps[0] is part for part in loop.test_effects) else 0
        start = None if known is None else known[0]
        return Counter(loop, name, name, found.integer, step, start, shift, _shifted(condition, name, shift))
    return None


def given(loop: Loop, name: str) -> Node | None:
    """The value that a loop's header gives a variable; None where it gives none."""
    first = next((part for part in loop.first if begun_by(part) == name), None)
    return first.init if isinstance(first, c_ast.Decl) else getattr(first, "rvalue", None)


def fresh(name: str, state: State) -> str:
    """A name that the file does not use, and no loop around."""
    taken = {*re.findall(r"[A-Za-z_]\w*", state.settings.unit.preprocessed.text), *(one.name for one, _ in state.loops)}
    while name in taken:
        name += "_"
    return name


def _passing_zero(condition: Node, name: str, step: int, ctype: ElementType) -> Node:
    """`n != 0`, of an integer that is counted down by one, as `n > 0`: below zero it would leave its range."""
    match condition:
        case c_ast.BinaryOp(op="!=", left=left, right=c_ast.Constant(value="0")):
            pass
        case c_ast.BinaryOp(op="!=", left=c_ast.Constant(value="0"), right=left):
            pass
        case _:
            left = condition
    if not _near(left, name) or step != -1 or ctype.unsigned:
        return condition
    return c_ast.BinaryOp(">", left, integer(0, condition.coord), condition.coord)


def _near(node: Node, name: str) -> bool:
    """Whether an expression is a variable, or that and a number."""
    if isinstance(node, c_ast.BinaryOp) and node.op in ("+", "-") and isinstance(node.right, c_ast.Constant):
        node = node.left
    return isinstance(node, c_ast.ID) and node.name == name


def _shifted(condition: Node, name: str, shift: int) -> Node:
    """A condition in terms of a variable to which `shift` was added."""
    if shift == 0:
        return condition
    at = condition.coord
    own = c_ast.BinaryOp("+" if shift < 0 else "-", c_ast.ID(name, at), integer(abs(shift), at), at)
    return replaced(condition, {name: own})


def straight(condition: Node) -> Node:
    """A condition on integers without `!` where comparisons say the same: `i < n` for `!(i >= n)`."""
    match condition:
        case c_ast.UnaryOp(op="!", expr=c_ast.UnaryOp(op="!", expr=same)):
            return straight(same)
        case c_ast.UnaryOp(op="!", expr=c_ast.BinaryOp(op=op, left=left, right=right)) if op in _OTHERWISE:
            return c_ast.BinaryOp(_OTHERWISE[op], left, right, condition.coord)
        case c_ast.UnaryOp(op="!", expr=c_ast.BinaryOp(op="||" | "&&" as op, left=left, right=right)):
            one, other = (straight(c_ast.UnaryOp("!", part, part.coord)) for part in (left, right))
            return c_ast.BinaryOp("&&" if op == "||" else "||", one, other, condition.coord)
    return condition


def reached(counter: Counter, where: isl.Set, state: State) -> isl.Set:
    """`where` with all values from the first one on that a loop's dimension would take without a condition. Raises
    NotAffine."""
    at = symbol_aff(counter.variable)
    begin = first(counter, where, state)
    found = where.intersect(at.ge_set(begin) if counter.step > 0 else at.le_set(begin))
    if abs(counter.step) != 1:
        found = found.intersect(at.sub(begin).mod_val(isl.value(abs(counter.step))).zero_set())
    if counter.ctype.unsigned:
        # values below zero do not exist: the condition is judged on the values that do
        found = found.intersect(at.ge_set(constant_aff(min(counter.shift, 0))))
    return found


def first(counter: Counter, where: isl.Set, state: State) -> isl.PwAff:
    """What the body sees of the dimension in the first iteration. Raises NotAffine."""
    assert counter.start is not None, "of others nobody asks"
    node = counter.start_node
    begin = state.evaluator.convert(counter.start, counter.ctype, node, where)
    begin = state.evaluator.observed(begin, node, where)
    return state.evaluator.require(begin, node).add(constant_aff(counter.shift))


def domain(counter: Counter, where: isl.Set, state: State) -> isl.Set:
    """`where` with the values that a loop's dimension takes in the body.

    It runs through its first value, that and the step, … and stops before the first value at which the condition
    fails, which is not asked in the first iteration of a `do` loop. A bound (`i < e`, e without i) fails for ever once
    it fails, so that the condition itself says which values are taken; any other condition has its values removed that
    come after a failure. Raises InputError when the loop may not end, or may leave the range of its type; NotAffine
    for a bound that data decide.
    """
    variable, step, places = counter.variable, counter.step, state.places
    at, wraps_below = symbol_aff(variable), False
    state.loops.append((SourceLoop(variable, step < 0), counter.ctype))
    try:
        try:
            seen, begin = reached(counter, where, state), at.eq_set(first(counter, where, state))
        except NotAffine as error:
            if error.data:
                raise
            raise _not_affine(places, error, counter.start_node, counter) from None
        asked = seen.subtract(begin) if counter.loop.bottom_tested else seen
        holds, wraps = _condition(counter, asked, state, endless=True)
        if counter.loop.bottom_tested:
            holds = holds.union(begin)
        alone = not {*mentions(counter.condition)} & (counter.loop.changed - {variable})
        if alone and all(_is_bound(one, variable, step) for one in summands(counter.condition, "&&")):
            result = seen.intersect(holds)
        else:
            stops = seen.subtract(holds)
            endless = where.subtract(isl.some_values(stops, [variable]))
            endless = endless.intersect(isl.some_values(seen.intersect(begin), [variable]))
            if wraps_below := not endless.is_empty() and _wraps_below(counter):
                endless = endless.intersect(_behind_zero(counter, where, state))
            if not endless.is_empty():
                raise places.error(
                    f"the loop over '{counter.judged}' may never end",
                    counter.condition,
                    f"write {counter.judged} {'<' if step > 0 else '>'} bound, or state what is known with "
                    "'#pragma polydl assume(...)'",
                    topic="loop-headers",
                )
            earlier = symbol_aff(_EARLIER)
            failed = isl.rename_parameter(stops, variable, _EARLIER)
            failed = failed.intersect(earlier.le_set(at) if step > 0 else earlier.ge_set(at))
            result = seen.intersect(holds).subtract(isl.some_values(failed, [_EARLIER]))
            if wraps_below:
                result = _representable(result, state)
        if not wraps_below:
            _in_range(counter, result, state)
        if wraps:  # it must not for those that are reached
            before = isl.rename_parameter(result, variable, _EARLIER)
            before = before.intersect(at.eq_set(symbol_aff(_EARLIER).add(constant_aff(step))))
            reached_ones = begin.union(result).union(isl.some_values(before, [_EARLIER]))
            _condition(counter, asked.intersect(reached_ones), state)
    finally:
        state.loops.pop()
    return tidy(result)


def _wraps_below(counter: Counter) -> bool:
    """Whether a loop counts down to 0 and then wraps around to the greatest value of its type, which nobody sees."""
    own = any(isinstance(part, c_ast.Decl) and part.name == counter.variable for part in counter.loop.first)
    return own and counter.ctype.unsigned and counter.step == -1 and counter.shift == 0


def _behind_zero(counter: Counter, where: isl.Set, state: State) -> isl.Set:
    """Where the condition of such a loop still holds of the value behind 0. Raises InputError, NotAffine."""
    greatest = c_ast.Constant(counter.ctype.c, f"{counter.ctype.maximum}ul", counter.condition.coord)
    there = replace(counter, condition=replaced(counter.condition, {counter.variable: greatest}))
    holds = _condition(there, where, state)[0]
    return holds.intersect(_ranges(holds, state))


def _representable(taken: isl.Set, state: State) -> isl.Set:
    """Values that no type is too short for, which goes without saying: that nothing is greater is left out."""
    ends = universe()
    for name in isl.parameters(taken):
        found = state.variable(name)
        if found is not None:
            ends = ends.intersect(symbol_aff(name).le_set(constant_aff(found[0].maximum)))
    return tidy(taken.intersect(ends)).gist(ends)


def _ranges(of: isl.Set, state: State) -> isl.Set:
    """The values that the types of its symbols have."""
    known = {name: state.variable(name) for name in isl.parameters(of)}
    ranges = (own_range(name, found[0]) for name, found in known.items() if found is not None)
    return reduce(isl.Set.intersect, ranges, universe())


def _condition(counter: Counter, where: isl.Set, state: State, *, endless: bool = False) -> tuple[isl.Set, bool]:
    """Where a loop goes on, and whether something in its condition was taken not to wrap around. `endless`: `where` has
    all values that the loop would take without it. Raises InputError; NotAffine for a condition that data decide."""
    state.wrapped_ahead = False if endless else None
    try:
        holds = state.evaluator.condition(counter.condition, where)
        return holds, bool(state.wrapped_ahead)
    except NotAffine as error:
        if error.data:
            raise
        raise _not_affine(state.places, error, counter.condition, counter) from None
    finally:
        state.wrapped_ahead = None


def iteration(counter: Counter, state: State) -> Value | None:
    """How many iterations of a loop are done where its body begins; None where its start is not known."""
    if counter.start is None:
        return None
    begin = counter.start
    if counter.shift:
        begin = state.evaluator.combine(begin, number(counter.shift, I64), 1, I64)
    here = symbol(counter.variable, counter.ctype)
    return _divided(state.evaluator.combine(here, begin, -1, I64), counter.step)


def _divided(distance: Value, step: int) -> Value | None:
    sign = 1 if step > 0 else -1
    pw = None if distance.pw is None else distance.pw.scale_val(isl.value(sign))
    if abs(step) == 1:
        poly = None if distance.poly is None else {m: c * sign for m, c in distance.poly.items()}
        return Value(pw, poly, I64, distance.parts)
    return None if pw is None else Value(pw.scale_down_val(isl.value(abs(step))), None, I64)


def last(counter: Counter, taken: isl.Set) -> isl.PwAff | None:
    """What a loop's dimension is in its last iteration, where it runs; None where that is not found."""
    runs = isl.some_values(taken, [counter.variable])
    values = isl.Map.from_domain_and_range(runs, isl.as_dimensions(taken, [counter.variable]).coalesce())
    try:
        extreme = values.lexmax() if counter.step > 0 else values.lexmin()
    except isl.Error:
        return None
    (found,) = isl.components(extreme.as_pw_multi_aff())
    return found


def afterwards(counter: Counter, where: isl.Set, taken: isl.Set, state: State) -> isl.PwAff | None:
    """What a loop's dimension is when it has run in the iterations `where` of the loops around it, in which it took the
    values `taken`; None where that is not found."""
    end = last(counter, taken)
    if end is None:
        return None
    try:
        begin = first(counter, where, state)
    except NotAffine:
        return None
    still = where.subtract(isl.some_values(taken, [counter.variable]))
    return end.add_constant_val(isl.value(counter.step)).union_add(begin.intersect_domain(still)).coalesce()


def trips(counter: Counter, where: isl.Set, taken: isl.Set, state: State) -> Trips | None:
    """How often a loop runs where it stands in `where`; None where that is not found."""
    end = afterwards(counter, where, taken, state)
    if end is None:
        return None
    begin = first(counter, where, state)
    distance = end.sub(begin) if counter.step > 0 else begin.sub(end)
    count = distance.scale_down_val(isl.value(abs(counter.step))).coalesce()
    runs = isl.some_values(taken, [counter.variable])
    running = count.intersect_domain(runs).coalesce()
    running = running.gist(runs).coalesce() if running.n_piece() == 1 else count
    still = where.subtract(runs)
    sure = still.intersect(running.ne_set(constant_aff(0))).is_empty() and still.is_subset(running.domain())
    return Trips(Value(count, None, I64), Value(running, polynomial(running), I64), sure)


def polynomial(of: isl.PwAff) -> Poly | None:
    """A function of one piece without divisions as a polynomial; None for others."""
    found = isl.pieces(of)
    if len(found) != 1 or isl.divisors(found[0][1]):
        return None
    return isl.parameter_terms(found[0][1])


def _not_affine(places: Places, error: NotAffine, node: Node, counter: Counter) -> InputError:
    own = counter.judged
    if own in error.multiplied:
        return places.error(
            f"the loop bound is not affine: it multiplies the loop's own variable '{own}'",
            node,
            f"compute in front of the loop where it ends, and compare '{own}' with that",
            topic=error.topic,
        )
    place = error.node if getattr(error.node, "coord", None) is not None else node
    hint = error.hint or "a loop bound may use outer loop variables, parameters and constants, min and max"
    return places.error(f"the loop bound is not affine: {error.why}", place, hint, topic=error.topic)


def bounds(counter: Counter) -> list[tuple[Node, int]]:
    """What a loop's variable is compared with so that the loop ends, each with 1 where the variable stays below it."""
    found: list[tuple[Node, int]] = []
    for condition in reversed(summands(counter.condition, "&&")):
        if not isinstance(condition, c_ast.BinaryOp):
            continue
        for op, one, other in (
            (condition.op, condition.left, condition.right),
            (_MIRROR.get(condition.op, ""), condition.right, condition.left),
        ):
            if isinstance(one, c_ast.ID) and one.name == counter.variable and counter.step > 0:
                found.append((other, int(op != "<=")))
    return found


def _is_bound(condition: Node, variable: str, step: int) -> bool:
    """Whether a condition is a bound on the variable in the direction in which it runs."""
    if not isinstance(condition, c_ast.BinaryOp):
        return False
    op, left, right = condition.op, condition.left, condition.right
    if not _near(left, variable):
        if op not in _MIRROR:
            return False
        op, left, right = _MIRROR[op], right, left
    if not _near(left, variable) or variable in mentions(right):
        return False
    return op in (("<", "<=") if step > 0 else (">", ">="))


def _in_range(counter: Counter, taken: isl.Set, state: State) -> None:
    """Refuse loops whose last increment leaves the range of the variable's type. Where sizes decide whether it does,
    the output asks for an unsigned one of 32 bits; a signed one is undefined then, and no size is near 2^63."""
    ctype, places = counter.ctype, state.places
    following = symbol_aff(counter.variable).add(constant_aff(counter.step))
    if (
        counter.step < 0
        and ctype.unsigned
        and not counter.shift
        and not taken.intersect(following.lt_set(constant_aff(0))).is_empty()
    ):
        raise places.error(
            f"'{counter.judged}' is unsigned and wraps around below zero: the loop does not end there",
            counter.condition,
            f"declare '{counter.judged}' as int",
            topic="integers",
        )
    beyond = taken.intersect(following.gt_set(constant_aff(ctype.maximum)))
    iterators = frozenset(one.name for one, _ in state.loops)
    sizes = [name for name in isl.parameters(taken) if name not in iterators]
    if ctype.bits >= I32.bits and sizes:
        known = [(name, found[0]) for name in sizes if (found := state.variable(name)) is not None]
        possible = reduce(isl.Set.intersect, (own_range(*one) for one in known), beyond)
        if ctype == U32 and not possible.is_empty():
            state.grant(f"'{counter.judged}' does not leave the range of '{ctype.c}'", beyond)
        return
    if not beyond.is_empty():
        raise places.error(
            f"'{counter.judged}' leaves the range of '{ctype.c}'",
            counter.condition,
            "use a wider type for it",
            topic="integers",
        )
