"""`while` and `do` loops that count."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.scop import BlackBox
from polydl.options import Options
from polydl.pipeline import rank
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import same_set, scop

HEAD = "void f(int n, unsigned u, float *y, float z[64][64])"


@pytest.mark.parametrize(
    ("body", "domain"),
    [
        ("int i = 0; while (i < n) { y[i] = 1; i++; }", "[n] -> { S0[i] : 0 <= i < n }"),
        ("int i; i = 3; while (i <= n) { y[i] = 1; i = i + 2; }", "[n] -> { S0[i] : 3 <= i <= n and i mod 2 = 1 }"),
        ("int i = n - 1; float a = 2; while (i >= 0) { y[i] = a; i -= 1; }", "[n] -> { S0[i] : 0 <= i < n }"),
        ("int i = n; while (i-- > 0) y[i] = 1;", "[n] -> { S0[i] : 0 <= i < n }"),
        ("unsigned i = u; while (i--) { y[i] = 1; }", "[u] -> { S0[i] : 0 <= i < u }"),
        ("int i = 0; do { y[i] = 1; ++i; } while (i < 64);", "{ S0[i] : 0 <= i < 64 }"),
        ("int i = 0; do { y[i] = 1; i++; } while (i < n);", "[n] -> { S0[i] : 0 <= i < n; S0[0] }"),
        ("int i = n; do { y[i] = 1; } while (--i > 0);", "[n] -> { S0[i] : 0 < i <= n; S0[n] }"),
        ("int i = 0; if (n == 0) return; do { y[i] = 1; } while (++i < n);", "[n] -> { S0[i] : 0 <= i < n; S0[0] }"),
        ("int i = 0; for (;;) { if (i >= n) break; y[i] = 1; ++i; }", "[n] -> { S0[i] : 0 <= i < n }"),
        (
            "int i = 0; while (1) { if (i >= n || i > 9) { break; } y[i] = 1; i++; }",
            "[n] -> { S0[i] : 0 <= i < n and i < 10 }",
        ),
        ("int i = 0; while (1) { y[i] = 1; if (++i == 8) break; }", "{ S0[i] : 0 <= i < 8 }"),
        ("for (int i = 0;; i++) { if (!(i < n)) break; y[i] = 1; }", "[n] -> { S0[i] : 0 <= i < n }"),
        ("for (int i = 0; i < n;) { y[i] = 1; i += 2; }", "[n] -> { S0[i] : 0 <= i < n and i mod 2 = 0 }"),
        ("int i = 0; for (; i < n;) { y[i] = 1; i++; }", "[n] -> { S0[i] : 0 <= i < n }"),
        ("int i = 0, k = 9; while (i < 8) { y[k] = i; i++; k--; }", "{ S0[i] : 0 <= i < 8 }"),
        ("int i = 0; n = n - 1; while (i < n) { y[i] = 1; i++; }", "[n] -> { S0[i] : 0 <= i < n }"),
        (
            "int i = 0, j; while (i < 8) { j = i; while (j < 9) { z[i][j] = 1; j++; } i++; }",
            "{ S0[i, j] : 0 <= i < 8 and i <= j < 9 }",
        ),
        (
            "int i = 0; while (i < n) { y[i] = 1; i++; i++; }",
            "[n] -> { S0[i_index] : 0 <= 2i_index < n }",
        ),
        ("int i = 0; while (i < n) { i++; y[i] = 1; }", "[n] -> { S0[i_index] : 0 <= i_index < n }"),
        ("for (int i = 0; i < n;) { i++; y[i] = 1; }", "[n] -> { S0[i_index] : 0 <= i_index < n }"),
        ("for (unsigned i = 63; i < 64; --i) y[i] = 1;", "{ S0[i] : 0 <= i < 64 }"),
        ("for (unsigned i = 63; i < u; --i) y[i] = 1;", "[u] -> { S0[i] : 0 <= i < 64 and u > 63 }"),
        ("for (unsigned long i = 63; 64 > i; i--) y[i] = 1;", "{ S0[i] : 0 <= i < 64 }"),
        ("for (unsigned i = 20; i != -1u; --i) y[i] = 1;", "{ S0[i] : 0 <= i <= 20 }"),
        ("for (unsigned char i = 20; i != (unsigned char)-1; --i) y[i] = 1;", "{ S0[i] : 0 <= i <= 20 }"),
        ("for (unsigned long i = 20; i != -1; --i) y[i] = 1;", "{ S0[i] : 0 <= i <= 20 }"),
    ],
)
def test_loops_that_count(tmp_path: Path, body: str, domain: str) -> None:
    found = scop(tmp_path, f"{HEAD} {{ {body} }}")
    (statement,) = found.statements
    assert same_set(statement.domain, domain)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("int i = 0; while (i < n) { if (y[i] > 3) break; y[i] = 1; i++; }", "'while' loop"),
        ("int i = 0; while (i < n) { if (y[i] > 3) { i++; continue; } y[i] = 1; i++; }", "'while' loop"),
        ("int i = 0; while (y[i] > 0) { y[i] = 1; i++; }", "depends on data"),
        ("int i = g(); while (i < n) { y[i] = 1; i++; }", "'while' loop"),
        ("static int i = 0; while (i < n) { y[i] = 1; i++; }", "'while' loop"),
        ("int i = 0; int *p = &i; while (i < n) { y[i] = 1; i++; }", "'i' is not an array"),
        ("int i = 0; while (n > 0) { y[i] = 1; i++; }", "'while' loop"),
        ("int i = 0; do { y[i] = 1; i++; } while (i != n);", "may never end"),
        ("int i = 0; while (1) { y[i] = 1; if (i == n) break; i++; }", "'while' loop"),
        ("for (int i = 0; i < n;) { if (y[i] > 3) continue; y[i] = 1; i++; }", "no increment"),
    ],
)
def test_loops_that_are_none(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"int g(void);\n{HEAD}\n{{\n#pragma scop\n    {body}\n#pragma endscop\n}}\n")
    with pytest.raises(InputErrors) as caught:
        load(path, require_sizes=False)
    assert any(message in str(error) for error in caught.value.errors), [str(e) for e in caught.value.errors]


@pytest.mark.parametrize("loop", ["while (j < 5) { y[j] += 1; j++; }", "do y[j] += 1; while (++j < 5);"])
def test_loops_in_code_that_is_kept(tmp_path: Path, loop: str) -> None:
    """What counts them is a variable of that code alone."""
    body = f"int j; for (int i = 0; i < n; i++) if (z[i][0] > 0) {{ j = 0; {loop} if (y[i] > 9) y[7] -= i; }}"
    found = scop(tmp_path, f"void f(int n, float *restrict y, const float (*restrict z)[64]) {{ {body} }}")
    (statement,) = found.statements
    assert isinstance(statement.body, BlackBox) and set(found.arrays) == {"y", "z"}


@pytest.mark.parametrize("loop", ["while (k > 0) { k--; y[k] = 1; }", "do { k--; y[k] = 1; } while (k > 0);"])
def test_a_variable_that_a_later_loop_gives_a_value_is_nobodys_before(tmp_path: Path, loop: str) -> None:
    code = f"void f(int n, float *y, int c) {{ int k = n; {loop} while (c > y[0]) {{ k = n; {loop} c--; }} }}"
    first, *_ = load(_written(tmp_path, code), require_sizes=False).scops
    assert first.statements[0].depth == 1


def _written(folder: Path, code: str) -> Path:
    path = folder / "loops.c"
    path.write_text(code)
    return path


def test_the_value_behind_the_loop(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="'i' is used after the scop"):
        scop(tmp_path, "int f(int n, float *y) { int i = 0; while (i < n) { y[i] = 1; i++; } return i; }")


def test_the_measured_original_starts_where_the_function_does(tmp_path: Path) -> None:
    code = "void f(int n, float *y) { int i = n - 1; while (i >= 0) { y[i] = 1; i--; } }"
    assert scop(tmp_path, code, sizes={"n": 37}).region.starts == {"i": 36}


WHOLE = """\
#include <stdio.h>
void f(int n, const float *restrict x, float *restrict y)
{
    int i = n;
    while (i-- > 0) {
        int j = 0;
        do {
            y[i] += x[j] * j;
            if (y[i] > 9) y[i] -= x[i];
            j++;
        } while (j < 5);
    }
}
int main(void)
{
    float x[64], y[64], sum = 0;
    for (int k = 0; k < 64; k++) x[k] = k % 7, y[k] = k % 5;
    f(64, x, y);
    f(9, x, y);
    for (int k = 0; k < 64; k++) sum += (k + 1) * y[k];
    printf("%.9g\\n", sum);
    return 0;
}
"""


ENDLESS = """\
    for (int i = 0;;) {
        if (i >= n) break;
        y[i] += i % 3;
        int k = 0;
        do y[i] += x[k]; while (++k < n - 10);
        i += 3;
    }
}
"""


@pytest.mark.parametrize("body", [WHOLE[WHOLE.index("    int i") : WHOLE.index("int main")], ENDLESS])
def test_outputs_compute_the_same(tmp_path: Path, body: str) -> None:
    code = WHOLE[: WHOLE.index("    int i")] + body + WHOLE[WHOLE.index("int main") :]
    path = tmp_path / "whole.c"
    path.write_text(code)
    program = load(path, sizes={"n": 64}, function="f")
    (found,) = program.scops
    texts = [
        code,
        *(splice(program.source, [(found, one.generated)], "") for one in rank(found, options=Options(space="small"))),
    ]
    assert len({_printed(text, tmp_path) for text in texts[:4]}) == 1


def _printed(text: str, folder: Path) -> str:
    (folder / "run.c").write_text(text)
    run_compiler(["cc", "-O2", "-march=native", "-fopenmp", "-o", folder / "run", folder / "run.c"])
    return run_program([folder / "run"]).stdout


@pytest.mark.parametrize(
    ("body", "known", "domain"),
    [
        ("for (unsigned i = (unsigned)n; i-- > 0;) y[i] = 1;", "n >= 0", "0 <= i < n"),
        ("for (unsigned long i = 0; i < (unsigned long)n; i++) y[i] = 1;", "n >= 0", "0 <= i < n"),
        ("for (unsigned i = 0; i < m - 1; i++) y[i] = 1;", "m >= 1", "0 <= i and i + 1 < m"),
        (
            "for (unsigned i = m - (unsigned)n; i-- > 0;) y[i] = 1;",
            "n <= m and m >= 0 and m - n <= 4294967295",
            "0 <= i < m - n",
        ),
    ],
)
def test_numbers_that_would_wrap_around_are_left_to_the_original(
    body: str, known: str, domain: str, tmp_path: Path
) -> None:
    """Where sizes may be any, those are asked for first with which nothing wraps around below zero."""
    text = f"void f(int n, unsigned m, float *y)\n{{\n{body}\n}}\n"
    path = tmp_path / "wraps.c"
    path.write_text(text)
    with pytest.raises(InputErrors):
        load(path, require_sizes=False)
    (found,) = load(path, require_sizes=False, rows_fit=True).scops
    (statement,) = found.statements
    names = ", ".join(found.parameters)
    assert found.context.params().is_subset(isl.Set(f"[{names}] -> {{ : {known} }}"))
    assert same_set(statement.domain.intersect_params(found.context.params()),
                    f"[{names}] -> {{ S0[i] : {domain} and {known} }}")  # fmt: skip
    (sized,) = load(path, sizes=dict.fromkeys(found.parameters, 7)).scops
    assert not sized.only_with_sizes
