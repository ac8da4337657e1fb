"""Arrays that rewrites add, of sizes that are known at run time alone: right at every size, and proved to fit."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import polydl
from polydl.lower.guarded_pieces import where_all_runs
from polydl.model import isl
from polydl.model.scop import Scop, Storage
from polydl.prove import Proof
from polydl.rewrite.canonical import canonical
from polydl.rewrite.scratch_array import Box, box_of, has_room
from polydl.search.sizes.code import EverySize
from tests.efforts import FEWEST
from tests.oracle.native import compile_c
from tests.search.one_way import OPTIONS, in_one_way, outputs, proof_of
from tests.search.test_every_size import Guarded, sizes

FLAGS = ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")
Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Case:
    """A function of m, n, k and arrays, of which the first is the result."""

    source: str
    expected: Callable[[Arrays], np.ndarray]
    shapes: Callable[[int, int, int], tuple[tuple[int, ...], ...]]
    kinds: tuple[type, ...]
    scratch: int
    """Arrays that rewrites add."""


HEAD = "#include <stdint.h>\nvoid f(int m, int n, int k, "
ROWS = """)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
"""


def wide(x: np.ndarray) -> np.ndarray:
    """In double, which has integers of 53 bits, and whose products are a library's."""
    return x.astype(np.float64)


def convolution(arrays: Arrays) -> np.ndarray:
    c, a, b = map(wide, arrays)
    m, n = c.shape[1:]
    for p, q in itertools.product(range(3), range(3)):
        c += np.tensordot(b[:, :, p, q] - 5, a[:, p : p + m, q : q + n] - 7, 1)
    return c


def shown(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    return (m, n), (m, k), (k, n)


CASES = {
    "zero points": Case(
        HEAD + "int32_t *restrict C, const uint8_t *restrict A, const int8_t *restrict B" + ROWS + """
            int32_t s = 0;
            for (int l = 0; l < k; l++)
                s += (A[i * k + l] - 7) * (B[l * n + j] - 5);
            C[i * n + j] = s;
        }
}
""", lambda x: (wide(x[1]) - 7) @ (wide(x[2]) - 5), shown, (np.int32, np.uint8, np.int8), 2,
    ),
    "one zero point": Case(
        HEAD + "int32_t C[restrict m][n], const uint8_t A[restrict m][k], const int8_t B[restrict k][n]" + ROWS + """
            for (int l = 0; l < k; l++)
                C[i][j] -= (A[i][l] - 7) * B[l][j];
        }
}
""", lambda x: wide(x[0]) - (wide(x[1]) - 7) @ wide(x[2]), shown, (np.int32, np.uint8, np.int8), 1,
    ),
    "convolution": Case(
        HEAD + """int32_t C[restrict 5][m][n], const uint8_t A[restrict k][m + 2][n + 2],
       const int8_t B[restrict 5][k][3][3])
{
    for (int o = 0; o < 5; o++)
        for (int y = 0; y < m; y++)
            for (int x = 0; x < n; x++)
                for (int c = 0; c < k; c++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            C[o][y][x] += (A[c][y + p][x + q] - 7) * (B[o][c][p][q] - 5);
}
""", convolution, lambda m, n, k: ((5, m, n), (k, m + 2, n + 2), (5, k, 3, 3)), (np.int32, np.uint8, np.int8), 2,
    ),
    "sums in double": Case(
        HEAD + "float *restrict C, const float *restrict A, const float *restrict B" + ROWS + """
            double s = 0;
            for (int l = 0; l < k; l++)
                s += (double)A[i * k + l] * B[l * n + j];
            C[i * n + j] = (float)s;
        }
}
""", lambda x: x[1] @ x[2], shown, (np.float32, np.float32, np.float32), 3,
    ),
    "the greater one": Case(
        HEAD + "float *restrict C, const float *restrict A, const float *restrict B" + ROWS + """
            float s = 0;
            for (int l = 0; l < k; l++)
                s += A[i * k + l] * B[l * n + j];
            C[i * n + j] = s > C[i * n + j] ? s : C[i * n + j];
        }
}
""", lambda x: np.maximum(x[0], x[1] @ x[2]), shown, (np.float32, np.float32, np.float32), 1,
    ),
    "real parts": Case(
        HEAD + "float C[restrict m][n][2], const float A[restrict m][k], const float B[restrict k][n]" + ROWS + """
            for (int l = 0; l < k; l++)
                C[i][j][0] += A[i][l] * B[l][j];
        }
}
""", lambda x: x[0] + np.stack([x[1] @ x[2], 0 * x[0][:, :, 1]], axis=2), lambda m, n, k: ((m, n, 2), (m, k), (k, n)),
        (np.float32, np.float32, np.float32), 1,
    ),
}  # fmt: skip


@cache
def made(name: str, variant: int) -> tuple[Scop, EverySize]:
    """See `in_one_way`."""
    return in_one_way(CASES[name].source, variant)


@pytest.mark.parametrize("name", CASES)
def test_the_rewrites_are_those_of_known_sizes(name: str) -> None:
    (scop,) = polydl.load(CASES[name].source, require_sizes=False).scops
    known = canonical(polydl.load(CASES[name].source, sizes={"m": 64, "n": 80, "k": 96}).scops[0])
    program = canonical(where_all_runs(scop).scop)
    assert [str(step) for step in program.steps] == [str(step) for step in known.steps]
    added = [a for a in program.scop.arrays.values() if a.storage is Storage.SCRATCH]
    assert len(added) == CASES[name].scratch
    assert any(a.layout.size is None for a in added)


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_at_every_size(name: str) -> None:
    case = CASES[name]
    options = OPTIONS.changed(sizes={"m": 9, "n": 9, "k": 9}, effort=FEWEST)
    libraries = []
    for done in outputs(case.source, (0, 2), options):
        assert isinstance(done.scops[0].other_sizes, EverySize)
        assert "_bytes" in done.text
        libraries.append(compile_c([done.text], FLAGS))
    rng = np.random.default_rng(1)
    for at in sizes():
        guarded = Guarded()
        arrays = [guarded.array(shape, kind, rng) for shape, kind in zip(case.shapes(*at), case.kinds, strict=True)]
        begun = arrays[0].copy()
        wanted = case.expected([begun, *arrays[1:]])
        for library in libraries:
            arrays[0][...] = begun
            library.f(*at, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
            np.testing.assert_array_equal(arrays[0], wanted, err_msg=str(at))


def proof(name: str, variant: int, region: str | None = None) -> Proof:
    """Of the code, or of another text in place of it."""
    return proof_of(*made(name, variant), region)


@cache
def proved(name: str, variant: int) -> Proof:
    """Of the code as it is."""
    return proof(name, variant)


OPEN = {
    "one zero point": "no statements of the original are what this microkernel computes",
    "the greater one": "stores something else than its block",
}
"""What the proof does not read of kernels that go on with their sums, of known sizes either."""


@pytest.mark.parametrize("name", CASES)
def test_it_is_proved_for_all_sizes(name: str) -> None:
    found = proved(name, 0)
    assert found.holds if name not in OPEN else OPEN[name] in found.reason, found.reason


MUTANTS = (
    (r"_bytes = \(\(size_t\)m \*", "_bytes = ((size_t)(m - 1) *"),
    (r"_bytes = \(\(size_t\)m \*", "_bytes = ((size_t)n *"),
    (r"\* 4 \+ 4095\) / 4096", "* 2 + 4095) / 4096"),
    (r"\+ 4095\) / 4096", "+ 0) / 4096"),
    (r"(polydl_scratch\(\d+ \+ polydl_\w+_bytes) \+ polydl_\w+_bytes", r"\1"),
    (r"(\(polydl_memory \+ \d+) \+ polydl_\w+_bytes\)", r"\1)"),
    (r"\(polydl_memory \+ \d+ \+ (polydl_\w+_bytes)\)", r"(polydl_memory + 0 + \1)"),
    (r"(polydl_A_sum_S1)\[(\w+)\]", r"\1[\2 + 1]"),
    (r"\(unsigned int\)\(k\)", "(unsigned int)(m)"),
)


@pytest.mark.parametrize("place", range(len(MUTANTS)))
def test_a_mistake_is_never_proved(place: int) -> None:
    pattern, new = MUTANTS[place]
    _, found = made("zero points", 2)
    assert found.marked is not None and proved("zero points", 2).holds
    mutant, times = re.subn(pattern, new, found.marked.region, count=1)
    assert times
    assert proof("zero points", 2, mutant).verdict in ("wrong", "open")


def test_boxes() -> None:
    points = isl.Set("[m, n] -> { S[i, j] : 3 <= i < m and 0 <= j < n and m >= 9 and n >= 1 }")
    box = box_of(points)
    assert box is not None
    assert box.points(points).intersect_params(points.params()).is_equal(points)
    assert box_of(isl.Set("[n] -> { S[i] : i >= n }")) is None
    assert box_of(isl.Set("[n] -> { S[i] : false }")) is None
    numbers = box_of(isl.Set("{ S[i, j] : 2 <= i < 9 and 0 <= j <= i }"))
    assert numbers == Box.between([(2, 8), (0, 8)])


@pytest.mark.parametrize(("wanted", "room"), [("0 <= a < n", True), ("0 <= a <= n", False), ("0 <= a < 5", False)])
def test_memory_is_no_more_than_the_program_has(wanted: str, room: bool) -> None:
    (scop,) = polydl.load(
        "void f(int n, float x[restrict n])\n{\n    for (int i = 0; i < n; i++)\n        x[i] = 1;\n}\n",
        require_sizes=False,
    ).scops
    box = box_of(isl.Set(f"[n] -> {{ T[a] : {wanted} and n >= 1 }}"))
    assert box is not None
    assert has_room(where_all_runs(scop).scop, [box]) == room
    assert not has_room(where_all_runs(scop).scop, [box, box])
