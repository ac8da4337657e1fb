"""Forms of C that people, generators and old files have: read, kept as they are written, or one message says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model.scop import Assignment, BlackBox
from polydl.pipeline import rank
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import same_set, scop

HEAD = "void f(int n, int m, const float *restrict x, float *restrict y, float A[n][m], float B[n][m])"


def unread(folder: Path, code: str) -> list[str]:
    """What is said of loops that are no regions, beside those that are."""
    (folder / "beside.c").write_text(f"{HEAD} {{ for (int i = 0; i < n; i++) y[i] = x[i]; }}\n{code}\n")
    found = load(folder / "beside.c", require_sizes=False)
    return [f"{(at := one.span) and f'{at.line}:{at.column}'} {one.reason} ({one.hint})" for one in found.unread]


@pytest.mark.parametrize(
    ("declared", "element"),
    [
        ("__typeof__(x[0]) t = x[i];", "float"),
        ("typeof(*x) t = x[i];", "float"),
        ("__typeof(x[i] * 2.0) t = x[i];", "double"),
        ("__typeof__(&x[0]) p = x; float t = p[i];", "float"),
        ("__auto_type t = x[i] + n;", "float"),
        ("__auto_type t = n > 3 ? 1.5 : x[i];", "double"),
        ("typedef __typeof__(s.w[0]) word; word t = x[i];", "double"),
        ("__typeof__(half(3)) t = x[i];", "double"),
        ("typeof(float) t = x[i];", "float"),
    ],
)
def test_types_of_expressions(tmp_path: Path, declared: str, element: str) -> None:
    before = "struct s { int k; double w[3]; }; extern struct s s; double half(int k);\n"
    body = f"for (__typeof__(n) i = 0; i < n; i++) {{ {declared} y[i] = t * t; }}"
    found = scop(tmp_path, f"{before}{HEAD} {{ {body} }}")
    assert same_set(found.statements[-1].domain, f"[n] -> {{ {found.statements[-1].name}[i] : 0 <= i < n }}")
    assert found.arrays["t"].element.c == element


def test_a_counter_takes_its_type_of_others(tmp_path: Path) -> None:
    code = "void f(long n, float *restrict y) { for (__auto_type i = n - 1; i >= 0; i--) y[i] = 1; }"
    assert same_set(scop(tmp_path, code).statements[0].domain, "[n] -> { S0[i] : 0 <= i < n }")


def test_a_type_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match=r"type 'typeof\(g\(\)\)' are not supported"):
        scop(tmp_path, f"{HEAD} {{ for (int i = 0; i < n; i++) {{ typeof(g()) t = x[i]; y[i] = t; }} }}")


@pytest.mark.parametrize(
    ("loop", "domain"),
    [
        ("for (int i = 0, j = n - 1; i < j; i++, j--) { y[i] = x[j]; }", "2i < n - 1"),
        ("for (int i = 0, j = 0; i < n && j < m; i++, j += 2) y[i] = x[j];", "i < n and 2i < m"),
        ("int i = 0, j = n; while (i < j) { --j; y[i] = x[j]; i++; }", "2i < n"),
        ("for (float *p = y, *q = y + n - 1; p < q; p++, q--) *p = *q;", "2i < n - 1"),
    ],
)
def test_two_variables_that_a_condition_compares(tmp_path: Path, loop: str, domain: str) -> None:
    (statement,) = scop(tmp_path, f"{HEAD} {{ {loop} }}").statements
    name = statement.iterators[0]
    wanted = domain.replace("i", name)
    assert same_set(statement.domain, f"[n, m] -> {{ S0[{name}] : 0 <= {name} and {wanted} }}")


@pytest.mark.parametrize(
    "loop",
    [
        "for (int p = 1; p < m; p *= 2) y[i] += A[i][p];",
        "for (int p = m - 1; p > 0; p >>= 1) y[i] += A[i][p];",
        "for (int p = 1; p < m; p = p << 1) y[i] += A[i][p];",
        "for (float t = 0; t < 1; t += 0.125f) y[i] += t * x[i];",
        "for (double t = 1; t > 1e-3; t /= 3) y[i] += t * x[i];",
    ],
)
def test_loops_that_nothing_counts_are_kept_inside_of_others(tmp_path: Path, loop: str) -> None:
    found = scop(tmp_path, f"{HEAD} {{ for (int i = 0; i < n; i++) {{ y[i] = 0; {loop} y[i] *= 2; }} }}")
    assert [type(one.body) for one in found.statements] == [Assignment, BlackBox, Assignment]
    assert all(one.depth == 1 for one in found.statements)


@pytest.mark.parametrize(
    ("head", "count"),
    [("for (int s = 1; s < n; s *= 2)", 1), ("for (double t = 0; t < 1; t += 0.25)", 1), ("while (y[0] > 0)", 1)],
)
def test_nests_inside_of_such_loops_are_regions(tmp_path: Path, head: str, count: int) -> None:
    code = f"{HEAD} {{ {head} for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) A[i][j] += B[i][j]; }}"
    (tmp_path / "f.c").write_text(code)
    found = load(tmp_path / "f.c", require_sizes=False)
    assert [one.statements[0].depth for one in found.scops] == [2] * count


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "void g(int n, float *x) { int i = 0;\ntop:\n  if (i < n) { x[i++] = 0; goto top; } }",
            "4:28 'g' loops by 'goto top', of which nothing says how often it runs (write it as a for or while loop)",
        ),
        ("void g(int n, float *x) { for (int s = 1; s < n; s *= 2) x[s] = 0; }", "2:50 the increment does not add"),
        ("void g(int n, float *x) { for (float t = 0; t < 9; t += 1) x[(int)t] = 0; }", "2:27 the loop variable 't'"),
        ("int g(float *x) { int i = 0; while (x[i] > 0) i++; return i; }", "2:30 a 'while' loop has no bound"),
        ("void g(int n, float *x) { for (int i = 0; i < n; i += 0) x[i] = 0; }", "2:50 the step of 'i' is zero"),
        (
            "void g(int n, float *x) { for (int k = 0; k < n; k++) for (int i = 1; i < n; i += 0) x[i] = 0; }",
            "2:78 the step of 'i' is zero",
        ),
    ],
)
def test_what_is_said_of_others(tmp_path: Path, code: str, said: str) -> None:
    (one, *_) = unread(tmp_path, code)
    assert one.startswith(said)


WHOLE = """\
#include <stdio.h>
static float select(int c, float a, float b) { return c ? a : b; }
double index(double v) { return v * v; }
typedef unsigned int clockid_t;
void random(int n, int m, const float *restrict x, float *restrict y, float A[n][m], float B[n][m])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int k = 0; k < m; k++)
                B[i][j] += A[i][k] * A[k][j];
}
void choose(int n, int m, const float *restrict x, float *restrict y, float A[n][m], float B[n][m])
{
    for (__typeof__(n) i = 0; i < n; i++) {
        __auto_type t = x[i];
        y[i] = select(t > 2, t, y[i]) + (float)index(t);
    }
}
void time(int n, int m, const float *restrict x, float *restrict y, float A[n][m], float B[n][m])
{
    for (int i = 0, j = n - 1; i < j; i++, j--) {
        float t = y[i];
        y[i] = y[j];
        y[j] = t + x[i];
    }
}
void system(int n, int m, const float *restrict x, float *restrict y, float A[n][m], float B[n][m])
{
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int p = 1; p < m; p *= 2)
            s += A[i][p];
        for (float t = 0; t < 1; t += 0.25f)
            s += t * x[i];
        y[i] += s;
    }
}
static float sums[5];
int main(void)
{
    static float x[64], y[64], A[64][64], B[64][64];
    void (*all[])(int n, int m, const float *, float *, float A[n][m], float B[n][m]) = {random, choose, time, system};
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 64; i++) {
            x[i] = i % 7, y[i] = i % 5;
            for (int j = 0; j < 64; j++) A[i][j] = (i * j) % 3, B[i][j] = (i + j) % 4;
        }
        all[r](64, 64, x, y, A, B);
        for (int i = 0; i < 64; i++) {
            sums[r] += (i + 1) * y[i];
            for (int j = 0; j < 64; j++) sums[r] += (j + 1) * B[i][j];
        }
        printf("%.9g\\n", sums[r]);
    }
    return (int)(clockid_t)0;
}
"""


def test_outputs_compute_the_same_whatever_names_the_library_has(tmp_path: Path) -> None:
    """Its own functions are called as those of headers that generated code includes."""
    (tmp_path / "whole.c").write_text(WHOLE)
    program = load(tmp_path / "whole.c", sizes={"n": 64, "m": 64})
    assert [one.function for one in program.scops] == ["random", "choose", "time", "system"]
    ways = [rank(one) for one in program.scops]
    texts = [WHOLE]
    for k in range(2):
        made = [way[min(k, len(way) - 1)].generated for way in ways]
        texts.append(splice(program.source, [*zip(program.scops, made, strict=True)], ""))
    assert "#define select polydl_not_select" in texts[1]
    printed = set()
    for text in texts:
        (tmp_path / "run.c").write_text(text)
        run_compiler(["cc", "-O1", "-march=native", "-fopenmp", "-w", "-o", tmp_path / "run", tmp_path / "run.c"])
        printed.add(run_program([tmp_path / "run"]).stdout)
    assert len(printed) == 1
