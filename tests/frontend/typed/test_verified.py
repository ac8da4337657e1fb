"""Cores that break a rule are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from polydl.base.errors import Span
from polydl.frontend.typed.core_values import (
    AddressOf,
    Bin,
    Const,
    Conv,
    Obj,
    Place,
    Pointer,
    Read,
    Ref,
    Storage,
    Value,
    Var,
    Why,
)
from polydl.frontend.typed.nodes import Assign, Block, Break, Function, If, Let, Load, Node, Program, Return, Store
from polydl.frontend.typed.verified import NotWellFormed, verify
from polydl.model.types import F32, F64, I8, I32, I64, U32
from tests.frontend.typed.reading import core_of

HERE = Span("in.c", 1, 1)
N = Var(1000, "n", I32, Storage.LOCAL, HERE)
X = Var(1001, "x", F64, Storage.LOCAL, HERE)
ONE = Const(1, I32)


def with_items(*items: Node) -> Program:
    """A function that returns nothing, with these effects."""
    core = core_of("void f(int *a) { *a = 1; }")
    function = core.functions["f"]
    made: Function = replace(function, body=Block((*function.body.items, *items)))
    return replace(core, functions={"f": made})


def stored(change: Callable[[Store], Node]) -> Program:
    core = with_items()
    function = core.functions["f"]
    (store,) = function.body.items
    assert isinstance(store, Store)
    return replace(core, functions={"f": replace(function, body=Block((change(store),)))})


def of_nothing(base: Obj | Value) -> Obj:
    """The object, of what is no parameter."""
    assert isinstance(base, Obj)
    return replace(base, of=N)


BROKEN = {
    "a conversion is left out": (with_items(Assign(N, Const(1, I64), HERE)), "what is assigned has type"),
    "operands of two types": (with_items(Assign(N, Bin("+", ONE, Const(1, I64), I32), HERE)), "right side of '+'"),
    "compared in two types": (with_items(Assign(N, Bin("<", Read(X), ONE, I32), HERE)), "left side of '<'"),
    "arithmetic on a char": (with_items(Let(Ref(1002, I8), Bin("+", Const(1, I8), Const(1, I8), I8), HERE)), "'+' of"),
    "a shift of a float": (with_items(Assign(X, Bin("<<", Read(X), Read(X), F64), HERE)), "'<<' of"),
    "wraps though it is signed": (with_items(Assign(N, Bin("+", ONE, ONE, I32, wraps=True), HERE)), "wraps"),
    "does not wrap": (with_items(Let(Ref(1002, U32), Bin("+", Const(1, U32), Const(1, U32), U32), HERE)), "wraps"),
    "a conversion to itself": (with_items(Assign(N, Conv(ONE, I32, Why.USUAL), HERE)), "to itself"),
    "a constant that does not fit": (with_items(Assign(N, Const(2**31, I32), HERE)), "is no 'int'"),
    "used in front of it": (with_items(Assign(N, Ref(1002, I32), HERE), Let(Ref(1002, I32), ONE, HERE)), "not defined"),
    "defined twice": (with_items(*(Let(Ref(1002, I32), ONE, HERE) for _ in range(2))), "defined twice"),
    "used outside of its branch": (
        with_items(
            If(ONE, Block((Let(Ref(1002, I32), ONE, HERE),)), Block(()), (), HERE), Assign(N, Ref(1002, I32), HERE)
        ),
        "not defined",
    ),
    "another number of values": (with_items(If(ONE, Block((), (ONE,)), Block(()), (), HERE)), "number of values"),
    "a condition of another type": (with_items(If(Read(X), Block(()), Block(()), (), HERE)), "a condition"),
    "two variables with one number": (
        with_items(Assign(N, ONE, HERE), Assign(Var(1000, "m", I32, Storage.LOCAL, HERE), ONE, HERE)),
        "have the number",
    ),
    "break out of nothing": (with_items(Break(HERE)), "out of no loop"),
    "a value returned": (with_items(Return(ONE, HERE)), "what is returned"),
    "no place in the source": (with_items(Assign(N, ONE, Span("in.c", 0, 0))), "without a place"),
    "behind no pointer": (with_items(Load(Ref(1002, I32), Place(ONE, (), I32), HERE)), "no pointer"),
    "stored as another type": (stored(lambda one: replace(one, value=Const(1.0, F32))), "what is stored"),
    "an effect in a value": (stored(lambda one: replace(one, value=cast("Value", one))), "Store is no value"),
    "the parameter of an object": (
        stored(lambda one: replace(one, place=replace(one.place, base=of_nothing(one.place.base)))),
        "no parameter",
    ),
    "the address of nothing": (
        with_items(Let(Ref(1002, Pointer(I32)), AddressOf(Place(ONE, (), I32)), HERE)),
        "no pointer",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_found(name: str) -> None:
    program, said = BROKEN[name]
    with pytest.raises(NotWellFormed, match=re.escape(said)):
        verify(program)


def test_what_holds() -> None:
    verify(with_items(Assign(N, ONE, HERE), Assign(X, Conv(Read(N), F64, Why.ASSIGN), HERE)))
