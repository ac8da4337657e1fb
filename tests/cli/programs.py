"""Programs for the tests of the output: a file to optimise, and a main function that runs it and prints a checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.cli.running import EXAMPLES

_PRINT = """
#include <stdio.h>
static void fill(float *a, int n, int m) { for (int i = 0; i < n; i++) a[i] = (float)(i * 7 % m - m / 2); }
static void show(const float *a, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i] * (double)(i % 101 + 1);
    printf("%.17g\\n", s);
}
"""
_MATMUL = (
    _PRINT
    + """
void matmul(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N]);
static float A[M][K], B[K][N], C[M][N];
int main(void) { fill(&A[0][0], M * K, 11); fill(&B[0][0], K * N, 7); fill(&C[0][0], M * N, 5);
    matmul(A, B, C); show(&C[0][0], M * N); return 0; }
"""
)
_SIZED = (
    _PRINT
    + """
#include <stdlib.h>
int main(int count, char **text)
{
    if (count != 4) return 1;
    int M = atoi(text[1]), N = atoi(text[2]), K = atoi(text[3]);
    float *A = malloc(sizeof *A * M * K), *B = malloc(sizeof *B * K * N), *C = malloc(sizeof *C * M * N);
    fill(A, M * K, 11); fill(B, K * N, 7); fill(C, M * N, 5);
    CALL;
    show(C, M * N);
    return 0;
}
"""
)
_CONV = (
    _PRINT
    + """
#define IH ((OFH - 1) * STRIDE_H + KH)
#define IW ((OFW - 1) * STRIDE_W + KW)
void conv2d(float output[restrict 1][1][OFH][OFW][16], const float input[restrict 1][1][IH][IW][16],
            const float filter[restrict 1][1][KH][KW][16][16]);
static float output[1][1][OFH][OFW][16], input[1][1][IH][IW][16], filter[1][1][KH][KW][16][16];
int main(void) { fill((float *)input, IH * IW * 16, 5); fill((float *)filter, KH * KW * 256, 7);
    conv2d(output, input, filter); show((float *)output, OFH * OFW * 16); return 0; }
"""
)
TWO = """\
/* Two regions: one in main, inside a condition of the preprocessor; one with macros that are no plain numbers. */
#include <stdio.h>
#ifndef N
#define N 40
#endif
#ifndef ALPHA
#define ALPHA 1.5f
#endif
#define SCALED(x) ((x) * ALPHA)
enum { ROWS = 24 };
#define i 1000 /* a name that headers and helpers use */
static float A[ROWS][N], B[N][ROWS], C[ROWS][ROWS];\t/* tabs and trailing space */ \n
static void scale(float x[restrict ROWS][ROWS])
{
#pragma scop
    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < ROWS; s++) {
#ifdef TWICE
            x[r][s] *= 2.0f;
#endif
            x[r][s] = SCALED(x[r][s]) + 1.0f;
        }
#pragma endscop
}

int main(void)
{
    for (int q = 0; q < ROWS * N; q++) (&A[0][0])[q] = (float)(q % 7 - 3), (&B[0][0])[q] = (float)(q % 5 - 2);
#if N > 10
#pragma scop
    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < ROWS; s++)
            for (int t = 0; t < N; t++)
                C[r][s] += A[r][t] * B[t][s];
#pragma endscop
#endif
    scale(C);
    double sum = 0;
    for (int q = 0; q < ROWS * ROWS; q++) sum += (&C[0][0])[q] * (double)(q % 101 + 1);
    printf("%.17g\\n", sum);
    return 0;
}"""
PLAIN = """\
typedef double real;
void smooth(int n, const real *restrict in, real *restrict out)
{
    for (int i = 1; i < n - 1; i++)
        out[i] = (in[i - 1] + in[i] + in[i + 1]) / 4;
}
"""


@dataclass(frozen=True)
class Case:
    """A program."""

    text: str
    driver: str
    options: tuple[str, ...]
    """What polydl and the compiler are given: -D."""
    polydl: tuple[str, ...] = ()
    """What polydl only is given: --size."""
    runs: tuple[tuple[str, ...], ...] = ((),)
    """Arguments of the program, tuned sizes first."""
    builds: tuple[tuple[str, ...], ...] = ()
    """Other -D than the tuned ones."""
    sources: tuple[str, ...] = ()
    """Files to compile with it."""


def _example(name: str) -> str:
    return (EXAMPLES / f"{name}.c").read_text()


def _defines(**values: int) -> tuple[str, ...]:
    return tuple(part for name, value in values.items() for part in ("-D", f"{name}={value}"))


_SIZES = (("40", "36", "24"), ("41", "36", "24"), ("1", "1", "1"), ("7", "50", "33"))
_MICRO = (str(EXAMPLES / "gemm_micro.c"),)
CASES: Mapping[str, Case] = {
    "matmul": Case(
        _example("matmul"), _MATMUL, _defines(M=40, N=36, K=24),
        builds=(_defines(M=100, N=36, K=24), _defines(M=3, N=5, K=7)),
    ),
    "conv2d": Case(
        _example("conv2d"), _CONV,
        _defines(GEMM_BLOCK=16, NOFM=16, NIFM=16, OFH=5, OFW=6, KH=3, KW=3, STRIDE_H=2, STRIDE_W=1),
        builds=(_defines(GEMM_BLOCK=16, NOFM=16, NIFM=16, OFH=7, OFW=4, KH=1, KW=2, STRIDE_H=1, STRIDE_W=2),),
    ),
    "call_form": Case(
        _example("matmul_call_form"), _MATMUL, _defines(M=64, N=96, K=64),
        builds=(_defines(M=32, N=32, K=96),), sources=_MICRO,
    ),
    "loop_form": Case(
        _example("matmul_loop_form"), _MATMUL, _defines(M=64, N=96, K=64),
        builds=(_defines(M=32, N=32, K=96),), sources=_MICRO,
    ),
    "vla": Case(
        _example("matmul_vla"),
        "void matmul_vla(int M, int N, int K, float A[restrict M][K], float B[restrict K][N], float C[restrict M][N]);"
        + _SIZED.replace("CALL", "matmul_vla(M, N, K, (void *)A, (void *)B, (void *)C)"),
        (), ("--size", "M=40,N=36,K=24"), _SIZES,
    ),
    "linear": Case(
        _example("matmul_linear"),
        "void matmul_linear(int M, int N, int K, const float *restrict A, const float *restrict B, float *restrict C);"
        + _SIZED.replace("CALL", "matmul_linear(M, N, K, A, B, C)"),
        (), ("--size", "M=40,N=36,K=24"), _SIZES,
    ),
    "two_regions": Case(
        TWO, "", (),
        builds=(("-D", "N=11"), ("-D", "N=9"), ("-D", "ALPHA=0.5f"), ("-D", "TWICE")),
    ),
    "crlf": Case(TWO.replace("\n", "\r\n"), "", (), builds=(("-D", "N=11"),)),
    "plain": Case(
        PLAIN,
        "typedef double real; void smooth(int n, const real *restrict in, real *restrict out);\n#include <stdio.h>\n"
        "#include <stdlib.h>\nint main(int c, char **t) { int n = c > 1 ? atoi(t[1]) : 0; "
        "double *x = calloc(n + 1, 8), *y = calloc(n + 1, 8), s = 0; "
        "for (int i = 0; i < n; i++) x[i] = i * 7 % 11; smooth(n, x, y); "
        'for (int i = 0; i < n; i++) s += y[i] * (i % 101 + 1); printf("%.17g\\n", s); return 0; }\n',
        (), ("--size", "n=1000"), (("1000",), ("999",), ("0",), ("2",)),
    ),
}  # fmt: skip
