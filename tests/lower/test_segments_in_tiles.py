"""Sums over segments of blocks that are whole steps of tiles: read where they are, A by rows of tiles, B's words put
together for all of them; right for any pattern, at any size, in bits, and chosen where they win by the estimates."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base import resources
from tests.compiling import run_compiler
from tests.kernels.test_tiles import AMX, MACHINE, TARGETS
from tests.lower.test_narrow_segments import INCLUDE, STARTS, ZEN, Case, Data, bits, name
from tests.oracle.native import QUICK_NATIVE, compile_c
from tests.search.test_every_size import Guarded

pytestmark = [
    pytest.mark.few_sizes,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="vector code of x86 around the tiles"),
]

TILES = [
    Case("bf16", "bf16", 32, 32, "tile_bf16"),
    Case("bf16", "bf16", 16, 96, "tile_bf16", "-=", text=STARTS),
    Case("bf16", "bf16", 48, 64, "tile_bf16"),
    Case("int8", "int8", 16, 64, "tile_signed"),
    Case("uint8", "uint8", 32, 128, "tile_unsigned", "-="),
    Case("uint8", "int8", 64, 64, "tile_u8i8", text=STARTS),
    Case("int8", "uint8", 16, 192, "tile_i8u8"),
]
BLOCKS = [
    Case("bf16", "bf16", 8, 8, "mmla_bf16"),
    Case("bf16", "bf16", 18, 4, "mmla_bf16", text=STARTS),
    Case("int8", "int8", 6, 16, "mmla_signed", "-="),
    Case("uint8", "uint8", 32, 8, "mmla_unsigned"),
    Case("int8", "uint8", 10, 24, "mmla_i8u8"),
]
SIZES = {"n": 40, "k": 72}


def variants(case: Case, machine: str, *, threads: int = 2, k: int = SIZES["k"]) -> tuple[polydl.Variant, ...]:
    sizes = {**SIZES, "k": k}
    return tuple(polydl.rank(case.source, machine=machine, sizes=sizes, threads=threads, space="small").variants)


def code_of(case: Case, machine: str, threads: int = 2) -> str:
    """That of the first variant with such products."""
    scheme = case.product.partition("_")[0]
    found = next(v for v in variants(case, machine, threads=threads) if f"product={scheme}" in str(v.recipe))
    code = found.code()
    assert re.search(rf"polydl_mk_{case.product}_\w+\(\w[^;{{]*, ", code), "another product was chosen"
    return code


def beside_pages(case: Case, data: Data, library: ctypes.CDLL) -> np.ndarray:
    """The result, of arrays that end where memory does."""
    val, x = (bits(data.val), bits(data.x)) if case.bf16 else (data.val, data.x)
    memory, rng, arrays = Guarded(), np.random.default_rng(0), []
    for array in (data.ptr, data.idx, val, x, data.y):
        arrays.append(memory.array(array.shape, array.dtype.type, rng))
        arrays[-1][...] = array
    library.f(data.y.shape[0], data.y.shape[2], *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    return arrays[-1]


@pytest.mark.parametrize("case", [*TILES, *BLOCKS], ids=name)
def test_products_are_right_for_any_pattern_at_any_size(case: Case) -> None:
    """Emulated, where there are no tiles, and with the real instructions where the system gives them, or the vector
    code behind them where it does not."""
    place = [*TILES, *BLOCKS].index(case)
    code = code_of(case, MACHINE if case in TILES else "graviton-3", threads=1 + place % 3)
    emulated = list(TARGETS)[place % 3]
    for flags in (TARGETS[emulated], TARGETS["no tiles"], AMX):
        if flags is AMX and (case in BLOCKS or " avx512bw " not in Path("/proc/cpuinfo").read_text()):
            continue
        library = compile_c([code], (*QUICK_NATIVE, "-Werror=all", "-Wno-psabi", INCLUDE, *flags))
        for n, k in [(13, 33), (0, 5), (1, 1), (40, 7), (3, 72), (7, 64), (40, 0)]:
            data = Data.of(case, n, k)
            assert np.array_equal(beside_pages(case, data, library), data.expected(case)), (flags, n, k)


@pytest.mark.parametrize("case", [TILES[0], BLOCKS[0]], ids=name)
def test_every_thread_is_in_tiles(case: Case) -> None:
    """No sum stays right where words are put together in another order."""
    code = code_of(case, MACHINE if case in TILES else "graviton-3", threads=3)
    wrong = code.replace("words[s][", "words[s ^ 1][")
    assert wrong != code
    library = compile_c([wrong], (*QUICK_NATIVE, "-Wno-psabi", INCLUDE, *TARGETS["emulated"]))
    data = Data.of(case, SIZES["n"], SIZES["k"])
    differ = (beside_pages(case, data, library) != data.expected(case)).any(axis=(1, 2))
    assert np.array_equal(differ, np.diff(data.ptr) > 0)


@pytest.mark.parametrize("case", [TILES[0], TILES[3]], ids=name)
def test_the_instructions_are_there(case: Case, tmp_path: Path) -> None:
    """In code for a core with tiles, which each thread configures once; and in no other."""
    (tmp_path / "f.c").write_text(code_of(case, MACHINE))

    def instructions(architecture: str) -> list[str]:
        flags = ["-O2", "-std=gnu11", "-fopenmp", f"-march={architecture}", f"-I{resources.headers()}"]
        run_compiler(["gcc", *flags, "-c", "f.c"], tmp_path)
        text = subprocess.run(["objdump", "-d", "f.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        return re.findall(r"\t(tdp\w+|tile\w+|ldtilecfg)\b", text)

    real = instructions("sapphirerapids")
    assert {"tdpbf16ps" if case.bf16 else "tdpbssd", "tileloadd", "tilestored", "tilezero", "tilerelease"} < set(real)
    assert real.count("ldtilecfg") == 2  # by the thread that calls, and by each in the parallel loop
    assert not instructions("cascadelake")


@pytest.mark.parametrize(
    ("rows", "depth", "k", "tiles"),
    [(32, 32, 256, True), (16, 32, 256, True), (32, 32, 1, False), (32, 16, 256, False), (8, 32, 256, False)],
)
def test_tiles_are_first_where_they_win(rows: int, depth: int, k: int, tiles: bool) -> None:
    """By the estimates: not where most columns of a tile are none. Not of blocks with less than a step, or with rows
    that are no whole tiles, since nothing is copied. Never on a machine without them."""
    case = Case("bf16", "bf16", rows, depth, "")
    found = variants(case, MACHINE, k=k)
    assert ("product=tile" in str(found[0].recipe)) == tiles
    assert any("product=tile" in str(v.recipe) for v in found) <= (depth % 32 == 0 and rows % 16 == 0)
    assert not any("product=tile" in str(v.recipe) for v in variants(case, ZEN, k=k))
