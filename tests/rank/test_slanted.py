"""What a microkernel leaves out at slanted edges, against counting the instances one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.options import Options
from polydl.pipeline import load
from polydl.rank.compute import kernel_cycles
from polydl.rank.plain import Work
from polydl.rank.slanted import NOTHING, left_out
from polydl.schedule.loops import apply
from polydl.schedule.transforms import Microkernel, Tile
from polydl.search.sizes.size_points import point_at

MACHINE = Options(machine="epyc-zen5").target()
PROGRAM = """
void f(float C[restrict 90][90], const float A[restrict 90][90], const float B[restrict 90][90])
{
    for (int i = 0; i < 90; i++)
        for (int j = 0; j < 90; j++)
            for (int k = 0; k < 90; k++)
                %s C[i][j] += A[i][k] * B[k][j];
}
"""


def nest_of(tmp_path: Path, bounds: str) -> tuple[Nest, Work]:
    path = tmp_path / "f.c"
    path.write_text(PROGRAM.replace("%s ", "").replace("j = 0; j < 90", bounds))
    (scop,) = load(path).scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    return nest, Work(scop, nest.statements[0])


def plain_share(inside: set[tuple[int, int]], m: int, n: int) -> float:
    """The share of the points that are in blocks of m x n which are no boxes."""
    blocks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, j in inside:
        blocks.setdefault((i // m, j // n), []).append((i, j))
    plain = 0
    for points in blocks.values():
        rows, columns = {i for i, _ in points}, {j for _, j in points}
        plain += len(points) if len(points) < len(rows) * len(columns) else 0
    return plain / len(inside)


@pytest.mark.parametrize(("m", "n"), [(6, 16), (9, 24), (1, 32), (12, 12)])
@pytest.mark.parametrize(
    ("bounds", "holds"),
    [("j = 0; j <= i", lambda i, j: j <= i), ("j = i; j < 90", lambda i, j: j >= i)],
    ids=["lower", "upper"],
)
def test_the_share_at_an_edge(tmp_path: Path, bounds: str, holds: object, m: int, n: int) -> None:
    nest, work = nest_of(tmp_path, bounds)
    rows = None if m == 1 else "i"
    structure = apply(nest, [Tile("k", (30,)), Microkernel(rows, "j", m, n, ("k.1",))])
    found = left_out(structure, work, MACHINE)
    inside = {(i, j) for i, j in product(range(90), range(90)) if holds(i, j)}  # type: ignore[operator]
    # Blocks are taken to be cut in the middle: of these few, a tenth of all instances more or less.
    assert found.share == pytest.approx(plain_share(inside, m, n), abs=0.1)
    assert (found.share > 0) == (m > 1)
    calls = work.instances / (m * n)
    whole = kernel_cycles(structure, work, work.instances, calls, MACHINE)
    left = kernel_cycles(structure, work, work.instances, calls, MACHINE, found)
    assert left > whole or m == 1


def test_blocks_of_a_slanted_reduction_are_never_boxes(tmp_path: Path) -> None:
    path = tmp_path / "trmm.c"
    path.write_text(PROGRAM.replace("%s ", "").replace("k = 0; k < 90", "k = i; k < 90"))
    (scop,) = load(path).scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    work = Work(scop, nest.statements[0])
    structure = apply(nest, [Microkernel("i", "j", 6, 16, ("k",))])
    assert left_out(structure, work, MACHINE).share == pytest.approx(1.0)
    single = apply(nest, [Microkernel(None, "j", 1, 16, ("k",))])
    assert left_out(single, work, MACHINE) == left_out(single, work, MACHINE)
    assert left_out(single, work, MACHINE).share == 0


def test_nothing_is_left_of_a_box(tmp_path: Path) -> None:
    nest, work = nest_of(tmp_path, "j = 0; j < 90")
    structure = apply(nest, [Microkernel("i", "j", 6, 16, ("k",))])
    assert left_out(structure, work, MACHINE) == NOTHING


@pytest.mark.parametrize("bounds", ["j = 0; j <= i", "j = i; j < n", "j = 1; j <= i"])
def test_blocks_of_all_sizes_are_those_of_each(tmp_path: Path, bounds: str) -> None:
    """Found with sizes as parameters once, against found at the sizes at hand."""
    path = tmp_path / "f.c"
    rows = "restrict n][n]"
    text = PROGRAM.replace("%s ", "").replace("j = 0; j < 90", bounds).replace("restrict 90][90]", rows)
    path.write_text(text.replace("90", "n").replace("f(float", "f(int n, float"))
    (scop,) = load(path, require_sizes=False).scops
    found = dependences(scop, reads=False)
    general = nests(scop, found)
    asked = 0
    for n in (1, 13, 64, 131):
        point = point_at(scop, found, general, {"n": n})
        if point is None:
            continue
        (nest,) = point.nests
        assert nest.symbolic is general[0]
        for m in (4, 9):
            way = (Tile("i", (m,)), Tile("j", (32,)), Microkernel("i.1", "j.1", m=m, n=32, reduce=("k",)))
            one, other = (apply(each, way) for each in (nest, replace(nest, symbolic=None)))
            here, there = (left_out(each, Work(point.scop, nest.statements[0]), MACHINE) for each in (one, other))
            assert here == there
            asked += here != NOTHING
    assert asked
