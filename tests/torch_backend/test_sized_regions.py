"""Regions at any sizes: what is laid out is evaluated at each size, in C and in its twin in Python, without a plan."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest
import torch

from polydl.torch_backend import call_extension, calls_in_python, group_search, region_plan
from polydl.torch_backend.arena_layout import Life, offsets, stacked
from polydl.torch_backend.size_polynomials import Polynomial, elements, number, plus, product, times
from polydl.torch_backend.sized_programs import Size
from tests.torch_backend.test_calls import address, library  # noqa: F401  # a fixture


@pytest.fixture(params=["C", "Python"])
def calls(request: pytest.FixtureRequest) -> Any:
    return calls_in_python if request.param == "Python" else call_extension.calls("gcc")


def test_polynomials_are_what_they_are_of() -> None:
    names = ("a", "b", "c")
    one, other = Size.of(7, names, (2, -1, 0, 3)), Size.of(5, names, (0, 1, 4, -2))
    for point in ((1, 2, 3), (5, 9, 4), (2, 30, 7)):
        a, b = one.at(point), other.at(point)
        for found, expected in (
            (plus(number(one), number(other)), a + b), (times(number(one), number(other)), a * b),
            (product((one, 3, other)), 3 * a * b), (elements((one, 4), (other, 1)), 1 + (a - 1) * b + 3),
        ):  # fmt: skip
            assert isinstance(found, Polynomial)
            assert found.at(point) == expected
            assert found.most(point) >= expected
    assert plus(number(one), times(number(one), -1)) == 0
    assert product((2, 3)) == 6


@pytest.mark.parametrize("seed", range(20))
def test_what_is_in_use_at_once_lies_apart_at_other_sizes(seed: int, calls: Any, library: ctypes.CDLL) -> None:  # noqa: F811
    draw = random.Random(seed)
    lives = [Life(draw.randint(0, 3000), i, i + draw.randint(1, 4)) for i in range(12)]
    order = stacked(lives, offsets(lives)[0])
    for _ in range(5):
        sizes = [draw.randint(0, 3000) for _ in lives]
        begins, ends = [0] * len(lives), [0] * len(lives)
        for k, below in order:
            begins[k] = max((ends[j] for j in below), default=0)
            ends[k] = begins[k] + -(-sizes[k] // 64) * 64
        for i, one in enumerate(lives):
            for j, other in enumerate(lives[:i]):
                if other.first <= one.last and one.first <= other.last:
                    assert ends[i] <= begins[j] or ends[j] <= begins[i]


def test_outputs_arena_and_bounds_follow_sizes(calls: Any, library: ctypes.CDLL) -> None:  # noqa: F811
    """Inputs 0 and 1, indices 2, sizes 3; output 4; inner 5 and 6, of which only the second is read."""
    add, twice = address(library, "add"), address(library, "twice")
    rows: Any = [(1, (0,))]
    region = calls.SizedRegion(
        4, (((rows, 6), (6, 1), torch.float32),), ((1, [(24, (0, 1))], ()), (0, [(24, (0,)), (8, ())], (1,))),
        ((add, (0, 1, 6)), (twice, (6, 4))), False, ((2, 8, (rows,), (1,), 0, [(1, (0,)), (-1, ())]),), (library,),
    )  # fmt: skip
    a, b = torch.randn(6), torch.randn(6)
    for n, m in ((3, 2), (5, 2), (5, 2), (50, 9), (2, 2)):
        found = region(a, b, torch.arange(n), torch.tensor([n, m]))
        assert found.shape == (n, 6)
        assert torch.equal(found[0], 2 * (a + b))
        with pytest.raises(IndexError, match=f"index {n} is not between 0 and {n - 1}"):
            region(a, b, torch.full((n,), n), torch.tensor([n, m]))
    assert region.arenas in (3, 2)  # the first, and one where sizes grew beyond its room
    with pytest.raises(TypeError, match="takes 4 tensors, not 1"):
        region(a)


def test_a_new_size_costs_no_plan_and_other_threads_no_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    plans: list[int] = []
    searched: list[str] = []
    plan, search = region_plan.planned, group_search.searched
    monkeypatch.setattr(region_plan, "planned", lambda *args: plans.append(1) or plan(*args))
    monkeypatch.setattr(group_search, "searched", lambda job: searched.append(job.key) or search(job))

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.softmax(-1) @ x.transpose(-1, -2)).exp().sum(-1)

    compiled = torch.compile(function, backend="polydl", dynamic=True, options={"groups": 0})
    threads = torch.get_num_threads()
    with torch.no_grad():
        compiled(torch.randn(3, 9, 8))
        first = len(plans), len(searched)
        assert all(first)
        for rows in (5, 12, 31, 9):
            x = torch.randn(4, rows, 8)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        assert (len(plans), len(searched)) == first
        try:
            for n in (1, 3):
                torch.set_num_threads(n)
                x = torch.randn(4, 7, 8)
                torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        finally:
            torch.set_num_threads(threads)
        assert len(searched) == first[1]
