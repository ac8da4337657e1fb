"""Random affine programs: what is extracted, enumerated in schedule order, is what brute force executes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import islpy as isl
import pytest
from hypothesis import given, reject, settings

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import Access, Array, Scop
from tests.oracle import Limits, Program, interpret, programs, render

Element = tuple[str, int]
"""Array and linear index."""


def fixed(of: isl.Set, values: dict[str, int]) -> isl.Set:
    """A set at parameter values."""
    for name, value in values.items():
        at = of.find_dim_by_name(isl.dim_type.param, name)
        if at >= 0:
            of = of.fix_val(isl.dim_type.param, at, isl.Val(value)).project_out(isl.dim_type.param, at, 1)
    return of


def coordinates(of: isl.Set) -> list[tuple[int, ...]]:
    """Every point of a parameter-free set."""
    found: list[tuple[int, ...]] = []
    count = of.dim(isl.dim_type.set)
    of.foreach_point(
        lambda p: found.append(tuple(p.get_coordinate_val(isl.dim_type.set, at).to_python() for at in range(count)))
    )
    return found


def size(extent: isl.PwAff | None, values: dict[str, int]) -> int:
    """An extent at parameter values; 0 for the unknown outermost one, whose stride never needs it."""
    if extent is None:
        return 0
    image = fixed(isl.Map.from_pw_aff(extent).range(), values)
    ((value,),) = coordinates(image)
    return value


def element(access: Access, iterators: tuple[int, ...], array: Array, values: dict[str, int]) -> list[Element]:
    """What an access touches at an iteration, as linear indices."""
    relation = access.relation
    for at, value in enumerate(iterators):
        relation = relation.fix_val(isl.dim_type.in_, at, isl.Val(value))
    sizes = [size(extent, values) for extent in array.extents]
    found: list[Element] = []
    for index in coordinates(fixed(relation.range(), values)):
        linear = 0
        for subscript, extent in zip(index, sizes, strict=True):
            linear = linear * extent + subscript
        found.append((access.array, linear))
    return found


def executed(scop: Scop, values: dict[str, int]) -> list[tuple[int, tuple[int, ...], list[Element], list[Element]]]:
    """(statement, iterators, sorted reads, writes) in the order of the 2d+1 schedule."""
    timed = []
    for number, statement in enumerate(scop.statements):
        for point in coordinates(fixed(statement.domain, values)):
            time: list[int] = []
            for at, value in enumerate(point):
                sign = -1 if statement.iterators[at] in statement.descending else 1
                time += [statement.position[at], sign * value]
            time.append(statement.position[-1])
            reads: list[Element] = []
            writes: list[Element] = []
            for access in statement.accesses:
                into = writes if access.write else reads
                into += element(access, point, scop.arrays[access.array], values)
            timed.append((tuple(time), number, point, sorted(reads), writes))
    return [entry[1:] for entry in sorted(timed)]


def _accepted_sizes(path: Path, values: dict[str, int]) -> dict[str, int]:
    """The sizes that the program's shape depends on: the others are refused by name."""
    try:
        load(path, sizes=values)
    except InputErrors as error:
        refused = error
    else:
        return values
    unknown = {error.reason.split("'")[1] for error in refused.errors if "is not an integer param" in error.reason}
    assert unknown, refused.render()
    return {name: value for name, value in values.items() if name not in unknown}


def _symbolic(path: Path) -> Scop:
    """The scop without sizes. Run with other parameter values, the program may leave its arrays: such are rejected."""
    try:
        (scop,) = load(path, require_sizes=False).scops
    except InputErrors as error:
        refused = error
    else:
        return scop
    assert all("leaves its bounds" in error.reason for error in refused.errors), refused.render()
    return reject()


def check(program: Program, symbolic: bool) -> None:
    def linear(given: tuple[str, tuple[int, ...]]) -> Element:
        name, index = given
        total = 0
        for subscript, extent in zip(index, program.arrays[name].extents, strict=True):
            total = total * extent + subscript
        return name, total

    values = dict(program.parameters)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.c"
        path.write_text(render(program))
        if symbolic:
            scop = _symbolic(path)
        else:
            (scop,) = load(path, sizes=_accepted_sizes(path, values)).scops
    expected = [
        (i.statement, i.iterators, sorted(linear(r) for r in i.reads), [linear(i.write)])
        for i in interpret(program).instances
    ]
    # a parameter that only values depend on is data here, and no element in the oracle
    data = {name for name in values if name in scop.arrays}
    found = [
        (number, point, [read for read in reads if read[0] not in data], writes)
        for number, point, reads, writes in executed(scop, values)
    ]
    assert found == expected, render(program)


LIMITS = Limits(max_depth=3, max_statements=4, max_instances=60)


@pytest.mark.parametrize("symbolic", [False, True])
@settings(max_examples=60)
@given(program=programs(LIMITS))
def test_random_programs(program: Program, symbolic: bool) -> None:
    check(program, symbolic)


@settings(max_examples=60)
@given(program=programs(Limits(max_depth=3, max_statements=3, max_instances=60, linear=True)))
def test_random_programs_on_linear_arrays(program: Program) -> None:
    check(program, symbolic=False)
