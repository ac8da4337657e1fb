"""Whoever tests, is tested: polydl with a fault of its front end or its rows brought back computes other values, and
the calls of each output beside its source say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import polydl
from polydl.frontend.lower import inlined
from polydl.frontend.meaning import affine, memory_places
from polydl.frontend.meaning.integer_ranges import Fit
from polydl.lower.passes import row_calls
from polydl.model import combiners
from polydl.model.combiners import Regrouping
from polydl.model.joint_combiners import JOINT_COMBINERS, JointCombiner
from polydl.rewrite import joint_groups

Patch = Callable[[pytest.MonkeyPatch], None]


def names_are_places(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_places, "conflict", lambda one, other: False)


def nothing_wraps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(affine, "fit", lambda *given, **more: Fit.SURE)


def arguments_by_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inlined._Expander, "_fixed", lambda self, given, *more: given)


def rows_without_columns_are_called(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_calls, "runs", lambda loop: None)


def weights_are_positive(patch: pytest.MonkeyPatch) -> None:
    def careless(one: JointCombiner) -> JointCombiner:
        return replace(one, block=tuple(replace(step, usable="", otherwise="") for step in one.block))

    patch.setattr(joint_groups, "JOINT_COMBINERS", tuple(map(careless, JOINT_COMBINERS)))


def products_are_regrouped(patch: pytest.MonkeyPatch) -> None:
    careless = replace(combiners.PRODUCT, floats=Regrouping.ROUNDS)
    patch.setattr(
        combiners, "COMBINERS", (careless, *(one for one in combiners.COMBINERS if one is not combiners.PRODUCT))
    )


QUICK: dict[str, Any] = {"space": "small", "budget": 2.0}


@dataclass(frozen=True)
class Case:
    mutant: Patch
    source: str
    sizes: Mapping[str, int] = field(default_factory=dict)


CASES = {
    "a store through a pointer under a condition": Case(
        names_are_places,
        """
void f(int n, float *restrict a, float *restrict b)
{
    for (int i = 0; i < n; i++) {
        float *q = a + i;
        *q = *q * 2.0f;
        b[i] = 0.0f;
        if (a[i] > 0.0f) { *q = -1.0f; b[i] = 1.0f; }
    }
}
""",
        {"n": 100},
    ),
    "rows of sums that are read through another name": Case(
        names_are_places,
        """
void f(int n, int m, const int ptr[restrict n + 1], const int idx[restrict 64],
       const float val[restrict 64], float y[restrict n][m])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            const float *q = y[0];
            float s = 0;
            for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * q[idx[p]];
            y[i][j] = s;
        }
}
""",
        {"n": 8, "m": 8},
    ),
    "a product that wraps, shifted": Case(
        nothing_wraps,
        """
void f(float x[restrict 1024])
{
    for (unsigned i = 0; i < 1024u; i++) x[i] = (float)((i * 2654435761u) >> 16);
}
""",
    ),
    "a counter that wraps": Case(
        nothing_wraps,
        """
void f(const float x[restrict 1000], float y[restrict 1000])
{
    unsigned k = 0;
    for (int i = 0; i < 1000; i++) { y[i] = x[k % 1000u]; k += 2654435761u; }
}
""",
    ),
    "a place that the call moves": Case(
        arguments_by_name,
        """
static void put(const float *p, int *k, float *b, int i) { k[0] = k[0] + 1; b[i] = p[0]; }
void f(const float a[restrict 100], int k[restrict 1], float b[restrict 50])
{
    for (int i = 0; i < 50; i++) put(a + k[0], k, b, i);
}
""",
    ),
    "a row in front of its array": Case(
        rows_without_columns_are_called,
        """
void f(int n, double acc[restrict n], double x[restrict n], double L[restrict n][n])
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i - 5; j++) acc[i - 6] += L[i][j] * x[j];
        x[i] = 0.5 * x[i] + 0.001 * acc[0];
    }
}
""",
        {"n": 100},
    ),
    "weights that are zero": Case(
        weights_are_positive,
        """
void f(const double x[restrict 20000], const double w[restrict 20000], double out[restrict 3])
{
    double mean = 0, m2 = 0, n = 0;
    for (int i = 0; i < 20000; i++) {
        n += w[i];
        double d = x[i] - mean;
        mean += d * w[i] / n;
        m2 += w[i] * d * (x[i] - mean);
    }
    out[0] = mean; out[1] = m2; out[2] = n;
}
""",
    ),
    "a product that overflows on the way": Case(
        products_are_regrouped,
        """
void f(int n, const double a[restrict n], double p[restrict 1])
{
    for (int i = 0; i < n; i++) p[0] *= a[i];
}
""",
        {"n": 1000},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_that_is_brought_back_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    sound = polydl.optimize(case.source, run=False, sizes=case.sizes, **QUICK)
    assert sound.checked.calls and not sound.checked.faults
    case.mutant(monkeypatch)
    assert polydl.optimize(case.source, run=False, sizes=case.sizes, **QUICK).checked.faults
