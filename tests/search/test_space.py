"""What the space leaves out, and how it counts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.schedule.limits import BLOCKS, EQUAL, IDLE, ILLEGAL, ORDERS, SPACES, TILES, Limits, Space
from polydl.schedule.loops import SHALLOW, NestLoops
from polydl.search.space import legal_structures

MATMUL = """
void f(float A[60][50], float B[50][40], float C[60][40])
{
#pragma scop
    for (int i = 0; i < 60; i++) for (int j = 0; j < 40; j++) for (int k = 0; k < 50; k++)
        C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""

SKEWED = """
void f(float A[60][50])
{
#pragma scop
    for (int i = 1; i < 60; i++) for (int j = 0; j < 49; j++)
        A[i][j] = A[i - 1][j + 1] + 1;
#pragma endscop
}
"""


def four_blocks(_nest: Nest) -> list[tuple[str | None, str, int, int]]:
    return [("i", "j", m, 16) for m in (4, 5, 6, 7)]


def searched(folder: Path, text: str, space: Space, threads: int = 2) -> tuple[list[NestLoops], Counter[str]]:
    (folder / "f.c").write_text(text)
    (scop,) = load(folder / "f.c").scops
    found = dependences(scop, reads=False)
    (nest,) = nests(scop, found)
    pruned: Counter[str] = Counter()
    made = list(legal_structures(Limits(nest, nest_legality(nest, found), space, four_blocks, threads, pruned)))
    return made, +pruned


def test_choices_left_out_are_counted(tmp_path: Path) -> None:
    space = replace(SPACES["default"], tile_sizes=(8, 1000), blocks=3, orders=2, starts=1, tiled_at_once=1)
    made, pruned = searched(tmp_path, MATMUL, space)
    assert pruned[BLOCKS] == 1
    # For each of the three blocks 1000 fits no loop, and 8 is less than the 16 columns of a block, which are a tile.
    assert pruned[TILES] >= 3 * 3
    # One loop in two pieces: 3!/1 = 6 orders of i j and 4!/2 = 12 of i.0 i.1 j k; two of each are tried.
    untiled = {v.transforms for v in made if v.kernel is None and not v.packs}
    assert untiled
    assert pruned[ORDERS] > 0
    assert ILLEGAL not in pruned


def test_illegal_orders_are_counted(tmp_path: Path) -> None:
    """A[i-1][j+1] lets neither loop change places with the other."""
    space = replace(SPACES["default"], tile_sizes=())
    made, pruned = searched(tmp_path, SKEWED, space)
    assert [loop.name for v in made for loop in v.loops] == ["i", "j"] * len(made)
    assert pruned == {ILLEGAL: 1}


def test_loops_too_short_for_the_threads_are_counted(tmp_path: Path) -> None:
    space = replace(SPACES["default"], tile_sizes=(), blocks=1, orders=1, starts=1)
    _, few = searched(tmp_path, MATMUL, space, threads=2)
    _, many = searched(tmp_path, MATMUL, space, threads=100)
    assert many[IDLE] > few[IDLE]
    assert EQUAL not in few


def test_reductions_are_cut_short_where_a_block_has_all_rows(tmp_path: Path) -> None:
    """Then each element of B is read once, and along its rows it comes fastest; else C would be read too often."""
    space = replace(SPACES["default"], blocks=3)
    few, _ = searched(tmp_path, MATMUL.replace("60", "5"), space)
    short = {v.kernel.m for v in few if v.kernel is not None for r in v.kernel.reductions if r.within == SHALLOW}
    assert short == {5, 6}  # of blocks of 4, 5 and 6 rows
    assert len({v.family for v in few if v.kernel is not None and v.kernel.m == 5 and not v.packs}) > len(
        {v.family[:-1] for v in few if v.kernel is not None and v.kernel.m == 5 and not v.packs}
    )
    many, _ = searched(tmp_path, MATMUL, space)
    assert not any(r.within == SHALLOW for v in many if v.kernel is not None for r in v.kernel.reductions)
