"""Rows that tables lead to are fetched ahead, and no table is read where the program does not read it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

import polydl
from polydl.model.segment_ends import LARGE_BYTES
from tests.oracle.native import NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

GUARDED = """
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>
/* Memory in front of a page that nobody may read. */
void *guarded(long bytes)
{
    const long page = sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    char *p = mmap(0, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED || mprotect(p + inside, page, PROT_NONE) ? 0 : p + inside - bytes;
}
"""
HEAD = """
#include <math.h>
void f(int n, int k, const int *restrict ptr, const int *restrict idx, const float (*restrict a)[k],
       const float (*restrict b)[k], float *restrict out)
{
"""
PRODUCTS = (
    HEAD
    + """
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            float sum = 0;
            for (int c = 0; c < k; c++)
                sum += a[i][c] * b[idx[p]][c];
            out[p] = sum;
        }
}
"""
)
NEAREST = (
    HEAD
    + """
    for (int i = 0; i < n; i++) {
        float least = 1e9f;
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            float sum = 0;
            for (int c = 0; c < k; c++)
                sum += fabsf(a[i][c] - b[idx[p]][c]);
            least = sum < least ? sum : least;
        }
        out[i] = least;
    }
}
"""
)
EVERY_SECOND = NEAREST.replace("i++", "i += 2")
K = 33
PATTERNS = [[3, 0, 5, 1, 0, 0, 17], [1], [0, 2] * 60, [1] * 30 + [40] + [0] * 9, [16] * 20, [0, 0], [9, 0]]


def products(ptr: np.ndarray, idx: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    row = np.repeat(np.arange(len(a)), np.diff(ptr))
    return (a[row] * b[idx]).sum(1, dtype=np.float32)


def nearest(ptr: np.ndarray, idx: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = [min([1e9, *(np.abs(a[i] - b[q]).sum() for q in idx[ptr[i] : ptr[i + 1]])]) for i in range(len(a))]
    return np.array(found, np.float32)


def of_every_second(ptr: np.ndarray, idx: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = nearest(ptr, idx, a, b)
    found[1::2] = -1
    return found


CASES: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "products": (PRODUCTS, products), "nearest": (NEAREST, nearest), "every second": (EVERY_SECOND, of_every_second),
}  # fmt: skip


@cache
def guarded(shape: tuple[int, ...], kind: type) -> np.ndarray:
    """An array that ends where nothing may be read."""
    library = compile_c([GUARDED], NATIVE)
    library.guarded.restype = ctypes.c_void_p
    bytes_ = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory = (ctypes.c_char * bytes_).from_address(library.guarded(ctypes.c_long(bytes_)))
    return np.frombuffer(memory, kind).reshape(shape)


def run(library: ctypes.CDLL, lengths: Sequence[int], expected: Callable[..., np.ndarray]) -> None:
    rng, n, entries = np.random.default_rng(len(lengths)), len(lengths), sum(lengths)
    ptr, idx, a, b = (
        guarded((n + 1,), np.int32), guarded((entries,), np.int32), guarded((n, K), np.float32),
        guarded((7, K), np.float32),
    )  # fmt: skip
    ptr[:] = np.cumsum([0, *lengths])
    idx[:] = rng.integers(0, 7, entries)
    a[:], b[:] = rng.integers(-4, 5, a.shape), rng.integers(-4, 5, b.shape)
    wanted = expected(ptr, idx, a, b)
    out = np.full_like(wanted, -1)
    library.f(n, K, *(x.ctypes.data_as(ctypes.c_void_p) for x in (ptr, idx, a, b, out)))
    assert np.array_equal(out, wanted), lengths


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_fetched_and_nothing_is_read_behind_tables(name: str, threads: int) -> None:
    text, expected = CASES[name]
    made = polydl.optimize(text, run=False, sizes={"n": 40, "k": K}, threads=threads)
    (scop,) = made.scops
    code = next(v.code() for v in scop.ranking.variants if ("Parallelize(" in str(v.recipe)) == (threads > 1))
    for each in (made.text, code):
        assert "__builtin_prefetch(&b[idx[" in each or (each is not code and threads == 1)
        library = compile_c([each], (*NATIVE, "-Werror=all"))
        for lengths in PATTERNS:
            if sum(lengths):
                run(library, lengths, expected)


def region(text: str, **sizes: int) -> str:
    (scop,) = polydl.load(text, sizes=sizes).scops
    return polydl.rank(scop, space="small", threads=1).variants[0].region()


@pytest.mark.parametrize("rows", [100, LARGE_BYTES // 256 + 1])
def test_rows_are_fetched_where_they_are_far(rows: int) -> None:
    sized = PRODUCTS.replace("const float (*restrict b)[k]", f"const float b[restrict {rows}][k]")
    assert ("__builtin_prefetch" in region(sized, n=40, k=64)) == (rows > 100)


def test_tables_are_read_to_the_end_of_consecutive_rows() -> None:
    assert "polydl_ahead = 32;\n" in region(PRODUCTS, n=40, k=64)
    assert "polydl_end = 40;" in region(PRODUCTS, n=40, k=64)
    assert re.search(r"polydl_end = (2 \* )?c\d", region(EVERY_SECOND, n=40, k=64))


OTHERS = {
    "ends early": "if (a[i][0] > idx[p]) break; for (int c = 0; c < k; c++) out[i] += b[idx[p]][c];",
    "perhaps": "if (a[i][0] > idx[p]) for (int c = 0; c < k; c++) out[i] += b[idx[p]][c];",
    "perhaps an element": "for (int c = 0; c < k; c++) out[i] += c > p ? b[idx[p]][c] : 0;",
    "no neighbours": "for (int c = 0; c < k; c++) out[i] += b[idx[p]][2 * c];",
    "a row that follows": "for (int c = 0; c < k; c++) out[i] += sqrtf(b[p][c]);",
    "as many as an entry says": "for (int c = 0; c < idx[p]; c++) out[i] += b[idx[p]][c];",
    "another row": "int q = idx[p] + 1; for (int c = 0; c < k; c++) out[i] += sqrtf(b[idx[q]][c]);",
}


@pytest.mark.parametrize("why", OTHERS)
def test_other_rows_are_not_fetched(why: str) -> None:
    text = HEAD + f"for (int i = 0; i < n; i++) for (int p = ptr[i]; p < ptr[i + 1]; p++) {{ {OTHERS[why]} }} }}"
    (scop,) = polydl.load(text, sizes={"n": 40, "k": 64}).scops
    assert not any(getattr(s.body, "ahead", "") for s in scop.statements)
