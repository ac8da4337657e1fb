"""Which variants are timed: the first ones, of several families, none of which is far from the best."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from polydl.search.shortlist import shortlist


def variant(name: str, score: float, family: str, *, text: str = "", unusable: str | None = None) -> Any:
    nests = () if name == "original" else (SimpleNamespace(transforms=("a transform",)),)
    return SimpleNamespace(
        id=name, score=score, family=family, unusable=unusable, recipe=SimpleNamespace(nests=nests),
        generated=SimpleNamespace(region=text or name, prologue=()), as_written=name == "original",
    )  # fmt: skip


def chosen(variants: list[Any], most: int = 5) -> list[str]:
    return [one.id for one in shortlist(variants, most)[0]]


def test_a_family_has_two_before_others_have_their_turn() -> None:
    same = [variant(f"a{k}", 1 + k / 100, "a") for k in range(6)]
    others = [variant("b", 1.5, "b"), variant("c", 1.9, "c")]
    assert chosen([*same, *others]) == ["a0", "a1", "b", "c", "a2"]
    assert chosen([*same, *others], 3) == ["a0", "a1", "b"]


def test_a_family_that_is_far_away_is_no_rival() -> None:
    same = [variant(f"a{k}", 1 + k / 100, "a") for k in range(6)]
    others = [variant("b", 1.5, "b"), variant("c", 2.5, "c"), variant("d", 40.0, "d")]
    assert chosen([*same, *others]) == ["a0", "a1", "b", "a2", "a3"]
    assert chosen([*same[:3], *others]) == ["a0", "a1", "b", "a2", "c"]


def test_what_is_illegal_the_same_text_or_the_original_is_left_out() -> None:
    variants = [
        variant("a", 1.0, "a"),
        variant("twin", 1.0, "a", text="a"),
        variant("wrong", 1.1, "b", unusable="a dependence"),
        variant("original", 1.2, "c"),
        variant("e", 1.3, "e"),
    ]
    assert chosen(variants) == ["a", "e"]
    assert shortlist(variants, 5)[1] == ("wrong: a dependence",)
    assert shortlist([], 5) == ((), ())
