"""Adversarial data, and the ways in which arguments overlap."""

from __future__ import annotations

import math

import pytest

from polydl.model.types import F16, F32, F64, I8, I32, TYPES, U8, U32, ElementType, Kind
from polydl.oracle.fillings import FLOATS, INTEGERS, LADDER, Filling, fillings, ladder
from polydl.oracle.overlaps import Overlap, Pointer, may_overlap, overlaps, partitions


@pytest.mark.parametrize("element", [t for t in TYPES if t.numpy is not None], ids=lambda t: t.name)
def test_every_filling_of_every_type_has_its_bytes(element: ElementType) -> None:
    floats, whole = [Filling(name, "zeros") for name in FLOATS], [Filling("distinct", name) for name in INTEGERS]
    kinds = whole if element.is_int else floats
    for filling in kinds:
        for count in (0, 1, 2, 5):
            assert len(filling.values(element, count)) == count * element.bytes
        assert filling.values(element, 9, "a") == filling.values(element, 9, "a")
        if element.is_int:
            assert all(element.minimum <= x <= element.maximum for x in filling.numbers(element, 50))
        if element.kind is Kind.FLOAT and filling.floats != "special":
            assert sum(map(math.isfinite, filling.numbers(element, 50))) > 30


def test_what_shows_errors_is_there() -> None:
    special = Filling("special", "extremes").numbers(F32, 400)
    assert any(math.isnan(x) for x in special)
    assert {math.inf, -math.inf, 2.0**24 + 2, 2.0**-149} <= set(special)
    assert {math.copysign(1, x) for x in special if x == 0} == {1.0, -1.0}
    assert max(x for x in Filling("special", "zeros").numbers(F16, 400) if math.isfinite(x)) == 65504
    assert {0, 1, -1, -(2**31), 2**31 - 1, 2**31 - 2, 2**16} <= set(Filling("zeros", "extremes").numbers(I32, 300))
    assert {0, 1, 2**32 - 1, 2**31 - 1, 2**31} <= set(Filling("zeros", "extremes").numbers(U32, 300))
    sparse = Filling("sparse", "zeros").numbers(F64, 60)
    assert sparse[:3] == [0, 0, 0] and 20 < sparse.count(0) < 55
    assert len(set(Filling("distinct", "zeros").numbers(F32, 500))) == 500


def test_arrays_of_one_type_differ() -> None:
    filling = Filling("distinct", "permuted")
    assert filling.values(F32, 8, "a") != filling.values(F32, 8, "b")
    assert filling.values(I32, 8, "a") != filling.values(I32, 8, "b")
    assert filling.values(F32, 8) != Filling("distinct", "permuted", seed=1).values(F32, 8)


def test_subscripts_are_in_range_and_rows_may_be_empty() -> None:
    for name in ("permuted", "repeated", "sorted"):
        for bound in (1, 2, 8):
            numbers = Filling("zeros", name, bound=bound).numbers(I32, 20)
            assert all(0 <= x <= bound - (name != "sorted") for x in numbers)
    rows = Filling("zeros", "sorted", bound=8).numbers(I32, 9)
    assert rows == sorted(rows) and rows[:2] == [0, 0] and rows[-2:] == [8, 8]
    assert sorted(Filling("zeros", "permuted", bound=9).numbers(U8, 9)) == list(range(9))


def test_the_ladder_goes_from_everything_to_what_fits_everywhere() -> None:
    steps = [filling.integers for filling in ladder(fillings()[0])]
    assert list(dict.fromkeys(steps)) == list(LADDER)
    assert len({filling.name for filling in ladder(fillings()[0])}) == len(steps)
    assert [f.floats for f in fillings(most=2)] == ["distinct", "special"]
    assert {f.floats for f in fillings()} == set(FLOATS)


A, B, C = (Pointer(name, F32, 8) for name in "abc")


def test_restrict_and_types_keep_pointers_apart() -> None:
    assert may_overlap(A, B)
    assert not may_overlap(A, Pointer("b", F32, 8, restrict=True))
    assert may_overlap(Pointer("a", F32, 8, restrict=True, written=False), Pointer("b", F32, 8, written=False))
    assert not may_overlap(A, Pointer("i", I32, 8))
    assert may_overlap(Pointer("u", U32, 8), Pointer("i", I32, 8))
    assert may_overlap(A, Pointer("bytes", U8, 8))
    assert may_overlap(A, Pointer("chars", I8, 8))


def test_every_partition_is_there_once() -> None:
    blocks = {frozenset(frozenset(one.name for one in block) for block in p) for p in partitions([A, B, C])}
    assert len(blocks) == len(list(partitions([A, B, C]))) == 5  # Bell's number of 3
    own = Pointer("c", F32, 8, restrict=True)
    assert len(list(partitions([A, B, own]))) == 2


def test_overlaps_begin_with_none_and_go_both_ways() -> None:
    found = [one.name for one in overlaps([A, B])]
    assert found == ["apart", "b = a", "b = a + 4", "b = a - 4", "b = a + 16", "b = a - 16"]
    places = [{name: offset for name, _, offset in one.places} for one in overlaps([A, B])]
    assert {"a": 4, "b": 0} in places and {"a": 0, "b": 4} in places
    assert overlaps([Pointer("a", F32, 8, restrict=True)]) == [Overlap((("a", 0, 0),))]
    assert len(overlaps([Pointer(name, F32, 8) for name in "abcdefg"], most=30)) == 30
    assert len({one.places for one in overlaps([A, B, C], most=100)}) == len(overlaps([A, B, C], most=100))
