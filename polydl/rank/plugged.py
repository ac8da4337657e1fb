"""Rankers of other packages: what they register under the entry-point group `polydl.rankers`.

An entry point names a class, or a function without arguments that makes a `Ranker`. Only the packages' metadata are
read until one of them is asked for by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polydl.base.errors import PolyDLError

if TYPE_CHECKING:
    from polydl.dependences.nests import Nest
    from polydl.model.scop import Scop
    from polydl.rank.ranker import Ranker, Scored
    from polydl.schedule.loops import NestLoops
    from polydl.target import Machine

GROUP = "polydl.rankers"


def installed() -> dict[str, EntryPoint]:
    """What is registered, by the name to rank with."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def origin(point: EntryPoint) -> str:
    """Where an entry point comes from: `package 1.0, module:name`."""
    package = f"{point.dist.name} {point.dist.version}, " if point.dist is not None else ""
    return f"{package}{point.value}"


def code(point: EntryPoint) -> bytes:
    """The file of an entry point's module; nothing where there is none, which `plugged` tells."""
    try:
        found = find_spec(point.module)
    except ModuleNotFoundError:
        return b""
    path = Path(found.origin) if found is not None and found.origin is not None else None
    return path.read_bytes() if path is not None and path.is_file() else b""


def plugged(point: EntryPoint) -> Ranker:
    """The ranker of an entry point. Raises PolyDLError where it cannot be imported or is no ranker; what its own code
    raises besides goes through."""
    try:
        made = point.load()()
    except (ImportError, AttributeError) as error:
        raise PolyDLError(f"the ranker '{point.name}' ({origin(point)}) cannot be loaded: {error}") from error
    if not callable(getattr(made, "rank", None)):
        raise PolyDLError(
            f"'{point.name}' ({origin(point)}) makes a {type(made).__name__}, which has no method rank",
            hint="register a class, or a function without arguments, that makes a polydl.rank.ranker.Ranker",
        )
    return PluggedRanker(point, made)


class PluggedRanker:
    """A ranker of another package; what it answers is checked."""

    def __init__(self, point: EntryPoint, made: Ranker) -> None:
        self.name = point.name
        self.origin = origin(point)
        self.made = made

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """The scores of the package's ranker. Raises PolyDLError unless there is a finite number for each structure."""
        scored = self.made.rank(scop, nest, structures, machine, threads)
        shape = np.shape(scored.scores)
        if shape != (len(structures),):
            raise PolyDLError(f"the ranker '{self.name}' ({self.origin}) scored {shape}, not ({len(structures)},)")
        if not np.isfinite(scored.scores).all():
            raise PolyDLError(
                f"the ranker '{self.name}' ({self.origin}) gave a score that is not finite",
                hint="scores of several nests are added up: give what is out of the question a large number",
            )
        return scored
