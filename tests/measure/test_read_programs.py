"""Programs as the front end reads them: the original stands as its own candidate, and a spoilt copy does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.frontend import load
from polydl.lower.emit import Generated
from polydl.measure import Status, Toolchain, measure
from polydl.measure.unit import original_code
from tests.measure.builders import QUICK

PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "long sizes, VLA": (
        """\
void f(long n, long m, double y[restrict n][m], double x[restrict m][n]) {
#pragma scop
    for (long i = 0; i < n; i++)
        for (long j = 0; j < m; j++)
            y[i][j] += x[j][i];
#pragma endscop
}
""",
        {"n": 12, "m": 17},
    ),
    "linearised, size as a value": (
        """\
void f(int n, int m, float *restrict y, const float *restrict x) {
    int i, j;
#pragma scop
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++)
            y[i * m + j] = n * x[i * m + j] + j;
#pragma endscop
}
""",
        {"n": 12, "m": 17},
    ),
    "locals of main": (
        """\
#include <stdio.h>
int main(void) {
    static float a[20][30];
    float b[30], s = 0, scale = 2;
    for (int i = 0; i < 30; i++) b[i] = i;
#pragma scop
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 30; j++) {
            s += scale * b[j];
            a[i][j] = s;
        }
#pragma endscop
    printf("%f %f\\n", s, a[3][4]);
    return 0;
}
""",
        {},
    ),
    "globals": (
        """\
#define N 16
static int table[N][N];
unsigned char small[N];
void f(void) {
    int t;
#pragma scop
    for (int i = 1; i < N; i++) {
        t = i - 1;
        for (int j = 0; j < N; j++)
            table[i][j] = table[t][j] * 3 + small[j];
    }
#pragma endscop
}
""",
        {},
    ),
    "array of the region, stencil": (
        """\
#include <math.h>
void f(double a[restrict 40], double b[restrict 40]) {
#pragma scop
    for (int t = 0; t < 5; t++) {
        double c[40];
        for (int i = 1; i < 39; i++) c[i] = 0.33 * (a[i - 1] + a[i] + a[i + 1]);
        for (int i = 1; i < 39; i++) a[i] = sqrt(c[i]) - b[i] / 7;
    }
#pragma endscop
}
""",
        {},
    ),
    "triangular, descending, guarded": (
        """\
void f(float L[restrict 24][24], float x[restrict 24]) {
#pragma scop
    for (int i = 23; i >= 0; i--)
        for (int j = i + 1; j < 24; j += 2)
            if (j % 3 != 0)
                x[i] -= L[i][j] * x[j];
#pragma endscop
}
""",
        {},
    ),
    "constants of the function": (
        """\
enum { SHIFT = 1 };
void f(int n, const unsigned long *restrict x, unsigned long *restrict y) {
    const unsigned long prime = 18446744073709551557u;
    static const long least = -9223372036854775807L - 1;
    enum { MORE = 5 };
    int step = 2;
    const int shift = SHIFT + step, rows = 3;
    unsigned long table[rows][MORE];
    for (int i = 0; i < n; i++)
        table[i % rows][i % MORE] = x[i];
    for (int i = 0; i < n; i++)
        y[i] = table[i % rows][i % MORE] + (x[i + step] % prime + MORE + (unsigned long)least) << shift;
}
""",
        {"n": 12},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_original_is_its_own_candidate(name: str, tmp_path: Path) -> None:
    text, sizes = PROGRAMS[name]
    path = tmp_path / "program.c"
    path.write_text(text)
    (scop,) = load(path, sizes=sizes).scops
    original = original_code(scop)
    # Cutting the outermost loop short must show.
    spoilt = original.region.replace("++)", "+= 3)", 1).replace("i--)", "i -= 2)", 1)
    assert spoilt != original.region
    codes = {"same": Generated((), original.region + "\n;"), "spoilt": Generated((), spoilt)}
    same, wrong = measure(scop, codes, Toolchain(), QUICK).measurements
    assert same.status is Status.VERIFIED, same.message
    assert set(same.max_error.values()) == {0.0}
    assert wrong.status is Status.WRONG, wrong.message
