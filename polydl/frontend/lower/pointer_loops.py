"""Loops that count with a pointer, as loops that count.

    for (p = a; p < a + n; p++) *p = 0;              for (long p_index = 0; p_index < n; p_index++) a[p_index] = 0;
    end = a + n; while (a != end) *a++ = 0;          for (long a_index = 0; a_index < n; a_index++) *a++ = 0;
    float *p = a; while (p < a + n) *p++ = 0;        for (long p_index = 0; p_index < n; p_index++) *p++ = 0;
    while (n--) *a++ = 0;                            for (long n_index = 0; n_index < n; n_index++) *a++ = 0;
    for (p = a + n; p-- > a;) *p = 0;                for (long p_index = n - 1; p_index >= 0; p_index--) a[p_index] = 0;
    for (p = a, q = b; p < a + n; p++, q++) *p = *q; for (long p_index = 0; …; p_index++) a[p_index] = b[p_index];
    for (i = 0, p = a; i < n; i++, p++) *p = 0;      for (i = 0; i < n; i++) a[i] = 0;

Pointers that are stepped in the body become subscripts later (lower.steps). Where a pointer would never meet the end,
C leaves open what happens, so that `!=` means `<` here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from polydl.frontend.lower.headers import Header, header_of, listed, one_of, stepped
from polydl.frontend.lower.inlined import Given, Taken, copied
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.meaning.liveness import changed_names, leaves
from polydl.frontend.meaning.symbols import mentions, nodes

_UP = {"<": "<", "<=": "<=", "!=": "<"}
_DOWN = {">": ">", ">=": ">=", "!=": ">"}
_ZERO = c_ast.Constant("int", "0")


def counted(function: Any) -> list[Any]:
    """Count the loops of a function in integers where pointers count them. The tree is changed.

    Gives the declarations of pointers that the loops as they were written need, and those that became of them do not.
    """
    loops = [n for n in nodes(function.body) if isinstance(n, (c_ast.For, c_ast.While, c_ast.DoWhile))]
    if not loops:
        return []
    known = _Known(function)
    for node in nodes(function.body):
        for name in type(node).__slots__:
            value = getattr(node, name, None) if name != "__weakref__" else None
            if isinstance(value, list):
                setattr(node, name, [known.loop(one) for one in value])
            elif isinstance(value, c_ast.Node):
                setattr(node, name, known.loop(value))
    return [known.declared[name][0] for name in sorted(known.left_out)]


@dataclass(slots=True)
class _Known:
    """What a function says about its pointers."""

    function: Any
    declared: dict[str, list[Any]] = field(init=False)
    names: set[str] = field(init=False)
    left_out: set[str] = field(default_factory=set)
    """Pointers that loops no longer mention."""

    def __post_init__(self) -> None:
        self.declared = {}
        for node in nodes(self.function):
            if isinstance(node, c_ast.Decl) and node.name is not None:
                self.declared.setdefault(node.name, []).append(node)
        self.names = {*self.declared, *mentions(self.function)}

    def loop(self, node: Any) -> Any:
        """A loop, or what it becomes."""
        made = None
        match node:
            case c_ast.For(init=None, next=c_ast.Node()):
                made = self._for_without_begin(node)
            case c_ast.For():
                made = self._for(node)
            case c_ast.While(cond=c_ast.BinaryOp(op="!=" | "<", left=c_ast.ID(name=name), right=last)):
                made = self._while(node, name, last)
            case c_ast.While(cond=cond) if (name := _down_to_zero(cond)) is not None:
                made = self._down(node, name)
        if made is None:
            return node
        parameters = {d.name for d in nodes(self.function.decl) if isinstance(d, c_ast.Decl)}
        here = [d.name for d in nodes(node) if isinstance(d, c_ast.Decl)]
        gone = {n for n in set(mentions(node)) - set(mentions(made)) if self._is_pointer(n)}
        self.left_out |= gone - parameters - {*here}
        return made

    def _for(self, node: Any) -> Any:
        header = header_of(node)
        if header is None:
            return None
        changed = changed_names(node.stmt)
        pointers = {name for name in header.first if self._is_pointer(name)}
        if not pointers & header.steps.keys() or changed & {*pointers, header.name}:
            return None
        if not header.declares and not all(self._only_inside(name, node) for name in pointers):
            return None
        begins = self._begins(header, pointers)
        if begins is None:
            return None
        still = [part for begin in begins.values() for part in (begin.base, begin.at)]
        if header.name in pointers:
            return self._by_pointer(node, header, begins, still)
        return self._by_integer(node, header, begins, still)

    def _begins(self, header: Header, pointers: Collection[str]) -> dict[str, Given] | None:
        """Where the pointers of a header begin, in terms of what it does not set."""
        begins: dict[str, Given] = {}
        for name, first in header.first.items():
            if name in pointers:
                begin = _place(Taken({}, begins)(first))
                if begin is None:
                    return None
                begins[name] = begin
        return begins

    def _by_pointer(self, node: Any, header: Header, begins: dict[str, Given], still: list[Any]) -> Any:
        """A loop that one of its pointers counts."""
        fixed = {name: begin for name, begin in begins.items() if name not in header.steps}
        last = self._end(header.last)
        begin, end = begins[header.name], _place(Taken({}, fixed)(last))
        by = header.steps[header.name]
        allowed = _UP if by > 0 else _DOWN
        if end is None or header.op not in allowed or written(begin.base) != written(end.base):
            return None
        if _named([*still, end.base, end.at]) & ({*begins, *header.steps} | changed_names(node.stmt)):
            return None
        index = c_ast.ID(self._fresh(header.name))
        if by > 0:
            # It counts from zero: how often it runs is seen at once.
            start, until, moved = _ZERO, _between(begin, end), index
        else:
            start, until = begin.at or _ZERO, end.at or _ZERO
            moved = index if begin.at is None else c_ast.BinaryOp("-", index, begin.at)
        given = self._moved(header, begins, moved, by)
        if given is None:
            return None
        if by < 0:
            given[header.name] = Given(begin.base, index)
        others = [step for name, step in header.written.items() if name not in begins]
        body = _Differences({}, given)(node.stmt)
        return _counting(node, index.name, _Counts(copied(start), allowed[header.op], copied(until), by, others), body)

    def _by_integer(self, node: Any, header: Header, begins: dict[str, Given], still: list[Any]) -> Any:
        """A loop that an integer counts, beside pointers that the header sets and steps."""
        first = header.first.get(header.name)
        if first is None or header.declares or any(name not in header.steps for name in begins):
            return None
        if _named([*still, first]) & ({*begins, *header.steps} | changed_names(node.stmt)):
            return None
        if _named([header.last]) & {*begins}:
            return None
        counter = c_ast.ID(header.name)
        moved = counter if getattr(first, "value", "") == "0" else c_ast.BinaryOp("-", counter, first)
        given = self._moved(header, begins, moved, header.steps[header.name])
        if given is None:
            return None
        inits = [one for one in listed(node.init) if one.lvalue.name not in begins]
        steps = [step for name, step in header.written.items() if name not in begins]
        body = _Differences({}, given)(node.stmt)
        return c_ast.For(one_of(inits, node), node.cond, one_of(steps, node), body, node.coord)

    def _moved(self, header: Header, begins: dict[str, Given], moved: Any, by: int) -> dict[str, Given] | None:
        """Where the pointers of a header are when what counts, by steps of `by`, has moved so far."""
        given = {}
        for name, begin in begins.items():
            step = header.steps.get(name, 0)
            if step % by:
                return None
            at = begin.at
            if step:
                far = moved if step == by else c_ast.BinaryOp("*", c_ast.Constant("int", str(step // by)), moved)
                at = far if at is None else c_ast.BinaryOp("+", copied(at), far)
            given[name] = Given(begin.base, at)
        return given

    def _for_without_begin(self, node: Any) -> Any:
        """A loop that steps a pointer of the function on from where it is."""
        if leaves(node.stmt) or not isinstance(node.cond, c_ast.BinaryOp) or not isinstance(node.cond.left, c_ast.ID):
            return None
        items = [node.stmt, *listed(node.next)]
        if node.cond.op not in ("!=", "<"):
            return None
        body = c_ast.Compound(items, node.coord)
        return self._while(c_ast.While(node.cond, body, node.coord), node.cond.left.name, node.cond.right, node)

    def _while(self, node: Any, name: str, last: Any, loop: Any = None) -> Any:
        """A loop that steps a pointer of the function until it is at its end, once in each iteration. `loop`: the one
        that it was, of the function."""
        end = _place(self._end(last, {name}))
        own = end is None or written(end.base) == name
        begin = Given(c_ast.ID(name)) if own else self._begin(name)
        alone = [n for n in nodes(self.function.body) if _moves(n, name)]
        inside = [n for n in nodes(node.stmt) if _moves(n, name)]
        if not self._is_pointer(name) or end is None or end.at is None or begin is None:
            return None
        if written(end.base) != written(begin.base):
            return None
        if len(alone) != 1 or len(inside) != 1 or not _surely(node.stmt, inside[0]) or leaves(node.stmt):
            return None
        if set(mentions(end.at)) & changed_names(self.function.body) or self._is_inside(loop or node):
            return None
        by, often = _step(inside[0], name), _between(begin, end)
        if by is None or by < 1:
            return None
        if by > 1:
            rounded = c_ast.BinaryOp("+", often, c_ast.Constant("int", str(by - 1)))
            often = c_ast.BinaryOp("/", rounded, c_ast.Constant("int", str(by)))
        return _counting(node, self._fresh(name), _Counts(_ZERO, "<", often), node.stmt)

    def _begin(self, name: str) -> Given | None:
        """Where a pointer was declared to be, in terms of what keeps its value."""
        found = self.declared.get(name, [])
        if len(found) != 1 or found[0].init is None or set(mentions(found[0].init)) & changed_names(self.function.body):
            return None
        return _place(found[0].init)

    def _down(self, node: Any, name: str) -> Any:
        """`while (n--)`, of a parameter that nothing else needs."""
        others = [n for n in nodes(self.function.body) if isinstance(n, c_ast.ID) and n.name == name]
        integer = name in self.declared and not self._is_pointer(name) and len(self.declared[name]) == 1
        if not integer or len(others) != 1 or leaves(node.stmt):
            return None
        return _counting(node, self._fresh(name), _Counts(_ZERO, "<", c_ast.ID(name)), node.stmt)

    def _is_pointer(self, name: str) -> bool:
        found = self.declared.get(name, [])
        return len(found) == 1 and isinstance(found[0].type, c_ast.PtrDecl | c_ast.ArrayDecl)

    def _only_inside(self, name: str, loop: Any) -> bool:
        """Whether nothing outside of a loop needs the value that a variable has."""
        inside = {id(n) for n in nodes(loop)}
        named = (n for n in nodes(self.function.body) if isinstance(n, c_ast.ID) and n.name == name)
        return all(id(n) in inside for n in named)

    def _is_inside(self, loop: Any) -> bool:
        """Whether a loop stands in another one."""
        others = (n for n in nodes(self.function.body) if isinstance(n, c_ast.For | c_ast.While | c_ast.DoWhile))
        return any(other is not loop and any(n is loop for n in nodes(other)) for other in others)

    def _end(self, node: Any, stepped: Collection[str] = ()) -> Any:
        """What a pointer that keeps its value is, in terms of parameters that keep theirs or are `stepped` later."""
        if isinstance(node, c_ast.ID) and self._is_pointer(node.name):
            (declared,) = self.declared[node.name]
            changed = changed_names(self.function.body)
            given = {d.name for d in nodes(self.function.decl) if isinstance(d, c_ast.Decl)}
            if node.name not in changed and declared.init is not None:
                keeps = set(mentions(declared.init)) <= given - (changed - set(stepped))
                return declared.init if keeps else node
        return node

    def _fresh(self, name: str) -> str:
        found = f"{name}_index"
        while found in self.names:
            found += "_"
        self.names.add(found)
        return found


class _Differences(Taken):
    """Takes `p - a` for the place that p is at in a."""

    def __call__(self, node: Any) -> Any:
        match node:
            case c_ast.BinaryOp(op="-", left=c_ast.ID(name=name), right=base) if name in self.given:
                if written(base) == written(self.given[name].base):
                    return copied(self.given[name].at)
        return super().__call__(node)


def _place(node: Any) -> Given | None:
    """An array and the place in it that an expression points at; None for another expression."""
    match node:
        case c_ast.ID() | c_ast.ArrayRef():
            return Given(node)
        case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=base, subscript=at)):
            return Given(base, at)
        case c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right):
            inner = _place(left)
            if inner is None:
                return None
            if inner.at is None:
                return Given(inner.base, right if op == "+" else c_ast.UnaryOp("-", right))
            return Given(inner.base, c_ast.BinaryOp(op, inner.at, right))
        case _:
            return None


def _between(begin: Given, end: Given) -> Any:
    last = c_ast.Constant("int", "0") if end.at is None else copied(end.at)
    return last if begin.at is None else c_ast.BinaryOp("-", last, copied(begin.at))


def _step(node: Any, name: str) -> int | None:
    """By how much a pointer is stepped; None for another expression."""
    found = stepped(node)
    return None if found is None or found[0] != name else found[1]


def _named(expressions: Iterable[Any]) -> set[str]:
    return {name for one in expressions if one is not None for name in mentions(one)}


def _moves(node: Any, name: str) -> bool:
    """Whether a node changes a variable, or takes its address."""
    if isinstance(node, c_ast.Assignment):
        return isinstance(node.lvalue, c_ast.ID) and node.lvalue.name == name
    steps = isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--", "&")
    return steps and isinstance(node.expr, c_ast.ID) and node.expr.name == name


def _surely(body: Any, step: Any) -> bool:
    """Whether a step upwards happens once in each iteration: by itself, or in an assignment."""
    items = body.block_items or [] if isinstance(body, c_ast.Compound) else [body]
    plain = [one for one in items if one is step or isinstance(one, c_ast.Assignment)]
    maybe = (c_ast.TernaryOp, c_ast.FuncCall)
    inside = [
        n for one in plain for n in nodes(one, lambda n: isinstance(n, maybe) or getattr(n, "op", "") in ("&&", "||"))
    ]
    return stepped(step) is not None and any(n is step for n in inside)


def _down_to_zero(cond: Any) -> str | None:
    match cond:
        case c_ast.UnaryOp(op="p--", expr=c_ast.ID(name=name)):
            return str(name)
        case c_ast.BinaryOp(op=">" | "!=", left=c_ast.UnaryOp(op="p--", expr=c_ast.ID(name=name)), right=zero):
            return str(name) if getattr(zero, "value", "") == "0" else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Counts:
    """How a loop counts."""

    first: Any
    op: str
    last: Any
    by: int = 1
    others: Sequence[Any] = ()
    """What else is stepped in its header."""


def _counting(node: Any, name: str, counts: _Counts, body: Any) -> Any:
    where = node.coord
    long = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["long"], where), where)
    begin = c_ast.Decl(name, [], [], [], [], long, copied(counts.first), None, where)
    step: Any = c_ast.UnaryOp("p++" if counts.by > 0 else "p--", c_ast.ID(name, where), where)
    if abs(counts.by) != 1:
        by = c_ast.Constant("int", str(abs(counts.by)), where)
        step = c_ast.Assignment("+=" if counts.by > 0 else "-=", c_ast.ID(name, where), by, where)
    cond = c_ast.BinaryOp(counts.op, c_ast.ID(name, where), counts.last, where)
    made = c_ast.For(c_ast.DeclList([begin], where), cond, one_of([step, *counts.others], node), body, where)
    for part in _placed(made):
        part.coord = part.coord or where
    return made


def _placed(node: Any) -> Iterator[Any]:
    return (part for part in nodes(node) if getattr(part, "coord", None) is None)
