"""The table of combiners stands alone, says what is so, and is all that a new combiner needs."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polydl import load, rank
from polydl.dependences.analysis import dependences
from polydl.model import combiners
from polydl.model.combiners import COMBINERS, Combiner, Regrouping, adds, idle, of_assignment, of_comparison, subtracts
from polydl.model.scop import Scop
from polydl.model.types import F32, F64, I32, I64, U32
from polydl.options import Options
from polydl.rewrite import partial_results as partial
from polydl.rewrite.canonical import canonical
from polydl.rewrite.reduction_privatisation import Partial
from polydl.search.proofs import proof_of
from tests.rewrite.executing import called, compiled

PACKAGE = Path(__file__).parent.parent / "polydl"
TABLE = PACKAGE / "model" / "combiners.py"

OPERATORS = {one.op for row in COMBINERS for one in row.compounds}
ANY_ASSIGNMENT = {"="}
"""`=` beside one that combines: what is asked is whether a value begins or grows."""


def faults(text: str) -> list[str]:
    """Where a module has several accumulating operators in a collection."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Dict(keys, _):
                nodes: list[ast.expr | None] = list(keys)
            case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
                nodes = list(elts)
            case _:
                continue
        inside = [n.value for n in nodes if isinstance(n, ast.Constant)]
        several = {word for word in inside if word in OPERATORS}
        if len(several) > 1 and not ANY_ASSIGNMENT & set(inside):
            found.append(f"line {node.lineno}: {sorted(several)}")
    return found


@pytest.mark.parametrize(
    "path", sorted(set(PACKAGE.rglob("*.py")) - {TABLE}), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_other_module_lists_what_accumulates(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


def test_faults_are_seen() -> None:
    assert faults('if op in ("+=", "-="): pass')
    assert faults('NEUTRAL = {"+=": "0", "*=": "1"}')
    assert not faults('if op in ("=", "+=", "*="): pass\nx = ("+=",)')


MEANING: dict[str, Callable[[float, float], float]] = {
    "sum": operator.add, "product": operator.mul, "max": lambda m, x: x if x > m else m,
    "min": lambda m, x: x if x < m else m, "fmax": np.fmax, "fmin": np.fmin,
    "max_number": lambda m, x: x if x > m or m != m else m, "min_number": lambda m, x: x if x < m or m != m else m,
}  # fmt: skip
BITS: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def bits(value: float) -> bytes:
    return np.float64(value).tobytes()


def test_every_row_is_tried() -> None:
    assert {row.name for row in COMBINERS} == {*MEANING, *BITS}


@pytest.mark.parametrize("row", COMBINERS, ids=lambda row: row.name)
def test_integers_may_be_combined_in_any_grouping(row: Combiner) -> None:
    f = MEANING.get(row.name) or BITS[row.name]
    assert row.regrouping(I32) is Regrouping.EXACT
    for a, b, c in itertools.product((-5, 0, 3, 12), repeat=3):
        assert f(f(a, b), c) == f(a, f(b, c)) == f(f(c, a), b)


@pytest.mark.parametrize("row", [row for row in COMBINERS if row.name in MEANING], ids=lambda row: row.name)
def test_what_another_grouping_does_to_floats(row: Combiner) -> None:
    """FIRST: the same values, and where bits differ they are those of zeros; ROUNDS: other bits do turn up."""
    f = MEANING[row.name]
    values = (0.1, -0.0, 0.0, 3.0, 1e-17, -0.7)
    differing = [
        (f(f(a, b), c), f(f(c, b), a))
        for a, b, c in itertools.product(values, repeat=3)
        if bits(f(f(a, b), c)) != bits(f(f(c, b), a))
    ]
    assert differing
    if row.regrouping(F64) is Regrouping.FIRST:
        assert all(one == other == 0 for one, other in differing)
        grouped = [(f(f(a, b), f(a, c)), f(f(a, b), c)) for a, b, c in itertools.product(values, repeat=3)]
        assert all(bits(one) == bits(other) for one, other in grouped)  # in order, from the m that there is


@pytest.mark.parametrize("row", COMBINERS, ids=lambda row: row.name)
def test_where_groups_start(row: Combiner) -> None:
    """A neutral value changes nothing but the sign of a zero; without one, m may be combined twice."""
    f = MEANING.get(row.name) or BITS[row.name]
    neutral = -1 if row.neutral == "~0" else None if row.neutral is None else int(row.neutral)
    for m, x in itertools.product((-5, 0, 3, 12), repeat=2):
        if neutral is None:
            assert f(f(m, x), m) == f(m, x)
        else:
            assert f(m, neutral) == f(neutral, m) == m
    assert row.start(I32) == row.neutral


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_what_leaves_a_value_as_it_is(op: str) -> None:
    python = {
        "+=": operator.add, "-=": operator.sub, "*=": operator.mul,
        "|=": operator.or_, "^=": operator.xor, "&=": operator.and_,
    }  # fmt: skip
    text = idle(op, F32, F32)
    if text is not None:
        for m in (0.0, -0.0, 1.5, math.inf, -math.inf, 1e-320):
            assert bits(python[op](m, float(text))) == bits(m)
    whole = idle(op, I32, I32)
    assert whole is not None
    assert all(python[op](m, int(whole)) == m for m in (-7, 0, 12))
    assert idle(op, I32, F32) is None
    longer = idle(op, I64, U32)
    assert longer is None if whole == "-1" else longer == whole, "-1 beside an unsigned value has 32 ones"


def test_questions() -> None:
    assert [adds(op) for op in ("+=", "-=", "*=", "=", "/=")] == [True, True, False, False, False]
    assert [subtracts(op) for op in ("+=", "-=", "*=", "=", "/=")] == [False, True, False, False, False]
    assert of_assignment("-=") is of_assignment("+=") is combiners.SUM
    assert of_assignment("|=") is combiners.OR and of_assignment("%=") is None
    assert of_comparison("<") is combiners.MIN and of_comparison("") is None
    assert combiners.of_function("fmaxf") is combiners.FMAX and combiners.of_function("logaddexp") is None
    assert combiners.SUM.start(F32) == "0.0f" and combiners.PRODUCT.start(F64) == "1.0"


LOGADDEXP = Combiner("logaddexp", Regrouping.ROUNDS, function="logaddexp", neutral="-INFINITY")
PROGRAM = """
#include <math.h>
float logaddexp(float a, float b) __attribute__((const));
void f(float y[restrict 500], const float x[restrict 500], float out[restrict 1])
{
    float m = out[0];
#pragma scop
    for (int i = 0; i < 500; i++) {
        y[i] = 2 * x[i];
        m = logaddexp(m, x[i]);
    }
#pragma endscop
    out[0] = m;
}
"""
FUNCTION = """
#include <math.h>
float logaddexp(float a, float b)
{
    const float most = a > b ? a : b, least = a > b ? b : a;
    return most == least ? most + 0.69314718f : most + log1pf(expf(least - most));
}
"""
OPTIONS = Options(threads=2, space="small", machine="epyc-zen3")


def parts(scop: Scop, *, reassociate: bool = True) -> list[Partial]:
    return [s.rewrite for s in canonical(scop, reassociate=reassociate).steps if isinstance(s.rewrite, Partial)]


def test_one_row_makes_a_reduction_run_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that nothing is known of keeps its loop in order; with a row, threads have a part of the result each,
    where sums may be added up in another order."""
    monkeypatch.setattr(partial, "LEAST", 1)
    monkeypatch.setattr(partial, "PIECE_CYCLES", 0)
    source = tmp_path / "s.c"
    source.write_text(PROGRAM)
    scop = load(source).scops[0]
    assert any(d.array == "m" and not d.reduction for d in dependences(scop, reads=False))
    assert parts(scop) == []
    monkeypatch.setattr(combiners, "COMBINERS", (*COMBINERS, LOGADDEXP))
    assert len(parts(scop)) == 1 and parts(scop, reassociate=False) == []
    found = rank(scop, options=OPTIONS)
    variant = next(v for v in found.variants if "omp parallel" in v.region())
    assert "= -INFINITY;" in variant.region() and proof_of(found.program, variant, OPTIONS).holds
    flags = ("-O2", "-march=native", "-fopenmp", "-Werror", "-Wno-maybe-uninitialized")
    original = compiled(tmp_path, "original", [PROGRAM, FUNCTION], flags)
    made = compiled(tmp_path, "made", [variant.code(), FUNCTION], flags)
    x = np.random.default_rng(3).normal(0, 4, 500).astype(np.float32)
    for start in (-np.inf, 0.0, 50.0):
        arrays = {"y": np.zeros(500, np.float32), "x": x, "out": np.array([start], np.float32)}
        want, got = called(original, "f", arrays), called(made, "f", arrays)
        exact = np.logaddexp.reduce(np.append(x.astype(np.float64), start))
        assert np.allclose([want["out"][0], got["out"][0]], exact, rtol=1e-4)
        assert np.array_equal(want["y"], got["y"])
