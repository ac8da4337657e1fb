"""The check of equations against running the programs: what it says is the same, is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from polydl import load
from polydl.equations.equality import check
from polydl.equations.step import Rule
from polydl.model import isl
from polydl.model.expr import Conditional, Expr
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.model.time import map_from_affs
from polydl.rewrite.canonical import canonical
from polydl.rewrite.cut import part_of, parts_of
from tests.equations.interpreter import left_by, same
from tests.oracle import Limits, Program, programs, render

HEAD = (
    "#include <math.h>\nstatic double limited(double x) { return x < 0 ? 0 : x; }\n"
    "void f(double A[restrict 4][4], double B[restrict 4][4], double C[restrict 4][4], double D[restrict 4][4],\n"
    "    double P[restrict 4][4][2], float F[restrict 4][4], float G[restrict 4][4], double alpha, double beta)"
)
EACH = "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)"
SUM = "for (int k = 0; k < 4; k++)"
PROGRAMS = {
    "in place": f"{EACH} {{ double s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = s; }}",
    "from the element": f"{EACH} {{ double s = C[i][j]; {SUM} s -= A[i][k] * B[k][j]; C[i][j] = s / D[i][j]; }}",
    "added": f"{EACH} {{ double s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] += s; }}",
    "alpha and beta": (
        f"{EACH} {{ double s = 0; {SUM} s += A[i][k] * B[k][j]; C[i][j] = alpha * s + beta * C[i][j]; }}"
    ),
    "two sums": (
        f"{EACH} {{ double s = 0, t = 0; {SUM} {{ s += A[i][k] * B[k][j]; t += D[i][k] * B[k][j]; }}"
        " C[i][j] = s - 2 * t; }"
    ),
    "a hoisted factor": (
        "for (int i = 0; i < 4; i++) for (int k = 0; k < 4; k++) { double t = alpha * A[i][k];"
        " for (int j = 0; j < 4; j++) C[i][j] += t * B[k][j]; }"
    ),
    "the greater one": (
        f"{EACH} {{ double s = 0; {SUM} s += A[i][k] * B[k][j]; double v = s + D[i][j];"
        " C[i][j] = v > C[i][j] ? v : C[i][j]; }"
    ),
    "two values": (
        f"double w; {EACH} {{ w = A[i][j]; C[i][j] = w * w; }} {EACH} {{ w = B[i][j]; D[i][j] = w - C[i][j]; }}"
    ),
    "fma": f"{EACH} {{ double s = 0; {SUM} s = fma(A[i][k], B[k][j], s); C[i][j] = s; }}",
    "a function": f"{EACH} C[i][j] = limited(A[i][j]) - beta;",
    "wider": f"{EACH} {{ double s = 0; {SUM} s += (double)F[i][k] * G[k][j]; C[i][j] = s; }}",
    "apart": (
        "for (int i = 0; i < 4; i++) for (int k = 0; k < 4; k++) for (int j = 0; j < 4; j++)"
        " P[i][j][0] += A[i][k] * B[k][j];"
    ),
    "triangular": (
        "for (int i = 0; i < 4; i++) for (int j = 0; j <= i; j++)"
        " { double s = C[i][j]; for (int k = 0; k < j; k++) s -= C[i][k] * C[j][k]; C[i][j] = s / D[j][j]; }"
    ),
}


def scop_of(name: str, tmp_path: Path) -> Scop:
    path = tmp_path / "f.c"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\n{PROGRAMS[name]}\n#pragma endscop\n}}\n")
    (scop,) = load(path).scops
    return scop


def mutants(scop: Scop) -> Iterator[tuple[str, Scop]]:
    """Programs that differ in one thing."""

    def other(s: Statement) -> Scop:
        return replace(scop, statements=tuple(sorted(
            (s if old.name == s.name else old for old in scop.statements), key=lambda one: one.position
        )))  # fmt: skip

    for name in sorted({name for s in scop.statements for name in s.iterators}):
        turned = tuple(replace(s, descending=s.descending ^ ({name} & {*s.iterators})) for s in scop.statements)
        yield f"{name} runs the other way", replace(scop, statements=turned)
    for s in scop.statements:
        yield f"without {s.name}", replace(scop, statements=tuple(o for o in scop.statements if o is not s))
        yield f"{s.name} lacks an instance", other(replace(s, domain=s.domain.subtract(s.domain.lexmin())))
        yield f"{s.name} runs last", other(replace(s, position=(99, *s.position[1:])))
        yield f"{s.name} runs first", other(replace(s, position=(*s.position[:-1], -1)))
        body = s.body
        assert isinstance(body, Assignment)
        if body.op in ("+=", "-="):
            yield (
                f"{s.name} has the other sign",
                other(replace(s, body=replace(body, op="-=" if body.op == "+=" else "+="))),
            )
            yield f"{s.name} stores", other(replace(s, body=replace(body, op="=", target_read=None)))
        for number, access in enumerate(s.accesses):
            if isl.range_arity(access.relation) < 2:
                continue
            elements = isl.Set.universe(access.relation.range().get_space())
            first, second, *others = isl.coordinates(elements)
            swap = isl.range_named(map_from_affs(elements, [second, first, *others]), access.array)
            there = access.relation.apply_range(swap)
            yield f"{s.name} touches {access.array} elsewhere", other(
                replace(s, accesses=tuple(replace(a, relation=there) if i == number else a
                                          for i, a in enumerate(s.accesses)))
            )  # fmt: skip


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_what_is_said_to_be_the_same_is(name: str, tmp_path: Path) -> None:
    steps = [step for step in canonical(scop_of(name, tmp_path)).steps if isinstance(step.rewrite, Rule)]
    assert steps, "there is something to check"
    caught = 0
    for step in steps:
        assert isinstance(step.rewrite, Rule)
        before = left_by(step.before)
        assert same(left_by(step.after), before)
        assert step.broken() is None
        for what, mutant in mutants(step.after):
            equal = same(left_by(mutant), before)
            why = check(step.before, mutant, reassociate=True)
            assert equal or why is not None, what
            caught += not equal
            if not step.rewrite.regroups:
                assert why is not None or check(step.before, mutant, reassociate=False) is None or "way" in what
    assert caught > 3


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_is_itself(name: str, tmp_path: Path) -> None:
    scop = scop_of(name, tmp_path)
    assert check(scop, scop, reassociate=False) is None
    moved = replace(
        scop, statements=tuple(replace(s, position=tuple(3 * p + 1 for p in s.position)) for s in scop.statements)
    )
    assert check(scop, moved, reassociate=False) is None


def test_the_order_of_a_sum_counts_where_it_has_to(tmp_path: Path) -> None:
    (s,) = canonical(scop_of("added", tmp_path)).scop.statements
    scop = replace(scop_of("added", tmp_path), statements=(s,))
    turned = replace(scop, statements=(replace(s, descending=frozenset({"k"})),))
    assert check(scop, turned, reassociate=True) is None
    assert check(scop, turned, reassociate=False) is not None
    apart = replace(scop, statements=(replace(s, descending=frozenset({"i", "j"})),))
    assert check(scop, apart, reassociate=False) is None


def test_elements_that_nothing_touched_are_not_touched(tmp_path: Path) -> None:
    """They may not be there, also where what is read of them makes no difference."""
    scop = scop_of("two values", tmp_path)
    s = scop.statements[0]
    further = isl.range_named(isl.Map.from_domain(s.domain).flat_range_product(
        isl.Map.from_pw_aff(isl.PwAff.from_aff(isl.coordinate(s.domain, 0).add_constant_val(isl.value(9))))
    ).flat_range_product(isl.Map.from_pw_aff(isl.PwAff.from_aff(isl.coordinate(s.domain, 1)))), "A")  # fmt: skip
    dead = replace(scop, live_out=scop.live_out - {"C"})
    other = replace(s, accesses=(replace(s.accesses[0], relation=further), *s.accesses[1:]))
    after = replace(dead, statements=(other, *dead.statements[1:]))
    assert "touched that were not" in str(check(dead, after, reassociate=True))


def test_code_that_is_kept_as_text_is_a_value_of_all_that_it_touches(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    nest = "for (int i = 0; i < 4; i++) { w = A[i][0]; if (C[i][0] > w) C[i][0] = w + B[i][0]; D[i][0] = C[i][0]; }"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\ndouble w; {nest}\n#pragma endscop\n}}\n")
    (scop,) = load(path).scops
    first, box, last = scop.statements
    assert isinstance(box.body, BlackBox)
    assert check(scop, scop, reassociate=False) is None
    turned = replace(scop, statements=tuple(replace(s, descending=frozenset({"i"})) for s in scop.statements))
    assert check(scop, turned, reassociate=False) is None
    for wrong in (
        (first, last),
        (replace(box, position=(*box.position[:-1], -1)), first, last),
        (first, replace(last, position=(*box.position[:-1], box.position[-1] - 1)), replace(box, position=(0, 9))),
        (first, replace(box, body=replace(box.body, text=box.body.text.replace("+", "-"))), last),
        (first, replace(box, domain=box.domain.subtract(box.domain.lexmin())), last),
    ):
        assert check(scop, replace(scop, statements=wrong), reassociate=True) is not None


def test_code_that_is_kept_as_text_stores_another_value_in_each_array(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    steps = "{ if (A[i][j] < 0) break; C[i][0] += A[i][j]; D[i][0] -= A[i][j]; }"
    nest = f"for (int i = 0; i < 4; i++) for (int j = 0; j < 3; j++) {steps}"
    path.write_text(
        f"{HEAD}\n{{\n#pragma scop\n{nest}\nfor (int i = 0; i < 4; i++) B[i][0] = C[i][0];\n#pragma endscop\n}}\n"
    )
    (scop,) = load(path).scops
    box, last = scop.statements
    assert isinstance(box.body, BlackBox)

    def reading(array: str) -> Scop:
        read, write = last.accesses
        other = replace(read, array=array, relation=isl.range_named(read.relation, array))
        return replace(scop, statements=(box, replace(last, accesses=(other, write))))

    assert check(scop, reading("C"), reassociate=True) is None
    for reassociate in (False, True):
        assert check(scop, reading("D"), reassociate=reassociate) is not None


def test_a_choice_is_the_arm_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    body = "for (int i = 0; i < 4; i++) C[i][0] = i > 0 ? A[i - 1][0] : B[i][0];"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    (scop,) = load(path).scops
    (s,) = scop.statements
    assert isinstance(s.body, Assignment) and isinstance(s.body.value, Conditional)
    first, rest = isl.fix(s.domain, 0, 0), isl.between(s.domain, 0, 1, 3)
    arms = {"S0b": (first, s.body.value.otherwise), "S0a": (rest, s.body.value.then)}

    def parts(**values: tuple[isl.Set, Expr]) -> Scop:
        made = []
        for number, (name, (domain, value)) in enumerate(values.items()):
            part = part_of(s, domain, name, (number, *s.position[1:]))
            assert isinstance(part.body, Assignment)
            made.append(replace(part, body=replace(part.body, value=value)))
        return replace(scop, statements=tuple(made))

    instances = parts_of(scop, [("S0", ("S0b", "S0a"))])
    assert check(scop, parts(**arms), reassociate=False, instances=instances) is None
    turned = {"S0b": (first, arms["S0a"][1]), "S0a": (rest, arms["S0b"][1])}
    assert check(scop, parts(**turned), reassociate=False, instances=instances) is not None
    assert check(scop, parts(S0b=arms["S0b"]), reassociate=False, instances=instances) is not None


@settings(max_examples=30, deadline=None)
@given(programs(Limits(max_instances=60, max_depth=3, parameters=False)))
def test_random_programs_that_are_said_to_be_the_same_are(program: Program) -> None:
    for scop in load(render(program)).scops:
        before = left_by(scop)
        assert check(scop, scop, reassociate=False) is None
        for what, mutant in mutants(scop):
            equal = same(left_by(mutant), before)
            for reassociate in (False, True):
                assert equal or check(scop, mutant, reassociate=reassociate) is not None, (what, render(program))
