"""Elements that a block writes several times are kept in locals, where nothing else may touch them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polydl.lower.cprint import lines
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Evaluate,
    Expr,
    For,
    If,
    Instance,
    Int,
    Invoke,
    Item,
    Marked,
    Name,
    Node,
    Raw,
    Scope,
    Way,
    with_children,
)
from polydl.lower.passes.keep_in_locals import Kept, apart
from polydl.model.scop import Array, Storage
from polydl.model.types import F32

AT_I, AT_J, AT_K, N = (Name(name) for name in "ijkn")
Y, NEXT, X = Item("y", (AT_I,)), Item("y", (Binary("+", AT_I, Int(1)),)), Item("x", (AT_K,))
ARRAYS = {name: Array(name, F32, (None,), Storage.PARAMETER, f"float {name}[restrict]") for name in ("y", "x")}


def line(target: Expr, op: str, value: Expr) -> Instance:
    return Instance(Assign(target, op, value))


def loop(name: str, body: Node, last: Expr = N) -> For:
    return For(name, "int", Int(0), Binary("<=", Name(name), last), Int(1), body)


def text(node: Node) -> list[str]:
    """What the pass makes of a block, with the marks of loops left out."""
    return [one.strip() for one in lines(unmarked(Kept(ARRAYS, "polydl_")(node)), 0)]


def unmarked(node: Node) -> Node:
    return unmarked(node.body) if isinstance(node, Marked) else with_children(node, unmarked)


CLEARED, ADDED = line(Y, "=", Int(0)), line(Y, "+=", X)


def test_a_sum_is_stored_once() -> None:
    made = text(loop("i", Block((CLEARED, loop("k", ADDED), line(Y, "=", Invoke("sqrtf", (Y,)))))))
    assert made[1:-1] == [
        "float polydl_kept0 = 0;",
        "for (int k = 0; k <= n; k++) {",
        "polydl_kept0 += x[k];",
        "}",
        "polydl_kept0 = sqrtf(polydl_kept0);",
        "y[i] = polydl_kept0;",
    ]


def test_what_is_added_to_is_read_before() -> None:
    assert text(Block((ADDED, ADDED)))[1:-1] == [
        "float polydl_kept0 = y[i];",
        "polydl_kept0 += x[k];",
        "polydl_kept0 += x[k];",
        "y[i] = polydl_kept0;",
    ]


def test_a_loop_that_surely_runs_may_be_the_first() -> None:
    assert "y[i] = polydl_kept0;" in text(loop("i", loop("k", ADDED, Int(7))))
    assert not any("kept" in one for one in text(loop("i", loop("k", ADDED))))


def test_rows_at_a_constant_distance_have_a_local_each() -> None:
    made = text(Block((CLEARED, line(NEXT, "=", Int(0)), ADDED, line(NEXT, "+=", X))))
    assert made[3:-1] == [
        "polydl_kept0 += x[k];",
        "y[i] = polydl_kept0;",
        "polydl_kept1 += x[k];",
        "y[i + 1] = polydl_kept1;",
    ]


OTHER = Item("y", (AT_J,))


@pytest.mark.parametrize(
    "between",
    [
        line(X, "=", OTHER),
        line(OTHER, "=", Int(1)),
        line(AT_I, "+=", Int(1)),
        Instance(Raw(("y[0] = 1;",))),
        Instance(Evaluate(Invoke("polydl_row_1", (N, Name("y"))))),
        Marked(Way.SIMD, loop("k", line(X, "=", Y))),
        loop("i", line(Y, "=", Int(1))),
    ],
    ids=["read", "written", "moved", "text", "call", "vectors", "hidden"],
)
def test_it_is_stored_before_what_may_touch_it(between: Node) -> None:
    made = text(Block((CLEARED, between, ADDED)))
    assert "y[i] = 0;" in made
    assert "y[i] += x[k];" in made
    made = text(Block((CLEARED, ADDED, between)))
    assert "y[i] = polydl_kept0;" in made
    assert made.index("y[i] = polydl_kept0;") < len(made) - 2


def test_what_only_some_iterations_write_is_not_kept() -> None:
    made = text(Block((If(Binary(">", X, Int(0)), ADDED), If(Binary("<", X, Int(0)), ADDED))))
    assert not any("kept" in one for one in made)


def test_an_element_that_data_choose_is_not_kept() -> None:
    chosen = Item("y", (Item("x", (AT_I,)),))
    made = text(Block((line(chosen, "=", Int(0)), line(Item("x", (AT_I,)), "=", Int(1)), line(chosen, "+=", Int(1)))))
    assert not any("kept" in one for one in made)


def test_blocks_inside_have_names_of_their_own() -> None:
    inner = loop("j", Block((line(Item("x", (AT_J,)), "=", Int(0)), line(Item("x", (AT_J,)), "+=", Y))))
    made = text(Block((CLEARED, inner, ADDED)))
    assert "polydl_kept1 += polydl_kept0;" in made


def test_loops_that_are_run_as_one_stay_together() -> None:
    made = text(Marked(Way.PARALLEL, loop("i", loop("k", ADDED, Int(7))), loops=2))
    assert not any("kept" in one for one in made)


def test_scopes_keep_their_declarations() -> None:
    made = text(Scope((CLEARED, ADDED)))
    assert made == ["{", "y[i] = 0;", "y[i] += x[k];", "}"]


@pytest.mark.parametrize(
    ("subscripts", "differ"),
    [
        ((AT_I,), False),
        ((Binary("-", Binary("+", AT_I, Int(3)), Int(2)),), True),
        ((Binary("+", Int(0), AT_I),), False),
        ((Binary("*", Int(2), AT_I),), False),
        ((AT_J,), False),
        ((AT_I, AT_J), False),
    ],
)
def test_elements_are_apart_by_a_constant(subscripts: Sequence[Expr], *, differ: bool) -> None:
    assert apart(Item("y", tuple(subscripts)), Y) is differ
