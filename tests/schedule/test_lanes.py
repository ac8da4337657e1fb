"""Vector loops around one other loop, which each lane runs by itself."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.rewrite.canonical import canonical
from polydl.schedule.as_tree import written
from polydl.schedule.direction import moving
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import direct
from polydl.schedule.transforms import Schedule, Vectorize
from polydl.schedule.tree import Band, Run, bands
from polydl.schedule.tree_check import broken
from polydl.search.candidates import made
from polydl.target.machine_files import preset
from tests.compiling import run_compiler

NEAREST = """
void nearest(int n, const float p[restrict n][8], const float c[restrict 20][8], int label[restrict n],
             float least[restrict n])
{
    for (int i = 0; i < n; i++) {
        int best = -1;
        float best_d = 1e30f;
        for (int k = 0; k < 20; k++) {
            float d = 0.0f;
            for (int j = 0; j < 8; j++) {
                float t = p[i][j] - c[k][j];
                d += t * t;
            }
            if (d < best_d) {
                best_d = d;
                best = k;
            }
        }
        label[i] = best;
        least[i] = best_d;
    }
}
"""
N = 2053
FORCES = """
void forces(int n, const double x[restrict n], double f[restrict n])
{
    for (int i = 0; i < n; i++) {
        double s = 0.0;
        for (int j = 0; j < n; j++) {
            double d = x[j] - x[i];
            s = s < d ? s + d * d : s - d;
        }
        f[i] = s;
    }
}
"""


def scheduled(text: str, tmp_path: Path, how: Schedule, n: int = N) -> tuple[Scop, Ordered]:
    path = tmp_path / "k.c"
    path.write_text(text)
    scop = canonical(load(path, sizes={"n": n}).scops[0]).scop
    found = dependences(scop, reads=False)
    tree = made(
        scop, moving(scop, scop.statements), direct(scop, scop.statements, found), written(scop.statements), how,
        reassociate=True,
    )  # fmt: skip
    assert broken(scop, scop.statements, tree, found, reassociate=False) is None
    return scop, Ordered.scheduled(scop.statements, how, tree)


def runs(part: Ordered) -> list[tuple[Run, bool]]:
    return [(m.run, m.unroll) for band in bands(part.tree) for m in band.members]


UNROLL = Schedule("written", unroll=True)


def test_one_loop_stays_inside_of_the_vector_loop(tmp_path: Path) -> None:
    _, part = scheduled(NEAREST, tmp_path, UNROLL)
    assert runs(part) == [(Run.PARALLEL, False), (Run.SIMD, False), (Run.SERIAL, False), (Run.SERIAL, True)]
    _, part = scheduled(FORCES, tmp_path, UNROLL)
    assert runs(part) == [(Run.PARALLEL, False), (Run.SIMD, False), (Run.SERIAL, False)]


@pytest.mark.parametrize(
    ("loop", "change"),
    [
        ("elements that jump from lane to lane while the loop runs", ("x[j] - x[i]", "x[n * i + j] - x[i]")),
        ("another number of iterations in each lane", ("j = 0; j < n", "j = 0; j < i")),
    ],
)
def test_what_does_not_suit_lanes_stays(tmp_path: Path, loop: str, change: tuple[str, str]) -> None:
    text = FORCES.replace(*change).replace("x[restrict n]", "x[restrict n * n]")
    assert text != FORCES, loop
    _, part = scheduled(text, tmp_path, UNROLL)
    assert not any(run is Run.SIMD for run, _ in runs(part)), loop


def test_a_loop_further_in_that_runs_in_vectors_goes_first(tmp_path: Path) -> None:
    text = """
void scaled(int n, const double x[restrict n], double f[restrict n][n])
{
    for (int i = 0; i < n; i++) {
        double t = x[i] * 2.0;
        for (int j = 0; j < n; j++)
            f[i][j] = t * x[j];
    }
}
"""
    _, part = scheduled(text, tmp_path, UNROLL)
    assert runs(part) == [(Run.PARALLEL, False), (Run.SIMD, False)]


def library(text: str, tmp_path: Path, name: str) -> ctypes.CDLL:
    source = tmp_path / f"{name}.c"
    source.write_text(text)
    output = tmp_path / f"{name}.so"
    flags = ("-O3", "-march=native", "-fopenmp", "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC")
    run_compiler(["gcc", *flags, str(source), "-o", str(output)])
    return ctypes.CDLL(str(output))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def test_each_lane_computes_what_its_iteration_does(tmp_path: Path) -> None:
    """In bits, of numbers of all kinds: nothing is added up in another order."""
    rng = np.random.default_rng(1)
    for text, element in ((NEAREST, np.float32), (FORCES, np.float64)):
        scop, part = scheduled(text, tmp_path, UNROLL)
        output = splice(scop.source, [(scop, generate(scop, program_tree([part])))], "")
        assert "omp simd private(" in output
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-45], element)
        x = rng.standard_normal((N, 8)).astype(element)
        x[rng.random((N, 8)) < 0.05] = rng.choice(special)
        x[:, 3] = np.where(rng.random(N) < 0.1, rng.choice(special, N), x[:, 3])
        found = []
        for name, one in (("original", text), ("lanes", output)):
            code = library(one, tmp_path, f"{name}{element().itemsize}")
            label, least = np.zeros(N, np.int32), np.zeros(N, element)
            if text == NEAREST:
                code.nearest(N, pointer(x), pointer(x[100:120].copy()), pointer(label), pointer(least))
            else:
                code.forces(N, pointer(x[:, 3].copy()), pointer(least))
            found.append((label, least))
        assert np.array_equal(found[0][0], found[1][0])
        both = np.isnan(found[0][1]) & np.isnan(found[1][1])
        assert np.array_equal(
            found[0][1].view(np.uint8).reshape(N, -1)[~both], found[1][1].view(np.uint8).reshape(N, -1)[~both]
        )
        assert np.array_equal(np.isnan(found[0][1]), np.isnan(found[1][1]))


def test_lanes_are_worth_more_than_a_sum_for_each_iteration(tmp_path: Path) -> None:
    scop, lanes = scheduled(NEAREST, tmp_path, UNROLL, 100_000)
    _, sums = scheduled(NEAREST, tmp_path, Schedule("written"), 100_000)
    footprints, target = footprints_of(scop, scop.statements), preset("xeon-8480plus")
    best = tree_estimate(footprints, lanes.tree, target, 1).score
    rows = lanes.after(Vectorize())
    assert tree_estimate(footprints, rows.tree, target, 1).score == pytest.approx(best, rel=1e-3)
    for other in (sums, sums.after(Vectorize())):
        assert best < 0.5 * tree_estimate(footprints, other.tree, target, 1).score


def test_what_is_inside_of_lanes_is_no_row(tmp_path: Path) -> None:
    scop, lanes = scheduled(NEAREST, tmp_path, UNROLL)
    assert "polydl_row" not in generate(scop, program_tree([lanes.after(Vectorize())])).region


def test_a_loop_of_one_iteration_has_no_lanes(tmp_path: Path) -> None:
    """Nor do the loops inside take its mark, which C has no loop for."""
    text = FORCES.replace("i = 0; i < n", "i = 0; i < 1")
    assert text != FORCES
    scop, part = scheduled(text, tmp_path, UNROLL)
    assert not any(run is Run.SIMD for run, _ in runs(part))
    node = written(scop.statements)
    assert isinstance(node, Band) and len(node.members) == 1
    vector = Band((replace(node.members[0], run=Run.SIMD),), node.child)
    assert broken(scop, scop.statements, vector, dependences(scop, reads=False), reassociate=False) is None
    code = generate(scop, program_tree([Ordered.scheduled(scop.statements, UNROLL, vector)]))
    assert "for (" in code.region and "omp simd" not in code.region
