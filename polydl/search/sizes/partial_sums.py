"""Sums and extremes at every size on all threads: programs in which loops of unknown length have parts of their
results, a fixed number at a time (`polydl.rewrite.partial_results`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby

from polydl.base.effort import Effort
from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.equations.step import applied
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.rewrite.partial_results import partial_in_rounds
from polydl.schedule.transforms import Vectorize
from polydl.search.candidates import as_written
from polydl.search.sizes.searched_families import Base, Candidate


def candidates_in_rounds(base: Base, effort: Effort) -> tuple[list[Candidate], list[str]]:
    """Ways to run a program whose sums and extremes are found in parts, in the order as written with loops on all
    threads; and what was left out, with the reason."""
    found: list[Candidate] = []
    left_out: list[str] = []
    for number in count():
        try:
            with quota("sums in parts for every size", effort.operations):
                one = _in_rounds(base, number)
        except (QuotaExceeded, isl.Error) as error:
            left_out.append(f"sums in parts: {error}")
            break
        if one is None:
            break
        found += [one, replace(one, parts=tuple(part.after(Vectorize()) for part in one.parts))]
    return found, left_out


def _in_rounds(base: Base, number: int) -> Candidate | None:
    steps = []
    for step in partial_in_rounds(base.scop, number):
        if step.broken() is not None:
            break
        steps.append(step)
    if not steps:
        return None
    scop = applied(base.scop, steps)
    links = dependences(scop, reads=False)
    own = Base(scop, tuple(links), nests(scop, links))
    return Candidate(own, tuple(as_written(scop, group, links, reassociate=True) for group in together(scop)))


def together(scop: Scop) -> Iterator[Sequence[Statement]]:
    """The statements of each outermost loop."""
    for _, group in groupby(scop.statements, key=lambda s: s.position[0]):
        yield tuple(group)
