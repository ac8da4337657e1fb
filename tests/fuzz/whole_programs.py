"""Whole random programs, from lists of choices."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from random import Random

from tests.fuzz.bounds import Poly
from tests.fuzz.choices import Choices
from tests.fuzz.features import STATEMENTS
from tests.fuzz.loops import loop
from tests.fuzz.nests import NESTS
from tests.fuzz.parts import SIZES, Array, Program, Size
from tests.fuzz.programs import Builder
from tests.fuzz.values import INT, LONG, SIZE, UNSIGNED, CType

FEATURES = (*STATEMENTS, *NESTS)


def program(source: Random | Sequence[int], without: Collection[str] = ()) -> tuple[Program, list[int]]:
    """A program that a generator of random numbers or a list of choices determines, and the choices made. Stores stand
    for features that it is to be `without`."""
    c = Choices(source)
    pair = (_feature(c, without), _feature(c, without))
    exact = c.often(1, 2)
    b = Builder(c, *_sizes(c), exact)
    marked = c.often(1, 3)
    for number in range(1 + c.below(3)):
        _nest(b, pair, pair[number % 2] if number < 2 else _feature(c, without), without)
        if c.chance(1, 8) and not marked:
            b.emit(f"{b.element(b.array(rank=1, types=(INT,)), [b.constant_index()])} = 5;")
    return _finished(b, marked, pair), c.made


def _feature(c: Choices, without: Collection[str]) -> str:
    chosen = c.pick(FEATURES)
    return "store" if chosen in without else chosen


def _sizes(c: Choices) -> tuple[list[Size], list[Poly]]:
    """Sizes, and what loops run up to: numbers, macros, or parameters."""
    names = ("n", "m")[: 1 + c.below(2)]
    how = c.pick(("numbers", "parameters", "parameters", "macros"))
    numbers = (8, 17, 3, 5, 33, 16, 32)
    if how == "numbers":
        return [], [Poly.of(c.pick(numbers)) for _ in names]
    if how == "macros":
        sizes = [Size(f"{name.upper()}@", INT, (c.pick(numbers),), macro=True) for name in names]
    else:
        ctype = c.pick((INT, INT, INT, LONG, UNSIGNED, SIZE))
        sizes = [Size(name, ctype, SIZES, macro=False) for name in names]
    return sizes, [Poly.of(size.name) for size in sizes]


def _nest(b: Builder, pair: Sequence[str], feature: str, without: Collection[str]) -> None:
    """Loops with statements of a feature, of the program's pair, and at times of any other."""

    def statements(most: int) -> None:
        STATEMENTS[feature](b)
        for _ in range(b.c.below(most)):
            likely = ("store", *(one for one in pair if one in STATEMENTS))
            chosen = b.c.pick(tuple(STATEMENTS) if b.c.chance(1, 5) else likely)
            STATEMENTS["store" if chosen in without else chosen](b)

    if feature in NESTS:
        NESTS[feature](b)
        return
    with loop(b):
        if b.c.often(1, 2):
            statements(4)
            return
        if b.c.chance(1, 4):
            statements(1)
        with loop(b):
            if b.c.chance(1, 6):
                with loop(b):
                    statements(3)
            else:
                statements(3)
        if b.c.chance(1, 6):
            statements(1)


def _finished(b: Builder, marked: bool, pair: tuple[str, str]) -> Program:
    """The function around what was emitted."""
    c = b.c
    least_one = False
    restrict = " restrict" if c.often(1, 2) else ""
    parameters = [f"{size.type.name} {size.name}" for size in b.sizes if not size.macro]
    live = [*((s.name, s.type, *s.limit) for s in b.scalars), *b.after]
    result: CType | None = None
    tail: list[str] = []
    for number, (name, ctype, *_) in enumerate(live):
        if number == 0 and c.often(1, 2):
            result = ctype
            tail.append(f"return {name};")
        else:
            out = Array(f"out{number}", ctype, [Poly.of(1)], (ctype.low, ctype.high), (ctype.low, ctype.high))
            if ctype.kind == "f" and b.exact:
                out.fill = (-9, 9)
            b.arrays.append(out)
            tail.insert(0, f"{out.name}[0] = {name};")
    widths: dict[str, str] = {}
    for array in b.arrays:
        array.dims = [dim if dim.terms else Poly.of(1) for dim in array.dims]
        if c.chance(1, 4):
            array.dims[-1] = array.dims[-1] + 1 + c.below(3)
        parameters.append(_parameter(b, array, restrict, widths))
        if len(array.dims) == 2 and not array.dims[1].constant > 0:
            least_one = True
    head = f"{result.name if result else 'void'} f@({', '.join(parameters)})"
    before = ["    " + line for line in b.before]
    body = ["#pragma scop", *b.lines, "#pragma endscop"] if marked else b.lines
    lines = [f"#define {size.name} {size.values[0]}" for size in b.sizes if size.macro]
    lines += [*b.file, head, "{", *before, *body, *("    " + line for line in tail), "}"]
    text = "\n".join(lines) + "\n"
    text = re.sub(r"<(\w+)>", lambda found: widths.get(found[1], found[0]), text)
    for name, header in (("memcpy", "string"), (r"\w+_t\b", "stdint"), ("size_t", "stddef")):
        if re.search(name, text):
            text = f"#include <{header}.h>\n{text}"
    sizes = tuple(Size(s.name, s.type, tuple(v for v in s.values if v or not least_one), s.macro) for s in b.sizes)
    return Program(text, sizes, tuple(b.arrays), result, b.exact, pair)


def _parameter(b: Builder, array: Array, restrict: str, widths: dict[str, str]) -> str:
    """An array as it is declared. What is known of arrays in flat style is put into `widths`."""
    name = f"struct {array.name}@" if array.members else array.type.name
    if len(array.dims) == 2:
        width = array.dims[1].text()
        if array.style == "pointers":
            return f"{name} **{array.name}"
        if array.style == "rows":
            first = f"[{restrict.strip()}{' ' if restrict else ''}{array.dims[0].text()}]" if restrict else "[]"
            return f"{name} {array.name}{first}[{width}]"
        widths[array.name] = array.dims[1].factor()
    if b.c.chance(1, 3):
        inner = restrict.strip() + (" " if restrict else "") + (array.dims[0].text() if len(array.dims) == 1 else "")
        return f"{name} {array.name}[{inner.strip() if len(array.dims) == 1 else restrict.strip()}]"
    return f"{name} *{restrict.strip()}{' ' if restrict else ''}{array.name}"
