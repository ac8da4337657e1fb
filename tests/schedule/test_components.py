"""Components of a graph of statements, against a closure by brute force."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from polydl.schedule.goal import components
from polydl.schedule.relations import Link


def closure(names: list[str], edges: set[tuple[str, str]]) -> dict[str, set[str]]:
    reached = {name: {name} for name in names}
    for _ in names:
        for a, b in edges:
            reached[a] |= reached[b]
    return reached


@pytest.mark.parametrize("seed", range(40))
def test_components(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"S{k}" for k in range(chance.randrange(1, 9))]
    count = chance.randrange(2 * len(names))
    edges = {(chance.choice(names), chance.choice(names)) for _ in range(count)}
    links = tuple(Link(a, b, isl.Map(f"{{ {a}[] -> {b}[] }}")) for a, b in edges)
    found = components(names, links)
    assert sorted(name for component in found for name in component) == sorted(names)
    reached = closure(names, edges)
    place = {name: number for number, component in enumerate(found) for name in component}
    for a in names:
        for b in names:
            assert (place[a] == place[b]) == (b in reached[a] and a in reached[b])
            assert b not in reached[a] or place[a] <= place[b]
    # Of several that could come next, the one whose first statement comes first in the program.
    for number, component in enumerate(found):
        left = [one for one in found[number:] if one is not component]
        ready = [one for one in left if not any(one[0] in reached[o[0]] for o in [component, *left] if o is not one)]
        assert all(names.index(component[0]) < names.index(one[0]) for one in ready)
