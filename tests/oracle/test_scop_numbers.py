"""Arithmetic of the interpreter of Scops, held against what gcc computes, in every pair of types."""

from __future__ import annotations

import ctypes
import struct

import pytest

from polydl.model.expr import Binary, Const, Convert, Load, Unary
from polydl.model.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    ElementType,
    common,
    promoted,
)  # fmt: skip
from polydl.oracle.fillings import Filling
from polydl.oracle.scop_expressions import Expressions
from polydl.oracle.scop_numbers import Number, Undefined, converted, decoded, encoded, is_nan, literal
from tests.oracle.native import compile_c

INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64)
FLOATS = (F32, F64)
OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "<": "less", "==": "same"}
WHOLE = {"%": "rem", ">>": "right", "<<": "left", "&": "and", "^": "xor"}
EXPRESSIONS = Expressions({})


class Given:
    """Two operands."""

    def __init__(self, *values: Number) -> None:
        self.values = values

    def element(self, access: int) -> Number:
        return self.values[access]

    def chosen(self, access: int, subscripts: tuple[int, ...]) -> Number:
        raise NotImplementedError

    def affine(self, value: object) -> int:
        raise NotImplementedError


def operands(element: ElementType) -> list[Number]:
    if element.is_int:
        return Filling("special", "extremes").numbers(element, 9, "e") + Filling("special", "small").numbers(element, 3)
    return Filling("special", "zeros").numbers(element, 10) + Filling("distinct", "zeros").numbers(element, 2)


def result_of(op: str, left: ElementType, right: ElementType) -> ElementType:
    if op in ("<", "=="):
        return I32
    return promoted(left) if op in ("<<", ">>") else common(left, right)


def same(one: Number, two: Number, element: ElementType) -> bool:
    """By bits, but that one NaN is another."""
    return (is_nan(one) and is_nan(two)) or encoded(one, element) == encoded(two, element)


def called(
    library: ctypes.CDLL, name: str, out: ElementType, *columns: tuple[ElementType, list[Number]]
) -> list[Number]:
    count = len(columns[0][1])
    buffers = [ctypes.create_string_buffer(b"".join(encoded(v, t) for v in values)) for t, values in columns]
    result = ctypes.create_string_buffer(count * out.bytes)
    getattr(library, name)(ctypes.c_long(count), *buffers, result)
    return [decoded(result.raw[i * out.bytes : (i + 1) * out.bytes], out) for i in range(count)]


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return compile_c(
        [*binary_text(), *conversion_text()], ("-std=gnu11", "-O0", "-w", "-ffp-contract=off", "-frounding-math")
    )


def cases() -> list[tuple[str, ElementType, ElementType]]:
    types = INTEGERS + FLOATS
    both = [(op, a, b) for op in OPERATORS for a in types for b in types]
    return both + [(op, a, b) for op in WHOLE for a in INTEGERS for b in INTEGERS]


def binary_text() -> list[str]:
    return [
        f"void {({**OPERATORS, **WHOLE})[op]}_{a.name}_{b.name}(long n, const {a.c} *a, const {b.c} *b,"
        f" {result_of(op, a, b).c} *r) {{ for (long i = 0; i < n; i++) r[i] = a[i] {op} b[i]; }}"
        for op, a, b in cases()
    ]


@pytest.mark.parametrize("op", {**OPERATORS, **WHOLE})
def test_operators_are_those_of_gcc(op: str, library: ctypes.CDLL) -> None:
    for _, left, right in (case for case in cases() if case[0] == op):
        types = (left, right)
        typed = EXPRESSIONS.typed(Binary(op, Load(0), Load(1)), lambda access, types=types: types[access])
        assert typed.element.name == result_of(op, left, right).name
        kept: list[tuple[Number, Number, Number]] = []
        for a in operands(left):
            for b in operands(right):
                try:
                    kept.append((a, b, typed.value(Given(a, b))))
                except Undefined:
                    continue
        assert len(kept) > 10, "most of these operations have a value"
        ones, twos = [a for a, _, _ in kept], [b for _, b, _ in kept]
        name = f"{({**OPERATORS, **WHOLE})[op]}_{left.name}_{right.name}"
        there = called(library, name, typed.element, (left, ones), (right, twos))
        for (a, b, mine), gcc in zip(kept, there, strict=True):
            assert same(mine, gcc, typed.element), f"({left.c}){a} {op} ({right.c}){b}: {mine}, gcc {gcc}"


CONVERTED = (BOOL, *INTEGERS, *FLOATS, F16)


def conversion_text() -> list[str]:
    return [
        f"void to_{a.name}_{b.name}(long n, const {a.c} *a, {b.c} *r) {{ for (long i = 0; i < n; i++) r[i] = a[i]; }}"
        for a in CONVERTED
        for b in CONVERTED
    ]


@pytest.mark.parametrize("source", CONVERTED, ids=lambda t: t.name)
def test_conversions_are_those_of_gcc(source: ElementType, library: ctypes.CDLL) -> None:
    for target in CONVERTED:
        kept: list[tuple[Number, Number]] = []
        for a in operands(source):
            try:
                kept.append((a, converted(a, source, target)))
            except Undefined:
                continue
        there = called(library, f"to_{source.name}_{target.name}", target, (source, [a for a, _ in kept]))
        for (a, mine), gcc in zip(kept, there, strict=True):
            assert same(mine, gcc, target), f"({target.c})({source.c}){a}: {mine}, gcc {gcc}"


def test_integers_round_once_to_float() -> None:
    # 2^24 + 1 + a bit far below: through double first it would be a tie.
    assert converted((1 << 60) + (1 << 36) + 1, I64, F32) == 2.0**60 + 2.0**37


def test_bfloat16_rounds_to_nearest_even() -> None:
    cases = {1.0: 1.0, 1.0 + 2**-8: 1.0, 1.0 + 3 * 2**-8: 1.0 + 2**-6, 3.5e38: float("inf"), -0.0: -0.0}
    for value, expected in cases.items():
        assert struct.pack("<d", converted(value, F64, BF16)) == struct.pack("<d", expected)


@pytest.mark.parametrize(
    ("text", "value", "element"),
    [
        ("0x10u", 16, U32), ("017", 15, I32), ("'a'", 97, I32), ("'\\n'", 10, I32), ("2147483648", 1 << 31, I64),
        ("0.1f", 0.10000000149011612, F32), ("0x1p-3", 0.125, F64), ("1e30f", 1.0000000150474662e30, F32),
        ("-0.0f", -0.0, F32), ("INFINITY", float("inf"), F32),
    ],
)  # fmt: skip
def test_literals(text: str, value: Number, element: ElementType) -> None:
    typed = EXPRESSIONS.typed(Const(text), lambda access: I32)
    assert (typed.element, encoded(typed.value(Given()), element)) == (element, encoded(value, element))
    assert literal("what") is None


def test_unsigned_arithmetic_wraps_and_signed_is_undefined() -> None:
    def of(value: Number, element: ElementType, expression: object) -> Number:
        return EXPRESSIONS.typed(expression, lambda access: element).value(Given(value))  # type: ignore[arg-type]

    assert of(0, U32, Binary("-", Load(0), Const("1"))) == 2**32 - 1
    assert of(255, U8, Binary("+", Load(0), Const("1"))) == 256
    assert of(255, U8, Convert(I32, U8, Binary("+", Load(0), Const("1")))) == 0
    assert of(0, U32, Unary("~", Load(0))) == 2**32 - 1
    assert of(-5, I32, Unary("~", Load(0))) == 4
    with pytest.raises(Undefined):
        of(2**31 - 1, I32, Binary("+", Load(0), Const("1")))
    with pytest.raises(Undefined):
        of(-(2**31), I32, Unary("-", Load(0)))
