"""Sums and extremes of whole loops in parts: the same results, on all threads, and only where nothing else looks."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from polydl import load, rank
from polydl.equations.step import Step
from polydl.model.scop import Scop, Storage
from polydl.options import Options
from polydl.rewrite import partial_results as module
from polydl.rewrite.canonical import canonical
from polydl.rewrite.reduction_privatisation import Partial
from polydl.search.proofs import proof_of
from tests.efforts import LEAST
from tests.oracle.native import NATIVE, PLAIN, apart, compile_c

HEAD = (
    "void f(float A[restrict 40][30], float B[restrict 40][30], float x[restrict 500], float y[restrict 500], "
    "float out[restrict 4], int p[restrict 500], int n[restrict 4])"
)
SHAPES = {"A": (40, 30), "B": (40, 30), "x": (500,), "y": (500,), "out": (4,), "p": (500,), "n": (4,)}
EACH = "for (int i = 0; i < 40; i++) for (int j = 0; j < 30; j++)"
LONG = "for (int i = 0; i < 500; i++)"
OPTIONS = Options(threads=2, space="small", machine="epyc-zen3", effort=LEAST)

FLAGS = (*NATIVE, "-ffp-contract=off", "-Werror", "-Wno-maybe-uninitialized")

CASES = {
    "a sum alone": (f"{EACH} out[1] += A[i][j] * B[i][j];", 1),
    "a sum beside a store": (f"{EACH} {{ B[i][j] = 2 * A[i][j]; out[0] += A[i][j]; }}", 1),
    "of a long loop": (f"{LONG} {{ y[i] = x[i] + 1; out[2] -= x[i]; }}", 100),
    "several": (f"{LONG} {{ out[0] += x[i]; n[1] += p[i]; y[i] = x[i] + 1; }}", 100),
    "two additions to one": (f"{LONG} {{ out[0] += x[i]; y[i] = x[i] + 1; out[0] -= y[i]; }}", 100),
    "the greatest": (f"{EACH} {{ B[i][j] = A[i][j] + 1; if (A[i][j] > m) m = A[i][j]; }}", 1),
    "the greatest number": (f"{LONG} {{ y[i] = x[i]; if (x[i] > m || m != m) m = x[i]; }}", 100),
    "the least number": (f"{EACH} {{ B[i][j] = 1; m = m != m || A[i][j] < m ? A[i][j] : m; }}", 1),
    "where the greatest number is": (f"{LONG} if (x[i] > m || !(m == m)) {{ m = x[i]; k = i; }}", 100),
    "from the first on, be it no number": (f"{LONG} if (i == 0 || x[i] > m) {{ m = x[i]; k = i; }}", 63),
    "downwards, from the last on, be it no number": (
        "for (int i = 499; i >= 0; i--) { y[i] = 2; if (x[i] < m || i == 499) m = x[i]; }",
        63,
    ),
    "the least, the other way round": (f"{LONG} {{ y[i] = x[i]; if (m > x[i]) m = x[i]; }}", 100),
    "of integers": (f"{LONG} {{ y[i] = x[i]; if (p[i] < k) k = p[i]; }}", 100),
    "of integers, by a macro": (f"{LONG} {{ y[i] = x[i]; k = k > p[i] ? k : p[i]; }}", 100),
    "of integers, by another": (f"{LONG} {{ y[i] = x[i]; k = k > p[i] ? p[i] : k; }}", 100),
    "with a function": (f"{LONG} {{ y[i] = -x[i]; out[1] = fmaxf(out[1], fabsf(x[i])); }}", 100),
    "of a value between": (
        f"{EACH} {{ float d = A[i][j] - B[i][j]; B[i][j] = A[i][j]; if (fabsf(d) > m) m = fabsf(d); }}",
        1,
    ),
    "of 499 iterations from 1 on": (f"{LONG.replace('= 0', '= 1')} {{ y[i] = i * x[i]; out[2] += x[i]; }}", 63),
    "where it is": (f"{LONG} if (x[i] > m) {{ m = x[i]; k = i; }}", 100),
    "where the last one of integers is": (f"{LONG} if (p[i] >= k) {{ k = p[i]; l = i; }}", 100),
    "where the last least one is": (f"{LONG} {{ y[i] = x[i]; if (k >= p[i]) {{ l = 3 * i; k = p[i]; }} }}", 100),
    "row and column": (f"{EACH} if (A[i][j] < m) {{ m = A[i][j]; k = i; l = j; }}", 1),
    "where it is among some": (f"{LONG} if (p[i] > 2 && x[i] > m) {{ m = x[i]; k = i; }}", 100),
    "where the greatest magnitude is": (f"{LONG} if (fabs(x[i]) > m) {{ m = fabs(x[i]); k = i; }}", 100),
    "what is there": (f"{LONG} if (m > x[i]) {{ m = x[i]; l = p[i]; }}", 100),
    "under conditions": (f"{LONG} {{ if (p[i] & 1) if (x[i] > m) m = x[i]; y[i] = x[i]; }}", 100),
    "of several to one": (f"{LONG} {{ if (x[i] > m) m = x[i]; if (y[i] > m) m = y[i]; }}", 100),
    "downwards from the end": ("for (int i = 499; i > 0; i--) { y[i] = i * x[i]; if (x[i] < m) m = x[i]; }", 63),
    "where from the end": ("for (int i = 499; i >= 0; i--) if (x[i] > m) { m = x[i]; k = i; }", 100),
    "in a triangle": ("for (int i = 0; i < 40; i++) for (int j = 0; j < i - 32; j++) if (A[i][j] > m) m = A[i][j];", 1),
    "bits": (f"{LONG} {{ k &= p[i]; l |= p[i]; n[0] ^= p[i]; y[i] = x[i]; }}", 100),
    "absolute values": (f"{LONG.replace('= 0', '= 1')} k += abs(p[i] - 7);", 63),
    "a product": (f"{LONG} {{ n[0] *= p[i] | 1; y[i] = x[i]; }}", 100),
    "counted": (f"{LONG} {{ y[i] = x[i]; if (x[i] > 0) k++; }}", 100),
    "a row beside a sum": (
        (
            "for (int i = 0; i < 40; i++) { float s = 0; for (int j = 0; j < 30; j++) s += A[i][j]; "
            "for (int j = 0; j < 30; j++) { x[j] += 2 * A[i][j]; B[i][j] = A[i][j] + s; } }"
        ),
        8,
    ),
    "two rows and a sum of all": (
        (
            "for (int i = 0; i < 40; i++) { B[i][0] += 1; for (int j = 0; j < 29; j++) "
            "{ x[j] += A[i][j]; y[j + 3] -= A[i][j] * B[i][j]; out[1] += B[i][j]; } }"
        ),
        8,
    ),
    "two additions to a row": (
        (
            "for (int i = 0; i < 39; i++) { float s = A[i][29]; for (int j = 0; j < 30; j++) x[j] += s * A[i][j]; "
            "for (int j = 0; j < 30; j++) x[j] -= B[i][j]; }"
        ),
        13,
    ),
    "extremes of columns": (
        (
            "for (int i = 0; i < 40; i++) { float s = 0; for (int j = 0; j < 30; j++) s += B[i][j]; B[i][0] = s; "
            "for (int j = 0; j < 30; j++) x[j] = A[i][j] > x[j] ? A[i][j] : x[j]; }"
        ),
        8,
    ),
    "where they are": (
        (
            "for (int i = 0; i < 40; i++) { float s = 0; for (int j = 0; j < 30; j++) s += B[i][j]; B[i][0] = s; "
            "for (int j = 0; j < 30; j++) { p[j] = A[i][j] < x[j] ? i : p[j]; "
            "x[j] = A[i][j] < x[j] ? A[i][j] : x[j]; } }"
        ),
        8,
    ),
    "bits of columns, backwards": (
        (
            "for (int i = 39; i >= 0; i--) { y[i] = 1; "
            "for (int j = 0; j < 30; j++) { p[j] ^= i + 2 * j; n[1] |= i - j; } }"
        ),
        8,
    ),
    "rows of a triangle": (
        (
            "for (int i = 0; i < 40; i++) { float s = 0; for (int j = 0; j < 30; j++) s += A[i][j]; "
            "for (int j = 0; j < 30 && j <= i; j++) x[29 - j] += A[i][j] * s; }"
        ),
        20,
    ),
    "rows in a loop in order": (
        (
            "for (int t = 0; t < 3; t++) { for (int i = 0; i < 40; i++) { float s = 0; "
            "for (int j = 0; j < 30; j++) s += A[i][j]; for (int j = 0; j < 30; j++) { x[j] += A[i][j]; "
            "B[i][j] = s; } } for (int j = 0; j < 30; j++) A[t][j] = B[39][j] + x[j]; }"
        ),
        8,
    ),
    "inside of a loop in order": (
        (
            "for (int t = 0; t < 3; t++) { for (int i = 1; i < 40; i++) for (int j = 0; j < 30; j++) "
            "{ B[i][j] = A[i][j]; out[t] += A[i][j]; } for (int j = 0; j < 30; j++) A[t][j] = B[39][j] + t; }"
        ),
        1,
    ),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDE", 30)
    monkeypatch.setattr(module, "LEAST", 1)
    monkeypatch.setattr(module, "PARTS", 8)
    monkeypatch.setattr(module, "MOST", 50)
    monkeypatch.setattr(module, "PIECE_CYCLES", 0)


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(
        f"#include <math.h>\n#include <stdlib.h>\n{HEAD}\n{{\nfloat m = out[3]; int k = n[2], l = n[3];\n{body}\n"
        "out[3] = m; n[2] = k; n[3] = l;\n}\n"
    )
    return load(path).scops[0]


def parts(scop: Scop) -> list[Step]:
    return [step for step in canonical(scop).steps if isinstance(step.rewrite, Partial)]


def inputs(special: bool) -> dict[str, np.ndarray]:
    """Integers, so that sums are exact in any order; `special`: with some that are no numbers, and zeros of both
    signs."""
    generator = np.random.default_rng(5)
    made = {}
    for name, shape in SHAPES.items():
        values = generator.integers(-9, 10, shape)
        made[name] = values.astype(np.int32 if name in "pn" else np.float32)
        if special and name in ("A", "x"):
            flat = made[name].reshape(-1)
            flat[generator.integers(0, flat.size, 20)] = np.nan
            flat[generator.integers(0, flat.size, 20)] = -0.0
    return made


def run(function: Callable[..., object], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    copies = {name: values.copy() for name, values in arrays.items()}
    function(*(c.ctypes.data_as(ctypes.c_void_p) for c in copies.values()))
    return copies


@pytest.mark.parametrize("case", list(CASES))
def test_the_same_results_on_all_threads(tmp_path: Path, case: str) -> None:
    body, chunk = CASES[case]
    scop = scop_of(tmp_path, body)
    made = parts(scop)
    assert made and made[0].rewrite.chunk == chunk and all(step.broken() is None for step in made)
    assert not {n for n, a in canonical(scop).scop.arrays.items() if a.storage is Storage.SCRATCH} & scop.live_out
    ranking = rank(scop, options=OPTIONS)
    variants = list(islice((v for v in ranking.variants if "omp parallel" in v.region()), 2))
    assert variants
    # A sum meets what is no number in any order; which of two zeros is taken, only the order of comparisons says.
    arrays = [inputs(False)] + ([inputs(True)] if "fmaxf" not in body else [])
    if "number" in case:
        arrays.append(inputs(True))
        for name, none in (("x", 230), ("A", 17), ("out", 4)):  # no number in whole parts, nor before
            arrays[-1][name][:none] = np.nan
    original = compile_c([(tmp_path / "s.c").read_text()], (*PLAIN, "-ffp-contract=off"))
    wanted = [run(original.f, one) for one in arrays]
    texts = [apart(re.sub(r"\bf\(", f"f{k}(", variant.code()), f"v{k}") for k, variant in enumerate(variants)]
    library = compile_c(texts, FLAGS)
    for number, variant in enumerate(variants):
        for one, want in zip(arrays, wanted, strict=True):
            got = run(library[f"f{number}"], one)
            for name in SHAPES:
                assert np.array_equal(got[name], want[name], equal_nan=name not in "pn"), (name, variant)
        proof = proof_of(ranking.program, variant, OPTIONS)
        assert proof.holds, proof


def test_the_number_of_threads_changes_no_bit(tmp_path: Path) -> None:
    """Real numbers, whose sums round: there are as many parts as there are, put together in one order."""
    scop = scop_of(tmp_path, CASES["a row beside a sum"][0])
    ranking = rank(scop, options=OPTIONS)
    generator = np.random.default_rng(8)
    arrays = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    arrays |= {name: np.zeros(SHAPES[name], np.int32) for name in "pn"}
    variant = next(v for v in ranking.variants if "omp parallel" in v.region())
    library = compile_c([variant.code()], FLAGS)
    found = []
    for threads in (1, 2, 3, 5):
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
        found.append(run(library.f, arrays))
    want = arrays["x"][:30] + 2 * arrays["A"].astype(np.float64).sum(0)
    assert np.allclose(found[0]["x"][:30], want, rtol=1e-5, atol=1e-5)
    assert all(np.array_equal(found[0][name], other[name]) for other in found[1:] for name in SHAPES)


LEFT_ALONE = {
    "used on the way": f"{LONG} {{ out[0] += x[i]; y[i] = out[0]; }}",
    "an element for each iteration": f"{EACH} A[i][0] += B[i][j];",
    "already on all threads": f"{EACH} x[i] += B[i][j];",
    "other dependences": "for (int i = 1; i < 500; i++) { y[i] = y[i - 1] + x[i]; out[0] += x[i]; }",
    "one that is no number counts": f"{LONG} {{ y[i] = x[i]; m = m > x[i] ? m : x[i]; }}",
    "the last of equals": f"{LONG} {{ y[i] = x[i]; if (x[i] >= m) m = x[i]; }}",
    "one of another that is none": f"{LONG} {{ if (x[i] > m || x[i] != x[i]) m = x[i]; y[i] = x[i]; }}",
    "sums and products": f"{LONG} {{ out[0] += x[i]; y[i] = 1; out[0] *= x[i]; }}",
    "two extremes": f"{LONG} {{ if (x[i] > m) m = x[i]; if (y[i] < m) m = y[i]; }}",
    "where the last one is": f"{LONG} if (x[i] >= m) {{ m = x[i]; k = i; }}",
    "where another one is": f"{LONG} {{ if (x[i] > m) k = i; if (y[i] > m) m = y[i]; }}",
    "where it was": f"{LONG} {{ if (x[i] > m) m = x[i]; if (x[i] > m) k = i; }}",
    "cut off": f"{LONG} if (x[i] > k) k = x[i];",
    "where one is that is rounded": f"{LONG} if (1 + 1e-9 * x[i] > m) {{ m = 1 + 1e-9 * x[i]; k = i; }}",
    "downwards": "for (int i = 499; i > 0; i--) { y[i] = y[i - 1]; out[0] += x[i]; }",
    "columns on threads": f"{EACH} {{ x[j] += A[i][j]; y[j] += B[i][j]; }}",
    "a row that is read": (
        "for (int i = 0; i < 40; i++) { for (int j = 0; j < 30; j++) B[i][j] = x[j]; "
        "for (int j = 0; j < 30; j++) x[j] += A[i][j]; }"
    ),
    "another element of the row": (
        "for (int i = 0; i < 40; i++) { float s = 0; for (int j = 0; j < 30; j++) s += A[i][j]; "
        "for (int j = 0; j < 30; j++) { x[j] += s; x[j + 1] += A[i][j]; } }"
    ),
    "more columns than rows": (
        "for (int i = 0; i < 10; i++) { float s = 0; for (int j = 0; j < 30; j++) s += A[i][j]; "
        "for (int j = 0; j < 30; j++) x[j] += s * A[i][j]; }"
    ),
    "something else of the array": f"{LONG} {{ out[0] += x[i]; out[1] = x[i]; }}",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_nothing_else_looks(tmp_path: Path, case: str) -> None:
    assert not parts(scop_of(tmp_path, LEFT_ALONE[case]))


def test_the_order_of_a_sum_may_be_kept(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, CASES["a sum beside a store"][0])
    assert not any(isinstance(s.rewrite, Partial) for s in canonical(scop, reassociate=False).steps)


def test_short_loops_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 2401)
    assert not parts(scop_of(tmp_path, CASES["a sum beside a store"][0]))


LEAST_PIECES = {
    "signed char": ("if (x[i] < low) low = x[i]; if (x[i] > high) high = x[i];", 1 << 15, 1 << 16),
    "double": ("if (x[i] < low) low = x[i]; if (x[i] > high) high = x[i];", 1 << 12, 1 << 14),
    "float": ("high += expf(x[i]) * x[i];", 1 << 9, 1 << 12),
}
"""By type: a loop, and between how many iterations its pieces have."""


@pytest.mark.parametrize("element", list(LEAST_PIECES))
def test_pieces_are_long_enough_to_pay(element: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in caches is one piece, with its accumulators in registers throughout; how long the others are,
    what an iteration computes says, in vectors."""
    monkeypatch.undo()
    body, low, high = LEAST_PIECES[element]

    def of(n: int) -> list[Step]:
        path = tmp_path / f"{n}.c"
        head = f"#include <math.h>\nvoid f({element} x[restrict {n}], {element} out[restrict 2])"
        path.write_text(
            f"{head}\n{{\n{element} low = out[0], high = out[1];\n"
            f"for (int i = 0; i < {n}; i++) {{ {body} }}\nout[0] = low; out[1] = high;\n}}\n"
        )
        return parts(load(path).scops[0])

    assert not of(2 * low - 1)
    made = of(1 << 20)
    assert made and low <= made[0].rewrite.chunk <= high, made[0].rewrite.chunk
    assert of(1 << 28)[0].rewrite.chunk == (1 << 28) // module.PARTS


@pytest.mark.parametrize("case", ["a sum beside a store", "of a long loop", "the greatest"])
def test_another_program_is_seen(tmp_path: Path, case: str) -> None:
    (step,) = parts(scop_of(tmp_path, CASES[case][0]))
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert "was changed" in str(replace(step, after=fewer).broken())


@pytest.mark.parametrize("case", ["used on the way", "the last of equals", "sums and products"])
def test_the_check_looks_for_itself(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, LEFT_ALONE[case])
    names = tuple(s.name for s in scop.statements if any(a.array in ("out", "m") and a.write for a in s.accesses))
    assert Partial(names, 0, 1).broken(scop, scop)
