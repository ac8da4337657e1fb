"""Dependences, parallel loops and direction vectors of random programs against enumeration."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import islpy as isl
from hypothesis import given, settings

from polydl.dependences.analysis import Dependence, Kind, dependences
from polydl.dependences.legality import sign_vectors, violation
from polydl.dependences.scalars import private_scalars
from polydl.frontend import load
from polydl.inspect.analyses import parallel_loops
from polydl.model.scop import Scop
from polydl.model.time import common_depth, original_schedule
from tests import oracle
from tests.oracle import Limits, Program, interpret, programs, render


def loaded(program: Program, folder: Path) -> Scop | None:
    path = folder / "p.c"
    path.write_text(render(program))
    scops = load(path, sizes=dict(program.parameters)).scops
    return scops[0] if scops else None


def points(relation: isl.Map) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    sources = relation.dim(isl.dim_type.in_)

    def collect(point: isl.Point) -> None:
        total = point.get_space().dim(isl.dim_type.set)
        values = tuple(int(point.get_coordinate_val(isl.dim_type.set, d).to_python()) for d in range(total))
        found.append((values[:sources], values[sources:]))

    relation.wrap().flatten().foreach_point(collect)
    return iter(found)


def pairs(found: tuple[Dependence, ...], scop: Scop) -> set[tuple[object, ...]]:
    result: set[tuple[object, ...]] = set()
    number = {s.name: i for i, s in enumerate(scop.statements)}
    for d in found:
        for source, target in points(d.relation):
            result.add((d.kind.value, d.array, number[d.source], number[d.target], d.depth, source, target))
    return result


@settings(max_examples=60, deadline=None)
@given(programs(Limits(max_instances=60)))
def test_same_pairs(program: Program) -> None:
    same_pairs(program)


def same_pairs(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scop = loaded(program, Path(folder))
    if scop is None:
        return
    trace = interpret(program)
    private = private_scalars(scop)
    found = tuple(d for d in dependences(scop) if d.array not in private)
    expected = {
        (p.kind, p.array, p.source[0], p.target[0], p.depth, p.source_iterators, p.target_iterators)
        for p in oracle.dependences(trace)
        if p.array not in private
    }
    assert pairs(found, scop) == expected, render(program)
    assert violation(found, original_schedule(scop)) is None
    for d in found:
        _check_signs(d, scop)


def _check_signs(dependence: Dependence, scop: Scop) -> None:
    source, target = scop.statement(dependence.source), scop.statement(dependence.target)
    shared = common_depth(source, target)
    descending = [i in source.descending for i in source.iterators[:shared]]
    found = sign_vectors(dependence.relation, range(shared), descending)
    expected = set()
    for a, b in points(dependence.relation):
        steps = [(y - x) * (-1 if down else 1) for x, y, down in zip(a, b, descending, strict=False)]
        expected.add(tuple((s > 0) - (s < 0) for s in steps))
    assert found == expected


def test_parallel_loops_of_matmul(tmp_path: Path) -> None:
    path = tmp_path / "m.c"
    path.write_text(
        "void f(float A[restrict 4][5], float B[restrict 5][6], float C[restrict 4][6]) {\n"
        "  for (int i = 0; i < 4; i++) for (int j = 0; j < 6; j++) for (int k = 0; k < 5; k++)\n"
        "    C[i][j] += A[i][k] * B[k][j];\n}\n"
    )
    scop = load(path).scops[0]
    found = dependences(scop)
    assert parallel_loops(scop, found) == ("i", "j")
    assert {(d.kind, d.array, d.carried_by) for d in found} == {
        (Kind.RAR, "A", "j"), (Kind.RAR, "B", "i"), (Kind.RAR, "C", "k"),
        (Kind.RAW, "C", "k"), (Kind.WAR, "C", "k"), (Kind.WAW, "C", "k"),
    }  # fmt: skip
    assert all(d.reduction for d in found if d.array == "C" and d.kind is not Kind.RAR)
