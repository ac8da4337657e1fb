"""Loops that count, in the spellings that docs/input.md names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fuzz.bounds import Poly
from tests.fuzz.parts import Index
from tests.fuzz.programs import Builder
from tests.fuzz.values import INT, LONG, SHORT, SIZE, UNSIGNED, CType

SHAPES = ("plain", "triangular", "strided", "reversed", "while", "do", "endless", "typed", "offset")


@contextmanager
def loop(b: Builder, shape: str = "") -> Iterator[Index]:
    """A loop around what is emitted inside."""
    c = b.c
    shape = shape or c.pick(("plain", "plain", "plain", *SHAPES[1:]))
    ctype = c.pick((UNSIGNED, LONG, SIZE, SHORT)) if shape == "typed" else INT
    name = f"{'ijklm'[len(b.indices)] if len(b.indices) < 5 else 'v'}" + (
        str(b.names) if shape in ("while", "endless") else ""
    )
    if shape in ("while", "endless"):
        b.names += 1
    end, low, start, stop = c.pick(b.bounds), Poly.of(0), "0", ""
    unsigned = ctype.kind == "u" or any(size.type.kind == "u" and size.name in end.names for size in b.sizes)
    outer = [one for one in b.indices if one.plain and one.type.kind == "i" and not unsigned]
    if shape == "triangular" and outer:
        one = c.pick(outer[::-1])
        if c.often(1, 2):
            low, start = one.low, one.text
        else:
            end, stop = one.high + 1, f"{one.text} + 1"
    if shape == "offset" and not unsigned:
        first, less = c.below(3), c.below(3)
        low, start, end = low + first, str(first), end - less
    stop = stop or end.text()
    high = end - 1
    index = Index(name, low, high, ctype, plain=True)
    trips = max(1, high.most(b.largest) - low.least(b.largest) + 1)
    with b.block(*_text(b, shape, ctype, name, start, stop)):
        if shape == "endless":
            b.emit(f"if ({name} >= {stop})")
            b.emit("    break;")
        b.indices.append(index)
        b.trips *= trips
        yield index
        if shape in ("while", "endless"):
            b.emit(f"{name}{c.pick(('++', ' += 1'))};")


def _text(b: Builder, shape: str, ctype: CType, name: str, start: str, stop: str) -> tuple[str, str]:
    """The lines in front of the body and behind it."""
    c, kind = b.c, ctype.name
    match shape:
        case "strided":
            return f"for ({kind} {name} = {start}; {name} < {stop}; {name} += {2 + c.below(3)}) {{", "}"
        case "reversed":
            if any(size.type.kind == "u" for size in b.sizes) or c.chance(1, 3):
                if start == "0":
                    ctype_name = c.pick((kind, "unsigned", "long"))
                    return f"for ({ctype_name} {name} = {stop}; {name}-- > 0;) {{", "}"
                return f"for ({kind} {name} = {start}; {name} < {stop}; ++{name}) {{", "}"
            return f"for ({kind} {name} = {stop} - 1; {name} >= {start}; {name}--) {{", "}"
        case "while":
            b.emit(f"{kind} {name} = {start};")
            return f"while ({name} < {stop}) {{", "}"
        case "do":
            b.emit(f"if ({start} < {stop}) {{ {kind} {name} = {start};")
            return "do {", f"}} while (++{name} < {stop}); }}"
        case "endless":
            b.emit(f"{kind} {name} = {start};")
            return "for (;;) {", "}"
        case "plain":
            condition = c.pick((f"{name} < {stop}", f"{name} < {stop}", f"{stop} > {name}"))
            return f"for ({kind} {name} = {start}; {condition}; {name}++) {{", "}"
        case _:
            return f"for ({kind} {name} = {start}; {name} < {stop}; {name}++) {{", "}"
