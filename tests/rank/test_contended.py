"""Lines of which two threads write a part each: as many as rows go on with another thread, batched and one by one."""

from __future__ import annotations

import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.rank.traffic import estimates_of, resources_of
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.schedule.as_tree import as_tree
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import ordered
from polydl.schedule.transforms import Parallelize, Permute, Tile
from polydl.target import preset

MACHINE = preset("epyc-zen5")
PROGRAM = """void f(unsigned char to[restrict 700][1000], const unsigned char from[restrict 700][1000])
{
    for (int i = 0; i < 700; i++)
        for (int j = 0; j < 1000; j++)
            to[i][j] = from[i][j];
}
"""
WAYS = {
    "rows": (Parallelize(("i",)),),
    "columns": (Permute(("j", "i")), Parallelize(("j",))),
    "halves of rows": (Tile("j", (500,)), Permute(("j.0", "i", "j.1")), Parallelize(("j.0",))),
    "columns in turn": (Permute(("j", "i")), Parallelize(("j",), schedule="dynamic,10")),
    "in each row": (Tile("j", (500,)), Parallelize(("j.0",))),
}
LINES = {"rows": 1.0, "columns": 700.0, "halves of rows": 700.0, "columns in turn": 700 * 49.5, "in each row": 700.0}


def structure(way: str) -> NestLoops:
    (scop,) = polydl.load(PROGRAM).scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    made = ordered(nest, WAYS[way])
    assert made.loops is not None
    return made.loops


@pytest.mark.parametrize("way", WAYS)
def test_lines_that_two_threads_write(way: str) -> None:
    (scop,) = polydl.load(PROGRAM).scops
    one = structure(way)
    found = resources_of(scop, one.nest, [one], MACHINE, 2)
    assert found.contended[0] == pytest.approx(LINES[way], rel=0.05)
    assert resources_of(scop, one.nest, [one], MACHINE, 1).contended[0] == 0


@pytest.mark.parametrize("way", WAYS)
def test_one_by_one_they_are_as_many(way: str) -> None:
    (scop,) = polydl.load(PROGRAM).scops
    one = structure(way)
    (batched,) = estimates_of(scop, one.nest, [one], MACHINE, 2).each()
    alone = tree_estimate(footprints_of(scop, one.nest.statements), as_tree(one), MACHINE, 2)
    assert alone.seconds["waiting"] == pytest.approx(batched.seconds["waiting"])


def test_shares_of_whole_rows_are_the_first_choice() -> None:
    transposed = PROGRAM.replace("from[restrict 700][1000]", "from[restrict 1000][700]")
    transposed = transposed.replace("from[i][j]", "from[j][i]")
    best = polydl.rank(transposed, options=polydl.Options(threads=2, machine="epyc-zen5")).variants[0]
    assert any("Parallelize(loops=(i" in str(nest) for nest in best.recipe.nests), best.recipe
