"""Random C programs over the language of docs/input.md, free of undefined behaviour by construction.

A `Builder` holds what is known while a program is written: bounds of loop variables as polynomials of the sizes, ranges
of values, how often statements run at most. `tests.fuzz.features` is what programs are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz.bounds import Poly
from tests.fuzz.choices import Choices
from tests.fuzz.parts import Array, Index, Scalar, Size
from tests.fuzz.values import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT,
    INT64,
    LONG,
    SHORT,
    SIZE,
    UINT32,
    UNSIGNED,
    WORD,
    CType,
    Value,
    binary,
    cast,
    chosen,
    converted,
    literal,
    promoted,
)  # fmt: skip


@dataclass
class Builder:
    """A program that is being written."""

    c: Choices
    sizes: list[Size]
    bounds: list[Poly]
    """What loops run up to."""
    exact: bool
    lines: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    """Declarations in front of the loops."""
    file: list[str] = field(default_factory=list)
    """What stands in front of the function."""
    arrays: list[Array] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    after: list[tuple[str, CType, float, float]] = field(default_factory=list)
    """Further variables that are read behind the loops, with their ranges."""
    indices: list[Index] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    """Constants of the scope, such as temporaries."""
    trips: int = 1
    """How often a statement runs here at most."""
    depth: int = 1
    names: int = 0

    # --- text

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """What stands in braces, with what is declared there."""
        self.emit(head)
        self.depth += 1
        indices, values, trips = len(self.indices), len(self.values), self.trips
        yield
        del self.indices[indices:], self.values[values:]
        self.trips = trips
        self.depth -= 1
        self.emit(tail)

    # --- numbers

    @property
    def largest(self) -> dict[str, int]:
        return {size.name: max(size.values) for size in self.sizes}

    def value_of(self, index: Index) -> Value:
        return Value(index.text, index.type, index.low.least(self.largest), index.high.most(self.largest))

    def index(self, plain: bool = False) -> Index:
        """A subscript: a loop variable, or something made of one."""
        c = self.c
        one = c.pick(self.indices[::-1]) if self.indices else self.constant_index()
        if plain or c.often(3, 5):
            return one
        match c.below(8):
            case 0:
                more = 1 + c.below(3)
                return Index(f"{one.text} + {more}", one.low + more, one.high + more, one.type)
            case 1 if one.low.constant > 0 and (one.low - 1).never_negative:
                return Index(f"{one.text} - 1", one.low - 1, one.high - 1, one.type)
            case 2:
                more = c.below(2)
                text = f"2 * {one.text}" + (f" + {more}" if more else "")
                return Index(text, one.low * 2 + more, one.high * 2 + more, one.type)
            case 3 if one.plain and (one.high - one.low).terms:
                return Index(f"{one.high.text()} - {one.text}", Poly.of(0), one.high - one.low, one.type)
            case 4:
                return Index(f"{one.text} / 2", Poly.of(0), one.high.join(Poly.of(0)), one.type)
            case 5:
                return Index(f"{one.text} % 3", Poly.of(0), Poly.of(2), one.type)
            case 6 if len(self.indices) > 1:
                other = c.pick(self.indices)
                return Index(f"{one.text} + {other.text}", one.low + other.low, one.high + other.high, one.type)
            case 7 if one.plain and one.low.constant >= 0 and (one.high + 1).never_negative and (one.high + 1).terms:
                end = one.high + 1
                return Index(f"({one.text} + 1) % {end.factor()}", Poly.of(0), one.high, one.type)
            case _:
                return self.constant_index()

    def constant_index(self) -> Index:
        number = self.c.below(3)
        return Index(str(number), Poly.of(number), Poly.of(number), INT)

    # --- arrays

    def array(
        self,
        kind: str = "any",
        rank: int | None = None,
        *,
        new: bool = False,
        sums: bool = False,
        types: Sequence[CType] = (),
    ) -> Array:
        """One that is there, or a new one. `kind`: `any`, `int`, `float`, `index` or `word` (unsigned); `sums`: to
        which something may be added."""
        c = self.c
        fits = [
            a for a in self.arrays
            if not a.members and not a.local and (a.content is not None) == (kind == "index")
            and (rank is None or len(a.dims) == rank) and (not types or a.type in types)
            and (kind in ("any", "index") or (kind == "float") == (a.type.kind == "f"))
            and (kind != "word" or a.type.kind == "u") and (not sums or self.bounded(a.type) <= a.left)
        ]  # fmt: skip
        if fits and not new and (len(self.arrays) > 5 or c.often(2, 3)):
            return c.pick(fits)
        rank = rank or (2 if c.chance(1, 3) else 1)
        if types:
            ctype = c.pick(types)
        elif kind == "float":
            ctype = c.pick(FLOATS)
        elif kind == "index":
            ctype = c.pick((INT, INT, LONG, SHORT, UNSIGNED, WORD))
        elif kind == "word":
            ctype = c.pick((UNSIGNED, UINT32, SIZE, BYTE, WORD))
        elif kind == "int":
            ctype = c.pick((INT, LONG, SHORT, CHAR, BYTE, UNSIGNED, WORD, INT64))
        else:
            ctype = c.pick((FLOAT, DOUBLE, INT, FLOAT, INT, UNSIGNED, BYTE, SHORT, LONG))
        name = "abcdpqrstuvwxyz"[len(self.arrays)] if len(self.arrays) < 15 else self.fresh("z")
        fill, limit, left = self.ranges(ctype, sums)
        style = c.pick(("rows", "flat", "rows", "pointers")) if rank == 2 else "rows"
        array = Array(name, ctype, [Poly() for _ in range(rank)], fill, limit, style, left=left)
        if kind == "index":
            array.content = c.pick(self.bounds) + (1 + c.below(8))
            array.fill = array.limit = (0, array.content.most(self.largest) - 1)
            array.left = 0
        self.arrays.append(array)
        return array

    def bounded(self, ctype: CType) -> bool:
        """Whether sums of this type have to stay in a range."""
        return self.exact if ctype.kind == "f" else ctype.kind == "i" and ctype.bits >= 32

    def ranges(self, ctype: CType, sums: bool) -> tuple[tuple[float, float], tuple[float, float], float]:
        """Values before, values at any time, and how much may be added, of a variable of this type."""
        whole = (ctype.low, ctype.high)
        if not self.bounded(ctype):
            return whole, whole, 0
        if ctype.kind == "f":
            most = self.c.pick((9, 64, 2))
            if not sums:
                return (-most, most), (-most, most), 0
            return (-most, most), (-ctype.exact, ctype.exact), ctype.exact - most
        most = self.c.pick((99, 9, 30000, ctype.high if not sums else 99))
        if most == ctype.high:
            return whole, whole, 0
        if not sums:
            return (-most, most), (-most, most), 0
        return (-most, most), (ctype.low // 2, ctype.high // 2), ctype.high // 2 - most

    def subscript(self, array: Array, dim: int, index: Index) -> str:
        assert index.low.never_negative, index
        array.dims[dim] = array.dims[dim].join(index.high + 1)
        return index.text

    def element(self, array: Array, indices: Sequence[Index] | None = None) -> str:
        """An element's text; `indices` that are not given are chosen."""
        if indices is None:
            indices = [self.index() for _ in array.dims]
        texts = [self.subscript(array, number, index) for number, index in enumerate(indices)]
        if len(texts) == 2 and array.style == "flat":
            first = f"({texts[0]})" if " " in texts[0] else texts[0]
            return f"{array.name}[{first} * <{array.name}> + {texts[1]}]"
        return array.name + "".join(f"[{text}]" for text in texts)

    def read(self, array: Array, indices: Sequence[Index] | None = None) -> Value:
        return Value(self.element(array, indices), array.type, *array.limit)

    # --- expressions

    def leaf(self, kind: str = "any") -> Value:
        c = self.c
        match c.below(8):
            case 4 if self.values:
                return c.pick(self.values[::-1])
            case 5 if self.indices and kind != "float":
                return self.value_of(c.pick(self.indices[::-1]))
            case 6:
                ctype = c.pick(FLOATS if kind == "float" else (INT, UNSIGNED, LONG) if kind == "int" else (INT, FLOAT))
                return literal(c.pick((2, 1, 3, 7, 0, 13)), ctype)
            case _:
                return self.read(self.array(kind))

    def expression(self, depth: int = 2, kind: str = "any") -> Value:
        c = self.c
        if depth == 0 or c.often(1, 4):
            return self.leaf(kind)
        match c.below(12):
            case 9:
                condition = self.condition()
                return chosen(condition, self.expression(depth - 1, kind), self.leaf(kind))
            case 10:
                done = cast(
                    self.expression(depth - 1, kind),
                    c.pick((DOUBLE, FLOAT) if kind == "float" else (LONG, SHORT, UNSIGNED, BYTE, FLOAT, CHAR)),
                )
                return (
                    self.leaf(kind)
                    if done is None or (self.exact and done.type.kind == "f" and not done.known)
                    else done
                )
            case 11:
                value = self.expression(depth - 1, kind)
                return self.operated("-", literal(0, value.type), value)
            case number:
                a, b = self.expression(depth - 1, kind), self.expression(depth - 1, kind)
                integers = ("+", "-", "*", "%", ">>", "^", "&", "<", "/")
                operators = (
                    integers if "f" not in (a.type.kind, b.type.kind) else ("+", "-", "*", "+", "*", "-", "<", "-", "/")
                )
                return self.operated(operators[number], a, b)

    def operated(self, operator: str, a: Value, b: Value) -> Value:
        """An operation on the values, which are brought into a range for which it is defined."""
        if "f" in (a.type.kind, b.type.kind):
            if operator == "/" and self.exact:
                operator = "-"
            done = binary(operator, a, b)
            if done is not None and (not self.exact or done.known):
                return done
            done = binary(operator, self.fit(a, -9, 9), self.fit(b, -9, 9))
            return self.fit(a, -9, 9) if done is None or (self.exact and not done.known) else done
        if operator in ("/", "%"):
            b = literal(self.c.pick((3, 2, 7, 16, 10)), self.c.pick((INT, UNSIGNED)))
        if operator in ("<<", ">>"):
            b = literal(self.c.pick((1, 3, 7)))
        done = binary(operator, a, b)
        if done is None:
            done = binary(operator, self.fit(a, -99, 99), self.fit(b, -99, 99))
        return a if done is None else done

    def condition(self) -> str:
        """A condition on data or, at times, on loop variables."""
        c = self.c
        if self.indices and c.chance(1, 4):
            one = self.value_of(self.c.pick(self.indices[::-1]))
            return c.pick((f"{one.text} % 2 == 0", f"{one.text} > 2", f"{one.text} != 1"))
        a = self.leaf()
        b = literal(0) if c.often(1, 2) else self.leaf()
        return f"{a.text} {c.pick(('>', '<', '!=', '>=', '=='))} {b.text}"

    def bind(self, value: Value) -> Value:
        """A name for a value, declared here."""
        if re.fullmatch(r"\w+", value.text):
            return value
        name = self.fresh("t")
        self.emit(f"{self.c.pick(('', 'const '))}{value.type.name} {name} = {_bare(value.text)};")
        return Value(name, value.type, value.low, value.high)

    def fit(self, value: Value, low: float, high: float) -> Value:
        """The value where it is in a range, which holds zero, and something of the range elsewhere; of a floating value
        that may be anything an integer."""
        if value.within(low, high):
            return value
        if value.type.kind == "f" and not value.known:
            name = self.bind(value).text
            ends = [min(abs(x), 1 << 24) for x in (low, high)]
            return Value(
                f"({name} > {-ends[0]:.0f} && {name} < {ends[1]:.0f} ? (int){name} : 0)", INT, -ends[0], ends[1]
            )
        if value.type.kind != "f" and self.c.often(2, 3):
            most = min(high, -low) if value.low < 0 and low < 0 else high
            if (value.low >= 0 or low < 0) and most >= 1 and self.c.often(1, 2):
                done = binary(
                    "%", value, literal(int(min(most, 1 << 30)) + 1, UNSIGNED if value.type.kind == "u" else INT)
                )
            else:
                done = binary("&", value, literal((1 << (int(min(high, 1 << 30)) + 1).bit_length() - 1) - 1))
            if done is not None and done.within(low, high):
                return done
        name = self.bind(value).text
        top, bottom = (
            literal(int(end), value.type) for end in (high, max(low, value.type.low) if value.low < low else 0)
        )
        text = f"{name} > {top.text} ? {top.text} : "
        text += f"{name} < {bottom.text} ? {bottom.text} : {name}" if value.low < low else name
        # The clamped value has the type of both arms.
        return Value(f"({text})", promoted(value.type), max(low, value.low), high)

    # --- stores

    def stored(self, value: Value, ctype: CType, low: float, high: float) -> str:
        """The text of the value as it is stored to a variable that holds what is between both."""
        if ctype.kind == "f" and not self.exact:
            return _bare(value.text)
        if ctype.kind != "f" and value.type.kind == "f":
            return _bare(self.fit(value, max(low, -(1 << 24), ctype.low), min(high, 1 << 24)).text)
        after = converted(value, ctype)
        if after is not None and after.within(low, high):
            return _bare(value.text)
        return _bare(self.fit(value, low, high).text)

    def store(self, array: Array, indices: Sequence[Index] | None = None, value: Value | None = None) -> str:
        """Store an expression to an element, which is returned."""
        text = self.stored(value or self.expression(), array.type, *array.fill)
        target = self.element(array, indices)
        self.emit(f"{target} = {text};")
        return target

    def add(self, target: str, to: Array | Scalar, value: Value, operator: str = "+=") -> bool:
        """Add to an element or a scalar, as far as the sum is known to stay in its range; whether it was done."""
        if not self.bounded(to.type):
            if to.type.kind != "f" and value.type.kind == "f":
                value = self.fit(value, 0, 100)
                value = cast(value, INT) or value
            elif (
                to.type.kind != "f" and value.type.kind == "i" and (value.type.bits > to.type.bits or to.type.bits < 32)
            ):
                value = self.fit(value, -(1 << 20), 1 << 20)
            self.emit(f"{target} {operator} {_bare(value.text)};")
            return True
        each = to.left // (2 * self.trips)
        if each < 2:
            return False
        value = self.fit(value, -each, each)
        if to.type.kind != "f" and value.type.kind == "u" and value.type.bits >= to.type.bits:
            value = cast(value, to.type) or value
        to.left -= self.trips * max(abs(value.low), abs(value.high))
        self.emit(f"{target} {operator} {_bare(value.text)};")
        return True

    def scalar(self, types: Sequence[CType], start: int = 0) -> Scalar:
        """A new variable in front of the loops, read behind them."""
        ctype = self.c.pick(types)
        fill, limit, left = self.ranges(ctype, sums=True)
        one = Scalar(self.fresh("s"), ctype, fill, limit, left)
        self.before.append(f"{ctype.name} {one.name} = {start};")
        self.scalars.append(one)
        return one


def _bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]
