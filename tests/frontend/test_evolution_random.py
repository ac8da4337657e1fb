"""Loops whose integers change at random: the elements that the model says are written, in its order, are those that a
plain execution writes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import islpy as isl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import Scop

NAMES = ("k", "l", "m")
Lines = list[tuple[str, str]]
"""Lines of C, and of Python that does the same."""


def _indented(lines: Lines) -> Lines:
    return [(f"    {c}", f"    {python}") for c, python in lines]


small = st.integers(-3, 3)
name = st.sampled_from(NAMES)
value = st.one_of(
    st.builds("{} + ({})".format, st.sampled_from((*NAMES, "i")), small),
    st.builds("({} + 90) % 3".format, st.sampled_from((*NAMES, "i"))),
    small.map(str),
)
step = st.builds(lambda n, by: [(f"{n} += {by};", f"{n} += {by}")], name, small)
given_value = st.builds(lambda n, v: [(f"{n} = {v};", f"{n} = {v}")], name, value)
store = st.builds(
    lambda n, by: [(f"a[500 + {n} + ({by} * i)] = 1;", f"written.append(500 + {n} + ({by} * i))")], name, small
)


def _choice(limit: int, then: Lines, otherwise: Lines) -> Lines:
    return [
        (f"if (i > {limit}) {{", f"if i > {limit}:"), *_indented(then), ("} else {", "else:"), *_indented(otherwise),
        ("}", "pass"),
    ]  # fmt: skip


def _inner(count: int, body: Lines) -> Lines:
    head = (f"for (int j = 0; j < {count}; j++) {{", f"for j in range({count}):")
    return [head, *_indented(body), ("}", "pass")]


simple = st.lists(st.one_of(step, given_value, store), min_size=1, max_size=3).map(
    lambda parts: [line for part in parts for line in part]
)
statement = st.one_of(
    step, step, given_value, store, store, st.builds(_choice, st.integers(0, 4), step, step),
    st.builds(_inner, st.integers(0, 3), simple),
)  # fmt: skip
body = st.lists(statement, min_size=1, max_size=5).map(lambda parts: [line for part in parts for line in part])


def _loop(kind: int, first: int, count: int, by: int, lines: Lines) -> Lines:
    last = first + count * by
    op = "<" if by > 0 else ">"
    python: Lines = [(f"i = {first};", f"i = {first}")]
    if kind == 0:
        head = (f"for (i = {first}; i {op} {last}; i += {by}) {{", f"while i {op} {last}:")
        return [*python, head, *_indented([*lines, ("", f"i += {by}")]), ("}", "pass")]
    if kind == 1:  # steps in the middle of the body
        half = len(lines) // 2
        several = [*lines[:half], (f"i += {by};", f"i += {by}"), *lines[half:]]
        if any(c.startswith(("}", "    ")) for c, _ in lines):
            several = [(f"i += {by};", f"i += {by}"), *lines]
        return [*python, (f"while (i {op} {last}) {{", f"while i {op} {last}:"), *_indented(several), ("}", "pass")]
    whole = [*lines, (f"i += {by};", f"i += {by}")]
    end = ("", f"if not i {op} {last}: break")
    return [*python, ("do {", "while True:"), *_indented([*whole, end]), (f"}} while (i {op} {last});", "pass")]


programs = st.builds(
    _loop, st.integers(0, 2), small, st.integers(0, 5), st.sampled_from((1, 2, 3, -1, -2)), body
)  # fmt: skip


def _points(found: Scop) -> Iterator[tuple[tuple[int, ...], int]]:
    """When and where something is written, of each instance."""
    for statement in found.statements:
        (access,) = (one for one in statement.accesses if one.write)
        flat = found.arrays[access.array].layout.accessed(access.relation)
        points: list[isl.Point] = []
        statement.domain.foreach_point(points.append)
        for point in points:
            element = flat.intersect_domain(isl.Set.from_point(point)).range().sample_point()
            found_at = [_number(point, n) for n in range(len(statement.iterators))]
            time = [
                part
                for name, at, where in zip(statement.iterators, found_at, statement.position, strict=False)
                for part in (where, -at if name in statement.descending else at)
            ]
            yield (*time, statement.position[-1]), _number(element, 0)


def _number(point: isl.Point, place: int) -> int:
    return int(point.get_coordinate_val(isl.dim_type.set, place).to_python())


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_what_is_written_is_what_an_execution_writes(lines: Lines) -> None:
    starts = [(f"int {n} = {at};", f"{n} = {at}") for at, n in enumerate(NAMES)]
    text = "\n".join(c for c, _ in [*starts, *lines])
    state: dict[str, list[int]] = {"written": []}
    exec("\n".join(python for _, python in [*starts, *lines]), state)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loop.c"
        path.write_text(f"void f(double a[1000])\n{{\nint i;\n#pragma scop\n{text}\na[999] = 0;\n#pragma endscop\n}}\n")
        try:
            (found,) = load(path).scops
        except InputErrors:
            return  # what is not followed may be refused
    if found.arrays.keys() != {"a"}:
        return  # or be data
    assert [where for _, where in sorted(_points(found))] == [*state["written"], 999], text
