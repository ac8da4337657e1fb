"""Passes over C trees, each by itself."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from polydl import load
from polydl.kernels.row_loops import RowStatement
from polydl.lower.cprint import lines
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    Hint,
    If,
    Instance,
    Int,
    Invoke,
    Item,
    Marked,
    Name,
    Node,
    Raw,
    Way,
    plus,
)
from polydl.lower.passes.collapse import collapsed
from polydl.lower.passes.peel import peeled
from polydl.lower.passes.single_iterations import straight
from polydl.lower.passes.sums import summed
from polydl.lower.passes.threads import Threads
from polydl.lower.passes.unswitch import unswitched
from polydl.model.combiners import of_assignment
from polydl.model.scop import Array, Scop
from polydl.model.types import F64, I32, ElementType
from tests.oracle.native import compile_c
from tests.programs.corpus import catalogue

AT_I, AT_J, N = Name("i"), Name("j"), Name("n")
USE = Evaluate(Invoke("use", (AT_I, AT_J)))
THREADS = Threads("polydl_", ())


def loop(name: str, body: Node, last: Expr = N, *, once: bool = False) -> For:
    return For(name, "int", Int(0), Binary("<=", Name(name), last), Int(1), body, once)


def text(node: Node, *, hints: bool = False) -> list[str]:
    return [line.strip() for line in lines(node, 0, hints=hints)]


def test_only_rectangular_loops_collapse() -> None:
    square = collapsed(Marked(Way.PARALLEL, loop("i", loop("j", USE))))
    triangle = collapsed(Marked(Way.PARALLEL, loop("i", loop("j", USE, AT_I))))
    assert isinstance(square, Marked)
    assert square.loops == 2
    assert isinstance(triangle, Marked)
    assert triangle.loops == 1


def test_collapsing_ends_where_threads_work_alone_and_at_single_iterations() -> None:
    for inside in (Marked(Way.THREAD, loop("j", USE)), loop("j", USE, once=True)):
        found = collapsed(Marked(Way.PARALLEL, loop("i", inside)))
        assert isinstance(found, Marked)
        assert found.loops == 1


def test_a_loop_of_one_iteration_is_its_body() -> None:
    gone = straight(loop("i", Evaluate(Invoke("use", (AT_J,))), once=True))
    assert text(gone) == ["use(j);"]
    declared = straight(loop("i", USE, once=True))
    assert text(declared) == ["{", "const int i = 0;", "use(i, j);", "}"]
    written = straight(loop("i", Raw(("x += i;",)), once=True))
    assert text(written)[1] == "const int i = 0;"


def test_hints_get_the_value_of_a_loop_that_goes() -> None:
    hinted = Instance(Evaluate(Invoke("use", (AT_J,))), (Hint("polydl_instance_S0", (AT_I, AT_J)),))
    assert text(straight(loop("i", hinted, once=True)), hints=True) == ["polydl_instance_S0(0, j);", "use(j);"]


def test_conditions_leave_vector_loops() -> None:
    guard = Binary("<", AT_J, N)
    body = If(guard, USE)
    found = unswitched(Marked(Way.SIMD, loop("i", body)))
    assert isinstance(found, Marked)
    assert text(found.body) == [
        "if (j < n) {",
        "for (int i = 0; i <= n; i++) {",
        "use(i, j);",
        "}",
        "} else {",
        "for (int i = 0; i <= n; i++) {",
        "if (j < n) {",
        "use(i, j);",
        "}",
        "}",
        "}",
    ]


def test_of_conditions_that_leave_vector_loops_the_strongest_is_asked() -> None:
    def bound(op: str, number: int) -> Expr:
        return Binary(op, N, Binary("+" if number > 0 else "-", AT_J, Int(abs(number))))

    body = Block(tuple(If(bound(*one), USE) for one in ((">=", 2), ("<=", 9), (">=", 3), (">=", -1), ("<=", 7))))
    found = unswitched(Marked(Way.SIMD, loop("i", body)))
    assert isinstance(found, Marked)
    assert text(found.body)[0] == "if (n >= j + 3 && n <= j + 7) {"


def test_conditions_on_the_loop_and_those_with_another_side_stay() -> None:
    for body in (If(Binary("<", AT_I, N), USE), If(Binary("<", AT_J, N), USE, USE)):
        marked = Marked(Way.SIMD, loop("i", body))
        assert unswitched(marked) == marked
    plain = loop("i", If(Binary("<", AT_J, N), USE))
    assert unswitched(plain) == plain


def _windows(first: Expr, last: Expr, low: int, high: int) -> Marked:
    """Iterations that leave traces in x, some of them at ends of the loop not in all of its places."""
    trace = Assign(Item("x", (AT_I,)), "=", Binary("+", Binary("*", Int(3), Item("x", (AT_I,))), Int(1)))
    begin, end = Binary(">=", AT_I, plus(first, Int(low))), Binary("<", AT_I, Binary("-", last, Int(high - 1)))
    body = Block((trace, If(begin, trace), If(Binary("&&", begin, end), trace), If(end, trace, Block((trace, trace)))))
    condition = Binary("<=", AT_I, last)
    return Marked(Way.SIMD, For("i", "int", first, condition, Int(1), body))


def test_iterations_at_the_ends_of_vector_loops_are_set_apart() -> None:
    """They change the same elements as often as without, in loops of any length."""
    functions, ways = list[str](), [(low, high) for low in (1, 3) for high in (1, 2, 5)]
    for number, (low, high) in enumerate(ways):
        plain = _windows(Name("m"), Binary("-", N, Int(1)), low, high)
        found = peeled(plain)
        assert isinstance(found, Block) and len(found.parts) == 3
        middle = found.parts[1]
        assert isinstance(middle, Marked) and not any("if" in line for line in text(middle.body))
        for name, code in ((f"plain{number}", plain.body), (f"apart{number}", straight(THREADS(found)))):
            functions.append(f"void {name}(int *x, int m, int n) {{\n{chr(10).join(text(code))}\n}}\n")
    library = compile_c(functions, ("-O2", "-fopenmp-simd", "-Wno-unknown-pragmas"))
    for number in range(len(ways)):
        for m, n in ((m, n) for m in (0, 3) for n in range(-1, 24)):
            given = [(ctypes.c_int * 24)() for _ in range(2)]
            library[f"plain{number}"](given[0], m, n)
            library[f"apart{number}"](given[1], m, n)
            assert list(given[0]) == list(given[1]), (ways[number], m, n)


def test_few_iterations_are_set_apart_of_long_loops_only() -> None:
    for last, apart in ((Int(13), True), (Int(5), False)):
        assert isinstance(peeled(_windows(Int(0), last, 1, 2)), Block) == apart
    assert isinstance(peeled(_windows(Int(0), N, 9, 12)), Marked)
    other = Marked(Way.SIMD, loop("i", If(Binary("<=", AT_I, AT_J), USE)))
    assert peeled(other) == other


def _dot() -> Scop:
    entry = catalogue()["dot"]
    return load(entry.path, defines=entry.defines(entry.sizes[0]), sizes=entry.parameters(entry.sizes[0])).scops[0]


def _accumulating(target: Expr, op: str = "+=") -> Instance:
    statement = _dot().statements[-1]
    row = RowStatement(statement, statement.accesses[0].relation)
    return Instance(Assign(target, op, Item("x", (AT_I,))), None, row)


def test_sums_have_an_accumulator() -> None:
    arrays = _dot().arrays
    found = text(summed(Marked(Way.SUM, loop("i", _accumulating(Name("s")))), arrays, "polydl_"))
    assert found[1:3] == ["const int i = 0;", "if (i <= n) {"]
    assert "#pragma omp simd reduction(+ : polydl_sum)" in found
    assert "polydl_sum += x[i];" in found
    assert found[-3:] == ["s += polydl_sum;", "}", "}"]


def _integers(target: Expr, value: Expr, op: str = "+=") -> tuple[Instance, dict[str, Array]]:
    """A statement that combines integers, and what its arrays are."""
    scop = _dot()
    user = _accumulating(target, op)
    arrays = {name: replace(array, element=I32) for name, array in scop.arrays.items()}
    return replace(user, body=Assign(target, op, value)), arrays


@pytest.mark.parametrize("op", ["+=", "-=", "*=", "&=", "|=", "^="])
def test_sums_of_integers_have_no_clause(op: str) -> None:
    """The compiler may regroup them by itself, and adds bytes up in instructions that it does not take beside one."""
    user, arrays = _integers(Name("s"), Item("x", (AT_I,)), op)
    found = text(summed(Marked(Way.SUM, loop("i", user, Int(9))), arrays, "polydl_"))
    adding = "+=" if op == "-=" else op
    row = of_assignment(op)
    assert row is not None
    assert found == [
        "{", f"int polydl_sum = {row.neutral};", "for (int i = 0; i <= 9; i++) {",
        f"polydl_sum {adding} x[i];", "}", f"s {op} polydl_sum;", "}",
    ]  # fmt: skip


def test_long_sums_of_integers_have_the_clause() -> None:
    """Of a loop whose iterations are not known, both are there."""
    user, arrays = _integers(Name("s"), Item("x", (AT_I,)))
    clause = "#pragma omp simd reduction(+ : polydl_sum)"
    found = text(summed(Marked(Way.SUM, loop("i", user, Int(9999))), arrays, "polydl_"))
    assert found.count(clause) == found.count("int polydl_sum = 0;") == 1
    found = text(summed(Marked(Way.SUM, loop("i", user)), arrays, "polydl_"))
    assert found.count("int polydl_sum = 0;") == 2
    assert found.index("if (n >= 4096) {") < found.index(clause) < found.index("} else {")


def test_sums_of_integers_are_those_of_all_loops_in_which_their_target_stays() -> None:
    value = Item("x", (Binary("+", AT_I, AT_J),))
    user, arrays = _integers(Name("s"), value)
    found = text(summed(loop("j", Marked(Way.SUM, loop("i", user))), arrays, "polydl_"))
    assert found == [
        "{", "const int j = 0;", "const int i = 0;", "if (j <= n && i <= n) {", "int polydl_sum = 0;",
        "for (int j = 0; j <= n; j++) {", "for (int i = 0; i <= n; i++) {", "polydl_sum += x[i + j];", "}", "}",
        "s += polydl_sum;", "}", "}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "value", "last", "element", "way"),
    [
        (Item("s", (AT_J,)), Item("x", (AT_I,)), N, I32, None),
        (Name("s"), Item("x", (AT_I,)), AT_J, I32, None),
        (Name("s"), Item(_dot().statements[-1].target.array, (AT_J,)), N, I32, None),
        (Name("s"), Item("x", (AT_I,)), N, F64, None),
        (Name("s"), Item("x", (AT_I,)), N, I32, Way.PARALLEL),
    ],
    ids=["its target moves", "a loop that may be empty", "its array is read", "floats", "threads"],
)
def test_sums_of_one_loop(target: Expr, value: Expr, last: Expr, element: ElementType, way: Way | None) -> None:
    """What is around it stays around the sum."""
    user, arrays = _integers(target, value)
    arrays = {name: replace(array, element=element) for name, array in arrays.items()}
    nest: Node = loop("j", Marked(Way.SUM, loop("i", user, last)))
    made = summed(nest if way is None else Marked(way, nest), arrays, "polydl_")
    found = text(made.body if isinstance(made, Marked) else made)
    at = found.index("for (int j = 0; j <= n; j++) {")
    assert any("polydl_sum =" in line for line in found[at:])
    assert not any("polydl_sum" in line for line in found[:at])


def test_what_is_no_sum_stays_a_loop() -> None:
    arrays = _dot().arrays
    for user in (_accumulating(Item("s", (AT_I,))), _accumulating(Name("s"), "=")):
        assert summed(Marked(Way.SUM, loop("i", user)), arrays, "polydl_") == loop("i", user)
    unmarked = loop("i", _accumulating(Name("s")))
    assert summed(unmarked, arrays, "polydl_") == unmarked


def test_parallel_loops_become_pragmas() -> None:
    node = collapsed(
        Marked(Way.PARALLEL, loop("i", loop("j", Marked(Way.THREAD, USE))), " schedule(dynamic) private(t)")
    )
    found = text(Threads("polydl_", (Raw(("own();",)),))(node))
    assert found[1] == "#pragma omp parallel for collapse(2) schedule(dynamic) private(t)"
    assert found[-4:] == ["own();", "use(i, j);", "}", "}"]


def test_several_parts_of_a_thread_have_scopes_of_their_own() -> None:
    parts = Block((Marked(Way.THREAD, USE), Marked(Way.THREAD, USE)))
    found = text(Threads("polydl_", (Declare("int", (("j", None),)),))(Marked(Way.PARALLEL, loop("i", parts))))
    assert found.count("{") == 2
    assert found.count("int j;") == 2
    parts = Block((Marked(Way.THREAD, USE), Marked(Way.THREAD, Evaluate(Invoke("use", (AT_I,))))))
    found = text(Threads("polydl_", (Declare("int", (("j", None),)),))(Marked(Way.PARALLEL, loop("i", parts))))
    assert found.count("int j;") == 1


def test_threads_begin_and_end_once_around_their_iterations() -> None:
    """Where they work by themselves; in a loop in which they do not, there is nothing to begin with."""
    threads = Threads("polydl_", (), "", *((Evaluate(Invoke(name, ())),) for name in ("begin", "end")))
    node = Marked(Way.PARALLEL, loop("i", loop("j", Marked(Way.THREAD, USE))), " schedule(dynamic)")
    found = [line for line in text(threads(node)) if not line.startswith(("#ifdef", "#endif"))]
    assert found[:4] == ["#pragma omp parallel", "{", "begin();", "#pragma omp for schedule(dynamic)"]
    assert found[-3:] == ["}", "end();", "}"]
    plain = text(threads(Marked(Way.PARALLEL, loop("i", USE))))
    assert "#pragma omp parallel for" in plain and "begin();" not in plain


def test_a_mark_goes_to_the_first_loop_inside() -> None:
    found = text(THREADS(Marked(Way.SIMD, If(N, loop("i", loop("j", USE))))))
    assert found[:3] == ["if (n) {", "#ifdef _OPENMP", "#pragma omp simd"]
    assert found.count("#pragma omp simd") == 1


def test_curves() -> None:
    square = Marked(Way.CURVE, loop("i", loop("j", USE, Int(7)), Int(3)), loops=2)
    found = text(THREADS(square))
    assert "#pragma omp parallel for schedule(static)" in found
    assert "for (int polydl_step = 0; polydl_step < 32; polydl_step++) {" in found
    assert "polydl_curve_int(polydl_step, 4, 8, &i, &j);" in found
    unknown = text(THREADS(Marked(Way.CURVE, loop("i", loop("j", USE)), " private(t)", 2)))
    assert unknown[1] == "#pragma omp parallel for collapse(2) private(t)"
