"""Random C functions for the interpreter of C: typed arithmetic with conversions, control, arrays, structures.

Some inputs of a function may be undefined: overflow, shifts, division, conversions and subscripts of arrays that gcc's
sanitizer sees. Effects without an order and reads without a value, which it does not see, are never written.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

INTEGERS = {
    "_Bool": (0, 1),
    "char": (-128, 127),
    "signed char": (-128, 127),
    "unsigned char": (0, 255),
    "short": (-(1 << 15), (1 << 15) - 1),
    "unsigned short": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "unsigned": (0, (1 << 32) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "unsigned long": (0, (1 << 64) - 1),
    "long long": (-(1 << 63), (1 << 63) - 1),
}
REALS = ("float", "double")
HALF = "_Float16"
CONSTANTS = ["0", "1", "2", "3", "7", "31", "63", "100", "1u", "40u", "5l", "3ul", "(-1)", "(-2)"]
WIDE_CONSTANTS = [
    "255",
    "65535",
    "2147483647",
    "2147483648",
    "4294967295u",
    "0x7fffffffffffffff",
    "0x80000000",
    "070",
    "'a'",
]
REAL_CONSTANTS = ["0.5", "1.5f", "0.1f", "0.1", "3.0", "2.5e-3", "0x1.8p3f"]
WIDE_REAL_CONSTANTS = ["1e10f", "1e300", "16777217.0f", "1e-45f", "1e39"]


@dataclass(frozen=True)
class Written:
    """A function and its parameters' types."""

    name: str
    returns: str
    parameters: tuple[str, ...]
    text: str

    def inputs(self, chance: random.Random) -> tuple[int | float, ...]:
        return tuple(value_of(kind, chance) for kind in self.parameters)


def value_of(kind: str, chance: random.Random) -> int | float:
    """A value of a type: small, extreme, or any."""
    if kind in INTEGERS:
        least, most = INTEGERS[kind]
        small = [value for value in (-3, -1, 0, 1, 2, 5, 40) if least <= value <= most]
        if chance.random() < 0.7:
            return chance.choice(small)
        return chance.choice((least, most, most - 1, chance.randint(least, most)))
    if kind == HALF:
        return chance.choice((0.0, -0.0, 1.0, 0.0999755859375, -3.5, 2048.0, 65504.0, 6e-8 * 0 + 2.0**-24))
    values = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 1e9, -1e10, 2.0**31, 16777216.0, 1e-40, float("inf"), float("nan"), 1e30)
    value = chance.choice(values) if chance.random() < 0.3 else chance.choice((0.5, 3.0, -2.25, chance.uniform(-9, 99)))
    if kind == "float":
        import numpy as np

        return float(np.float32(value))
    return value


class Generator:
    """One function."""

    def __init__(self, chance: random.Random, number: int, earlier: list[Written], *, halves: bool) -> None:
        self.chance = chance
        self.name = f"f{number}"
        self.earlier = earlier
        self.types = [*INTEGERS, *REALS, *([HALF] if halves else [])]
        self.variables: list[tuple[str, str]] = []
        """Names and types of what may be read."""
        self.locked: set[str] = set()
        """Names that stay as they are: counters of loops."""
        self.used: set[str] = set()
        """Names that the statement reads or changes already, none of which it may change now."""

    def pick(self, *weighted: tuple[str, float]) -> str:
        return self.chance.choices([name for name, _ in weighted], [weight for _, weight in weighted])[0]

    def expression(self, depth: int) -> str:
        """An arithmetic expression without effects, but perhaps of one on a name that it does not read."""
        if depth <= 0:
            return self.leaf()
        kind = self.pick(
            ("binary", 10), ("leaf", 3), ("cast", 4), ("unary", 3), ("choice", 1.5), ("logic", 1.5), ("shift", 2),
            ("compare", 2), ("step", 1), ("element", 2), ("call", 0.7), ("comma", 0.4), ("assign", 0.6),
        )  # fmt: skip
        e = lambda: self.expression(depth - 1)  # noqa: E731
        if kind == "binary":
            op = self.chance.choice(("+", "-", "*", "+", "-", "*", "/", "%", "&", "|", "^"))
            if op in "%&|^":
                second = f"(({self.integer(depth - 1)} & 15) + 3)" if op == "%" else self.integer(depth - 1)
                return f"({self.integer(depth - 1)} {op} {second})"
            if op in "*/":
                second = f"(({self.integer(depth - 1)} & 7) + 1)" if self.chance.random() < 0.93 else e()
                return f"({e()} {op} {second})"
            return f"({e()} {op} {e()})"
        if kind == "cast":
            return f"(({self.chance.choice(self.types)})({e()}))"
        if kind == "unary":
            op = self.chance.choice(("-", "+", "!", "~"))
            return f"({op}{self.integer(depth - 1) if op == '~' else e()})"
        if kind == "choice":
            return f"({e()} ? {e()} : {e()})"
        if kind == "logic":
            return f"({e()} {self.chance.choice(('&&', '||'))} {e()})"
        if kind == "shift":
            count = self.integer(depth - 1)
            if self.chance.random() < 0.8:
                count = f"({count} & {self.chance.choice((7, 15, 31))})"
            operand = self.integer(depth - 1)
            if self.chance.random() < 0.7:
                operand = f"(unsigned){operand}"
            return f"({operand} {self.chance.choice(('<<', '>>'))} {count})"
        if kind == "compare":
            return f"({e()} {self.chance.choice(('<', '>', '<=', '>=', '==', '!='))} {e()})"
        if kind == "step":
            name = self.changeable()
            return f"({self.chance.choice(('++{}', '{}++', '--{}', '{}--')).format(name)})" if name else e()
        if kind == "assign":
            name = self.changeable()
            if name is None:
                return e()
            return f"({name} {self.chance.choice(('=', '+=', '-=', '*='))} {e()})"
        if kind == "element":
            return self.element(depth - 1)
        if kind == "comma":
            name = self.changeable()  # gcc drops what has no effect, and its checks
            return f"({name} {self.chance.choice(('=', '-='))} {e()}, {e()})" if name else e()
        if kind == "call" and self.earlier:
            called = self.chance.choice(self.earlier)
            return f"{called.name}({', '.join(e() for _ in called.parameters)})"
        return self.leaf()

    def integer(self, depth: int) -> str:
        """An expression of an integer type."""
        if self.chance.random() < 0.4:
            names = [name for name, kind in self.variables if kind in INTEGERS and name not in self.changed]
            if names:
                self.used.add(name := self.chance.choice(names))
                return name
        return f"(({self.chance.choice(list(INTEGERS))}){self.expression(depth)})"

    def element(self, depth: int) -> str:
        index = f"({self.integer(depth)} & 3)"
        if self.chance.random() < 0.04:
            index = f"({self.integer(depth)} & 7)"
        array = self.chance.choice(("a", "b", "s.y", "m[1]", "t.y", f"m[{self.integer(0)} & 1]", "p", "(b + 0)"))
        return f"{array}[{index if array not in ('p', '(b + 0)') else f'({self.integer(depth)} & 3)'}]"

    def changeable(self) -> str | None:
        """A name that nothing else in the statement uses, to be changed."""
        free = [
            name for name, kind in self.variables
            if name not in self.used and name not in self.locked and kind != "_Bool" and "." not in name
        ]  # fmt: skip
        if not free:
            return None
        name = self.chance.choice(free)
        self.used.add(name)
        self.changed.add(name)
        return name

    changed: set[str]

    def leaf(self) -> str:
        free = [name for name, _ in self.variables if name not in self.changed]
        if free and self.chance.random() < 0.75:
            name = self.chance.choice(free)
            self.used.add(name)
            return name
        if self.chance.random() < 0.2:
            return self.chance.choice(REAL_CONSTANTS if self.chance.random() < 0.9 else WIDE_REAL_CONSTANTS)
        return self.chance.choice(CONSTANTS if self.chance.random() < 0.9 else WIDE_CONSTANTS)

    def fresh_statement(self) -> None:
        self.used, self.changed = set(), set()

    def statement(self, depth: int) -> list[str]:
        self.fresh_statement()
        kind = self.pick(
            ("assign", 6), ("declare", 3), ("if", 2), ("for", 1.5), ("switch", 1), ("store", 3), ("copy", 1)
        )
        if kind == "assign":
            name = self.changeable()
            if name is None:
                return []
            ops = ("=", "=", "+=", "-=", "*=", "/=")
            return [f"{name} {self.chance.choice(ops)} {self.expression(3)};"]
        if kind == "store":
            target = self.chance.choice(("a[{}]", "b[{}]", "s.y[{}]", "m[0][{}]", "*(p + {})", "t.y[{}]"))
            index = self.chance.randrange(4)
            return [f"{target.format(index)} {self.chance.choice(('=', '+=', '-='))} {self.expression(3)};"]
        if kind == "copy":
            return [self.chance.choice(("s = t;", "t = s;", "{ struct S u = s; u.x = 3; t = u; }", "p = b; p++; p--;"))]
        if kind == "declare":
            name, type_ = f"v{len(self.variables)}_{self.chance.randrange(1000)}", self.chance.choice(self.types)
            line = f"{type_} {name} = {self.expression(3)};"
            self.variables.append((name, type_))
            return [line]
        if depth <= 0:
            return []
        before = len(self.variables)
        if kind == "if":
            lines = [f"if ({self.expression(2)}) {{", *self.block(depth - 1), "} else {"]
            del self.variables[before:]
            lines += [*self.block(depth - 1), "}"]
        elif kind == "for":
            name = f"q{self.chance.randrange(1000)}"
            self.variables.append((name, "int"))
            self.locked.add(name)
            jump = self.chance.choice(("", f"if ({name} == 1) continue;", f"if ({name} == 2) break;"))
            lines = [f"for (int {name} = 0; {name} < {self.chance.randint(1, 4)}; {name}++) {{", *self.block(depth - 1)]
            lines += [jump, *self.block(depth - 1), "}"]
        else:
            lines = [f"switch ({self.integer(2)} & 3) {{"]
            for label in ("case 0:", "case 2:", "default:"):
                lines += [f"{label} {{", *self.block(depth - 1), "}", self.chance.choice(("break;", ""))]
                del self.variables[before:]
            lines += ["}"]
        del self.variables[before:]
        return lines

    def block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.chance.randint(1, 3)):
            lines += self.statement(depth)
        return lines

    def function(self) -> Written:
        parameters = tuple(self.chance.choice(self.types) for _ in range(self.chance.randint(1, 4)))
        self.variables = [(f"x{number}", kind) for number, kind in enumerate(parameters)]
        self.fresh_statement()
        returns = self.chance.choice(self.types)
        lines = [
            "int a[4] = {1, 2, [3] = -5};",
            f"{self.chance.choice(self.types)} b[4] = {{3, 1}};",
            "b[0] = 0; struct S s = {5, {1, 2, 3, 4}, 6}, t = {.c = 1};",
            "short m[2][4] = {{1, 2}, {3, 4, 5, 6}};",
        ]
        kind = lines[1].split(" b[")[0]
        lines.append(f"{kind} *p = b;")
        self.variables += [("s.x", "int"), ("t.c", "unsigned char")]
        for _ in range(self.chance.randint(2, 6)):
            lines += self.statement(2)
        self.fresh_statement()
        lines.append(f"return {self.expression(4)};")
        header = f"{returns} {self.name}({', '.join(f'{kind} x{n}' for n, kind in enumerate(parameters))})"
        text = "\n".join([header + " {", *(f"    {line}" for line in lines), "}"])
        return Written(self.name, returns, parameters, text)


PREFIX = "struct S { int x; float y[4]; unsigned char c; };"


def functions(seed: int, count: int, *, halves: bool = False) -> list[Written]:
    """Random functions; later ones may call earlier ones."""
    chance = random.Random(seed)
    found: list[Written] = []
    for number in range(count):
        found.append(Generator(chance, number, found[-3:], halves=halves).function())
    return found
