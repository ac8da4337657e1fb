"""Regions at every place of a line and a file: what is written compiles, and computes the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

import polydl
from polydl.base.errors import InputErrors
from tests.compiling import run_compiler, run_program

pytestmark = pytest.mark.few_sizes

OPENINGS = ("{\n    ", "{ ", "{ /* set */ ", "{ int unused = 3; ", "{\n    int unused; ")
PRAGMAS = (
    "",
    "\n#pragma omp parallel for\n",
    "\n#pragma GCC ivdep\n    ",
    "\n  # pragma omp parallel for schedule(static) \\\n      num_threads(2)\n",
    "\n#pragma omp simd\n",
)
LOOPS = (
    "for (int i = 0; i < 100; i++) a[i] = b[i] * 2;",
    "for (int i = 0; i < 100; i++)\n    {\n        a[i] = b[i] * 2; }",
    """for (int i = 0; i < 100; i++)
#ifdef FAST
        a[i] = b[i] * 2;
#else
        a[i] = b[i] * 3;
#endif
""",
    """for (int i = 0; i < 50; i++)
#ifdef FAST
    {
        a[i] = b[i] * 2;
    }
#else
        a[2 * i] = b[i];
#endif
""",
)
SPLIT_HEAD = """
#ifdef FAST
    for (int i = 0; i < 100; i++)
#else
    for (int i = 0; i < 50; i++)
#endif
        a[i] = b[i];"""
CLOSINGS = (" }", "\n}", " /* done */ }", " // done\n}", " return; }", "\n    return;\n}")
BETWEEN = ("\n", "\n\n", " ", " /* next */ ", "\n#pragma omp declare simd\n", "\n__attribute__((noinline))\n")
DRIVER = """
int main(void)
{
    for (int f = 0; f < (int)(sizeof functions / sizeof *functions); f++) {
        int a[100], b[100], c[100];
        for (int i = 0; i < 100; i++) a[i] = c[i] = -i, b[i] = i * i - 50;
        functions[f](a, b), others[f](c, b);
        for (int i = 0; i < 100; i++)
            if (a[i] != c[i]) return f + 1;
    }
    return 0;
}
"""


def program(every: int, start: int) -> tuple[str, int]:
    """C of functions f0, f1, …: one of `every` combinations, from `start` on; and how many there are."""
    bodies = [
        *itertools.product(OPENINGS, PRAGMAS, LOOPS, CLOSINGS),
        *itertools.product(OPENINGS, ("",), (SPLIT_HEAD,), CLOSINGS),
    ]
    chosen = bodies[start::every]
    text = ""
    for number, parts in enumerate(chosen):
        text += f"void f{number}(int *restrict a, const int *restrict b) {''.join(parts)}"
        after = BETWEEN[number % len(BETWEEN)]
        text += "\n" if parts[-1].lstrip().startswith("//") and "\n" not in after else after
    return text + "\nint last;\n", len(chosen)


def same_results(folder: Path, original: str, written: str, count: int, flags: Sequence[str]) -> None:
    """Compile both, without a warning of the second's that the first has not, and compare what they compute."""
    for name, text in (("original", original), ("written", written)):
        (folder / f"{name}.c").write_text(text)
        renamed = [f"-D{f}{k}={name}_{k}" for k in range(count) for f in ("f",)]
        command = ["gcc", "-std=gnu11", "-O1", "-fopenmp", "-Dlast=last_" + name, *flags, *renamed]
        run_compiler([*command, "-c", str(folder / f"{name}.c"), "-o", str(folder / f"{name}.o")])
    names = {name: [f"{name}_{k}" for k in range(count)] for name in ("original", "written")}
    types = "(int *restrict, const int *restrict)"
    lines = [f"void {one}{types};" for group in names.values() for one in group]
    lines += [f"static void (*functions[]){types} = {{ {', '.join(names['original'])} }};"]
    lines += [f"static void (*others[]){types} = {{ {', '.join(names['written'])} }};"]
    (folder / "driver.c").write_text("\n".join(lines) + DRIVER)
    objects = [str(folder / name) for name in ("driver.c", "original.o", "written.o")]
    run_compiler(["gcc", "-fopenmp", *objects, "-lm", "-o", str(folder / "driver")])
    done = run_program([str(folder / "driver")], check=False)
    assert done.returncode == 0, f"f{done.returncode - 1} computes something else"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("fast", [False, True])
def test_every_place_compiles(tmp_path: Path, newline: str, fast: bool) -> None:
    text, count = program(13, 2 * fast + (newline == "\n"))
    text = text.replace("\n", newline)
    source = tmp_path / "places.c"
    source.write_bytes(text.encode())
    defines = {"FAST": "1"} if fast else {}
    done = polydl.optimize(source, tmp_path / "out.c", run=False, defines=defines, threads=2, space="small")
    assert len(done.scops) == count
    for flags in ([], ["-DFAST=1"]):  # the macro may be another when the output is compiled
        same_results(tmp_path, text, done.text, count, flags)


def test_places_with_a_run(tmp_path: Path) -> None:
    text, count = program(101, 5)
    done = polydl.optimize(text, run=True, top_k=1, threads=2, space="small")
    same_results(tmp_path, text, done.text, count, [])


def test_marked_regions(tmp_path: Path) -> None:
    """The marks may have other code before and behind them, and `#if`s around."""
    text = """\
static int before(void) { return 1; } void f0(int *restrict a, const int *restrict b) { int k = 2; (void)k;
#pragma scop
    for (int i = 0; i < 100; i++)
#ifdef FAST
        a[i] = b[i];
#else
        a[i] = 2 * b[i];
#endif
#pragma endscop
    a[7] = before(); } void f1(int *restrict a, const int *restrict b)
{
#ifndef FAST
#pragma scop
for (int i = 0; i < 100; i++) a[i] = b[i] + 1;
#pragma endscop
#endif
    a[3] = 3;
}
int last;
"""
    done = polydl.optimize(text, run=False, threads=2, space="small")
    assert len(done.scops) == 2
    for flags in ([], ["-DFAST=1"]):
        same_results(tmp_path, text, done.text, 2, flags)


def refusal(text: str) -> tuple[int, str]:
    """Line and reason of the first thing that is wrong with a program."""
    with pytest.raises(InputErrors) as caught:
        polydl.load(text)
    first = caught.value.errors[0]
    assert first.span is not None and first.hint
    return first.span.line, first.reason


@pytest.mark.parametrize("words", ["for", "for schedule(static)", "single", "critical", "taskloop"])
def test_threads_that_are_there_already(words: str) -> None:
    line, reason = refusal(
        f"void f(int *restrict a)\n{{\n#pragma omp {words}\n    for (int i = 0; i < 9; i++) a[i] = i;\n}}\n"
    )
    assert line == 3 and reason.startswith(f"'#pragma omp {words.split()[0]}' speaks of threads")


def test_a_team_of_the_region_itself() -> None:
    """`omp for` inside of an `omp parallel` that is replaced with it means the same loops."""
    text = (
        "void f(int *restrict a)\n{\n#pragma scop\n#pragma omp parallel\n    {\n#pragma omp for\n"
        "        for (int i = 0; i < 9; i++) a[i] = i;\n    }\n#pragma endscop\n}\n"
    )
    assert len(polydl.load(text).scops[0].statements) == 1
    another = "#pragma omp for\n    for (int i = 0; i < 9; i++) a[i] += 1;\n#pragma endscop"
    line, _ = refusal(text.replace("#pragma endscop", another))
    assert line == 9


def test_marks_in_different_branches() -> None:
    line, reason = refusal(
        "void f(int *restrict a)\n{\n#ifndef FAST\n#pragma scop\n    for (int i = 0; i < 9; i++) a[i] = i;\n#endif\n"
        "#pragma endscop\n}\n"
    )
    assert line == 4 and "'#if' opens inside" in reason


def test_one_line_from_python() -> None:
    kernel = polydl.compile("void f(int a[restrict 8]) { for (int i = 0; i < 8; i++) a[i] = 3 * i; }", tune=False)
    numpy = pytest.importorskip("numpy")
    a = numpy.zeros(8, dtype=numpy.int32)
    kernel(a)
    assert a.tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
