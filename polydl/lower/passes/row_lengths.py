"""How many iterations loops have that a call runs, as C: in a type that holds the number."""

from __future__ import annotations

from polydl.lower.ctree import Binary, Cast, Expr, For, Int, plus


def runs(loop: For) -> Expr | None:
    """C of whether a loop has iterations; None where it always has."""
    match loop.first, loop.last:
        case Int(0), Binary("-", end, Int(1)):
            return Binary(">", end, Int(0))
        case Int(first), Int(last) if first <= last:
            return None
        case first, last:
            assert last is not None, "a loop with an end"
            return Binary("<=", first, last)


def length(loop: For) -> Expr:
    """C of the iterations of a loop; none or less where it has none."""
    match loop.first, loop.last:
        case Int(0), Binary("-", end, Int(1)):
            return end
        case Int(first), Int(last):
            return Int(last - first + 1)
        case first, last:
            assert last is not None, "a loop with an end"
            return plus(last if first == Int(0) else Binary("-", last, first), Int(1))


def product(left: Expr, right: Expr) -> Expr:
    """C of a product that may be longer than an int, which each of the factors may be."""
    match left, right:
        case Int(one), Int(other):
            return Int(one * other)
        case _, Int(1):
            return left
    return Binary("*", left if isinstance(left, Cast) or _cast(left) else Cast("ptrdiff_t", left), right)


def _cast(value: Expr) -> bool:
    """Whether the leftmost factor of a product has been converted already."""
    return isinstance(value, Binary) and value.op == "*" and (isinstance(value.left, Cast) or _cast(value.left))
