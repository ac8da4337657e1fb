"""Arrays of pointers to rows: the output is right wherever the rows lie, and fast where they can be one array."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.measure import Status
from tests.compiling import run_compiler, run_program

N, M, K = 21, 26, 19
LAYOUTS = {
    "one block": "rows[i] = memory + i * columns",
    "with gaps": "rows[i] = memory + i * (columns + 3)",
    "backwards": "rows[i] = memory + (count - 1 - i) * (columns + 3)",
    "in no order": "rows[i] = memory + (i * 5 % count) * (columns + 1)",
    "shared": "rows[i] = memory + (i / 2) * columns",
    "interleaved": "rows[i] = memory + i * (columns / 2)",
}
PRODUCT = """
void f(int n, int m, int k, float **A, const float *const *B, float *C[restrict 21])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float s = 0;
            for (int p = 0; p < k; p++)
                s += A[i][p] * B[p][j];
            C[i][j] = 2 * s + C[i][j];
        }
}
"""
STENCIL = """
void f(int n, int m, int k, float **A, const float *const *B, float *C[restrict 21])
{
    for (int t = 0; t < 3 * k; t++)
        for (int i = 1; i < n - 1; i++) {
            float *row = C[i];
            for (int j = 1; j < m - 1; j++)
                row[j] = A[i][0] + C[i - 1][j] + C[i + 1][j] + row[j - 1] - B[t % k][j];
        }
}
"""
ONCE = """
void f(int n, int m, int k, float **A, const float *const *B, float *C[restrict 21])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= (i < k ? i : k - 1) && j < m; j++)
            C[i][j] = A[i][j] + B[k - 1][j];
}
"""
BATCH = """
void f(int n, int m, int k, float **A, const float *const *B, float *C[restrict 21])
{
    (void)n, (void)m;
    for (int b = 0; b < k; b++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 5; j++) {
                float s = 0;
                for (int p = 0; p < 4; p++)
                    s += A[b][i * 4 + p] * B[b][p * 5 + j];
                C[b][i * 5 + j] = s;
            }
}
"""
HARNESS = """
#include <stdio.h>
#include <stdlib.h>
void original(int, int, int, float **, const float *const *, float **);
void f(int, int, int, float **, const float *const *, float **);
static float **rows_of(int count, int columns, float *memory)
{{
    float **rows = malloc(count * sizeof *rows);
    for (int i = 0; i < count; i++)
        {layout};
    return rows;
}}
int main(void)
{{
    enum {{ n = {n}, m = {m}, k = {k}, size = 4096 }};
    float *memory[2][3];
    for (int a = 0; a < 3; a++)
        for (int w = 0; w < 2; w++) {{
            memory[w][a] = malloc(size * sizeof(float));
            for (int i = 0; i < size; i++)
                memory[w][a][i] = (i * 7 + a) % 5 - 2;
        }}
    for (int w = 0; w < 2; w++)
        (w ? f : original)(n, m, k, rows_of(n, k, memory[w][0]),
                           (const float *const *)rows_of(k, m, memory[w][1]), rows_of(n, m, memory[w][2]));
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < size; i++)
            if (memory[0][a][i] != memory[1][a][i])
                return printf("array %d, %d: %g, not %g\\n", a, i, memory[1][a][i], memory[0][a][i]), 1;
    return 0;
}}
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("rows")
    made = {}
    for name, code in (("product", PRODUCT), ("stencil", STENCIL), ("once", ONCE), ("batch", BATCH)):
        (folder / f"{name}.c").write_text(code)
        made[name] = folder / f"{name}.out.c"
        sizes = {"n": N, "m": M, "k": K}
        polydl.optimize(folder / f"{name}.c", made[name], run=False, sizes=sizes, space="small")
    return made


@pytest.mark.parametrize("sizes", [(N, M, K), (N, M - 1, K)], ids=["tuned", "other"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["product", "stencil", "once", "batch"])
def test_rows_may_lie_anywhere(
    name: str, layout: str, sizes: tuple[int, int, int], outputs: dict[str, Path], tmp_path: Path
) -> None:
    n, m, k = sizes
    (tmp_path / "main.c").write_text(HARNESS.format(layout=LAYOUTS[layout], n=n, m=m, k=k))
    flags = ["-std=gnu11", "-O1", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-march=native"]
    original = tmp_path / "original.c"
    original.write_text(outputs[name].with_name(f"{name}.c").read_text().replace("void f(", "void original("))
    command = ["cc", *flags, str(tmp_path / "main.c"), str(original), str(outputs[name]), "-o", str(tmp_path / "a")]
    run_compiler(command)
    done = run_program([str(tmp_path / "a")], check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_done_with_rows(outputs: dict[str, Path]) -> None:
    product, stencil, once = (outputs[name].read_text() for name in ("product", "stencil", "once"))
    assert "polydl_mk_" in product and "polydl_copy_A" in product and "polydl_copy_B" in product
    assert "memcpy(C[polydl_row]" in stencil and "memcpy(A[polydl_row]" not in stencil
    assert "polydl_rows_A" in once and "polydl_copy_A" not in once  # a copy would take longer than the loops


def test_they_are_measured(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("static double **G;\n" + PRODUCT.replace("A[i][p]", "G[i][p]"))
    done = polydl.optimize(tmp_path / "f.c", tmp_path / "out.c", sizes={"n": N, "m": M, "k": K}, space="small", top_k=2)
    (scop,) = done.scops
    assert scop.report is not None and done.output is not None and not scop.illegal
    assert {m.status for m in scop.report.measurements} == {Status.VERIFIED}
