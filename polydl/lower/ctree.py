"""C as a tree: expressions and statements between isl's syntax tree and text.

Loops keep marks that say how they run (`Marked`) until a pass of `polydl.lower.passes` turns them into pragmas or other
loops. Nothing is learnt from text: passes match nodes, and `polydl.lower.cprint` comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from enum import Enum
from functools import reduce

from polydl.base.records import dataclass
from polydl.kernels.row_loops import RowStatement
from polydl.kernels.segment_sum import SegmentFunction
from polydl.model.types import ElementType

# Expressions


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier, or text that stands for an object as one does."""

    name: str


@dataclass(frozen=True, slots=True)
class Int:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class Text:
    """A literal as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `!`, `~`, `&` or `*` before an operand."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands with an operator between them."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """An element of an array."""

    array: str
    subscripts: tuple[Expr, ...]
    member: str = ""
    """Of an element that is a structure: `.x`, `.pos`."""
    inner: tuple[Expr, ...] = ()
    """Subscripts behind the member."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? then : otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion."""

    type: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Paren:
    """An expression in parentheses that precedence does not ask for: compilers warn without them, or people do."""

    inner: Expr


Expr = Name | Int | Text | Unary | Binary | Invoke | Item | Choice | Cast | Paren


def plus(left: Expr, right: Expr) -> Expr:
    """The sum, without a zero and without parentheses around a sum on the right."""
    match left, right:
        case _, Int(0):
            return left
        case Int(0), _:
            return right
        case _, Binary("+" | "-" as op, first, second):
            return Binary(op, plus(left, first), second)
        case _:
            return Binary("+", left, right)


def times(left: Expr, right: Expr) -> Expr:
    """The product, without a factor of one on the left; zero where a factor is."""
    if Int(0) in (left, right):
        return Int(0)
    return right if left == Int(1) else Binary("*", left, right)


def every(conditions: tuple[Expr, ...]) -> Expr:
    """All of some conditions, at least one; `||` and `?:` among them in parentheses."""
    several = len(conditions) > 1
    grouped = [
        Paren(one) if several and (isinstance(one, Choice) or (isinstance(one, Binary) and one.op == "||")) else one
        for one in conditions
    ]
    return reduce(lambda left, right: Binary("&&", left, right), grouped)


def rewritten(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """An expression with each part changed, the innermost first."""
    match expr:
        case Name() | Int() | Text():
            return change(expr)
        case Unary(op, operand):
            return change(Unary(op, rewritten(operand, change)))
        case Binary(op, left, right):
            return change(Binary(op, rewritten(left, change), rewritten(right, change)))
        case Invoke(function, arguments):
            return change(Invoke(function, tuple(rewritten(a, change) for a in arguments)))
        case Item(array, subscripts, member, inner):
            outside, inside = (tuple(rewritten(s, change) for s in part) for part in (subscripts, inner))
            return change(Item(array, outside, member, inside))
        case Choice(condition, then, otherwise):
            parts = (rewritten(part, change) for part in (condition, then, otherwise))
            return change(Choice(*parts))
        case Cast(type_, operand):
            return change(Cast(type_, rewritten(operand, change)))
        case Paren(inner):
            return change(Paren(rewritten(inner, change)))


def substituted(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression with values in place of names; sums and products with a 0 or 1 that this leaves are simpler."""

    def change(part: Expr) -> Expr:
        match part:
            case Name(name):
                return values.get(name, part)
            case Binary("*", left, right):
                return times(left, right)
            case Binary("+", left, Int(0)):
                return left
            case _:
                return part

    return rewritten(expr, change)


def linear_terms(expr: Expr, times: int = 1) -> dict[Expr | None, int]:
    """Factors of an expression's terms; of None: the constant."""
    match expr:
        case Int(value):
            return {None: times * value}
        case Unary("-", operand):
            return linear_terms(operand, -times)
        case Binary("*", Int(value), inner) | Binary("*", inner, Int(value)):
            return linear_terms(inner, times * value)
        case Binary("+" | "-" as op, left, right):
            found = linear_terms(left, times)
            for term, factor in linear_terms(right, times if op == "+" else -times).items():
                found[term] = found.get(term, 0) + factor
            return found
        case _:
            return {expr: times}


def names(expr: Expr, *, arrays: bool = False) -> Iterator[str]:
    """The identifiers in an expression, those of functions left out, and those of arrays unless they are asked for."""
    match expr:
        case Name(name):
            yield name
        case Unary(_, operand) | Cast(_, operand) | Paren(operand):
            yield from names(operand, arrays=arrays)
        case Binary(_, left, right):
            yield from names(left, arrays=arrays)
            yield from names(right, arrays=arrays)
        case Item(array, subscripts, _, inner):
            if arrays:
                yield array
            for part in (*subscripts, *inner):
                yield from names(part, arrays=arrays)
        case Invoke(_, parts):
            for part in parts:
                yield from names(part, arrays=arrays)
        case Choice(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from names(part, arrays=arrays)


# Statements


@dataclass(frozen=True, slots=True)
class Assign:
    """`target op value;`"""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Evaluate:
    """An expression as a statement."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """Objects of one type, with their values; None: without one."""

    type: str
    objects: tuple[tuple[str, Expr | None], ...]


@dataclass(frozen=True, slots=True)
class Pragma:
    """A line `#pragma …`; those of OpenMP are hidden from compilers without it."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Lines as they were written, by the user or a template."""

    lines: tuple[str, ...]
    indented: bool = True
    """False: they stay where they are."""


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Statements in braces."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If:
    """A condition."""

    condition: Expr
    then: Node
    otherwise: Node | None = None
    short: bool = False
    """Both sides are one statement and stand on the line of the condition."""


@dataclass(frozen=True, slots=True)
class For:
    """A loop that counts."""

    variable: str
    type: str
    first: Expr
    condition: Expr
    step: Expr
    body: Node
    once: bool = False
    """It has one iteration, with the first value."""

    @property
    def last(self) -> Expr | None:
        """The last value, of a loop that counts upwards in steps of one to a bound; None of any other."""
        match self.condition:
            case Binary("<=", Name(name), last) if name == self.variable and self.step == Int(1) and not self.once:
                return last
            case Binary("<", Name(name), end) if name == self.variable and self.step == Int(1) and not self.once:
                return Binary("-", end, Int(1))
            case _:
                return None

    @property
    def distance(self) -> Expr | None:
        """From the first value to the last, one less than its iterations; None where `last` is."""
        match self.first, self.last:
            case _, None:
                return None
            case Int(first), Int(last):
                return Int(last - first)
            case Int(0), last:
                return last
            case first, last:
                return Binary("-", last, first)


@dataclass(frozen=True, slots=True)
class Hint:
    """Something about the next statement, as which instance of the program it is (`lower.instance_marks`): for the
    proof, no code."""

    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Finite:
    """A statement whose products of complex numbers are all finite."""

    body: Assign
    products: tuple[Invoke, ...]
    """Per product the call whose result is not 0 where it may not be finite."""
    factors: frozenset[int]
    """The accesses that factors are made of."""


@dataclass(frozen=True, slots=True)
class Through:
    """The segment that a statement runs through: entries from `array[row]` to `array[row + 1]`."""

    array: str
    element: ElementType
    """Of the array."""
    row: Expr
    function: SegmentFunction | None = None
    """What adds the entries up; None: nothing but the statement itself does."""
    moves: tuple[tuple[tuple[Expr, int | None], ...], ...] = ()
    """Per factor of the function: an integer of the instance, and elements by which the factor is further for the next
    one; None: they are not known."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A statement of the program at work, or a call that runs several."""

    body: Node
    hints: tuple[Hint, ...] = ()
    row: RowStatement | None = None
    """What a row may be made of; None for what is none of the program's own statements."""
    elements: tuple[Expr, ...] = ()
    """Of each of its accesses; empty where it is no assignment, or data choose what it reads."""
    values: tuple[Expr, ...] = ()
    """Those made of loop variables in its right-hand side, from left to right."""
    finite: Finite | None = None
    """The same without questions about infinities; None where complex numbers are not all that it is about."""
    through: Through | None = None
    """Of a loop over a segment."""


class Way(Enum):
    """How the loops below a mark run."""

    PARALLEL = "parallel"
    """The next ones are shared out among threads."""
    CURVE = "curve"
    """So are the next two, along a space-filling curve."""
    ENTRIES = "entries"
    """So is the next one, over rows, in parts that have the same number of entries."""
    SIMD = "simd"
    """The next one runs in vectors."""
    SUM = "sum"
    """The next one adds up, in vectors."""
    THREAD = "thread"
    """What follows is run by one thread: the loops that are shared out end here."""
    COPIED = "copied"
    """The same, where the loops only copy."""
    TEAM = "team"
    """All of what follows is run by each thread of a team, but for the loops that these share out."""
    SHARE = "share"
    """The next loops are shared out among the threads of the team around."""
    WAIT = "wait"
    """The threads of the team wait for each other behind what follows."""

    @property
    def takes_loops(self) -> bool:
        """Whether it says how the next loops run."""
        return self not in (Way.THREAD, Way.COPIED, Way.TEAM, Way.WAIT)


@dataclass(frozen=True, slots=True)
class Marked:
    """Loops that run in their own way."""

    way: Way
    body: Node
    clauses: str = ""
    """Of OpenMP."""
    loops: int = field(default=1)
    """That are collapsed, for PARALLEL and SHARE."""


Node = Assign | Evaluate | Declare | Pragma | Raw | Block | Scope | If | For | Hint | Instance | Marked


def children(node: Node) -> tuple[Node, ...]:
    """The statements directly inside of one."""
    match node:
        case Block(parts) | Scope(parts):
            return parts
        case If(_, then, otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case For(body=body) | Marked(body=body):
            return (body,)
        case Instance(body, hints):
            return (*hints, body)
        case _:
            return ()


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """A statement with those directly inside of it changed."""
    match node:
        case Block(parts) | Scope(parts):
            return replace(node, parts=tuple(change(part) for part in parts))
        case If(_, then, otherwise):
            return replace(node, then=change(then), otherwise=None if otherwise is None else change(otherwise))
        case For(body=body) | Marked(body=body) | Instance(body=body):
            return replace(node, body=change(body))
        case _:
            return node


def segments(node: Node) -> Iterator[Through]:
    """The segments that code runs through."""
    if isinstance(node, Instance) and node.through is not None:
        yield node.through
    for child in children(node):
        yield from segments(child)


def expressions(node: Node) -> tuple[Expr, ...]:
    """The expressions of a statement itself, without those of the statements inside; none of a hint."""
    match node:
        case Assign(target, _, value):
            return (target, value)
        case Evaluate(expr):
            return (expr,)
        case Declare(_, objects):
            return tuple(value for _, value in objects if value is not None)
        case If(condition):
            return (condition,)
        case For(_, _, first, condition, step):
            return (first, condition, step)
        case _:
            return ()


def mentions(node: Node, name: str) -> bool:
    """Whether code uses a variable; text that others wrote is taken to use every identifier in it."""
    return name in mentioned(node)


def mentioned(node: Node) -> set[str]:
    """The variables that code uses, arrays among them: see `mentions`."""
    if isinstance(node, Raw):
        return set("".join(c if c.isalnum() or c == "_" else " " for line in node.lines for c in f"{line} ").split())
    found = {name for expr in expressions(node) for name in names(expr, arrays=True)}
    return found.union(*(mentioned(child) for child in children(node) if not isinstance(child, Hint)))


def with_value(node: Node, name: str, value: Expr) -> Node:
    """Code whose hints say a value in place of a variable that nothing else mentions."""
    if isinstance(node, Hint):
        return _with_arguments(node, name, value)
    if isinstance(node, Instance):
        return replace(node, hints=tuple(_with_arguments(hint, name, value) for hint in node.hints))
    return with_children(node, lambda child: with_value(child, name, value))


def _with_arguments(hint: Hint, name: str, value: Expr) -> Hint:
    return replace(hint, arguments=tuple(substituted(a, {name: value}) for a in hint.arguments))
