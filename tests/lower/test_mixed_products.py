"""Contractions of operands of other types than their sum, in schedules drawn at random and packed ahead of time."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import numpy as np
import pytest

from polydl import load, pipeline
from polydl.base.errors import InputError
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Microkernel, Pack, Permute, Tile
from polydl.target.products import BYTES, SINGLE
from tests.compiling import run_compiler

pytestmark = pytest.mark.few_sizes

CONVOLUTION = """#include <stdint.h>
void f({c} O[restrict 6][7][19], const {a} I[restrict 9][10][5], const {b} W[restrict 4][4][5][19])
{{
#pragma scop
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 7; x++)
            for (int o = 0; o < 19; o++)
                for (int r = 0; r < 4; r++)
                    for (int s = 0; s < 4; s++)
                        for (int k = 0; k < 5; k++)
                            O[y][x][o] += {cast}I[y + r][x + s][k] * W[r][s][k][o];
#pragma endscop
}}
"""
PRODUCT = """#include <stdint.h>
void f({c} O[restrict 13][21], const {a} I[restrict 13][23], const {b} W[restrict 23][21])
{{
#pragma scop
    for (int y = 0; y < 13; y++)
        for (int o = 0; o < 21; o++)
            for (int k = 0; k < 23; k++)
                O[y][o] += {cast}I[y][k] * W[k][o];
#pragma endscop
}}
"""
SHAPES = {CONVOLUTION: ((6, 7, 19), (9, 10, 5), (4, 4, 5, 19)), PRODUCT: ((13, 21), (13, 23), (23, 21))}
TYPES = {"int32_t": np.int32, "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "float": np.float32,
         "double": np.float64}  # fmt: skip


def drawn(nest: Nest, rng: random.Random, small: bool) -> NestLoops:
    """A schedule with a microkernel, its reductions cut and shared out at random. Raises InputError where it does not
    fit. `small`: of integers of 8 bits."""
    found = nest.contraction
    assert found is not None
    columns = found.columns()[0]
    rows = rng.choice(found.rows(columns))
    tiles = {loop: rng.randint(2, 7) for loop in found.reductions if rng.random() < 0.5}
    m, n = rng.randint(1, 5), rng.choice((8, 16, 17, 32))
    inside = [f"{r}.1" if r in tiles else r for r in found.reductions[rng.randint(0, len(found.reductions) - 1) :]]
    product = rng.choice(("", SINGLE, BYTES) if small else ("", SINGLE))
    names = [f"{loop}.0" if loop in tiles else loop for loop in nest.loops]
    names += [f"{loop}.1" for loop in tiles]
    order = [name for name in names if name not in inside]
    rng.shuffle(order)
    order.sort(key=lambda name: name.endswith(".1"))  # pieces inside of their tiles
    made = apply(nest, [
        *(Tile(loop, (size,)) for loop, size in tiles.items()),
        Microkernel(rows, columns, m, n, tuple(inside), product=product),
        Permute(tuple(order)),
    ])  # fmt: skip
    for operand in ("B", "A"):
        made = Pack(operand, rng.choice(("", *order[:2]))).applied(made)
    return made


@pytest.mark.parametrize("source", [CONVOLUTION, PRODUCT], ids=["convolution", "product"])
@pytest.mark.parametrize(
    ("c", "a", "b"),
    [
        ("int32_t", "int8_t", "int8_t"),
        ("int32_t", "uint8_t", "uint8_t"),
        ("int32_t", "uint8_t", "int8_t"),
        ("int32_t", "int16_t", "int8_t"),
        ("int32_t", "int32_t", "int8_t"),
        ("int32_t", "int16_t", "int32_t"),
        ("double", "float", "float"),
    ],
)
def test_random_schedules(source: str, c: str, a: str, b: str, tmp_path: Path) -> None:
    rng = random.Random(f"{a} {b}")
    path = tmp_path / "f.c"
    path.write_text(source.format(c=c, a=a, b=b, cast="(double)" if c == "double" else ""))
    loaded = load(path)
    (scop,) = loaded.scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    libraries: list[tuple[ctypes.CDLL, NestLoops]] = []
    refused = 0
    while len(libraries) < 4:
        try:
            structure = drawn(nest, rng, {a, b} <= {"int8_t", "uint8_t"})
        except InputError:
            refused += 1
            assert refused < 500
            continue
        out = tmp_path / f"v{len(libraries)}.c"
        out.write_text(splice(loaded.source, [(scop, generate(scop, program_tree([Ordered.nest(structure)])))], ""))
        flags = [
            "-Og",
            "-march=native",
            "-fwrapv",
            "-shared",
            "-fPIC",
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
        ]
        run_compiler(["cc", *flags, "-o", out.with_suffix(".so"), out])
        libraries.append((ctypes.CDLL(str(out.with_suffix(".so"))), structure))
    o, i, w = (
        np.asarray(np.random.default_rng(1).integers(*_range(t), shape, dtype=np.int64, endpoint=True), dtype=TYPES[t])
        for t, shape in zip((c, a, b), SHAPES[source], strict=True)
    )
    wanted = _computed(source, o, i, w)
    for library, structure in libraries:
        got = o.copy()
        library.f(*(ctypes.c_void_p(x.ctypes.data) for x in (got, i, w)))
        np.testing.assert_array_equal(got, wanted, str(structure.transforms))


def _range(name: str) -> tuple[int, int]:
    kind = TYPES[name]
    return (-4, 4) if name in ("float", "double", "int32_t") else (np.iinfo(kind).min, np.iinfo(kind).max)


def _computed(source: str, o: np.ndarray, i: np.ndarray, w: np.ndarray) -> np.ndarray:
    wide = i.astype(o.dtype), w.astype(o.dtype)
    if source is PRODUCT:
        return o + wide[0] @ wide[1]
    windows = np.lib.stride_tricks.sliding_window_view(wide[0], (4, 4), axis=(0, 1))  # y, x, k, r, s
    return o + np.einsum("yxkrs,rsko->yxo", windows, wide[1])


@pytest.mark.parametrize("operands", ["int8_t", "uint8_t", "int16_t"])
def test_packed_ahead(operands: str, tmp_path: Path) -> None:
    """Runs with a copy, with one that was brought up to date, and without one give the same."""
    path, out = tmp_path / "f.c", tmp_path / "out.c"
    text = PRODUCT.format(c="int32_t", a=operands, b=operands, cast="")
    for small, large in (("13", "60"), ("21", "70"), ("23", "51")):
        text = text.replace(f"[{small}]", f"[{large}]").replace(f"restrict {small}]", f"restrict {large}]")
        text = text.replace(f"< {small};", f"< {large};")
    path.write_text(text)
    pipeline.optimize(path, out, run=False, prepack=("W",), machine="epyc-zen4", threads=2)
    flags = [
        "-Og",
        "-fstrict-aliasing",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-psabi",
        "-march=native",
        "-fopenmp",
        "-shared",
        "-fPIC",
    ]
    run_compiler(["cc", *flags, "-o", tmp_path / "out.so", out])
    library = ctypes.CDLL(str(tmp_path / "out.so"))
    memory = np.zeros(library.f_pack_bytes(), np.uint8)
    rng = np.random.default_rng(3)
    i = rng.integers(*_range(operands), (60, 51), endpoint=True).astype(TYPES[operands])
    w = np.empty((51, 70), dtype=TYPES[operands])
    for number in range(3):
        w[...] = rng.integers(*_range(operands), w.shape, endpoint=True)
        o = np.zeros((60, 70), dtype=np.int32)
        if number:
            library.f_pack(*(ctypes.c_void_p(x.ctypes.data) for x in (w, memory)))
            library.f_packed(*(ctypes.c_void_p(x.ctypes.data) for x in (o, i, w, memory)))
        else:
            library.f(*(ctypes.c_void_p(x.ctypes.data) for x in (o, i, w)))
        np.testing.assert_array_equal(o, i.astype(np.int32) @ w.astype(np.int32))


def test_operands_without_a_copy_are_said(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(PRODUCT.format(c="int32_t", a="int8_t", b="int8_t", cast=""))
    with pytest.raises(InputError, match="A is not of the type of the sum") as caught:
        pipeline.optimize(path, tmp_path / "out.c", run=False, loops="ab", blocks="mk=5x16:c;pack=B")
    assert caught.value.hint == "add Pack(A, …), or pack=A to --blocks"


def test_they_are_proved(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(PRODUCT.format(c="int32_t", a="int8_t", b="int8_t", cast=""))
    done = pipeline.optimize(
        path, tmp_path / "out.c", run=False, prove=True, loops="ab", blocks="mk=5x16:c;pack=B,A", machine="epyc-zen4"
    )
    assert done.output is not None
    (scop,) = done.scops
    assert not scop.illegal
    (proof,) = scop.proofs.values()
    assert proof.holds
