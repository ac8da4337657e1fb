"""Chains within each element whose length nobody knows, in lanes: the bits of the loops as written, at every size."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.schedule.check import check
from polydl.search.region_choice import chained
from polydl.search.sizes.code import EverySize, Setting
from polydl.search.sizes.lanes import candidates_in_lanes
from polydl.target import preset
from tests.oracle.native import compile_c
from tests.search.test_partial_sums import bases

FLAGS = ("-O1", "-march=native", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
HEAD = "void f(int n, int m, const double *restrict x, const double *restrict c, double *restrict y)"
CHAINS = {
    "horner": "double r = c[m - 1]; for (int k = m - 2; k >= 0; k--) r = r * x[i] + c[k]; y[i] = r;",
    "horner upwards": "double r = 0.0; for (int k = 0; k < m; k++) r = r * x[i] + c[k]; y[i] = r;",
    "in place": "y[i] = 1.0; for (int k = 0; k < m; k++) y[i] = y[i] * x[i] + c[k];",
    "again and again": "double r = x[i]; for (int k = 0; k < m; k++) r = 0.5 * (r + c[k] / (r * r + 1)); y[i] = r;",
    "two values": (
        "double a = 1.0, b = x[i]; "
        "for (int k = 0; k < m; k++) { double t = 2.0 * x[i] * b - a; a = b; b = t + c[k]; } y[i] = b;"
    ),
}
SIZES = [(1, 1), (7, 1), (1, 30), (8, 3), (33, 65), (2047, 5), (2048, 2), (2049, 3), (4100, 17)]


def source(body: str) -> str:
    return f"{HEAD}\n{{\n    for (int i = 0; i < n; i++) {{ {body} }}\n}}\n"


@pytest.mark.parametrize("name", CHAINS)
def test_each_lane_runs_the_chain(name: str, tmp_path: Path) -> None:
    text = source(CHAINS[name])
    base, program = bases(tmp_path, text)
    assert chained(base.scop, base.scop.statements)
    found, left_out = candidates_in_lanes(base, Setting(preset("epyc-zen4"), 2, reassociate=False))
    assert len(found) == 2 and not left_out
    alone, _ = candidates_in_lanes(base, Setting(preset("epyc-zen4"), 1, reassociate=False))
    assert [one.recipe for one in alone] == [found[1].recipe]
    original = compile_c([text], FLAGS)
    for one, parallel in zip(found, (True, False), strict=True):
        assert check(one.base.scop, one.tree, one.base.dependences, reassociate=False) is None
        code = generate(one.base.scop, one.tree)
        assert "omp simd" in code.region and ("omp parallel for" in code.region) == parallel
        library = compile_c([splice(program.source, [(program.scops[0], code)], "")], FLAGS)
        for n, m in SIZES:
            rng = np.random.default_rng(n + m)
            x, c = rng.standard_normal(n), rng.standard_normal(m)
            x[rng.random(n) < 0.05] = np.inf
            results = []
            for each in (original, library):
                y = np.zeros(n)
                each.f(n, m, *(ctypes.c_void_p(a.ctypes.data) for a in (x, c, y)))
                results.append(y)
            np.testing.assert_array_equal(results[0], results[1], err_msg=f"{n}, {m}")


ALONE = {
    "no loop inside": "y[i] = x[i] * c[0];",
    "a sum, which vectors add up": "for (int k = 0; k < m; k++) y[i] += x[i * m + k] * c[k];",
    "more iterations in each lane": "double r = 0.0; for (int k = 0; k < i; k++) r = r * x[i] + 1.0; y[i] = r;",
}


@pytest.mark.parametrize("name", ALONE)
def test_what_suits_no_lanes(name: str, tmp_path: Path) -> None:
    base, _ = bases(tmp_path, source(ALONE[name]))
    assert chained(base.scop, base.scop.statements) == ("more iterations" in name)
    assert candidates_in_lanes(base, Setting(preset("epyc-zen4"), 2)) == ([], [])


@pytest.mark.few_sizes
@pytest.mark.parametrize(("m", "lanes"), [(12, 1), (300, 2)])
def test_they_are_chosen_at_every_size(m: int, lanes: int, tmp_path: Path) -> None:
    """Whether the chain is written out at the tuned size, in a row, or is too long for that. A row whose length is a
    parameter is none: it is not taken for what it would be at numbers."""
    path = tmp_path / "horner.c"
    path.write_text(source(CHAINS["horner upwards"]))
    done = polydl.optimize(path, sizes={"n": 100_000, "m": m}, run=False, threads=1, machine="epyc-zen5")
    (scop,) = done.scops
    assert isinstance(scop.other_sizes, EverySize), scop.other_sizes
    assert done.text.count("omp simd") == lanes
