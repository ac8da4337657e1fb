"""Kernels that look at arrays of subscripts before they run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import polydl
from polydl.base.errors import ArgumentValueError

ROWS = """
void rows(int n, int m, const int ptr[restrict n + 1], const int *restrict idx, const float *restrict val,
          const float x[restrict m], float y[restrict n])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            y[i] += val[p] * x[idx[p]];
}
"""
FLAT = """
void flat(int n, const int ptr[restrict n + 1], const int *restrict idx, const float *restrict val,
          const float *restrict x, float y[restrict n * K])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < K; j++)
                y[i * K + j] += val[p] * x[idx[p] * K + j];
}
"""


def arrays(**changed: list[int]) -> dict[str, np.ndarray]:
    given = {"ptr": [0, 2, 2, 5], "idx": [0, 6, 3, 3, 1]} | changed
    integers = {name: np.array(values, np.int32) for name, values in given.items()}
    return {**integers, "val": np.ones(5, np.float32), "x": np.arange(7, dtype=np.float32), "y": np.ones(3, np.float32)}


@pytest.fixture(scope="module")
def checked() -> polydl.Kernel:
    return polydl.compile(ROWS, check=True, tune=False)


def test_what_is_in_order_runs(checked: polydl.Kernel) -> None:
    for kernel in (checked, pickle.loads(pickle.dumps(checked))):
        for _ in range(3):  # later calls look as well
            given = arrays()
            kernel(n=3, m=7, **given)
            assert given["y"].tolist() == [7, 1, 8]


WRONG = {
    r"idx\[2\] is 7, which leads out of 'x'": {"idx": [0, 6, 7, 3, 1]},
    r"idx\[1\] is -1, which leads out of 'x'": {"idx": [0, -1, 3, 3, 1]},
    r"ptr\[3\] is 6, which leads out of '(idx|val)'": {"ptr": [0, 2, 2, 6]},
    r"ptr\[0\] is -2, which leads out of '(idx|val)'": {"ptr": [-2, 2, 2, 5]},
    r"ptr\[2\] is 1, less than ptr\[1\], which is 2": {"ptr": [0, 2, 1, 5]},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_leads_out_of_arrays_is_an_error_and_nothing_is_written(checked: polydl.Kernel, message: str) -> None:
    given = arrays(**WRONG[message])
    with pytest.raises(ArgumentValueError, match=message):
        checked(n=3, m=7, **given)
    assert given["y"].tolist() == [1, 1, 1]
    checked(n=3, m=7, **arrays())


def test_nothing_is_asked_of_kernels_that_were_not_told_to() -> None:
    kernel = polydl.compile(ROWS, tune=False)
    assert kernel.checks == ()
    given = arrays(ptr=[0, 2, 1, 5])
    kernel(n=3, m=7, **given)
    assert given["y"].tolist() == [7, 1, 14]


def test_rows_of_flat_arrays() -> None:
    kernel = polydl.compile(FLAT, {"K": 4}, check=True, tune=False)
    given = {**arrays(), "x": np.ones((7, 4), np.float32).ravel(), "y": np.zeros(12, np.float32)}
    kernel(n=3, **given)
    assert given["y"].reshape(3, 4)[:, 0].tolist() == [2, 0, 3]
    for wrong in (7, -1):
        with pytest.raises(ArgumentValueError, match=rf"idx\[4\] is {wrong}, which leads out of 'x'"):
            kernel(n=3, **{**given, "idx": np.array([0, 6, 3, 3, wrong], np.int32)})


def test_tensors_are_looked_at(checked: polydl.Kernel) -> None:
    torch = pytest.importorskip("torch", reason="an extra")
    given = {name: torch.from_numpy(array) for name, array in arrays(idx=[0, 9, 3, 3, 1]).items()}
    with pytest.raises(ArgumentValueError, match=r"idx\[1\] is 9"):
        checked(n=3, m=7, **given)


def test_empty_arrays() -> None:
    kernel = polydl.compile(ROWS, check=True, tune=False)
    none = {"val": np.zeros(0, np.float32), "x": np.zeros(0, np.float32), "y": np.zeros(0, np.float32)}
    kernel(n=0, m=0, ptr=np.zeros(1, np.int32), idx=np.zeros(0, np.int32), **none)
