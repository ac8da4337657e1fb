"""Rows without columns: nothing is read or written, for the elements that a row gathers in need not be there."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np
import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.lower.ctree import Binary, Block, Cast, For, Int, Name
from polydl.lower.emit import generate
from polydl.lower.passes.row_lengths import length, product, runs
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from tests.oracle.native import NATIVE, compile_c

BODIES = {
    "sum": "s[i - 6] += y[j];",
    "sum of products": "s[i - 6] += x[i][j] * y[j];",
    "difference": "s[i - 6] = s[i - 6] - y[j];",
    "greatest": "s[i - 6] = y[j] > s[i - 6] ? y[j] : s[i - 6];",
    "least, and where": "at[i - 6] = y[j] < s[i - 6] ? j : at[i - 6]; s[i - 6] = y[j] < s[i - 6] ? y[j] : s[i - 6];",
    "fmax": "s[i - 6] = fmax(s[i - 6], y[j]);",
    "best two": "t[i - 6] = y[j] > s[i - 6] ? s[i - 6] : y[j] > t[i - 6] ? y[j] : t[i - 6];"
    " s[i - 6] = y[j] > s[i - 6] ? y[j] : s[i - 6];",
    "rare changes": "s[i - 6] = !(y[j] <= s[i - 6]) ? y[j] : s[i - 6];",
    "scan": "s[i - 6] += y[j]; z[i][j] = s[i - 6];",
    "value": "z[i][j] = y[j] * s[i - 6];",
    "long integers": "n_[i - 6] += k[j];",
    "and": "n_[i - 6] &= k[j];",
}
"""Row i has i - 5 columns: with i up to 5 it has none, and element i - 6 is not there. What follows in an iteration
keeps both in one loop."""
_N = 9


def text(body: str, number: int, n: str) -> str:
    arrays = "double s[restrict {0}], double t[restrict {0}], int at[restrict {0}], double x[restrict {0}][{0}], "
    arrays += "double y[restrict {0}], double z[restrict {0}][{0}], long n_[restrict {0}], long k[restrict {0}]"
    return f"""void f{number}(int n, {arrays.format(n)})
{{
#pragma scop
    for (int i = 0; i < {n}; i++) {{
        for (int j = 0; j < i - 5; j++) {{
            {body}
        }}
        y[i] = 0.5 * s[0] + z[6][0];
        k[i] = n_[0] & 7;
    }}
#pragma endscop
}}
"""


def in_rows(*scops: Scop) -> str:
    made = []
    for scop in scops:
        found = canonical(scop).scop
        parts = [ordered(nest, (Vectorize(),)) for nest in nests(found, dependences(found, reads=False))]
        made.append((scop, generate(found, program_tree(parts))))
        assert "polydl_" in made[-1][1].region
    return splice(scops[0].source, made, "")


@cache
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    source = "#include <math.h>\n" + "".join(text(body, at, str(_N)) for at, body in enumerate(BODIES.values()))
    return compile_c([source]), compile_c([in_rows(*polydl.load(source).scops)], NATIVE)


@pytest.mark.parametrize("body", BODIES)
def test_elements_in_front_of_an_array_are_left_alone(body: str) -> None:
    """The arrays begin where a page begins that may be read, behind one that may not be touched."""
    results = []
    for library in libraries():
        given, held = [], []
        for shape, kind in (
            ((_N,), "f8"), ((_N,), "f8"), ((_N,), "i4"), ((_N, _N), "f8"), ((_N,), "f8"), ((_N, _N), "f8"),
            ((_N,), "i8"), ((_N,), "i8"),
        ):  # fmt: skip
            values, memory = behind_a_guard(shape, kind)
            values[...] = np.random.default_rng(len(given)).integers(-3, 4, shape)
            given.append(values)
            held.append(memory)
        given[0][3:] = -0.0  # which even a zero that is added changes
        library[f"f{list(BODIES).index(body)}"](_N, *(ctypes.c_void_p(a.ctypes.data) for a in given))
        results.append([a.copy() for a in given])
        del given
    for want, found in zip(*results, strict=True):
        assert want.tobytes() == found.tobytes(), (want, found)


def behind_a_guard(shape: tuple[int, ...], kind: str) -> tuple[np.ndarray, mmap.mmap]:
    memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    values = np.frombuffer(memory, kind, int(np.prod(shape)), mmap.PAGESIZE).reshape(shape)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert libc.mprotect(values.ctypes.data - mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
    return values, memory


def test_lengths_are_as_wide_as_the_loops() -> None:
    n, m = Name("n"), Name("m")
    loop = For("i", "long", Int(0), Binary("<", Name("i"), n), Int(1), Block(()))
    assert loop.last == Binary("-", n, Int(1))
    assert (length(loop), runs(loop)) == (n, Binary(">", n, Int(0)))
    assert product(n, Int(1000)) == Binary("*", Cast("ptrdiff_t", n), Int(1000))
    assert product(product(n, m), Int(2)) == Binary("*", Binary("*", Cast("ptrdiff_t", n), m), Int(2))
    assert product(Int(100000), Int(100000)) == Int(10**10)
    known = For("i", "long", Int(3), Binary("<=", Name("i"), Int(2)), Int(1), Block(()))
    assert (length(known), runs(known)) == (Int(0), Binary("<=", Int(3), Int(2)))
