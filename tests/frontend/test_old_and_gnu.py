"""C of 1989 and of GNU: what stands around the loops does not matter to them, what a function holds costs it alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polydl import optimize
from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.frontend.text.chunks import clean
from polydl.options import Options
from polydl.search.loading import parsed
from tests.efforts import FEW
from tests.frontend.reading import reads, scop

LOOP = "for (int i = 0; i < n; i++) y[i] = 2 * x[i];"
HEAD = "void f(int n, const float *restrict x, float *restrict y)"


def functions(tmp_path: Path, text: str, name: str = "file.c") -> tuple[list[str], list[str]]:
    """Functions with scops, and why others have none."""
    path = tmp_path / name
    path.write_text(text)
    found = load(path, require_sizes=False)
    return [one.function for one in found.scops], [f"{one.span}: {one.reason}" for one in found.unread]


@pytest.mark.parametrize(
    "beside",
    [
        "int m = ({ int t = n; t + 1; }); (void)m;",
        '__asm__ volatile ("" ::: "memory");',
        '__asm__ volatile ("nop" : "+r"(n) : [other] "r"(x) : "memory");',
        "__auto_type m = n; (void)m;",
        '_Static_assert(sizeof(int) == 4, "four");',
        "__attribute__((vector_size(32))) double v = {0}; (void)v;",
        "typedef float v8 __attribute__((vector_size(32))); v8 v = {0}; (void)v;",
        "__typeof__(*x) t = 1; (void)t;",
    ],
)
def test_gnu_c_beside_the_loops(tmp_path: Path, beside: str) -> None:
    found, unread = functions(tmp_path, f"{HEAD} {{ {beside} {LOOP} }}")
    assert found == ["f"] and not unread, unread


def test_what_a_statement_expression_changes_is_no_constant(tmp_path: Path) -> None:
    for change in ("({ n = 50; n; })", '__asm__ volatile ("" : "+r"(n))', "({ int *p = &n; *p = 3; 0; })"):
        path = tmp_path / "changed.c"
        path.write_text(f"void f(const float *restrict x, float *restrict y) {{ int n = 100; {change}; {LOOP} }}")
        (found,) = load(path, require_sizes=False).scops
        assert found.parameters == ("n",), change


def test_what_a_statement_expression_reads_is_live(tmp_path: Path) -> None:
    (found,) = load(
        _written(
            tmp_path,
            "float f(int n, const float *restrict x) { float s = 0; for (int i = 0; i < n; i++) s += x[i];\n"
            "return ({ float t = s; t * 2; }); }",
        ),
        require_sizes=False,
    ).scops
    assert "s" in found.live_out


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.c"
    path.write_text(text)
    return path


def test_a_statement_expression_in_the_loops_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="a statement expression of GNU C, or of assembly, are unknown"):
        scop(tmp_path, f"{HEAD} {{ for (int i = 0; i < n; i++) y[i] = ({{ float t = x[i]; t; }}); }}")


def test_vectors_are_no_elements(tmp_path: Path) -> None:
    for vector in (
        "typedef float v __attribute__((vector_size(16)));",
        "typedef __attribute__((__vector_size__(16))) float v;",
    ):
        with pytest.raises(InputErrors, match="'v' are not supported"):
            scop(tmp_path, f"{vector}\nvoid f(v x[9]) {{ for (int i = 0; i < 9; i++) x[i] = x[i] + x[i]; }}")


def test_the_text_keeps_its_length() -> None:
    text = (
        "int a = ({ int b = 1;\n b; }), c; typedef unsigned char v __attribute__((\nvector_size(8)));\n"
        '__asm__("nop"\n : "=r"(a)\n : "r"(c)); ({a;}); ({a=c;}); ({}); f(({ a++; ++c; })); ({ s.a = 1; p->c = 2; });\n'
    )
    made, _ = clean(text)
    assert len(made) == len(text)
    assert [len(line) for line in made.split("\n")][:1] != [0] and made.count("\n") == text.count("\n")
    assert "_s(&a,c)" in made and "_s(&a,&c)" in made and "_s(a)" in made and "_s(s,p)" in made and "({" not in made


def test_int128_in_one_function_costs_the_others_nothing(tmp_path: Path) -> None:
    found, unread = functions(
        tmp_path,
        f"void g(int n, __int128 *x) {{ for (int i = 0; i < n; i++) x[i] *= 3; }}\n{HEAD} {{ {LOOP} }}\n"
        "void h(int n, int *x) { for (int i = 0; i < n; i++) switch (x[i]) { case 1 ... 3: x[i] = 0; } }\n"
        "void idle(int n) { switch (n) { case 1 ... 3: return; } }",
    )
    assert found == ["f"]
    assert [why.split(": ", 1)[1].split(":")[0] for why in unread] == [
        "elements of type '__int128' are not supported",
        "this is not C that can be read",
    ]


OLD = """
%:define SIZE(m) (m)
product(m, n, k, a, b, c)
    int m, n, k;
    double *a, *b;
    register double *c;
{
    register int i, j, l;
    auto s;
    static calls;
    calls++;
    for (i = 0; i < SIZE(m); i++)
        for (j = 0; j < n; j++) <%
            c<:i * n + j:> = 0;
            for (l = 0; l < k; l++)
                c<:i * n + j:> += a<:i * k + l:> * b<:l * n + j:>;
        %>
}
double sums(n, x) double x<::>; <% register i; double s = 0; for (i = 0; i < n; i++) s += x<:i:>; return s; %>
"""


@pytest.mark.few_sizes
def test_functions_of_1978_and_digraphs(tmp_path: Path) -> None:
    assert functions(tmp_path, OLD) == (["product", "sums"], [])
    path = _written(tmp_path, OLD)
    text = optimize(path, run=False, sizes={"m": 40, "n": 48, "k": 56}, space="small", effort=FEW).text
    assert "%:define" in text and "auto s;" in text
    compiled = [
        "cc",
        "-w",
        "-O1",
        "-fopenmp",
        "-march=native",
        "-x",
        "c",
        "-c",
        "-o",
        str(tmp_path / "o.o"),
        "-",
    ]
    assert subprocess.run(compiled, input=text.encode(), check=False).returncode == 0


LINES = """#line 4711 "grammar with spaces.y"
#define LOOP(v, n) for (int v = 0; v < (n); v++)
void f(int n, const float *restrict x, float *restrict y)
{
    LOOP(i, n) {
# 7 "elsewhere.c"
        y[i] = x[i] * (__LINE__ - 6);
    }
}
#line 3
void g(int n, float *x)
{
    for (int i = 0; i < n; i++)
        x[i * i] = x[n % i];
}
"""


def test_places_are_those_of_the_file_whatever_it_says_of_its_lines(tmp_path: Path) -> None:
    found = load(_written(tmp_path, LINES + LOOP.join(["void h" + HEAD[6:] + "{ ", "}"])), require_sizes=False)
    assert [(one.function, one.span.line) for one in found.scops] == [("f", 5), ("h", 16)]
    assert [one.span.line for one in found.unread if one.span is not None] == [14]


def test_functions_of_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "body.h").write_text(f"{HEAD} {{ {LOOP} }}")
    with pytest.raises(InputErrors, match=r"the functions stand in other files, .*'f' \(.*body.h\)"):
        load(_written(tmp_path, '#include "body.h"\n'), require_sizes=False)


NAMES = """\
#define STEP(a, b) \\
\t((a) + \\
\t (b))
void wärme(int n, double Δt, const double 温度[restrict n], double größe[restrict n])
{
#pragma scop\t
\tfor (int ι = 1; ι < n - 1; ι++) /* ι is a letter */
\t\tgröße[ι] = STEP(温度[ι], Δt * (温度[ι - 1] - 2 * 温度[ι] + \\
\t\t\t温度[ι + 1]));
#pragma endscop  \t
}
void other(int m, float x[m]) { for (int i = 0; i < m; i++) x[i] = 0; }
"""


def test_letters_outside_of_ascii_a_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "crlf.c"
    path.write_bytes(b"\xef\xbb\xbf" + NAMES.replace("\n", "\r\n").encode())
    (found,) = load(path, sizes={"n": 500, "m": 3}).scops
    assert found.function == "wärme" and len(reads(found.statements[0], "温度")) == 4
    out = tmp_path / "out.c"
    optimize(path, out, run=False, sizes={"n": 500}, space="small")
    assert "größe[" in out.read_text() and b"\r\n" in out.read_bytes()
    compiled = ["cc", "-w", "-O1", "-fopenmp", "-march=native", "-c", "-o", str(tmp_path / "out.o"), str(out)]
    assert subprocess.run(compiled, check=False).returncode == 0


@pytest.mark.parametrize("folder", ["gr\udcf6\udcdfe", "größe"])
def test_names_of_files_in_any_bytes_and_any_locale(tmp_path: Path, folder: str) -> None:
    path = tmp_path / os.fsdecode(folder.encode("utf-8", "surrogateescape")) / "file.c"
    path.parent.mkdir()
    path.write_text(f"{HEAD} {{ {LOOP} }}")
    code = "import sys, polydl; print(*[one.function for one in polydl.load(sys.argv[1], sizes={'n': 9}).scops])"
    for locale in ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"}):
        command = [sys.executable, "-c", code, str(path)]
        done = subprocess.run(command, env={**os.environ, **locale}, capture_output=True, check=False)
        assert done.stdout == b"f\n", done.stderr


def brackets(depth: int) -> str:
    return f"{HEAD} {{ for (int i = 0; i < n; i++) y[i] =\n    {'(' * depth}x[i]{' + 1)' * depth}; }}"


def test_brackets_150_deep(tmp_path: Path) -> None:
    path = _written(tmp_path, brackets(150))
    limit = sys.getrecursionlimit()
    result = optimize(path, tmp_path / "out.c", run=False, sizes={"n": 1000}, space="small")
    assert result.text.count("for") and sys.getrecursionlimit() == limit
    assert parsed(path, Options()).unit.externals


def test_brackets_deeper_than_can_be_read_are_told_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="nested too deeply to be read") as error:
        load(_written(tmp_path, brackets(5000)))
    assert error.value.span is not None and error.value.span.line == 2


BRANCHES = """
void chosen(int n, int m, const float *restrict x, float *restrict y)
{
#ifdef BACKWARDS
    for (int i = n - 1; i >= 0; i--)
#else
    for (int i = 0; i < n; i++)
#endif
    {
#if 0
        for (int j = 0; j < m; j++) {   /* an unbalanced brace in code that is left out */
#endif
        for (int j = 0; j < m; j++)
            y[i * m + j] = 2 * x[i * m + j];
    }
}

float after(float x) { return x + 1; }
"""


@pytest.mark.parametrize("defines", [{}, {"BACKWARDS": "1"}])
def test_branches_that_are_not_compiled_end_no_region(tmp_path: Path, defines: dict[str, str]) -> None:
    done = optimize(
        _written(tmp_path, BRANCHES), None, sizes={"n": 20, "m": 30}, defines=defines, run=False, space="small"
    )
    assert done.text.count("float after(float x) { return x + 1; }") == 1
    assert "#if 0" in done.text and done.text.count("#if") == done.text.count("#endif")
    (found,) = load(_written(tmp_path, BRANCHES), sizes={"n": 20, "m": 30}, defines=defines).scops
    assert found.source.text[: found.region.end].rstrip().endswith("}")
