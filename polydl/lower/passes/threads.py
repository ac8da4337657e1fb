"""Turns the marks of parallel and vector loops into OpenMP's pragmas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Evaluate,
    For,
    Int,
    Invoke,
    Marked,
    Name,
    Node,
    Pragma,
    Scope,
    Unary,
    Way,
    children,
    mentions,
    with_children,
)
from polydl.lower.passes.balanced_rows import balanced_rows
from polydl.lower.vector_math import is_straight, vector_calls


@dataclass(frozen=True, slots=True)
class Threads:
    """The pass."""

    prefix: str
    """Of the functions of generated code."""
    own: Sequence[Node]
    """What each thread declares where it begins to work by itself."""
    source: str = ""
    """The file, of whose functions some may be called."""
    begins: Sequence[Node] = ()
    """What each thread does before its first iteration of a loop that it works by itself in."""
    ends: Sequence[Node] = ()
    """What it does after its last."""
    prologue: list[str] = field(default_factory=list, compare=False)
    """File-scope pieces of the functions that the code written so far calls."""

    def __call__(self, node: Node, mark: Marked | None = None, *, beside: bool = False) -> Node:
        """Code without marks. `mark`: how the next loops run; `beside`: other code is in the same scope."""
        match node:
            case Marked(Way.CURVE, body):
                return self._curve(node)
            case For(body=body) if mark is not None and mark.way is Way.ENTRIES:
                around = (self.begins, self.ends) if _has_threads(body) else ((), ())
                made = balanced_rows(node, self(body), mark, self.prefix, *around)
                if made is None:  # a part of the loop without segments, or one iteration
                    return self(node, replace(mark, way=Way.PARALLEL))
                self.prologue.extend(made.prologue)
                return made.code
            case Marked(Way.TEAM, body):
                begins, ends = (self.begins, self.ends) if _has_threads(body) else ((), ())
                return Block((Pragma("omp parallel"), Scope((*begins, self(body), *ends))))
            case Marked(Way.WAIT, body):
                return Block((self(body), Pragma("omp barrier")))
            case Marked(Way.THREAD) if mark is not None and mark.way is Way.SHARE:
                # The shared loops have one iteration, and are no loops: all threads would run it.
                once = f"{self.prefix}once"
                return self(For(once, "int", Int(0), Binary("<", Name(once), Int(1)), Int(1), node), mark)
            case Marked(Way.THREAD, body) if self.own:
                inside = self(body)
                parts = (*(one for one in self.own if _is_needed(one, inside)), inside)
                # isl may split what runs in an iteration: each part has a scope of its own.
                return Scope(parts) if beside else Block(parts)
            case Marked(way, body):
                return self(body, node if way.takes_loops else None)
            case For(body=body) if mark is not None:
                inside = self(body)
                return self._run(self._pragma(mark, inside), replace(node, body=inside), body)
            case For(body=body):
                return replace(node, body=self(body))
            case Block(parts):
                return Block(tuple(self(part, mark, beside=len(parts) > 1) for part in parts))
            case _:
                return with_children(node, lambda child: self(child, mark))

    def _run(self, pragma: str, loop: For, marked: Node) -> Node:
        """A loop behind a pragma; `marked`: its body with marks. Threads that have something to begin with, and to end,
        do so once, around all of their iterations."""
        team, _, shared = pragma.partition("parallel ")
        if not shared or not self.begins or not _has_threads(marked):
            return Block((Pragma(pragma), loop))
        once = Scope((*self.begins, Pragma(team + shared), loop, *self.ends))
        return Block((Pragma(f"{team}parallel"), once))

    def _pragma(self, mark: Marked, body: Node) -> str:
        if mark.way is Way.SIMD:
            return f"omp simd{mark.clauses}"
        collapse = f" collapse({mark.loops})" if mark.loops > 1 else ""
        if mark.way is Way.SHARE:
            return f"omp for{collapse}{mark.clauses}"
        # No compiler takes vector forms of functions in a loop unless it is told to.
        simd = " simd" if mark.loops == 1 and is_straight(body) and vector_calls(body, self.source) else ""
        return f"omp parallel for{simd}{collapse}{mark.clauses}"

    def _curve(self, mark: Marked) -> Node:
        """Two loops with constant bounds as one along a curve, shared out in contiguous stretches; in their own order
        where one of them has a single iteration, which is a curve as well."""
        outer = mark.body
        inner = outer.body if isinstance(outer, For) else outer
        rows, columns = _values(outer), _values(inner)
        if not rows or not columns:
            return self(outer, replace(mark, way=Way.PARALLEL))
        assert isinstance(outer, For) and isinstance(inner, For)
        step, pair = f"{self.prefix}step", (outer.variable, inner.variable)
        where = tuple(Unary("&", Name(name)) for name in pair)
        sizes = (Int(len(rows)), Int(len(columns)))
        moved = [
            Assign(Name(name), "+=", Int(low)) for name, low in zip(pair, (rows[0], columns[0]), strict=True) if low
        ]
        body = Block(
            (
                Declare(outer.type, tuple((name, None) for name in pair)),
                Evaluate(Invoke(f"{self.prefix}curve_{outer.type}", (Name(step), *sizes, *where))),
                *moved,
                self(inner.body),
            )
        )
        many = Int(len(rows) * len(columns))
        loop = For(step, outer.type, Int(0), Binary("<", Name(step), many), Int(1), body)
        return self._run(f"omp parallel for schedule(static){mark.clauses}", loop, inner.body)


def _has_threads(node: Node) -> bool:
    """Whether threads work by themselves in code with marks."""
    return (isinstance(node, Marked) and node.way is Way.THREAD) or any(map(_has_threads, children(node)))


def _is_needed(node: Node, inside: Node) -> bool:
    """Whether code mentions something that a node declares; anything else is needed."""
    return not isinstance(node, Declare) or any(mentions(inside, name) for name, _ in node.objects)


def _values(node: Node) -> range | None:
    """The values of a loop with constant bounds and steps of one; None of anything else."""
    match node:
        case For(first=Int(low), condition=Binary("<=" | "<" as op, _, Int(high)), step=Int(1), once=False):
            return range(low, high + 1 if op == "<=" else high)
        case _:
            return None
