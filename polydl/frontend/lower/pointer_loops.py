"""Loops that count with a pointer, as loops that count.

    for (p = a; p < a + n; p++) *p = 0;              for (long p_index = 0; p_index < n; p_index++) a[p_index] = 0;
    end = a + n; while (a != end) *a++ = 0;          for (long a_index = 0; a_index < n; a_index++) *a++ = 0;
    float *p = a; while (p < a + n) *p++ = 0;        for (long p_index = 0; p_index < n; p_index++) *p++ = 0;
    while (n--) *a++ = 0;                            for (long n_index = 0; n_index < n; n_index++) *a++ = 0;

Pointers that are stepped in the body become subscripts later (lower.steps). Where a pointer would never meet the end,
C leaves open what happens, so that `!=` means `<` here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from polydl.frontend.lower.inlined import Given, Taken, copied
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.meaning.liveness import changed_names, leaves
from polydl.frontend.meaning.symbols import mentions, nodes

_UPWARDS = ("++", "p++")


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
            case c_ast.For(init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=c_ast.Node() as first)])):
                made = self._for(node, name, first)
            case c_ast.For(init=c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=first)):
                made = self._for(node, name, first) if self._only_inside(name, node) else None
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

    def _for(self, node: Any, name: str, first: Any) -> Any:
        cond, step = node.cond, node.next
        if not self._is_pointer(name) or not isinstance(cond, c_ast.BinaryOp) or cond.op not in ("<", "!=", "<="):
            return None
        if not isinstance(cond.left, c_ast.ID) or cond.left.name != name or name in changed_names(node.stmt):
            return None
        by = _step(step, name)
        begin, end = _place(first), _place(self._end(cond.right))
        if by is None or begin is None or end is None or written(begin.base) != written(end.base):
            return None
        if (set(mentions(first)) | set(mentions(self._end(cond.right)))) & (changed_names(node.stmt) | {name}):
            return None
        at = self._fresh(name)
        place = c_ast.ID(at) if begin.at is None else c_ast.BinaryOp("+", copied(begin.at), c_ast.ID(at))
        body = _Differences({}, {name: Given(begin.base, place)})(node.stmt)
        op = "<" if cond.op == "!=" else cond.op
        return _counting(node, at, op, _between(begin, end), by, body)

    def _while(self, node: Any, name: str, last: Any) -> Any:
        """A loop that steps a pointer of the function until it is at its end, once in each iteration."""
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
        if set(mentions(end.at)) & changed_names(self.function.body) or self._is_inside(node):
            return None
        one = c_ast.Constant("int", "1")
        return _counting(node, self._fresh(name), "<", _between(begin, end), one, node.stmt)

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
        return _counting(node, self._fresh(name), "<", c_ast.ID(name), c_ast.Constant("int", "1"), node.stmt)

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
        case c_ast.BinaryOp(op="+", left=left, right=right):
            inner = _place(left)
            if inner is None:
                return None
            return Given(inner.base, right if inner.at is None else c_ast.BinaryOp("+", inner.at, right))
        case _:
            return None


def _between(begin: Given, end: Given) -> Any:
    last = c_ast.Constant("int", "0") if end.at is None else copied(end.at)
    return last if begin.at is None else c_ast.BinaryOp("-", last, copied(begin.at))


def _step(node: Any, name: str) -> Any:
    """By how much a pointer is stepped; None for another expression."""
    match node:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=stepped)) if op in _UPWARDS and stepped == name:
            return c_ast.Constant("int", "1")
        case c_ast.Assignment(op="+=", lvalue=c_ast.ID(name=stepped), rvalue=c_ast.Constant() as by) if stepped == name:
            return copied(by)
        case _:
            return None


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
    return isinstance(step, c_ast.UnaryOp) and step.op in _UPWARDS and any(n is step for n in inside)


def _down_to_zero(cond: Any) -> str | None:
    match cond:
        case c_ast.UnaryOp(op="p--", expr=c_ast.ID(name=name)):
            return str(name)
        case c_ast.BinaryOp(op=">" | "!=", left=c_ast.UnaryOp(op="p--", expr=c_ast.ID(name=name)), right=zero):
            return str(name) if getattr(zero, "value", "") == "0" else None
        case _:
            return None


def _counting(node: Any, name: str, op: str, last: Any, by: Any, body: Any) -> Any:
    where = node.coord
    long = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["long"], where), where)
    begin = c_ast.Decl(name, [], [], [], [], long, c_ast.Constant("int", "0", where), None, where)
    step = c_ast.UnaryOp("p++", c_ast.ID(name, where), where)
    if by.value != "1":
        step = c_ast.Assignment("+=", c_ast.ID(name, where), by, where)
    cond = c_ast.BinaryOp(op, c_ast.ID(name, where), last, where)
    made = c_ast.For(c_ast.DeclList([begin], where), cond, step, body, where)
    for part in _placed(made):
        part.coord = part.coord or where
    return made


def _placed(node: Any) -> Iterator[Any]:
    return (part for part in nodes(node) if getattr(part, "coord", None) is None)
