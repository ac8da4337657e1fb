"""Private scalars, and accumulators that become array elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.scalars import private_scalars, private_storage
from polydl.equations.step import Step, applied
from polydl.frontend import load
from polydl.model.scop import Assignment, Scop
from polydl.rewrite.materialise import in_place
from polydl.rewrite.storage import split_live_ranges


def scop_of(body: str, folder: Path, locals_: str = "", after: str = "") -> Scop:
    path = folder / "s.c"
    path.write_text(
        "void f(double A[restrict 8][8], double B[restrict 8][8], double C[restrict 8][8], double d[restrict 8]) {\n"
        f"{locals_}\n#pragma scop\n{body}\n#pragma endscop\n{after}}}\n"
    )
    return load(path).scops[0]


def after(scop: Scop, steps: Iterator[Step]) -> Scop:
    """The program after steps that hold."""
    made = list(steps)
    assert [step.broken() for step in made] == [None] * len(made)
    return applied(scop, made)


DOT = "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) {{ {before} for (int k = 0; k < 8; k++) {sum} {after} }}"


def test_accumulator_becomes_an_element(tmp_path: Path) -> None:
    body = DOT.format(before="double s = 0;", sum="s += A[i][k] * B[k][j];", after="C[i][j] = s;")
    scop = scop_of(body, tmp_path)
    assert private_scalars(scop) == {"s": 2}
    rewritten = after(scop, in_place(scop))
    assert [s.name for s in rewritten.statements] == ["S0", "S1"]
    assert "s" not in rewritten.arrays
    for statement in rewritten.statements:
        assert isinstance(statement.body, Assignment)
        target = statement.accesses[statement.body.target]
        assert target.array == "C"
        assert target.relation.is_single_valued()
    assert {d.carried_by for d in dependences(rewritten, reads=False)} == {"k", None}


def test_sum_added_to_an_element_needs_reassociation(tmp_path: Path) -> None:
    body = DOT.format(before="double s = 0;", sum="s += A[i][k] * B[k][j];", after="C[i][j] += s;")
    scop = scop_of(body, tmp_path)
    assert len(after(scop, in_place(scop)).statements) == 1
    assert not list(in_place(scop, reassociate=False))


@pytest.mark.parametrize(
    ("before", "total", "after"),
    [
        ("double s = 0;", "s += A[i][k] * C[k][j];", "C[i][j] = s;"),  # C is read in between
        ("float s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s;"),  # rounded to float
        ("double s = 0;", "s += A[i][k] * s;", "C[i][j] = s;"),  # reads itself
        ("double s = 0;", "s = A[i][k];", "C[i][j] = s;"),  # no accumulation
        ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = 2 * s + C[i][j];"),  # needs the old element
        ("double s = C[i][j];", "s -= C[i][k] * C[k][j];", "C[i][j] = s / C[j][j];"),  # k may be i or j
        ("double s = C[j][i];", "s -= C[i][k] * B[k][j];", "C[i][j] = s;"),  # C[i][k] may be C[i][j]
        ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] += 2 * s;"),  # not a copy
        ("double s = 1;", "s += A[i][k] * B[k][j];", "C[i][j] += s;"),  # does not start from zero
        ("double s = 0;", "s += A[i][k] * B[k][j];", "if (j > i) C[i][j] = s;"),  # not always copied
    ],
)
def test_left_alone(before: str, total: str, after: str, tmp_path: Path) -> None:
    scop = scop_of(DOT.format(before=before, sum=total, after=after), tmp_path)
    assert not list(in_place(scop))
    assert private_scalars(scop) == {"s": 2}


def test_scalar_carried_between_iterations_is_not_private(tmp_path: Path) -> None:
    scop = scop_of("for (int i = 0; i < 8; i++) { d[i] = s; s = A[i][0]; }", tmp_path, "double s = 1;")
    assert private_scalars(scop) == {}
    assert any(d.array == "s" and d.carried_by == "i" for d in dependences(scop))


def test_scalar_written_under_a_condition_is_not_private(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 8; i++) { if (i > 2) s = A[i][0]; d[i] = s; }"
    assert private_scalars(scop_of(body, tmp_path, "double s = 1;")) == {}


def test_private_scalar_leaves_the_loop_parallel(tmp_path: Path) -> None:
    scop = scop_of("for (int i = 0; i < 8; i++) { double t = A[i][0]; d[i] = t * t + t; }", tmp_path)
    assert private_scalars(scop) == {"t": 1}
    assert all(d.carried_by is None for d in dependences(scop, reads=False))


def test_what_is_made_of_the_sum_is_made_in_place(tmp_path: Path) -> None:
    body = DOT.format(before="double s = 1;", sum="s += A[i][k] * B[k][j];", after="C[i][j] = 2 * s + d[i];")
    scop = scop_of(body, tmp_path)
    rewritten = after(scop, in_place(scop))
    assert [s.name for s in rewritten.statements] == ["S0", "S1", "S2"]
    assert "s" not in rewritten.arrays
    assert {a.array for a in rewritten.statements[2].accesses} == {"C", "d"}


LU = """
for (int i = 0; i < 8; i++) {
  for (int j = 0; j < i; j++) {
    double w = C[i][j];
    for (int k = 0; k < j; k++) w -= C[i][k] * C[k][j];
    C[i][j] = w / C[j][j];
  }
  for (int j = i; j < 8; j++) {
    double w = C[i][j];
    for (int k = 0; k < i; k++) w -= C[i][k] * C[k][j];
    C[i][j] = w;
  }
}
"""


def test_one_name_for_several_values(tmp_path: Path) -> None:
    scop = scop_of(LU, tmp_path)
    assert private_scalars(scop) == {}
    apart = after(scop, split_live_ranges(scop))
    assert set(private_scalars(apart).values()) == {2}
    assert len(private_scalars(apart)) == 2
    rewritten = after(apart, in_place(apart))
    assert [s.name for s in rewritten.statements] == ["S1", "S2", "S4"]
    assert set(rewritten.arrays) & set(apart.arrays) == set(scop.arrays) - {"w"}
    assert {a.array for s in rewritten.statements for a in s.accesses} == {"C"}


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 8; i++) { s = A[i][0]; d[i] = s; } for (int i = 0; i < 8; i++) d[i] += s;",  # one outlives
        "for (int i = 0; i < 8; i++) { s = A[i][0]; if (i > 3) { s = 2; } d[i] = s; }",  # not always there
        "for (int i = 0; i < 8; i++) { d[i] = s; s = A[i][0]; } for (int i = 0; i < 8; i++) { s = 1; B[i][0] = s; }",
    ],
)
def test_values_that_mix_keep_one_name(body: str, tmp_path: Path) -> None:
    scop = scop_of(body, tmp_path, "double s = 1;")
    assert not list(split_live_ranges(scop))


FILLED = "for (int j = 0; j < 8; j++) e[j] = A[i][j] * 2;"
USED = "for (int j = 0; j < 8; j++) C[i][j] = e[7 - j] + d[j];"


@pytest.mark.parametrize(
    ("inside", "depth"),
    [
        (f"double e[8]; {FILLED} {USED}", 1),
        (f"double e[8]; for (int j = 0; j < 8; j++) {{ e[j] = A[i][j]; d[i] += e[j]; }} {USED}", 1),
        # Of what another iteration left, some is read.
        (f"double e[8]; for (int j = 0; j < 7; j++) e[j] = A[i][j]; {USED}", None),
        (f"double e[8]; for (int j = 0; j < 8; j++) {{ e[j] = A[i][j]; d[j] += e[7 - j]; }} {USED}", None),
        (f"double e[8]; {USED} {FILLED}", None),
        (f"double e[8]; for (int j = 0; j < 8; j++) e[j] += A[i][j]; {USED}", None),
        (f"double e[80000]; {FILLED} {USED}", 1),
        # No thread has memory for that.
        (f"double e[800000]; {FILLED} {USED}", None),
    ],
)  # fmt: skip
def test_a_row_buffer_is_private_where_each_iteration_fills_it_first(
    inside: str, depth: int | None, tmp_path: Path
) -> None:
    scop = scop_of(f"for (int i = 0; i < 8; i++) {{ {inside} }}", tmp_path)
    assert private_storage(scop).get("e") == depth
    assert "e" not in private_scalars(scop)
    carried = [d for d in dependences(scop, reads=False) if d.array == "e" and d.depth == 0]
    assert (not carried) == (depth == 1)


def test_what_outlives_the_region_is_nobodys_own(tmp_path: Path) -> None:
    text = f"for (int i = 0; i < 8; i++) {{ {FILLED} {USED} }}"
    assert private_storage(scop_of(text, tmp_path, "double e[8];"))["e"] == 1
    assert "e" not in private_storage(scop_of(text, tmp_path, "double e[8];", "A[0][0] = e[3];"))
    assert "e" not in private_storage(scop_of(text, tmp_path, "double *e = malloc(64);"))


def test_a_static_array_that_each_iteration_fills_is_private_to_it(tmp_path: Path) -> None:
    body = (
        "for (int i = 0; i < 8; i++) {{ for (int j = 0; j < {n}; j++) t[j] = A[i][j]; "
        "for (int j = 0; j < 8; j++) C[i][j] = t[7 - j] * t[j]; }}"
    )
    whole = scop_of(body.format(n=8), tmp_path, "static double t[8];")
    assert private_storage(whole) == {"t": 1}
    assert "i" not in {d.carried_by for d in dependences(whole, reads=False)}
    part = scop_of(body.format(n=7), tmp_path, "static double t[8];")
    assert private_storage(part) == {}
    assert "t" in part.live_out
