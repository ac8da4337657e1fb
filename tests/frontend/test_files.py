"""Whole files: headers, GNU C, regions and their offsets, guards, candidates without pragmas, hopeless input."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from pathlib import Path

import pytest
from pycparser.c_parser import CParser

from polydl.base.errors import InputError, InputErrors, ToolchainError
from polydl.frontend import load
from polydl.model.types import F64
from tests.frontend.reading import same_map, same_set, scop, write

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

GNU = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <stdint.h>
#include <omp.h>
#include <immintrin.h>
#define N 16
typedef float v8 __attribute__((vector_size(32)));
__extension__ typedef long long wide;
static inline __attribute__((always_inline, noinline)) int rdtsc(void)
{
    unsigned lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
    int t = ({ int z = 3; z; });
    switch (t) { case 1 ... 3: return 1; }
    void *labels[] = { &&out };
    goto *labels[0];
out:
    return (int)lo ?: (int)hi;
}
extern double half(double x) __attribute__((const));
static float relu(float x) { return x > 0 ? x : 0; }
float table[N] __attribute__((aligned(64)));
__attribute__((noinline)) void f(float *__restrict__ x, float *__restrict y)
{
    __m512 unused;
    double start = omp_get_wtime();
    #pragma omp parallel for
    for (int i = 0; i < N; i++) x[i] = 1;
#pragma scop
    #pragma omp simd
    for (int i = 0; i < N; i++) {
        y[i] = relu(x[i]) + sqrtf(fabsf(x[i]));
        table[i] = half(y[i]);
    }
#pragma endscop
    printf("%f\n", omp_get_wtime() - start);
}
int main(int argc, char **argv)
{
    float *x = malloc(sizeof(float) * N);
    do { argc--; } while (argc);
    return 0;
}
"""


def test_gnu_c_around_a_scop(tmp_path: Path) -> None:
    found = scop(tmp_path, GNU, require_sizes=True)
    assert found.function == "f"
    assert len(found.statements) == 2
    assert [(g.name, g.value, g.macro) for g in found.guards] == [("N", 16, True)]
    assert found.assumptions == ()
    assert same_map(write(found.statements[1]).relation, "{ S1[i] -> table[i] : 0 <= i < 16 }")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_offsets_are_those_of_the_original_text(tmp_path: Path, newline: str) -> None:
    text = (
        "// caf\xe9 \u2713\n/* a\n comment */ static\nvoid f(float A[10])\n{\n\tint i;\n#pragma scop // from here\n"
        "\tfor (i = 0; i < 10; i++)\n\t\tA[i] = 0.0f; /* \u2713 */\n  #  pragma endscop\n}\n"
    ).replace("\n", newline)
    path = tmp_path / "bytes.c"
    data = text.encode() + b"// \xff\xfe" + newline.encode()
    path.write_bytes(data)
    program = load(path)
    (found,) = program.scops
    assert program.source.text.encode("utf-8", "surrogateescape") == data
    start, end = found.region.start, found.region.end
    expected = "\tfor (i = 0; i < 10; i++)\n\t\tA[i] = 0.0f; /* \u2713 */\n".replace("\n", newline)
    assert program.source.text[start:end] == expected
    helpers = program.source.text[found.region.helpers :]
    assert helpers.startswith((" comment */ static", "static"))
    assert found.statements[0].span.line == 9
    assert found.statements[0].span.column == 3
    assert found.region.declared_outside == ("int i",)


def test_a_definition_starts_at_its_own_line(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "int a;\n\nstatic\nvoid f(float A[10])\n{\n#pragma scop\n"
        "for (int i = 0; i < 10; i++) A[i] = 0;\n#pragma endscop\n}\n",
    )
    assert found.source.text[found.region.helpers :].startswith("static\nvoid f")


def test_several_scops_and_functions(tmp_path: Path) -> None:
    code = """
    void f(float A[10]) {
      int i;
    #pragma scop
      for (i = 0; i < 10; i++) A[i] = 0.0f;
    #pragma endscop
      A[0] = 3.0f;
    #pragma scop
      for (i = 0; i < 5; i++) A[i] = 1.0f;
    #pragma endscop
    }
    void g(float B[10]) {
      for (int t = 0; t < 3; t++) {
    #pragma scop
        for (int i = 0; i < 10; i++) B[i] += 1.0f;
    #pragma endscop
      }
    }
    """
    path = tmp_path / "several.c"
    path.write_text(code)
    scops = load(path).scops
    assert [s.function for s in scops] == ["f", "f", "g"]
    assert [len(s.statements[0].iterators) for s in scops] == [1, 1, 1]
    assert [s.function for s in load(path, function="g").scops] == ["g"]
    with pytest.raises(InputErrors, match="no function 'h'"):
        load(path, function="h")


def test_candidates_without_pragma(tmp_path: Path) -> None:
    code = """
    #include <stdio.h>
    static int odd(int x) { return x & 1; }
    void scale(int n, float x[n]) { int i; for (i = 0; i < n; i++) x[i] *= 2.0f; }
    void print(int n, float *x) { for (int i = 0; i < n; i++) printf("%f", x[i]); }
    void two(float x[8], float y[8]) {
      for (int i = 0; i < 8; i++) x[i] = 0.0f;
      for (int i = 0; i < 8; i++) y[i] = x[i];
      return;
    }
    int main(void) { asm volatile("nop" ::: "memory"); return ({ 1; }); }
    """
    path = tmp_path / "plain.c"
    path.write_text(code)
    scops = load(path, require_sizes=False).scops
    assert [s.function for s in scops] == ["scale", "two"]
    first, second = scops
    text = first.source.text
    assert text[first.region.start : first.region.end] == "for (i = 0; i < n; i++) x[i] *= 2.0f;"
    assert text[second.region.start : second.region.end].count("for") == 2
    with pytest.raises(InputErrors, match="'printf' are unknown"):
        load(path, function="print", require_sizes=False)


def test_guards_of_macros(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        #ifndef N
        #define N 10
        #endif
        #define HALF (N / 2)
        #define ROW(i) ((i) * WIDTH)
        #define WIDTH 7
        #define UNUSED 3
        #define SCALE 2.5f
        #define TYPE float
        void f(TYPE A[restrict HALF * WIDTH]) {
        #pragma scop
          for (int i = 0; i < HALF; i++) A[ROW(i)] = SCALE;
        #pragma endscop
        }""",
        defines={"N": "20"},
    )
    assert {g.name: g.value for g in found.guards} == {"HALF": 10, "N": 20, "WIDTH": 7}
    assert all(g.macro for g in found.guards)
    assert found.source.preprocessor_flags == ("-DN=20",)
    assert same_set(found.statements[0].domain, "{ S0[i] : 0 <= i < 10 }")


def test_headers_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "sizes.h").write_text("#pragma once\n#define N 12\nstatic const int K = 3;\n")
    (tmp_path / "local.h").write_text("#include <sizes.h>\n#pragma scop\ntypedef double real;\n")
    code = '#include "local.h"\nvoid f(real A[N]) {\n#pragma scop\n'
    code += "for (int i = K; i < N; i++) A[i] = 0;\n#pragma endscop\n}\n"
    found = scop(tmp_path, code, include_dirs=[tmp_path / "include"])
    assert same_set(found.statements[0].domain, "{ S0[i] : 3 <= i < 12 }")
    assert found.arrays["A"].element is F64


def test_conditional_compilation_hides_a_scop(tmp_path: Path) -> None:
    code = """
    void f(float A[10]) {
    #ifdef FAST
    #pragma scop
      while (1) ;
    #pragma endscop
    #else
    #pragma scop
      for (int i = 0; i < 10; i++) A[i] = 0.0f;
    #pragma endscop
    #endif
    }"""
    assert len(scop(tmp_path, code).statements) == 1
    with pytest.raises(InputErrors, match="'while'"):
        scop(tmp_path, code, defines={"FAST": "1"})


def test_continued_pragmas_keep_their_lines(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "void f(int n, float A[n]) {\n#pragma polydl \\\n  assume(n > 3 && \\\n   n < 9)\n#pragma scop\n"
        "for (int i = 0; i < n; i++)\n  A[i] = 0;\n#pragma endscop\n}\n",
    )
    assert found.statements[0].span.line == 7
    assert same_set(found.context.params(), "[n] -> { : 3 < n < 9 }")


def test_unknown_sizes_are_refused(tmp_path: Path) -> None:
    code = "void f(int n, float *A) { for (int i = 0; i < n; i++) A[i] = 0; }"
    with pytest.raises(InputErrors, match="'m' is not an integer parameter"):
        scop(tmp_path, code, sizes={"n": 4, "m": 3})


def test_parameters_that_no_bound_depends_on_may_have_sizes(tmp_path: Path) -> None:
    code = "void f(int n, unsigned long m, float a, float *A) { for (int i = 0; i < n; i++) A[i] = 0; }"
    assert scop(tmp_path, code, sizes={"n": 4, "m": 3}).sizes == {"n": 4}
    with pytest.raises(InputErrors, match="'a' is not an integer parameter"):
        scop(tmp_path, code, sizes={"a": 4})


def test_types_of_parameters_behind_their_names(tmp_path: Path) -> None:
    code = (
        "static float half(x) float x; { return x / 2; }\n"
        "void f(n, A, b)\nint n;\nfloat *A, b;\n{\n  int i;\n  for (i = 0; i < n; i++) A[i] = half(b);\n}\n"
        "int unread(int n);\nint late;\n"
    )
    found = scop(tmp_path, code)
    assert (found.function, found.parameters, list(found.arrays)) == ("f", ("n",), ["A", "b"])
    assert found.source.text[found.region.helpers :].startswith("void f(n, A, b)")


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("missing.c", None, "no such file"),
        ("folder.c", "folder", "folder"),
        ("binary.c", b"\x7fELF\0\0", "not C"),
        ("empty.c", b"", "no scop"),
    ],
)
def test_no_usable_file(tmp_path: Path, name: str, make: bytes | str | None, message: str) -> None:
    path = tmp_path / name
    if make == "folder":
        path.mkdir()
    elif isinstance(make, bytes):
        path.write_bytes(make)
    with pytest.raises(InputErrors, match=message) as caught:
        load(path)
    assert caught.value.exit_code == 2


def test_no_compiler(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="was not found") as caught:
        scop(tmp_path, "int x;", cc="no-such-compiler-anywhere")
    assert caught.value.hint
    assert caught.value.exit_code == 1


def test_a_macro_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="not a macro name"):
        scop(tmp_path, "int x;", defines={"1N": "3"})


@pytest.mark.parametrize(
    "body",
    [
        "A[0] = " + "(" * 3000 + "1" + ")" * 3000 + ";",
        "A[0] = " + "1 + " * 6000 + "1;",
        "{" * 2000 + "}" * 2000,
        "for (int i = 0; i < " + "9" * 6000 + "; i++) A[0] = 1;",
        "A[0] = " + "9" * 6000 + ";",
    ],
)
def test_absurd_input_is_refused_without_a_traceback(tmp_path: Path, body: str) -> None:
    refused: tuple[InputError, ...] = ()
    try:
        scop(tmp_path, f"void f(float A[1]) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    except InputErrors as error:
        refused = error.errors
    assert all(error.span is not None and error.hint for error in refused)


def test_all_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        scop(
            tmp_path,
            """
            void f(float A[10]) {
            #pragma scop
              for (int i = 0; i < 10; i++) { A[i * i % 5] = 0; while (1) ; }
            #pragma endscop
            }
            void g(float A[10]) {
            #pragma scop
              for (int i = 0; i < 11; i++) A[i] = 0;
            #pragma endscop
            }""",
        )
    assert [e.span.line for e in caught.value.errors if e.span] == [4, 4, 9]


@pytest.mark.parametrize(
    ("name", "arrays", "statements", "options"),
    [
        ("matmul.c", {"A", "B", "C"}, 1, {}),
        ("matmul_vla.c", {"A", "B", "C"}, 1, {"sizes": {"M": 5, "N": 6, "K": 7}}),
        ("matmul_linear.c", {"A", "B", "C", "sum"}, 3, {"sizes": {"M": 5, "N": 6, "K": 7}}),
        ("conv2d.c", {"output", "input", "filter"}, 1, {"defines": {"STRIDE_H": "2", "STRIDE_W": "2"}}),
        ("matmul_call_form.c", {"A", "B", "C"}, 1, {}),
        ("matmul_loop_form.c", {"A", "B", "C"}, 1, {}),
    ],
)
def test_examples(name: str, arrays: set[str], statements: int, options: dict[str, object]) -> None:
    (found,) = load(EXAMPLES / name, **options).scops  # type: ignore[arg-type]
    assert set(found.arrays) == arrays
    assert len(found.statements) == statements
    assert found.assumptions == ()
    assert found.parameters == ()


def test_conv2d_accesses() -> None:
    (found,) = load(EXAMPLES / "conv2d.c", defines={"STRIDE_H": "2", "STRIDE_W": "2", "NIMG": "2"}).scops
    (statement,) = found.statements
    box = "0 <= img < 2 and t = 0 and u = 0 and 0 <= oj < 56 and 0 <= kj < 3 and 0 <= ki < 3 and "
    box += "0 <= oi < 56 and 0 <= ofm < 64 and 0 <= ifm < 64"
    head = "S0[img, t, u, oj, kj, ki, oi, ofm, ifm]"
    assert same_set(statement.domain, f"{{ {head} : {box} }}")
    (read,) = (a for a in statement.accesses if a.array == "input")
    assert same_map(read.relation, f"{{ {head} -> input[img, u, 2oj + kj, 2oi + ki, ifm] : {box} }}")
    assert found.sizes["IFH"] == 113


def test_twenty_statements_take_a_few_times_the_calls_pycparser_makes_for_them(tmp_path: Path) -> None:
    """Calls of functions, ours and the parser's below it: the same on every machine, about 6 times as many."""
    loops = "\n".join(
        "for (int i = 1; i < N - 1; i++) for (int j = 1; j < M - 1; j++) "
        f"{a}[i][j] = {b}[i - 1][j] + {b}[i][j + 1] * {b}[i][j];"
        for a, b in (("A", "B"), ("B", "A")) * 10
    )
    text = f"void f(int N, int M, float A[N][M], float B[N][M]) {{\n#pragma scop\n{loops}\n#pragma endscop\n}}\n"
    path = tmp_path / "twenty.c"
    path.write_text(text)
    plain = text.replace("#pragma scop", "").replace("#pragma endscop", "")

    def calls(run: Callable[[], object]) -> int:
        counted = Profile()
        counted.runcall(run)
        return sum(entry.callcount for entry in counted.getstats())

    load(path, require_sizes=False)  # what is made once a process is not this file's
    ours, theirs = calls(lambda: load(path, require_sizes=False)), calls(lambda: CParser().parse(plain, "twenty.c"))
    assert ours < 8 * theirs
