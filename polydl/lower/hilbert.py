"""A generalised Hilbert curve through the tiles of two parallel loops: a thread's stretch of it is compact, so that it
reuses both operands in every cache without a tile size chosen for any.

Source: the recursion of Červený's `gilbert` (2018), for rectangles of any sides; space-filling curves for matrix
products: Bader and Zenger, "Cache oblivious matrix multiplication using an element ordering based on a Peano curve",
2006.
"""

from __future__ import annotations

from collections.abc import Iterator

from polydl.kernels.microkernel import environment


def curve_prologue(integer: str) -> str:
    """C text of `polydl_curve_long(t, rows, columns, &row, &column)`: step t of the curve, without a table."""
    return environment().get_template("curve.c.j2").render(integer=integer)


def curve(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """The same curve, step by step: every (row, column) of the grid once. The twin of the C function."""
    if rows > columns:
        yield from _part((0, 0), (rows, 0), (0, columns))
    else:
        yield from _part((0, 0), (0, columns), (rows, 0))


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


def _part(at: tuple[int, int], a: tuple[int, int], b: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The part of the grid that starts at a corner and has the sides a (along which the curve runs) and b."""
    da, db = (_sign(a[0]), _sign(a[1])), (_sign(b[0]), _sign(b[1]))
    width, height = abs(a[0] + a[1]), abs(b[0] + b[1])
    if height == 1 or width == 1:
        step = da if height == 1 else db
        for t in range(width * height):
            yield at[0] + t * step[0], at[1] + t * step[1]
        return
    half = width // 2
    if 2 * width > 3 * height:
        half += half % 2 and width > 2
        near = (half * da[0], half * da[1])
        yield from _part(at, near, b)
        yield from _part(_plus(at, near), _plus(a, near, -1), b)
        return
    up = height // 2
    up += up % 2 and height > 2
    near, above = (half * da[0], half * da[1]), (up * db[0], up * db[1])
    yield from _part(at, above, near)
    yield from _part(_plus(at, above), a, _plus(b, above, -1))
    last = _plus(_plus(at, da, width - 1), db, up - 1)
    yield from _part(last, (-above[0], -above[1]), _plus(near, a, -1))


def _plus(p: tuple[int, int], q: tuple[int, int], times: int = 1) -> tuple[int, int]:
    return p[0] + times * q[0], p[1] + times * q[1]
