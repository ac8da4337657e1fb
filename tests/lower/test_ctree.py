"""C trees: text with the parentheses that C asks for, substitution, what mentions what."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.lower.cprint import expression, lines
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Cast,
    Choice,
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
    Name,
    Pragma,
    Raw,
    Scope,
    Unary,
    every,
    mentions,
    names,
    plus,
    substituted,
    times,
    with_value,
)
from tests.compiling import run_compiler, run_program

A, B, C = Name("a"), Name("b"), Name("c")
_OPERATORS = ("+", "-", "*", "/", "%", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&", "^", "|", "&&", "||")


def _value(expr: Expr) -> Expr:
    """The same with parentheses around everything: what the tree means, whatever the precedence."""
    match expr:
        case Binary(op, left, right):
            return Invoke("", (Binary(op, _value(left), _value(right)),))
        case Unary(op, operand):
            return Invoke("", (Unary(op, _value(operand)),))
        case Choice(condition, then, otherwise):
            return Invoke("", (Choice(_value(condition), _value(then), _value(otherwise)),))
        case Cast(type_, operand):
            return Invoke("", (Cast(type_, _value(operand)),))
        case _:
            return expr


_leaves = st.sampled_from([A, B, C, Int(3), Int(-2)])
_exprs = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(_OPERATORS), inner, inner),
        st.builds(Unary, st.sampled_from(["-", "!", "~"]), inner),
        st.builds(Choice, inner, inner, inner),
        st.builds(Cast, st.just("long"), inner),
    ),
    max_leaves=8,
)


def test_text_means_what_the_tree_means(tmp_path: Path) -> None:
    """A compiler reads the text as the fully parenthesised one, for random expressions; all in one program."""
    pairs: list[tuple[str, str]] = []

    @settings(max_examples=200)  # which are drawn depends on the modules that are loaded
    @given(_exprs)
    def collect(expr: Expr) -> None:
        if not any(word in expression(expr) for word in ("/", "%", "<<", ">>")):  # no undefined behaviour
            pairs.append((expression(expr), expression(_value(expr))))

    collect()
    assert len(pairs) > 20
    checks = "\n".join(f"    if (({text}) != ({full})) return {n % 250 + 1};" for n, (text, full) in enumerate(pairs))
    source = tmp_path / "all.c"
    source.write_text(
        f"int main(int a, char **v)\n{{\n    long b = a + 4, c = -7; (void)v;\n{checks}\n    return 0;\n}}\n"
    )
    program = tmp_path / "all"
    run_compiler(["gcc", "-w", "-fwrapv", str(source), "-o", str(program)])
    assert run_program([str(program)], check=False).returncode == 0


def test_shifts_and_divisions_have_their_parentheses() -> None:
    for one, other in itertools.product(("/", "%", "*"), repeat=2):
        assert expression(Binary(one, Binary(other, A, B), C)) == f"a {other} b {one} c"
        assert expression(Binary(one, A, Binary(other, B, C))) == f"a {one} (b {other} c)"
    assert expression(Binary("<<", A, Binary("+", B, C))) == "a << b + c"
    assert expression(Binary("+", A, Binary("<<", B, C))) == "a + (b << c)"


def test_sums_and_products() -> None:
    assert expression(plus(A, Binary("-", B, C))) == "a + b - c"
    assert plus(A, Int(0)) == A == plus(Int(0), A)
    assert times(Int(1), A) == A
    assert times(A, Int(0)) == Int(0) == times(Int(0), A)
    assert expression(Unary("-", Unary("-", A))) == "-(-a)"
    assert expression(Unary("&", Item("A", (Int(0), plus(A, Int(1)))))) == "&A[0][a + 1]"
    either = Binary("||", A, B)
    assert expression(every((either, C))) == "(a || b) && c"
    assert expression(every((either,))) == "a || b"


def test_substitution_leaves_no_zeros() -> None:
    subscript = plus(times(Int(4), A), B)
    assert expression(substituted(Item("X", (subscript,)), {"a": Int(0), "b": Int(0)})) == "X[0]"
    assert expression(substituted(subscript, {"b": Int(0)})) == "4 * a"
    assert sorted(names(Choice(A, Invoke("f", (B,)), Item("X", (C,))))) == ["a", "b", "c"]


def test_statements() -> None:
    loop = For("i", "int", Int(0), Binary("<=", Name("i"), A), Int(2), Assign(Item("X", (Name("i"),)), "+=", Int(1)))
    node = Scope(
        (
            Declare("const int", (("n", A), ("m", None))),
            Pragma("omp simd"),
            Pragma("GCC ivdep"),
            loop,
            If(A, Evaluate(Invoke("f", ())), Raw(("g();",))),
            If(A, Evaluate(Invoke("f", ())), If(B, Evaluate(Invoke("g", ())), short=True), short=True),
        )
    )
    assert lines(node, 1) == [
        "  {",
        "    const int n = a, m;",
        "#ifdef _OPENMP",
        "    #pragma omp simd",
        "#endif",
        "    #pragma GCC ivdep",
        "    for (int i = 0; i <= a; i += 2) {",
        "      X[i] += 1;",
        "    }",
        "    if (a) {",
        "      f();",
        "    } else {",
        "      g();",
        "    }",
        "    if (a) f(); else if (b) g();",
        "  }",
    ]


def test_hints_are_no_code() -> None:
    user = Instance(Assign(A, "=", Int(1)), (Hint("polydl_instance_S0", (Name("c0"),)),))
    assert lines(user, 0) == ["a = 1;"]
    assert lines(user, 0, hints=True) == ["polydl_instance_S0(c0);", "a = 1;"]
    assert not mentions(user, "c0")
    assert lines(with_value(Block((user,)), "c0", Int(4)), 0, hints=True)[0] == "polydl_instance_S0(4);"


def test_what_others_wrote_mentions_its_words() -> None:
    assert mentions(Block((Raw(("x = c0 + 1;",)),)), "c0")
    assert not mentions(Raw(("x = c01;",)), "c0")
