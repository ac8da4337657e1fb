"""Kernels in processes that were forked after their parent had called one: gcc's OpenMP threads are not there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from functools import cache
from typing import Any

import numpy as np
import pytest

import polydl

TEXT = """
extern int omp_get_num_threads(void);
void scale(int n, const float x[restrict n], float y[restrict n], int threads[restrict 1])
{
#pragma omp parallel
#pragma omp master
    threads[0] = omp_get_num_threads();
#pragma scop
    for (int i = 0; i < n; i++)
        y[i] = 2 * x[i];
#pragma endscop
}
"""
LIMIT = 20
"""Seconds after which a process counts as one that hangs."""


@cache
def kernel() -> polydl.Kernel:
    return polydl.compile(TEXT, {"n": 1000}, optimize=False, threads=3)


def threads_of_call() -> int:
    x = np.arange(1000, dtype=np.float32)
    y, threads = np.zeros_like(x), np.zeros(1, np.int32)
    kernel()(x, y, threads)
    np.testing.assert_array_equal(y, 2 * x)
    return int(threads[0])


def in_fork(depth: int = 1) -> int:
    """The threads of a call in a forked process; 99: it hung or failed."""
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        status = 99
        try:
            status = threads_of_call() if depth == 1 else in_fork(depth - 1)
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 99


@pytest.mark.parametrize("depth", [1, 2])
def test_after_a_call_of_the_parent_one_thread(depth: int) -> None:
    assert threads_of_call() == 3
    assert in_fork(depth) == 1
    assert threads_of_call() == 3, "the parent still has its threads"


def test_without_a_call_of_the_parent_all_threads() -> None:
    # A process of its own, since this one may have called kernels in other tests.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(in_fork).get(3 * LIMIT) == 3


def work(number: int) -> tuple[int, int]:
    return number, threads_of_call()


def test_a_pool_of_forked_workers() -> None:
    threads_of_call()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(6)).get(LIMIT) == [(number, 1) for number in range(6)]


def test_workers_of_a_data_loader() -> None:
    data = pytest.importorskip("torch.utils.data")

    class Scaled(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            return threads_of_call()

    threads_of_call()
    loader = data.DataLoader(Scaled(), num_workers=2, timeout=LIMIT, multiprocessing_context="fork")
    assert [int(found) for found in loader] == [1] * 6
