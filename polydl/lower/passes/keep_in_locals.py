"""Keeps elements that a block writes several times in locals of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    If,
    Instance,
    Int,
    Item,
    Marked,
    Name,
    Node,
    Pragma,
    Raw,
    Scope,
    Unary,
    Way,
    children,
    expressions,
    linear_terms,
    names,
    rewritten,
    with_children,
)
from polydl.model.scop import Array


@dataclass(frozen=True, slots=True)
class Kept:
    """The pass.

    before:    y[i] = 0;          for k: y[i] += a[k] * x[i + k];  y[i] = max(y[i], 0);
    after:     float kept0 = 0;   for k: kept0 += a[k] * x[i + k];  kept0 = max(kept0, 0);  y[i] = kept0;
    requires:  from the first of the statements, which always writes the element, to the last, whatever else is read or
               written of the array is another element, by a constant
    why:       arrays of parameters may overlap for all that a compiler knows, so it stores each value
    """

    arrays: Mapping[str, Array]
    prefix: str

    def __call__(self, node: Node, first: int = 0) -> Node:
        """Code with its locals, of which `first` is the number of the next one."""
        match node:
            case Block(parts):
                made = self._kept(parts, first)
                return Scope(made) if made is not None else with_children(node, lambda child: self(child, first))
            case Marked(way, For() as loop):
                # Loops that are run as one stay directly inside of each other.
                return replace(node, body=self._loop(loop, first, 2 if way is Way.CURVE else node.loops))
            case For():
                return self._loop(node, first, 1)
            case If():
                return with_children(node, lambda child: self._body(child, first))
            case Instance():
                return node
            case _:
                return with_children(node, lambda child: self(child, first))

    def _loop(self, loop: For, first: int, bare: int) -> Node:
        if bare > 1 and isinstance(loop.body, For):
            return replace(loop, body=self._loop(loop.body, first, bare - 1))
        return replace(loop, body=self._body(loop.body, first))

    def _body(self, node: Node, first: int) -> Node:
        """What stands in braces of its own."""
        made = self._kept(node.parts if isinstance(node, Block) else (node,), first)
        return Block(made) if made is not None else self(node, first)

    def _kept(self, parts: Sequence[Node], first: int) -> tuple[Node, ...] | None:
        """Statements with their locals; None: none gets one."""
        often = Counter(target for part in parts for target in _targets(part, many=False))
        found: dict[Item, _Run] = {}
        for at, part in enumerate(parts):
            for element in _written_first(part):
                if element not in found and often[element] > 1 and (run := self._run(parts, at, element)):
                    found[element] = run
        if not found:
            return None
        local = {element: Name(f"{self.prefix}kept{first + n}") for n, element in enumerate(found)}
        lines: list[Node] = []
        for at, part in enumerate(parts):
            here = {element: local[element] for element, run in found.items() if run.begin <= at <= run.end}
            changed = self(_replaced(part, here), first + len(found))
            for element, run in found.items():
                if run.begin == at:
                    changed = self._declared(changed, element, local[element], lines)
            lines.append(changed)
            lines += [Assign(element, "=", local[element]) for element, run in found.items() if run.end == at]
        return tuple(lines)

    def _declared(self, part: Node, element: Item, local: Name, lines: list[Node]) -> Node:
        """The first statement of a run, which declares the local where it can; else that is declared before."""
        ctype = str(self.arrays[element.array].element)
        if isinstance(part, Instance) and isinstance(part.body, Assign) and part.body.op == "=":
            if local.name not in names(part.body.value):
                return replace(part, body=Declare(ctype, ((local.name, part.body.value),)))
        lines.append(Declare(ctype, ((local.name, element),)))
        return part

    def _run(self, parts: Sequence[Node], begin: int, element: Item) -> _Run | None:
        """The longest run of statements from one on through which a local can stand for an element; None where the
        element is not written at least twice there."""
        array = self.arrays.get(element.array)
        if array is None or array.members is not None or any(map(_chosen_by_data, element.subscripts)):
            return None
        end, writes = begin, 0
        for at in range(begin, len(parts)):
            touched = _Touched(element)
            touched.add(parts[at], frozenset())
            if touched.lost:
                break
            writes += sum(target == element for target in _targets(parts[at], many=False))
            end = at if touched.some else end
        return _Run(begin, end) if writes > 1 else None


@dataclass(frozen=True, slots=True)
class _Run:
    """Statements that only need a local for an element."""

    begin: int
    end: int


def _chosen_by_data(subscript: Expr) -> bool:
    """Whether an element is read to know which one is meant."""
    found = False

    def seen(part: Expr) -> Expr:
        nonlocal found
        found = found or isinstance(part, Item)
        return part

    rewritten(subscript, seen)
    return found


def _targets(node: Node, *, many: bool) -> Iterator[Item]:
    """The elements that code writes, as often as it is written; those in loops twice."""
    match node:
        case Assign(Item() as target):
            yield from [target] * (1 + many)
        case _:
            for child in children(node):
                yield from _targets(child, many=many or (isinstance(node, For) and not node.once))


@dataclass(slots=True)
class _Touched:
    """What code does to an element."""

    element: Item
    some: bool = False
    """It reads or writes it."""
    lost: bool = False
    """It may touch it in another way."""

    def add(self, node: Node, counted: frozenset[str]) -> None:
        """One statement more, inside of loops over `counted`."""
        match node:
            case Raw() | Evaluate():
                self.lost = True
            case Pragma(text):
                self.lost |= self.element.array in re.findall(r"\w+", text)
            case Assign(Name(name)):
                self.lost |= name in names(self.element)
            case For(variable=variable):
                counted |= {variable}
            case Scope(parts):
                counted |= {name for part in parts if isinstance(part, Declare) for name, _ in part.objects}
            case Marked(body=body):
                inside = _Touched(self.element)
                inside.add(body, counted)
                self.lost |= inside.some or inside.lost
                return
        for expr in expressions(node):
            self._expression(expr, counted)
        for child in children(node):
            self.add(child, counted)

    def _expression(self, expr: Expr, counted: frozenset[str]) -> None:
        def seen(part: Expr) -> Expr:
            match part:
                case Item() if part == self.element:
                    self.some = True
                    self.lost |= not counted.isdisjoint(names(part))
                case Item(array) if array == self.element.array:
                    self.lost |= not apart(part, self.element)
                case Name(name) if name == self.element.array:
                    self.lost = True
                case Unary("&"):
                    self.lost = True
            return part

        rewritten(expr, seen)


def apart(one: Item, other: Item) -> bool:
    """Whether two elements of an array differ in a subscript by a constant."""
    if len(one.subscripts) != len(other.subscripts):
        return False
    for left, right in zip(one.subscripts, other.subscripts, strict=True):
        difference = linear_terms(Binary("-", left, right))
        constant = difference.pop(None, 0)
        if constant and not any(difference.values()):
            return True
    return False


def _written_first(node: Node) -> Iterator[Item]:
    """Elements that a statement writes whenever it is reached."""
    match node:
        case Instance(Assign(Item() as target)):
            yield target
        case For(first=Int(first), last=Int(last)) if first <= last:
            yield from (one for one in _written_first(node.body) if node.variable not in names(one))
        case Block(parts):
            for part in parts:
                yield from _written_first(part)


def _replaced(node: Node, values: Mapping[Item, Name]) -> Node:
    def change(part: Expr) -> Expr:
        return values.get(part, part) if isinstance(part, Item) else part

    def changed(expr: Expr) -> Expr:
        return rewritten(expr, change)

    if not values:
        return node
    match node:
        case Assign(target, op, value):
            return Assign(changed(target), op, changed(value))
        case Declare(type_, objects):
            return Declare(type_, tuple((name, None if value is None else changed(value)) for name, value in objects))
        case If(condition):
            return with_children(replace(node, condition=changed(condition)), lambda child: _replaced(child, values))
        case For(_, _, first, condition, step):
            inner = replace(node, first=changed(first), condition=changed(condition), step=changed(step))
            return with_children(inner, lambda child: _replaced(child, values))
        case _:
            return with_children(node, lambda child: _replaced(child, values))
