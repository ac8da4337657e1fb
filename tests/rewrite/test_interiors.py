"""Loops whose subscripts change at their ends are cut there, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load, rank
from polydl.model import isl
from polydl.model.expr import Conditional, Expr, loads, operands
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import affine_rows
from polydl.options import Options
from polydl.rewrite.canonical import canonical
from polydl.rewrite.cut import Cut
from polydl.rewrite.interiors import interiors
from polydl.rewrite.ranges import edges
from polydl.target.isa import kernel_contraction

HEAD = """\
#define N 40
static int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
void f(float u[restrict N][N], float v[restrict N][N], float w[restrict 5])
"""
EACH = "for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) "


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD}{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


def plain(statement: Statement) -> bool:
    """Whether every access is one affine function, as it stands in the relation."""
    return all(a.relation.n_basic_map() == 1 and affine_rows(statement, a) is not None for a in statement.accesses)


def largest(statements: Sequence[Statement]) -> Statement:
    return max(statements, key=lambda s: s.domain.count_val().to_python())


CUT = {
    "wrapped": ("v[i][j] = u[i][(j + 1) % N];", 2),
    "wrapped below": ("v[i][j] = u[i][(j + N - 1) % N];", 2),
    "wrapped by a choice": ("v[i][j] = u[i == 0 ? N - 1 : i - 1][j == N - 1 ? 0 : j + 1];", 3),
    "wrapped by several": ("v[i][j] = u[i][(j + 2) % N] + u[i][(j + N - 1) % N] + u[i][(j + 1) % N];", 3),
    "clamped": ("v[i][j] = u[clamp(i - 1, 0, N - 1)][j] + u[i][clamp(j + 1, 0, N - 1)];", 3),
    "reflected": ("int y = i - 2; if (y < 0) y = -y; v[i][j] = u[y][j];", 2),
    "what is written": ("v[i][(j + 1) % N] = u[i][j];", 2),
    "in both": ("v[(i + 1) % N][j] = u[(i + N - 1) % N][clamp(j - 1, 0, N)];", 4),
    "taps": ("for (int k = 0; k < 5; k++) v[i][j] += w[k] * u[clamp(i + k - 2, 0, N - 1)][j];", 3),
    "a condition": ("if (j > 1 || i == 0) v[i][j] = u[i][j] + 1;", 2),
    "a choice of values": ("v[i][j] = j > 0 ? u[i][j - 1] : 0;", 2),
}


@pytest.mark.parametrize("case", list(CUT))
def test_what_is_cut(tmp_path: Path, case: str) -> None:
    body, pieces = CUT[case]
    scop = scop_of(tmp_path, EACH + "{ " + body + " }")
    steps = list(interiors(scop))
    assert [step.broken() for step in steps] == [None] * len(steps)
    made = steps[-1].after
    assert len(made.statements) == pieces
    if case != "a condition":
        assert plain(largest(made.statements))
        assert not plain(scop.statements[0]) or case == "a choice of values"
    assert list(interiors(made)) == [], "no piece is cut again"
    found = canonical(scop)
    assert not found.refused


LEFT_ALONE = {
    "plain": "v[i][j] = u[i][j] + 1;",
    "a pattern": "v[i][j] = u[i % 4][j];",
    "halves": "v[i][j] = u[i][j < 20 ? 0 : 1];",
    "a triangle": "if (j <= i) v[i][j] = u[i][j];",
    "a diagonal": "v[i][j] = u[clamp(i - j, 0, N - 1)][j];",
    "few": "if (i < 9) v[i][j < 1 ? 0 : j] = u[i == 3 ? 0 : i][j];",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_others_are_left_alone(tmp_path: Path, case: str) -> None:
    assert not list(interiors(scop_of(tmp_path, EACH + LEFT_ALONE[case])))


def test_what_stands_in_one_loop_is_cut_together(tmp_path: Path) -> None:
    """A scalar gets one of its own in each piece, so that the pieces run apart from one another."""
    sum_ = "double s = 0; for (int k = -2; k <= 2; k++) s += u[i][clamp(j + k, 0, N - 1)]; v[i][j] = s * s;"
    scop = scop_of(tmp_path, EACH + "{ " + sum_ + " }")
    found = canonical(scop)
    assert not found.refused
    assert [type(step.rewrite).__name__ for step in found.steps] == ["Cut", "Lives"]
    assert len(found.scop.statements) == 9
    assert len({s.position[0] for s in found.scop.statements}) == 3
    assert len({a.array for s in found.scop.statements for a in s.accesses if a.write}) == 4
    # Sums get arrays before loops are cut: those of the inner piece would, too, as they are windows then.
    again = {type(step.rewrite).__name__ for step in canonical(found.scop).steps}
    assert again <= {"Expanded", "Widened"}


def test_an_order_that_matters_is_kept(tmp_path: Path) -> None:
    """Element after element in place: the pieces stay one after the other in the loop outside."""
    scop = scop_of(tmp_path, EACH + "u[i][j] = u[i][(j + N - 1) % N] + u[(i + N - 1) % N][(j + 1) % N];")
    found = canonical(scop)
    assert not found.refused
    assert len({s.position[0] for s in found.scop.statements}) == 1
    for step in found.steps:
        assert step.broken() is None


def test_a_contraction_has_a_kernel_inside(tmp_path: Path) -> None:
    body = (
        "for (int k = 0; k < N; k++) for (int d = 0; d < 5; d++) "
        "v[i][j] += w[d] * 2.0f * u[k][clamp(j + d - 2, 0, N - 1)];"
    )
    scop = scop_of(tmp_path, EACH + body)
    assert kernel_contraction(scop, scop.statements[0]) is None
    made = canonical(scop).scop
    assert kernel_contraction(made, largest(made.statements)) is not None


@pytest.mark.parametrize(
    ("value", "conditions"),
    [
        ("j > 0 ? u[i][j - 1] : 0.0f", 0),
        ("!(j <= 0 || i + 1 > N) ? u[i][j - 1] : w[0]", 0),
        ("(j == N - 1 ? 0.5f : u[i][j + 1]) + (i < 1 ? 1.5f : u[i - 1][j])", 0),
        ("j > 0 ? u[i][j - 1] : 0", 0),
        ("(j > 0 ? 1 : 0.5f) / 2 * (j > 0 ? u[i][j - 1] : 0.0f)", 1),  # an int here would be another division
        ("j > 2 * 1 - 1 ? u[i][j - 1] : 0.0f", 0),
    ],
)
def test_conditions_that_hold_in_the_interior_are_gone_there(tmp_path: Path, value: str, conditions: int) -> None:
    scop = scop_of(tmp_path, f"{EACH}v[i][j] = {value};")
    made = canonical(scop)
    assert made.steps and not made.refused
    inside = largest(made.scop.statements)
    assert isinstance(inside.body, Assignment)
    assert len(list(choices(inside.body.value))) == conditions
    read = sorted(loads(inside.body.value))
    assert read == list(range(len(inside.accesses) - 1)) and inside.body.target == len(read)
    edges = [s for s in made.scop.statements if s is not inside]
    assert edges and all(isinstance(s.body, Assignment) for s in edges)
    for variant in rank(scop, options=Options(space="small"))[:3]:
        assert variant.generated


def choices(value: Expr) -> Iterator[Conditional]:
    if isinstance(value, Conditional):
        yield value
    for one in operands(value):
        yield from choices(one)


def test_parts_that_do_not_cover_are_seen(tmp_path: Path) -> None:
    step, *_ = interiors(scop_of(tmp_path, EACH + CUT["wrapped"][0]))
    assert isinstance(step.rewrite, Cut)
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert replace(step, after=fewer).broken() is not None
    first, second = step.after.statements
    assert first.accesses[1].relation.n_basic_map() == 1
    shifted = replace(first.accesses[0], relation=first.accesses[0].relation.fix_input_si(1, 3))
    wrong = replace(first, accesses=(shifted, first.accesses[1]))
    assert replace(step, after=replace(step.after, statements=(wrong, second))).broken() is not None


def test_nothing_is_decided_in_the_code_of_the_interior(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, EACH + CUT["wrapped by a choice"][0])
    ranking = rank(scop, "small", "epyc-zen5", threads=2)
    lines = [line for line in ranking.variants[0].region().splitlines() if "v[" in line]
    assert any("?" not in line and "%" not in line and "][c1 + 1]" in line for line in lines)


def test_ends_that_parameters_say_in_halves() -> None:
    """isl writes i as (n - 1) / 2 where 2 i = n - 1: a torus whose neighbours are two elements away."""
    value = isl.Set("[n] -> { [i] : 0 <= i < n and (i <= -3 + n or (-2 + n <= i <= -3 + 2n)); [i = 0] : n = 1 }")
    lacking = isl.Set("[n] -> { [i] : i >= -2 + n and 0 <= i < n and i <= -3 + 2n; [i = 0] : n = 1 }")
    ends = [0, 0]
    for n in range(1, 40):
        for i in range(n):
            if n - 2 <= i <= 2 * n - 3 or n == 1:
                ends[i > n - 1 - i] = max(ends[i > n - 1 - i], min(i, n - 1 - i) + 1)
    assert edges(value, lacking) == tuple(ends)
