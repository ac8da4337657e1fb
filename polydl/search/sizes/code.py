"""What runs at sizes that were not tuned: `EverySize`, and what it is made of and for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from polydl.base.effort import Effort
from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import Nest, nests
from polydl.lower.emit import Generated
from polydl.lower.guarded_pieces import Narrowed, where_all_runs
from polydl.model.scop import Scop
from polydl.rank.ranker import FloatArray
from polydl.rewrite.canonical import Canonical, canonical, kept_as_written
from polydl.schedule.recipe import Recipe
from polydl.search.sizes.decision_tree import SizeTree
from polydl.target import Machine

if TYPE_CHECKING:
    from polydl.prove import Proof


@dataclass(frozen=True, slots=True)
class Timer:
    """Times code for any size beside the original loops."""

    sizes: Sequence[Mapping[str, int]]
    """At which it is to be timed in any case: a value for each integer parameter of the function."""
    seconds: Callable[[Mapping[int, Generated], Sequence[Mapping[str, int]]], FloatArray]
    """Seconds (1 + V, Q) of the original loops and of several pieces of code, in their order, at some sizes; NaN where
    there are none."""
    quick: Callable[[Mapping[str, int]], bool] = lambda sizes: True
    """Whether a run at some sizes is so short that it may be timed."""


@dataclass(frozen=True, slots=True)
class TimedSize:
    """What was timed at a size that was not tuned."""

    sizes: Mapping[str, int]
    seconds: float
    """Of what runs there."""
    original: float
    """Of the loops as they are written."""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.original / self.seconds:.2f}x at {values}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What code for all sizes is made for."""

    machine: Machine
    threads: int
    reassociate: bool = True
    """Sums may be added up in another order."""
    instances: bool = False
    """The code is made with the marks that a proof reads as well."""
    effort: Effort = field(default_factory=Effort)
    """What bounds the search."""


@dataclass(frozen=True, slots=True)
class Symbolic:
    """A program with its sizes as parameters, in the form in which it is searched."""

    read: Scop
    """As the front end made it."""
    narrowed: Narrowed
    """For the sizes at which all of it runs."""
    program: Canonical
    nests: tuple[Nest, ...]

    @staticmethod
    def of(read: Scop, *, reassociate: bool = True) -> Symbolic:
        """A program as the front end made it. Raises QuotaExceeded."""
        narrowed = where_all_runs(read)
        program = canonical(narrowed.scop, reassociate=reassociate)
        return Symbolic(read, narrowed, program, nests(program.scop, program.dependences))

    @property
    def out_of_form(self) -> tuple[str, ...]:
        """Why contractions have not the form that microkernels have, where a rewrite is about them, for people."""
        try:
            whys = [kept_as_written(self.program.scop, nest.statements[0]) for nest in self.nests if nest.contraction]
        except QuotaExceeded as error:
            whys = [error.reason]
        return tuple(why for why in whys if why is not None)


def counted(left_out: Iterable[str]) -> tuple[str, ...]:
    """Why variants were left out, for people: each reason once, with how many there were."""
    return tuple(why if number == 1 else f"{why} ({number} variants)" for why, number in Counter(left_out).items())


@dataclass(frozen=True, slots=True)
class EverySize:
    """What runs at sizes that were not tuned."""

    generated: Generated
    """Its C."""
    recipes: tuple[Recipe, ...]
    """How the nests are scheduled: for small sizes first."""
    loss: float
    """By how much the choice is slower than the best way for each size by the estimates, in the mean over sizes that
    the choice was not made with: 0.02 is 2 %."""
    tree: SizeTree
    """Which variant runs at which sizes."""
    kind: str
    """What the variants are, for people."""
    marked: Generated | None = None
    """With `Setting.instances`: its C with lines that say which instances run (polydl.lower.instance_marks)."""
    rewritten: tuple[Scop, ...] = ()
    """The program with nests fused, where code is of that."""
    proof: Proof | None = None
    """What was shown of it, where this was asked for."""
    timed: tuple[TimedSize, ...] = ()
    """Where variants were timed, by which the estimates were corrected."""
    limited: str = ""
    """What was compared at fewer sizes (`Effort`) or has no microkernel, for people; empty: nothing."""
    left_out: tuple[str, ...] = ()
    """Why variants that would have been among them are not, for people."""

    def beside(self, code: Generated) -> Generated:
        """Code for some sizes with this for the others."""
        prologue = tuple(dict.fromkeys((*code.prologue, *self.generated.prologue)))
        return replace(code, prologue=prologue, otherwise=self.generated.region)

    @property
    def shown(self) -> str:
        """What its proof came to, in a line for people; empty without one."""
        if self.proof is None:
            return ""
        if not self.proof.holds:
            return f"not proved for other sizes: {self.proof.reason}"
        granted = len(self.proof.trusted)
        return f"proved for all sizes{f' ({granted} assumptions in the head of the output)' if granted else ''}"

    def __str__(self) -> str:
        parts = [f"{len(self.recipes)} {self.kind}, {100 * self.loss:.0f} % behind the best for each by estimate"]
        parts += [f"timed: {', '.join(map(str, self.timed))}"] if self.timed else []
        parts += [self.limited] if self.limited else []
        parts += [f"left out: {'; '.join(self.left_out)}"] if self.left_out else []
        return "; ".join(parts)
