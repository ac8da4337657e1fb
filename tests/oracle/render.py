"""A program of the oracle's language as C text."""

from __future__ import annotations

from typing import assert_never

from tests.oracle.language import (
    ArrayDecl,
    Assign,
    Binary,
    Compare,
    Cond,
    Data,
    DivMod,
    For,
    If,
    Int,
    IntValue,
    Lit,
    Load,
    Logic,
    MinMax,
    Negate,
    Node,
    Not,
    Num,
    Program,
    Scale,
    Sum,
    Temp,
    Var,
    written,
)

MACROS = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n"


def render(program: Program) -> str:
    """C text: one function `program.name` whose region stands between `#pragma scop` and `#pragma endscop`.

    Arguments, in order: parameters (int), then arrays by name.
    """
    return _Renderer(program).text()


def argument_kind(program: Program, array: str) -> str:
    """How an array is passed: `array` (pointer), `value` (read-only scalar) or `inout` (scalar copied in and out)."""
    if program.arrays[array].extents:
        return "array"
    return "inout" if array in written(program) else "value"


class _Renderer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.outside: set[str] = set()

    def text(self) -> str:
        body = "\n".join(self.node(n, 1) for n in self.program.body)
        arguments = [f"int {name}" for name in self.program.parameters]
        before, after = [], []
        for name, array in self.program.arrays.items():
            arguments.append(self.argument(name, array))
            if argument_kind(self.program, name) == "inout":
                before.append(f"  {array.ctype} {name} = *{name}_inout;")
                after.append(f"  *{name}_inout = {name};")
        if self.outside:
            before.append(f"  int {', '.join(sorted(self.outside))};")
        lines = [
            f"void {self.program.name}({', '.join(arguments) or 'void'})",
            "{",
            *before,
            "#pragma scop",
            body,
            "#pragma endscop",
            *after,
            "}",
            "",
        ]
        return (MACROS if self.program.macros else "") + "\n".join(lines)

    def argument(self, name: str, array: ArrayDecl) -> str:
        kind = argument_kind(self.program, name)
        if kind == "value":
            return f"{array.ctype} {name}"
        if kind == "inout":
            return f"{array.ctype} *restrict {name}_inout"
        if array.linear:
            return f"{array.ctype} *restrict {name}"
        extents = array.spelled or tuple(str(e) for e in array.extents)
        first, *rest = extents
        return f"{array.ctype} {name}[restrict {first}]" + "".join(f"[{e}]" for e in rest)

    def node(self, node: Node, depth: int) -> str:
        pad = "  " * depth
        match node:
            case Temp(name, value):
                if self.program.declare_in_for:
                    return f"{pad}int {name} = {self.integer(value)};"
                self.outside.add(name)
                return f"{pad}{name} = {self.integer(value)};"
            case Assign(array, subscripts, op, value):
                return f"{pad}{self.element(array, subscripts)} {op} {self.data(value)};"
            case If(condition, then, otherwise):
                text = f"{pad}if ({self.cond(condition)}) {{\n{self.block(then, depth + 1)}\n{pad}}}"
                if otherwise:
                    text += f" else {{\n{self.block(otherwise, depth + 1)}\n{pad}}}"
                return text
            case For(var, start, op, bound, step, body):
                if not self.program.declare_in_for:
                    self.outside.add(var)
                declare = "int " if self.program.declare_in_for else ""
                advance = {1: f"{var}++", -1: f"{var}--"}.get(step)
                if advance is None:
                    advance = f"{var} += {step}" if step > 0 else f"{var} -= {-step}"
                head = f"{pad}for ({declare}{var} = {self.integer(start)}; {var} {op} {self.integer(bound)}; {advance})"
                return f"{head} {{\n{self.block(body, depth + 1)}\n{pad}}}"
            case _:
                assert_never(node)

    def block(self, nodes: tuple[Node, ...], depth: int) -> str:
        return "\n".join(self.node(n, depth) for n in nodes)

    def element(self, array: str, subscripts: tuple[Int, ...]) -> str:
        declared = self.program.arrays[array]
        if not declared.linear:
            return array + "".join(f"[{self.integer(s)}]" for s in subscripts)
        extents = declared.spelled or tuple(str(e) for e in declared.extents)
        terms = []
        for position, subscript in enumerate(subscripts):
            strides = "".join(f" * ({e})" for e in extents[position + 1 :])
            terms.append(f"({self.integer(subscript)}){strides}")
        return f"{array}[{' + '.join(terms)}]"

    def integer(self, value: Int, parent: bool = False) -> str:
        match value:
            case Lit(number):
                return f"({number})" if number < 0 and parent else str(number)
            case Var(name):
                return name
            case Sum(op, left, right):
                text = f"{self.integer(left, True)} {op} {self.integer(right, True)}"
            case Scale(factor, operand):
                text = f"{factor if factor >= 0 else f'({factor})'} * {self.integer(operand, True)}"
            case DivMod(op, operand, divisor):
                text = f"{self.integer(operand, True)} {op} {divisor}"
            case MinMax(op, left, right):
                a, b = self.integer(left, True), self.integer(right, True)
                if self.program.macros:
                    return f"{op.upper()}({a}, {b})"
                return f"({a} {'<' if op == 'min' else '>'} {b} ? {a} : {b})"
            case _:
                assert_never(value)
        return f"({text})" if parent else text

    def cond(self, condition: Cond) -> str:
        match condition:
            case Compare(op, left, right):
                return f"{self.integer(left, True)} {op} {self.integer(right, True)}"
            case Logic(op, left, right):
                return f"({self.cond(left)}) {op} ({self.cond(right)})"
            case Not(operand):
                return f"!({self.cond(operand)})"
            case _:
                assert_never(condition)

    def data(self, value: Data, parent: bool = False) -> str:
        match value:
            case Num(number):
                return f"({number})" if number < 0 else str(number)
            case Load(array, subscripts):
                return self.element(array, subscripts)
            case IntValue(inner):
                return self.integer(inner, True)
            case Binary(op, left, right):
                text = f"{self.data(left, True)} {op} {self.data(right, True)}"
                return f"({text})" if parent else text
            case Negate(operand):
                return f"(-{self.data(operand, True)})"
            case _:
                assert_never(value)
