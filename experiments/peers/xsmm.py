"""LIBXSMM's kernels in the default loop order around them, where Debian's libxsmm-dev is installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

import numpy as np
from bench import Bound, Contender
from blocked import blocked_inputs, blocked_output
from native import KERNELS, Floats, library, placed
from sizes import ConvLayer

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


def gemm_contender() -> Contender:
    """Blocks of GEMM_BLOCK each way, C's blocks shared out among threads."""

    def bind(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in data)
        c = placed(np.zeros((a.shape[0], b.shape[1]), dtype=np.float32), rng)
        sizes = (a.shape[0], b.shape[1], a.shape[1], GEMM_BLOCK)
        return Bound(lambda: _call("xsmm_gemm", (a, b, c), sizes), lambda: c.copy())

    return Contender("LIBXSMM", bind)
