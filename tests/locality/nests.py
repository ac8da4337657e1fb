"""Random loop nests with a brute-force analysis, for comparison with the real ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import islpy as isl
from hypothesis import strategies as st

from polydl.model.nest import TimedAccess, TimedNest

Time = tuple[int, ...]


@dataclass(frozen=True)
class PlainAccess:
    """`array[rows · time + offset]`, at the times at which every loop in `only_first` stands at 0."""

    statement: str
    array: str
    write: bool
    rows: tuple[tuple[int, ...], ...]
    """One a dimension: coefficient of each loop, then the constant."""
    only_first: tuple[int, ...] = ()

    def touches(self, time: Time) -> tuple[int, ...] | None:
        if any(time[i] for i in self.only_first):
            return None
        return tuple(sum(c * t for c, t in zip(row, time, strict=False)) + row[-1] for row in self.rows)


@dataclass(frozen=True)
class PlainNest:
    """A nest as Python data. Conditions are rows (coefficients, constant) that must be >= 0."""

    extents: tuple[int, ...]
    conditions: tuple[tuple[int, ...], ...]
    accesses: tuple[PlainAccess, ...]
    parallel: frozenset[int] = frozenset()

    @property
    def times(self) -> list[Time]:
        return [
            t
            for t in itertools.product(*(range(e) for e in self.extents))
            if all(sum(c * v for c, v in zip(row, t, strict=False)) + row[-1] >= 0 for row in self.conditions)
        ]

    def timed(self) -> TimedNest:
        names = [f"t{i}" for i in range(len(self.extents))]

        def affine(row: tuple[int, ...]) -> str:
            return " + ".join([*(f"{c}*{n}" for c, n in zip(row, names, strict=False)), str(row[-1])])

        bounds = [f"0 <= {n} < {e}" for n, e in zip(names, self.extents, strict=True)]
        bounds += [f"{affine(row)} >= 0" for row in self.conditions]
        time = f"[{', '.join(names)}]"
        accesses = []
        for access in self.accesses:
            only = " and ".join(f"{names[i]} = 0" for i in access.only_first)
            target = f"{access.array}[{', '.join(affine(row) for row in access.rows)}]"
            relation = isl.Map(f"{{ {time} -> {target} {': ' + only if only else ''} }}")
            accesses.append(TimedAccess(access.statement, access.array, access.write, relation))
        arrays = dict.fromkeys(access.array for access in self.accesses)
        return TimedNest(
            tuple(names),
            isl.Set(f"{{ {time} : {' and '.join(bounds)} }}"),
            tuple(accesses),
            {array: 4 + 4 * i for i, array in enumerate(arrays)},
            frozenset(names[i] for i in self.parallel),
        )


def brute_force(nest: PlainNest) -> list[tuple[str, str, str, str, str, dict[str, int], dict[str, int]]]:
    """Algorithm 1 by enumeration: kind, array, statements, loop, elements per array of least and greatest set."""
    times = sorted(nest.times)
    found = []
    for source in nest.accesses:
        for target in nest.accesses:
            if source.array != target.array:
                continue
            pairs = [
                (s, t)
                for s in times
                for t in times
                if s < t and source.touches(s) is not None and source.touches(s) == target.touches(t)
            ]
            for loop in range(len(nest.extents)):
                carried = [(s, t) for s, t in pairs if s[:loop] == t[:loop] and s[loop] != t[loop]]
                if not carried:
                    continue
                first = min(carried)[0]
                targets = sorted(t for s, t in carried if s == first)
                spanned = [p for p in sorted(nest.parallel) if any(s[p] != t[p] for s, t in carried)]
                if spanned:
                    window = [t for t in times if t[: spanned[0]] == first[: spanned[0]]]
                    low = high = _touched(nest, window)
                else:
                    low = _touched(nest, [t for t in times if first <= t <= targets[0]])
                    high = _touched(nest, [t for t in times if first <= t <= targets[-1]])
                kind = ("W" if target.write else "R") + "A" + ("W" if source.write else "R")
                found.append((kind, source.array, source.statement, target.statement, f"t{loop}", low, high))
    return found


def _touched(nest: PlainNest, times: list[Time]) -> dict[str, int]:
    elements: dict[str, set[tuple[int, ...]]] = {}
    for time in times:
        for access in nest.accesses:
            element = access.touches(time)
            if element is not None:
                elements.setdefault(access.array, set()).add(element)
    return {array: len(found) for array, found in elements.items()}


@st.composite
def plain_nests(draw: st.DrawFn, parallel: bool = False) -> PlainNest:
    """Depth <= 4, tiny extents; tiles with partial ends, triangles, strides, windows, several statements."""
    depth = draw(st.integers(1, 4))
    most = {1: 7, 2: 5, 3: 4, 4: 3}[depth]
    extents = tuple(draw(st.integers(1, most)) for _ in range(depth))
    conditions = []
    if depth > 1 and draw(st.booleans()):
        # a triangle or a partial tile: a*t_i + b*t_j <= c
        i, j = draw(st.permutations(range(depth)))[:2]
        row = [0] * (depth + 1)
        row[i], row[j] = -draw(st.integers(1, 3)), -draw(st.integers(-2, 3))
        row[-1] = draw(st.integers(0, 8))
        conditions.append(tuple(row))
    accesses = []
    arrays = {"A": draw(st.integers(0, 2)), "B": draw(st.integers(1, 2))}
    for number in range(draw(st.integers(1, 2))):
        only_first = tuple(sorted(draw(st.sets(st.integers(0, depth - 1), max_size=1)))) if number else ()
        for _ in range(draw(st.integers(1, 3))):
            array = draw(st.sampled_from(sorted(arrays)))
            rows = tuple(
                (*(draw(st.sampled_from([0, 0, 1, 1, 2, -1, 3])) for _ in range(depth)), draw(st.integers(-1, 1)))
                for _ in range(arrays[array])
            )
            accesses.append(PlainAccess(f"S{number}", array, draw(st.booleans()), rows, only_first))
    chosen = draw(st.sets(st.integers(0, depth - 1), min_size=1)) if parallel else set()
    return PlainNest(extents, tuple(conditions), tuple(accesses), frozenset(chosen))
