"""What times of some programs say of estimates of others, where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from polydl.rank.shape_correction import Correction, Timings, fitted, shapes_of
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transforms import Fuse, Merge, Microkernel, Pack, Parallelize, Schedule, Tile, Vectorize

RNG = np.random.default_rng(1)


def recipe(m: int, *, packed: bool, loop: str = "i") -> Recipe:
    kernel = Microkernel(rows=loop, columns="j", m=m, n=16, reduce=("k",))
    return Recipe((NestRecipe("S0", (kernel, *((Pack("B", "j"),) if packed else ()), Parallelize((loop,)))),))


def problem(slower: float, memory: float, shift: float, loop: str = "i") -> Timings:
    """Blocks of 4 rows take `slower`, and what memory takes `memory` more than estimated (logarithms)."""
    recipes = [recipe(m, packed=packed, loop=loop) for m in (4, 6, 8) for packed in (False, True)]
    share = RNG.uniform(0, 1, len(recipes))
    estimates = RNG.normal(size=len(recipes))
    fours = np.array([m == 4 for m in (4, 6, 8) for _ in range(2)])
    seconds = estimates + shift + slower * fours + memory * share + RNG.normal(size=len(recipes)) * 0.005
    whole = np.exp(estimates)
    return Timings(recipes, estimates, {"memory": whole * share, "compute": whole * (1 - share)}, seconds)


def many(slower: float = 0.06, memory: float = 0.0) -> Correction:
    found = fitted([problem(slower, memory, shift, loop) for shift in (-3.0, 0.0, 5.0) for loop in "ihgfedcba"])
    assert found is not None
    return found


def test_shapes_carry_no_names_of_the_program() -> None:
    found = shapes_of(
        Recipe((NestRecipe("S0", (Tile("k", (8,)), Tile("j", (4,)), *recipe(4, packed=True).nests[0].transforms)),))
    )
    assert found == {
        "Tile": 2, "Microkernel m=4 n=16": 1, "Microkernel of 1 reduce": 1, "Pack operand=B": 1, "Parallelize": 1,
        "Parallelize of 1 loops": 1,
    }  # fmt: skip
    assert shapes_of(recipe(4, packed=True, loop="a")) == shapes_of(recipe(4, packed=True, loop="b"))
    assert shapes_of(recipe(4, packed=True)) != shapes_of(recipe(6, packed=True))


def test_every_kind_of_transform_has_a_shape() -> None:
    kinds = (Merge("S0", 2, (16,)), Fuse("S0", ("i",)), Vectorize(("i",)), Schedule("isl", (32,)))
    found = shapes_of(Recipe((NestRecipe("S0", kinds),)))
    assert found["Merge loops=2"] == found["Fuse of 1 loops"] == 1
    assert {name.split()[0] for name in found} == {type(kind).__name__ for kind in kinds}
    assert not any("S0" in name for name in found)


def test_a_block_that_is_slower_than_estimated_is_found_whatever_the_level_of_the_times() -> None:
    said = {one.name: one for one in many().factors}
    four, six = said["Microkernel m=4 n=16"], said["Microkernel m=6 n=16"]
    assert np.log(four.factor / six.factor) == pytest.approx(0.06, abs=0.02)
    assert four.variants == six.variants == 27 * 2
    assert abs(np.log(said["Pack operand=B"].factor)) < 0.01


def test_a_resource_that_is_slower_than_estimated_is_found() -> None:
    said = {one.name: one.factor for one in many(0.0, 0.1).factors}
    assert np.log(said["resource memory"] / said["resource compute"]) == pytest.approx(0.1, abs=0.03)


def test_nothing_is_added_to_the_best_and_to_what_was_never_timed_only_doubt() -> None:
    found, recipes = many(), [recipe(4, packed=False), recipe(6, packed=False), recipe(12, packed=False)]
    added = found.added(recipes, {"memory": np.ones(3)}, 1)
    assert added[1] == 0
    assert added[0] > 0.03
    assert 0 < added[2] < added[0]
    other = found.added([recipe(6, packed=False)] * 2, {"another resource": np.ones(2)}, 0)
    assert other == pytest.approx([0, 0])


def test_a_stall_of_one_run_counts_for_little() -> None:
    one = problem(0.0, 0.0, 0.0)
    one.log_seconds[0] += 50
    found = fitted([one])
    assert found is not None
    assert np.abs(found.mean).max() < 0.1


def test_the_id_is_that_of_the_content() -> None:
    few = [problem(0.1, 0.0, 0.0), problem(0.0, 0.1, 1.0)]
    first, again, other = fitted(few), fitted(few), fitted(few[:1])
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.id == again.id != other.id
    assert (first.problems, first.variants) == (2, 12)


def test_single_variants_say_nothing() -> None:
    one = Timings([recipe(4, packed=False)], np.zeros(1), {}, np.ones(1))
    assert fitted([]) is None
    assert fitted([one]) is None
