"""Softmax and norms against double precision, on data that lose digits where they are computed carelessly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.native.kernel import Kernel
from tests.everyday.programs import PROGRAMS

Rows = np.ndarray[Any, np.dtype[Any]]
ROWS, COLUMNS = 6, 1003
EPS = 1e-5


def softmax(x: Rows) -> Rows:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(x: Rows) -> Rows:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def layer_norm(x: Rows) -> Rows:
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + EPS)


def rms_norm(x: Rows) -> Rows:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS)


EXACT: dict[str, Callable[[Rows], Rows]] = {
    "softmax_plain": softmax,
    "softmax_buffered": softmax,
    "softmax_rows": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
SIZES: dict[str, tuple[str, str]] = {
    "softmax_rows": ("ROWS", "COLS"), "layer_norm": ("T", "C"), "rms_norm": ("ROWS", "DIM"),
}  # fmt: skip
"""Names of the sizes, where they are not M and N."""


def normal(rng: np.random.Generator) -> Rows:
    return rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)


def compiled(name: str, rows: int, columns: int) -> Kernel:
    sizes = dict(zip(SIZES.get(name, ("M", "N")), (rows, columns), strict=True))
    sizes |= {"B": 1} if name == "layer_norm" else {}
    return polydl.compile(PROGRAMS[name].path, sizes, tune=False, threads=2)


def computed(name: str, x: Rows) -> Rows:
    kernel, result = compiled(name, *x.shape), np.zeros_like(x)
    weight, bias = np.ones(x.shape[1], np.float32), np.zeros(x.shape[1], np.float32)
    match name:
        case "layer_norm":
            kernel(result, x, weight, bias)
        case "rms_norm":
            kernel(result, x, weight)
        case "softmax_rows":
            result = x.copy()
            kernel(result)
        case _:
            kernel(x, result)
    return result


def error(name: str, x: Rows) -> float:
    """Largest difference, over the largest magnitude of the row's result."""
    exact, found = EXACT[name](x.astype(np.float64)), computed(name, x)
    return float((np.abs(found - exact).max(axis=1) / np.abs(exact).max(axis=1)).max())


@pytest.mark.parametrize("name", EXACT)
def test_usual_data(name: str) -> None:
    assert error(name, normal(np.random.default_rng(1))) < 1e-6


@pytest.mark.parametrize("name", EXACT)
def test_values_of_ten_thousand(name: str) -> None:
    assert error(name, 10000 * normal(np.random.default_rng(2))) < 1e-6


@pytest.mark.parametrize("name", EXACT)
def test_a_large_mean(name: str) -> None:
    # What is left of the variance of a row is rounded with its mean: 10^4 2^-24 of a standard deviation.
    assert error(name, normal(np.random.default_rng(3)) + np.float32(10000)) < 4e-4


@pytest.mark.parametrize("name", ["softmax_plain", "softmax_buffered", "softmax_rows", "log_softmax"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_infinities_and_nan(name: str) -> None:
    x = normal(np.random.default_rng(4))
    x[1] = -np.inf
    x[2, 5] = np.nan
    x[3, 7] = np.inf
    x[4, 3:] = -np.inf
    exact, found = EXACT[name](x.astype(np.float64)), computed(name, x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["softmax_plain", "log_softmax", "layer_norm", "rms_norm"])
def test_rows_of_ten_million(name: str) -> None:
    x = np.random.default_rng(5).standard_normal((1, 10**7)).astype(np.float32)
    assert error(name, x) < 2e-6


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_rows_of_ten_million_with_a_large_mean(name: str) -> None:
    # A mean that is off by 10^-3, as its own rounding leaves it, is as much of a standard deviation.
    x = np.random.default_rng(6).standard_normal((1, 10**7)).astype(np.float32) + np.float32(10000)
    assert error(name, x) < 4e-4
