"""The values that a C `for` loop's variable takes, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from polydl.base.errors import InputError
from polydl.frontend.meaning.affine import Evaluator, NotAffine, Value, constant_aff, symbol_aff, tidy, universe
from polydl.frontend.meaning.lookup import Settings
from polydl.frontend.meaning.symbols import Symbol, mentions
from polydl.frontend.text.places import Places
from polydl.model import isl
from polydl.model.scop import Storage
from polydl.model.types import I32, ElementType

_EARLIER = "__polydl_earlier"
NO_START = "the loop does not initialise its variable"
WRITE = "write for (i = a; i < b; i += c)"
_OTHERWISE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "==": "=="}


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that a loop counts beside its own."""

    variable: str
    declared: Any
    """The Decl when the loop declares it, else None."""
    value: Any
    """What it is in the body: `n - 1 + -1 * (i - 0)`."""
    start: Any


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of `for (i = start; condition; i += step)`."""

    variable: str
    declared: Any
    """The Decl when the loop declares its variable, else None."""
    start: Any
    """The variable itself when it goes on with the value that it has: `for (; i < n; i++)`."""
    condition: Any
    step: int
    node: Any
    others: tuple[Counter, ...] = ()
    """Further counters: `k` of `for (i = 0, k = n - 1; i < n; i++, k--)`."""
    counted: bool = False
    """The condition itself counts, as in `for (i = n; i-- > 0;)`: the body sees `start + step` first, and what the
    variable becomes when the condition fails is nobody's concern. `condition` is in terms of what the body sees."""


def header(node: Any, evaluator: Evaluator, places: Places) -> Header:
    """Take a For node apart. Raises InputError when it is no counting loop."""
    if node.cond is None:
        raise places.error("the loop has no condition", node, WRITE, topic="loop-headers")
    started = _starts(node)
    if len(started) > 1:
        return _several(node, started, evaluator, places)
    variable, declared, start = _start(node, places)
    if node.next is None:
        counting = _counting(node.cond, variable)
        if counting is None:
            raise places.error("the loop has no increment", node, WRITE, topic="loop-headers")
        condition, step = counting
        return Header(variable, declared, start, straight(condition), step, node, counted=True)
    step = _step(node.next, variable, evaluator, places)
    if step == 0:
        raise places.error(
            f"the step of '{variable}' is zero: the loop never ends",
            node.next,
            "use another step",
            topic="loop-headers",
        )
    return Header(variable, declared, start, straight(node.cond), step, node)


def straight(condition: Any) -> Any:
    """A condition on integers without `!` where comparisons say the same: `i < n` for `!(i >= n)`."""
    match condition:
        case c_ast.UnaryOp(op="!", expr=c_ast.UnaryOp(op="!", expr=same)):
            return straight(same)
        case c_ast.UnaryOp(op="!", expr=c_ast.BinaryOp(op=op, left=left, right=right)) if op in _OTHERWISE:
            return c_ast.BinaryOp(_OTHERWISE[op], left, right, condition.coord)
        case c_ast.UnaryOp(op="!", expr=c_ast.BinaryOp(op="||" | "&&" as op, left=left, right=right)):
            parts = (straight(c_ast.UnaryOp("!", part, part.coord)) for part in (left, right))
            return c_ast.BinaryOp("&&" if op == "||" else "||", *parts, condition.coord)
    return condition


def refused(loop: Header, found: Symbol, settings: Settings, in_fragment: bool) -> tuple[str, str] | None:
    """Why what a loop's variable names can't be one, and the way out; None when it can.

    Inside a pragma's loops (`in_fragment`) the variables exist in no scope of the program.
    """
    name = loop.variable
    if not found.is_integer:
        return f"the loop variable '{name}' is not an integer", "declare it as int"
    if found.pinned:
        return f"the loop variable '{name}' is {found.pinned}", "declare it in the loop"
    if loop.declared is None and not in_fragment:
        if found.storage is Storage.GLOBAL:
            return f"the loop variable '{name}' is global", "declare it in the loop"
        if found.storage is Storage.PARAMETER:
            return f"the function parameter '{name}' is written in the scop", "use a local loop variable"
        if name in settings.escaping:
            return (
                f"the value of the loop variable '{name}' is used after the scop",
                f"declare it in the loop: for (int {name} = ...)",
            )
    if name in settings.data:
        return f"'{name}' is a loop variable here and holds data elsewhere in the scop", "use two names"
    return None


def _counting(condition: Any, variable: str) -> tuple[Any, int] | None:
    """The condition on what the body sees, and the step, of a condition such as `i-- > 0`; None for others.

    With the value x in the body, `i--` has the value x + 1 and `--i` has the value x.
    """
    match condition:
        case c_ast.UnaryOp(op="p--" | "--" | "p++" | "++"):
            zero = c_ast.Constant("int", "0", condition.coord)
            return _counting(c_ast.BinaryOp("!=", condition, zero, condition.coord), variable)
        case c_ast.BinaryOp(op=op, left=left, right=right) if op in _MIRROR:
            if not isinstance(left, c_ast.UnaryOp) or left.op not in ("p--", "--", "p++", "++"):
                op, left, right = _MIRROR[op], right, left
        case _:
            return None
    if not isinstance(left, c_ast.UnaryOp) or left.op not in ("p--", "--", "p++", "++"):
        return None
    if not isinstance(left.expr, c_ast.ID) or left.expr.name != variable or variable in mentions(right):
        return None
    step = -1 if "--" in left.op else 1
    if left.op.startswith("p"):
        # x - step op e; said without a number below zero where it can be, as unsigned ones have none
        if (op, step) in ((">", -1), ("<", 1)):
            op += "="
        elif (op, step) == ("!=", -1) and isinstance(right, c_ast.Constant) and right.value == "0":
            op = ">="
        else:
            right = c_ast.BinaryOp("-" if step < 0 else "+", right, c_ast.Constant("int", "1"), right.coord)
    return c_ast.BinaryOp(op, left.expr, right, condition.coord), step


def _start(node: Any, places: Places) -> tuple[str, Any, Any]:
    match node.init:
        case c_ast.DeclList(decls=[c_ast.Decl() as decl]) if decl.init is not None:
            return decl.name, decl, decl.init
        case c_ast.Assignment(op="=", lvalue=c_ast.ID() as target):
            return target.name, None, node.init.rvalue
        case None:
            target = getattr(node.next, "lvalue", None) or getattr(node.next, "expr", None)
            if isinstance(target, c_ast.ID):
                return target.name, None, target
            raise places.error(NO_START, node, WRITE, topic="loop-headers")
    raise places.error("the loop initialises more than one variable, or none", node.init, WRITE, topic="loop-headers")


def _starts(node: Any) -> list[tuple[str, Any, Any]]:
    """(variable, Decl or None, value) of everything that a loop initialises; empty where it does something else."""
    match node.init:
        case c_ast.DeclList(decls=decls) if all(decl.init is not None for decl in decls):
            return [(decl.name, decl, decl.init) for decl in decls]
        case c_ast.ExprList(exprs=parts) if all(
            isinstance(one, c_ast.Assignment) and one.op == "=" and isinstance(one.lvalue, c_ast.ID) for one in parts
        ):
            return [(one.lvalue.name, None, one.rvalue) for one in parts]
        case _:
            return []


def _several(node: Any, started: list[tuple[str, Any, Any]], evaluator: Evaluator, places: Places) -> Header:
    """A loop that counts several variables of which the condition is on one. Raises InputError."""
    judged = [one for one in started if one[0] in mentions(node.cond)]
    names = [name for name, _, _ in started]
    hint = "count one variable in the loop, and derive the others from it in the body"
    if len(judged) != 1 or len(set(names)) < len(names) or any(set(mentions(s)) & set(names) for _, _, s in started):
        raise places.error("the loop initialises more than one variable", node.init, hint, topic="loop-headers")
    parts = node.next.exprs if isinstance(node.next, c_ast.ExprList) else [node.next]
    steps = {}
    for part in parts:
        target = getattr(part, "lvalue", None) or getattr(part, "expr", None)
        if not isinstance(target, c_ast.ID) or target.name not in names or target.name in steps:
            raise places.error("the loop counts in another way than by steps", part or node, hint, topic="loop-headers")
        steps[target.name] = _step(part, target.name, evaluator, places)
    variable, declared, start = judged[0]
    step = steps.get(variable, 0)
    if step == 0:
        raise places.error(f"the loop does not count '{variable}'", node, hint, topic="loop-headers")
    here = node.init.coord

    def number(value: int) -> Any:
        one = c_ast.Constant("int", str(abs(value)), here)
        return c_ast.UnaryOp("-", one, here) if value < 0 else one

    first, last = (start, c_ast.ID(variable, here)) if step > 0 else (c_ast.ID(variable, here), start)
    count: Any = c_ast.BinaryOp("-", last, first, here)
    if abs(step) != 1:
        count = c_ast.BinaryOp("/", count, number(abs(step)), here)
    others = []
    for name, decl, begin in started:
        if name != variable:
            moved = c_ast.BinaryOp("*", number(steps.get(name, 0)), count, here)
            others.append(Counter(name, decl, c_ast.BinaryOp("+", begin, moved, here), begin))
    return Header(variable, declared, start, straight(node.cond), step, node, tuple(others))


def _step(node: Any, variable: str, evaluator: Evaluator, places: Places) -> int:
    """The constant that the increment adds to the loop variable."""

    def is_variable(expr: Any) -> bool:
        return isinstance(expr, c_ast.ID) and expr.name == variable

    def constant(expr: Any) -> int:
        try:
            value = evaluator.value(expr, universe()).constant
        except NotAffine:
            value = None
        if value is None:
            raise places.error(
                f"the step of '{variable}' is not constant", expr, "use a step that is a constant", topic="loop-headers"
            )
        return value

    match node:
        case c_ast.UnaryOp(op="p++" | "++") if is_variable(node.expr):
            return 1
        case c_ast.UnaryOp(op="p--" | "--") if is_variable(node.expr):
            return -1
        case c_ast.Assignment(op="+=" | "-=") if is_variable(node.lvalue):
            return constant(node.rvalue) * (1 if node.op == "+=" else -1)
        case c_ast.Assignment(op="=", rvalue=c_ast.BinaryOp(op="+" | "-") as sum_) if is_variable(node.lvalue):
            if is_variable(sum_.left):
                return constant(sum_.right) * (1 if sum_.op == "+" else -1)
            if sum_.op == "+" and is_variable(sum_.right):
                return constant(sum_.left)
    raise places.error(
        f"the increment does not add a constant to '{variable}'",
        node,
        f"write {variable}++ or {variable} += c",
        topic="loop-headers",
    )


def domain(
    loop: Header,
    ctype: ElementType,
    start: Value,
    where: isl.Set,
    evaluator: Evaluator,
    places: Places,
    iterators: frozenset[str],
    once: bool = False,
) -> isl.Set:
    """`where` with the values that the loop's variable takes in the body.

    The variable runs through start, start + step, … and stops before the first value at which the condition fails.
    A bound (`i < e`, e without i) fails for ever once it fails, so that the condition itself says which values are
    taken; any other condition has its values removed that come after a failure. Raises InputError when the loop may
    not end, or may leave the range of its type; NotAffine for a bound that data decide. `iterators` are this loop's and
    the outer ones' variables. `once`: of a `do` loop, which runs once where its condition fails at first; it goes on
    from there only where that is no bound, which `surely_runs` refuses.
    """
    variable, step = loop.variable, loop.step
    at = symbol_aff(variable)
    try:
        first = _first(loop, ctype, start, where, evaluator)
        if loop.counted:
            first = first.add(constant_aff(step))
    except NotAffine as error:
        if error.data:
            raise
        raise _not_affine(places, error, loop.start) from None
    reached = where.intersect(at.ge_set(first) if step > 0 else at.le_set(first))
    if abs(step) != 1:
        reached = reached.intersect(at.sub(first).mod_val(isl.value(abs(step))).zero_set())
    bound = _is_bound(loop.condition, variable, step)
    if ctype.unsigned and step < 0:
        # values below zero do not exist: the condition is judged on the values that do
        seen = reached.intersect(at.ge_set(constant_aff(0)))
    else:
        seen = reached
    if ctype.unsigned and step > 0:
        reached = seen = reached.intersect(at.ge_set(constant_aff(0)))
    try:
        holds = evaluator.condition(loop.condition, seen)
    except NotAffine as error:
        if error.data:
            raise
        raise _not_affine(places, error, loop.condition) from None
    if bound:
        result = seen.intersect(holds)
        if once and not loop.counted:
            result = result.union(seen.intersect(at.eq_set(first)))
    else:
        stops = seen.subtract(holds)
        endless = where.subtract(isl.some_values(stops, [variable]))
        endless = endless.intersect(isl.some_values(seen.intersect(at.eq_set(first)), [variable]))
        if not endless.is_empty():
            raise places.error(
                f"the loop over '{variable}' may never end",
                loop.condition,
                f"write {variable} {'<' if step > 0 else '>'} bound, or state what is known with "
                "'#pragma polydl assume(...)'",
                topic="loop-headers",
            )
        earlier = symbol_aff(_EARLIER)
        failed = isl.rename_parameter(stops, variable, _EARLIER)
        failed = failed.intersect(earlier.le_set(at) if step > 0 else earlier.ge_set(at))
        result = seen.intersect(holds).subtract(isl.some_values(failed, [_EARLIER]))
    _in_range(loop, ctype, result, iterators, places)
    return tidy(result)


def _first(loop: Header, ctype: ElementType, start: Value, where: isl.Set, evaluator: Evaluator) -> isl.PwAff:
    """What a loop's variable begins with. Raises NotAffine."""
    return evaluator.require(evaluator.convert(start, ctype, loop.start, where), loop.start)


def value_afterwards(
    loop: Header, ctype: ElementType, start: Value, where: isl.Set, taken: isl.Set, evaluator: Evaluator
) -> Value | None:
    """What a loop's variable is when it has run in the iterations `where` of the loops around it, in which it took the
    values `taken`; None where that is not found."""
    if loop.counted:
        return None
    runs = isl.some_values(taken, [loop.variable])
    values = isl.Map.from_domain_and_range(runs, isl.as_dimensions(taken, [loop.variable]).coalesce())
    try:
        first = _first(loop, ctype, start, where, evaluator)
        extreme = values.lexmax() if loop.step > 0 else values.lexmin()
    except (NotAffine, isl.Error):
        return None
    (last,) = isl.components(extreme.as_pw_multi_aff())
    last = last.add_constant_val(isl.value(loop.step))
    return Value(last.union_add(first.intersect_domain(where.subtract(runs))).coalesce(), None, ctype)


def surely_runs(loop: Header, around: isl.Set, taken: isl.Set, places: Places) -> None:
    """Raise InputError for a `do` loop whose condition may fail at first.

    `around`: where the loop stands; `taken`: there, with the values for which the condition lets the body run.
    """
    if not around.is_subset(isl.some_values(taken, [loop.variable])):
        raise places.error(
            f"the first iteration of this 'do' loop runs even where its condition on '{loop.variable}' does not hold",
            loop.node,
            "write a while loop, or state with '#pragma polydl assume(...)' that the condition holds at first",
            topic="loop-headers",
        )


def _not_affine(places: Places, error: NotAffine, node: Any) -> InputError:
    place = error.node if getattr(error.node, "coord", None) is not None else node
    hint = error.hint or "a loop bound may use outer loop variables, parameters and constants, min and max"
    return places.error(f"the loop bound is not affine: {error.why}", place, hint, topic=error.topic)


def bounds(loop: Header) -> list[tuple[Any, int]]:
    """What a loop's variable is compared with so that the loop ends, each with 1 where the variable stays below it."""
    found: list[tuple[Any, int]] = []
    waiting = [loop.condition]
    while waiting:
        condition = waiting.pop()
        if not isinstance(condition, c_ast.BinaryOp):
            continue
        if condition.op == "&&":
            waiting += [condition.left, condition.right]
            continue
        for op, one, other in (
            (condition.op, condition.left, condition.right),
            (_MIRROR.get(condition.op, ""), condition.right, condition.left),
        ):
            if isinstance(one, c_ast.ID) and one.name == loop.variable and loop.step > 0:
                found.append((other, int(op != "<=")))
    return found


def _is_bound(condition: Any, variable: str, step: int) -> bool:
    """Whether a condition is a conjunction of bounds on the variable in the direction in which it runs."""
    if not isinstance(condition, c_ast.BinaryOp):
        return False
    if condition.op == "&&":
        return _is_bound(condition.left, variable, step) and _is_bound(condition.right, variable, step)
    op, left, right = condition.op, condition.left, condition.right
    if not (isinstance(left, c_ast.ID) and left.name == variable):
        if op not in _MIRROR:
            return False
        op, left, right = _MIRROR[op], right, left
    if not (isinstance(left, c_ast.ID) and left.name == variable) or variable in mentions(right):
        return False
    return op in (("<", "<=") if step > 0 else (">", ">="))


def _in_range(loop: Header, ctype: ElementType, taken: isl.Set, iterators: frozenset[str], places: Places) -> None:
    """Refuse loops whose last increment leaves the range of the variable's type."""
    following = symbol_aff(loop.variable).add(constant_aff(loop.step))
    if (
        loop.step < 0
        and ctype.unsigned
        and not loop.counted
        and not taken.intersect(following.lt_set(constant_aff(0))).is_empty()
    ):
        raise places.error(
            f"'{loop.variable}' is unsigned and wraps around below zero: the loop does not end there",
            loop.condition,
            f"declare '{loop.variable}' as int",
            topic="integers",
        )
    if ctype.bits >= I32.bits and any(name not in iterators for name in isl.parameters(taken)):
        # symbolic bounds of 32 and 64 bits are taken to stay in range (see affine.py); numeric ones are checked
        return
    beyond = taken.intersect(following.gt_set(constant_aff(ctype.maximum)))
    if not beyond.is_empty():
        raise places.error(
            f"'{loop.variable}' leaves the range of '{ctype.c}'",
            loop.condition,
            "use a wider type for it",
            topic="integers",
        )
