"""Constant arrays of a kernel: copied once into the layout that its code reads, per array and version."""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError
from polydl.native.kernel import Kernel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.few_sizes

LAYERS = """
void layers(int m, const float x[restrict m][40], const float W[restrict 40][40], const float V[restrict 40][24],
            const float b[restrict 40], float y[restrict m][24])
{
    static float h[200][40];
#pragma scop
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 40; j++) {
            h[i][j] = b[j];
            for (int k = 0; k < 40; k++)
                h[i][j] += x[i][k] * W[k][j];
        }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 24; j++) {
            y[i][j] = 0;
            for (int k = 0; k < 40; k++)
                y[i][j] += h[i][k] * V[k][j];
        }
#pragma endscop
}
"""
LOCAL = LAYERS.replace("static float h", "float h")
"""For several threads at once."""


def compiled(source: str = LAYERS, **options: Any) -> Kernel:
    options.setdefault("constant", ["W", "V"])
    return polydl.compile(source, {"m": 21}, tune=False, threads=2, **options)


def data(seed: int, m: int = 21) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, 40), (40, 40), (40, 24), (40,))]


def expected(x: np.ndarray, w: np.ndarray, v: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (x @ w + b) @ v


def test_arrays_have_copies_of_their_own() -> None:
    kernel = compiled()
    assert kernel.made.packed == ("W", "V")
    several = [data(seed) for seed in range(3)]
    for _ in range(2):
        for x, w, v, b in several:
            np.testing.assert_array_equal(kernel(x, w, v, b), expected(x, w, v, b))
    x, w, v, b = several[0]
    np.testing.assert_array_equal(kernel(x, several[1][1], v, b), expected(x, several[1][1], v, b))


def test_an_array_in_the_place_of_one_that_is_gone() -> None:
    """Neither its address nor its identity says that it is the old one."""
    kernel = compiled()
    for seed in range(20):
        x, w, v, b = data(seed)
        np.testing.assert_array_equal(kernel(x, w, v, b), expected(x, w, v, b))
        del w
        gc.collect()


def test_copies_are_kept_as_long_as_the_arrays() -> None:
    kernel = compiled()
    assert kernel._constants is not None
    x, w, v, b = data(0)
    kernel(x, w, v, b)
    kernel(x, w, v, b)
    assert len(kernel._constants._kept) == 1
    del w
    gc.collect()
    assert not kernel._constants._kept


def test_a_changed_array_is_packed_again_when_told() -> None:
    kernel = compiled()
    x, w, v, b = data(0)
    before = expected(x, w, v, b)
    kernel(x, w, v, b)
    w += 1
    np.testing.assert_array_equal(kernel(x, w, v, b), before, err_msg="the copy is what is read")
    kernel.repack()
    np.testing.assert_array_equal(kernel(x, w, v, b), expected(x, w, v, b))


def test_a_changed_tensor_is_packed_again_by_itself() -> None:
    kernel = compiled()
    x, w, v, b = map(torch.from_numpy, data(0))
    for _ in range(3):
        assert torch.equal(kernel(x, w, v, b), (x @ w + b) @ v)
        w.add_(1)
    with torch.inference_mode():
        w = torch.ones(40, 40)
        assert torch.equal(kernel(x, w, v, b), (x @ w + b) @ v)


def test_at_other_sizes_the_copies_are_not_read() -> None:
    kernel = compiled()
    for m in (1, 21, 50, 21, 200):
        x, w, v, b = data(m, m)
        np.testing.assert_array_equal(kernel(x, w, v, b, m=m), expected(x, w, v, b))


def test_threads() -> None:
    """Several threads ask for the first time at once, with weights of their own and with common ones."""
    kernel = compiled(LOCAL)
    common = data(100)

    def run(seed: int) -> None:
        own = data(seed)
        for _ in range(10):
            np.testing.assert_array_equal(kernel(*own), expected(*own))
            np.testing.assert_array_equal(kernel(own[0], *common[1:]), expected(own[0], *common[1:]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(16)))


def test_a_kernel_that_was_pickled() -> None:
    kernel = pickle.loads(pickle.dumps(compiled()))
    assert kernel.made.packed == ("W", "V")
    np.testing.assert_array_equal(kernel(*data(3)), expected(*data(3)))


def test_pragmas_say_the_same() -> None:
    source = LAYERS.replace("#pragma scop", "#pragma scop\n#pragma polydl constant(W, V, b)")
    kernel = compiled(source, constant=())
    assert kernel.made.packed == ("W", "V")
    np.testing.assert_array_equal(kernel(*data(3)), expected(*data(3)))


def test_what_no_microkernel_reads_needs_no_copy() -> None:
    """The weights of a layer with one output in bfloat16, say, or a bias."""
    kernel = compiled(constant=["b", "W"])
    assert kernel.made.packed == ("W",)
    np.testing.assert_array_equal(kernel(*data(3)), expected(*data(3)))


@pytest.mark.parametrize(
    ("constant", "why"),
    [
        ("X", "no array that layers is given"),
        ("y", "is written"),
        ("m", "no array"),
    ],
)
def test_refused(constant: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        compiled(constant=[constant])
    with pytest.raises(TypeError, match="sequence of names"):
        compiled(constant="W")
