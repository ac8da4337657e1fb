"""Nests with hardly any of the work are not searched like the others."""

from __future__ import annotations

from pathlib import Path

from polydl import load, rank
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.model.scop import Scop
from polydl.search.small_nests import light

CONV = """\
void f(float in[restrict 8][64][64], float w[restrict 16][8][3][3], float out[restrict 16][64][64])
{
    for (int f = 0; f < 16; f++)
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < 64; x++) {
                float s = 0;
                for (int c = 0; c < 8; c++)
                    for (int u = 0; u < 3; u++)
                        for (int v = 0; v < 3; v++)
                            if (y + u >= 1 && y + u < 65 && x + v >= 1 && x + v < 65)
                                s += in[c][y + u - 1][x + v - 1] * w[f][c][u][v];
                out[f][y][x] = s;
            }
}
"""


def scop_of(folder: Path, code: str) -> Scop:
    path = folder / "s.c"
    path.write_text(code)
    return load(path).scops[0]


def test_borders_are_light(tmp_path: Path) -> None:
    ranking = rank(scop_of(tmp_path, CONV), "default", "epyc-zen5", threads=2)
    small = light(ranking.nests)
    assert small == {"S1b3", "S1b4", "S1b5", "S1b6", "S1b7", "S1b8"}, "columns at the sides have no kernel, and count"
    kernels = {one.nest.name for one in ranking.variants[0].structures if one.kernel is not None}
    assert kernels == {"S1b0", "S1b3", "S1b6"}
    assert any("searched in the small space" in note for note in ranking.given_up)


def test_nests_alike_are_not(tmp_path: Path) -> None:
    loops = "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) A[i][j] += {k};"
    body = "\n".join(loops.format(k=k) for k in range(5))
    scop = scop_of(tmp_path, f"void f(float A[64][64])\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    assert light(nests(scop, dependences(scop, reads=False))) == frozenset()
