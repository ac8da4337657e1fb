"""Vector forms of libm's functions: declared where a loop may use them, taken by gcc, and as exact as is promised."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.ctree import Binary as Compared
from polydl.lower.ctree import Block, For, Int, Name, Pragma, Raw
from polydl.lower.vector_math import is_straight, vector_declarations
from polydl.model.functions import FUNCTIONS
from tests.compiling import run_compiler

X86_GLIBC = "#include <math.h>\n#if !defined(__x86_64__) || !defined(__GLIBC__) || __GLIBC__ < 2\n#error\n#endif\n"


def loop(text: str, pragma: str = "omp simd") -> Block:
    body = Raw((text,))
    return Block((Pragma(pragma), For("c0", "int", Int(0), Compared("<", Name("c0"), Int(9)), Int(1), body)))


def declared(text: str, source: str = "", pragma: str = "omp simd") -> set[str]:
    return set(re.findall(r"extern (.*);", vector_declarations([loop(text, pragma)], source)))


def test_what_is_called_is_declared() -> None:
    assert declared("y[c0] = exp(x[c0]) + powf(a, b) * erfcf(c) + sqrt(x[c0]) + tgamma(x[c0]);") == {
        "double exp(double)", "float powf(float, float)", "float erfcf(float)", "double sqrt(double)",
    }  # fmt: skip
    assert declared("y[c0] = logf(x[c0]);", pragma="omp simd reduction(+ : s)") == {"float logf(float)"}


def test_other_loops_and_own_functions_are_left_alone() -> None:
    assert not declared("y[c0] = exp(x[c0]);", pragma="omp parallel for")
    assert not declared("y[c0] = exp(x[c0]);", source="static double exp(double x)\n{\n return x; }")
    assert not declared("y[c0] = exp(x[c0]);", source="# define exp(x) my_exp(x)")
    assert declared("y[c0] = exp(x[c0]);", source="if (exp(x) > 1) { y = 2; }")
    assert declared("y[c0] = exp(x[c0]);", source="for (i = 0; i < exp(x); i++) { y = 2; }")
    assert not declared("y[c0] = my_exp(x[c0]) + __builtin_exp(x[c0]);")


def test_a_file_that_reads_errno_keeps_its_functions() -> None:
    """A declaration holds for the whole file, and a const function need not be called."""
    source = "int failed(double x)\n{\n    errno = 0;\n    return sqrt(x) < 0 || errno == EDOM;\n}\n"
    assert not declared("y[c0] = sqrt(x[c0]) + exp(x[c0]);", source)
    assert declared("y[c0] = sqrt(x[c0]);", "/* my_errno */")


def compiler(text: str, *flags: str) -> str:
    """Assembly, or nothing where this is no gcc on x86 with glibc."""
    command = [
        "gcc",
        "-x",
        "c",
        "-O3",
        "-fopenmp",
        "-mavx2",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-S",
        "-o",
        "-",
        "-",
    ]
    run = run_compiler(command, text=text, check=False)
    return run.stdout if run.returncode == 0 else ""


def test_functions_of_the_file_count() -> None:
    source = "static double cdf(double x)\n{\n    return 0.5 * erfc(-x) / sqrt(x);\n}\n"
    assert declared("y[c0] = cdf(x[c0]);", source) == {"double erfc(double)", "double sqrt(double)"}
    assert not declared("y[c0] = x[c0];", source)


def test_straight_code_has_no_loops() -> None:
    assert is_straight(Block((Raw(("y[c0] = exp(x[c0]);",)), Pragma("omp simd"))))
    assert not is_straight(Raw(("{", "for (k = 0; k < n; k++) y[k] = 0;", "}")))
    assert not is_straight(Block((loop("y[c0] = 0;"),)))


@pytest.mark.skipif(
    shutil.which("gcc") is None or not compiler(X86_GLIBC), reason="vector forms are glibc's, on x86, for gcc"
)
def test_gcc_takes_them() -> None:
    """Of every function; those of a later glibc than this one are called as they were."""
    for row in FUNCTIONS:
        if row.libmvec is None:
            continue
        name, arguments = row.name, "x[i], y[i]" if row.arity == 2 else "x[i]"
        text = vector_declarations([loop(f"{name}({arguments})")], "")
        version = re.search(r"__GLIBC_PREREQ\((\d+), (\d+)\)", text)
        assert version
        program = (
            f"#include <math.h>\n{text}\nvoid f(int n, const double *restrict x, double *restrict y)\n{{\n"
            f"#pragma omp simd\nfor (int i = 0; i < n; i++) y[i] = {name}({arguments});\n}}\n"
        )
        here = compiler(f"{X86_GLIBC}\n#if !__GLIBC_PREREQ({version[1]}, {version[2]})\n#error\n#endif\n")
        assert (f"_ZGVdN4v_{name}" in (made := compiler(program)) or f"_ZGVdN4vv_{name}" in made) == bool(here), name


@pytest.mark.skipif(
    shutil.which("gcc") is None or not compiler(X86_GLIBC), reason="vector forms are glibc's, on x86, for gcc"
)
def test_gcc_computes_arms_of_choices_in_all_lanes() -> None:
    text = vector_declarations([loop("y[c0] = exp(x[c0]);")], "")
    program = (
        f"#include <math.h>\n{text}\nvoid f(int n, const double *restrict x, double *restrict y)\n{{\n"
        "#pragma omp simd\nfor (int i = 0; i < n; i++) y[i] = x[i] > 0.25 ? exp(x[i]) : 0.0;\n}\n"
    )
    assert "_ZGVdN4v_exp" in compiler(program)


@pytest.mark.skipif(shutil.which("gcc") is None or not compiler("#ifndef __x86_64__\n#error\n#endif\n"), reason="x86's")
def test_square_roots_in_vectors() -> None:
    text = vector_declarations([loop("y[c0] = sqrt(x[c0]);")], "")
    program = (
        f"#include <math.h>\n{text}\nvoid f(int n, const double *restrict x, double *restrict y)\n{{\n"
        "#pragma omp simd\nfor (int i = 0; i < n; i++) y[i] = sqrt(x[i]);\n}\n"
    )
    assert "sqrtpd" in compiler(program)


def test_end_to_end(tmp_path: Path) -> None:
    """Logarithms and error functions, special values among the arguments."""
    source = tmp_path / "entropy.c"
    source.write_text(
        "#include <math.h>\n"
        "void entropy(int n, const double *restrict p, double *restrict h)\n{\n"
        "    for (int i = 0; i < n; i++)\n        h[i] = -p[i] * log(p[i]) + erfc(p[i]);\n}\n"
    )
    kernel = polydl.compile(source.read_text(), sizes={"n": 4099}, options=polydl.Options(top_k=2, threads=2, budget=5))
    rng = np.random.default_rng(0)
    p, h = rng.random(4099), np.zeros(4099)
    p[:6] = 0.0, np.inf, np.nan, -1.0, 5e-324, 30.0
    kernel(n=4099, p=p, h=h)
    with np.errstate(all="ignore"):
        want = -p * np.log(p) + np.array([math.erfc(x) for x in p])
    np.testing.assert_allclose(h, want, rtol=1e-14)
