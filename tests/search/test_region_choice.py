"""Which nests are scheduled together, beside the space of loop transforms."""

from __future__ import annotations

from pathlib import Path

import polydl

FILE = """
#define Q 2
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void windows(const float in[restrict 16][256 * Q][256 * Q], const float w[restrict Q][Q],
             float most[restrict 16][256][256], float mean[restrict 16][256][256])
{
    for (int c = 0; c < 16; c++)
        for (int y = 0; y < 256; y++)
            for (int x = 0; x < 256; x++) {
                most[c][y][x] = in[c][y * Q][x * Q];
                mean[c][y][x] = 0;
                for (int p = 0; p < Q; p++)
                    for (int q = 0; q < Q; q++) {
                        most[c][y][x] = MAX(most[c][y][x], in[c][y * Q + p][x * Q + q]);
                        mean[c][y][x] += w[p][q] * in[c][y * Q + p][x * Q + q];
                    }
            }
}
"""
ONE = """
void product(const float a[restrict 256][4], const float b[restrict 4][256], float c[restrict 256][256])
{
    for (int i = 0; i < 256; i++)
        for (int j = 0; j < 256; j++) {
            c[i][j] = 0;
            for (int k = 0; k < 4; k++)
                c[i][j] += a[i][k] * b[k][j];
        }
}
"""


def together(path: Path, text: str) -> bool:
    """Whether some variant schedules several nests of the function together."""
    path.write_text(text)
    ranked = polydl.rank(path, machine="epyc-zen4", threads=2)
    return any(variant.scheduled for variant in ranked.variants)


def test_contractions_of_few_terms_that_read_the_same_are_scheduled_together(tmp_path: Path) -> None:
    assert together(tmp_path / "windows.c", FILE)


def test_contractions_that_share_nothing_are_not(tmp_path: Path) -> None:
    assert not together(tmp_path / "product.c", ONE)
