"""Neighbours share loops where dependences bind them, results stay the same, and nothing depends on spelling."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import load, rank, with_fused
from polydl.schedule.tree import bands
from polydl.search.variant import Variant
from tests.oracle.native import QUICK_NATIVE, compile_c

ATTENTION = (Path(__file__).parents[2] / "experiments" / "kernels" / "attention.c").read_text(encoding="utf-8")
HEADERS = Path(polydl.__file__).parent / "include"
OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def merged(folder: Path, text: str, defines: Mapping[str, int | str]) -> list[Variant]:
    """The variants with shared loops, best first."""
    file = folder / "program.c"
    file.write_text(text, encoding="utf-8")
    (scop,) = load(file, OPTIONS, defines=defines).scops
    found = with_fused(rank(scop, options=OPTIONS), OPTIONS).variants
    return [variant for variant in found if any(part.merge is not None for part in variant.parts)]


def functions(variant: Variant, name: str, defines: Mapping[str, int | str]) -> ctypes.CDLL:
    source = variant.program.source
    after = splice(source, [(variant.program, variant.generated)], "")
    given = "".join(f"#define {key} {value}\n" for key, value in defines.items())
    texts = [
        given + re.sub(rf"\b{name}\(", f"{new}(", text) for new, text in (("before", source.text), ("after", after))
    ]
    return compile_c(texts, (*QUICK_NATIVE, "-w", f"-I{HEADERS}"))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray | None) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * scale
        scores = scores if mask is None else scores + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(scores / scores.sum(-1, keepdims=True) @ v.astype(np.float64))


@pytest.mark.parametrize(
    ("heads", "length", "depth", "mask", "large"),
    [(4, 77, 24, False, 1.0), (2, 33, 16, True, 1.0), (3, 129, 32, False, 1e4)],
)
def test_attention(tmp_path: Path, heads: int, length: int, depth: int, mask: bool, large: float) -> None:
    """Of any length, with masked rows and with logits that overflow without their maximum."""
    scale = 1 / math.sqrt(depth)
    defines: dict[str, int | str] = {"HEADS": heads, "S": length, "D": depth, "SCALE": f"{scale!r}f"}
    defines |= {"MASK": 1} if mask else {}
    found = merged(tmp_path, ATTENTION, defines)
    assert found and "polydl_part_p[" in found[0].generated.region
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((heads, length, depth)).astype(np.float32) for _ in range(3))
    q *= large
    additive = np.where(rng.random((length, length)) < 0.3, -np.inf, 0).astype(np.float32)
    additive[1], additive[:, 0] = -np.inf, np.where(np.arange(length) == 1, -np.inf, 0)
    given = [q, k, v, *([additive] if mask else [])]
    code = functions(found[0], "attention", defines)
    results = []
    for name in ("before", "after"):
        out = np.zeros_like(q)
        getattr(code, name)(*(one.ctypes.data_as(ctypes.c_void_p) for one in (*given, out)))
        results.append(out)
    exact = attention(q, k, v, scale, additive if mask else None)
    rows = np.isfinite(exact).all(-1)
    assert (np.isnan(results[1]) == np.isnan(results[0])).all() and (~rows).sum() == (heads if mask else 0)
    # Products of 1e4 are rounded to about 1e-3 before they are exponents.
    assert np.abs(results[1] - exact)[rows].max() < (1e-5 if large == 1 else 2e-2)


def as_bf16(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16 of floats, even ones in the middle between two."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def of_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize(
    ("heads", "queries", "length", "kind"),
    [
        (2, 513, 513, "CAUSAL"),
        (3, 20, 33, "CAUSAL"),
        (8, 33, 77, "GROUP"),
        (8, 1, 65, "GROUP"),
        (4, 77, 77, "LENGTHS"),
        (4, 33, 33, "BF16"),
        (2, 1, 33, "BF16"),
    ],
)
def test_kinds_of_attention(tmp_path: Path, heads: int, queries: int, length: int, kind: str) -> None:
    """The best variant, and the best one that shares loops, of attention that is causal, of grouped heads, of fewer
    queries than keys, with a number of keys for each head, and of bfloat16."""
    depth, group = 16, 4 if kind == "GROUP" else 1
    defines: dict[str, int | str] = {"HEADS": heads, "S": length, "T": queries, "D": depth, "SCALE": "0.25f"}
    defines |= {kind: group}
    file = tmp_path / "program.c"
    file.write_text(ATTENTION, encoding="utf-8")
    (scop,) = load(file, OPTIONS, defines=defines).scops
    ranked = with_fused(rank(scop, options=OPTIONS), OPTIONS).variants
    shared = [variant for variant in ranked if any(part.merge is not None for part in variant.parts)]
    rng = np.random.default_rng(length)
    q, k, v = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((heads, queries, depth), *2 * [(heads // group, length, depth)])
    )
    lengths = rng.integers(1, length + 1, heads, dtype=np.int32)
    seen = np.ones((heads, queries, length), bool)
    if kind == "CAUSAL":
        seen[:] = np.arange(length) <= np.arange(queries)[:, None] + length - queries
    if kind == "LENGTHS":
        seen[:] = np.arange(length) < lengths[:, None, None]
    given = [q, k, v]
    if kind == "BF16":
        given = [as_bf16(one) for one in given]
        q, k, v = (of_bf16(one) for one in given)
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    exact = attention(q, k, v, 0.25, np.where(seen, 0, -np.inf))
    for variant in {one.id: one for one in (ranked[0], *shared[:2])}.values():
        code, out = functions(variant, "attention", defines), np.zeros_like(given[0])
        arrays = (*given, *([lengths] if kind == "LENGTHS" else []), out)
        code.after(*(one.ctypes.data_as(ctypes.c_void_p) for one in arrays))
        found = of_bf16(out) if kind == "BF16" else out
        assert np.abs(found - exact).max() < (3e-2 if kind == "BF16" else 1e-5), variant.loops


CHAIN = """void f(float A[restrict M][20], float B[restrict 20][36], float C[restrict 36][24], float Y[restrict M][24])
{
    static float P[M][36];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 36; j++) {
            P[i][j] = 1;
            for (int k = 0; k < 20; k++)
                P[i][j] += A[i][k] * B[k][j];
            P[i][j] = P[i][j] > 0 ? P[i][j] : 0;
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 24; j++) {
            Y[i][j] = 0;
            for (int k = 0; k < 36; k++)
                Y[i][j] += P[READ][k] * C[k][j];
        }
}
"""


@pytest.mark.parametrize("rows", [64, 100, 33])
def test_layers(tmp_path: Path, rows: int) -> None:
    """Integers: exact, whatever the order."""
    defines: dict[str, int | str] = {"M": rows, "READ": "i"}
    found = merged(tmp_path, CHAIN, defines)
    rng = np.random.default_rng(rows)
    shapes = ((rows, 20), (20, 36), (36, 24))
    given = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    for variant in found:
        code = functions(variant, "f", defines)
        results = []
        for name in ("before", "after"):
            out = np.zeros((rows, 24), np.float32)
            getattr(code, name)(*(one.ctypes.data_as(ctypes.c_void_p) for one in (*given, out)))
            results.append(out)
        assert results[0].tobytes() == results[1].tobytes(), variant.loops
    assert found or rows == 33


def test_what_reads_other_rows_is_not_merged(tmp_path: Path) -> None:
    assert merged(tmp_path, CHAIN, {"M": 64, "READ": "(M - 1 - i)"}) == []


def test_the_same_each_time(tmp_path: Path) -> None:
    def made() -> Sequence[tuple[str, str]]:
        return [(v.id, v.generated.region) for v in merged(tmp_path, CHAIN, {"M": 64, "READ": "i"})]

    assert made() == made() != []


def test_tiles_of_a_region_are_in_nobodys_way(tmp_path: Path) -> None:
    """The best schedule of the softmax by itself has loops over tiles; with loops as they are written it is shared."""
    defines: dict[str, int | str] = {"HEADS": 16, "S": 512, "D": 64, "SCALE": "0.125f", "MASK": 1}
    found = merged(tmp_path, ATTENTION, defines)
    assert found and all(part.merge is not None for part in found[0].parts if part.name in ("S1", "S3", "S11"))
    region = next(part for part in found[0].parts if part.name == "S3")
    assert region.merge is not None and region.rows is not None
    tiles = {member.tile for band in bands(region.tree) for member in band.members}
    assert tiles <= {1, *region.merge.sizes}, "only those of the loops that are shared"
