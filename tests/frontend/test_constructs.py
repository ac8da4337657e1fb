"""Loops that their condition counts, functions of the file, declarations under conditions, long tables."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.frontend.text import parse
from polydl.lower.splice import guarded, splice
from polydl.options import Options
from polydl.pipeline import rank
from polydl.search.timing_order import TimingOrder
from tests.compiling import run_compiler
from tests.frontend.reading import region, same_set, scop, write

VECTOR = "void f(int n, unsigned u, double A[100], double B[100])"


@pytest.mark.parametrize(
    ("head", "domain"),
    [
        ("int i = 9; i-- > 0;", "{ S0[i] : 0 <= i <= 8 }"),
        ("int i = 9; i--;", "{ S0[i] : 0 <= i <= 8 }"),
        ("int i = 9; i-- >= 3;", "{ S0[i] : 2 <= i <= 8 }"),
        ("int i = 9; --i >= 0;", "{ S0[i] : 0 <= i <= 8 }"),
        ("int i = 9; 2 < --i;", "{ S0[i] : 3 <= i <= 8 }"),
        ("int i = 9; i-- != 4;", "{ S0[i] : 4 <= i <= 8 }"),
        ("int i = 2; i++ < 9;", "{ S0[i] : 3 <= i <= 9 }"),
        ("int i = -1; ++i < 9;", "{ S0[i] : 0 <= i <= 8 }"),
        ("unsigned i = u; i-- > 0;", "[u] -> { S0[i] : 0 <= i < u }"),
        ("unsigned i = u; i--;", "[u] -> { S0[i] : 0 <= i < u }"),
        ("unsigned long i = 5; i-- > 2;", "{ S0[i] : 2 <= i <= 4 }"),
    ],
)
def test_counting_conditions(tmp_path: Path, head: str, domain: str) -> None:
    found = region(tmp_path, f"#pragma polydl assume(u <= 100)\nfor ({head}) A[i] = 1;", VECTOR)
    (statement,) = found.statements
    assert same_set(statement.domain.intersect_params(found.context), domain) or same_set(statement.domain, domain)
    assert bool(statement.descending) == ("--" in head)


@pytest.mark.parametrize(
    "head",
    [
        "int i = 9; i - 1;",
        "int i = 9; i-- > i;",
        "int i = 9; A[0] > 0;",
    ],
)
def test_conditions_that_do_not_count(tmp_path: Path, head: str) -> None:
    with pytest.raises(InputErrors):
        region(tmp_path, f"for ({head}) A[i] = 1;", VECTOR)


def test_loop_variables_of_one_name_and_several_types(tmp_path: Path) -> None:
    body = "for (long i = 0; i < 9; i++) A[i] = 1; for (unsigned i = 0; i < 5; i++) B[i] = i;"
    assert len(region(tmp_path, body, VECTOR).statements) == 2


CALLING = """
void f(double A[9])
{
#pragma scop
    for (int i = 0; i < 9; i++)
        A[i] = g(A[i]);
#pragma endscop
}
"""
PURE = {
    "branches": "static int g(int a) { if (a > 3) return a; else { a += 2; return -a; } }",
    "variables": "static double g(double a) { double b = a * a, c; c = b + 1; return c; }",
    "a loop": "static int g(int a) { int s = 0; for (int i = 0; i < a; i++) s += i; while (s > 9) s -= 9; return s; }",
    "calls": "static double h(double a) { double b = a; return b; }\nstatic double g(double a) { return h(a) + h(1); }",
}
IMPURE = {
    "a static": "static int g(int a) { static int n; n += a; return n; }",
    "a global written": "int n;\nstatic int g(int a) { n = a; return a; }",
    "memory": "static int g(int *a) { int b = *a; return b; }",
    "volatile": "static int g(int a) { volatile int b = a; return b; }",
    "a call": "int h(int a);\nstatic int g(int a) { int b = h(a); return b; }",
    "itself": "static int g(int a) { if (a) return g(a - 1); return 0; }",
    "an array": "static int g(int a) { int b[2] = {a, a}; return b[0]; }",
}


@pytest.mark.parametrize("text", PURE.values(), ids=PURE)
def test_functions_that_may_be_called(tmp_path: Path, text: str) -> None:
    code = text + CALLING
    assert len(scop(tmp_path, code).statements) == 1


@pytest.mark.parametrize("text", IMPURE.values(), ids=IMPURE)
def test_functions_with_effects(tmp_path: Path, text: str) -> None:
    code = text + CALLING
    with pytest.raises(InputErrors, match="effects of the call of 'g' are unknown"):
        scop(tmp_path, code)


UNDER_CONDITIONS = """\
#ifdef DOUBLE
typedef double base;
#else
typedef float base;
#endif
/* far away */
typedef base real;
void product(real A[restrict 32][32], real B[restrict 32][32], real C[restrict 32][32])
{
#pragma scop
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            for (int k = 0; k < 32; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


@pytest.mark.parametrize(("flags", "ctype"), [((), ctypes.c_float), (("-DDOUBLE",), ctypes.c_double)])
def test_types_under_distant_conditions(tmp_path: Path, flags: tuple[str, ...], ctype: type) -> None:
    """The output made for float, compiled for double, runs the original loops."""
    path = tmp_path / "conditions.c"
    path.write_text(UNDER_CONDITIONS)
    options = Options(space="small", machine="epyc-zen5", threads=1)
    program = load(path)
    assert program.scops[0].conditions == {"DOUBLE": False}
    ranking = rank(program.scops[0], options=options)
    (variant,) = TimingOrder(ranking.variants, 1).next({})
    output = tmp_path / "output.c"
    output.write_text(splice(program.source, [(ranking.scop, variant.generated)], ""))
    library = tmp_path / "output.so"
    command = [
        "cc",
        "-O1",
        "-march=native",
        "-fopenmp",
        "-Werror=incompatible-pointer-types",
        *flags,
        "-shared",
        "-fPIC",
    ]
    run_compiler([*command, str(output), "-o", str(library)])
    block = ctype * 1024
    a, b, c = block(*[i % 5 for i in range(1024)]), block(*[i % 3 for i in range(1024)]), block()
    ctypes.CDLL(str(library)).product(a, b, c)
    for i, j in ((0, 0), (3, 17), (31, 31)):
        assert c[i * 32 + j] == sum(a[i * 32 + k] * b[k * 32 + j] for k in range(32))


def test_conditions_around_what_is_not_used_do_not_count(tmp_path: Path) -> None:
    code = "#ifdef OTHER\nint x;\n#endif\n" + CALLING.replace("g(A[i])", "1")
    assert scop(tmp_path, code).conditions == {}


def test_long_tables_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ",\n".join(", ".join(f"{(r * 8 + c) % 97}.5" for c in range(8)) for r in range(40_000))
    code = (
        f"static const double T[] = {{\n{rows}\n}}, U[2][2] = {{{{1, 2}}, {{3, 4}}}};\n"
        "void f(double A[9]) {\n#pragma scop\nfor (int i = 0; i < 9; i++) A[i] = T[i] + U[1][0];\n#pragma endscop\n}\n"
    )
    monkeypatch.setattr(parse, "MOST_TOKENS", 1000)  # the table has 640,000
    found = scop(tmp_path, code)
    assert found.statements[0].span.line == 40_005
    assert set(found.arrays) == {"A", "T", "U"}


def test_limits_are_those_of_the_systems_headers(tmp_path: Path) -> None:
    """The output runs the original loops where a macro has another value: with the real headers it must have this."""
    heads = "#include <stdlib.h>\n#include <inttypes.h>\n#include <limits.h>\n"
    names = "RAND_MAX CHAR_BIT SCHAR_MIN INT_MIN LLONG_MIN ULLONG_MAX INT16_MAX INT16_MIN UINT8_MAX UINT32_MAX SIZE_MAX"
    body = " ".join(f"A[i] += {name};" for name in names.split()) + " A[i] += INT64_C(3);"
    found = region(tmp_path, f"for (int i = 0; i < 9; i++) {{ {body} }}", heads + VECTOR)
    guards = {guard.name for guard in found.guards}
    assert guards >= set(names.split())
    output = heads + guarded(found, "typedef int made;", "\n")
    command = ["gcc", "-E", "-P", "-Werror", "-"]
    done = run_compiler(command, text=output)
    assert "typedef int made;" in done.stdout


def test_constants_may_be_read_from_arrays(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        "for (int i = 0; i < 9; i++) { const int k = X[i]; const unsigned m = i + 1; A[i] = k * 2 + m; B[i] = k; }",
        "void f(int X[9], double A[9], double B[9])",
    )
    assert [write(statement).array for statement in found.statements] == ["k", "A", "B"]
