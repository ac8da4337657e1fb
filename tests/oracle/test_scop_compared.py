"""Scops beside the C that they were read from: equal for all programs here; and what is read wrongly is found.

What a front end did wrong once is tried on Scops that were read from another program: one that says what it made of the
first.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl.frontend import load
from polydl.model.scop import BlackBox, Scop
from polydl.oracle.fillings import Filling, fillings
from polydl.oracle.given_arguments import Setting
from polydl.oracle.overlaps import Overlap
from polydl.oracle.scop_compared import Compared, Verdict, compare, compare_all
from tests.oracle.comparing import Case, cases, compared, paired, prepared

NOT_COMPARED = {
    "complex_matmul": "complex numbers",
    "complex_rotate": "complex numbers",
    "fft_stage": "complex numbers",
    "assumed": "what it assumes of its sizes excludes those that are tried",
    "gemm_two_sums": "more instances than the interpreter of Scops runs",
}
"""Programs that are not compared yet."""
ENDLESS = frozenset({"quantized_tokens"})
"""Programs whose comparison takes minutes: elements of copies are found one by one."""


@pytest.mark.parametrize("case", [case for case in cases() if case.name not in ENDLESS], ids=lambda case: case.name)
def test_what_was_read_is_what_is_written(case: Case) -> None:
    found = compared(case, fillings(bound=3)[:1])
    different = [str(one.difference) for _, one in found if one.verdict is Verdict.DIFFERENT]
    assert different == []
    if case.name not in NOT_COMPARED:
        assert Verdict.EQUAL in {one.verdict for _, one in found}, [(one.verdict, one.reason) for _, one in found]


def region(head: str, inside: str, behind: str = "") -> str:
    return f"{head} {{\n#pragma scop\n{inside}\n#pragma endscop\n{behind}}}\n"


def of(scop: Scop, filling: Filling, *, lanes: bool = False, overlap: Overlap | None = None, size: int = 3) -> Compared:
    """The first difference, or the last comparison."""
    return compare_all(prepared(scop, lanes=lanes), Setting(filling, size=size, overlap=overlap))[-1]


HASH = "void f(float x[restrict 16])"
POINTER = "void f(int n, float *restrict a, float *restrict b)"
PUT = "void f(const float a[restrict 100], int k[restrict 1], float b[restrict 50])"
SUM = (
    "void f(int n, int m, const int ptr[restrict n + 1], const int idx[restrict 64], const float val[restrict 64],"
    " float y[restrict n][m])"
)
STEP = "void f(const float x[restrict 1000], float y[restrict 1000])"
ROWS = "void f(int n, double acc[restrict n], const double x[restrict n])"

MISREAD = {
    "unsigned product that wraps": (
        region(HASH, "for (unsigned i = 0; i < 16u; i++) x[i] = (float)((i * 2654435761u) >> 16);"),
        region(HASH, "for (long i = 0; i < 16; i++) x[i] = (float)((i * 2654435761) >> 16);"),
        "value",
    ),
    "condition asked again behind a store": (
        region(
            POINTER,
            "for (int i = 0; i < n; i++) { float *q = a + i; b[i] = 0; if (a[i] > 0) { *q = -1; b[i] = 1; } }",
        ),
        region(
            POINTER,
            "for (int i = 0; i < n; i++) { b[i] = 0; a[i] = a[i] > 0 ? -1 : a[i]; b[i] = a[i] > 0 ? 1 : b[i]; }",
        ),
        "which write",
    ),
    "argument by name": (
        region(PUT, "for (int i = 0; i < 5; i++) { int p = k[0]; k[0] = k[0] + 1; b[i] = a[p]; }"),
        region(PUT, "for (int i = 0; i < 5; i++) { k[0] = k[0] + 1; b[i] = a[k[0]]; }"),
        "value",
    ),
    "sum in an element that is read": (
        region(
            SUM,
            "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { float s = 0;\n"
            "for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * y[0][idx[p]]; y[i][j] = s; }",
        ),
        region(
            SUM,
            "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = 0;\n"
            "for (int p = ptr[i]; p < ptr[i + 1]; p++) y[i][j] += val[p] * y[0][idx[p]]; }",
        ),
        "which write",
    ),
    "recurrence that wraps": (
        region(STEP, "for (unsigned i = 0; i < 9u; i++) y[i] = x[(2654435761u * i) % 1000u];"),
        region(STEP, "for (long i = 0; i < 9; i++) y[i] = x[(2654435761 * i) % 1000];"),
        "not touched",
    ),
    "store of a row that is empty": (
        region(ROWS, "for (int i = 1; i < n; i++) for (int j = 0; j < i - 5; j++) acc[i - 1] += x[j];"),
        region(ROWS, "for (int i = 1; i < n; i++) acc[i - 1] += 0;"),
        "not touched",
    ),
    "store that is left out": (
        region(ROWS, "for (int i = 0; i < n; i++) acc[i] = 2 * x[i];"),
        region(ROWS, "for (int i = 0; i < n - 1; i++) acc[i] = 2 * x[i];"),
        "not written",
    ),
    "rounding that is left out": (
        region(POINTER, "for (int i = 0; i < n; i++) b[i] = (float)(a[i] * 1.1) + a[i];"),
        region(POINTER, "for (int i = 0; i < n; i++) b[i] = a[i] * 1.1 + a[i];"),
        "value",
    ),
    "sign of a zero": (
        region(POINTER, "for (int i = 0; i < n; i++) b[i] = 0 - a[i];"),
        region(POINTER, "for (int i = 0; i < n; i++) b[i] = -a[i];"),
        "value",
    ),
    "order of two stores": (
        region(POINTER, "for (int i = 0; i < n; i++) { b[i] = 1; b[i] = 2; a[i] = b[i]; }"),
        region(POINTER, "for (int i = 0; i < n; i++) { b[i] = 2; b[i] = 1; a[i] = 2; }"),
        "value",
    ),
    "loop turned round": (
        region(POINTER, "for (int i = 1; i < n; i++) a[i] = a[i - 1] + b[i];"),
        region(POINTER, "for (int i = n - 1; i >= 1; i--) a[i] = a[i - 1] + b[i];"),
        "which write",
    ),
}


@pytest.mark.parametrize("kind", MISREAD)
def test_what_is_misread_is_found(kind: str, tmp_path: Path) -> None:
    text, read, expected = MISREAD[kind]
    scop = paired(text, read, tmp_path)
    found = [of(scop, filling) for filling in fillings(bound=3, most=4)]
    kinds = [one.difference.kind for one in found if one.difference is not None]
    assert expected in kinds, found
    right = [of(paired(read, read, tmp_path), filling) for filling in fillings(bound=3, most=2)]
    assert {one.verdict for one in right} == {Verdict.EQUAL}


def test_the_difference_says_what_shows_it(tmp_path: Path) -> None:
    text, read, _ = MISREAD["loop turned round"]
    found = of(paired(text, read, tmp_path), Filling("distinct", "zeros"))
    assert found.difference is not None
    assert (found.difference.location, str(found.difference.instance)) == ("a[1]", "S0[2]")
    assert found.difference.source is not None and found.difference.source.line == 3
    assert "size" in str(found.difference) and "distinct" in str(found.difference)


LAST = "void f(int n, int *restrict x, int *restrict y)"


@pytest.mark.parametrize(("behind", "verdict"), [("y[0] = t;", Verdict.DIFFERENT), ("y[0] = 1;", Verdict.EQUAL)])
def test_variables_matter_where_they_are_read_behind(behind: str, verdict: Verdict, tmp_path: Path) -> None:
    def program(inside: str) -> str:
        text = region(LAST, f"for (int i = 0; i < n; i++) {{ {inside} }}", behind)
        return text.replace("{\n#pragma scop", "{ int t = 5;\n#pragma scop", 1)

    # The Scop writes nothing to t.
    scop = paired(program("t = x[i]; x[i] = t + 1;"), program("x[i] = x[i] + 1;"), tmp_path)
    found = of(scop, Filling("zeros", "small"))
    assert found.verdict is verdict
    assert found.difference is None or found.difference.kind == "behind the region"


def test_lanes_are_compared_on_exact_sums(tmp_path: Path) -> None:
    head = "void f(int n, int m, const int ptr[restrict n + 1], const float x[restrict 64], float y[restrict 64])"
    inside = (
        "for (int i = 0; i < n; i++) { float s = 0; for (int p = ptr[i]; p < ptr[i + 1]; p++) s += x[p]; y[i] = s; }"
    )
    path = tmp_path / "k.c"
    path.write_text(region(head, inside), encoding="utf-8")
    (scop,) = load(path, require_sizes=False).scops
    exact = Filling("whole", "extremes", bound=3)
    assert of(scop, exact, lanes=True).verdict is Verdict.EQUAL
    broken = [
        replace(s, body=replace(s.body, lanes=s.body.lanes.replace("+=", "-="))) if isinstance(s.body, BlackBox) else s
        for s in scop.statements
    ]
    assert any(isinstance(s.body, BlackBox) and s.body.lanes for s in broken)
    found = of(replace(scop, statements=tuple(broken)), exact, lanes=True)
    assert found.verdict is Verdict.DIFFERENT


def test_data_without_a_meaning_are_not_compared(tmp_path: Path) -> None:
    head = "void f(int n, const int at[restrict n], const float x[restrict 8], float y[restrict n])"
    path = tmp_path / "k.c"
    path.write_text(region(head, "for (int i = 0; i < n; i++) y[i] = x[at[i]];"), encoding="utf-8")
    (scop,) = load(path, require_sizes=False).scops
    pair = prepared(scop)
    assert compare(pair, Setting(Filling("distinct", "extremes"))).verdict is Verdict.UNDEFINED
    assert compare(pair, Setting(Filling("distinct", "permuted"))).verdict is Verdict.EQUAL
    verdicts = [one.verdict for one in compare_all(pair, Setting(Filling("distinct", "extremes")))]
    assert verdicts.count(Verdict.EQUAL) == 3 and verdicts[0] is Verdict.UNDEFINED


def test_arguments_may_overlap(tmp_path: Path) -> None:
    """What the Scop takes to be apart is run where it is not: both see the same memory, in the same order."""
    path = tmp_path / "k.c"
    head = "void f(int n, const float *a, float *b)"
    path.write_text(region(head, "for (int i = 0; i < n; i++) b[i] = a[i] + 1;"), encoding="utf-8")
    (scop,) = load(path, require_sizes=False).scops
    shared = Overlap((("a", 0, 0), ("b", 0, 4)))
    assert of(scop, Filling("whole", "zeros"), overlap=shared).verdict is Verdict.EQUAL
    turned = region(head, "for (int i = n - 1; i >= 0; i--) b[i] = a[i] + 1;")
    found = of(paired(path.read_text(), turned, tmp_path), Filling("whole", "zeros"), overlap=shared)
    assert found.verdict is Verdict.DIFFERENT


def test_what_the_context_excludes_is_outside(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(
        region(
            "void f(int n, float x[restrict n])", "#pragma polydl assume(n > 4)\nfor (int i = 0; i < n; i++) x[i] = 0;"
        ),
        encoding="utf-8",
    )
    (scop,) = load(path, require_sizes=False).scops
    assert of(scop, Filling("whole", "zeros")).verdict is Verdict.OUTSIDE
    assert of(scop, Filling("whole", "zeros"), size=5).verdict is Verdict.EQUAL
