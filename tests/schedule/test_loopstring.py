"""Loop strings: parsed by hand-made expectations, printed and parsed again, refused with the place, executed."""

from __future__ import annotations

import ctypes
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError, InputErrors
from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.legality import concurrent, violation
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.inspect.loop_string_file import read, score_file
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.schedule.as_tree import as_tree
from polydl.schedule.check import check
from polydl.schedule.limits import SPACES, Limits
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.loopstring import forced, parse, part_text, text
from polydl.schedule.notation import Written, levels, split_line
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Merge, Microkernel, Pack, Parallelize, Permute, Tile
from polydl.schedule.tree import times
from polydl.search.space import legal_structures
from tests.oracle import compile_c

MATMUL = """void matmul(float A[restrict 60][40], float B[restrict 40][48], float C[restrict 60][48])
{
    for (int i = 0; i < 60; i++)
        for (int j = 0; j < 48; j++)
            for (int k = 0; k < 40; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""
# A row of one step needs the neighbour's row of the step before.
WAVE = """void wave(float B[restrict 6][9][8])
{
    for (int i = 0; i < 6; i++)
        for (int t = 0; t < 8; t++)
            for (int j = 0; j < 7; j++)
                B[i][t + 1][j] = B[i][t][j + 1] + 1;
}
"""
CONVOLUTION = """void conv(float O[restrict 2][8][6][32], float I[restrict 2][10][8][16],
          float W[restrict 3][3][16][32])
{
    for (int n = 0; n < 2; n++)
        for (int y = 0; y < 8; y++)
            for (int p = 0; p < 3; p++)
                for (int q = 0; q < 3; q++)
                    for (int x = 0; x < 6; x++)
                        for (int k = 0; k < 32; k++)
                            for (int c = 0; c < 16; c++)
                                O[n][y][x][k] += I[n][y + p][x + q][c] * W[p][q][c][k];
}
"""


@cache
def program(source: str) -> tuple[Scop, tuple[Dependence, ...], Nest]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "program.c"
        path.write_text(source)
        scop = pipeline.load(path).scops[0]
    found = dependences(scop, reads=False)
    (nest,) = nests(scop, found)
    return scop, found, nest


def blocks(nest: Nest) -> Sequence[tuple[str | None, str, int, int]]:
    assert nest.contraction is not None
    columns = nest.contraction.columns()[-1]
    return [(nest.contraction.rows(columns)[-1], columns, 4, 16), (None, columns, 1, 8)]


def transforms(loops: str, sizes: str = "", source: str = MATMUL) -> tuple[Transform, ...]:
    return parse(program(source)[2], Written(loops, "--loops"), Written(sizes, "--blocks"), blocks)


@pytest.mark.parametrize(
    ("loops", "sizes", "expected"),
    [
        ("abc", "mk=none", ()),
        ("Abc", "mk=none", (Parallelize(("i",)),)),
        ("cAB", "mk=none", (Permute(("k", "i", "j")), Parallelize(("i", "j")))),
        (
            "bcaBCb",
            "b=12,4;c=8;mk=none",
            (
                Tile("j", (12, 4)),
                Tile("k", (8,)),
                Permute(("j.0", "k.0", "i", "j.1", "k.1", "j.2")),
                Parallelize(("j.1", "k.1")),
            ),
        ),
        # Rows and columns count blocks of the microkernel; k ends inside it.
        ("aBc", "c=8;mk=4x16:k", (Tile("k", (8,)), Microkernel("i", "j", 4, 16, ("k.1",)), Parallelize(("j",)))),
        ("aBc", "c=8", (Tile("k", (8,)), Microkernel("i", "j", 4, 16, ("k.1",)), Parallelize(("j",)))),
        ("ab", "mk=16(j)", (Microkernel(None, "j", 1, 16, ("k",)),)),
        ("aba", "a=3", (Tile("i", (12,)), Microkernel("i.1", "j", 4, 16, ("k",)), Permute(("i.0", "j", "i.1")))),
        ("aab", "i=1;mk=4x16:k", (Tile("i", (4,)), Microkernel("i.1", "j", 4, 16, ("k",)))),
        (
            "aBcc@schedule(dynamic, 1)",
            "c=20,4;mk=4(i)x16(j):k;pack=B,A:k.0",
            (
                Tile("k", (20, 4)),
                Microkernel("i", "j", 4, 16, ("k.2",)),
                Parallelize(("j",), "dynamic,1"),
                Pack("B", ""),
                Pack("A", "k.0"),
            ),
        ),
        (
            "bA{R:3}cB{C:2}",
            "b=12;mk=none",
            (
                Tile("j", (12,)),
                Permute(("j.0", "i", "k", "j.1")),
                Parallelize(("i", "j.1"), axes="RC", ways=(3, 2)),
            ),
        ),
        ("c|A|b", "mk=none", (Permute(("k", "i", "j")), Parallelize(("i",), barriers=("k", "i")))),
    ],
)
def test_parsed(loops: str, sizes: str, expected: tuple[Transform, ...]) -> None:
    assert transforms(loops, sizes) == expected


@pytest.mark.parametrize(
    ("loops", "sizes", "file", "column", "length", "reason"),
    [
        ("abxc", "", "--loops", 3, 1, "no loop 'x'"),
        ("ab?c", "", "--loops", 3, 1, "'?' means nothing"),
        ("ab{R:2}c", "", "--loops", 3, 1, "'{' means nothing"),
        ("aB{X:2}c", "", "--loops", 3, 6, "axis of a thread grid"),
        ("aB{R:0}c", "", "--loops", 3, 6, "axis of a thread grid"),
        ("A{R:2}B{L:2}c", "mk=none", "--loops", 1, 7, "thread grid of axes R, L"),
        ("A{R:2}Bc", "mk=none", "--loops", 7, 1, "without a place in the thread grid"),
        ("AbC", "mk=none", "--loops", 3, 1, "must be neighbours"),
        ("Ab|c", "mk=none", "--loops", 2, 1, "barrier inside a parallel loop"),
        ("ab|c", "mk=none", "--loops", 1, 4, "no loop is parallel"),
        ("Abc@dynamic", "", "--loops", 5, 7, "schedule clause"),
        ("Abc@schedule(fast)", "", "--loops", 5, 14, "schedule clause"),
        ("", "", "--loops", 1, 1, "without a loop"),
        ("a", "mk=none", "--loops", 1, 1, "loop b (j) is missing"),
        ("abcb", "mk=none", "--loops", 4, 1, "2 times in the loop string, so it takes 1 size, not 0"),
        ("abcb", "b=4,2;mk=none", "--blocks", 3, 3, "takes 1 size, not 2"),
        ("abcbb", "c=4;b=12,5", "--blocks", 7, 4, "each dividing"),
        ("abc", "d=4", "--blocks", 1, 3, "no loop 'd'"),
        ("abc", "b=4;b=2", "--blocks", 5, 3, "given twice"),
        ("abc", "b=x", "--blocks", 3, 1, "positive integers"),
        ("abc", "b", "--blocks", 1, 1, "not LOOP=SIZE"),
        ("abc", "mk=4*16", "--blocks", 4, 4, "not a microkernel"),
        ("abc", "mk=4x16:j", "--blocks", 4, 6, "not a reduction"),
        ("abc", "mk=4(j)x16(i)", "--blocks", 4, 10, "cannot have columns"),
        ("abc", "pack=C;mk=none", "--blocks", 6, 1, "not a pack"),
        ("&abc", "mk=none", "--loops", 1, 1, "'&' means nothing"),
        ("A&b&c", "mk=none", "--loops", 4, 1, "end twice"),
        ("abc", "share=S0;mk=none", "--blocks", 7, 2, "no loop is shared"),
        ("A&bc", "mk=none;share=8", "--blocks", 15, 1, "not what loops are shared with"),
        ("Ab&c", "mk=none;share=S0:8", "--blocks", 15, 4, "2 loops are shared, so sizes are 2 positive numbers"),
        ("A&bc", "mk=none;share=S0:0", "--blocks", 15, 4, "1 positive number,"),
        ("A&bc", "share=S0;share=S0", "--blocks", 10, 8, "share is given twice"),
    ],
)
def test_refused_with_the_place(loops: str, sizes: str, file: str, column: int, length: int, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        transforms(loops, sizes)
    span = caught.value.span
    assert span is not None
    assert (span.file, span.line, span.column, span.length) == (file, 1, column, length)
    assert reason in caught.value.reason
    assert span.text == (loops if file == "--loops" else sizes)


def same(a: NestLoops, b: NestLoops) -> bool:
    return (a.loops, a.parallel, a.kernel, a.packs, a.grid, a.omp_schedule, a.barriers, a.nowait) == (
        b.loops, b.parallel, b.kernel, b.packs, b.grid, b.omp_schedule, b.barriers, b.nowait
    )  # fmt: skip


@pytest.mark.parametrize("source", [MATMUL, CONVOLUTION])
def test_every_variant_of_the_space_says_its_name(source: str) -> None:
    _, found, nest = program(source)
    legality = nest_legality(nest, found)
    checked = 0
    space = replace(SPACES["default"], tile_sizes=(2, 8), levels=2, least_packed=1, limit=2000)
    for structure in itertools.islice(legal_structures(Limits(nest, legality, space, blocks, 2)), 0, None, 5):
        said = text(structure)
        again = parse(nest, Written(said.loops, "-"), Written(said.blocks, "-"), blocks)
        assert again == structure.transforms, said
        checked += 1
    assert checked > 100


@st.composite
def random_transforms(draw: st.DrawFn) -> tuple[Transform, ...]:
    """Any transforms of the convolution that fit each other, legal or not."""
    nest = program(CONVOLUTION)[2]
    kernel = draw(st.sampled_from([None, (None, "k", 1, 8), ("x", "k", 3, 16), ("y", "k", 2, 4)]))
    unit = {} if kernel is None else {kernel[0]: kernel[2], kernel[1]: kernel[3]}
    tiles = []
    for loop in nest.loops:
        chain: list[int] = []
        for factor in draw(st.lists(st.integers(2, 3), max_size=2)):
            chain.insert(0, factor * (chain[0] if chain else unit.get(loop, 1)))
        tiles += [Tile(loop, tuple(chain))] if chain else []
    made: tuple[Transform, ...] = tuple(tiles)
    if kernel is not None:
        point = {t.loop: f"{t.loop}.{len(t.sizes)}" for t in tiles}
        reduce = draw(st.permutations(["p", "q", "c"]))[: draw(st.integers(0, 3))]
        rows = None if kernel[0] is None else point.get(kernel[0], kernel[0])
        inside = tuple(point.get(r, r) for r in reduce)
        made = (*made, Microkernel(rows, point.get(kernel[1], kernel[1]), kernel[2], kernel[3], inside))
    loops = list(apply(nest, made).loops)
    order = []
    while loops:
        free = [a for a in loops if not any(b.iterator == a.iterator and b.step > a.step for b in loops)]
        order.append(draw(st.sampled_from(free)))
        loops.remove(order[-1])
    names = [loop.name for loop in order]
    if tuple(names) != tuple(loop.name for loop in apply(nest, made).loops):
        made = (*made, Permute(tuple(names)))
    kind = draw(st.sampled_from(["none", "collapse", "grid"]))
    places = sorted(draw(st.sets(st.integers(0, len(names) - 1), min_size=1, max_size=min(3, len(names)))))
    if kind == "grid":
        axes = "".join(draw(st.permutations("RCL"[: len(places)])))
        ways = tuple(draw(st.integers(1, 20)) for _ in places)
        barriers = tuple(names[: places[0] + 1][:: draw(st.integers(1, 3))])
        made = (*made, Parallelize(tuple(names[p] for p in places), "", axes, ways, barriers))
    elif kind == "collapse":
        clause = draw(st.sampled_from(["", "dynamic,1", "guided", "static,4"]))
        made = (*made, Parallelize(tuple(names[places[0] : places[0] + 2]), clause))
    return made


@given(random_transforms())
def test_printed_and_parsed_again(made: tuple[Transform, ...]) -> None:
    nest = program(CONVOLUTION)[2]
    said = text(apply(nest, made))
    again = parse(nest, Written(said.loops, "-"), Written(said.blocks, "-"), blocks)
    assert same(apply(nest, again), apply(nest, made)), said
    assert again == made
    recipe = Recipe((NestRecipe(nest.name, made),))
    assert Recipe.from_json(recipe.to_json()) == recipe


@given(random_transforms(), st.data())
def test_shared_loops_are_printed_and_parsed_again(made: tuple[Transform, ...], data: st.DataObject) -> None:
    nest = program(CONVOLUTION)[2]
    structure = apply(nest, made)
    loops = data.draw(st.integers(1, len(structure.loops)))
    sizes = data.draw(st.one_of(st.just(()), st.tuples(*(st.integers(1, 20) for _ in range(loops)))))
    merge = Merge(data.draw(st.sampled_from([nest.name, "S7"])), loops, sizes)
    said = text(structure, merge)
    assert said.loops.count("&") == 1
    assert parse(nest, Written(said.loops, "-"), Written(said.blocks, "-"), blocks) == (*made, merge)


LAYERS = """void f(float A[restrict 64][20],
       float B[restrict 20][36], float C[restrict 36][24], float Y[restrict 64][24])
{
    static float P[64][36];
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 36; j++)
            for (int k = 0; k < 20; k++)
                P[i][j] = k == 0 ? A[i][k] * B[k][j] : P[i][j] + A[i][k] * B[k][j];
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 24; j++)
            Y[i][j] = P[i][j] + C[j][0];
}
"""


def _layers(tmp_path: Path, lines: str) -> tuple[Scop, list[tuple[Written, Written]]]:
    path = tmp_path / "layers.c"
    path.write_text(LAYERS)
    (scop,) = load(path).scops
    return scop, [split_line(Written(lines, "-"))]


def test_a_merge_is_named(tmp_path: Path) -> None:
    scop, lines = _layers(tmp_path, "S0: A&bc; S1: A&b S1: share=S0")
    found = pipeline.score(scop, lines, Options(machine="epyc-zen5", threads=2)).variants[0]
    assert [str(nest) for nest in found.recipe.nests] == [
        "S0: Parallelize(loops=(i,)) Merge(first=S0, loops=1)", "S1: Parallelize(loops=(i,)) Merge(first=S0, loops=1)",
    ]  # fmt: skip
    assert found.illegal is None and found.generated.region.count("omp parallel for") == 1
    again = {name: part_text(part) for name, part in ((part.name, part) for part in found.parts)}
    assert {name: str(said) for name, said in again.items()} == {"S0": "A&bc", "S1": "A&b share=S0"}
    apart = pipeline.score(scop, [split_line(Written("S0: Abc; S1: Ab", "-"))], Options(machine="epyc-zen5", threads=2))
    assert apart.variants[0].score != found.score


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("S0: A&bc; S1: B&a S1: share=S0", 1, "dependence"),
        ("S0: A&bc; S1: A&b S1: share=S9", 23, "there is no nest S9"),
        ("S0: Abc; S1: A&b S1: share=S0", 1, "no neighbour of S0"),
        ("S0: A&bc; S1: A&b S1: share=S0:8", 1, "tiled differently"),
    ],
)
def test_merges_are_refused_with_the_place(tmp_path: Path, line: str, column: int, reason: str) -> None:
    scop, lines = _layers(tmp_path, line)
    with pytest.raises(InputError) as caught:
        pipeline.score(scop, lines, Options(machine="epyc-zen5", threads=2))
    assert reason in caught.value.reason
    assert caught.value.span is not None and caught.value.span.column == column


def test_ids_without_the_new_fields_stay() -> None:
    recipe = Recipe((NestRecipe("S0", (Parallelize(("i", "j")),)),))
    assert recipe.to_data()[0]["transforms"] == [{"transform": "Parallelize", "loops": ["i", "j"]}]
    assert str(recipe) == "S0: Parallelize(loops=(i, j))"
    grid = Parallelize(("i",), axes="R", ways=(4,))
    assert str(Recipe((NestRecipe("S0", (grid,)),))) == "S0: Parallelize(loops=(i,), axes=R, ways=(4,))"


def test_the_string_of_the_readme_is_taken_apart() -> None:
    found, clause, nowait = levels(Written("bC{R:16}aB{C:4}c b|", "-"))
    assert clause == "" and not nowait
    assert [(x.letter, x.parallel, x.axis, x.ways, x.barrier, x.at) for x in found] == [
        ("b", False, "", 0, False, 0),
        ("c", True, "R", 16, False, 1),
        ("a", False, "", 0, False, 8),
        ("b", True, "C", 4, False, 9),
        ("c", False, "", 0, False, 15),
        ("b", False, "", 0, True, 17),
    ]


# Legality


def structure(loops: str, sizes: str, source: str) -> NestLoops:
    return apply(program(source)[2], transforms(loops, sizes, source))


def test_an_illegal_string_names_the_dependence(tmp_path: Path) -> None:
    path = tmp_path / "matmul.c"
    path.write_text(MATMUL)
    with pytest.raises(IllegalVariant, match=r"dependence on C: .* at the same time as") as caught:
        pipeline.rank(path, loops="abC", blocks="mk=none", threads=2)
    assert caught.value.exit_code == 2
    assert caught.value.span is not None
    assert caught.value.span.file == "--loops"


def test_no_thread_of_a_grid_waits_for_another() -> None:
    scop, found, nest = program(WAVE)
    # i is free; rows of j exchange data from one t to the next: with t between the grid's loops nothing orders them.
    crossing = structure("A{R:2}bC{C:2}", "", WAVE)
    assert "dependence on B" in (check(scop, program_tree([Ordered.nest(crossing)]), found) or "")
    assert not is_legal(crossing, nest_legality(nest, found))
    time = times(as_tree(crossing), {s.name: s for s in crossing.statements})
    apart = violation(found, time) or concurrent(found, time, crossing.parallel_positions)
    assert apart is None  # as two parallel loops, the inner with a barrier at its end, it would be legal
    for legal in ("A{R:2}bc", "bA{R:2}C{C:3}", "bAC"):
        made = structure(legal, "", WAVE)
        assert check(scop, program_tree([Ordered.nest(made)]), found) is None
        assert is_legal(made, nest_legality(nest, found))


# Execution


def run(source: str, name: str, structures: NestLoops | None, shapes: Sequence[tuple[int, ...]], threads: int) -> Any:
    scop = program(source)[0]
    output = (
        source
        if structures is None
        else splice(scop.source, [(scop, generate(scop, program_tree([Ordered.nest(structures)])))], "")
    )
    library = compile_c([output], ("-O1", "-march=native", "-fopenmp", "-w"))
    rng = np.random.default_rng(5)
    data = [rng.integers(-4, 5, size=shape).astype(np.float32) for shape in shapes]
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
    getattr(library, name)(*(a.ctypes.data_as(ctypes.c_void_p) for a in data))
    return data


@pytest.mark.parametrize("threads", [1, 2, 5, 12])
@pytest.mark.parametrize(
    ("loops", "sizes"),
    [
        ("bA{R:3}cB{C:2}", "b=12;mk=none"),
        ("A{R:3}B{C:2}c", "c=8;mk=4x16:k"),
        ("bB{R:7}aA{C:2}ca", "a=6,3;b=2;mk=4x16:"),
        ("A{C:2}cB{R:40}", "mk=none"),
        ("aA{R:2}cbB{C:2}", "a=4;b=2;c=8"),
        ("cA{R:2}B{C:3}", "c=8;pack=B:k.0,A:j"),
        ("bcA{R:4}a", "a=2;c=8;pack=B:k.0,A:i.0"),
        ("aBc@schedule(dynamic,1)", "c=8;mk=4x16:k"),
        ("c|AB@schedule(guided)", "c=8;pack=A:k.0"),
    ],
)
def test_the_result_is_right_whatever_the_number_of_threads(loops: str, sizes: str, threads: int) -> None:
    made = structure(loops, sizes, MATMUL)
    scop, found, _ = program(MATMUL)
    assert check(scop, program_tree([Ordered.nest(made)]), found) is None
    shapes = ((60, 40), (40, 48), (60, 48))
    expected, got = (run(MATMUL, "matmul", s, shapes, threads) for s in (None, made))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_grid_gives_each_thread_one_block() -> None:
    """Which thread runs what, as written down by the program itself: 2 x 3 threads, rows outside of columns."""
    source = """int omp_get_thread_num(void);
void who(float T[restrict 8][7])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 7; j++)
            T[i][j] = 0;
}
"""
    scop, _, nest = program(source)
    made = apply(nest, parse(nest, Written("A{R:2}B{C:3}", "-"), Written("", "-"), lambda _: []))
    region = generate(scop, program_tree([Ordered.nest(made)])).region
    assert "collapse(2) schedule(static, 1)" in region
    output = splice(scop.source, [(scop, generate(scop, program_tree([Ordered.nest(made)])))], "").replace(
        "] = 0;", "] = omp_get_thread_num();"
    )
    library = compile_c([output], ("-O1", "-fopenmp", "-w"))
    table = np.full((8, 7), -1, dtype=np.float32)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(6)
    library.who(table.ctypes.data_as(ctypes.c_void_p))
    expected = [[(i // 4) * 3 + j // 3 for j in range(7)] for i in range(8)]
    assert table.tolist() == expected


# Files of loop strings


def test_a_file_of_loop_strings(tmp_path: Path) -> None:
    path = tmp_path / "loops.txt"
    path.write_text("# all\n\naBc  c=8;mk=4x16:k\n  c A b @ schedule(static)   # no sizes\nabc mk=none\n")
    said = [(a.text, b.text, a.line) for a, b in read(path)]
    assert said == [("aBc", "c=8;mk=4x16:k", 3), ("c A b @ schedule(static)", "", 4), ("abc", "mk=none", 5)]
    scop = program(MATMUL)[0]
    done = score_file(scop, path, Options(machine="xeon-8280", threads=4))
    scores = [v.score for v in done.ranking.variants]
    assert sorted(done.ranks) == [1, 2, 3]
    assert [scores[done.ranks.index(r)] for r in (1, 2, 3)] == sorted(scores)
    assert done.ranking.machine.name == "Intel Xeon Platinum 8280"


def test_bad_lines_are_reported_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "loops.txt"
    path.write_text("aBc c=8\n   axc\nabC mk=none\nabcb  b=4,2;mk=none\n")
    with pytest.raises(InputErrors) as caught:
        score_file(program(MATMUL)[0], path, Options(machine="xeon-8280", threads=4))
    places = [(e.span.line, e.span.column) for e in caught.value.errors if e.span is not None]
    assert places == [(2, 5), (3, 1), (4, 9)]
    assert isinstance(caught.value.errors[1], IllegalVariant)
    assert f"{path}:2:5: error: there is no loop 'x'" in caught.value.render()


def test_the_nest_can_be_named() -> None:
    scop, _, nest = program(MATMUL)
    del scop
    made = forced([nest], Written(f"{nest.name}: Abc", "-"), Written("mk=none", "-"), blocks)
    assert [(one.name, one.transforms) for one in made] == [(nest.name, (Parallelize(("i",)),))]
    with pytest.raises(InputError, match="which nest"):
        forced([nest], Written("S9: Abc", "-"), Written("", "-"), blocks)


def test_several_nests_have_a_string_each(tmp_path: Path) -> None:
    path = tmp_path / "two.c"
    path.write_text(
        "void f(float A[restrict 64][64], float B[restrict 64][64], float C[restrict 64][64])\n{\n#pragma scop\n"
        "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) C[i][j] = 1;\n"
        "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) for (int k = 0; k < 64; k++)\n"
        "C[i][j] += A[i][k] * B[k][j];\n#pragma endscop\n}\n"
    )
    (scop,) = load(path).scops
    parts = nests(scop, dependences(scop, reads=False))

    def made(loops: str, sizes: str) -> list[tuple[Transform, ...]]:
        structures = forced(parts, Written(loops, "-"), Written(sizes, "-"), _no_blocks)
        return [one.transforms for one in structures]

    assert made("S0: Ba; S1: bcab", "S1: b=32;mk=none") == [
        (Permute(("j", "i")), Parallelize(("j",))),
        (Tile("j", (32,)), Permute(("j.0", "k", "i", "j.1"))),
    ]
    assert made("S0: aba", "S0: a=8") == [(Tile("i", (8,)), Permute(("i.0", "j", "i.1"))), ()]
    assert made("cab", "mk=none")[0] == (), "the only contraction"
    for loops, sizes, why in (
        ("S0: ba; S0: ab", "", "which nest"),
        ("S0: ba; ab", "", "';' means nothing here"),
        ("S0: ba; S1: abc", "mk=none", "blocks of which nest"),
        ("S0: ba", "S1: mk=none", "no loop string for S1"),
        ("S0: aba; S1: abc", "S0: a=8; S1: mk=none; S0: a=4", "given twice"),
    ):
        with pytest.raises(InputError, match=why):
            made(loops, sizes)
    line, sizes = split_line(Written("S0: Ba; S1: bcab  S1: b=32;mk=none", "-"))
    assert (line.text, sizes.text) == ("S0: Ba; S1: bcab", "S1: b=32;mk=none")


def _no_blocks(nest: Nest) -> Sequence[tuple[str | None, str, int, int]]:
    return ()
