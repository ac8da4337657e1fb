"""Loops over the rows of sparse matrices, shared out by entries.

Source: merge-based SpMV (Merrill and Garland, SC 2016) gives each thread as many rows and entries together; where that
cuts a row in two it adds up the halves at the end. Here rows stay whole but for the few that are so long that a thread
would be busy with one of them while others wait.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polydl.base.records import dataclass
from polydl.kernels.segment_sum import MOST_PARTS, shares_function
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    Int,
    Invoke,
    Item,
    Marked,
    Name,
    Node,
    Paren,
    Pragma,
    Raw,
    Scope,
    Unary,
    names,
    plus,
    segments,
    substituted,
    with_children,
)

LEAST = 1 << 14
"""Entries of a row from which on it may be cut: one that takes as long as threads to begin and to end, some times."""


@dataclass(frozen=True, slots=True)
class Balanced:
    """A loop that is shared out."""

    code: Node
    prologue: tuple[str, ...]
    """File-scope pieces that it needs."""


def balanced_rows(
    loop: For, inside: Node, mark: Marked, prefix: str, begins: Sequence[Node] = (), ends: Sequence[Node] = ()
) -> Balanced | None:
    """The loop in parts with about as many entries each; `inside`: its body, as threads run it; `begins`, `ends`: what
    they do around a part. A row with more than a tenth of a part, and at least `LEAST`, runs before the others, with a
    piece of its sums on each thread. None for a loop that does not go from row to row.

    before:    for (i = 0; i < n; i++) { y[i] = 0; y[i] += sum(ptr[i + 1] - ptr[i], …); }
    after:     long at[MOST + 1], large[10 * MOST + 1];
               const long begin = 0;
               const int all = parts(), larges = shares(&ptr[0], n, all, LEAST, at, large);
               for (k = 0; k < larges; k++) { const int i = begin + large[k]; y[i] = 0; y[i] += sum_on_threads(…); }
               #pragma omp parallel for schedule(static, 1)
               for (part = 0; part < all; part++) {
                 const long *next = large;
                 while (*next < at[part]) next++;
                 for (i = begin + at[part]; i < begin + at[part + 1]; i++) {
                   if (i - begin == *next) { next++; continue; }
                   y[i] = 0; y[i] += sum(ptr[i + 1] - ptr[i], …);
                 }
               }
    """
    variable = loop.variable
    over = list(segments(loop.body))
    rows = next((one for one in over if _follows(one.row, variable)), None)
    if rows is None or loop.last is None:
        return None
    found = [one.function for one in over if one.function is not None]
    cut = len(found) == len(over)  # what nothing but the statement itself computes stays in one piece
    at, large, larges, one, part, following, begin, every = (
        f"{prefix}{name}" for name in ("at", "large", "larges", "k", "part", "next", "begin", "all")
    )
    name, text = shares_function(rows.element)
    last = loop.last if loop.first == Int(0) else Binary("-", loop.last, Paren(loop.first))
    first_row = substituted(rows.row, {variable: Paren(loop.first)})
    given = (Unary("&", Item(rows.array, (first_row,))), plus(last, Int(1)), Name(every), Int(LEAST if cut else 0))
    call = Invoke(name, (*given, Name(at), Name(large)))
    code: list[Node] = [
        Raw((f"long {at}[{MOST_PARTS + 1}], {large}[{10 * MOST_PARTS + 1 if cut else 1}];",)),
        Declare("const long", ((begin, loop.first),)),
        Declare("const int", ((every, Invoke("polydl_parts", ())),)),
        Declare("const int", ((larges, call),)) if cut else Evaluate(call),
    ]
    before: list[Node] = []
    body = inside
    if cut:
        row = Declare(f"const {loop.type}", ((variable, plus(Name(begin), Item(large, (Name(one),)))),))
        shared = Block((row, _on_threads(inside, {one.name for one in found})))
        code.append(For(one, "int", Int(0), Binary("<", Name(one), Name(larges)), Int(1), shared))
        before = [Raw((f"const long *{following} = {large};", f"while (*{following} < {at}[{part}]) {following}++;"))]
        skip = Raw((f"if ({variable} - {begin} == *{following}) {{ {following}++; continue; }}",))
        body = Block((skip, inside))
    first, end = (plus(Name(begin), Item(at, (place,))) for place in (Name(part), plus(Name(part), Int(1))))
    inner = For(variable, loop.type, first, Binary("<", Name(variable), end), Int(1), body)
    code += [
        Pragma(f"omp parallel for schedule(static, 1){mark.clauses}"),
        For(part, "int", Int(0), Binary("<", Name(part), Name(every)), Int(1), Block((*begins, *before, inner, *ends))),
    ]
    texts = [one.on_threads for one in found] if cut else []
    return Balanced(Scope(tuple(code)), (*texts, text))


def _follows(row: Expr, variable: str) -> bool:
    """Whether a row is the next one in the next iteration."""
    match row:
        case Name(name):
            return name == variable
        case Binary("+" | "-", left, right) if variable not in set(names(right)):
            return _follows(left, variable)
        case Binary("+", left, right) if variable not in set(names(left)):
            return _follows(right, variable)
        case _:
            return False


def _on_threads(node: Node, functions: Collection[str]) -> Node:
    """Code whose sums are added up on threads."""
    match node:
        case Assign(target, op, Invoke(function, arguments)) if function in functions:
            return Assign(target, op, Invoke(f"{function}_on_threads", arguments))
        case Evaluate(Invoke(function, arguments)) if function in functions:
            return Evaluate(Invoke(f"{function}_on_threads", arguments))
        case _:
            return with_children(node, lambda child: _on_threads(child, functions))
