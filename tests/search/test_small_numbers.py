"""Small numbers in place of a program's sizes, and back."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.model import isl
from polydl.schedule.relations import direct
from polydl.search.candidates import fingerprint
from polydl.search.isl_scheduler import SETTINGS, computed
from polydl.search.small_numbers import KEPT, LEAST, SmallNumbers
from tests.programs.corpus import catalogue


def of(*numbers: int) -> SmallNumbers:
    return SmallNumbers.of([isl.Set(f"{{ A[i] : i <= {number} }}") for number in numbers])


def test_order_and_small_distances_are_kept() -> None:
    new = of(3, 1998, 1999, 2000, 4000).new
    assert set(new) == {1998, 1999, 2000, 4000}
    assert [new[n] for n in (1998, 1999, 2000)] == [LEAST, LEAST + 1, LEAST + 2]
    assert new[4000] == 4 * (LEAST + 2)


@given(st.sets(st.integers(KEPT + 1, 10**6), min_size=1, max_size=4), st.integers(-KEPT, KEPT))
def test_back_from_near_a_number(numbers: set[int], offset: int) -> None:
    small = of(*numbers)
    groups = sorted(numbers)
    if any(0 < b - a <= 3 * KEPT for a, b in pairwise(groups)):
        return  # near to several
    for number in numbers:
        assert small.original(small.new[number] + offset) == number + offset
        assert small.original(-small.new[number] - offset) == -number - offset


def test_back_from_sums_and_differences() -> None:
    small = of(1000, 3000, 50_000)
    for a, b in combinations((1000, 3000, 50_000), 2):
        assert small.original(small.new[a] + small.new[b] - 1) == a + b - 1
        assert small.original(small.new[b] - small.new[a] + 2) == b - a + 2
    assert small.original(7) == 7


def test_sets_with_small_numbers() -> None:
    known = isl.Set("{ A[i, j] : 0 <= i < 4000 and i <= j <= 3999 or i = 5000 and j = 2 }")
    small = SmallNumbers.of([known])
    expected = isl.Set(f"{{ A[i, j] : 0 <= i <= {LEAST} and i <= j <= {LEAST} or i = {4 * LEAST} and j = 2 }}")
    assert small.put(known).is_equal(expected)


def test_nothing_changes_where_factors_are_large() -> None:
    known = isl.Set("{ A[t, i] : 0 <= 64t + i < 4000 and 0 <= i < 64 }")
    assert SmallNumbers.of([known]).new == {}
    assert SmallNumbers.of([known]).put(known).is_equal(known)


def test_an_empty_result_changes_nothing() -> None:
    """The middle of a triangle: what holds for 100 does not for the number in its place."""
    known = isl.Set("{ A[i, j] : i >= 40 and j >= 41 and i + j <= 100 }")
    small = SmallNumbers.of([known])
    assert small.new
    assert not small.put(known).is_empty()


@pytest.mark.parametrize("name", ["lu", "jacobi_2d", "trmm", "gemver", "seidel_2d", "symm"])
def test_schedules_are_those_of_the_sizes_themselves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalogue()[name]
    values = entry.bench or entry.sizes[0]
    scop = load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops[0]
    links = direct(scop, scop.statements, dependences(scop, reads=False), privatised=False)
    made = [computed(scop, scop.statements, links, setting) for setting in SETTINGS]
    assert any(made)
    monkeypatch.setattr(SmallNumbers, "of", classmethod(lambda cls, known: cls({})))
    exact = [computed(scop, scop.statements, links, setting) for setting in SETTINGS]
    for one, other in zip(made, exact, strict=True):
        assert (one and fingerprint(one)) == (other and fingerprint(other))
