"""Slices of slow originals: that they compute what the whole does, and verification that runs slices only."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.lower.emit import Generated
from polydl.measure import ORIGINAL, Report, Status, Toolchain, by_slices, measure
from polydl.measure.slices import Slice, original_slices
from polydl.measure.unit import original_code, passed_arrays, unit_text
from polydl.model.scop import Scop
from tests.compiling import run_compiler
from tests.measure.builders import IKJ, QUICK, matmul

PROGRAMS = {
    "product": (
        "void f(float A[37][29], float B[29][41], float C[37][41])",
        (
            "for (int i = 0; i < 37; i++) for (int j = 0; j < 41; j++) { C[i][j] = 0;"
            " for (int k = 0; k < 29; k++) C[i][j] += A[i][k] * B[k][j]; }"
        ),
        ("C",),
    ),
    "chain": (
        "void f(float A[31][23], float B[23][19], float T[31][19], float D[19][27], float E[31][27])",
        (
            "for (int i = 0; i < 31; i++) for (int j = 0; j < 19; j++) { T[i][j] = 1;"
            " for (int k = 0; k < 23; k++) T[i][j] += A[i][k] * B[k][j]; }"
            " for (int i = 30; i >= 0; i--) for (int l = 0; l < 27; l++) for (int j = 0; j < 19; j++)"
            " E[i][l] += T[i][j] * D[j][l];"
        ),
        ("T", "E"),
    ),
    "scalar": (
        "void f(float A[37][29], float B[29][41], float C[37][41])",
        (
            "float s; for (int i = 0; i < 37; i++) for (int j = 0; j < 41; j++) { s = 2 * C[i][j];"
            " for (int k = 0; k <= j && k < 29; k++) s += A[i][k] * B[k][j]; C[i][j] = s; }"
        ),
        ("C",),
    ),
}


def _load(name: str, folder: Path) -> Scop:
    head, body, _ = PROGRAMS[name]
    path = folder / f"{name}.c"
    path.write_text(f"{head}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return pipeline.only_scop(pipeline.load(path))


def _run(scop: Scop, name: str, code: Generated, inputs: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """What the unit of a candidate leaves in its arrays."""
    source, library = folder / "unit.c", folder / f"{name}.so"
    source.write_text(unit_text(scop, name, code))
    run_compiler(["cc", "-O1", "-w", "-shared", "-fPIC", "-o", library, source, "-lm"])
    arrays = [a.copy() for a in inputs]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    ctypes.CDLL(str(library)).polydl_entry(pointers, None)
    return arrays


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_part_leaves_what_the_original_leaves(name: str, tmp_path: Path) -> None:
    scop = _load(name, tmp_path)
    slices = original_slices(scop, whole=100, part=1000)
    assert len(slices) == (1 if name == "chain" else 2), "columns of E need all of T"
    rng = np.random.default_rng(1)
    names = [a.name for a in passed_arrays(scop)]
    shapes = [[int(e.max_val().to_python()) for e in a.extents if e is not None] for a in passed_arrays(scop)]
    inputs = [rng.integers(1, 4, shape).astype(np.float32) for shape in shapes]
    whole = dict(zip(names, _run(scop, ORIGINAL, original_code(scop), inputs, tmp_path), strict=True))
    for number, one in enumerate(slices):
        assert 0 < one.share <= 0.5
        assert set(one.selections) == set(PROGRAMS[name][2])
        part = dict(zip(names, _run(scop, f"part{number}", one.code, inputs, tmp_path), strict=True))
        for array, selection in one.selections.items():
            along = np.arange(whole[array].shape[selection.dimension])
            chosen = along % selection.step == selection.first
            assert chosen[-1], "the last rows and columns are where remainders go wrong"
            assert np.array_equal(
                np.compress(chosen, part[array], selection.dimension),
                np.compress(chosen, whole[array], selection.dimension),
            )
            left = np.compress(~chosen, part[array], selection.dimension)
            assert not np.array_equal(left, np.compress(~chosen, whole[array], selection.dimension)), "it is a part"


def test_recurrences_have_no_slices(tmp_path: Path) -> None:
    path = tmp_path / "recurrence.c"
    path.write_text(
        "void f(float A[50][50])\n{\n#pragma scop\nfor (int t = 1; t < 50; t++) for (int i = 1; i < 49; i++)"
        " A[t][i] = A[t-1][i-1] + A[t-1][i+1];\n#pragma endscop\n}\n"
    )
    scop = pipeline.only_scop(pipeline.load(path))
    assert original_slices(scop, whole=100, part=100) == ()
    assert original_slices(scop) == (), "small enough to be run whole"


JKI = (
    "for (int j = 0; j < N; j++) for (int k = 0; k < N; k++) for (int i = 0; i < N; i++) C[i][j] += A[i][k] * B[k][j];"
)


def _measured(monkeypatch: pytest.MonkeyPatch, *regions: str, estimate: float = 1e-12) -> Report:
    """Candidates of a 48³ product with these regions, where the original counts as slow."""
    monkeypatch.setattr(by_slices, "REFERENCE_SECONDS", estimate)
    monkeypatch.setattr(by_slices, "CLEARLY", 0.0)
    scop = matmul(text=matmul().source.text.replace("scale(A[i][k])", "A[i][k]"))
    slices = original_slices(scop, whole=100, part=10000)
    assert len(slices) == 2
    codes = {f"v{i}": Generated((), text) for i, text in enumerate(regions)}
    return measure(scop, codes, Toolchain(), replace(QUICK, slow=0.0), slices=slices)


def test_candidates_are_verified_by_slices_and_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _measured(monkeypatch, IKJ, JKI)
    assert report.original.estimated
    assert report.original.median > 0
    assert [m.status for m in report.measurements] == [Status.VERIFIED] * 2
    assert "to 1 other orders in all elements" in report.measurements[0].message
    assert any("was not run whole" in w for w in report.warnings)


def test_what_the_sample_shows_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _measured(monkeypatch, IKJ, JKI, IKJ + "C[47][3] += 1;")
    assert report.original.estimated
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.VERIFIED, Status.WRONG]


@pytest.mark.parametrize("regions", [(IKJ, JKI + "C[1][2] += 1;"), (IKJ + "C[1][2] += 1;", JKI)])
def test_disagreement_outside_of_the_sample_is_settled_by_the_original(
    monkeypatch: pytest.MonkeyPatch, regions: tuple[str, str]
) -> None:
    report = _measured(monkeypatch, *regions)
    assert not report.original.estimated
    expected = [Status.WRONG if "+= 1" in text else Status.VERIFIED for text in regions]
    assert [m.status for m in report.measurements] == expected


def test_one_candidate_is_compared_with_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _measured(monkeypatch, IKJ)
    assert not report.original.estimated
    assert report.measurements[0].verified


def test_a_quick_original_is_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _measured(monkeypatch, IKJ, JKI, estimate=1e9).original.estimated


def test_said_for_people(tmp_path: Path) -> None:
    found: tuple[Slice, ...] = original_slices(_load("product", tmp_path), whole=100, part=6000)
    assert [str(one) for one in found] == ["every 9th of C[][here]", "every 9th of C[here]"]
