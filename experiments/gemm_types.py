"""GEMM on operands of small types: sources, inputs and peers for `gemm.py --dtype`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from common import define_flags, need_peer, optimized, peers_of
from native import KERNELS, bound_packed, placed
from sizes import GemmSize

import polydl
from polydl.learn.collect.problems import DTYPES
from polydl.model.types import I8, U8, element_type
from polydl.rank.instruction_set import target_isa
from polydl.target import detect
from polydl.target.products import DOT_8, DOT_BF16, DOT_I16, FMA, MATRICES, Product, in_matrices

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Types of a product."""

    a: str
    """C's, as of `b` and of the sums `c`."""
    b: str
    c: str
    stored: Callable[[Array], Array]
    """Whole numbers as elements of A, and of B."""
    ranges: tuple[tuple[int, int], tuple[int, int]]
    """Least and greatest element of A and of B that is timed."""
    prepacked: bool = True
    """Whether --prepack has something to pack: halves become floats in an array of their own before."""
    inner: Product = FMA
    """The inner product of vectors whose peak it is compared with, where the machine has no matrices for it."""
    rounded: Callable[[Array], Array] = lambda x: x
    """Sums as the peers give them, whose results have the type of the operands where these are floats."""


def _bits_of_bf16(values: Array) -> Array:
    """NumPy has no bf16: its bits. Whole numbers up to 256 are exact."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _rounded_to_bf16(values: Array) -> Array:
    """Floats to the nearest bf16, even ones in the middle between two."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _signed(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


KINDS: Mapping[str, Kind] = {
    "u8s8": Kind(
        "uint8_t", "int8_t", "int32_t", lambda x: x, ((0, 255), _signed(8)),
        inner=DOT_8[U8, I8],
    ),
    "s8s8": Kind(
        "int8_t", "int8_t", "int32_t", lambda x: x, (_signed(8), _signed(8)),
        inner=DOT_8[U8, I8],
    ),
    "s16": Kind(
        "int16_t", "int16_t", "int32_t", lambda x: x, (_signed(9), _signed(9)),
        inner=DOT_I16,
    ),
    "bf16": Kind(
        "polydl_bf16", "polydl_bf16", "float", _bits_of_bf16,
        ((-2, 2), (-2, 2)), inner=DOT_BF16, rounded=_rounded_to_bf16,
    ),
    "half": Kind(
        "_Float16", "_Float16", "float", lambda x: x.astype(np.float16),
        ((-2, 2), (-2, 2)), prepacked=False, rounded=lambda x: x.astype(np.float16),
    ),
}  # fmt: skip
"""By the value of --dtype."""


def peak_product(kind: Kind, isa: str | None) -> Product:
    """The inner product whose peak shares are of: of the machine's matrices where it has them for these types and is
    not kept to vectors."""
    target = target_isa(detect(isa=isa))
    a, b, sums = (element_type(name) for name in (kind.a, kind.b, kind.c))
    found = (in_matrices(scheme, a, b, sums) for scheme in MATRICES)
    return next((product for product in found if product is not None and target.has(product)), kind.inner)


_NUMPY = {"uint8_t": np.uint8, "int8_t": np.int8, "int16_t": np.int16}
SOURCE = KERNELS / "gemm_types.c"


def stored(kind: Kind, shapes: Sequence[tuple[int, ...]], rng: np.random.Generator, integral: bool) -> Sequence[Array]:
    """Whole numbers of the kind's two types; from -2 to 2, or 0, when `integral`: sums of up to 4 million are exact."""
    made = []
    for (low, high), name, shape in zip(kind.ranges, (kind.a, kind.b), shapes, strict=True):
        low, high = (max(low, -2), min(high, 2)) if integral else (low, high)
        values = rng.integers(low, high + 1, shape, dtype=np.int32)
        made.append(kind.stored(values.astype(_NUMPY.get(name, np.int32))))
    return made


def data(kind: Kind, size: GemmSize, rng: np.random.Generator, integral: bool) -> Sequence[Array]:
    """A and B."""
    return stored(kind, ((size.M, size.K), (size.K, size.N)), rng, integral)


def _from_c(kind: Kind, name: str, c_file: Path, flags: Sequence[str]) -> Contender:
    """`matmul` of a C file."""

    def bind(inputs: Sequence[Array], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in inputs)
        sums = np.int32 if kind.c == "int32_t" else np.float32
        c = placed(np.zeros((a.shape[0], b.shape[1]), dtype=sums), rng)
        run = bound_packed(c_file, "matmul", flags, (a, b, c), b)
        return Bound(run, lambda: kind.rounded(c).astype(np.float64))

    return Contender(name, bind)


def _rounded_result(kind: Kind, bound: Bound) -> Bound:
    return replace(bound, result=lambda: kind.rounded(bound.result().astype(np.float32)).astype(np.float64))


def problem(dtype: str, size: GemmSize, given: argparse.Namespace) -> Problem:
    """A size with everything that is to solve it."""
    kind, wanted = KINDS[dtype], peers_of(given)
    defines = {"DTYPE": DTYPES.index(dtype), "M": size.M, "N": size.N, "K": size.K}
    flags = [f"-I{Path(polydl.__file__).parent / 'include'}", *define_flags(defines)]
    notes: dict[str, object] = {"workload": size.workload, "dtype": dtype}
    contenders: list[Contender] = []
    if "onednn" in wanted:
        from peers import small_types

        contenders += small_types.gemm_contenders(dtype)
    # LIBXSMM has bf16 kernels for AVX-512 alone.
    if "xsmm" in wanted and dtype == "bf16" and size.K % 2 == 0 and given.isa != "avx2":
        from peers import xsmm

        if xsmm.available():
            peer = xsmm.bf16_gemm_contender()
            # Rounded, for the comparison, as the results of the others are.
            contenders.append(Contender(peer.name, lambda d, r: _rounded_result(kind, peer.bind(d, r))))
    if "plain" in wanted:
        contenders.append(_from_c(kind, "plain C", SOURCE, flags))
    need_peer(contenders)
    if not given.skip_polydl:
        output, seconds = optimized(SOURCE, f"gemm_{dtype}_{size.name}", defines, given, kind.prepacked * "B")
        notes["polydl_seconds"] = seconds
        contenders.append(_from_c(kind, POLYDL, output, flags))
    a, b = data(kind, GemmSize(size.workload, 1, 1, 1), np.random.default_rng(0), True)
    traffic = a.itemsize * size.M * size.K + b.itemsize * size.K * size.N + 4 * size.M * size.N
    return Problem(
        size.name, size.operations, traffic, lambda r, i: data(kind, size, r, i), contenders, notes,
        peak_product(kind, given.isa),
    )  # fmt: skip
