"""The oracle checked against gcc, and against numbers worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.oracle import (
    Carried,
    Limits,
    Program,
    WorkingSet,
    call,
    compile_c,
    dependences,
    difference,
    distinct_elements,
    initial_data,
    interpret,
    parallel_loops,
    points,
    programs,
    render,
    working_sets,
)
from tests.oracle.fit import EXACT
from tests.oracle.language import (
    ArrayDecl,
    Assign,
    Binary,
    DivMod,
    For,
    Int,
    Lit,
    Load,
    Num,
    Sum,
    Temp,
    Var,
    assignments,
)


def sample(limits: Limits, count: int) -> list[Program]:
    """`count` or more random programs with names of their own."""
    found: list[Program] = []

    @settings(max_examples=count)
    @given(programs(limits))
    def collect(program: Program) -> None:
        found.append(replace(program, name=f"kernel_{len(found)}"))

    collect()
    return found


@pytest.mark.parametrize(
    ("limits", "count"), [(Limits(), 200), (Limits(imperfect=False), 60), (Limits(linear=True), 60)]
)
def test_interpreter_agrees_with_gcc(limits: Limits, count: int) -> None:
    found = sample(limits, count)
    assert len(found) >= count // 2
    library = compile_c([render(p) for p in found])
    for program in found:
        data = initial_data(program, seed=3)
        trace = interpret(program, data)
        got = call(library, program, data)
        assert difference(program, trace.memory, got) == "", render(program)
        assert trace.magnitude <= EXACT


def test_programs_are_varied() -> None:
    """Every kind of construct turns up, and most programs have dependences."""
    found = sample(Limits(), 200)
    texts = "\n".join(render(p) for p in found)
    for wanted in ("if (", "else", "/ 2", "% 2", "+= 2", "-= 2", "--", "!=", "MIN(", " ? ", "||", "&&", "!(", "t0"):
        assert wanted in texts, wanted
    kinds = Counter(pair.kind for p in found for pair in dependences(interpret(p)))
    assert set(kinds) == {"RAW", "WAR", "WAW", "RAR"}
    depths = Counter(max(len(i.loops) for i in interpret(p).instances) for p in found)
    assert set(depths) >= {1, 2, 3, 4}
    assert sum(1 for p in found if len(list(assignments(p.body))) > 1) > len(found) // 4


@given(programs())
def test_programs_stay_in_bounds_and_exact(program: Program) -> None:
    trace = interpret(program, initial_data(program, seed=5))
    assert trace.magnitude <= EXACT
    for (array, dimension), (low, high) in trace.index_range.items():
        assert low == 0
        assert high == program.arrays[array].extents[dimension] - 1


def matmul(m: int, n: int, k: int) -> Program:
    """C[i][j] += A[i][k] * B[k][j] in order i, j, k."""
    i, j, kk = Var("i"), Var("j"), Var("k")
    update = Assign("C", (i, j), "+=", Binary("*", Load("A", (i, kk)), Load("B", (kk, j))))
    body: tuple[For | Assign, ...] = (update,)
    for var, extent in (("k", k), ("j", n), ("i", m)):
        body = (For(var, Lit(0), "<", Lit(extent), 1, body),)
    arrays = {"A": ArrayDecl("float", (m, k)), "B": ArrayDecl("float", (k, n)), "C": ArrayDecl("float", (m, n))}
    return Program(body, arrays)


def test_working_sets_of_matmul() -> None:
    """In general: 2K+3 from one j to the next, NK+N+1 … for i (PolyDL, section on working sets)."""
    m, n, k = 5, 4, 6
    trace = interpret(matmul(m, n, k))
    sizes = working_sets(trace, kinds=("RAR", "RAW"))
    statement = 0
    read_c, read_a, read_b, write_c = (statement, 0), (statement, 1), (statement, 2), (statement, 3)
    assert sizes == {
        Carried("RAW", "C", write_c, read_c, 2): WorkingSet(5, 2 * k + 1),
        Carried("RAR", "C", read_c, read_c, 2): WorkingSet(5, 2 * k + 1),
        Carried("RAR", "A", read_a, read_a, 1): WorkingSet(2 * k + 3, (n - 1) * k + k + 1 + n),
        Carried("RAR", "B", read_b, read_b, 0): WorkingSet(n * k + n + 1 + k + 1, n * k + (m - 1) * (n + k) + 2),
    }
    assert parallel_loops(trace) == {0, 1}
    assert len(points(trace, 0)) == m * n * k
    assert distinct_elements(trace.instances) == m * n + m * k + k * n
    whole_j = working_sets(trace, kinds=("RAR",), parallel=(1,))
    assert whole_j[Carried("RAR", "A", read_a, read_a, 1)] == WorkingSet(n * k + k + n, n * k + k + n)


def test_dependences_of_a_recurrence() -> None:
    """A[i] = A[i - 1] for i = 3, 2, 1: downwards, each element is read before it is overwritten."""
    i = Var("i")
    body = (For("i", Lit(3), ">=", Lit(1), -1, (Assign("A", (i,), "=", Load("A", (Sum("-", i, Lit(1)),))),)),)
    trace = interpret(Program(body, {"A": ArrayDecl("int", (4,))}))
    found = {(p.kind, p.depth, p.source_iterators, p.target_iterators) for p in dependences(trace)}
    assert found == {("WAR", 0, (3,), (2,)), ("WAR", 0, (2,), (1,))}
    assert points(trace, 0) == [(3,), (2,), (1,)]


def test_dependence_between_statements_of_one_iteration() -> None:
    i = Var("i")
    first = Assign("A", (i,), "=", Load("B", (i,)))
    second = Assign("B", (i,), "=", Load("A", (i,)))
    body = (For("i", Lit(0), "<", Lit(2), 1, (first, second)),)
    trace = interpret(Program(body, {"A": ArrayDecl("int", (2,)), "B": ArrayDecl("int", (2,))}))
    found = {(p.kind, p.array, p.source, p.target, p.depth) for p in dependences(trace)}
    assert found == {("RAW", "A", (0, 1), (1, 0), None), ("WAR", "B", (0, 0), (1, 1), None)}
    assert parallel_loops(trace) == {0}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (DivMod("/", Var("i"), 2), [-1, -1, 0, 0, 0, 1, 1]),
        (DivMod("%", Var("i"), 2), [-1, 0, -1, 0, 1, 0, 1]),
    ],
)
def test_division_truncates_as_in_c(expression: Int, values: list[int]) -> None:
    body = (
        For(
            "i",
            Lit(-3),
            "<=",
            Lit(3),
            1,
            (Temp("t", expression), Assign("A", (Var("t"),), "=", Load("A", (Var("t"),)))),
        ),
    )
    trace = interpret(Program(body, {"A": ArrayDecl("int", (1,))}))
    assert [instance.write[1][0] for instance in trace.instances] == values


def test_writes_outside_an_array_are_seen() -> None:
    program = Program((Assign("A", (Lit(0),), "=", Num(1)),), {"A": ArrayDecl("float", (2,))}, name="wild")
    library = compile_c(["void wild(float *A) { A[2] = 1; }"])
    with pytest.raises(AssertionError, match="wrote outside A"):
        call(library, program, initial_data(program))


def test_differences_are_reported() -> None:
    program = Program((Assign("A", (Lit(1),), "=", Num(0)),), {"A": ArrayDecl("float", (2,))}, name="other")
    library = compile_c(["void other(float *A) { A[1] += 1.5f; }"])
    data = initial_data(program)
    got = call(library, program, data)
    assert difference(program, data, got).startswith("A[1]: expected")
    assert difference(program, got, got) == ""
