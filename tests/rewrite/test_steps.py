"""The check of each rewrite refuses what is not the same program, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.dependences.scalars import users
from polydl.equations.equality import check
from polydl.equations.step import Rewrite, Step
from polydl.model.expr import Const
from polydl.model.isl import coordinates, domain_named, quota, range_named
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.time import map_from_affs
from polydl.rewrite.canonical import canonical
from polydl.rewrite.cut import part_of
from polydl.rewrite.dead import LeftOut, without_dead
from polydl.rewrite.reduction_fission import reduction_fission
from polydl.rewrite.split import split
from polydl.rewrite.storage import Lives

HEAD = "void f(double A[restrict 8][8], double B[restrict 8][8], double C[restrict 8][8], double d[restrict 8])"


def scop_of(folder: Path, body: str, locals_: str = "") -> Scop:
    path = folder / "s.c"
    path.write_text(f"{HEAD} {{\n{locals_}\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


def only(scop: Scop, *names: str) -> Scop:
    """The program without some statements."""
    return replace(scop, statements=tuple(s for s in scop.statements if s.name not in names))


def changed(step: Step, name: str, change: Callable[[Statement], Statement]) -> Step:
    """The step to a program in which one statement is another."""
    statements = tuple(change(s) if s.name == name else s for s in step.after.statements)
    return replace(step, after=replace(step.after, statements=statements))


def test_what_is_read_is_not_dead(tmp_path: Path) -> None:
    body = "#pragma polydl dead(B, d)\nfor (int i = 0; i < 8; i++) { B[i][0] = A[i][0]; C[i][0] = B[i][0]; d[i] = 1; }"
    scop = scop_of(tmp_path, body)
    (step,) = without_dead(scop)
    assert step.rewrite == LeftOut(("S2",))
    assert step.broken() is None
    assert LeftOut(("S0",)).broken(scop, only(scop, "S0")) is not None
    assert LeftOut(("S1",)).broken(scop, only(scop, "S1")) is not None
    assert LeftOut(("S2",)).broken(scop, only(scop, "S1", "S2")) is not None


LIVES = {
    "comes round": ("for (int i = 0; i < 8; i++) { d[i] = w; w = A[i][0]; }", (("S0",), ("S1",))),
    "outlives": (
        "for (int i = 0; i < 8; i++) { w = A[i][0]; d[i] = w; } for (int i = 0; i < 8; i++) { d[i] += w; w = 1; }",
        (("S0", "S1"), ("S2", "S3")),
    ),
    "not always written": (
        "for (int i = 0; i < 8; i++) { w = A[i][0]; if (i > 3) w = 2; d[i] = w; }",
        (("S0",), ("S1", "S2")),
    ),
    "in between": (
        (
            "for (int i = 0; i < 8; i++) { w = A[i][0];\n"
            "for (int j = 0; j < 8; j++) { w = B[i][j]; C[i][j] = w; } d[i] = w; }"
        ),
        (("S0", "S3"), ("S1", "S2")),
    ),
    "written again": (
        "for (int i = 0; i < 8; i++) { w = A[i][0]; for (int j = 0; j < 8; j++) { C[i][j] = w; w = B[i][j]; } }",
        (("S0", "S1"), ("S2",)),
    ),
}


@pytest.mark.parametrize("case", list(LIVES))
def test_values_that_mix_are_seen(tmp_path: Path, case: str) -> None:
    body, groups = LIVES[case]
    scop = scop_of(tmp_path, f"#pragma polydl dead(w)\n{body}", "double w = 0;")
    assert not canonical(scop).steps
    lives = tuple((f"w{number}" if number else "w", names) for number, names in enumerate(groups))
    own = {name: scalar for scalar, names in lives for name in names}
    arrays = {**scop.arrays, "w1": replace(scop.arrays["w"], name="w1")}
    after = replace(scop, arrays=arrays, statements=tuple(_named(s, own.get(s.name, "w")) for s in scop.statements))
    assert Lives("w", lives).broken(scop, after) is not None


def _named(statement: Statement, scalar: str) -> Statement:
    accesses = tuple(
        replace(a, array=scalar, relation=range_named(a.relation, scalar)) if a.array == "w" else a
        for a in statement.accesses
    )
    return replace(statement, accesses=accesses)


DOT = "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) {{ {} for (int k = 0; k < 8; k++) {} {} }}"
IN_PLACE = [
    ("double s = 0;", "s += A[i][k] * C[k][j];", "C[i][j] = s;", False),
    ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s * d[i] + C[i][j] * 2;", False),
    ("double s = C[i][j];", "s -= C[i][k] * C[k][j];", "C[i][j] = s / C[j][j];", False),
    ("double s = C[j][i];", "s -= A[i][k] * B[k][j];", "C[i][j] = s;", True),
    ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] += 2 * s;", False),
    ("double s = 1;", "s += A[i][k] * B[k][j];", "C[i][j] += s;", False),
    ("double s = 0;", "s *= A[i][k];", "C[i][j] += s;", False),
    ("double s = 0;", "s += A[i][k] * B[k][j];", "if (j > i) C[i][j] = s;", False),
    ("float s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s;", False),
    ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s;", True),
    ("double s = C[i][j];", "s += A[i][k] * B[k][j];", "C[i][j] = s;", True),
    ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] += s;", True),
    ("double s = 2;", "s += A[i][k] * B[k][j];", "C[i][j] = s / d[i];", True),
]


@pytest.mark.parametrize(("before", "total", "last", "holds"), IN_PLACE)
def test_an_element_that_is_not_free_is_seen(tmp_path: Path, before: str, total: str, last: str, holds: bool) -> None:
    scop = scop_of(tmp_path, DOT.format(before, total, last))
    copies = last in ("C[i][j] = s;", "C[i][j] += s;", "if (j > i) C[i][j] = s;")
    left_out = (("S0",) if "C[i][j] += " in last or before == "double s = C[i][j];" else ()) + (
        ("S2",) if copies else ()
    )
    after = _forced(scop, left_out)
    assert (check(scop, after, reassociate=True) is None) == holds


def _forced(scop: Scop, left_out: tuple[str, ...]) -> Scop:
    """The program with the element that the last user writes in the place of `s`, whatever comes of it."""
    last = users(scop, "s")[-1]
    assert isinstance(last.body, Assignment)
    element = domain_named(last.accesses[last.body.target].relation, None)

    def moved(s: Statement) -> Statement:
        place = map_from_affs(s.domain, coordinates(s.domain)[:2]).apply_range(element)
        return replace(
            s, accesses=tuple(Access("C", a.write, place, a.span) if a.array == "s" else a for a in s.accesses)
        )

    return replace(scop, statements=tuple(moved(s) for s in scop.statements if s.name not in left_out))


def test_another_program_is_not_the_one_in_place(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, DOT.format("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s;"))
    (step,) = canonical(scop).steps
    assert step.broken() is None
    other = scop.statement("S1").accesses[0]
    assert changed(step, "S1", lambda s: replace(s, accesses=(other, other, *s.accesses[2:]))).broken() is not None
    assert changed(step, "S1", lambda s: replace(s, position=(0, 0, -1, 0))).broken() is not None
    assert changed(step, "S0", lambda s: replace(s, body=Assignment(0, "=", Const("1")))).broken() is not None
    assert replace(step, after=only(step.after, "S0")).broken() is not None


def test_another_sum_is_not_its_terms(tmp_path: Path) -> None:
    body = (
        "for (int i = 0; i < 8; i++) { d[i] = C[i][0]; for (int j = 0; j < 8; j++) for (int k = 0; k < 8; k++)\n"
        "C[i][j] += A[i][k] * B[k][j] - B[i][k] * A[k][j]; A[i][0] = C[i][1]; }"
    )
    (step,) = reduction_fission(scop_of(tmp_path, body))
    assert step.broken() is None

    def other(name: str, change: Callable[[Statement], Statement]) -> str | None:
        return changed(step, name, change).broken()

    def operator(s: Statement) -> Statement:
        assert isinstance(s.body, Assignment)
        return replace(s, body=replace(s.body, op={"+=": "-=", "-=": "+="}[s.body.op]))

    assert other("S1t0", operator) is not None
    first = step.after.statement("S1t0").accesses
    swapped = tuple(replace(a, relation=domain_named(a.relation, "S1t1")) for a in first)
    assert other("S1t1", lambda s: replace(s, accesses=swapped)) is not None
    assert other("S1t1", lambda s: replace(s, domain=s.domain.subtract(s.domain.lexmin()))) is not None
    late = other("S1t1", lambda s: replace(s, position=(s.position[0], 9, *s.position[2:])))
    assert late is not None, "S2 reads what it adds to"
    assert replace(step, after=only(step.after, "S1t1")).broken() is not None


def test_a_term_with_a_sign_is_taken_away(tmp_path: Path) -> None:
    body = (
        "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) for (int k = 0; k < 8; k++)\n"
        "C[i][j] += -(A[i][k] * B[k][j]) + B[i][k] * A[k][j];"
    )
    (step,) = reduction_fission(scop_of(tmp_path, body))
    assert step.broken() is None
    assert [s.body.op for s in step.after.statements if isinstance(s.body, Assignment)] == ["-=", "+="]


def test_other_parts_are_not_the_statement(tmp_path: Path) -> None:
    body = (
        "for (int k = 0; k < 8; k++) for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++)\n"
        "A[i][j] = fmin(A[i][j], A[i][k] + A[k][j]);"
    )
    scop = scop_of(tmp_path, body)
    first, second = split(scop, dependences(scop, reads=False))
    assert [first.broken(), second.broken()] == [None, None]
    names = [s.name for s in first.after.statements]
    whole = scop.statements[0].domain
    for name in names:
        assert replace(first, after=only(first.after, name)).broken() is not None
        grown = changed(first, name, lambda s: part_of(scop.statements[0], whole, s.name, s.position))
        assert grown.broken() is not None
        apart = changed(first, name, lambda s: replace(s, position=(s.position[0] + 1, *s.position[1:])))
        assert apart.broken() is not None, "the parts share the loop over k"
    turned = changed(first, names[0], lambda s: replace(s, descending=frozenset({"k"})))
    assert turned.broken() is not None


def test_a_rewrite_that_does_not_hold_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = "for (int i = 0; i < 8; i++) { w = A[i][0]; d[i] += w * w; }"
    scop = scop_of(tmp_path, f"#pragma polydl dead(w)\n{nest}\n{nest}", "double w = 0;")

    def refused(self: Rewrite, before: Scop, after: Scop) -> str | None:
        return "for a test"

    monkeypatch.setattr(Lives, "broken", refused)
    found = canonical(scop)
    assert found.scop is scop
    assert found.steps == ()
    (why,) = found.refused
    assert why.startswith("not rewritten: w holds 2 values one after the other")
    assert why.endswith(": for a test")


def test_a_rewrite_whose_check_takes_too_long_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = "for (int i = 0; i < 8; i++) { w = A[i][0]; d[i] += w * w; }"
    scop = scop_of(tmp_path, f"#pragma polydl dead(w)\n{nest}\n{nest}", "double w = 0;")

    def endless(self: Rewrite, before: Scop, after: Scop) -> str | None:
        with quota("the check", 1):
            return unlimited(self, before, after)

    unlimited = Lives.broken
    monkeypatch.setattr(Lives, "broken", endless)
    found = canonical(scop)
    assert found.scop is scop
    (why,) = found.refused
    assert "the check needs more than 1 isl operations" in why
