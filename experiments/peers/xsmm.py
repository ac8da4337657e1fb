"""LIBXSMM's kernels in the default loop order around them, where Debian's libxsmm-dev is installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from bench import Bound, Contender
from blocked import blocked_inputs, blocked_output
from native import KERNELS, Floats, library, placed
from sizes import ConvLayer

Array = np.ndarray[Any, np.dtype[Any]]

GEMM_BLOCK = 64
"""The block size of the paper's GEMM experiments."""
_LIBRARIES = ("-lxsmm", "-lxsmmnoblas", "-lpthread", "-lrt", "-ldl")


@cache
def available() -> bool:
    """True when the compiler finds libxsmm.h."""
    compiler = shutil.which("cc")
    if compiler is None:
        return False
    probe = subprocess.run(
        [compiler, "-E", "-x", "c", "-"], input="#include <libxsmm.h>\n", capture_output=True, text=True, check=False
    )
    return probe.returncode == 0


def _library() -> ctypes.CDLL:
    return library(KERNELS / "xsmm.c", (), _LIBRARIES)


def target() -> str:
    """The instruction set that LIBXSMM generates for."""
    entry = _library().xsmm_target
    entry.restype = ctypes.c_char_p
    return entry().decode()


def _call(name: str, arrays: Sequence[Floats], sizes: Sequence[int]) -> None:
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
    if getattr(_library(), name)(*pointers, *(ctypes.c_long(s) for s in sizes)):
        raise RuntimeError(f"LIBXSMM has no kernel for {name}{tuple(sizes)}")


def conv_contender(layer: ConvLayer) -> Contender:
    """The loops of conv.c around LIBXSMM's GEMM kernel."""

    def bind(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, filters, out = (placed(a, rng) for a in blocked_inputs(layer, *data))
        images, ofm_tiles, ifm_tiles = out.shape[0], out.shape[1], image.shape[1]
        sizes = (images, ofm_tiles, ifm_tiles, layer.ofh, layer.ofw, layer.kh, layer.kw, layer.stride)
        blocks = (layer.ofm_block, layer.ifm_block)
        return Bound(lambda: _call("xsmm_conv", (out, image, filters), (*sizes, *blocks)), lambda: blocked_output(out))

    return Contender("LIBXSMM", bind)


def bf16_gemm_contender() -> Contender:
    """Blocks of GEMM_BLOCK each way, B packed beforehand in pairs along K, sums in float. K is even."""

    def bind(data: Sequence[Array], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in data)
        m, n, k = a.shape[0], b.shape[1], a.shape[1]
        blocks = -(-n // GEMM_BLOCK) * -(-k // GEMM_BLOCK)
        packed = placed(np.zeros(blocks * GEMM_BLOCK**2, dtype=b.dtype), rng)
        c = placed(np.zeros((m, n), dtype=np.float32), rng)
        loaded = library(KERNELS / "xsmm_bf16.c", (), _LIBRARIES)
        pointers = {
            name: x.ctypes.data_as(ctypes.c_void_p) for name, x in (("b", b), ("p", packed), ("a", a), ("c", c))
        }
        loaded.xsmm_bf16_pack(pointers["b"], pointers["p"], *(ctypes.c_long(s) for s in (n, k, GEMM_BLOCK)))
        sizes = [ctypes.c_long(s) for s in (m, n, k, GEMM_BLOCK)]

        def run() -> None:
            if loaded.xsmm_bf16_gemm(pointers["a"], pointers["p"], pointers["c"], *sizes):
                raise RuntimeError(f"LIBXSMM has no bf16 kernel for {m} x {n} x {k}")

        return Bound(run, lambda: c.astype(np.float64))

    return Contender("LIBXSMM, B packed", bind)


def gemm_contender() -> Contender:
    """Blocks of GEMM_BLOCK each way, C's blocks shared out among threads."""

    def bind(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in data)
        c = placed(np.zeros((a.shape[0], b.shape[1]), dtype=np.float32), rng)
        sizes = (a.shape[0], b.shape[1], a.shape[1], GEMM_BLOCK)
        return Bound(lambda: _call("xsmm_gemm", (a, b, c), sizes), lambda: c.copy())

    return Contender("LIBXSMM", bind)


def batch_contender() -> Contender:
    """A kernel for each product of a batch, C overwritten."""

    def bind(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in data)
        (batch, m, k), n = a.shape, b.shape[2]
        c = placed(np.zeros((batch, m, n), dtype=np.float32), rng)
        arguments = [*(x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c)), *map(ctypes.c_long, (batch, m, n, k))]
        entry = _library().xsmm_batch

        def run() -> None:
            if entry(*arguments):
                raise RuntimeError(f"LIBXSMM has no kernel for {m} x {n} x {k}")

        return Bound(run, lambda: c.reshape(-1).copy())

    return Contender("LIBXSMM", bind)
