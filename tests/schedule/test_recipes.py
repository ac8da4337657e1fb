"""Recipes: text, JSON, ids; structures that don't fit; illegal ones refused with a counter-example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl.base.errors import InputError
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.legality import violation
from polydl.dependences.nests import nests
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.schedule.as_tree import as_tree
from polydl.schedule.check import check
from polydl.schedule.loops import apply
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Microkernel, Pack, Parallelize, Permute, Tile
from polydl.schedule.tree import times

MATMUL = """for (int i = 0; i < 40; i++) for (int j = 0; j < 48; j++) for (int k = 0; k < 50; k++)
    C[i][j] += A[i][k] * B[k][j];"""
SEIDEL = "for (int i = 1; i < 40; i++) for (int j = 1; j < 47; j++) C[i][j] += C[i - 1][j + 1];"
HEAD = "void f(float A[restrict 40][50], float B[restrict 50][48], float C[restrict 40][48]) {\n"


def scop_of(body: str, folder: Path) -> Scop:
    path = folder / "r.c"
    path.write_text(f"{HEAD}#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


GOOD: tuple[Transform, ...] = (
    Tile("k", (20,)),
    Microkernel("i", "j", 12, 32, ("k.1",)),
    Permute(("j", "k.0", "i")),
    Parallelize(("j",)),
    Pack("B", "k.0"),
)


def test_json_round_trip_and_stable_id() -> None:
    recipe = Recipe((NestRecipe("S0", GOOD),))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.id == Recipe.from_json(recipe.to_json()).id
    assert recipe.id != Recipe((NestRecipe("S0", GOOD[:-1]),)).id
    assert str(recipe).startswith("S0: Tile(loop=k, sizes=(20,)) Microkernel(rows=i, columns=j, m=12, n=32")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '[{"nest": "S0"}]',
        '[{"nest": "S0", "transforms": [{"transform": "Explode"}]}]',
        '[{"nest": "S0", "transforms": [{"transform": "Tile", "loop": "i", "sizes": ["8"]}]}]',
        '[{"nest": "S0", "transforms": [{"transform": "Tile", "loop": "i", "sizes": [8], "colour": 1}]}]',
        '[{"nest": "S0", "transforms": [{"transform": "Tile", "loop": "i"}]}]',
        '[{"nest": "S0", "transforms": [{"transform": "Tile", "loop": 3, "sizes": [true]}]}]',
    ],
)
def test_bad_json_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Recipe.from_json(text)


@pytest.mark.parametrize(
    "transforms",
    [
        (Tile("x", (8,)),),
        (Tile("i", (8, 3)),),
        (Tile("i", (1,)),),
        (Tile("i", ()),),
        (Tile("i", (8,)), Tile("i.1", (2,))),
        (Permute(("i", "j")),),
        (Permute(("i", "j", "j")),),
        (Tile("i", (8,)), Permute(("i.1", "i.0", "j", "k"))),
        (Parallelize(("i", "k")),),
        (Pack("A", "i"),),
        (Microkernel("i", "j", 0, 32, ("k",)),),
        (*GOOD, Pack("B", "")),
        (*GOOD[:-1], Pack("C", "")),
        (*GOOD, Permute(("j", "k.0", "i"))),
    ],
)
def test_misfits_are_refused(transforms: tuple[Transform, ...], tmp_path: Path) -> None:
    scop = scop_of(MATMUL, tmp_path)
    nest = nests(scop, dependences(scop))[0]
    with pytest.raises(InputError):
        ordered(nest, transforms)


def test_an_image_under_a_window_is_not_packed(tmp_path: Path) -> None:
    """Neighbours along the columns read what a vector of it has read: a copy in panels of rows would lose them."""
    body = """for (int i = 0; i < 38; i++) for (int j = 0; j < 48; j++) for (int k = 0; k < 3; k++)
    C[i][j] += B[i + k][j] * A[k][j];"""
    scop = scop_of(body, tmp_path)
    kernel = Microkernel("i", "j", 8, 16, ("k",))
    nest = nests(scop, dependences(scop))[0]
    assert ordered(nest, (kernel, Permute(("i", "j")), Pack("B", ""))) is not None
    with pytest.raises(InputError, match=r"A moves along the columns \('j.*'\): it cannot be packed"):
        ordered(nest, (kernel, Permute(("i", "j")), Pack("A", "")))


def test_parallel_reduction_is_refused(tmp_path: Path) -> None:
    scop = scop_of(MATMUL, tmp_path)
    found = dependences(scop, reads=False)
    (nest,) = nests(scop, found)
    wrong = check(scop, program_tree([ordered(nest, (Parallelize(("k",)),))]), found)
    assert re.search(r"dependence on C: S0\[.*at the same time as S0\[", wrong or "")
    made = ordered(nest, GOOD)
    assert check(scop, program_tree([made]), found) is None
    assert made.loops is not None and made.loops.parallel == ("j",)


def test_reversed_diagonal_is_refused(tmp_path: Path) -> None:
    """(1, -1) dependences: interchange is illegal, and so is tiling both loops."""
    scop = scop_of(SEIDEL, tmp_path)
    found = dependences(scop, reads=False)
    nest = nests(scop, found)[0]
    legality = nest_legality(nest, found)
    for transforms in (
        (Permute(("j", "i")),),
        (Tile("i", (4,)), Tile("j", (4,)), Permute(("i.0", "j.0", "i.1", "j.1"))),
    ):
        structure = apply(nest, transforms)
        assert not is_legal(structure, legality)
        assert violation(found, times(as_tree(structure), {s.name: s for s in structure.statements})) is not None
        assert check(scop, program_tree([Ordered.nest(structure)]), found) is not None
    inner = apply(nest, (Parallelize(("j",)),))
    assert is_legal(inner, legality)
    assert check(scop, program_tree([Ordered.nest(inner)]), found) is None


def test_block_with_aliasing_accumulators_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.c"
    path.write_text(
        "void f(float *restrict c, const float *restrict a, const float *restrict b) {\n"
        "  for (int i = 0; i < 20; i++) for (int j = 0; j < 40; j++) c[i + j] += a[i] * b[j];\n}\n"
    )
    scop = load(path).scops[0]
    found = dependences(scop, reads=False)
    nest = nests(scop, found)[0]
    assert nest.contraction is not None
    structure = apply(nest, (Microkernel("i", "j", 4, 16, ()),))
    assert not is_legal(structure, nest_legality(nest, found))
    assert "at the same time" in (check(scop, program_tree([Ordered.nest(structure)]), found) or "")


def test_huge_loops_are_boxes_at_once(tmp_path: Path) -> None:
    """No counting point by point, whatever the sizes; holes and slants are still seen."""
    path = tmp_path / "big.c"
    path.write_text(
        "void f(char *restrict a, const char *restrict b) {\n#pragma scop\n"
        "  for (long i = 1000000000; i > 0; i -= 3) a[i] = b[i];\n#pragma endscop\n}\n"
        "void g(char a[restrict 9][9]) {\n#pragma scop\n"
        "  for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) if (j != 4) a[i][j] = 1;\n#pragma endscop\n}\n"
        "void h(char a[restrict 9][9]) {\n#pragma scop\n"
        "  for (int i = 0; i < 9; i++) for (int j = i; j < 9; j++) a[i][j] = 1;\n#pragma endscop\n}\n"
    )
    scops = load(path).scops
    boxes = {s.function: [nest.box for nest in nests(s, dependences(s, reads=False))] for s in scops}
    assert boxes == {"f": [True], "g": [False], "h": [False]}
