"""The rankers by name."""

from __future__ import annotations

from polydl.errors import InputError, one_of
from polydl.rank.cost import CostRanker
from polydl.rank.ranker import Ranker
from polydl.rank.trace import TraceRanker
from polydl.rank.traffic import TrafficRanker


def available() -> dict[str, Ranker]:
    """Every ranker by name."""
    return {ranker.name: ranker for ranker in (TrafficRanker(), CostRanker(), TraceRanker())}


def named(name: str) -> Ranker:
    """The ranker called `name`. Raises InputError."""
    found = available()
    if name not in found:
        raise InputError(f"no ranker called '{name}'", hint=one_of(name, found))
    return found[name]
