"""Sums, floors and remainders of indices, against Python's at every point."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from polydl.torch_backend.loop_index import (
    Atom,
    Index,
    Quotient,
    Remainder,
    Var,
    delinearized,
    linear,
    number,
    of_var,
)
from polydl.torch_backend.ops.access_maps import contiguous_strides

VARS = [Var(0, 4), Var(1, 6), Var(2, 3)]
Step = tuple[str, int]


def value(index: Index, point: dict[Var, int]) -> int:
    """Of an index at a point, as C computes it: quotients are rounded to 0."""

    def one(atom: Atom) -> int:
        match atom:
            case Var():
                return point[atom]
            case Quotient(of, by):
                return int(value(of, point) / by)
            case Remainder(of, by):
                inner = value(of, point)
                return inner - int(inner / by) * by
        raise AssertionError(atom)

    return index.constant + sum(n * one(atom) for atom, n in index.terms)


@given(
    st.lists(st.integers(-4, 4), min_size=3, max_size=3),
    st.integers(-9, 9),
    st.lists(st.tuples(st.sampled_from("+*/%"), st.integers(1, 7)), max_size=4),
)
def test_as_python(factors: list[int], constant: int, steps: list[Step]) -> None:
    index = number(constant)
    for var, factor in zip(VARS, factors, strict=True):
        index += of_var(var) * factor
    points = [dict(zip(VARS, one, strict=True)) for one in product(*(range(var.extent) for var in VARS))]
    wanted = [constant + sum(f * p[v] for v, f in zip(VARS, factors, strict=True)) for p in points]
    for op, by in steps:
        index = {"+": index + by, "*": index * by, "/": index // by, "%": index % by}[op]
        wanted = [{"+": one + by, "*": one * by, "/": one // by, "%": one % by}[op] for one in wanted]
    assert [value(index, one) for one in points] == wanted
    low, high = index.range
    assert low <= min(wanted)
    assert max(wanted) <= high


def test_a_place_in_memory_and_back() -> None:
    sizes = (4, 6, 3)
    index = tuple(of_var(var) for var in VARS)
    assert delinearized(linear(index, contiguous_strides(sizes)), sizes) == index
