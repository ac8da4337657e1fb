"""`polydl machine --calibrate`: a few small programs are optimized, so that the correction of estimates has a start.

Matrix products and a convolution of different shapes: long and short sums, narrow and wide outputs, in the first-level
cache and far beyond it.
"""

from __future__ import annotations

from polydl.options import Options
from polydl.pipeline import optimize

VARIANTS = 8
"""Timed of each program."""

_PRODUCT = """\
void product(float C[restrict M][N], const float A[restrict M][K], const float B[restrict K][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""
_CONVOLUTION = """\
void convolution(float y[restrict M][N][N], const float x[restrict K][N + 2][N + 2],
                 const float w[restrict M][K][3][3])
{
    for (int m = 0; m < M; m++)
        for (int c = 0; c < K; c++)
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            y[m][i][j] += w[m][c][p][q] * x[c][i + p][j + q];
}
"""
PROGRAMS = (
    (_PRODUCT, {"M": 128, "N": 256, "K": 512}),
    (_PRODUCT, {"M": 512, "N": 512, "K": 512}),
    (_PRODUCT, {"M": 64, "N": 2048, "K": 256}),
    (_PRODUCT, {"M": 2048, "N": 64, "K": 128}),
    (_PRODUCT, {"M": 96, "N": 96, "K": 4096}),
    (_CONVOLUTION, {"M": 64, "N": 28, "K": 64}),
)
"""C text and sizes: six programs, about fifty variants."""


def timed_programs(options: Options) -> int:
    """Optimize the programs and keep their times (`search.own_times`). Returns how many variants were timed. Raises
    ToolchainError."""
    count = 0
    for text, sizes in PROGRAMS:
        defines = {name: str(value) for name, value in sizes.items()}
        o = options.changed(defines=defines, top_k=VARIANTS, budget=None, learn=True)
        done = optimize(text, options=o)
        count += sum(m.verified for one in done.scops if one.report is not None for m in one.report.measurements)
    return count
