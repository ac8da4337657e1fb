"""Assignments that accumulate, however they are spelled."""

from __future__ import annotations

from polydl.frontend.lower.raw import RawAccess
from polydl.model.combiners import of_assignment
from polydl.model.expr import Binary, Expr, Load


def reduction(write: RawAccess, expr: Expr, reads: list[RawAccess]) -> tuple[str, Expr, int | None]:
    """Operator, value and the read of the target of `x = expr`.

    `x = x + e`, `x = e + x`, `x = x * e`, `x = e * x` and `x = x - e` become compound assignments.
    """
    row = of_assignment(f"{expr.op}=") if isinstance(expr, Binary) else None
    if isinstance(expr, Binary) and row is not None:
        sides = [(expr.left, expr.right)]
        if expr.op == row.symbol:
            sides.append((expr.right, expr.left))
        for same, other in sides:
            if isinstance(same, Load) and _same(reads[same.access], write):
                return f"{expr.op}=", other, same.access
    return "=", expr, None


def _same(read: RawAccess, write: RawAccess) -> bool:
    if read.symbol is not write.symbol or len(read.subscripts) != len(write.subscripts):
        return False
    for one, other in zip(read.subscripts, write.subscripts, strict=True):
        if one is None or other is None:
            return False
        if one.poly is not None and one.poly == other.poly:
            continue
        if one.pw is None or other.pw is None or not one.pw.is_equal(other.pw):
            return False
    return True
