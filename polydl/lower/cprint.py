"""C text of a C tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

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
    Marked,
    Name,
    Node,
    Paren,
    Pragma,
    Raw,
    Scope,
    Text,
    Unary,
)

# C precedence levels, higher binds tighter.
POSTFIX, UNARY, MUL, ADD, SHIFT, REL, EQ, BAND, XOR, BOR, AND, OR, TERNARY = range(13, 0, -1)

LEVEL: Mapping[str, int] = {
    **dict.fromkeys(("*", "/", "%"), MUL),
    **dict.fromkeys(("+", "-"), ADD),
    **dict.fromkeys(("<<", ">>"), SHIFT),
    **dict.fromkeys(("<", ">", "<=", ">="), REL),
    **dict.fromkeys(("==", "!="), EQ),
    "&": BAND,
    "^": XOR,
    "|": BOR,
    "&&": AND,
    "||": OR,
}


def expression(expr: Expr) -> str:
    """C text of an expression."""
    return _text(expr)


def level(expr: Expr) -> int:
    """Precedence of an expression."""
    match expr:
        case Int(value):
            return POSTFIX if value >= 0 else UNARY
        case Text(text):
            return UNARY if text.startswith(("-", "+")) else POSTFIX
        case Unary() | Cast():
            return UNARY
        case Binary(op):
            return LEVEL[op]
        case Choice():
            return TERNARY
        case _:
            return POSTFIX


def _at(expr: Expr, least: int) -> str:
    text = expression(expr)
    return text if level(expr) >= least else f"({text})"


def _text(expr: Expr) -> str:
    match expr:
        case Name(text) | Text(text):
            return text
        case Int(value):
            return str(value)
        case Unary(op, operand):
            inner = _at(operand, UNARY)
            return f"{op}({inner})" if inner.startswith(("-", "+")) else f"{op}{inner}"
        case Binary(op, left, right):
            return f"{_at(left, LEVEL[op])} {op} {_at(right, LEVEL[op] + 1)}"
        case Invoke(function, arguments):
            return f"{function}({', '.join(map(expression, arguments))})"
        case Item(array, subscripts, member, inner):
            outside, inside = ("".join(f"[{expression(s)}]" for s in part) for part in (subscripts, inner))
            return array + outside + member + inside
        case Choice(condition, then, otherwise):
            return f"{_at(condition, OR)} ? {_at(then, TERNARY)} : {_at(otherwise, TERNARY)}"
        case Cast(type_, operand):
            return f"({type_}){_at(operand, UNARY)}"
        case Paren(inner):
            return f"({expression(inner)})"
        case _:
            assert_never(expr)


def lines(node: Node, indent: int, *, hints: bool = False) -> list[str]:
    """C text of statements, line by line; with the `hints` about instances, or without."""
    return list(_lines(node, indent, hints))


def _lines(node: Node, indent: int, hints: bool) -> Iterator[str]:
    pad = "  " * indent

    def inside(*nodes: Node) -> Iterator[str]:
        for each in nodes:
            yield from _lines(each, indent + 1, hints)

    match node:
        case Block(parts):
            for part in parts:
                yield from _lines(part, indent, hints)
        case Instance(body, own):
            yield from _lines(Block((*own, body)) if own else body, indent, hints)
        case Scope(parts):
            yield from (f"{pad}{{", *inside(*parts), f"{pad}}}")
        case If(condition, then, otherwise, short=True):
            yield pad + _short(condition, then, otherwise)
        case If(condition, then, otherwise):
            yield from (f"{pad}if ({expression(condition)}) {{", *inside(then))
            if otherwise is not None:
                yield from (f"{pad}}} else {{", *inside(otherwise))
            yield f"{pad}}}"
        case For():
            yield from (f"{pad}{_head(node)} {{", *inside(node.body), f"{pad}}}")
        case Marked(way):
            raise AssertionError(f"no pass has dealt with loops that run as {way.value}")
        case Hint():
            yield from [pad + _simple(Evaluate(Invoke(node.name, node.arguments)))] if hints else ()
        case Pragma() | Raw():
            yield from _given(node, pad)
        case _:
            yield pad + _simple(node)


def _given(node: Pragma | Raw, pad: str) -> Sequence[str]:
    match node:
        case Raw(text, indented):
            return [pad + line if indented else line for line in text]
        case Pragma(text):
            pragma = f"{pad}#pragma {text}"
            # Compilers without OpenMP have nothing to warn about then.
            return ("#ifdef _OPENMP", pragma, "#endif") if text.startswith("omp") else (pragma,)


def _head(loop: For) -> str:
    variable = loop.variable
    advance = f"{variable}++" if loop.step == Int(1) else f"{variable} += {expression(loop.step)}"
    return f"for ({loop.type} {variable} = {expression(loop.first)}; {expression(loop.condition)}; {advance})"


def _short(condition: Expr, then: Node, otherwise: Node | None) -> str:
    text = f"if ({expression(condition)}) {_one(then)}"
    return text if otherwise is None else f"{text} else {_one(otherwise)}"


def _one(node: Node) -> str:
    if isinstance(node, If):
        return _short(node.condition, node.then, node.otherwise)
    assert isinstance(node, (Assign, Evaluate)), "a short condition has simple statements"
    return _simple(node)


def _simple(node: Assign | Evaluate | Declare) -> str:
    match node:
        case Assign(target, op, value):
            return f"{expression(target)} {op} {expression(value)};"
        case Evaluate(expr):
            return f"{expression(expr)};"
        case Declare(type_, objects):
            shown = (name if value is None else f"{name} = {expression(value)}" for name, value in objects)
            return f"{type_} {', '.join(shown)};"
