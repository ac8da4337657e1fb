"""Scalar evolution: loops of any spelling, whose integers are functions of what counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model.scop import Assignment
from polydl.options import Options
from polydl.pipeline import rank
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import same_map, scop, write

HEAD = "void f(int n, int m, double *restrict a, const double *restrict b)"


@pytest.mark.parametrize(
    ("body", "relation"),
    [
        # a remainder that the header gives anew in each iteration, as Devito writes it
        ("for (int t = 0, t0 = t % 2, t1 = (t + 1) % 2; t < n; t++, t0 = t % 2, t1 = (t + 1) % 2) a[t0] = b[t1];",
         "[n] -> { S0[t] -> a[t mod 2] : 0 <= t < n }"),
        # it is another one in the first iteration than what follows
        ("int last = 7; for (int i = 0; i < n; i++) { a[last] = b[i]; last = i; }",
         "[n] -> { S0[i] -> a[i - 1] : 0 < i < n; S0[0] -> a[7] : n > 0 }"),
        # followed by another that follows
        ("int p = 0, q = 0; for (int i = 0; i < n; i++) { a[q] = b[i]; q = p; p = i; }",
         "[n] -> { S0[i] -> a[i - 2] : 1 < i < n; S0[i] -> a[0] : 0 <= i < n and i <= 1 }"),
        ("int i = 0, j = n; while (i < j) { a[j] = b[i]; i++; j--; }",
         "[n] -> { S0[i] -> a[n - i] : 0 <= 2i < n }"),
        ("do { a[n] = 1; } while (--n);", "[n] -> { S0[k] -> a[n - k] : 0 <= k < n; S0[0] -> a[n] }"),
        ("int k = 0; for (int i = 0; i < n; i++) { if (i < 4) k += 2; else k += 2; a[k] = 1; }",
         "[n] -> { S0[i] -> a[1 + i, 0] : 0 <= i < n }"),
        ("int k = 0; for (int i = 0; i < n; i++) { int j = 0; while (j < 3) { a[k] = 1; k++; j++; } k += 2; }",
         "[n] -> { S0[i, j] -> a[i, j] : 0 <= i < n and 0 <= j < 3 }"),
        ("int k = 0; for (int i = 0; i < n; i++) for (int j = 7; j > 1; j -= 2) a[k++] = 1;",
         "[n] -> { S0[i, j] -> a[k] : 2k = 7 + 6i - j and 0 <= i < n and 2 <= j <= 7 }"),
        ("int k; for (k = 0; k + 2 < n; k += 3) { } a[k] = 1;",
         "[n] -> { S0[] -> a[k] : k >= 0 and k mod 3 = 0 and n - 2 <= k <= n; S0[] -> a[0] : n <= 2 }"),
        ("int k = 3; for (int i = 0; i < n; i++) k += 2; a[k] = 1;",
         "[n] -> { S0[] -> a[3 + 2n] : n > 0; S0[] -> a[3] : n <= 0 }"),
        ("int last = 3; for (int i = 0; i < n; i++) { a[0] += b[last]; last = 2 * i; } a[last] = 1;",
         "[n] -> { S1[] -> a[2n - 2] : n > 0; S1[] -> a[3] : n <= 0 }"),
    ],
)  # fmt: skip
def test_the_element_that_is_written(tmp_path: Path, body: str, relation: str) -> None:
    found = scop(tmp_path, f"{HEAD} {{\n#pragma scop\n{body}\n#pragma endscop\n}}")
    assert same_map(write(found.statements[-1]).relation, relation), write(found.statements[-1]).relation


SPELLINGS = (
    "int i = 0; while (i < n) { i++; a[i] += b[i - 1]; }",
    "int i = n; do { a[i] = b[i] + 1; } while (i-- > 0);",
    "int k = n; do { a[k] += m; } while (--k > 0);",
    "for (int i = 0, j = n - 1; i < n / 2; ++i, --j) { double t = a[i]; a[i] = a[j]; a[j] = t; }",
    "for (int t = 0, t0 = t % 3, t1 = (t + 1) % 3; t < n; t++, t0 = t % 3, t1 = (t + 1) % 3) a[t1] = a[t0] + b[t];",
    "int last = n; for (int i = 0; i < n; i++) { a[i] = b[last]; last = i; }",
    "int l = n - 1, r = 0; for (int i = 0; i < n; i++) { a[i] = b[l] - b[r]; l = i; r = (i + 1) % n; }",
    "int k = 0; for (int i = n; i > 0; i -= 3) { a[k] = b[i]; k += 2; } a[k] = 9;",
    "int i = 0, k = 5; for (;;) { if (i >= n) break; a[k] += b[i]; k++, i += 2; }",
    "unsigned u = n; while (u) { u -= 1; a[u] *= 2; }",
    "unsigned long u; for (u = n; u--; ) a[u] -= b[u];",
    "int i; double s; for (i = 0, s = 1; i < n; i++) s += b[i]; a[i] = s;",
    "int k = 0; for (int i = 0; i < m; i++) { for (int j = 0; j < 4; j++) a[k++] += b[j]; k += 2; } a[k] = 1;",
    "int k = 0, i = 0; while (i < m) { int j = 3; do { a[k] += i; k++; } while (--j); i++; }",
    "for (int i = 0, k = 0; i < n; ++i, k += 2) { a[k] = b[i]; a[k + 1] = b[i + 1]; }",
    "int low = 0, high = n; while (low < high) { a[low++] += 1; a[--high] += 2; }",
    "int lo = 2, hi = n; for (; lo <= hi; lo += 2, hi -= 1) a[hi] += b[lo];",
    "int p = 0, q = 1, i = 2; while (i < n) { a[i] = a[q] + b[p]; p = q; q = i; i += 1; }",
    "for (int i = 0, k = 0; i < n; k = 2 * i + 1, i++) a[k] += b[i];",
    "int i; for (i = 1; !(i > n); i = i + 2) a[i] = i; for (int k = i; k < 30; ++k) a[k] += 3;",
    "int i = 0; do { a[i + 1] = a[i] + b[i]; i += 1; } while (i != 17 && i < n);",
    "char c = 0; int k = 40; while (c < 7) { a[k] = c; k -= 3; ++c; }",
    "for (int i = 0, j; i < n; i++) { j = n - i; a[j] += b[i]; }",
    "int k = 3; for (int i = 0; i < n; i++) { if (i % 2 == 0) { a[k] += 1; k += 1; } else { a[k] += 2; k++; } }",
    "double *lo = a, *hi = a + n; while (lo < hi) { *lo++ += 1; *--hi += 2; }",
    "const double *p, *e = b + n; double *q = a; for (p = b; p != e;) *q++ = *p++;",
    "double *p = a + 1; for (int k = 0; k < n; k++) *p++ = 3; p = a; for (int k = 0; k < m; k++, p += 2) p[1] += *p;",
    "double *p = a; const double *q = b + n; do { *p++ += *--q; } while (q != b);",
    "for (double *p = a + n; p > a; p -= 1) p[-1] *= 2;",
    "double *p = a; int k = n; while (k--) { *p += k; p += 1; }",
    "for (int i = 0; i < m; i++) { double *p = a + 6 * i, *e = p + 6; for (; p < e; ++p) *p -= b[e - p]; }",
    "double *p = a; for (const double *q = b + n - 1; q >= b; q--, p += 2) { *p = *q; p[1] = -*q; }",
    "double *p = &a[n]; while (p-- != a) *p += b[p - a];",
    "int i; double *p; for (i = 0, p = a + 2; i < n; i += 2, p++) *p = i; *p = 5;",
    "for (m = 2; m < n; m++) a[m] += b[m];",
    "while (m > 0) { a[m] += m; m -= 2; n = n + 1; a[n + 40] = 2; }",
)
"""Of what `n` and `m` say, of an array and of one that is read."""

RUNS = """\
int main(void)
{
    void (*all[])(ARGUMENTS) = {NAMES};
    for (int n = 1; n < 24; n++) {
        double a[100], b[100], s = 0;
        for (int k = 0; k < 100; k++) a[k] = k * k % 17, b[k] = k % 5;
        for (int k = 0; k < COUNT; k++) {
            all[k](n, 1 + n / 3, a, b);
            for (int i = 0; i < 100; i++) s += (i + 1) * (a[i] = (long)a[i] % 97);
            printf("%d %d %.17g\\n", n, k, s);
        }
    }
    return 0;
}
"""


def test_outputs_compute_the_same(tmp_path: Path) -> None:
    """Each spelling is read as assignments, and what is written for it computes the same, for all sizes."""
    arguments = HEAD[HEAD.index("(") + 1 : -1]
    names = [f"f{number}" for number in range(len(SPELLINGS))]
    lines = [
        f"void {name}({arguments})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}"
        for name, body in zip(names, SPELLINGS, strict=True)
    ]
    runs = RUNS.replace("ARGUMENTS", arguments).replace("NAMES", ", ".join(names)).replace("COUNT", str(len(names)))
    path = tmp_path / "whole.c"
    path.write_text("\n".join(["#include <stdio.h>", *lines, runs]))
    program = load(path, sizes={"n": 12, "m": 5})
    assert [found.function for found in program.scops] == names
    assert all(isinstance(s.body, Assignment) for found in program.scops for s in found.statements)
    printed = []
    for place in (0, -1):
        pieces = [(one, list(rank(one, options=Options(space="small")))[place].generated) for one in program.scops]
        (tmp_path / "run.c").write_text(splice(program.source, pieces, ""))
        for source in ("whole.c", "run.c"):
            flags = ["-O1", "-march=native", "-fopenmp", "-Wall", "-Wno-unknown-pragmas"]
            run_compiler(["cc", *flags, "-o", tmp_path / "run", tmp_path / source])
            printed.append(run_program([tmp_path / "run"]).stdout)
    assert len(set(printed)) == 1
