"""Products of complex numbers in lanes: the same values as C's, infinities and NaN included."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.types import Kind, element_type
from polydl.rewrite.canonical import canonical
from polydl.schedule.as_tree import written
from polydl.schedule.direction import moving
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import direct
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree_check import broken
from polydl.search.candidates import made
from tests.compiling import run_compiler

N = 5000
BUTTERFLIES = """
#include <complex.h>
void f(int n, TYPE complex x[restrict 4][n], const TYPE complex w[restrict n])
{
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < n; k++) {
            TYPE complex even = x[2 * b][k], odd = w[k] * x[2 * b + 1][k];
            x[2 * b][k] = even + odd * odd;
            x[2 * b + 1][k] = even - conjX(odd) * w[k];
        }
}
"""
ROTATED = """
#include <complex.h>
void f(int n, TYPE complex x[restrict 4][n], const TYPE complex w[restrict n])
{
    for (int k = 0; k < n; k++)
        x[1][k] = (w[k] * x[0][k] - 2 * I) * x[3][k] + crealX(w[k]) * x[2][k];
}
"""
SCALED = """
void f(int n, TYPE _Complex x[restrict 4][n], const TYPE _Complex w[restrict n])
{
    for (int k = 0; k < n; k++) {
        x[1][k] = x[1][k] * w[k];
        x[2][k] *= x[3][k] + w[k];
    }
}
"""
PLACED = """
void f(int n, TYPE _Complex x[restrict 4][n], const TYPE _Complex w[restrict n])
{
    for (int k = 0; k < n; k++) {
        x[0][k] = w[k] + x[1][k];
        x[2][k] = CHANGE;
    }
}
"""


def typed(text: str, element: str) -> str:
    return re.sub(r"\b(conj|creal)X", r"\1" + (element_type(element).suffix or ""), text).replace("TYPE", element)


def in_lanes(text: str, tmp_path: Path, how: Schedule = Schedule("written")) -> str:  # noqa: B008 - a frozen value
    """The text with its loops marked as vectors."""
    path = tmp_path / "k.c"
    path.write_text(text)
    scop = canonical(polydl.load(path, sizes={"n": N}).scops[0]).scop
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=True)
    assert broken(scop, scop.statements, tree, found, reassociate=False) is None
    code = generate(scop, program_tree([Ordered.scheduled(scop.statements, how, tree)]))
    return splice(scop.source, [(scop, code)], "")


def run(text: str, tmp_path: Path, name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    source, output = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
    source.write_text(text)
    # gcc fuses operations of straight code that it makes vectors of even where it is told not to (12.2).
    flags = (
        "-O3",
        "-fno-tree-slp-vectorize",
        "-march=native",
        "-fopenmp",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
    )
    run_compiler(["gcc", *flags, str(source), "-o", str(output)])
    x, w = x.copy(), w.copy()
    ctypes.CDLL(str(output)).f(x.shape[1], ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(w.ctypes.data))
    return x


def numbers(shape: tuple[int, ...], element: str, special: float, seed: int) -> np.ndarray:
    """Of a complex type: integers, of which products are exact however they are rounded, and special values."""
    dtype = np.dtype(element_type(element).numpy)
    rng = np.random.default_rng(seed)
    parts = rng.integers(-3, 4, (*shape, 2)).astype(dtype)
    great = np.finfo(dtype).max
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, great, -great, np.finfo(dtype).tiny], dtype)
    return np.where(rng.random(parts.shape) < special, rng.choice(values, parts.shape), parts)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all parts are equal in bits, any NaN like any other."""
    bits = f"u{one.itemsize}"
    return bool(((one.view(bits) == other.view(bits)) | (np.isnan(one) & np.isnan(other))).all())


@pytest.mark.parametrize("special", [0.0, 1e-3, 0.5])
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("text", [BUTTERFLIES, ROTATED, SCALED], ids=["butterflies", "rotated", "scaled"])
def test_they_are_what_c_makes_of_them(text: str, element: str, special: float, tmp_path: Path) -> None:
    original = typed(text, element)
    output = in_lanes(original, tmp_path)
    assert "too_large" in output
    x, w = numbers((4, N), element, special, 1), numbers((N,), element, special, 2)
    if special:
        assert np.isinf(run(original, tmp_path, "infinite", x, w)).any()
    for n in (N, 7):
        some, few = np.ascontiguousarray(x[:, :n]), w[:n]
        assert same(run(original, tmp_path, f"original{n}", some, few), run(output, tmp_path, f"lanes{n}", some, few))


def test_integers_come_out_in_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((4, N, 2), (N, 2)))
    original = typed(BUTTERFLIES, "float")
    for sizes in ((), (2, 96)):
        output = in_lanes(original, tmp_path, Schedule("written", sizes))
        assert np.array_equal(
            run(original, tmp_path, "original", x, w), run(output, tmp_path, f"lanes{len(sizes)}", x, w)
        )


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ("w[k] * x[1][k]", True),
        ("w[k] * x[0][k]", False),
        ("x[0][k] + w[k] * x[1][k]", True),
        ("w[k] / x[1][k]", False),
        ("k % 3 ? w[k] * x[1][k] : w[k]", False),
        ("2 * w[k]", False),
    ],
    ids=[
        "elements that stay",
        "elements written before",
        "beside a product",
        "a quotient",
        "a choice",
        "a real factor",
    ],
)
def test_only_products_whose_factors_are_there_in_advance(change: str, asked: bool, tmp_path: Path) -> None:
    original = typed(PLACED.replace("CHANGE", change), "float")
    output = in_lanes(original, tmp_path)
    assert ("too_large" in output) == asked
    x, w = numbers((4, N), "float", 0.01, 4), numbers((N,), "float", 0.01, 5)
    assert same(run(original, tmp_path, "original", x, w), run(output, tmp_path, "lanes", x, w))


def test_a_single_loop_of_them_is_searched_for_vectors(tmp_path: Path) -> None:
    path = tmp_path / "product.c"
    path.write_text(typed(ROTATED, "float"))
    (scop,) = polydl.load(path, sizes={"n": 100_000}).scops
    assert any(a.element.kind is Kind.COMPLEX for a in scop.arrays.values())
    ranking = polydl.rank(scop, machine="xeon-8480plus", threads=2)
    assert "too_large" in ranking.variants[0].generated.region


def test_gcc_makes_vectors_of_them(tmp_path: Path) -> None:
    source = tmp_path / "vectors.c"
    source.write_text(in_lanes(typed(ROTATED, "float"), tmp_path))
    command = ["gcc", "-O3", "-mavx2", "-mfma", "-fopenmp", "-fopt-info-vec", "-c", str(source), "-o", "/dev/null"]
    done = run_compiler(command)
    assert done.stderr.count("loop vectorized") >= 2
