"""Takes the question whether numbers are finite out of products of complex numbers in loops that run in lanes.

C makes infinities of products of complex numbers that come out as NaN (C11 G.5.1), where a factor is infinite or a
part overflows. Compilers ask after each product whether that is so, and make no vectors of loops that ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.kernels.row_loops import together
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.cexpr import Helpers
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Expr,
    For,
    If,
    Instance,
    Int,
    Invoke,
    Item,
    Marked,
    Name,
    Node,
    Unary,
    Way,
    expressions,
    plus,
    rewritten,
    with_children,
)
from polydl.model import isl
from polydl.model.types import C128

_PIECE = 16384
"""Bytes that are touched between two questions, about: half of a first-level cache."""
_LEAST = 64
"""Iterations between two questions, at least."""


@dataclass(frozen=True, slots=True)
class ComplexProducts:
    """The pass.

    before:    simd for i: y[i] = a[i] * b[i];
    after:     for from in steps of 256:
                   lost = 0;  simd for i: lost |= too_large(a[i], b[i]);
                   if (!lost) simd for i: y[i] = finite_product(a[i], b[i]);
                   else for i: y[i] = a[i] * b[i];
    requires:  what the factors are made of is not written in the body before; no other calls, and no choices, inside
    """

    helpers: Helpers

    def __call__(self, node: Node) -> Node:
        match node:
            case Marked(Way.SIMD | Way.PARALLEL, For() as loop) if node.loops == 1:
                found = self._in_pieces(node, loop)
                return found if found is not None else with_children(node, self)
            case _:
                return with_children(node, self)

    def _in_pieces(self, mark: Marked, loop: For) -> Node | None:
        body = loop.body.body if isinstance(loop.body, Marked) and loop.body.way is Way.THREAD else loop.body
        instances, last = _instances(body), loop.last
        if last is None or instances is None or not any(one.finite and one.finite.products for one in instances):
            return None
        asked = _asked(instances)
        if asked is None:
            return None
        for function in {question.function for one in instances if one.finite for question in one.finite.products}:
            own = function.removeprefix(self.helpers.prefix)
            self.helpers.used.update((own, own.replace("too_large", "finite_product")))
        begin, lost = (f"{self.helpers.prefix}{name}" for name in ("from", "lost"))
        scalars = sorted({name for one in instances if (name := _scalar(one))})
        private = f" private({', '.join(scalars)})" if scalars else ""
        many = _iterations(instances)
        end = Invoke(self.helpers.name("min"), (last, plus(Name(begin), Int(many - 1))))
        inner = replace(loop, first=Name(begin), condition=Binary("<=", Name(loop.variable), end))
        tests = tuple(_test(node, lost) for node in asked)
        finite = Block(tuple(one.finite.body for one in instances if one.finite is not None))
        piece: Node = Block(
            (
                Declare("int", ((lost, Int(0)),)),
                Marked(Way.SIMD, replace(inner, body=Block(tests)), f" reduction(| : {lost}){private}"),
                If(
                    Unary("!", Name(lost)),
                    Marked(Way.SIMD, replace(inner, body=finite), private),
                    replace(inner, body=body),
                ),
            )
        )
        over = For(begin, loop.type, loop.first, Binary("<=", Name(begin), last), Int(many), piece)
        if mark.way is Way.SIMD:
            return over
        return replace(mark, body=replace(over, body=Marked(Way.THREAD, piece)) if body is not loop.body else over)


def _instances(node: Node) -> list[Instance] | None:
    """The statements in the body of a loop; None where there is anything else than assignments."""
    match node:
        case Instance(Assign(), _, row) if node.finite is not None and row is not None:
            return [node]
        case Block(parts):
            found = [_instances(part) for part in parts]
            return None if None in found else [one for part in found if part is not None for one in part]
        case _:
            return None


def _scalar(one: Instance) -> str:
    """The name of the scalar that a statement assigns to; empty: it is an element."""
    return one.body.target.name if isinstance(one.body, Assign) and isinstance(one.body.target, Name) else ""


def _asked(instances: Sequence[Instance]) -> list[Expr | Assign] | None:
    """What is to be computed to see whether all products are finite: the questions, and assignments to scalars that
    they may need. None where they need elements that the body has written before."""
    try:
        rows = together([one.row for one in instances if one.row is not None])
    except NotVectorised:
        return None
    last = max(at for at, one in enumerate(instances) if one.finite is not None and one.finite.products)
    written: list[tuple[str, isl.Map]] = []
    found: list[Expr | Assign] = []
    for one, row in list(zip(instances, rows, strict=True))[: last + 1]:
        assert one.finite is not None
        times = row.schedule.reverse()
        touched = [(a, times.apply_range(a.relation)) for a in row.statement.accesses]
        if _scalar(one) or one.finite.products:
            needed = range(len(touched)) if _scalar(one) else one.finite.factors
            reads = [(a.array, relation) for n, (a, relation) in enumerate(touched) if n in needed and not a.write]
            if any(name == other and not x.intersect(y).is_empty() for name, x in reads for other, y in written):
                return None
        found += one.finite.products
        if _scalar(one):
            found.append(one.finite.body)
        else:
            written += [(a.array, relation) for a, relation in touched if a.write]
    return found


def _iterations(instances: Sequence[Instance]) -> int:
    """Between two questions: a power of two."""
    elements: set[Expr] = set()

    def seen(part: Expr) -> Expr:
        if isinstance(part, Item):
            elements.add(part)
        return part

    for one in instances:
        for expr in expressions(one.body):
            rewritten(expr, seen)
    many = _PIECE // (C128.bytes * max(len(elements), 1))
    return max(_LEAST, 1 << max(many.bit_length() - 1, 0))


def _test(asked: Expr | Assign, lost: str) -> Node:
    return asked if isinstance(asked, Assign) else Assign(Name(lost), "|=", asked)
