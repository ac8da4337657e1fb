"""Contractions with conditions at their borders are cut into boxes that cover them, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.rewrite.borders import borders
from polydl.rewrite.canonical import canonical
from polydl.rewrite.cut import Cut
from polydl.rewrite.scratch_array import is_box
from polydl.target.isa import kernel_contraction

HEAD = (
    "void f(float in[restrict 4][9][11], float w[restrict 3][4][5][5], float out[restrict 3][9][11], "
    "float A[restrict 9][9], float B[restrict 9][9], float C[restrict 9][9])"
)
CONV = (
    "for (int f = 0; f < 3; f++) for (int y = 0; y < 9; y++) for (int x = 0; x < 11; x++) "
    "for (int c = 0; c < 4; c++) for (int u = 0; u < {k}; u++) for (int v = 0; v < {k}; v++) "
    "if ({condition}) out[f][y][x] += in[c][{row}][{column}] * w[f][c][u][v];"
)


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


def padded(k: int, pad: int) -> str:
    row, column = f"y + u - {pad}", f"x + v - {pad}"
    condition = f"{row} >= 0 && {row} < 9 && {column} >= 0 && {column} < 11"
    return CONV.format(k=k, condition=condition, row=row, column=column)


@pytest.mark.parametrize(("k", "pad", "boxes"), [(3, 1, 9), (5, 2, 25), (2, 1, 4), (1, 0, 1)])
def test_a_padded_convolution(tmp_path: Path, k: int, pad: int, boxes: int) -> None:
    scop = scop_of(tmp_path, padded(k, pad))
    steps = list(borders(scop))
    if boxes == 1:
        assert not steps
        return
    (step,) = steps
    assert step.broken() is None
    assert isinstance(step.rewrite, Cut)
    assert [len(own) for _, own in step.rewrite.parts] == [boxes]
    interior = step.after.statements[0]
    assert kernel_contraction(step.after, interior) is not None
    found = canonical(scop)
    assert not found.refused
    assert len(found.scop.statements) == boxes


DILATED = """
void f(const float in[restrict 4][{m}][{n}], const float w[restrict 3][4][{k}][{k}], float out[restrict 3][{m}][{n}])
{{
    for (int f = 0; f < 3; f++) for (int y = 0; y < {m}; y++) for (int x = 0; x < {n}; x++)
        for (int c = 0; c < 4; c++) for (int u = 0; u < {k}; u++) for (int v = 0; v < {k}; v++) {{
            int p = y + {d} * (u - {k} / 2), q = x + {d} * (v - {k} / 2);
            if (p >= 0 && p < {m} && q >= 0 && q < {n}) out[f][y][x] += in[c][p][q] * w[f][c][u][v];
        }}
}}
"""


@pytest.mark.parametrize(("k", "d", "pieces"), [(3, 4, 9), (3, 12, 9), (5, 3, 25)])
def test_rows_that_lack_the_same_taps_are_one_piece(tmp_path: Path, k: int, d: int, pieces: int) -> None:
    path = tmp_path / "s.c"
    path.write_text(DILATED.format(k=k, d=d, m=40, n=50))
    (step,) = borders(load(path).scops[0])
    assert step.broken() is None
    assert isinstance(step.rewrite, Cut)
    assert [len(own) for _, own in step.rewrite.parts] == [pieces]
    assert all(is_box(s) and kernel_contraction(step.after, s) is not None for s in step.after.statements)
    counts = sorted({isl.bounds(s.domain, 1) for s in step.after.statements})
    ends = [(n * d, n * d + d - 1) for n in range(k // 2)]
    assert counts == [*ends, (k // 2 * d, 39 - k // 2 * d), *((39 - high, 39 - low) for low, high in reversed(ends))]


def test_corners_are_one_piece_each_where_there_would_be_too_many(tmp_path: Path) -> None:
    """Seven by seven taps: each row and each column at the border by itself, the corners with their conditions."""
    body = padded(7, 3).replace("y < 9", "y < 20").replace("u - 3 < 9", "u - 3 < 20").replace("x < 11", "x < 22")
    body = body.replace("v - 3 < 11", "v - 3 < 22")
    path = tmp_path / "s.c"
    head = "void f(float in[restrict 4][20][22], float w[restrict 3][4][7][7], float out[restrict 3][20][22])"
    path.write_text(f"{head}\n{{\n{body}\n}}\n")
    (step,) = borders(load(path).scops[0])
    assert step.broken() is None
    assert isinstance(step.rewrite, Cut)
    assert [len(own) for _, own in step.rewrite.parts] == [1 + 6 + 6 + 4]
    assert kernel_contraction(step.after, step.after.statements[0]) is not None


LEFT_ALONE = {
    "a triangle": (
        "for (int i = 0; i < 9; i++) for (int j = 0; j <= i; j++) for (int k = 0; k < 9; k++) "
        "C[i][j] += A[i][k] * B[k][j];"
    ),
    "a triangle of terms": (
        "for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) for (int k = i; k < 9; k++) "
        "C[i][j] += A[i][k] * B[k][j];"
    ),
    "too many borders": padded(5, 2).replace("x + v - 2", "x + 2 * v - 4").replace("y + u - 2", "y + 2 * u - 4"),
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_others_are_left_alone(tmp_path: Path, case: str) -> None:
    assert not list(borders(scop_of(tmp_path, LEFT_ALONE[case])))


def test_parts_that_do_not_cover_are_seen(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, padded(3, 1))
    (step,) = borders(scop)
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert replace(step, after=fewer).broken() is not None
    first, second, *rest = step.after.statements
    twice = replace(second, domain=first.domain.set_tuple_name(second.name))
    broken = replace(step, after=replace(step.after, statements=(first, twice, *rest))).broken()
    assert broken is not None
