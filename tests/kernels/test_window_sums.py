"""Rows whose columns are short sums over windows that overlap: to the bit, for every number of columns."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import polydl
from tests.kernels.test_inner_sums import FLAGS, in_rows
from tests.kernels.test_narrow_rows import CPU
from tests.oracle.native import compile_c
from tests.search.test_every_size import Guarded
from tests.together import asked

TYPES = {"short": np.int16, "signed char": np.int8, "unsigned char": np.uint8, "int": np.int32, "float": np.float32}


@dataclass(frozen=True, slots=True)
class Kind:
    """A filter."""

    taps: int
    types: tuple[str, str, str]
    """Of x, the filter h and the result y."""
    term: str
    """What tap k adds to column i."""
    finish: str = "s"
    op: str = "+="


HALVES, BYTES = ("short", "short", "short"), ("unsigned char", "signed char", "short")
WORDS = ("short", "short", "int")
KINDS = {
    "halves": Kind(64, HALVES, "x[i + k] * h[k]", "s >> 7"),
    "two": Kind(2, HALVES, "x[i + k] * h[k]", "s >> 7"),
    "three": Kind(3, HALVES, "x[i + k] * h[k]", "s >> 7"),
    "eight": Kind(8, HALVES, "x[i + k] * h[k]", "s >> 7"),
    "thirteen": Kind(13, HALVES, "h[k] * x[i + k]", "s >> 7"),
    "bytes": Kind(9, BYTES, "x[i + k] * h[k]"),
    "signed bytes": Kind(16, ("signed char", "signed char", "signed char"), "x[i + k] * h[k]", "s >> 5"),
    "backwards": Kind(16, HALVES, "x[i + 15 - k] * h[k]", "s >> 7"),
    "backwards, odd": Kind(7, BYTES, "x[i + 6 - k] * h[k]"),
    "the filter backwards": Kind(10, HALVES, "x[i + k] * h[9 - k]", "s >> 7"),
    "a zero point": Kind(12, BYTES, "(x[i + k] - 3) * h[k]"),
    "differences": Kind(6, BYTES, "(x[i + k] - h[k]) * (x[i + k] - h[k])"),
    "squares": Kind(5, BYTES, "x[i + k] * x[i + k]"),
    "sums": Kind(11, BYTES, "x[i + k]"),
    "one factor": Kind(4, BYTES, "x[i + k] * h[0]"),
    "taken away": Kind(8, HALVES, "x[i + k] * h[k]", "s >> 7", "-="),
    "two terms": Kind(8, BYTES, "x[i + k] * h[k] - 2 * h[k]"),
    "to words": Kind(64, WORDS, "x[i + k] * h[k]"),
    "to words, odd": Kind(5, WORDS, "h[k] * x[i + k]"),
    "bytes to words": Kind(9, ("unsigned char", "signed char", "int"), "x[i + k] * h[k]"),
    "words, backwards": Kind(16, WORDS, "x[i + 15 - k] * h[k]"),
    "words, taken away": Kind(8, WORDS, "x[i + k] * h[k]", op="-="),
    "scaled": Kind(20, ("short", "short", "float"), "x[i + k] * h[k]", "(float)s * 0.5f"),
}


def function(kind: Kind, number: int) -> str:
    x, h, y = kind.types
    return f"""void f{number}(int n, const {x} *restrict x, const {h} *restrict h, {y} *restrict y)
{{
    for (int i = 0; i < n; i++) {{
        int s = 5;
        for (int k = 0; k < {kind.taps}; k++) s {kind.op} {kind.term};
        y[i] = ({y})({kind.finish});
    }}
}}
"""


@cache
def in_one_file(names: tuple[str, ...]) -> tuple[str, str]:
    source = "".join(function(KINDS[name], number) for number, name in enumerate(names))
    return source, in_rows(*polydl.load(source, require_sizes=False).scops, called="polydl_window_")


@cache
def libraries(names: tuple[str, ...], isa: str) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The programs as they are, and in rows: functions f0, f1, …"""
    source, written = in_one_file(names)
    common = (
        "-ffp-contract=off",
        "-fwrapv",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-Wno-unused-parameter",
    )
    common += () if isa.startswith("avx512") else ("-mno-avx512f",)
    return compile_c([source], ("-Og", *common)), compile_c([written], ("-Og", *common, *FLAGS[isa]))


@pytest.mark.parametrize("isa", FLAGS)
@pytest.mark.parametrize("name", KINDS)
def test_the_same_bits_as_plain_c(name: str, isa: str, request: pytest.FixtureRequest) -> None:
    """Operands end where their memory ends; numbers are of all sizes, the least one among them."""
    if not {flag.removeprefix("-m").replace("vnni", "_vnni") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    names = asked(request, "name", isa=isa)
    kind, functions = KINDS[name], [library[f"f{names.index(name)}"] for library in libraries(names, isa)]
    rng, guarded = np.random.default_rng(1), Guarded()
    for columns in (*range(6), 15, 16, 17, 31, 32, 33, 63, 64, 65, 100):
        lengths = (columns + kind.taps - 1, kind.taps, columns)
        arrays = [guarded.array((m,), TYPES[t], rng) for m, t in zip(lengths, kind.types, strict=True)]
        for array in arrays[:2]:
            ends = np.iinfo(array.dtype)
            array[...] = rng.integers(ends.min, ends.max + 1, len(array))
            array[::3] = ends.min
        results = []
        for one in functions:
            arrays[2][...] = 77
            one(columns, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
            results.append(arrays[2].copy())
        np.testing.assert_array_equal(*results, err_msg=f"{columns} columns")


@pytest.mark.parametrize(
    "kind",
    [
        Kind(8, ("int", "int", "int"), "x[i + k] * h[k]"),  # 32 bits by 32 bits
        Kind(1, BYTES, "x[i + k] * h[k]"),
        Kind(12, BYTES, "x[i + k] * x[i + 12 - k]"),  # forwards and backwards
        Kind(12, BYTES, "x[i + 2 * k] * h[k]"),  # taps that are apart
    ],
)
def test_what_has_no_windows(kind: Kind) -> None:
    (scop,) = polydl.load(function(kind, 0), require_sizes=False).scops
    assert "polydl_window_" not in in_rows(scop)
