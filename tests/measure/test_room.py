"""Code that reads beside an array only as the compiler vectorizes it, code that reads there itself, and what a region
that cannot be run costs the others of its file: nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load, optimize
from polydl.base.errors import ToolchainError
from polydl.lower.emit import Generated
from polydl.measure import Status, Toolchain, measure
from polydl.measure.input_data import ROOM
from polydl.measure.unit import original_code
from tests.efforts import FEW
from tests.measure.builders import QUICK

pytestmark = pytest.mark.few_sizes

PAST = """
#ifdef {when}
static inline float at(const float *x) {{ return *x + 0 * ((const volatile float *)x)[{beside}]; }}
#else
static inline float at(const float *x) {{ return *x; }}
#endif
void f(float y[restrict 1024], const float x[restrict 1024])
{{
    for (int i = 0; i < 1024; i++)
        y[i] = at(&x[i]) + 1;
}}
"""
"""`__OPTIMIZE__` is defined for the compiler and not where polydl reads the file. An array of whole pages, so that it
has guards on both sides however it is placed."""


@pytest.fixture
def vectorizes(tmp_path: Path) -> Toolchain:
    """A compiler whose code reads further than the program says, unless it makes no vectors."""
    path = tmp_path / "vectorizes"
    path.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" -fno-tree-vectorize "*) exec {shutil.which("cc")} "$@";; esac\n'
        f'exec {shutil.which("cc")} -DVECTORS "$@"\n'
    )
    path.chmod(0o755)
    return replace(Toolchain(), cc=str(path))


@pytest.mark.parametrize("beside", [1, 4, -1])
def test_what_the_compiler_reads_beside_an_array_is_not_the_programs_fault(vectorizes: Toolchain, beside: int) -> None:
    (program,) = load(PAST.format(when="VECTORS", beside=beside)).scops
    again = original_code(program)
    report = measure(program, {"same": again}, vectorizes, QUICK)
    (same,) = report.measurements
    assert same.status is Status.VERIFIED, same.message
    assert any("as 'vectorizes' vectorizes it, and not as it is written" in said for said in report.warnings)


@pytest.mark.parametrize(
    ("also", "status"),
    [("((volatile float *)y)[1024] = 1;", Status.OUT_OF_BOUNDS), ("y[1023] += 1;", Status.WRONG)],
)
def test_candidates_are_checked_in_that_room(vectorizes: Toolchain, also: str, status: Status) -> None:
    (program,) = load(PAST.format(when="VECTORS", beside=1)).scops
    wrong = Generated((), original_code(program).region + also)
    (found,) = measure(program, {"wrong": wrong}, vectorizes, QUICK).measurements
    assert found.status is status, found


@pytest.mark.parametrize("beside", [1, ROOM])
def test_a_program_that_reads_there_itself_is_refused(beside: int) -> None:
    (program,) = load(PAST.format(when="__OPTIMIZE__", beside=beside)).scops
    with pytest.raises(ToolchainError, match=r"cannot serve as the reference: it touches memory .* of array 'x'"):
        measure(program, {}, Toolchain(), QUICK)


def test_reading_farther_than_there_is_room_is_refused(vectorizes: Toolchain) -> None:
    (program,) = load(PAST.format(when="VECTORS", beside=ROOM)).scops
    with pytest.raises(ToolchainError, match="cannot serve as the reference"):
        measure(program, {}, vectorizes, QUICK)


FOUR = """
void four(double out[restrict P][P][P][P], const double in[restrict Q][Q][Q][Q], const double c[restrict Q][P])
{
    for (int a = 0; a < P; a++)
        for (int b = 0; b < P; b++)
            for (int d = 0; d < P; d++)
                for (int e = 0; e < P; e++)
                    for (int p = 0; p < Q; p++)
                        for (int q = 0; q < Q; q++)
                            for (int r = 0; r < Q; r++)
                                for (int s = 0; s < Q; s++)
                                    out[a][b][d][e] += in[p][q][r][s] * c[p][a] * c[q][b] * c[r][d] * c[s][e];
}
"""


def test_strided_rows_that_gcc_loads_whole() -> None:
    # gcc 12 with AVX2 or AVX-512 loads whole vectors of which it uses one element, also the last one of the array.
    (program,) = load(FOUR, defines={"P": 6, "Q": 8}).scops
    (same,) = measure(program, {"same": original_code(program)}, Toolchain(), QUICK).measurements
    assert same.status is Status.VERIFIED, same.message


TWO = """
void outside(int n, float y[restrict n], const float x[restrict n])
{
    for (int i = 0; i < n; i++)
        y[i] = at(&x[i]) + 1;
}
void product(int n, float C[restrict n][n], const float A[restrict n][n], const float B[restrict n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""


def test_a_region_that_cannot_be_run_costs_the_others_nothing(tmp_path: Path) -> None:
    source = tmp_path / "two.c"
    source.write_text(
        "static inline float at(const float *x) {\n#ifdef __OPTIMIZE__\n"
        "    return *x + ((const volatile float *)x)[-1];\n#else\n    return *x;\n#endif\n}\n" + TWO
    )
    result = optimize(source, sizes={"n": 64}, space="small", top_k=2, effort=FEW, budget=4)
    assert [done.ranking.scop.function for done in result.scops] == ["product"]
    assert result.output is not None and "y[i] = at(&x[i]) + 1;" in result.output.read_text()
    (said,) = result.unread
    assert said.startswith(f"{source}:11:5: these loops stay as they are: the original code of 'outside' cannot serve")


def test_where_no_region_can_be_run_the_first_error_is_raised(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text(PAST.format(when="__OPTIMIZE__", beside=-1))
    with pytest.raises(ToolchainError, match="the original code of 'f' cannot serve"):
        optimize(source, space="small", top_k=1)
    assert not (tmp_path / "one.polydl.c").exists()
