"""Random pairs of nests around an array C, as C text and as something that can be enumerated. Shares no code with
polydl."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Element = tuple[str, tuple[int, ...]]
Floats = NDArray[np.float32]
SHAPES = {"C": (9, 9), "D": (9, 9), "A": (6, 4), "B": (4, 6), "bias": (9,)}

ROW = ("i", "i", "i", "i", "j", "i + 1", "i + j", "2 * i", "0")
COLUMN = ("j", "j", "j", "j", "i", "j + 1", "0", "1 - i % 2")


@dataclass(frozen=True)
class Place:
    """A subscripted array."""

    array: str
    subscripts: tuple[str, ...]

    def text(self) -> str:
        return self.array + "".join(f"[{s}]" for s in self.subscripts)

    def at(self, values: dict[str, int]) -> Element:
        return self.array, tuple(int(eval(s, {}, dict(values))) for s in self.subscripts)


@dataclass(frozen=True)
class Nest:
    """Rectangular loops around one statement `target op a * b + c` or `target op value`."""

    loops: tuple[tuple[str, int], ...]
    target: Place
    op: str
    reads: tuple[Place, ...]
    form: str
    """Right-hand side with {0}, {1}, … for the reads."""

    def text(self, indent: str = "  ") -> str:
        heads = [f"for (int {v} = 0; {v} < {n}; {v}++)" for v, n in self.loops]
        right = self.form.format(*(r.text() for r in self.reads))
        return indent + " ".join(heads) + f" {self.target.text()} {self.op} {right};"

    def iterations(self) -> Iterator[dict[str, int]]:
        names = [v for v, _ in self.loops]
        for values in itertools.product(*(range(n) for _, n in self.loops)):
            yield dict(zip(names, values, strict=True))

    def touched(self, values: dict[str, int]) -> list[tuple[Element, bool]]:
        """(element, written)"""
        found = [(r.at(values), False) for r in self.reads] + [(self.target.at(values), True)]
        return found + ([(self.target.at(values), False)] if self.op != "=" else [])

    def run(self, memory: dict[str, Floats]) -> None:
        for values in self.iterations():
            loaded = [memory[a][e] for a, e in (r.at(values) for r in self.reads)]
            names = {f"x{k}": v for k, v in enumerate(loaded)}
            value = np.float32(eval(self.form.format(*names), {}, {**names, **values}))
            array, element = self.target.at(values)
            old = memory[array][element]
            memory[array][element] = {"=": value, "+=": old + value, "-=": old - value, "*=": old * value}[self.op]


@dataclass(frozen=True)
class Pair:
    """A heavy nest, maybe something, and a nest that may be element-wise; or the other way round."""

    name: str
    nests: tuple[Nest, ...]
    heavy: int
    light: int

    def text(self) -> str:
        shapes = "".join(
            f", float {n}[restrict {'][restrict '.join(map(str, s[:1]))}]" + "".join(f"[{e}]" for e in s[1:])
            for n, s in SHAPES.items()
        )
        body = "\n".join(nest.text() for nest in self.nests)
        return f"void {self.name}({shapes[2:]})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"

    def expected(self, memory: dict[str, Floats]) -> dict[str, Floats]:
        result = {name: values.copy() for name, values in memory.items()}
        for nest in self.nests:
            nest.run(result)
        return result

    def fusable(self) -> bool:
        """The conditions of algorithm 3, by enumeration."""
        heavy, light = self.nests[self.heavy], self.nests[self.light]
        low, high = sorted((self.heavy, self.light))
        between = self.nests[low + 1 : high]
        elements = {heavy.target.at(v) for v in heavy.iterations()}
        own: list[Element] = []
        targets: list[Element] = []
        mine: list[tuple[Element, bool]] = []
        for values in light.iterations():
            touched = light.touched(values)
            mine += touched
            about = {e for e, _ in touched if e[0] == "C"}
            if len(about) != 1:
                return False
            own.append(about.pop())
            targets.append(light.target.at(values))
        if set(own) != elements or len(set(own)) != len(own) or len(set(targets)) != len(targets):
            return False
        written = {e for e, w in mine if w}
        read = {e for e, w in mine if not w}
        for other in between:
            for values in other.iterations():
                for element, writes in other.touched(values):
                    if element in elements or element in written or (writes and element in read):
                        return False
        if light.target.array != "C":
            if self.light < self.heavy:
                return False
            if any(e in written for v in heavy.iterations() for e, _ in heavy.touched(v)):
                return False
        return True


def pair(seed: int) -> Pair:
    """The pair of a number: half of them fusable or nearly so."""
    draw = random.Random(seed)
    n, m, k = draw.choice((3, 4)), draw.choice((3, 4)), draw.choice((1, 2, 3))

    def place(likely: bool) -> Place:
        if likely and draw.random() < 0.8:
            return Place("C", ("i", "j"))
        return Place("C", (draw.choice(ROW), draw.choice(COLUMN)))

    order = [("i", n), ("j", m), ("k", k + 1)]
    draw.shuffle(order)
    written = place(True)
    heavy = Nest(tuple(order), written, "+=", (Place("A", ("i", "k")), Place("B", ("k", "j"))), "{0} * {1}")
    first = draw.random() < 0.3
    # The same place, written over the same ranges or nearly so.
    target = written if draw.random() < 0.75 else place(False)
    ranges = [("i", n), ("j", m)] if draw.random() < 0.8 else [("i", draw.choice((2, 3, 4))), ("j", m)]
    if draw.random() < 0.15:
        ranges.append(("l", 2))
    draw.shuffle(ranges)
    source = target if draw.random() < 0.85 else place(False)
    kind = draw.choice(("scale", "bias", "clip", "set", "out", "add"))
    bias = Place("bias", (draw.choice(("j", "i", "0")),))
    forms = {
        "scale": Nest(tuple(ranges), target, "*=", (bias,), "{0}"),
        "bias": Nest(tuple(ranges), target, "=", (source, bias), "{0} + {1}"),
        "clip": Nest(tuple(ranges), target, "=", (source, bias), "{0} + 2 * {1}"),
        "set": Nest(tuple(ranges), target, "=", (bias,), "3 - {0}"),
        "out": Nest(tuple(ranges), Place("D", ("i", "j")), "=", (source,), "{0} - 1"),
        "add": Nest(tuple(ranges), target, "+=", (Place("D", ("i", "j")),), "{0}"),
    }
    light = forms[kind]
    middle = []
    if draw.random() < 0.35:
        where = Place("D", (draw.choice(("i", "i + 5")), draw.choice(("j", "0"))))
        what = draw.choice(("D", "bias", "read", "write"))
        loops = (("i", 2), ("j", 2))
        middle = [
            {
                "D": Nest(loops, where, "=", (), "1"),
                "bias": Nest(loops, Place("bias", (draw.choice(("i", "i + 6")),)), "=", (), "2"),
                "read": Nest(loops, where, "=", (Place("C", (draw.choice(("i", "i + 7")), "j")),), "{0}"),
                "write": Nest(loops, Place("C", (draw.choice(("i", "i + 7")), "j")), "=", (), "1"),
            }[what]
        ]
    nests = (light, *middle, heavy) if first else (heavy, *middle, light)
    return Pair(f"pair_{seed}", nests, len(nests) - 1 if first else 0, 0 if first else len(nests) - 1)


def data(seed: int) -> dict[str, Floats]:
    """Small integers for every array."""
    generator = np.random.default_rng(seed)
    return {name: generator.integers(-3, 4, shape).astype(np.float32) for name, shape in SHAPES.items()}
