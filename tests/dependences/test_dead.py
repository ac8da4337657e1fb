"""What is live after a region decides which of its statements stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polydl.equations.step import Step, applied
from polydl.model.scop import Scop
from polydl.rewrite.dead import LeftOut, without_dead
from tests.frontend.reading import region

HEAD = "void f(double A[20], double B[20], double C[20])"
BODY = """
    for (int i = 0; i < 20; i++) {
        double t = A[i] * 2;
        B[i] = t + 1;
        C[i] = A[i];
    }
    for (int i = 1; i < 20; i++)
        C[i] += C[i - 1];
"""


def left(scop: Scop) -> Scop:
    steps = list(without_dead(scop))
    assert all(step.broken() is None for step in steps)
    return applied(scop, steps)


def kept(folder: Path, facts: str) -> tuple[list[str], set[str]]:
    found = left(region(folder, facts + BODY, HEAD))
    return [s.name for s in found.statements], set(found.arrays)


def test_all_parameters_are_live(tmp_path: Path) -> None:
    assert kept(tmp_path, "")[0] == ["S0", "S1", "S2", "S3"]


def test_live_out_keeps_what_it_needs(tmp_path: Path) -> None:
    statements, arrays = kept(tmp_path, "#pragma polydl live_out(C)\n")
    assert statements == ["S2", "S3"]
    assert arrays == {"A", "B", "C"}, "the region's own text still uses B, and declares t itself"
    assert kept(tmp_path, "#pragma polydl live_out(B)\n")[0] == ["S0", "S1"]


def test_dead_drops_writers(tmp_path: Path) -> None:
    assert kept(tmp_path, "#pragma polydl dead(B)\n")[0] == ["S2", "S3"]


def test_a_dead_region_stays(tmp_path: Path) -> None:
    assert kept(tmp_path, "#pragma polydl dead(A, B, C)\n")[0] == ["S0", "S1", "S2", "S3"]


def test_a_dead_array_that_is_read_stays(tmp_path: Path) -> None:
    body = "#pragma polydl dead(B)\nfor (int i = 0; i < 20; i++) { B[i] = A[i]; C[i] = B[19 - i]; }"
    assert [s.name for s in left(region(tmp_path, body, HEAD)).statements] == ["S0", "S1"]


def test_what_never_runs_is_left_out(tmp_path: Path) -> None:
    """The remainder of a loop that was unrolled by hand, at a size that leaves none."""
    body = (
        "int i; for (i = 0; i + 1 < 20; i += 2) { B[i] = A[i]; B[i + 1] = A[i + 1]; } for (; i < 20; i++) B[i] = A[i];"
    )
    scop = region(tmp_path, body, HEAD)
    (step,) = without_dead(scop)
    assert str(step) == "S2 never runs at these sizes: it is left out"
    assert [s.name for s in left(scop).statements] == ["S0", "S1"]
    wrong = Step(LeftOut((), ("S1",)), scop, replace(scop, statements=(scop.statements[0], scop.statements[2])))
    assert wrong.broken() is not None
