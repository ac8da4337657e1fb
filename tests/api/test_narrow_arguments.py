"""Kernels called on arrays of the narrow types: torch's, NumPy's own, and NumPy's with ml_dtypes."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import ArgumentTypeError
from polydl.model.bfloat16 import narrowed, widened

SCALE = """#include <polydl.h>
polydl_bf16 scale(int n, polydl_bf16 a, const polydl_bf16 x[restrict n], polydl_bf16 y[restrict n])
{
    for (int i = 0; i < n; i++)
        y[i] = polydl_to_bf16(polydl_to_float(a) * polydl_to_float(x[i]));
    return a;
}
"""
PLAIN = """#include <stdint.h>
void add({type} y[restrict 40], const {type} x[restrict 40])
{{
    for (int i = 0; i < 40; i++)
        y[i] += x[i] * ({type})3;
}}
"""


def kernel(text: str, **more: Any) -> Any:
    return polydl.compile(text, more, tune=False, threads=1)


def expected(a: float, x: np.ndarray) -> np.ndarray:
    return widened(narrowed(np.float32(widened(narrowed(np.float32(a)))) * x))


X = widened(narrowed(np.random.default_rng(3).standard_normal(37).astype(np.float32)))


def test_bfloat16_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional part")
    scale = kernel(SCALE, n=37)
    assert str(scale).startswith("scale(a: polydl_bf16, x: const polydl_bf16[n], y: polydl_bf16[n]")
    x, y = torch.from_numpy(X).to(torch.bfloat16), torch.zeros(37, dtype=torch.bfloat16)
    assert scale(1.7, x, y) == 1.703125
    assert np.array_equal(y.float().numpy(), expected(1.7, X))
    value, made = scale(1.7, x)
    assert (value, made.dtype) == (1.703125, torch.bfloat16)
    assert torch.equal(made, y)
    with pytest.raises(ArgumentTypeError, match="'x' has elements of float16; expected bfloat16"):
        scale(1.7, x.to(torch.float16), y)


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="an optional part")
    scale = kernel(SCALE, n=37)
    x, y = X.astype(ml_dtypes.bfloat16), np.zeros(37, ml_dtypes.bfloat16)
    scale(ml_dtypes.bfloat16(1.7), x, y)
    assert np.array_equal(y.astype(np.float32), expected(1.7, X))
    _, made = scale(1.7, x)
    assert made.dtype == ml_dtypes.bfloat16
    assert np.array_equal(made.astype(np.float32), expected(1.7, X))


def test_what_numpy_alone_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = kernel(SCALE, n=37)
    with pytest.raises(ArgumentTypeError, match="'x' has elements of uint16; expected bfloat16") as raised:
        scale(1.7, narrowed(X), narrowed(X))
    assert raised.value.hint == "convert it: .astype(ml_dtypes.bfloat16), for a tensor .to(torch.bfloat16)"
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    store = kernel(
        "#include <polydl.h>\nvoid store(const float x[restrict 37], polydl_bf16 y[restrict 37])\n"
        "{ for (int i = 0; i < 37; i++) y[i] = polydl_to_bf16(x[i]); }\n"
    )
    with pytest.raises(ArgumentTypeError, match="'y' is missing, and NumPy has no bfloat16"):
        store(X)


@pytest.mark.parametrize(
    ("c", "name"),
    [("_Float16", "float16"), ("int8_t", "int8"), ("uint8_t", "uint8"), ("int16_t", "int16"), ("uint16_t", "uint16")],
)
def test_types_that_numpy_has(c: str, name: str) -> None:
    add = kernel(PLAIN.format(type=c))
    rng = np.random.default_rng(1)
    low = 0 if name.startswith("u") else -20
    x, y = (rng.integers(low, 20, 40).astype(name) for _ in range(2))
    before = y.copy()
    add(y, x)
    assert np.array_equal(y, before + 3 * x)
    torch = pytest.importorskip("torch", reason="torch is an optional part")
    if not hasattr(torch, name):
        return
    x, y = torch.from_numpy(x), torch.from_numpy(before.copy())
    add(y, x)
    assert np.array_equal(y.numpy(), before + 3 * x.numpy())


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_kernels_are_made_the_same_after_they_were_stored(name: str) -> None:
    """Signature and code survive being pickled."""
    torch = pytest.importorskip("torch", reason="torch is an optional part")
    made = kernel(SCALE, n=37) if name == "bfloat16" else kernel(PLAIN.format(type="_Float16"))
    again = pickle.loads(pickle.dumps(made))
    assert again.signature == made.signature
    x = torch.ones(37 if name == "bfloat16" else 40, dtype=getattr(torch, name))
    y = torch.zeros_like(x)
    again(2.0, x, y) if name == "bfloat16" else again(y, x)
    assert y.float().tolist() == [2.0 if name == "bfloat16" else 3.0] * len(y)
