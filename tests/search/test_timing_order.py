"""Which variants are timed, round by round, and that what was timed decides about what comes next."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from polydl.prove import Proof
from polydl.rank.estimate import NOT_RANKED, Estimate
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transforms import Parallelize, Permute, Tile
from polydl.search.timing_order import ROUNDS, TimingOrder, candidates


def variant(
    name: str, score: float, tile: int = 8, loop: str = "i", *, text: str = "", unusable: str | None = None,
    original: bool = False, rowless: bool = False,
) -> Any:  # fmt: skip
    """A variant with tiles of a loop that is parallel."""
    transforms = (Tile("k", (tile,)), Permute((loop, "k.0", "k.1")), Parallelize((loop,)))
    estimate = Estimate({"compute": score}) if math.isfinite(score) else NOT_RANKED
    return SimpleNamespace(
        id=name, score=estimate.score, estimate=estimate, family=loop, unusable=unusable,
        recipe=Recipe(() if original else (NestRecipe("S0", transforms),)),
        generated=SimpleNamespace(region=text or name, prologue=()), as_written=original,
        without_its_rows=rowless,
    )  # fmt: skip


def names(some: Any) -> list[str]:
    return [one.id for one in some]


def alike(count: int) -> list[Any]:
    """Variants that differ in their tiles, and two with another parallel loop, which are estimated to be slower."""
    same = [variant(f"a{k}", 1 + k / 1000, 8 << k) for k in range(count)]
    return [*same, variant("b", 1.06, 8, "j"), variant("c", 1.07, 16, "j")]


def test_the_best_estimate_comes_first_and_others_of_its_kind_not_all_at_once() -> None:
    order = TimingOrder(alike(6), 5)
    first, second = names(order.next({}))
    assert (first, order.why[first]) == ("a0", "the best estimate")
    assert second in ("b", "c")
    assert order.why[second].startswith("by the estimates expected to gain ")


@pytest.mark.parametrize(("slower", "expected"), [(1, {f"a{k}" for k in range(1, 6)}), (0, {"b", "c"})])
def test_what_was_timed_decides_what_comes_next(slower: int, expected: set[str]) -> None:
    order = TimingOrder(alike(6), 3)
    first = order.next({})
    (found,) = order.next({one.id: 1.2 if k == slower else 1.0 for k, one in enumerate(first)})
    assert found.id in expected
    assert order.why[found.id].startswith("after 2 timings expected to gain ")


def test_rounds_end_with_the_number_asked_for_and_are_the_same_for_the_same_times() -> None:
    def rounds() -> list[list[str]]:
        order, found = TimingOrder(several, 7), []
        while some := order.next({one.id: one.score * 0.95**k for k, one in enumerate(order.chosen)}):
            found.append(names(some))
        return found

    several = [variant(f"{loop}{k}", 1 + k / 100, 8 << k, loop) for k in range(4) for loop in "ijlmn"]
    first = rounds()
    assert [len(one) for one in first] == [ROUNDS[0], ROUNDS[1], 2]
    assert rounds() == first
    assert len({name for one in first for name in one}) == 7


def test_it_ends_when_nothing_more_is_to_be_gained() -> None:
    order = TimingOrder([variant("a", 1.0), variant("slow", 40.0, 16, "j"), variant("slower", 50.0, 32, "k")], 3)
    assert names(order.next({}, 1)) == ["a"]
    assert order.next({"a": 1.0}) == ()


def test_without_times_of_a_round_the_next_follows_the_estimates() -> None:
    by_times, blind = TimingOrder(alike(6), 5), TimingOrder(alike(6), 5)
    assert names(by_times.next({})) == names(blind.next({}))
    assert len(by_times.more({})) == 3  # all that are left, not a round
    assert len(blind.next({}, 5)) == 3


def test_what_is_illegal_has_the_same_text_or_is_the_original_is_left_out() -> None:
    variants = [
        variant("a", 1.0),
        variant("twin", 1.0, 16, text="a"),
        variant("wrong", 1.1, 8, "j", unusable="a dependence"),
        variant("wrong too", 1.1, 16, "j", unusable="a dependence"),
        variant("original", 0.5, original=True),
        variant("rowless", 0.9, 64, rowless=True),
        variant("e", 1.3, 32, "j"),
        variant("not ranked", math.nan, 64, "j"),
    ]
    order = TimingOrder(variants, 5)
    assert sorted(names(order.next({}, 5))) == ["a", "e", "not ranked"]
    assert order.illegal in (("wrong and 1 others: a dependence",), ("wrong too and 1 others: a dependence",))
    empty = TimingOrder([], 5)
    assert (empty.next({}), empty.illegal, empty.more({})) == ((), (), {})


def test_what_is_shown_to_be_wrong_is_not_timed_and_another_one_is() -> None:
    def prove(one: Any) -> Proof:
        return Proof("wrong", (), reason="another value") if one.id == "a0" else Proof("open", ())

    order = TimingOrder(alike(3), 2, prove=prove)
    assert len(order.next({})) == 2
    assert "a0" not in order.why
    assert order.illegal == ("a0: another value",)
    assert order.proofs.keys() == {"a0", *order.why}


def test_of_each_family_the_best_are_candidates() -> None:
    many = [variant(f"a{k}", 1 + k / 1000, 1 + k) for k in range(100)]
    found = names(candidates([*many, variant("b", 2.0, 8, "j")]))
    assert found[0] == "a0"
    assert found[-1] == "b"
    assert len(found) < 50


def test_the_program_as_it_is_written_is_taken_where_nothing_else_times_it() -> None:
    variants = [variant("own", 1.0, loop="o", original=True), variant("a", 2.0), variant("b", 3.0, loop="j")]
    assert names(TimingOrder(variants, 1).next({})) == ["a"]
    assert names(TimingOrder(variants, 1, as_written=True).next({})) == ["own"]
    slower = [variant("a", 0.5), variants[0]]
    assert names(TimingOrder(slower, 1, as_written=True).next({})) == ["a"]
