"""Loops that nests share: the same results at every size, and refused where values pass between iterations."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from polydl.base.errors import IllegalVariant
from polydl.dependences.nests import nests
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.prove import prove
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.check import check
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Merge, Microkernel, Pack, Parallelize, Permute, Tile, Vectorize
from polydl.schedule.tree import Band
from polydl.schedule.tree import Sequence as InOrder
from tests.frontend.reading import scop
from tests.schedule.test_jam import functions

HEAD = """#include <math.h>
void f(int m, int n, int k, float A[restrict m][k], float B[restrict k][n], float P[restrict m][n],
       float C[restrict n][k], float D[restrict m][k])
"""
ATTENTION = """{
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) P[i][j] = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) for (int l = 0; l < k; l++) P[i][j] += A[i][l] * B[l][j];
    for (int i = 0; i < m; i++) {
        float most = P[i][0];
        for (int j = 0; j < n; j++) most = P[i][j] > most ? P[i][j] : most;
        for (int j = 0; j < n; j++) P[i][j] = most - P[i][j];
    }
    for (int i = 0; i < m; i++) for (int j = 0; j < k; j++) D[i][j] = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < k; j++) for (int l = 0; l < n; l++) D[i][j] += P[i][l] * C[l][j];
}
"""
"""Scores, something of each row, values: with integers, exact in every order."""

ROWS: dict[str, list[Transform]] = {
    "S1": [
        Tile("i", (8,)), Microkernel("i.1", "j", 4, 32, ("l",)), Permute(("i.0", "j", "i.1")), Parallelize(("i.0",)),
        Merge("S1", 1),
    ],
    "S2": [Vectorize(), Merge("S1", 1, (8,))],
    "S5": [Merge("S1", 1, (8,))],
    "S6": [
        Tile("i", (8,)), Microkernel("i.1", "j", 8, 16, ("l",)), Permute(("i.0", "j", "i.1")), Parallelize(("i.0",)),
        Merge("S1", 1),
    ],
}  # fmt: skip
"""Blocks of rows in parallel, with microkernels and vectors inside."""


def program(folder: Path, body: str = ATTENTION, sizes: tuple[int, int, int] | None = None) -> Canonical:
    head = HEAD
    if sizes is not None:
        head = "".join(f"#define {n} {v}\n" for n, v in zip("mnk", sizes, strict=True)) + HEAD.replace(
            "int m, int n, int k, ", ""
        )
    return canonical(scop(folder, head + body))


def parts_of(found: Canonical, recipes: Mapping[str, Sequence[Transform]]) -> list[Ordered]:
    return [ordered(nest, recipes.get(nest.name, ())) for nest in nests(found.scop, found.dependences)]


def refused(found: Canonical, recipes: Mapping[str, Sequence[Transform]]) -> str | None:
    return check(found.scop, program_tree(parts_of(found, recipes)), found.dependences)


def same(code: ctypes.CDLL, m: int, n: int, k: int, rng: np.random.Generator) -> bool:
    shapes = [(m, k), (k, n), (m, n), (n, k), (m, k)]
    given = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    results = []
    for name in ("before", "after"):
        own = [one.copy() for one in given]
        getattr(code, name)(m, n, k, *(one.ctypes.data_as(ctypes.c_void_p) for one in own))
        results.append(own)
    return all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))


def test_one_band_around_the_parts(tmp_path: Path) -> None:
    tree = program_tree(parts_of(program(tmp_path), ROWS))
    shared = tree.children[-1]
    assert isinstance(shared, Band) and isinstance(shared.child, InOrder)
    (member,) = shared.members
    assert set(member.affs) == {"S1", "S2", "S3", "S4", "S5", "S6"} and member.tile == 8
    assert member.called("S1") == "i.0" == member.called("S6")


def test_results_are_the_same_at_every_size(tmp_path: Path) -> None:
    found = program(tmp_path)
    tree = program_tree(parts_of(found, ROWS))
    assert check(found.scop, tree, found.dependences) is None
    made = generate(found.scop, tree)
    assert made.region.count("omp parallel") == 1 and "_row_" in made.region and made.region.count("polydl_mk") == 2
    code, rng = functions(found, made), np.random.default_rng(1)
    for m in (0, 1, 7, 8, 9, 20, 33):
        for n, k in ((1, 1), (5, 0), (16, 3), (33, 17), (20, 40)):
            assert same(code, m, n, k, rng), (m, n, k)


def test_it_is_proved(tmp_path: Path) -> None:
    found = program(tmp_path, sizes=(20, 40, 19))
    tree = program_tree(parts_of(found, {name: own for name, own in ROWS.items() if name != "S5"}))
    made = [generate(found.scop, tree, instances=named) for named in (False, True)]
    texts = [splice(found.scop.source, [(found.scop, one)], "") for one in made]
    assert prove(found, *texts).holds


def test_copies_outside_of_the_shared_loops(tmp_path: Path) -> None:
    """A copy that a nest makes before all loops is made before the loops that it shares: what it copies may not be
    written there."""
    packed = {**ROWS, "S1": [*ROWS["S1"][:-1], Pack("B", ""), ROWS["S1"][-1]]}
    found = program(tmp_path)
    assert refused(found, packed) is None
    written = {**ROWS, "S6": [*ROWS["S6"][:-1], Pack("A", ""), ROWS["S6"][-1]]}
    assert "P" in str(refused(found, written))
    inside = {**ROWS, "S6": [*ROWS["S6"][:-1], Pack("A", "i.0"), ROWS["S6"][-1]]}
    assert refused(found, inside) is None


@pytest.mark.parametrize(
    ("second", "legal"),
    [
        ("D[i][j] = P[i][j]", True),
        ("D[i][j] = P[j][i]", False),
        ("D[i][j] = P[m - 1 - i][j]", False),
        ("D[i][j] = i > 0 ? P[i - 1][j] : 0", False),
    ],
)
def test_values_stay_in_their_iteration(tmp_path: Path, second: str, legal: bool) -> None:
    """Of a loop in parallel: one iteration may not use what another makes."""
    body = "for (int i = 0; i < m; i++) for (int j = 0; j < m; j++)"
    found = program(tmp_path, f"{{ {body} P[i][j] = A[i][j] + 1; {body} {second}; }}")
    recipes = {"S0": [Parallelize(("i",)), Merge("S0", 1)], "S1": [Parallelize(("i",)), Merge("S0", 1)]}
    assert (refused(found, recipes) is None) is legal


@pytest.mark.parametrize(("second", "legal"), [("P[i - 1][j]", True), ("P[i + 1][j]", False)])
def test_a_serial_loop_may_hand_on_what_is_there(tmp_path: Path, second: str, legal: bool) -> None:
    inner = "for (int j = 0; j < n; j++)"
    found = program(
        tmp_path,
        f"{{ for (int i = 1; i < m - 1; i++) {inner} P[i][j] = 2 * P[i][j];"
        f" for (int i = 1; i < m - 1; i++) {inner} D[i][0] += {second}; }}",
    )
    assert (refused(found, {"S0": [Merge("S0", 1)], "S1": [Merge("S0", 1)]}) is None) is legal


def test_what_cannot_be_shared(tmp_path: Path) -> None:
    found = program(tmp_path)
    serial = {**ROWS, "S6": [t for t in ROWS["S6"] if not isinstance(t, Parallelize)]}
    with pytest.raises(IllegalVariant, match="parallel in one nest"):
        program_tree(parts_of(found, serial))
    with pytest.raises(IllegalVariant, match="tiled differently"):
        program_tree(parts_of(found, {**ROWS, "S2": [Merge("S1", 1, (16,))]}))
    with pytest.raises(IllegalVariant, match="no neighbour of S1"):
        program_tree(parts_of(found, {**ROWS, "S2": []}))
    with pytest.raises(IllegalVariant, match="not as many loops"):
        program_tree(parts_of(found, {"S1": [Merge("S1", 2)], "S2": [Merge("S1", 2)]}))


def test_a_recipe_says_what_is_shared(tmp_path: Path) -> None:
    recipe = Recipe(tuple(part.recipe for part in parts_of(program(tmp_path), ROWS)))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert "Merge(first=S1, loops=1, sizes=(8,))" in str(recipe)
