"""Cache misses: counted and simulated ones held against brute force; published figures of HayStack."""

from __future__ import annotations

import math
from collections.abc import Sequence

import islpy as isl
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from polydl.locality.lines import line_trace
from polydl.locality.lru_misses import AccessMisses, analytic, misses
from polydl.locality.simulate import Cache, Trace, replayed, simulate, stack_distances, trace
from polydl.model.counting import total
from polydl.model.layout import Layout, row_major
from polydl.model.nest import TimedAccess, TimedNest
from tests.locality.nests import PlainNest, plain_nests

Found = list[tuple[int, int, list[int]]]


def brute_force(nest: PlainNest, line_bytes: int, lines: Sequence[int]) -> Found:
    """Per access: how many, compulsory misses, capacity misses of each cache; by a stack of lines."""
    stack: list[tuple[object, ...]] = []
    bytes_of = nest.timed().element_bytes
    found: Found = [(0, 0, [0] * len(lines)) for _ in nest.accesses]
    for time in sorted(nest.times):
        for number, access in enumerate(nest.accesses):
            element = access.touches(time)
            if element is None:
                continue
            ends = tuple(e // max(1, line_bytes // bytes_of[access.array]) for e in element[-1:])
            line = (access.array, *element[:-1], *ends)
            count, compulsory, capacity = found[number]
            if line in stack:
                distance = len(stack) - stack.index(line)
                stack.remove(line)
                capacity = [c + (distance > most) for c, most in zip(capacity, lines, strict=True)]
            else:
                compulsory += 1
            stack.append(line)
            found[number] = count + 1, compulsory, capacity
    return found


@pytest.mark.parametrize("block", range(10))
def test_four_hundred_nests(block: int) -> None:
    """40 nests each: counted without running over the accesses, simulated, and by brute force. What is not exact holds
    the truth between its bounds, and is rare."""
    numbers = {True: 0, False: 0}

    @seed(block)
    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        plain_nests(),
        st.sampled_from([4, 8, 16, 32]),
        st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True),
    )
    def check(nest: PlainNest, line_bytes: int, lines: list[int]) -> None:
        expected = brute_force(nest, line_bytes, lines)
        lined = line_trace(nest.timed(), line_bytes)
        run = simulate(lined, [Cache(1, most) for most in lines])
        counted = analytic(lined, lines)
        for number, (count, compulsory, capacity) in enumerate(expected):
            assert (run.accesses[number], run.compulsory[number]) == (count, compulsory)
            assert [int(others[number]) for others in run.others] == capacity
            one = counted[number]
            assert one.accesses.value == count
            for size, value in zip((one.compulsory, *one.capacity), (compulsory, *capacity), strict=True):
                assert size.lower <= value <= size.upper
                numbers[size.exact] += 1
        for one, (count, compulsory, capacity) in zip(misses(lined, lines), expected, strict=True):
            found = (one.accesses.value, one.compulsory.value, [size.value for size in one.capacity])
            assert found == (count, compulsory, capacity)

    check()
    assert numbers[False] <= 0.05 * numbers[True]


def product(order: str, size: int, tile: int | None = None) -> TimedNest:
    """C[i, j] += A[i, k] * B[k, j] with its loops in an order, tiled or not."""
    names = [name + ("t" if tile else "") for name in order] + ([name + "p" for name in order] if tile else [])
    of = {name: f"({tile}*{name}t + {name}p)" if tile else name for name in order}
    bounds = [f"0 <= {of[name]} < {size}" for name in order]
    bounds += [f"0 <= {name}p < {tile}" for name in order] if tile else []
    time = f"[{', '.join(names)}]"
    accesses = [("C", False, "ij"), ("A", False, "ik"), ("B", False, "kj"), ("C", True, "ij")]
    return TimedNest(
        tuple(names),
        isl.Set(f"{{ {time} : {' and '.join(bounds)} }}"),
        tuple(
            TimedAccess("S", array, write, isl.Map(f"{{ {time} -> {array}[{', '.join(of[x] for x in places)}] }}"))
            for array, write, places in accesses
        ),
        dict.fromkeys("ABC", 4),
    )


@pytest.mark.parametrize("order", ["ijk", "ikj", "kij", "jki"])
@pytest.mark.parametrize("tile", [None, 4, 5])
def test_tiled_and_permuted(order: str, tile: int | None) -> None:
    """Whole tiles and partial ones, 17 being divided by none."""
    for size in (16, 17):
        lined = line_trace(product(order, size, tile), 16)
        lines = [2, 7, 30, 60]
        run = simulate(lined, [Cache(1, most) for most in lines])
        for number, one in enumerate(analytic(lined, lines)):
            assert one.compulsory.value == run.compulsory[number]
            assert [c.value for c in one.capacity] == [int(others[number]) for others in run.others]


def test_the_same_work_for_any_size() -> None:
    """Products of a size nobody could run through: 4 * 10^15 accesses."""
    (size, line) = (100_000, 16)
    found = analytic(line_trace(product("ikj", size), 64), [1000, 10**12])
    row = size // line
    assert total(one.accesses for one in found).value == 4 * size**3
    assert total(one.compulsory for one in found).value == 3 * size * row
    # A row of B and one of C are more than the cache: both leave it between two iterations of k, A's line stays.
    assert [one.capacity[0].value for one in found] == [
        size * (size - 1) * row, 0, size * (size - 1) * row, 0,
    ]  # fmt: skip
    assert all(one.capacity[1].value == 0 for one in found)


@pytest.mark.parametrize("shape", [(6, 16), (7, 10), (5, 3), (3, 4, 5), (4, 2, 3)])
def test_rows_as_they_are_stored(shape: tuple[int, ...]) -> None:
    """Lines that hold the end of a row and the beginning of the next: the simulation sees memory as it is."""
    names = [f"t{i}" for i in range(len(shape))]
    bounds = " and ".join(f"0 <= {n} < {e}" for n, e in zip(names, shape, strict=True))
    time = f"[{', '.join(names)}]"
    last = f"{shape[-1] - 1} - {names[-1]}"
    accesses = (
        TimedAccess("S", "A", False, isl.Map(f"{{ {time} -> A[{', '.join(names)}] }}")),
        TimedAccess("S", "A", True, isl.Map(f"{{ {time} -> A[{', '.join([*names[:-1], last])}] }}")),
    )
    nest = TimedNest(tuple(names), isl.Set(f"{{ {time} : {bounds} }}"), accesses, {"A": 4})
    layouts: dict[str, Layout] = {"A": row_major(shape)}
    lines = [1, 2, 3, 5]
    flat = line_trace(nest, 16, layouts, flat=True)
    assert len(np.unique(trace(flat).line)) == math.ceil(math.prod(shape) * 4 / 16)
    run = simulate(flat, [Cache(1, most) for most in lines])
    for number, one in enumerate(misses(line_trace(nest, 16, layouts), lines)):
        assert one.compulsory.value == run.compulsory[number]
        assert [c.value for c in one.capacity] == [int(others[number]) for others in run.others]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 20), max_size=80),
    st.sampled_from([Cache(1, 1), Cache(1, 6), Cache(2, 3), Cache(4, 1), Cache(8, 2)]),
)
def test_simulation_against_its_slow_twin(touched: list[int], cache: Cache) -> None:
    """Sets and ways: stack distances of all accesses at once, against lists of lines kept in the order of use."""
    line = np.array(touched, dtype=np.int64)
    order = np.argsort(line % cache.sets, kind="stable")
    missed = np.zeros(len(line), dtype=np.bool_)
    distance = stack_distances(line[order])
    missed[order] = (distance == 0) | (distance > cache.ways)
    assert missed.tolist() == replayed(Trace(np.zeros_like(line), line), cache)


def test_sets_need_places_in_memory() -> None:
    with pytest.raises(ValueError, match="numbers of lines"):
        simulate(line_trace(product("ijk", 4), 16), [Cache(2, 2)])


def test_bounds_and_no_hang() -> None:
    """With next to no operations there are bounds, which hold."""
    lined = line_trace(product("ikj", 8, 3), 16)
    run = simulate(lined, [Cache(1, 4)])
    for number, one in enumerate(analytic(lined, [4], operations=500)):
        sizes: AccessMisses = one
        assert sizes.compulsory.lower <= run.compulsory[number] <= sizes.compulsory.upper
        assert sizes.capacity[0].lower <= run.others[0][number] <= sizes.capacity[0].upper


def test_what_cannot_be_counted_is_refused() -> None:
    open_ended = TimedNest(
        ("i",),
        isl.Set("[N] -> { [i] : 0 <= i < N }"),
        (TimedAccess("S", "A", False, isl.Map("{ [i] -> A[i] }")),),
        {"A": 4},
    )
    with pytest.raises(ValueError, match="parameters"):
        analytic(line_trace(open_ended, 64), [4])
    several = TimedNest(
        ("i",),
        isl.Set("{ [i] : 0 <= i < 9 }"),
        (TimedAccess("S", "A", False, isl.Map("{ [i] -> A[j] : i <= j < i + 40 }")),),
        {"A": 4},
    )
    with pytest.raises(ValueError, match="several elements of A"):
        analytic(line_trace(several, 64), [4])
