"""Fuses a scop as far as it goes, without a search: what `polydl fuse` writes, and a candidate of `optimize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.legality import Violation
from polydl.dependences.nests import Nest, nests
from polydl.model.scop import MicrokernelCall, Scop
from polydl.rewrite.chains import plan
from polydl.rewrite.conditions import Condition, Decision, Failure
from polydl.rewrite.contract import contracted
from polydl.rewrite.fusion import Rewritten, distributed, merged, sunk
from polydl.target.isa import kernel_contraction


@dataclass(frozen=True, slots=True)
class Merge:
    """Two nests that became one by loop fusion."""

    first: str
    second: str
    loops: tuple[str, ...]
    """The common ones."""
    lines: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"fused: {self.second} (line {self.lines[1]}) with {self.first} (line {self.lines[0]}) "
            f"in the loops {', '.join(self.loops)}"
        )


@dataclass(frozen=True, slots=True)
class FusedScop:
    """A scop after all fusion that is legal and useful."""

    scop: Scop
    sunk: tuple[str, ...]
    """Names of the nests into whose reductions other nests were moved."""
    merges: tuple[Merge, ...]
    decisions: tuple[Decision, ...]
    """Algorithm 3's, of every pair that was looked at."""
    contracted: tuple[str, ...]
    """Arrays whose storage is gone."""

    @property
    def changed(self) -> bool:
        return bool(self.sunk or self.merges)

    @property
    def together(self) -> tuple[tuple[str, str], ...]:
        """First and last statement of each fused nest, which loop distribution must not take apart again."""
        return tuple((names[0], names[-1]) for names in _bodies(self.scop) if len(names) > 1)

    def lines(self) -> list[str]:
        """What was decided, for people."""
        texts = [*map(str, self.decisions), *map(str, self.merges)]
        return [*texts, *(f"contracted: {name} needs no storage any more" for name in self.contracted)]


def fuse(scop: Scop, *, into: Callable[[Nest], bool] = lambda nest: True) -> FusedScop:
    """Fuse by algorithm 3 into the heavy nests that `into` accepts, then neighbouring nests loop by loop.

    Heavy nests that it refuses stay as they are, with what could move into them: a microkernel takes it.
    Raises QuotaExceeded.
    """
    found = dependences(scop, reads=False)
    parts = nests(scop, found)
    chosen = plan(parts)
    state = distributed(scop, parts)
    kept = {s.name for part in parts if _is_for_a_microkernel(scop, part) for s in part.statements}
    done: list[str] = []
    decisions = list(chosen.decisions)
    for group in chosen.groups:
        if not into(group.heavy):
            kept |= {f.nest.name for f in group.members}
            continue
        result = sunk(state, group, found)
        if isinstance(result, Violation):
            decisions = _broken(decisions, group.heavy.name, result)
            continue
        state = result
        done.append(group.heavy.name)
        kept |= {s.name for s in group.heavy.statements}
    state, merges = _merge_all(state, kept, found)
    made, gone = contracted(state.scop)
    return FusedScop(made, tuple(done), tuple(merges), tuple(decisions), gone)


def _bodies(scop: Scop) -> list[list[str]]:
    """The statements of each of the outermost loops."""
    return [[s.name for s in own] for _, own in groupby(scop.statements, key=lambda s: s.position[0])]


def _is_for_a_microkernel(scop: Scop, part: Nest) -> bool:
    if len(part.statements) == 1:
        return part.contraction is not None or isinstance(part.statements[0].body, MicrokernelCall)
    return any(isinstance(s.body, MicrokernelCall) or kernel_contraction(scop, s) is not None for s in part.statements)


def _broken(decisions: Sequence[Decision], heavy: str, why: Violation) -> list[Decision]:
    failure = Failure(Condition.BETWEEN, str(why))
    return [replace(d, failure=failure) if d.heavy == heavy and d.failure is None else d for d in decisions]


def _merge_all(state: Rewritten, kept: set[str], found: Sequence[Dependence]) -> tuple[Rewritten, list[Merge]]:
    """Neighbours fused from the first on, each into what was fused before it; those of `kept` stay alone."""
    merges: list[Merge] = []
    current: list[str] = []
    for names in _bodies(state.scop):
        if kept & set(names) or not current:
            current = [] if kept & set(names) else names
            continue
        result = _best_merge(state, current, names, found)
        if result is None:
            current = names
            continue
        loops, state = result
        first, second = state.scop.statement(current[0]), state.scop.statement(names[0])
        merges.append(Merge(first.name, second.name, loops, (first.span.line, second.span.line)))
        current = [*current, *names]
    return state, merges


def _best_merge(
    state: Rewritten, first: Sequence[str], second: Sequence[str], found: Sequence[Dependence]
) -> tuple[tuple[str, ...], Rewritten] | None:
    """The deepest legal fusion that leaves a parallel loop parallel; None when there is none or nothing is shared."""
    one, two = ([state.scop.statement(n) for n in names] for names in (first, second))
    common = {a.array for s in one for a in s.accesses} & {a.array for s in two for a in s.accesses}
    if not any(state.scop.arrays[name].extents for name in common):
        return None
    needed = min(_parallel(state.scop, first), _parallel(state.scop, second))
    for depth, result in merged(state, first, second, found):
        if _parallel(result.scop, [*first, *second]) >= min(needed, depth):
            return result.scop.statement(first[0]).iterators[:depth], result
    return None


def _parallel(scop: Scop, names: Sequence[str]) -> int:
    """Outermost loops of a nest that run in parallel, one after the other from the outside."""
    position = scop.statement(names[0]).position[0]
    found = dependences(scop, reads=False, among={s.name for s in scop.statements if s.position[0] == position})
    nest = next(n for n in nests(scop, found, contractions=False) if names[0] in {s.name for s in n.statements})
    parallel = nest_legality(nest, found).parallel_loops(nest)
    return next((d for d, i in enumerate(nest.loops) if i not in parallel), len(nest.loops))
