"""A program of loops (`loop_program`) as a C file, as people would write it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

from polydl.model.functions import function_of
from polydl.model.types import BF16_BITS, F64, I32, I64, U64, ElementType
from polydl.torch_backend.loop_index import Atom, Chosen, Index, Quotient, Remainder, Var
from polydl.torch_backend.loop_program import (
    Array,
    At,
    Comment,
    Const,
    Declare,
    Expr,
    Inside,
    Load,
    Loop,
    Op,
    Program,
    Statement,
    Store,
    When,
)

_NAMES = "ijklmnpqrstuvw"
"""Of loop variables, by the number of loops around."""


def c_text(program: Program, name: str, comment: str = "") -> str:
    """The file: includes, and the function, whose region is marked; `comment` stands above it."""
    restrict = "restrict "
    given = [f"int {one.name}" for one in program.sizes]
    given += [_parameter(one, "const ", "") for one in program.inputs]
    given += [_parameter(one, "", restrict) for one in (*program.outputs, *program.scratch)]
    lines = [f"/* {comment} */"] * bool(comment)
    lines += [f"void {name}({', '.join(given)})", "{", "#pragma scop"]
    for size in program.sizes:
        lines += [f"#pragma polydl assume({size.name} >= {size.least} && {size.name} <= {size.most})"]
    lines += [f"#pragma polydl dead({', '.join(one.name for one in program.scratch)})"] * bool(program.scratch)
    lines += _block(program.body, {}, 1)
    lines += ["#pragma endscop", "}", ""]
    text = "\n".join(lines)
    headers = ["#include <math.h>", "#include <stdint.h>"]
    headers += ["#include <polydl.h>"] * any(word in text for word in (BF16_BITS.c, *(BF16_BITS.through or ())))
    return "\n".join([*headers, "", text])


def _parameter(array: Array, qualifier: str, restrict: str) -> str:
    first, *rest = array.shape or (1,)
    return f"{qualifier}{array.type.c} {array.name}[{restrict}{first}]{''.join(f'[{n}]' for n in rest)}"


Names = Mapping[Var, str]


def _block(body: Sequence[Statement], names: Names, depth: int) -> list[str]:
    lines: list[str] = []
    for one in body:
        lines += ["    " * depth + line for line in _statement(one, names)]
    return lines


def _statement(one: Statement, names: Names) -> list[str]:
    match one:
        case Comment(text):
            return [f"/* {text} */"]
        case Declare(array, value):
            if value is None:
                return [f"{array.type.c} {array.name}{''.join(f'[{n}]' for n in array.shape)};"]
            return [f"{array.type.c} {array.name} = {_expr(value, names)};"]
        case Store(array, index, value, op):
            return [f"{_element(array, index, names)} {op} {_bare(value, names)};"]
        case When(condition, inner):
            return [f"if ({_bare(condition, names)}) {{", *_block(inner, names, 1), "}"]
        case Loop(var, begin, end, inner):
            used = len(names)
            name = _NAMES[used] if used < len(_NAMES) else f"i{used}"
            first, last = _index(begin, names), _index(end, names)
            counter = "long" if _is_long(begin) or _is_long(end) else "int"
            head = f"for ({counter} {name} = {first}; {name} < {last}; {name}++) {{"
            return [head, *_block(inner, {**names, var: name}, 1), "}"]


def _element(array: Array, index: tuple[Index, ...], names: Names) -> str:
    return array.name + "".join(f"[{_index(one, names)}]" for one in index)


def _is_long(index: Index) -> bool:
    """Whether an index, or a part of its sum, may be more than an int holds."""
    ends = [abs(end) for one in (index, *(Index((term,)) for term in index.terms)) for end in one.range]
    return max(ends) > I32.maximum or abs(index.constant) > I32.maximum


def _in_long(atom: Atom) -> bool:
    match atom:
        case Var(_, extent):
            return extent - 1 > I32.maximum
        case Quotient(of, _) | Remainder(of, _):
            return _is_long(of)
        case Chosen(value):
            return bool(value.type is I64)


def _index(index: Index, names: Names) -> str:
    text = ""
    wide = _is_long(index)
    for atom, n in index.terms:
        one = f"{'(long)' if wide and not _in_long(atom) else ''}{_atom(atom, names)}"
        word = one if abs(n) == 1 else f"{abs(n)} * {one}"
        text += (f" {'-' if n < 0 else '+'} " if text else "-" * (n < 0)) + word
    if not text:
        return str(index.constant)
    if index.constant:
        text += f" {'-' if index.constant < 0 else '+'} {abs(index.constant)}"
    return text


def _atom(atom: Atom, names: Names) -> str:
    match atom:
        case Var():
            return names[atom]
        case Quotient(of, by):
            return f"(({_index(of, names)}) / {by})"
        case Remainder(of, by):
            return f"(({_index(of, names)}) % {by})"
        case Chosen(value):
            return _expr(value, names)


def _bare(value: Expr, names: Names) -> str:
    """Without the parentheses around all of it."""
    text = _expr(value, names)
    if isinstance(value, Op | Inside) and text.startswith("(") and text.endswith(")") and not text.startswith("(("):
        inner = text[1:-1]
        if _balanced(inner):
            return inner
    return text


def _balanced(text: str) -> bool:
    depth = 0
    for one in text:
        depth += (one == "(") - (one == ")")
        if depth < 0:
            return False
    return True


def _expr(value: Expr, names: Names) -> str:
    match value:
        case Const(number, element):
            return literal(number, element)
        case Load(array, index):
            return _element(array, index, names)
        case At(index, _):
            return f"({_index(index, names)})" if len(index.terms) + bool(index.constant) > 1 else _index(index, names)
        case Inside(tests):
            return f"({' && '.join(_test(one, names) for one in tests)})"
        case Op("cast", (one,), element):
            return _cast(one, element, names)
        case Op("?:", (condition, one, other), _):
            return f"({_expr(condition, names)} ? {_expr(one, names)} : {_expr(other, names)})"
        case Op(op, args, element):
            inner = [_expr(one, names) for one in args]
            if not op[0].isalpha():
                return f"({op}{inner[0]})" if len(inner) == 1 else f"({inner[0]} {op} {inner[1]})"
            known = function_of(op)
            called = (known and known.of(element)) or op
            return f"{called}({', '.join(inner)})"


def _test(index: Index, names: Names) -> str:
    """`index >= 0`, with what is subtracted on the other side."""
    constants = (index.constant, 0) if index.constant > 0 else (0, -index.constant)
    left = Index(tuple((a, n) for a, n in index.terms if n > 0), constants[0])
    right = Index(tuple((a, -n) for a, n in index.terms if n < 0), constants[1])
    if not left.terms:
        return f"{_index(right, names)} < {left.constant + 1}"
    return f"{_index(left, names)} >= {_index(right, names)}"


def _cast(one: Expr, element: ElementType, names: Names) -> str:
    inner = _expr(one, names)
    if element.through:
        return f"{element.through[0]}({_bare(one, names)})"
    if one.type.through:
        return f"{one.type.through[1]}({inner})"
    return f"({element.c}){inner}"


def literal(number: int | float | bool, element: ElementType) -> str:
    """A number as C writes it in a type."""
    if element.is_int:
        value = int(number)
        if value == element.minimum and not element.unsigned and element.bits >= 32:
            return f"({literal(value + 1, element)} - 1)"
        sign = "U" if element.unsigned and element.bits >= 32 else ""
        return f"{value}{sign}{'L' if element in (I64, U64) and abs(value) > 0x7FFFFFFF else ''}"
    real = float(number) if element is F64 else _nearest_float(float(number))
    if math.isnan(real):
        return "NAN"
    if math.isinf(real):
        return "INFINITY" if real > 0 else "(-INFINITY)"
    text = repr(real) if element is F64 else shortest(real)
    text = text if any(one in text for one in ".en") else f"{text}.0"
    text += "" if element is F64 else "f"
    return text if not text.startswith("-") else f"({text})"


def shortest(value: float) -> str:
    """The shortest decimal that is nearest to the same float as `value`, which is a float."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _nearest_float(float(text)) == value:
            return text
    return repr(value)


def _nearest_float(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
