"""Every loop of C as one kind of loop: `for`, `while`, `do`, endless ones that an `if` leaves, conditions that count.

for (i = 0, k = 9; i < n; i++, k--) …    first: i = 0, k = 9;  condition: i < n;  step: i++, k--
while (i-- > 0) …                        condition: i > 0;  test_effects: i--
do { …; } while (--n);                   step: --n;  condition: n;  bottom-tested
for (;;) { if (i >= n) break; …; i++; }  condition: !(i >= n);  step: i++
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.node_copies import with_in_place
from polydl.frontend.core.tree_parts import integer, items_of, negated
from polydl.frontend.meaning.liveness import (
    assigned_names,
    changed_names,
    has_address_taken,
    jumps,
    leaves,
    returns,
)
from polydl.frontend.meaning.symbols import mentions, nodes

STEPS = ("p++", "++", "p--", "--")
AnyLoop = c_ast.For | c_ast.While | c_ast.DoWhile
_MAYBE = (c_ast.TernaryOp, c_ast.FuncCall)


@dataclass(frozen=True, slots=True)
class Loop:
    """first; while (condition) { test_effects; body; step; } test_effects;

    The condition changes nothing. `bottom_tested`: the body runs before the condition is asked for the first time.
    """

    node: AnyLoop
    """The loop as it is written."""
    first: tuple[Node, ...]
    """Declarations and expressions in front of it, of its header."""
    condition: Node | None
    """None: it always holds."""
    test_effects: tuple[Node, ...]
    """What the condition steps, whether or not it holds."""
    body: Node
    step: tuple[Node, ...]
    """What is done behind each iteration: in the header, or by the last statements of the body that step what the
    condition is on."""
    bottom_tested: bool
    inside: frozenset[str]
    """Scalars that the body assigns to or declares."""
    left: bool
    """The body holds a `break` or `continue`."""

    @property
    def header(self) -> Node:
        """What it sets first, for messages; the loop itself where that is nothing."""
        return self.node.init if isinstance(self.node, c_ast.For) and self.node.init is not None else self.node

    @property
    def changed(self) -> frozenset[str]:
        """Scalars that an iteration assigns to or declares."""
        return self.inside.union(*(assigned_names(part) for part in (*self.test_effects, *self.step)))

    @property
    def exit_variables(self) -> tuple[str, ...]:
        """The variables of the condition that iterations change, in the order of the text."""
        named = () if self.condition is None else dict.fromkeys(mentions(self.condition))
        return tuple(name for name in named if name in self.changed)

    @property
    def header_stepped(self) -> frozenset[str]:
        """Those of them that the header of a `for` loop steps: nothing else may change them."""
        if not isinstance(self.node, c_ast.For) or self.node.next is None:
            return frozenset()
        return frozenset(name for part in self.step for name in assigned_names(part)).intersection(self.exit_variables)


def loop_of(node: AnyLoop) -> Loop:
    """A `for`, `while` or `do` loop, taken apart."""
    body = node.stmt
    first: tuple[Node, ...] = ()
    step: tuple[Node, ...] = ()
    condition, once = node.cond, isinstance(node, c_ast.DoWhile)
    if isinstance(node, c_ast.For):
        first, step = listed(node.init), listed(node.next)
    if _always(condition) and not once:
        condition, body, once = _left(body, bare=not step)
    taken: tuple[Node, ...] = ()
    if condition is not None:
        steps, pure = condition_apart(condition, once)
        condition = pure
        if once:
            step += steps
        else:
            taken = steps
    left = leaves(body)
    if condition is not None and not step and not taken and not (left or jumps(body) or returns(body)):
        step, body = _step_apart(body, condition)
    return Loop(node, first, condition, taken, body, step, once, assigned_names(body), left)


def counts(node: Node) -> bool:
    """Whether a statement is a loop that may be one of a region: each `for` loop, and `while` and `do` loops that step
    a variable of their condition."""
    if isinstance(node, c_ast.For):
        return True
    if not isinstance(node, (c_ast.While, c_ast.DoWhile)) or jumps(node.stmt) or returns(node.stmt):
        return False
    loop = loop_of(node)
    parts = (*loop.test_effects, loop.body, *loop.step)
    steps = {stepped(inner) for part in parts for inner in nodes(part)}
    return not loop.left and not steps.isdisjoint(loop.exit_variables)


def listed(node: Node | None) -> tuple[Node, ...]:
    """The parts of what stands in a header between two semicolons."""
    match node:
        case None:
            return ()
        case c_ast.DeclList(decls=parts) | c_ast.ExprList(exprs=parts):
            return tuple(parts)
        case _:
            return (node,)


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that adds to a variable, or takes from it."""

    name: str
    op: str
    """`+` or `-`."""
    by: Node


def step_of(node: Node) -> Step | None:
    """`i++`, `i -= k`, `i = i + k` and `i = k + i`; None for other statements."""
    match node:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in STEPS:
            return Step(name, op[-1], integer(1, node.coord))
        case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=name), rvalue=by):
            return Step(name, op[0], by)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-" as op) as value):
            left, right = value.left, value.right
            if isinstance(left, c_ast.ID) and left.name == name:
                return Step(name, op, right)
            if op == "+" and isinstance(right, c_ast.ID) and right.name == name:
                return Step(name, op, left)
    return None


def begun_by(part: Node) -> str | None:
    """The variable that a part of a header gives a value to."""
    match part:
        case c_ast.Decl(name=name, init=c_ast.Node()):
            return str(name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name)):
            return str(name)
        case _:
            return None


def stepped(node: Node) -> str | None:
    """The variable that a statement changes, of the form of a step or a sum of more with it; None for other
    statements."""
    match node:
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-") as value):
            return str(name) if name in mentions(value) else None
    step = step_of(node)
    return None if step is None else step.name


def statements(body: Node) -> list[Node]:
    """The statements of a loop's body."""
    return [item for item in items_of(body) if not isinstance(item, c_ast.EmptyStatement)]


def sure_steps(expression: Node) -> list[c_ast.UnaryOp]:
    """The steps in an expression that surely happen, of variables that it names nowhere else."""
    named = list(mentions(expression))
    sure = nodes(expression, lambda n: isinstance(n, _MAYBE) or getattr(n, "op", "") in ("&&", "||", "sizeof"))
    return [
        n
        for n in sure
        if isinstance(n, c_ast.UnaryOp) and n.op in STEPS and isinstance(n.expr, c_ast.ID)
        if named.count(n.expr.name) == 1
    ]


def _always(condition: Node | None) -> bool:
    """Whether a loop's condition is none, or a number that always holds."""
    return condition is None or (
        isinstance(condition, c_ast.Constant) and condition.type == "int" and condition.value.rstrip("uUlL") == "1"
    )


def _left(body: Node, bare: bool) -> tuple[Node | None, Node, bool]:
    """Condition and body of an endless loop whose body begins or ends with `if (c) break;`, and whether it runs once
    before that is asked; `bare`: nothing is stepped behind the body."""
    items = statements(body)
    if len(items) > 1 and (stops := _breaks(items[0])) is not None:
        return negated(stops), c_ast.Compound(items[1:], body.coord), False
    if len(items) > 1 and bare and (stops := _breaks(items[-1])) is not None:
        # what the condition reads has to be what it is at the end of the body
        declared = {item.name for item in items if isinstance(item, c_ast.Decl)}
        if not declared & set(mentions(stops)):
            return negated(stops), c_ast.Compound(items[:-1], body.coord), True
    return None, body, False


def _breaks(item: Node) -> Node | None:
    """The condition of `if (c) break;`; None for other statements."""
    if not isinstance(item, c_ast.If) or item.iffalse is not None:
        return None
    then = items_of(item.iftrue)
    return item.cond if len(then) == 1 and isinstance(then[0], c_ast.Break) else None


def condition_apart(condition: Node, once: bool) -> tuple[tuple[Node, ...], Node]:
    """The steps of a condition, and the condition without them: on the values in front of them, or, where they are
    done `once` before it is asked, behind them."""
    steps = sure_steps(condition)
    if not steps:
        return (), condition
    instead: dict[int, Node] = {}
    for one in steps:
        up, behind = "+" in one.op, one.op.startswith("p")
        value: Node = one.expr
        if behind == once:
            # `i--` is one more than what i is behind it, `--i` one less than what it is in front of it
            op = "+" if up != once else "-"
            value = c_ast.BinaryOp(op, one.expr, integer(1, one.coord), one.coord)
        instead[id(one)] = value
    return tuple(steps), with_in_place(instead, condition)


def _step_apart(body: Node, condition: Node) -> tuple[tuple[Node, ...], Node]:
    """The last statement of a body that steps a variable of the condition, where none behind it mentions that, and the
    other statements; the body as it is where there is no such statement."""
    items = statements(body)
    for at in range(len(items) - 1, -1, -1):
        variable = stepped(items[at])
        if variable is None or variable not in mentions(condition):
            continue
        behind = items[at + 1 :]
        others = {name for item in behind for name in assigned_names(item)}
        own = {item.name for item in items[:at] if isinstance(item, c_ast.Decl)}  # unknown outside of the body
        moved = any(variable in mentions(item) for item in behind) or set(mentions(items[at])) & (others | own)
        return ((), body) if moved else ((items[at],), c_ast.Compound([*items[:at], *behind], body.coord))
    return (), body


_PLAIN = (
    c_ast.Constant, c_ast.ID, c_ast.BinaryOp, c_ast.Cast, c_ast.TernaryOp, c_ast.Typename, c_ast.TypeDecl,
    c_ast.IdentifierType,
)  # fmt: skip


def value_before(variable: str, before: Sequence[Node], *, places: bool = False) -> Node | None:
    """The value that a variable is given in front of code, where it still is that value there; None where none is
    found. Between the two may stand declarations, statements that set other variables, steps, and returns. `places`: it
    may be a place in an array."""
    changed: set[str] = set()
    steps = 0
    for item in reversed(before):
        match item:
            case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in STEPS:
                changed.add(name)
                steps += (1 if "+" in op else -1) * (name == variable)
                continue
            case c_ast.Decl(name=name, init=value) if name == variable and not item.storage:
                found = value
            case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=value) if name == variable:
                found = value
            case c_ast.Decl() | c_ast.Assignment(lvalue=c_ast.ID()):
                if variable in changed_names(item) or has_address_taken(item, variable):
                    return None
                if any(isinstance(node, c_ast.FuncCall) for node in nodes(item)):
                    return None
                changed |= assigned_names(item)
                continue
            case c_ast.EmptyStatement() | c_ast.Pragma():
                continue
            case c_ast.If(cond=condition, iftrue=then, iffalse=None) if _only_returns(then) and _still(condition):
                continue
            case _:
                return None
        plain = found is not None and all(
            isinstance(node, _PLAIN)
            or (isinstance(node, c_ast.UnaryOp) and node.op in ("-", "+", "~"))
            or (places and (isinstance(node, c_ast.ArrayRef) or (isinstance(node, c_ast.UnaryOp) and node.op == "&")))
            for node in nodes(found)
        )
        if not plain or found is None or {variable, *changed} & {*mentions(found)}:
            return None
        more = integer(abs(steps), found.coord)
        return c_ast.BinaryOp("+" if steps > 0 else "-", found, more, found.coord) if steps else found
    return None


def _only_returns(node: Node) -> bool:
    items = statements(node)
    return len(items) == 1 and isinstance(items[0], c_ast.Return)


def _still(condition: Node) -> bool:
    """Whether an expression changes nothing."""
    return not changed_names(condition) and not any(
        isinstance(node, (c_ast.FuncCall, c_ast.Assignment)) for node in nodes(condition)
    )
