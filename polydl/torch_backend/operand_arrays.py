"""Tensors in memory as arrays of C: which extents and subscripts reach the elements that sizes and strides name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polydl.model.types import ElementType
from polydl.torch_backend.loop_index import ZERO, Index, linear
from polydl.torch_backend.loop_program import Array

Subscripts = Callable[[tuple[Index, ...]], tuple[Index, ...]]


def operand_array(
    name: str, element: ElementType, sizes: Sequence[int], strides: Sequence[int]
) -> tuple[Array, Subscripts]:
    """An array that has an extent for each dimension where strides are those of rows in rows, in whatever order, also
    with gaps behind each row; otherwise one of a single extent. Dimensions of one element or of stride 0 take none."""
    dims = sorted((d for d, (n, s) in enumerate(zip(sizes, strides, strict=True)) if n > 1 and s > 0),
                  key=lambda d: (-strides[d], d))  # fmt: skip
    if not dims:
        return Array(name, element, (1,)), lambda _: (ZERO,)
    rows = [strides[d] for d in dims[:-1]] + [1]
    last = dims[-1]
    shape = [sizes[dims[0]]]
    nested = True
    for outer, inner, d in zip(rows, rows[1:], dims[1:], strict=False):
        needed = (sizes[d] - 1) * (strides[last] if d == last else 1) + 1
        nested = nested and outer % inner == 0 and needed <= outer // inner
        shape.append(outer // inner if inner else 0)
    if len(dims) == 1:
        shape = [(sizes[last] - 1) * strides[last] + 1]
    if not nested:
        span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        return Array(name, element, (span,)), lambda index: (linear(index, strides),)

    def subscripts(index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(index[d] * (strides[d] if d == last else 1) for d in dims)

    return Array(name, element, tuple(shape)), subscripts
