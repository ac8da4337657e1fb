"""A sparse matrix times a vector, and other sums over segments in vectors: right for any pattern, and shared out by
entries."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

import polydl
from polydl.base import resources
from polydl.base.errors import InputError
from polydl.dependences.nests import nests
from polydl.kernels.segment_sum import MOST_ROWS, SumFactor, segment_function, shares_function
from polydl.model.types import F32, F64, I8, I16, I32, I64, U8, ElementType
from polydl.schedule.loops import apply
from polydl.schedule.transforms.parallelize import Parallelize
from tests.oracle.native import QUICK_NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

FLAGS = (*QUICK_NATIVE, "-Werror=all")
INCLUDE = f"-I{resources.headers()}"
MACHINES = ("-march=native", "-march=x86-64-v3", "-march=x86-64")
HEAD = """
void f(int n, const {i} *restrict ptr, const {i} *restrict idx, const {t} *restrict val, const {t} *restrict x, {t} a,
       {t} *restrict y)
{{
    for (int i = 0; i < n; i++) {{
        {body}
    }}
}}
"""


@dataclass(frozen=True)
class Data:
    """A pattern, and operands of small integers."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray
    x: np.ndarray
    y: np.ndarray

    @staticmethod
    def of(lengths: list[int], t: ElementType, i: ElementType) -> Data:
        rng = np.random.default_rng(len(lengths))
        ptr = np.cumsum([0, *lengths]).astype(i.numpy)

        def numbers(many: int) -> np.ndarray:
            return rng.integers(-3, 4, many).astype(t.numpy)

        entries = int(ptr[-1])
        idx = rng.integers(0, 19, entries).astype(i.numpy)
        return Data(ptr, idx, numbers(entries), numbers(19), numbers(len(lengths)))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Of each row."""
        before = np.concatenate([[0], np.cumsum(values.astype(np.float64))])
        found: np.ndarray = before[self.ptr[1:]] - before[self.ptr[:-1]]
        return found

    def run(self, library: ctypes.CDLL, t: ElementType) -> np.ndarray:
        out = self.y.copy()
        arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (self.ptr, self.idx, self.val, self.x)]
        scalar = ctypes.c_float(2) if t is F32 else ctypes.c_double(2)
        library.f(len(self.ptr) - 1, *arrays, scalar, out.ctypes.data_as(ctypes.c_void_p))
        return out


PATTERNS = [
    [],
    [0],
    [1],
    [7, 0, 8, 9, 16, 0, 0, 17, 31, 200],
    [0] * 30,
    [3, 0] * 200,
    list(range(71)),
    [0] * 50 + [60_000] + [30] * 1000 + [30_000],  # one row with half of all entries
]


def product(d: Data) -> np.ndarray:
    return d.sums(d.val * d.x[d.idx])


ROW = "for ({i} p = ptr[i]; p < ptr[i + 1]; p++)"
CASES: dict[str, tuple[str, Callable[[Data], np.ndarray]]] = {
    "a scalar": (f"{{t}} s = 0; {ROW} s += val[p] * x[idx[p]]; y[i] = s;", product),
    "the element": (f"{ROW} y[i] -= x[idx[p]] * val[p];", lambda d: d.y - product(d)),
    "names": (
        """const {i} begin = ptr[i], end = ptr[i + 1]; {t} s = y[i]; {i} p;
        for (p = begin; p < end; ++p) {{ const {t} v = val[p]; const {i} at = idx[p]; s += v * x[at]; }} y[i] = s;""",
        lambda d: d.y + product(d),
    ),
    "what follows": (
        f"{{t}} s = 0; {ROW} s += val[p] * x[idx[p]]; y[i] = s > 0 ? s : a * y[i];",
        lambda d: np.where(product(d) > 0, product(d), 2 * d.y),
    ),
    "neighbours": (
        f"{{t}} s = 0; {ROW} s += x[idx[p]]; y[i] = a * s;",
        lambda d: 2 * d.sums(d.x[d.idx]),
    ),
    "a factor": (f"{ROW} y[i] += a * val[p] * x[idx[p]];", lambda d: d.y + 2 * product(d)),
    "entries": (f"{ROW} y[i] += val[p];", lambda d: d.y + d.sums(d.val)),
    "both": (
        f"{{t}} s = 0, r = 0; {ROW} s += val[p] * x[idx[p]]; {ROW} r += val[p]; y[i] = s - r;",
        lambda d: product(d) - d.sums(d.val),
    ),
}  # fmt: skip


def made(name: str, t: ElementType, i: ElementType, threads: int) -> polydl.Optimized:
    body = CASES[name][0].format(t=t, i=i)
    text = HEAD.format(t=t, i=i, body=body)
    return polydl.optimize(text, run=False, sizes={"n": 1000}, threads=threads)


TYPES = [(F32, I32, 2), (F64, I64, 1), (F64, I32, 3), (F32, I64, 2)]


@pytest.mark.parametrize(
    ("name", "t", "i", "threads"),
    [(name, *TYPES[at % 4]) for at, name in enumerate(CASES)] + [("a scalar", *kinds) for kinds in TYPES[1:]],
    ids=str,
)
def test_sums_are_right_for_any_pattern(name: str, t: ElementType, i: ElementType, threads: int) -> None:
    text = made(name, t, i, threads).text
    assert re.search(r"= polydl_entries_f\d\d_", text)
    assert ("polydl_shares_" in text) == (threads > 1)
    for machine in MACHINES if threads == 2 else MACHINES[:1]:
        library = compile_c([text], (*FLAGS, machine))
        for lengths in PATTERNS:
            data = Data.of(lengths, t, i)
            assert np.array_equal(data.run(library, t), CASES[name][1](data)), lengths[:12]


def test_rows_without_entries_leave_negative_zeros() -> None:
    body = "float s = y[i]; for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * x[idx[p]]; y[i] = s;"
    text = polydl.optimize(HEAD.format(t="float", i="int", body=body), run=False, sizes={"n": 1000}, threads=2).text
    data = Data.of([0, 3, 0, 70, 0], F32, I32)
    data.y[:] = -0.0
    out = data.run(compile_c([text], (*FLAGS, MACHINES[0])), F32)
    assert np.signbit(out[[0, 2, 4]]).all() and np.array_equal(out, product(data))


@pytest.mark.parametrize("machine", ["epyc-zen4", "epyc-zen3"])
@pytest.mark.parametrize(
    ("name", "fetched"), [("a scalar", {"x0", "x1_table"}), ("neighbours", {"x0_table"}), ("entries", set())]
)
def test_entries_are_fetched_ahead_where_tables_are_read(machine: str, name: str, fetched: set[str]) -> None:
    source = HEAD.format(t="float", i="int", body=CASES[name][0].format(t="float", i="int"))
    text = polydl.optimize(source, run=False, sizes={"n": 1000}, machine=machine).text
    assert set(re.findall(r"__builtin_prefetch\((\w+) \+ p \+ \d+\)", text)) == fetched


BLOCKS = """
void f(int n, const int *restrict ptr, const int *restrict idx, const {t} (*restrict val)[{rows}][{depth}],
       const {t} (*restrict x)[{depth}], {t} (*restrict y)[{rows}])
{{
    for (int i = 0; i < n; i++)
        {loops}
}}
"""
WRITTEN = {
    "as it comes": """for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < {rows}; r++)
                for (int c = 0; c < {depth}; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];""",
    "an element at a time": """for (int r = 0; r < {rows}; r++) {{
            {t} s = y[i][r];
            for (int p = ptr[i]; p < ptr[i + 1]; p++)
                for (int c = 0; c < {depth}; c++)
                    s += x[idx[p]][c] * val[p][r][c];
            y[i][r] = s;
        }}""",
}


@pytest.mark.parametrize(
    ("rows", "depth", "t", "how"),
    [
        (8, 8, F32, "as it comes"),
        (4, 4, F64, "an element at a time"),
        (3, 12, F32, "an element at a time"),
        (2, 32, F32, "as it comes"),
        (5, 24, F64, "as it comes"),
        (20, 16, F32, "an element at a time"),
        (32, 32, F32, "as it comes"),
        (9, 4, F32, "as it comes"),
        (70, 4, F32, "as it comes"),  # more rows than are added up together
        (3, 5, F32, "as it comes"),  # stays a loop
    ],
)
def test_blocks_times_a_vector(rows: int, depth: int, t: ElementType, how: str) -> None:
    names = {"t": t.c, "rows": rows, "depth": depth}
    source = BLOCKS.format(loops=WRITTEN[how].format(**names), **names)
    text = polydl.optimize(source, run=False, sizes={"n": 1000}, threads=1 + rows % 3).text
    assert bool(re.search(r"polydl_entries_f\d\d_", text)) == (depth % 4 == 0)
    if rows % 3:  # on one thread rows may stay outside
        assert (f"polydl_sums_p_of[{rows}];" in text) == (depth % 4 == 0 and rows <= MOST_ROWS)
    for machine in MACHINES:
        library = compile_c([text], (*FLAGS, machine))
        for lengths in PATTERNS:
            data, rng = Data.of(lengths, t, I32), np.random.default_rng(rows)
            val, x, y = (
                rng.integers(-3, 4, shape).astype(t.numpy)
                for shape in ((len(data.idx), rows, depth), (19, depth), (len(lengths), rows))
            )
            products = np.einsum("prc,pc->pr", val.astype(np.float64), x[data.idx])
            before = np.concatenate([np.zeros((1, rows)), np.cumsum(products, 0)])
            wanted = y + before[data.ptr[1:]] - before[data.ptr[:-1]]
            arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (data.ptr, data.idx, val, x, y)]
            library.f(len(lengths), *arrays)
            assert np.array_equal(y, wanted), (machine, lengths[:12])


NARROW = """
#include <polydl.h>
void f(int n, const int *restrict ptr, const int *restrict idx, const polydl_bf16 (*restrict val)[{rows}][{depth}],
       const polydl_bf16 (*restrict x)[{depth}], float (*restrict y)[{rows}])
{{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < {rows}; r++)
                for (int c = 0; c < {depth}; c++)
                    y[i][r] += polydl_to_float(val[p][r][c]) * polydl_to_float(x[idx[p]][c]);
}}
"""


@pytest.mark.parametrize(("rows", "depth"), [(1, 8), (8, 8), (5, 12), (32, 32)])
def test_blocks_of_bf16_times_a_vector(rows: int, depth: int) -> None:
    source = NARROW.format(rows=rows, depth=depth)
    text = polydl.optimize(source, run=False, sizes={"n": 1000}, threads=2).text
    assert "polydl_entries_f32_" in text
    assert ("polydl_sums_p_of[" in text) == (rows > 1)
    for machine in MACHINES:
        library = compile_c([text], (*FLAGS, INCLUDE, machine))
        for lengths in PATTERNS[:-1]:
            data, rng = Data.of(lengths, F32, I32), np.random.default_rng(rows)
            val, x, y = (
                rng.integers(-3, 4, shape).astype(np.float32)
                for shape in ((len(data.idx), rows, depth), (19, depth), (len(lengths), rows))
            )
            products = np.einsum("prc,pc->pr", val.astype(np.float64), x[data.idx])
            before = np.concatenate([np.zeros((1, rows)), np.cumsum(products, 0)])
            wanted = y + before[data.ptr[1:]] - before[data.ptr[:-1]]
            halves = [(each.view(np.uint32) >> 16).astype(np.uint16) for each in (val, x)]
            arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (data.ptr, data.idx, *halves, y)]
            library.f(len(lengths), *arrays)
            assert np.array_equal(y, wanted), (machine, lengths[:12])


INTEGERS = """
void f(int n, const int *restrict ptr, const int *restrict idx, const {left} (*restrict val)[{rows}][{depth}],
       const {right} (*restrict x)[{depth}], int (*restrict y)[{rows}])
{{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < {rows}; r++)
                for (int c = 0; c < {depth}; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];
}}
"""


def whole(rng: np.random.Generator, t: ElementType, *shape: int) -> np.ndarray:
    """Any numbers of a type, the least and the largest among them."""
    info = np.iinfo(t.numpy)
    found = rng.integers(info.min, info.max + 1, shape).astype(t.numpy)
    return np.where(rng.random(shape) < 0.1, rng.choice([info.min, info.max], shape), found).astype(t.numpy)


@pytest.mark.parametrize(
    ("rows", "depth", "left", "right"),
    [(8, 8, I8, I8), (5, 12, I8, U8), (4, 4, U8, I8), (32, 32, I8, I8), (3, 16, I16, U8), (17, 64, U8, U8)],
)
def test_blocks_of_integers_times_a_vector(rows: int, depth: int, left: ElementType, right: ElementType) -> None:
    source = INTEGERS.format(rows=rows, depth=depth, left=left.c, right=right.c)
    text = polydl.optimize(source, run=False, sizes={"n": 1000}, threads=2).text
    assert f"polydl_sums_p_of[{rows}];" in text
    for machine in MACHINES:
        library = compile_c([text], (*FLAGS, machine))
        for lengths in PATTERNS[:-1]:
            data, rng = Data.of(lengths, F32, I32), np.random.default_rng(rows)
            val, x = whole(rng, left, len(data.idx), rows, depth), whole(rng, right, 19, depth)
            y = rng.integers(-3, 4, (len(lengths), rows)).astype(np.int32)
            products = np.einsum("prc,pc->pr", val.astype(np.int64), x[data.idx].astype(np.int64))
            before = np.concatenate([np.zeros((1, rows), np.int64), np.cumsum(products, 0)])
            wanted = y + before[data.ptr[1:]] - before[data.ptr[:-1]]
            arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (data.ptr, data.idx, val, x, y)]
            library.f(len(lengths), *arrays)
            assert np.array_equal(y, wanted.astype(np.int32)), (machine, lengths[:12])


@pytest.mark.parametrize(("depth", "narrow"), [(5, I8), (8, I32)])
def test_other_blocks_of_integers_stay_loops(depth: int, narrow: ElementType) -> None:
    source = INTEGERS.format(rows=4, depth=depth, left=narrow.c, right=narrow.c)
    assert "polydl_sums_" not in polydl.optimize(source, run=False, sizes={"n": 1000}).text


WRITES = """
void f(int n, const int *restrict ptr, const int *restrict idx, const float (*restrict val)[4][8],
       float (*restrict x)[8], float (*restrict y)[4])
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 4; r++) {
            for (int p = ptr[i]; p < ptr[i + 1]; p++)
                for (int c = 0; c < 8; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];
            x[i][r] = i - r;
        }
}
"""


def test_rows_that_change_what_others_read_are_added_up_one_by_one() -> None:
    text = polydl.optimize(WRITES, run=False, sizes={"n": 1000}).text
    assert "polydl_sums_" not in text
    library, rng = compile_c([text], FLAGS), np.random.default_rng(3)
    data = Data.of([0, 3, 5, 2, 9, 4] * 3, F32, I32)
    idx = (data.idx % 18).astype(np.int32)
    val, x, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((len(idx), 4, 8), (18, 8), (18, 4)))
    xs, wanted = x.copy(), y.copy()
    for i, (first, last) in enumerate(pairwise(data.ptr)):
        for r in range(4):
            wanted[i, r] += (val[first:last, r] * xs[idx[first:last]]).sum()
            xs[i, r] = i - r
    library.f(18, *(each.ctypes.data_as(ctypes.c_void_p) for each in (data.ptr, idx, val, x, y)))
    assert np.array_equal(y, wanted)
    assert np.array_equal(x, xs)


@pytest.mark.parametrize(
    ("rows", "depth", "t", "narrow"),
    [
        (1, 16, F64, None),
        (3, 8, F32, None),
        (8, 8, F64, None),
        (17, 12, F32, None),
        (1, 16, I32, I8),
        (17, 4, I32, U8),
        (8, 24, I32, I16),
    ],
)
def test_rows_together_are_rows_one_by_one(rows: int, depth: int, t: ElementType, narrow: ElementType | None) -> None:
    """On one thread and in pieces on all: with leave to add up in another order, whole numbers have one sum."""
    entry = [
        SumFactor("", True, None, rows * depth, True, narrow=narrow),
        SumFactor("", True, I32, depth, True, narrow=narrow),
    ]
    factor = narrow or t
    one = segment_function(t, entry, depth)
    several = one.of_rows(rows, (depth, 0)) if rows > 1 else one
    call = "sums[0] = {}(n, val, x, idx);" if rows == 1 else "{}(n, sums, val, x, idx);"
    given = f"(long n, {t.c} *sums, const {factor.c} *val, const {factor.c} *x, const int *idx)"
    calls = "".join(
        f"void {name}{given} {{ {call.format(which)} }}\n"
        for name, which in (("together", several.name), ("pieces", f"{several.name}_on_threads"))
    )
    library, rng = (
        compile_c(["\n".join((*several.prologue, several.on_threads, calls))], FLAGS),
        np.random.default_rng(rows),
    )
    for n in (0, 1, 2, 3, 8, 1001):
        least = 0 if factor is U8 else -3
        val, x = (rng.integers(least, 4, shape).astype(factor.numpy) for shape in ((n, rows, depth), (7, depth)))
        idx = rng.integers(0, 7, n).astype(np.int32)
        for run in (library.together, library.pieces):
            sums = np.full(rows + 1, 7, t.numpy)
            run(ctypes.c_long(n), *(each.ctypes.data_as(ctypes.c_void_p) for each in (sums, val, x, idx)))
            assert np.array_equal(sums[:rows], np.einsum("prc,pc->r", val.astype(t.numpy), x[idx].astype(t.numpy)))
            assert sums[rows] == 7


def test_rows_stay_around_what_is_done_for_each() -> None:
    """In another order every iteration of the loop outside would read entries of all rows."""
    names = {"t": "float", "rows": 8, "depth": 8}
    source = BLOCKS.format(loops=WRITTEN["as it comes"].format(**names), **names)
    (scop,) = polydl.load(source, sizes={"n": 1000}).scops
    ranking = polydl.rank(scop, machine="epyc-zen4", threads=2)
    assert not any("Permute(order=(r, i))" in str(variant.recipe) for variant in ranking.variants)
    assert not any("Parallelize(loops=(r,)" in str(variant.recipe) for variant in ranking.variants)
    assert ranking.pruned["loops outside of those over rows of a sparse matrix, and forks for each row"] >= 2


def test_rows_in_no_order_are_right_on_threads() -> None:
    """What shares rows out never takes `ptr` for granted."""
    library = compile_c([made("the element", F32, I32, 3).text], FLAGS)
    rng = np.random.default_rng(5)
    for n in (1, 2, 7, 100, 5000):
        data = Data.of([20] * n, F32, I32)
        ends = rng.permutation(data.ptr)
        there = Data(ends, data.idx, data.val, data.x, data.y)
        found = [there.val[a:b] @ there.x[there.idx[a:b]] for a, b in pairwise(ends)]
        assert np.array_equal(there.run(library, F32), data.y - np.array(found, np.float32))


def test_special_values_stay_in_their_rows() -> None:
    library = compile_c([made("a factor", F64, I32, 1).text], FLAGS)
    data = Data.of([0, 3, 0, 5, 9], F64, I32)
    data.val[2], data.val[11] = np.inf, np.nan
    data.x[data.idx[2]], data.y[0] = 1.0, -0.0
    out = data.run(library, F64)
    assert np.signbit(out[0])
    assert np.isinf(out[1])
    assert np.isfinite(out[[2, 3]]).all()
    assert np.isnan(out[4])


def test_without_leave_sums_keep_their_order() -> None:
    text = HEAD.format(t="float", i="int", body=CASES["a scalar"][0].format(t="float", i="int"))
    found = polydl.optimize(text, run=False, sizes={"n": 1000}, threads=2, reassociate=False)
    assert "polydl_entries_" not in found.text


OTHERS = {
    "every second element": "y[i] += val[2 * p] * x[idx[p]];",
    "a table and a half": "y[i] += val[p] * x[idx[p] * 2];",
    "two types": "y[i] += val[p] * (double)x[idx[p]];",
    "no product": "y[i] += val[p] + x[idx[p]];",
    "its own array": "y[i] += val[p] * y[idx[p]];",
}


@pytest.mark.parametrize("why", OTHERS)
def test_other_sums_stay_loops(why: str) -> None:
    body = f"for (int p = ptr[i]; p < ptr[i + 1]; p++) {OTHERS[why]}"
    text = HEAD.format(t="float", i="int", body=body)
    found = polydl.optimize(text, run=False, sizes={"n": 1000}, threads=2)
    assert "polydl_entries_" not in found.text


# How rows are shared out


def shares(ptr: np.ndarray, parts: int, least: int) -> tuple[list[int], list[int]]:
    """Where parts begin, and the rows that are cut."""
    name, text = shares_function({np.dtype(np.int32): I32, np.dtype(np.int64): I64}[ptr.dtype])
    outside = (
        f"int outside(const void *p, long n, int t, long l, long *a, long *b) {{ return {name}(p, n, t, l, a, b); }}"
    )
    library = compile_c([text, outside])
    at, large = np.full(parts + 1, -7), np.full(10 * parts + 1, -7)
    given = (ctypes.c_void_p(each.ctypes.data) for each in (ptr, at, large))
    pointer, first, second = given
    found = library.outside(pointer, ctypes.c_long(len(ptr) - 1), parts, ctypes.c_long(least), first, second)
    assert large[found] == np.iinfo(np.int64).max
    return at.tolist(), large[:found].tolist()


def busiest(lengths: list[int], parts: int, least: int, dtype: type = np.int32) -> float:
    """Entries of the busiest thread over those of all on average, where rows that are cut are everybody's."""
    ptr: np.ndarray = np.cumsum([5, *lengths]).astype(dtype)
    at, cut = shares(ptr, parts, least)
    assert (at[0], at[-1]) == (0, len(lengths))
    assert at == sorted(at)
    assert cut == sorted(set(cut))
    assert all(lengths[row] > least for row in cut)
    own = [sum(lengths[row] for row in range(*ends) if row not in cut) for ends in pairwise(at)]
    everybody = sum(lengths[row] for row in cut) / parts
    return (max(own) + everybody) * parts / sum(lengths)


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 48])
def test_the_busiest_thread_has_a_tenth_more_than_others_at_most(parts: int) -> None:
    rng = np.random.default_rng(parts)
    patterns = {
        "alike": [20] * 5000,
        "more and more": list(range(3000)),
        "many in few": (rng.pareto(1.1, 20_000) * 20).astype(int).clip(0, 10**6).tolist(),
        "half in one": [9] * 3000 + [40_000] + [5] * 2000,
        "all in one": [0] * 999 + [100_000] + [0] * 500,
        "large ones side by side": [50_000, 60_000, 70_000] + [30] * 9000,
    }  # fmt: skip
    for name, lengths in patterns.items():
        assert busiest(lengths, parts, 1) <= 1.1, name
        assert busiest(lengths, parts, 1, np.int64) <= 1.1, name


def test_short_rows_are_not_cut() -> None:
    assert shares(np.array([0, 5000, 5001, 5002], np.int32), 4, 1 << 14)[1] == []
    assert shares(np.array([0, 50_000, 50_001, 50_002], np.int32), 4, 0)[1] == []


@pytest.mark.parametrize("ends", [[9, 3], [5, 0, 7, 2, 90_000, 1], [0], [2**31 - 1, 0, 2**31 - 1]])
def test_every_row_is_in_one_part_whatever_its_bounds_are(ends: list[int]) -> None:
    at, cut = shares(np.array(ends, np.int32), 3, 1)
    assert (at[0], at[-1]) == (0, len(ends) - 1)
    assert at == sorted(at)
    assert cut == sorted(set(cut))
    assert set(cut) <= set(range(len(ends) - 1))


def test_only_rows_of_segments_are_shared_out_by_entries() -> None:
    text = "void f(int n, float y[restrict n]) { for (int i = 0; i < n; i++) y[i] = 2; }"
    (scop,) = polydl.load(text, sizes={"n": 100}).scops
    (nest,) = nests(scop, polydl.dependences(scop, reads=False))
    with pytest.raises(InputError, match="runs through a segment"):
        apply(nest, [Parallelize(("i",), "entries")])


def test_a_name_tells_functions_apart() -> None:
    kinds = [(F32, ((True, None), (True, I32))), (F32, ((True, I32), (True, None))), (F64, ((True, None), (True, I32)))]
    assert len({segment_function(element, given).name for element, given in kinds}) == len(kinds)


def test_bounds_that_no_array_holds() -> None:
    """There is nothing to share the rows out by, and the sum is one in vectors all the same."""
    source = """
void f(int n, const int c[restrict n + 1], const float val[restrict 1000], float out[restrict n])
{
    for (int i = 0; i < n; i++) {
        int e = c[i + 1] & 7;
        float s = 0;
        for (int p = c[i]; p < e; p++)
            s += val[p];
        out[i] = s;
    }
}
"""
    found = polydl.optimize(source, run=False, sizes={"n": 100}, threads=2)
    assert re.search(r"= polydl_entries_f32_", found.text) or "+= polydl_entries_f32_" in found.text
    assert found.checked.calls and not found.checked.faults
