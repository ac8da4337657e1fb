"""What runs at which sizes, in words and as data: for `rank`, `explain`, `optimize --json` and the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from polydl.base.units import seconds_text
from polydl.results import Optimized, Ranking
from polydl.search.sizes.code import TimedSize
from polydl.search.sizes.decision_tree import AtSizes

_HALF_A_PERCENT = 0.005


def values_text(values: Mapping[str, int]) -> str:
    """`n = 5, m = 7`."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def ranges_text(ranges: Mapping[str, range]) -> str:
    """`n = 1..4096`."""
    return ", ".join(f"{name} = {values.start}..{values.stop - 1}" for name, values in ranges.items())


def ranges_data(ranges: Mapping[str, range]) -> dict[str, list[int]]:
    """By parameter the least and the greatest value."""
    return {name: [values.start, values.stop - 1] for name, values in ranges.items()}


def stands_for(ranking: Ranking) -> str:
    """Which sizes stand for ranges, in a line; empty: there are no ranges."""
    if not ranking.ranges:
        return ""
    values = {name: ranking.scop.sizes[name] for name in ranking.ranges}
    return f"ranked for {values_text(values)}, which stands for {ranges_text(ranking.ranges)}"


def at_lines(found: AtSizes) -> Iterator[str]:
    """What runs at some sizes."""
    what = "the original loops" if found.recipe is None else f"variant {found.id}"
    where = f", where {' and '.join(found.conditions)}" if found.conditions else ""
    yield f"at {values_text(found.sizes)}: {what}{where}" + (f": {found.reason}" if found.reason else "")
    if found.recipe is not None:
        yield f"  {found.recipe}"
    if math.isfinite(found.seconds):
        behind = f"{100 * found.behind:.0f} % behind" if found.behind >= _HALF_A_PERCENT else "not behind"
        yield f"  predicted {seconds_text(found.seconds, 4)}, {behind} the best of the ways that were compared"


def size_lines(done: Optimized) -> Iterator[str]:
    """What the output runs at which sizes, and what is known of it."""
    tuned, others = done.tuned_sizes, done.other_sizes
    if not tuned:
        yield "no size is a parameter of the function: the output is for these values of the macros alone"
        return
    if done.ranking.ranges:
        yield stands_for(done.ranking)
    chosen = "the original loops" if done.chosen is None else f"variant {done.chosen.id}, tuned for these sizes"
    yield f"at {values_text(tuned)}: {chosen}"
    if isinstance(others, str):
        why = others or "an array is packed ahead, which is done for these sizes alone"
        yield f"at all other sizes: the original loops, since there is no code for every size: {why}"
        return
    yield "at all other sizes:"
    yield from (f"  {line}" for line in others.tree.lines())
    yield "legal at every size: decided from the dependences with the sizes as parameters"
    corrected = f", corrected by times: {', '.join(map(str, others.timed))}" if others.timed else ""
    yield f"chosen by estimates{corrected}"
    yield f"{100 * others.loss:.0f} % behind the best way for each size, in the mean over other sizes"


def sizes_data(done: Optimized) -> dict[str, Any]:
    """The same for JSON."""
    others = done.other_sizes
    return {
        "tuned": dict(done.tuned_sizes),
        "ranges": ranges_data(done.ranking.ranges),
        "variant": done.chosen.id if done.chosen else "original",
        "tree": None if isinstance(others, str) else others.tree.to_data(),
        "why_none": others if isinstance(others, str) else "",
        "timed_sizes": 0 if isinstance(others, str) else len(others.timed),
        "timed": [] if isinstance(others, str) else [_timed_data(one) for one in others.timed],
        "mean_loss": None if isinstance(others, str) else others.loss,
    }


def _timed_data(one: TimedSize) -> dict[str, Any]:
    return {"sizes": dict(one.sizes), "seconds": one.seconds, "original_seconds": one.original}
