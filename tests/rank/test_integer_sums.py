"""Sums of integers: compilers regroup them by themselves, and what is chosen for their sake."""

from __future__ import annotations

import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import nests
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.plain import Inner, Way, Work, into_one_element, iteration_cycles, way_of_compiler
from polydl.rank.traffic import resources_of
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.schedule.as_tree import as_tree
from polydl.schedule.limits import SPACES, Limits
from polydl.search.sizes.code import EverySize
from polydl.search.space import legal_structures
from polydl.target import preset
from polydl.target.isa import isa

LOOP = "{type} x[1000], s[1001]; void f(void) {{ for (int i = 0; i < 1000; i++) {statement}; }}"
AVX2 = isa("avx2")


def alone(element: str, statement: str) -> Inner:
    """A statement in a loop of its own."""
    (scop,) = polydl.load(LOOP.format(type=element, statement=statement)).scops
    work = Work(scop, scop.statements[0])
    return Inner(work, (1.0,), tuple(1.0 for _ in work.statement.accesses), 1.0)


@pytest.mark.parametrize(
    ("element", "statement", "way"),
    [
        ("int", "s[0] += x[i]", Way.SUM),
        ("unsigned char", "s[0] |= x[i]", Way.SUM),
        ("long", "s[0] += __builtin_popcountll(x[i])", Way.SUM),
        ("unsigned", "s[0] -= x[i] * x[i]", Way.SUM),
        ("float", "s[0] += x[i]", Way.SERIAL),
        ("int", "s[0] = 3 * s[0] + x[i]", Way.SERIAL),
        ("int", "s[i + 1] += s[i]", Way.SERIAL),
        ("int", "s[i] += x[i]", Way.VECTOR),
        ("int", "s[0] += __builtin_ffs(x[i])", Way.SERIAL),
    ],
)  # fmt: skip
def test_compilers_regroup_integers(element: str, statement: str, way: Way) -> None:
    assert way_of_compiler([alone(element, statement)], AVX2) is way


def test_lanes_are_put_together_once_for_all_rounds_of_a_short_loop() -> None:
    one = [alone("int", "s[0] += x[i]")]

    def cycles(trips: float, rounds: float) -> float:
        return iteration_cycles(one, Way.SUM, trips, AVX2, rounds)

    assert cycles(16, 16) < cycles(16, 1) / 1.5
    assert cycles(16, 256) < cycles(16, 16)
    # The end of a loop that is long, or has another length each time, comes unforeseen.
    assert cycles(1000, 256) == cycles(1000, 1)
    assert cycles(12.5, 256) == cycles(12.5, 1)


PAIRS = """
#include <stdlib.h>
{read} x[4096], y[4096]; {held} s[1];
void f(void) {{ for (int i = 0; i < 4096; i++) s[0] += {value}; }}
"""
NEIGHBOURS = {
    "distances": ("unsigned char", "int", "abs(x[i] - y[i])", 1),
    "products": ("short", "int", "x[i] * y[i]", 2),
    "squares": ("unsigned char", "unsigned", "(x[i] - y[i]) * (x[i] - y[i])", 2),
    "wide distances": ("unsigned char", "long", "abs(x[i] - y[i])", None),
    "wide products": ("short", "long", "x[i] * y[i]", None),
    "distances of shorts": ("short", "int", "abs(x[i] - y[i])", None),
    "bytes": ("unsigned char", "int", "x[i] * y[i]", None),
    "unsigned shorts": ("unsigned short", "unsigned", "x[i] * y[i]", None),
    "squares of shorts": ("short", "int", "(x[i] - y[i]) * (x[i] - y[i])", None),
    "ints": ("int", "int", "x[i] * y[i]", None),
}


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_sums_of_neighbouring_lanes_are_known(kind: str) -> None:
    """gcc uses VPSADBW and VPMADDWD, and none of them with a clause of OpenMP (distances six times as slow)."""
    read, held, value, lanes = NEIGHBOURS[kind]
    source = PAIRS.format(read=read, held=held, value=value)
    (scop,) = polydl.load(source).scops
    work = Work(scop, scop.statements[0])
    assert (work.neighbours.bytes if work.neighbours is not None else None) == lanes
    if lanes is not None:
        text = polydl.optimize(source, run=False, threads=1, machine="epyc-zen3").text
        assert "polydl_sum +=" in text and "omp simd" not in text
        one = Inner(work, (1.0,), tuple(1.0 for _ in work.statement.accesses), 1.0)
        assert iteration_cycles([one], Way.SUM, 4096, AVX2) < iteration_cycles([one], Way.SCALAR, 4096, AVX2) / 8
        # Of sixteen bytes there is a vector, too.
        assert iteration_cycles([one], Way.SUM, 16, AVX2, 16) < iteration_cycles([one], Way.SCALAR, 16, AVX2) / 2


def test_several_sums_at_once_are_in_no_lanes() -> None:
    """Four blocks' sums in one loop were taken for sums in vectors, and ran a tenth as fast as block by block."""
    one = alone("int", "s[0] += x[i]")
    shares = tuple(0.25 if access.array == "s" else 1.0 for access in one.work.statement.accesses)
    assert into_one_element(one)
    assert into_one_element(Inner(one.work, one.step, shares, 4.0))
    assert not into_one_element(Inner(one.work, one.step, one.share, 4.0))
    assert way_of_compiler([Inner(one.work, one.step, one.share, 4.0)], AVX2) is Way.SERIAL


BLOCKS = """
#include <stdint.h>
void blocks(int n, const {read} a[restrict n][{rows}][{columns}], const {read} b[restrict n][{rows}][{columns}],
            {held} out[restrict n])
{{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < {rows}; i++)
            for (int j = 0; j < {columns}; j++)
                out[k] {op} {value};
}}
"""
VALUES = {
    "bytes": ("uint8_t", "int32_t", "+=", "a[k][i][j]"),
    "shorts": ("int16_t", "int32_t", "+=", "a[k][i][j]"),
    "products": ("int16_t", "int32_t", "-=", "a[k][i][j] * b[k][i][j]"),
    "bits": ("uint32_t", "uint32_t", "^=", "a[k][i][j] & b[k][i][j]"),
    "set bits": ("uint64_t", "int64_t", "+=", "__builtin_popcountll(a[k][i][j] ^ b[k][i][j])"),
}


def blocks(name: str, rows: int, columns: int) -> str:
    """Sums of blocks of this many rows and columns."""
    read, held, op, value = VALUES[name]
    return BLOCKS.format(read=read, held=held, op=op, value=value, rows=rows, columns=columns)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shape", [(16, 16), (5, 7), (3, 200)])
def test_batches_and_trees_agree(shape: tuple[int, int], threads: int) -> None:
    machine = preset("epyc-zen3")
    (scop,) = polydl.load(blocks("shorts", *shape), sizes={"n": 500}).scops
    found = dependences(scop, reads=False)
    (nest,) = nests(scop, found)
    limits = Limits(nest, nest_legality(nest, found), SPACES["default"], register_blocks_for(machine), threads)
    some = list(legal_structures(limits))[:40]
    batch = resources_of(scop, nest, some, machine, threads).estimates(machine, threads).each()
    for structure, estimate in zip(some, batch, strict=True):
        one = tree_estimate(footprints_of(scop, nest.statements), as_tree(structure), machine, threads)
        assert one.seconds == pytest.approx(estimate.seconds, rel=1e-6, abs=1e-18), structure.loops


@pytest.mark.few_sizes
@pytest.mark.parametrize(
    ("name", "side"),
    [("bytes", 8), ("bytes", 16), ("shorts", 16), ("products", 8), ("bits", 16), ("set bits", 8), ("set bits", 16)],
)
def test_blocks_are_added_up_along_their_rows(name: str, side: int) -> None:
    """No vector takes an element of each block."""
    done = polydl.optimize(blocks(name, side, side), sizes={"n": 512}, run=False, threads=2, machine="epyc-zen4")
    tuned = done.text.split("if (n == 512) {", 1)[-1].split("} else {", 1)[0]
    assert "for (int" in tuned
    assert "omp simd\n" not in tuned
    assert done.text.count("[15]") == 0


FLAT = """
#include <stdint.h>
void flat(int n, const {read} a[restrict n], const {read} b[restrict n], {held} out[restrict 1])
{{
    for (int i = 0; i < n; i++)
        out[0] {op} {value};
}}
"""


@pytest.mark.few_sizes
@pytest.mark.parametrize("name", ["bytes", "products", "set bits"])
def test_where_threads_cost_more_than_the_sum_the_original_loop_runs(name: str) -> None:
    read, held, op, value = VALUES[name]
    text = FLAT.format(read=read, held=held, op=op, value=value.replace("[k][i][j]", "[i]"))
    done = polydl.optimize(text, sizes={"n": 1_000_000}, run=False, threads=2, machine="epyc-zen4")
    (scop,) = done.scops
    assert isinstance(scop.other_sizes, EverySize)
    for n, original in ((1000, True), (10_000, True), (900_000, False)):
        assert (scop.other_sizes.tree.at({"n": n}).recipe is None) == original
