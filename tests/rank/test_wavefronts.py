"""Tiles in wavefronts: how many there are of each, how many threads have one to run, how often they are forked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polydl import pipeline
from polydl.model import isl
from polydl.model.scop import Statement
from polydl.model.time import map_from_affs
from polydl.rank.estimate_steps import Innermost, Repeat, at_once, innermost, shared_out
from polydl.rank.footprints import Footprints
from polydl.rank.plain import Work
from polydl.rank.whole import program_estimate
from polydl.schedule.tree import Band, Member, Node, Run, paths
from polydl.target import preset

ZEN = preset("epyc-zen5")
FLOYD_WARSHALL = Path("tests/programs/floyd_warshall.c")


@pytest.mark.parametrize("tiles", [(1, 1), (2, 2), (1, 9), (9, 1), (3, 7), (8, 8), (40, 13)])
@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_what_runs_at_once_is_counted_as_it_runs(tiles: tuple[int, int], threads: int) -> None:
    """Every wavefront takes as long as the thread with the most of its tiles."""
    waves = [0] * sum(tiles)
    for a, b in itertools.product(*map(range, tiles)):
        waves[a + b] += 1
    steps = sum(math.ceil(count / threads) for count in waves)
    assert at_once(tiles, threads) == pytest.approx(math.prod(tiles) / steps)


def test_a_thread_runs_what_its_steps_say() -> None:
    body = Innermost(0, 1.0)
    root = Repeat(0, 3.0, Repeat(0, 4 / 3, body, parallel=True, tiles=(2.0, 2.0)))  # three steps for four tiles
    (found,) = innermost(root)
    shared = shared_out(root, 2)
    assert shared.part[found] == pytest.approx(3 / 4)
    assert shared.imbalance[found] == 1.0  # it is in the part already
    assert shared.forks == 3


def test_a_part_of_a_tile_is_no_less_than_one_for_a_thread() -> None:
    """One and a half tiles each way: the thread with the whole one is waited for."""
    body = Innermost(0, 1.0)
    root = Repeat(0, 1000.5, Repeat(0, 1.5 * 1000 / 1000.5, body, parallel=True, tiles=(1.5, 1000.0)))
    shared = shared_out(root, 2)
    assert min(shared.trips.values()) >= 1.0
    (found,) = innermost(root)
    assert shared.part[found] == pytest.approx(1 / 1.5, rel=1e-3)


def test_estimates_of_wavefronts_are_no_less_than_nothing() -> None:
    """200 steps in tiles of 128 are one and a half of them."""
    sizes = {"T": 200, "N": 40000}
    ranking = pipeline.rank(Path("tests/programs/jacobi_1d.c"), "default", ZEN, defines=sizes, threads=2)
    waves = [v for v in ranking if any(m.run is Run.PARALLEL for m in _outermost_parallel(v.tree))]
    assert len(waves) >= 5
    for variant in waves:
        seconds = variant.estimate.seconds
        assert all(second >= 0.0 for second in seconds.values()) and seconds["compute"] > 0.0, variant.loops


@pytest.mark.parametrize("size", [48, 100])
def test_forks_are_counted_as_they_happen(size: int) -> None:
    """Of every schedule of a program whose index sets are split, so that each statement runs in a part of the loops."""
    ranking = pipeline.rank(FLOYD_WARSHALL, "default", ZEN, defines={"N": size}, threads=2)
    checked = 0
    for variant in ranking:
        scop = variant.program
        parallel = _outermost_parallel(variant.tree)
        if not parallel or not variant.scheduled:
            continue
        forks = program_estimate(scop, variant.tree, ZEN, 2).counts["forks"]
        # Of a triangle by itself there are as many as of a rectangle of as many points.
        counted = sum(_forks(scop.statements, variant.tree, member) for member in parallel)
        assert forks == pytest.approx(counted, rel=0.03), variant.loops
        checked += 1
    assert checked >= 5


def _outermost_parallel(node: Node) -> list[Member]:
    match node:
        case Band(members, child):
            found = next((m for m in members if m.run is Run.PARALLEL), None)
            return [found] if found is not None else _outermost_parallel(child)
        case _:
            children = getattr(node, "children", ())
            return [m for child in children for m in _outermost_parallel(child)]


def _forks(statements: Sequence[Statement], tree: Node, member: Member) -> int:
    """By brute force: values of the loops around a parallel one; none where it has one value in each of them."""
    around: dict[tuple[int, ...], set[int]] = {}
    for statement in statements:
        path = [step for step in paths(tree)[statement.name] if isinstance(step, Member)]
        if member not in path:
            continue
        affs = [m.affs[statement.name] for m in path[: path.index(member) + 1]]
        found: list[Any] = []
        map_from_affs(statement.domain, affs).range().foreach_point(found.append)
        for *outer, value in (isl.sample(isl.Set.from_point(point))[0] for point in found):
            around.setdefault(tuple(outer), set()).add(value)
    return len(around) if any(len(values) > 1 for values in around.values()) else 0


def test_footprints_keep_what_they_counted() -> None:
    ranking = pipeline.rank(FLOYD_WARSHALL, "small", ZEN, defines={"N": 24}, threads=2)
    variant = next(v for v in ranking if v.scheduled)
    footprints = Footprints({s.name: Work(variant.program, s) for s in variant.program.statements})
    several = [
        (s, tuple(m for m in paths(variant.tree)[s.name] if isinstance(m, Member))[:1])
        for s in variant.program.statements
    ]
    assert footprints.turns(several) == footprints.turns(several) == 24.0


@pytest.mark.parametrize(
    ("program", "macros", "sizes"),
    [("jacobi_1d", {"T": 200, "N": 4_000_000}, {}), ("heat_1d", {}, {"t_end": 200, "n": 4_000_000})],
)
def test_a_wavefront_touches_what_its_few_tiles_do(program: str, macros: dict[str, int], sizes: dict[str, int]) -> None:
    """Its two or three tiles lie anywhere in the arrays: they bring less from memory than the order as written."""
    path = Path(f"tests/programs/{program}.c")
    ranking = pipeline.rank(path, "default", preset("epyc-zen3"), defines=macros, sizes=sizes, threads=2)
    moved = {v.id: v.estimate.counts["into_L3_bytes"] for v in ranking}
    waves = [v for v in ranking if v.scheduled and _outermost_parallel(v.tree)]
    tiled = [v for v in waves if any(m.tile > 1 for m in _outermost_parallel(v.tree))]
    (written,) = (v for v in ranking if v.loops == "S0…: order as written")
    assert len(tiled) >= 8
    assert all(moved[v.id] < moved[written.id] / 2 for v in tiled), moved
