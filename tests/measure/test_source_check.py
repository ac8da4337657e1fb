"""Calls of an output beside its source: what they find, what they leave alone, what they say."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import polydl
from polydl import pipeline
from polydl.cli.app import main
from polydl.lower.emit import Generated
from polydl.lower.splice import guarded, splice
from polydl.measure import Toolchain, source_check
from polydl.measure.check_calls import Subject
from polydl.measure.check_job import OtherMachine
from polydl.measure.check_values import Cell, Runs, first_difference
from polydl.measure.source_check import Checked, check
from polydl.model.scop import Scop, Source
from polydl.model.types import F32
from polydl.options import Options
from polydl.search.loading import load_sized, with_sizes

SAXPY = """\
void f(int n, float a, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        y[i] = y[i] + a * x[i];
}
"""
HASH = """\
void f(const int x[restrict 64], unsigned y[restrict 64])
{
    for (int i = 0; i < 64; i++)
        y[i] = (unsigned)x[i] * 3u >> 1;
}
"""
SUM = """\
void f(int n, const double x[restrict n], const double w[restrict n], double out[restrict 1])
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += x[i] * w[i];
    out[0] = s;
}
"""


def checked(tmp_path: Path, text: str, output: str, *, reassociate: bool = True) -> Checked:
    """The source compared with an output that was written by hand."""
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    program, o = load_sized(path, Options(sizes={"n": 100} if "int n" in text else {}))
    (scop,) = program.scops
    head = scop.region.header
    assert head is not None
    subject = Subject("f", head, (scop,), lambda sizes: (with_sizes(scop, o, sizes),))
    return check(program.source, output, [subject], Toolchain(), reassociate=reassociate)


def test_an_equal_output_is_equal(tmp_path: Path) -> None:
    found = checked(tmp_path, SAXPY, SAXPY)
    assert not found.faults and not found.undefined and found.calls > 30


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(SAXPY, "i < n", "i < n - 1", id="the last iteration is missing"),
        pytest.param(SAXPY, "i = 0", "i = -1", id="one element in front is touched"),
        pytest.param(SAXPY, "i < n", "i <= n", id="one element behind is touched"),
        pytest.param(SAXPY, "y[i] + a * x[i]", "x[i] == 0 ? y[i] : y[i] + a * x[i]", id="infinity times zero"),
        pytest.param(HASH, "(unsigned)x[i] * 3u >> 1", "(unsigned)(x[i] * 3ul >> 1)", id="a product that wraps"),
        pytest.param(HASH, "(unsigned)x[i]", "(x[i] < 0 ? 0u : (unsigned)x[i])", id="negative numbers"),
        pytest.param(SUM, "s += x[i] * w[i]", "if (w[i] == w[i]) s += x[i] * w[i]", id="NaN is left out"),
        pytest.param(SUM, "double s = 0", "double s = 1e-9", id="a small difference"),
    ],
)
def test_what_differs_is_found(tmp_path: Path, text: str, before: str, after: str) -> None:
    assert before in text
    (fault,) = checked(tmp_path, text, text.replace(before, after)).faults
    assert fault.function == "f" and str(fault)


def test_another_order_of_a_sum_is_no_difference_where_it_is_allowed(tmp_path: Path) -> None:
    halves = SUM.replace("out[0] = s;", "out[0] = s + t;").replace(
        "s += x[i] * w[i];", "if (i % 2) s += x[i] * w[i]; else t += x[i] * w[i];"
    ).replace("double s = 0;", "double s = 0, t = 0;")  # fmt: skip
    assert not checked(tmp_path, SUM, halves).faults


def test_undefined_behaviour_is_said_with_its_place_and_not_compared(tmp_path: Path) -> None:
    text = SAXPY.replace("float", "int").replace("a * x[i]", "100 / x[i]")
    found = checked(tmp_path, text, text.replace("100 / x[i]", "(x[i] ? 100 / x[i] : 7)"))
    assert not found.faults
    assert any(one.where.endswith("f.c:4:27") and "division by zero" in one.what for one in found.undefined)
    assert "not compared there" in str(found.undefined[0])


def test_extremes_that_overflow_are_no_fault_of_the_source(tmp_path: Path) -> None:
    text = SAXPY.replace("float", "int")
    found = checked(tmp_path, text, text.replace("y[i] + a * x[i]", "(int)((unsigned)y[i] + (unsigned)a * x[i])"))
    assert not found.faults and not found.undefined


def test_arguments_overlap_where_the_output_asks_for_it(tmp_path: Path) -> None:
    text = """\
void f(int n, const float *x, float *y)
{
    for (int i = 0; i < n - 1; i++)
        y[i + 1] = y[i + 1] + x[i];
}
"""
    assert not checked(tmp_path, text, text).faults
    (fault,) = checked(tmp_path, text, text.replace("int i = 0; i < n - 1; i++", "int i = n - 2; i >= 0; i--")).faults
    assert "x = y" in str(fault)


def test_a_region_whose_code_is_wrong_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command writes, says and answers when the code of a region is wrong."""

    def spoilt(source: Source, replacements: Sequence[tuple[Scop, Generated | None]], header: str) -> str:
        text = splice(source, replacements, header)
        made = any(code is not None for _, code in replacements)
        return text.replace("float a,", "float b,").replace("y)\n{", "y)\n{ float a = b + 1;") if made else text

    monkeypatch.setattr(pipeline, "splice", spoilt)
    path, output = tmp_path / "f.c", tmp_path / "out.c"
    path.write_text(SAXPY, encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["polydl", "optimize", str(path), "--size", "n=100", "--no-run", "-o", str(output)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert "error: the output did not do what the source does: f: with n = " in capsys.readouterr().err
    assert output.read_text(encoding="utf-8").endswith(SAXPY)


def test_rows_behind_pointers_are_called(tmp_path: Path) -> None:
    text = """\
void f(int n, float **a, const float *restrict x)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i][j] = 2.0f * x[j];
}
"""
    found = checked(tmp_path, text, text)
    assert not found.faults and not found.undefined and found.calls > 20
    (fault,) = checked(tmp_path, text, text.replace("a[i][j]", "a[0][i * n + j]")).faults
    assert fault.function == "f"


def test_what_is_not_linked_is_no_fault(tmp_path: Path) -> None:
    output = "void elsewhere(int, float);\n" + SAXPY.replace("y[i] = ", "elsewhere(i, a), y[i] = ")
    object_ = "extern float elsewhere;\n" + SAXPY.replace("a * x[i]", "elsewhere * x[i]")
    for before, after in ((SAXPY, output), (object_, object_)):
        found = checked(tmp_path, before, after)
        assert not found.faults
        assert "it uses 'elsewhere', which is not linked" in found.not_called["f"]
    (fault,) = checked(tmp_path, SAXPY, output.replace("elsewhere", "polydl_forgotten")).faults
    assert "polydl_forgotten" in str(fault)


def test_no_oracle_calls_nothing() -> None:
    found = polydl.optimize(SAXPY, run=False, sizes={"n": 100}, oracle=False)
    assert found.checked == Checked()


def test_numbers_are_compared_by_bits_where_nothing_rounded() -> None:
    cells = (Cell("", 0, F32),)
    one, two = b"\0\0\x80\x3f", b"\x01\0\x80\x3f"
    assert first_difference(Runs(one, two, None), 4, cells) is not None
    assert first_difference(Runs(one, two, (one, one)), 4, cells) is None
    nan, other = b"\0\0\xc0\x7f", b"\x01\0\xc0\xff"
    assert first_difference(Runs(nan, other, None), 4, cells) is None
    zero, minus = b"\0\0\0\0", b"\0\0\0\x80"
    assert first_difference(Runs(zero, minus, None), 4, cells) is not None
    assert first_difference(Runs(zero, minus, None, zeros_signed=False), 4, cells) is None


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(SAXPY, "i < n", "i < n - 1", id="the last iteration is missing"),
        pytest.param(SAXPY, "i < n", "i <= n", id="one element behind is touched"),
        pytest.param(HASH, "(unsigned)x[i] * 3u >> 1", "(unsigned)(x[i] * 3ul >> 1)", id="a product that wraps"),
        pytest.param(SUM, "double s = 0", "double s = 1e-2", id="a small difference"),
    ],
)
def test_what_cannot_be_run_here_is_interpreted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, before: str, after: str
) -> None:
    def elsewhere(*given: object) -> None:
        raise OtherMachine("it is for another machine")

    monkeypatch.setattr(source_check, "run", elsewhere)
    sound = checked(tmp_path, text, text)
    assert sound.calls >= 10 and not sound.faults and not sound.undefined
    (fault,) = checked(tmp_path, text, text.replace(before, after)).faults
    assert fault.function == "f" and str(fault)


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="there is no compiler for ARM")
def test_code_for_another_machine_is_interpreted() -> None:
    """With vectors of GNU C in place of its instructions."""
    found = polydl.optimize(
        SUM,
        run=False,
        sizes={"n": 1000},
        machine="graviton-3",
        cc="aarch64-linux-gnu-gcc",
        cflags=("-march=armv8.4-a",),
    )
    assert "polydl_" in found.text and found.checked.calls > 10
    assert not found.checked.faults and not found.checked.not_called


def test_sizes_with_which_loops_are_not_taken_are_left_out() -> None:
    """From n = 32769 on `j` leaves the range of its type, so that the first loops are none of polydl's."""
    source = """
void f(unsigned n, int *restrict a)
{
    for (int i = 0; i < n; i++)
        for (short j = 0; j < n; j++)
            a[(j + 1) % n] = i;
    for (int i = 0; i < n; i++)
        a[i] = a[i] + 1;
}
"""
    found = polydl.optimize(source, run=False, sizes={"n": 32767}, space="small", budget=2)
    assert found.checked.calls and not found.checked.faults


def test_a_condition_on_a_size_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The code for one leading dimension is called with another one, beside the tuned sizes."""

    def forgetful(scop: Scop, replacement: str, newline: str, otherwise: str = "") -> str:
        text = guarded(scop, replacement, newline, otherwise)
        assert "lda == 36 && " in text
        return text.replace("lda == 36 && ", "")

    monkeypatch.setattr("polydl.lower.splice.guarded", forgetful)
    text = (
        "void add(int n, int lda, const float *restrict a, float y[restrict 40])\n{\n"
        "    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n"
        "            y[i] += a[i * lda + j];\n}\n"
    )
    done = polydl.optimize(text, sizes={"n": 32, "lda": 36}, run=False)
    (fault,) = done.checked.faults
    assert fault.function == "add"
    assert "lda = 37" in str(fault)
