"""Reductions of tests/everyday in parts and in rows: the bits of the loops as they are written, on one to three
threads, at sizes that no vector divides, with numbers that are none and zeros of both signs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from polydl import load
from polydl.options import Options
from polydl.pipeline import rank, with_fused
from polydl.rewrite import partial_results
from polydl.search.proofs import proof_of
from tests.efforts import LEAST
from tests.everyday.programs import PROGRAMS
from tests.oracle.native import QUICK_NATIVE
from tests.programs.corpus import Argument, Entry
from tests.rewrite.executing import compiled

SIZES = {"N": 1003, "n": 1003, "M": 21, "rows": 21, "columns": 1003, "K": 5}
SMALL = {"largest_below_diagonal": {"N": 43}, "max_plus_product": {"M": 9, "N": 71, "K": 37}}
NAMES = (
    "range_of_bytes", "last_peak", "column_peaks", "common_flags", "flags_of_all", "parity", "largest_below_diagonal",
    "smallest_from_end", "peak_through_pointers", "masked_peak", "bounding_box", "row_scales", "smallest_pair",
    "column_argmax", "max_plus_product", "largest_change", "sensor_summary", "argmax_numbers",
    "row_argmax_first", "best_two", "least_two_rows",
)  # fmt: skip
PLACES = (
    "last_peak",
    "smallest_pair",
    "column_argmax",
    "masked_peak",
    "argmax_numbers",
    "row_argmax_first",
    "best_two",
    "least_two_rows",
)
"""Rows that look for a place again, or under a condition for the first of equal zeros, are not proved."""
ONE_THREAD = ("best_two",)
"""In vectors; the best two of parts are not put together."""
FUNCTIONS = ("polydl_row", "polydl_mk", "polydl_best_two")
OPTIONS = Options(threads=2, space="small", machine="epyc-zen3", effort=LEAST)
ORIGINAL = ("-O1", "-ffp-contract=off", "-w")
GENERIC = tuple(flag for flag in QUICK_NATIVE if flag != "-march=native")
NATIVE = (
    *QUICK_NATIVE,
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
)
FLAGS = (NATIVE, (*NATIVE, "-mno-avx512f"), (*GENERIC, "-ffp-contract=off", "-w"))
TYPES = {
    "float": np.float32, "double": np.float64, "int": np.int32, "unsigned": np.uint32, "short": np.int16,
    "signed char": np.int8, "unsigned char": np.uint8, "long": np.int64,
}  # fmt: skip


def elements(entry: Entry, argument: Argument, sizes: Mapping[str, int]) -> int:
    extents = argument.extents or (entry.elements[argument.name],)
    return int(np.prod([eval(extent, {}, dict(sizes)) for extent in extents]))


def filled(ctype: str, count: int, special: bool, generator: np.random.Generator) -> np.ndarray:
    """Few different values, or all that the type has; `special`: of floats with NaN, and with no number but zeros above
    or below the others."""
    dtype = np.dtype(TYPES[ctype])
    if dtype.kind != "f":
        ends = np.iinfo(dtype)
        low, high = (ends.min, ends.max) if special else (max(ends.min, -3), 4)
        return generator.integers(low, high, count, dtype=dtype, endpoint=True)
    values = generator.integers(-3, 1 if special else 4, count).astype(dtype)
    if special:
        values[generator.random(count) < 0.3] *= -0.0
        values[generator.random(count) < 0.2] = np.nan
    return values


def called(library: ctypes.CDLL, entry: Entry, given: Mapping[str, np.ndarray | int]) -> list[np.ndarray]:
    copies = {name: one.copy() if isinstance(one, np.ndarray) else one for name, one in given.items()}
    getattr(library, entry.name)(
        *(ctypes.c_void_p(c.ctypes.data) if isinstance(c, np.ndarray) else ctypes.c_long(c) for c in copies.values())
    )
    return [one for one in copies.values() if isinstance(one, np.ndarray)]


# A scheduler that is stopped says so loudly: what is found without it is to be right all the same.
@pytest.mark.filterwarnings("ignore:.*was stopped after:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("LEAST", 1), ("PARTS", 8), ("MOST", 50), ("PIECE_CYCLES", 0)):
        monkeypatch.setattr(partial_results, limit, value)
    entry = PROGRAMS[name]
    sizes = {key: SIZES[key] for key in entry.bench} | SMALL.get(name, {})
    defines = entry.defines(sizes)
    options = OPTIONS.changed(defines=defines, sizes=entry.parameters(sizes))
    (scop,) = load(entry.path, options).scops
    found = with_fused(rank(scop, options=options), options)
    rows = [v for v in found.variants if any(one in v.region() for one in FUNCTIONS)][:1]
    shared = list(islice((v for v in found.variants if "omp parallel" in v.region()), 2))
    assert rows or name == "largest_change"
    assert bool(shared) == (name not in ONE_THREAD)
    head = "".join(f"#define {key} {value}\n" for key, value in defines.items())
    original = compiled(tmp_path, "original", [head + entry.text], ORIGINAL)
    ways = [(v, flags) for v in rows for flags in FLAGS] + [(v, NATIVE) for v in shared if v not in rows]
    built = [compiled(tmp_path, f"v{k}", [head + v.code()], flags) for k, (v, flags) in enumerate(ways)]
    generator = np.random.default_rng(7)
    for special in (False, True):
        given = {
            one.name: filled(one.ctype, elements(entry, one, sizes), special, generator)
            if one.is_array
            else sizes[one.name]
            for one in entry.arguments
        }
        want = called(original, entry, given)
        for threads in (1, 2, 3):
            ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
            for library in built:
                for one, other in zip(called(library, entry, given), want, strict=True):
                    assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), (threads, special)
                    # fmax takes any of two zeros, in C too.
                    if one.dtype.kind == "f" and "fmax" not in entry.text:
                        assert np.array_equal(np.signbit(one) & ~np.isnan(one), np.signbit(other) & ~np.isnan(other))
    if name not in PLACES and name != "largest_below_diagonal":  # whose loops are written out: that takes half a minute
        assert all(proof_of(found.program, variant, options).holds for variant in rows)


@pytest.mark.parametrize(
    "name", ["range_of_bytes", "last_peak", "column_peaks", "masked_peak", "peak_through_pointers", "smallest_pair"]
)
def test_in_vectors_on_all_threads_past_the_caches(name: str) -> None:
    entry = PROGRAMS[name]
    options = OPTIONS.changed(defines=entry.defines(entry.bench), sizes=entry.parameters(entry.bench))
    (scop,) = load(entry.path, options).scops
    best = with_fused(rank(scop, options=options), options).variants[0].region()
    assert "omp parallel" in best and "polydl_row" in best
