"""Peels the first and last iterations, in which a window leaves an array, off vector loops with conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from polydl.lower.ctree import (
    Binary,
    Block,
    Expr,
    For,
    If,
    Int,
    Marked,
    Name,
    Node,
    Way,
    children,
    every,
    linear_terms,
    with_children,
)
from polydl.lower.passes.unswitch import conjuncts, offset_of

MOST = 8
"""Iterations that are set apart at one end of a loop: a padded window of 17 elements leaves as many out."""
SHARE = 4
"""A loop of known length has at least so many iterations for each one set apart, which runs in no vector."""

Known = Mapping[Expr, bool]


def peeled(node: Node) -> Node:
    """Code whose vector loops have no conditions that hold in all but a few iterations at their ends.

    These iterations become loops of their own. Compilers turn what is left into vectors: a load under a condition
    between other changes of a scalar keeps gcc from it.
    """
    match node:
        case Marked(Way.SIMD, body):
            return _below(node, body)
        case _:
            return with_children(node, peeled)


def _below(mark: Marked, node: Node) -> Node:
    """What runs below a mark, which goes with the loops that are left."""
    match node:
        case If(_, then, otherwise) if isinstance(then, For):
            return replace(
                node, then=_below(mark, then), otherwise=None if otherwise is None else _below(mark, otherwise)
            )
        case For() if (parts := _parts(mark, node)) is not None:
            return Block(parts)
        case _:
            return replace(mark, body=node)


def _parts(mark: Marked, loop: For) -> tuple[Node, ...] | None:
    """The loop in two or three: first iterations, those without conditions, last ones; None: nothing to peel."""
    last = loop.last
    if last is None:
        return None
    begins, ends = dict[Expr, int](), dict[Expr, int]()
    for one in _conjuncts(loop.body):
        if (begin := _apart(one, loop, loop.first, ">=", ">")) is not None:
            begins[one] = begin
        elif (end := _apart(one, loop, last, "<=", "<")) is not None:
            ends[one] = end
    low, high = max(begins.values(), default=0), max(ends.values(), default=0)
    length = _constant(Binary("-", last, loop.first))
    if not low + high or (length is not None and length + 1 < SHARE * (low + high)):
        return None
    first, final = _moved(loop.first, low), _moved(last, -high)
    whole = _bounded(loop, first, final, _simplified(loop.body, dict.fromkeys((*begins, *ends), True)))
    found = [whole]
    # Where the length is not known the loop can be shorter than what is set apart.
    short = length is None
    name = Name(loop.variable)
    if low:
        body = _simplified(loop.body, dict.fromkeys(begins, False) if low == 1 else {})
        body = If(Binary("<=", name, last), body) if short else body
        found.insert(0, _bounded(loop, loop.first, _moved(first, -1), body))
    if high:
        body = _simplified(loop.body, dict.fromkeys(ends, False) if high == 1 else {})
        body = If(Binary(">=", name, first), body) if short else body
        found.append(_bounded(loop, _moved(final, 1), last, body))
    # All are marked, as what is private to an iteration is so in each of them.
    return tuple(replace(mark, body=one) for one in found)


def _bounded(loop: For, first: Expr, last: Expr, body: Node) -> For:
    return replace(loop, first=first, condition=Binary("<=", Name(loop.variable), last), body=body)


def _conjuncts(node: Node) -> Iterator[Expr]:
    """The parts of all conditions of statements."""
    if isinstance(node, If):
        yield from conjuncts(node.condition)
    for child in children(node):
        yield from _conjuncts(child)


def _apart(condition: Expr, loop: For, end: Expr, inside: str, strictly: str) -> int | None:
    """How many iterations at an end of the loop a condition excludes, which holds in all others; None: not a few."""
    match condition:
        case Binary(op, Name(name), bound) if name == loop.variable and op in (inside, strictly):
            between = Binary("-", bound, end) if inside == ">=" else Binary("-", end, bound)
            apart = _constant(between)
            if apart is not None and 1 <= (apart := apart + (op == strictly)) <= MOST:
                return apart
    return None


def _constant(value: Expr) -> int | None:
    terms = {term: factor for term, factor in linear_terms(value).items() if factor}
    return terms.get(None, 0) if not terms.keys() - {None} else None


def _moved(value: Expr, by: int) -> Expr:
    """A value and a constant."""
    base, offset = offset_of(value)
    offset += by
    if base == Int(0):
        return Int(offset)
    return base if not offset else Binary("+" if offset > 0 else "-", base, Int(abs(offset)))


def _simplified(node: Node, known: Known) -> Node:
    """Code in which it is known of some parts of conditions whether they hold."""
    if isinstance(node, If):
        parts = tuple(conjuncts(node.condition))
        if any(known.get(part) is False for part in parts):
            return Block(()) if node.otherwise is None else _simplified(node.otherwise, known)
        left = tuple(part for part in parts if part not in known)
        if not left:
            return _simplified(node.then, known)
        if len(left) < len(parts):
            node = replace(node, condition=every(left))
    return with_children(node, lambda child: _simplified(child, known))
