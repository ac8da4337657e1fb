"""Statements whose results nobody reads, and those that never run at these sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import Rule, Step
from polydl.model.scop import Scop, Statement, Storage


@dataclass(frozen=True, slots=True)
class LeftOut(Rule):
    """Statements that compute what nobody reads, or that have no instances, are left out.

    before:    T: x[i] = …;  S: y[i] = …            (x is dead afterwards, and no other statement reads it)
    after:     S: y[i] = …
    requires:  they have no instances, or what they write is neither live after the program nor read by a statement that
               stays
    """

    statements: tuple[str, ...]
    """Names of those that nobody reads."""
    never: tuple[str, ...] = ()
    """Names of those without instances: remainders of loops, of sizes that leave none."""

    def __str__(self) -> str:
        unread = [f"nothing reads what {name} computes: it is left out" for name in self.statements]
        return "; ".join([*unread, *(f"{name} never runs at these sizes: it is left out" for name in self.never)])


def _never_runs(statement: Statement, scop: Scop) -> bool:
    return bool(statement.domain.intersect_params(scop.context.params()).is_empty())


def without_dead(scop: Scop) -> Iterator[Step]:
    """Leave out the statements that never run, and those that write only arrays which are neither live after it nor
    read by what stays.

    The latter decision is about whole statements and arrays: when a remaining statement reads any of an array, all
    statements that write it remain.
    Arrays stay in `Scop.arrays` as far as the region's own text needs them. A scop that is dead as a whole stays as
    it is.
    """
    running = [s for s in scop.statements if not _never_runs(s, scop)]
    wanted = set(scop.live_out)
    kept: set[str] = set()
    while True:
        more = [s for s in running if s.name not in kept and any(a.write and a.array in wanted for a in s.accesses)]
        if not more:
            break
        kept |= {s.name for s in more}
        wanted |= {a.array for s in more for a in s.accesses if not a.write}
    if not kept or len(kept) == len(scop.statements):
        return
    statements = tuple(s for s in scop.statements if s.name in kept)
    used = {a.array for s in statements for a in s.accesses}
    arrays = {n: a for n, a in scop.arrays.items() if n in used or a.storage not in (Storage.REGION, Storage.SCRATCH)}
    gone = tuple(s.name for s in running if s.name not in kept)
    never = tuple(s.name for s in scop.statements if s not in running)
    yield Step(LeftOut(gone, never), scop, replace(scop, statements=statements, arrays=arrays))
