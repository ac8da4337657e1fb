"""`while` and `do` loops that count, as `for` loops.

    int i = 0;                              for (i = 0; i < n; i++)
    while (i < n) { x[i] = 0; i++; }            x[i] = 0;

A loop is taken where its condition is on a variable that is set right in front of it, that a statement of its body
behind which it is not mentioned (or the condition itself, as in `while (i-- > 0)`) steps, and that nothing else in it
changes. The variable's value behind the loop is nobody's concern here: that it is not read there is checked as for any
loop. An endless loop that an `if` at its beginning or end leaves has its condition there:

    for (;;) { if (i >= n) break; … }       while (i < n) { … }
    for (int i = 0; i < n;) { …; i++; }     for (int i = 0; i < n; i++) { … }
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from polydl.frontend.lower.member_nodes import Counted
from polydl.frontend.meaning.liveness import assigned_names, changed_names, jumps, leaves
from polydl.frontend.meaning.symbols import mentions, nodes

_PLAIN = (c_ast.Constant, c_ast.ID, c_ast.BinaryOp, c_ast.Cast, c_ast.TernaryOp, c_ast.Typename, c_ast.TypeDecl)
_STEPS = ("p++", "++", "p--", "--")


def count(body: Any) -> None:
    """Put `for` loops in the place of the loops in a function's body that count. The tree is changed."""
    blocks = [node for node in nodes(body) if isinstance(node, (c_ast.Compound, c_ast.Case, c_ast.Default))]
    for block in reversed(blocks):  # the inner ones first: a loop around them takes their statements over
        name = "block_items" if isinstance(block, c_ast.Compound) else "stmts"
        items = getattr(block, name) or []
        for at, item in enumerate(items):
            loop = _with_condition(item)
            if isinstance(loop, (c_ast.While, c_ast.DoWhile)):
                items[at] = _counted(loop, item, items[:at]) or item
            elif isinstance(loop, c_ast.For) and loop.cond is not None and loop.next is None:
                items[at] = _with_step(loop) or loop
            else:
                items[at] = loop


def _with_condition(loop: Any) -> Any:
    """An endless loop whose body begins or ends with `if (c) break;`, with its condition; `for (; c;)` as `while (c)`;
    any other one as it is."""
    if not isinstance(loop, (c_ast.For, c_ast.While)):
        return loop
    if not _endless(loop.cond):
        bare = isinstance(loop, c_ast.For) and loop.init is None and loop.next is None
        return c_ast.While(loop.cond, loop.stmt, loop.coord) if bare else loop
    items = _statements(loop)
    if len(items) > 1 and (stops := _breaks(items[0])) is not None:
        body = c_ast.Compound(items[1:], loop.stmt.coord)
        if isinstance(loop, c_ast.For) and (loop.init is not None or loop.next is not None):
            return c_ast.For(loop.init, _negated(stops), loop.next, body, loop.coord)
        return c_ast.While(_negated(stops), body, loop.coord)
    if len(items) > 1 and (stops := _breaks(items[-1])) is not None:
        # what the condition reads has to be what it is at the end of the body
        declared = {item.name for item in items if isinstance(item, c_ast.Decl)}
        plain = isinstance(loop, c_ast.While) or (loop.init is None and loop.next is None)
        if plain and not declared & set(mentions(stops)):
            return c_ast.DoWhile(_negated(stops), c_ast.Compound(items[:-1], loop.stmt.coord), loop.coord)
    return loop


def _endless(condition: Any) -> bool:
    """Whether a loop's condition is none, or a number that always holds."""
    return condition is None or (
        isinstance(condition, c_ast.Constant) and condition.type == "int" and condition.value.rstrip("uUlL") == "1"
    )


def _breaks(item: Any) -> Any:
    """The condition of `if (c) break;`; None for other statements."""
    if not isinstance(item, c_ast.If) or item.iffalse is not None:
        return None
    then = item.iftrue
    if isinstance(then, c_ast.Compound) and len(then.block_items or []) == 1:
        (then,) = then.block_items
    return item.cond if isinstance(then, c_ast.Break) else None


def _negated(condition: Any) -> Any:
    return c_ast.UnaryOp("!", condition, condition.coord)


def _statements(loop: Any) -> list[Any]:
    """The statements of a loop's body."""
    items = list(loop.stmt.block_items or []) if isinstance(loop.stmt, c_ast.Compound) else [loop.stmt]
    return [item for item in items if not isinstance(item, c_ast.EmptyStatement)]


def _goes_on(loop: Any) -> bool:
    """Whether nothing but its condition ends a loop or one of its iterations."""
    body = loop.stmt
    return not (leaves(body) or jumps(body) or any(isinstance(node, c_ast.Return) for node in nodes(body)))


def _with_step(loop: Any) -> Any:
    """A `for` loop without an increment whose body steps its variable, with that; None for any other."""
    names = {decl.name for decl in loop.init.decls} if isinstance(loop.init, c_ast.DeclList) else set()
    if isinstance(loop.init, c_ast.Assignment) and isinstance(loop.init.lvalue, c_ast.ID):
        names = {loop.init.lvalue.name}
    step, items = _step_apart(_statements(loop), loop.cond)
    variable = _stepped(step)
    rest = c_ast.Compound(items, loop.stmt.coord)
    if variable not in names or not _goes_on(loop) or changed_names(loop.cond) or variable in assigned_names(rest):
        return None
    return c_ast.For(loop.init, loop.cond, step, rest, loop.coord)


def _step_apart(items: list[Any], condition: Any) -> tuple[Any, list[Any]]:
    """The last statement that steps a variable of the condition, where none behind it mentions that, and the others;
    None and all of them where there is no such statement."""
    for at in range(len(items) - 1, -1, -1):
        variable = _stepped(items[at])
        if variable is not None and variable in mentions(condition):
            behind = items[at + 1 :]
            if any(variable in mentions(item) for item in behind) or set(mentions(items[at])) & {
                name for item in behind for name in assigned_names(item)
            }:
                break
            return items[at], [*items[:at], *behind]
    return None, items


def _counted(loop: Any, spelled: Any, before: Sequence[Any]) -> Any:
    """A `while` or `do` loop as one that counts; None where it is none. `spelled` is the loop as it was written."""
    if not _goes_on(loop):
        return None
    items, condition, step = _statements(loop), loop.cond, None
    variable = _judged(condition) if isinstance(loop, c_ast.While) else None
    if variable is None:
        if isinstance(loop, c_ast.DoWhile):
            step, condition = _stepping_first(condition)
        if step is None:
            step, items = _step_apart(items, condition)
        variable = _stepped(step)
    if variable is None or variable not in mentions(condition):
        return None
    rest = c_ast.Compound(items, loop.stmt.coord)
    if variable in assigned_names(rest) or (step is not None and changed_names(condition)):
        return None
    start = value_before(variable, before)
    if start is None:
        return None
    init = c_ast.Assignment("=", c_ast.ID(variable, loop.coord), start, loop.coord)
    made = Counted(init, condition, step, rest, loop.coord)
    made.spelled, made.once = spelled, isinstance(loop, c_ast.DoWhile)
    return made


def _stepping_first(condition: Any) -> tuple[Any, Any]:
    """The step of a condition that steps a variable and then judges it, and the judgement: `++i` and `i < n` of
    `++i < n`; None and the condition as it is for others."""
    copied = copy.deepcopy(condition)
    found = [node for node in nodes(copied) if isinstance(node, c_ast.BinaryOp) and _steps_first(node.left)]
    if len(found) != 1:
        return None, condition
    (judge,) = found
    step, judge.left = judge.left, judge.left.expr
    return (step, copied) if list(mentions(copied)).count(judge.left.name) == 1 else (None, condition)


def _steps_first(node: Any) -> bool:
    return isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--") and isinstance(node.expr, c_ast.ID)


def _judged(condition: Any) -> str | None:
    """The variable that a condition itself steps: `i` of `i-- > 0`."""
    steps = [node for node in nodes(condition) if isinstance(node, c_ast.UnaryOp) and node.op in _STEPS]
    return str(steps[0].expr.name) if len(steps) == 1 and isinstance(steps[0].expr, c_ast.ID) else None


def _stepped(statement: Any) -> str | None:
    """The variable that a statement changes, of the form of a step; None for other statements."""
    match statement:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in _STEPS:
            return str(name)
        case c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=name)):
            return str(name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-") as value):
            return str(name) if name in mentions(value) else None
        case _:
            return None


def value_before(variable: str, before: Sequence[Any]) -> Any:
    """The value that a variable is given in front of code, where it still is that value there; None where none is
    found. Between the two may stand declarations, statements that set other variables, and returns."""
    changed: set[str] = set()
    for item in reversed(before):
        match item:
            case c_ast.Decl(name=name, init=value) if name == variable and not item.storage:
                found = value
            case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=value) if name == variable:
                found = value
            case c_ast.Decl() | c_ast.Assignment(lvalue=c_ast.ID()):
                if variable in mentions(item) or any(isinstance(node, c_ast.FuncCall) for node in nodes(item)):
                    return None
                changed |= assigned_names(item)
                continue
            case c_ast.EmptyStatement() | c_ast.Pragma():
                continue
            case c_ast.If(cond=condition, iftrue=then, iffalse=None) if _returns(then) and _still(condition):
                continue
            case _:
                return None
        plain = found is not None and all(
            isinstance(node, (*_PLAIN, c_ast.IdentifierType))
            or (isinstance(node, c_ast.UnaryOp) and node.op in ("-", "+", "~"))
            for node in nodes(found)
        )
        return found if plain and not changed & {variable, *mentions(found)} else None
    return None


def _returns(node: Any) -> bool:
    items = list(node.block_items or []) if isinstance(node, c_ast.Compound) else [node]
    return len(items) == 1 and isinstance(items[0], c_ast.Return)


def _still(condition: Any) -> bool:
    """Whether an expression changes nothing."""
    return not changed_names(condition) and not any(
        isinstance(node, (c_ast.FuncCall, c_ast.Assignment)) for node in nodes(condition)
    )
