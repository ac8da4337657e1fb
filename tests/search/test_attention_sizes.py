"""Attention whose sizes are arguments, tuned for one size: right at others, with masks that leave nothing, with logits
that overflow without their maximum, and with as many threads as there are."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.options import Options
from tests.efforts import LEAST
from tests.oracle.native import QUICK_NATIVE, apart, compile_c

KERNELS = Path(__file__).parents[2] / "experiments" / "kernels"
HEADERS = Path(polydl.__file__).parent / "include"
DEPTH = 20
"""Where another size is looked at. No vector has so many elements."""
SMALL = tuple(range(21))
LONG = (33, 77, 513)
ONLINE = "attention_online.c"
NEAR, FAR = 1e-5, 2e-2
"""How far results may be from double precision: for logits of about 1, and of 1e4, which floats hold to 1e-3 before
they are exponents."""


@dataclass(frozen=True)
class Case:
    """A kind of attention."""

    name: str
    """The macro that makes it."""
    file: str = "attention.c"
    group: int = 1
    square: bool = True
    """There are as many queries as keys."""

    def __str__(self) -> str:
        online = ", online" if self.file == ONLINE else ""
        return f"{self.name}{online}{'' if self.square else ', other queries'}"

    @property
    def source(self) -> str:
        """A function of sizes and arrays; what is between them lies on the stack."""
        text = (KERNELS / self.file).read_text(encoding="utf-8").replace("    static ", "    ")
        sizes = "int HEADS, int S, int D, " if self.square else "int HEADS, int S, int D, int T, "
        text = text.replace("void attention(", f"void attention({sizes}")
        defined = "" if self.square else "#define T T\n"
        return f"#define {self.name} {self.group}\n#define SCALE 0.25f\n{defined}{text}"

    def tuned(self) -> Mapping[str, int]:
        """The sizes that the code is tuned for."""
        return {"HEADS": 4, "S": 77, "D": 32} | ({} if self.square else {"T": 24})


CASES = (
    Case("PLAIN"),
    Case("MASK"),
    Case("CAUSAL"),
    Case("CAUSAL", square=False),
    Case("LENGTHS"),
    Case("GROUP", group=2, square=False),
    Case("PLAIN", file=ONLINE),
    Case("MASK", file=ONLINE),
    Case("CAUSAL", file=ONLINE),
    Case("CAUSAL", file=ONLINE, square=False),
    Case("LENGTHS", file=ONLINE),
    Case("GROUP", file=ONLINE, group=2, square=False),
)


@dataclass(frozen=True)
class Data:
    """Arguments of a call, and what it is to give."""

    sizes: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]
    exact: np.ndarray
    """In double precision; NaN where a query sees nothing."""


def data(case: Case, heads: int, queries: int, keys: int, depth: int, large: float) -> Data:
    rng = np.random.default_rng(1000 * keys + 10 * depth + queries)
    q = rng.standard_normal((heads, queries, depth)).astype(np.float32) * np.float32(large)
    k, v = (rng.standard_normal((heads // case.group, keys, depth)).astype(np.float32) for _ in range(2))
    added = np.zeros((heads, queries, keys))
    more: list[np.ndarray] = []
    if case.name == "MASK":
        mask = np.where(rng.random((queries, keys)) < 0.3, -np.inf, rng.standard_normal((queries, keys)))
        mask[1:2] = -np.inf
        more = [mask.astype(np.float32)]
        added = added + more[0]
    elif case.name == "CAUSAL":
        added[:, np.arange(keys) > np.arange(queries)[:, None] + keys - queries] = -np.inf
    elif case.name == "LENGTHS":
        lengths = rng.integers(1, keys + 1, heads, dtype=np.int32) if keys else np.zeros(heads, np.int32)
        lengths[1:2] = 0
        more = [lengths]
        added = np.where(np.arange(keys) < lengths[:, None, None], added, -np.inf)
    keys_of, values_of = (np.repeat(one.astype(np.float64), case.group, 0) for one in (k, v))
    scores = q.astype(np.float64) @ keys_of.transpose(0, 2, 1) * 0.25 + added
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        total = weights.sum(-1, keepdims=True)
        exact = weights @ values_of / total
    if case.file != ONLINE:
        # Loops run for no key: a sum of nothing, which the form with a running maximum divides by another one.
        exact[:, : max(0, queries - keys) if case.name == "CAUSAL" or not keys else 0] = 0
    sizes = (heads, keys, depth) if case.square else (heads, keys, depth, queries)
    return Data(sizes, (q, k, v, *more), exact)


def shapes(case: Case) -> Iterator[tuple[int, int, int, int, float]]:
    """Heads, queries, keys, width of a head, size of logits."""
    for n in SMALL:
        yield (4, n, n, DEPTH, 1.0) if case.square else (4, min(n, 3), n, DEPTH, 1.0)
        yield (2, 5, 5, n, 1.0)
        yield (2 * n, 3, 3, 3, 1.0)
        if not case.square:
            yield (2, 7, n, DEPTH, 1.0)
    for n in LONG:
        for large in (1.0, 1e4):
            yield (2, n, n, 32, large)
            if not case.square:
                yield (4, 1, n, 32, large)
    yield (4, 77, 77, 32, 1.0)


@pytest.mark.few_sizes
@pytest.mark.parametrize("case", CASES, ids=str)
def test_right_at_every_size(tmp_path: Path, case: Case) -> None:
    file = tmp_path / "attention.c"
    file.write_text(case.source, encoding="utf-8")
    options = Options(machine="epyc-zen5", threads=3, space="small", sizes=case.tuned(), effort=LEAST)
    done = polydl.optimize(file, options=options, run=False)
    (one,) = done.scops
    assert one.chosen is not None
    library = compile_c([apart(done.text, "a")], (*QUICK_NATIVE, "-w", f"-I{HEADERS}"))
    openmp = ctypes.CDLL("libgomp.so.1")
    for number, shape in enumerate(shapes(case)):
        given = data(case, *shape)
        openmp.omp_set_num_threads(1 + number % 3)
        check(library.attention, given, shape)
        if shape[2] in LONG:
            for threads in (1, 2, 3):
                openmp.omp_set_num_threads(threads)
                check(library.attention, given, shape)


def check(function: Callable[..., object], given: Data, shape: tuple[int, int, int, int, float]) -> None:
    out = np.full(given.exact.shape, 7, np.float32)
    before = [one.copy() for one in given.arrays]
    arrays = [one.ctypes.data_as(ctypes.c_void_p) for one in (*given.arrays, out)]
    function(*map(ctypes.c_int, given.sizes), *arrays)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, given.arrays, strict=True))
    assert np.array_equal(np.isnan(out), np.isnan(given.exact)), shape
    if out.size:
        far = np.nan_to_num(np.abs(out - given.exact)).max()
        assert far < (NEAR if shape[4] == 1 else FAR), (shape, far)
