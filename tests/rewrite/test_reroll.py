"""Loops unrolled by hand are rolled up again, and only where nothing tells the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl import load
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.isl import stride
from polydl.model.scop import Assignment, Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.reroll import Part, Rolled, reroll
from polydl.rewrite.reroll import _groups as groups_of
from polydl.rewrite.reroll import _step as step_of
from polydl.target.isa import kernel_contraction

HEAD = (
    "void f(float alpha, float beta, float A[restrict 9][9], float B[restrict 9][9], float C[restrict 9][9], "
    "float x[restrict 19], float y[restrict 19])"
)
EACH = "for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++)"


def scop_of(folder: Path, body: str) -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD}\n{{\nfloat s, t, u, v; int i, j, k;\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


CONTRACTIONS = {
    "terms, two statements": (
        f"{EACH} for (k = 0; k < 8; k += 2) {{ C[i][j] += A[i][k] * B[k][j]; C[i][j] += A[i][k + 1] * B[k + 1][j]; }}"
    ),
    "terms, one statement and what is left": (
        f"{EACH} {{ s = 0; for (k = 0; k + 3 < 9; k += 4) s += A[i][k] * B[k][j] + A[i][k + 1] * B[k + 1][j] "
        "+ A[i][k + 2] * B[k + 2][j] + A[i][k + 3] * B[k + 3][j]; "
        "for (; k < 9; k++) s += A[i][k] * B[k][j]; C[i][j] = s; }"
    ),
    "terms, four sums": (
        f"{EACH} {{ s = t = u = v = 0; for (k = 0; k < 8; k += 4) {{ s += A[i][k] * B[k][j]; "
        "t += A[i][k + 1] * B[k + 1][j]; u += A[i][k + 2] * B[k + 2][j]; v += A[i][k + 3] * B[k + 3][j]; } "
        "C[i][j] = alpha * s + alpha * t + alpha * u + alpha * v + beta * C[i][j]; }"
    ),
    "terms, downwards": (
        f"{EACH} for (k = 7; k >= 0; k -= 2) {{ C[i][j] += A[i][k] * B[k][j]; C[i][j] += A[i][k - 1] * B[k - 1][j]; }}"
    ),
    "terms, half the loop": (
        f"{EACH} for (k = 0; k < 4; k++) {{ C[i][j] += A[i][2 * k] * B[2 * k][j]; "
        "C[i][j] += A[i][2 * k + 1] * B[2 * k + 1][j]; }"
    ),
    "columns with what is left": (
        "for (int i = 0; i < 9; i++) for (int k = 0; k < 9; k++) { "
        "for (j = 0; j < 8; j += 2) { C[i][j] += A[i][k] * B[k][j]; C[i][j + 1] += A[i][k] * B[k][j + 1]; } "
        "for (; j < 9; j++) C[i][j] += A[i][k] * B[k][j]; }"
    ),
    "rows and columns": (
        "for (int i = 0; i < 8; i += 2) for (int j = 0; j < 8; j += 2) { s = t = u = v = 0; "
        "for (int k = 0; k < 9; k++) { s += A[i][k] * B[k][j]; t += A[i][k] * B[k][j + 1]; "
        "u += A[i + 1][k] * B[k][j]; v += A[i + 1][k] * B[k][j + 1]; } "
        "C[i][j] = s; C[i][j + 1] = t; C[i + 1][j] = u; C[i + 1][j + 1] = v; }"
    ),
    "rows in loops of their own": (
        "for (i = 0; i < 8; i += 2) { for (int j = 0; j < 9; j++) for (int k = 0; k < 9; k++) "
        "C[i][j] += A[i][k] * B[k][j]; for (int j = 0; j < 9; j++) for (int k = 0; k < 9; k++) "
        "C[i + 1][j] += A[i + 1][k] * B[k][j]; }"
    ),
}


@pytest.mark.parametrize("case", list(CONTRACTIONS))
def test_it_is_one_contraction(tmp_path: Path, case: str) -> None:
    found = canonical(scop_of(tmp_path, CONTRACTIONS[case]))
    assert not found.refused
    (heavy,) = [s for s in found.scop.statements if kernel_contraction(found.scop, s) is not None]
    for statement in found.scop.statements:
        assert all(stride(statement.domain, dim) == 1 for dim in range(statement.depth))
    assert sum(isinstance(step.rewrite, Rolled) for step in found.steps) == 1
    assert heavy.name.endswith("r")
    assert canonical(found.scop).steps == (), "there is nothing left to roll up"


def test_the_order_of_a_sum_may_be_kept(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, CONTRACTIONS["terms, two statements"])
    (step,) = canonical(scop, reassociate=False).steps
    assert isinstance(step.rewrite, Rolled)
    other = CONTRACTIONS["terms, two statements"].replace("k + 1]", "k]").replace("k + 1]", "k]")
    swapped = other.replace("A[i][k] * B[k][j]; C", "A[i][k + 1] * B[k + 1][j]; C")
    scop = scop_of(tmp_path, swapped)
    assert not canonical(scop, reassociate=False).steps
    assert len(canonical(scop).steps) == 1


ROLLED = {
    "a copy": "for (int i = 0; i < 18; i += 2) { x[i] = y[i]; x[i + 1] = y[i + 1]; }",
    "a copy with what is left": (
        "for (i = 0; i < 17; i += 3) { x[i] = y[i]; x[i + 1] = y[i + 1]; x[i + 2] = y[i + 2]; } "
        "for (; i < 19; i++) x[i] = y[i];"
    ),
    "values of the iterators": "for (int i = 0; i < 18; i += 2) { x[i] = i; x[i + 1] = i + 1; }",
    "a recurrence in its order": "for (int i = 1; i < 18; i += 2) { x[i] = x[i - 1]; x[i + 1] = x[i]; }",
}


@pytest.mark.parametrize("case", list(ROLLED))
def test_other_loops_are_rolled_up(tmp_path: Path, case: str) -> None:
    scop = scop_of(tmp_path, ROLLED[case])
    (step,) = reroll(scop, reassociate=False)
    assert step.broken() is None
    (statement,) = step.after.statements
    assert stride(statement.domain, 0) == 1


LEFT_ALONE = {
    "other bodies": "for (int i = 0; i < 18; i += 2) { x[i] = y[i]; x[i + 1] = -y[i + 1]; }",
    "other operands": "for (int i = 0; i < 18; i += 2) { x[i] = y[i]; x[i + 1] = y[i]; }",
    "some are left out": "for (int i = 0; i < 18; i += 3) { x[i] = y[i]; x[i + 1] = y[i + 1]; }",
    "some come twice": "for (int i = 0; i < 18; i += 2) { x[i] += y[i]; x[i] += y[i]; }",
    "red and black": (
        "for (int i = 2; i < 18; i += 2) x[i] = x[i - 1] + x[i + 1];"
        "for (int i = 1; i < 18; i += 2) x[i] = x[i - 1] + x[i + 1];"
    ),
    "another order": "for (int i = 1; i < 17; i += 2) { x[i + 1] = x[i]; x[i] = x[i - 1]; }",
    "something else in the loop": "for (int i = 0; i < 18; i += 2) { x[i] = 1; x[i + 1] = 1; A[0][0] = y[i]; }",
    "not unrolled": "for (int i = 0; i < 9; i++) x[i] = y[i]; for (int i = 9; i < 18; i++) x[i] = y[i];",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_others_are_left_alone(tmp_path: Path, case: str) -> None:
    assert not list(reroll(scop_of(tmp_path, LEFT_ALONE[case])))


def test_the_check_refuses_what_is_not_the_same(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, ROLLED["a copy"])
    (step,) = reroll(scop)
    assert isinstance(step.rewrite, Rolled)
    ((name, (first, second)),) = step.rewrite.wholes
    (whole,) = step.after.statements

    def holds(*parts: Part, after: Scop = step.after) -> bool:
        return Step(Rolled(((name, parts),), reassociate=True), scop, after).broken() is None

    assert holds(first, second)
    # Where instances are said to be is what the check tries first, and nothing that it believes.
    assert holds(first)
    assert holds(first, replace(second, shift=(0,)))
    fewer = replace(step.after, statements=(replace(whole, domain=whole.domain.subtract(whole.domain.lexmax())),))
    assert not holds(first, second, after=fewer)
    more = replace(step.after, statements=(replace(whole, domain=whole.domain.lexmax().union(whole.domain)),))
    assert holds(first, second, after=more)
    backwards = replace(whole, descending=frozenset({"i"}))
    assert holds(first, second, after=replace(step.after, statements=(backwards,)))
    scop = scop_of(tmp_path, ROLLED["a recurrence in its order"])
    (step,) = reroll(scop)
    assert isinstance(step.rewrite, Rolled)
    turned = replace(step.after, statements=(replace(step.after.statements[0], descending=frozenset({"i"})),))
    assert replace(step, after=turned).broken() is not None


def test_a_part_that_does_something_else_is_seen(tmp_path: Path) -> None:
    same, other = (scop_of(tmp_path, text) for text in (ROLLED["a copy"], LEFT_ALONE["other operands"]))
    (step,) = reroll(same)
    assert replace(step, before=other).broken() is not None
    other = scop_of(tmp_path, LEFT_ALONE["other bodies"])
    assert replace(step, before=other).broken() is not None


def memory(scop: Scop) -> dict[tuple[str, tuple[int, ...]], int]:
    """What every written element holds after the program, as a name of how it was computed."""
    order = []
    for statement in scop.statements:
        points: list[tuple[int, ...]] = []
        statement.domain.foreach_point(lambda point, to=points: to.append(coordinates(point)))
        for point in points:
            at = [-v if n in statement.descending else v for n, v in zip(statement.iterators, point, strict=True)]
            order.append(([*interleaved(statement.position, at)], statement, point))
    held: dict[tuple[str, tuple[int, ...]], int] = {}
    for _, statement, point in sorted(order, key=lambda one: one[0]):
        body = statement.body
        assert isinstance(body, Assignment)
        touched = [(a.array, element(a.relation, point)) for a in statement.accesses]
        read = [held.get(one, hash(one)) for a, one in zip(statement.accesses, touched, strict=True) if not a.write]
        held[touched[body.target]] = hash((body.op, repr(body.value), tuple(read)))
    return held


def coordinates(point: Any) -> tuple[int, ...]:
    space = point.get_space()
    return tuple(isl.to_int(point.get_coordinate_val(isl.isl_types.SET, i)) for i in range(isl.arity(space)))


def interleaved(position: tuple[int, ...], at: list[int]) -> Iterator[int]:
    for place, value in zip_longest(position, at):
        yield place
        if value is not None:
            yield value


def element(relation: isl.Map, point: tuple[int, ...]) -> tuple[int, ...]:
    return isl.sample(isl.fix_domain(relation, point).range())[0]


@settings(max_examples=25)
@given(
    unroll=st.integers(2, 3),
    begin=st.integers(3, 5),
    moves=st.tuples(st.sampled_from("xy"), st.sampled_from("xy"), st.integers(-3, 3)),
    swapped=st.booleans(),
    op=st.sampled_from(("=", "+=")),
)
def test_what_passes_the_check_computes_the_same(
    unroll: int, begin: int, moves: tuple[str, str, int], swapped: bool, op: str
) -> None:
    to, of, by = moves
    parts = [f"{to}[i + {p}] {op} {of}[i + {p + by}];" for p in range(unroll)]
    text = " ".join(reversed(parts) if swapped else parts)
    loop = f"for (i = {begin}; i < {begin + 3 * unroll}; i += {unroll}) {{ {text} }}"
    scop = load(f"{HEAD}\n{{\nint i;\n#pragma scop\n{loop}\n#pragma endscop\n}}\n").scops[0]
    groups = groups_of(scop)
    assert len(groups) == 1
    step = step_of(scop, groups, False)
    if step.broken() is None:
        assert memory(step.after) == memory(scop)
    else:
        assert not list(reroll(scop, reassociate=False))
