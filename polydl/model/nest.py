"""A loop nest in time: what the locality analysis and the rankers look at, whatever made it."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.base.records import dataclass
from polydl.model import isl


@dataclass(frozen=True, slots=True)
class TimedAccess:
    """An access of a statement in terms of time instead of iterators."""

    statement: str
    array: str
    write: bool
    relation: isl.Map
    """{ [t0, …, tn] -> A[a…] }: anonymous domain tuple with one dimension a loop of the nest."""


@dataclass(frozen=True, slots=True)
class TimedNest:
    """A nest of loops executed in lexicographic order of time, with everything it touches."""

    loops: tuple[str, ...]
    """Loop names, outermost first, one per time dimension: `i`, or `i.0` (tile loop) and `i.1` (point loop)."""
    domain: isl.Set
    """{ [t0, …, tn] }: every time at which something executes."""
    accesses: tuple[TimedAccess, ...]
    element_bytes: Mapping[str, int]
    """sizeof of each array's element, in bytes."""
    parallel: frozenset[str] = frozenset()
    """Loops whose iterations are shared out among threads."""
