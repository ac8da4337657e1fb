"""Which variants are compiled and timed, in rounds: each round is chosen by what those before it took.

The estimates of a program's variants are corrected by the times of some of them (`rank.corrected`); those come next
that are expected to gain most. With times alike, the choice is the same on every machine: no clock is looked at here,
and what could be timed, and its order before anything was timed, doesn't depend on times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from polydl.base.units import difference_text
from polydl.lower.emit import Generated
from polydl.rank.corrected import Estimated, Next, timed_next
from polydl.rank.shape_correction import Correction
from polydl.search.sizes.choose import characters as length_of
from polydl.search.variant import Variant

if TYPE_CHECKING:
    from polydl.prove import Proof

ROUNDS = (2, 3)
"""Variants of the first round, and of each later one: what two compilers make in one or two turns. Replays with one
variant per round reach no more."""

LEAST_GAIN = 0.001
"""Expected gain, as a logarithm, below which nothing more is timed. It is a mean over what a variant may turn out to
take: one that gains a quarter in one of a hundred cases is still worth its second."""

_OF_FAMILY, _OF_ALL = 24, 1024
"""Variants of one family, and in all, the best by their estimates, among which it is chosen what to time."""

_LEAST = 2
"""Variants that are measured however long they are."""

_TOO_LONG = 4
"""Times the characters of all that are measured, or of the first one, beyond which another variant is none of them."""

_NO_TIME = 1e-12
"""Seconds of what is estimated to take none: these have no logarithm."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A variant that is compiled and timed, and why."""

    variant: Variant
    next: Next
    """What was expected of it."""
    after: int
    """How many were timed before."""

    @property
    def why(self) -> str:
        """For people."""
        if not self.after and self.next.gain == math.inf:
            return "the best estimate"
        seen = f"after {self.after} timings" if self.after else "by the estimates"
        gain = difference_text(math.expm1(self.next.gain))
        return f"{seen} expected to gain {gain} over the best (uncertain by {difference_text(self.next.error)})"


@dataclass
class TimingOrder:
    """The rounds of one program."""

    variants: Sequence[Variant]
    """Ranked, best first."""
    most: int
    """Variants in all rounds together."""
    characters: float = math.inf
    """Of C, from which on no more than two variants are taken; much longer ones are not, where there is another."""
    prove: Callable[[Variant], Proof] | None = None
    """Proves that a variant computes what the program does; one that is shown not to is not taken. None: none is."""
    correction: Correction | None = None
    """What times of other programs on this machine say of estimates; None: nothing does."""
    as_written: bool = False
    """Whether the program as it is written is taken by its estimate, as any other, since nothing times it beside
    them."""
    timed: list[Timed] = field(default_factory=list)
    """Those of the rounds so far."""
    proofs: dict[str, Proof] = field(default_factory=dict)
    """By the variant's id."""
    _illegal: dict[str, list[str]] = field(default_factory=dict)
    _texts: set[str] = field(default_factory=set)
    _left_out: set[int] = field(default_factory=set)
    _places: dict[str, int] = field(default_factory=dict)
    """By id of those timed, their index among the candidates."""

    def __post_init__(self) -> None:
        self._candidates = candidates(self.variants, as_written=self.as_written)
        self._known = estimated(self._candidates, self.correction)

    @property
    def illegal(self) -> tuple[str, ...]:
        """Which variants were illegal, or too much to check or to generate, with the reason."""
        return tuple(f"{_some(names)}: {reason}" for reason, names in self._illegal.items())

    @property
    def chosen(self) -> tuple[Variant, ...]:
        """The variants of the rounds so far."""
        return tuple(one.variant for one in self.timed)

    @property
    def why(self) -> dict[str, str]:
        """By id why each was timed, for people."""
        return {one.variant.id: one.why for one in self.timed}

    def more(self, seconds: Mapping[str, float]) -> Mapping[str, Generated]:
        """The C of the next round's variants, by id (`measure.session.More`). All that are left, where nothing is known
        of those that were chosen."""
        return codes_of(self.next(seconds, None if seconds else self.most))

    def next(self, seconds: Mapping[str, float], count: int | None = None) -> tuple[Variant, ...]:
        """The variants of the next round, legal and with C of their own; none: it ends, since `most` were chosen or no
        other is expected to gain anything. `seconds`: of those chosen before, by id; those without count as what was
        expected of them. `count`: of the round, at most; None: as usual (`ROUNDS`)."""
        count = (ROUNDS[-1] if self.timed else ROUNDS[0]) if count is None else count
        known = {
            place: math.log(max(seconds[name], _NO_TIME)) for name, place in self._places.items() if name in seconds
        }
        believed = {self._places[one.variant.id]: one.next.expected for one in self.timed} | known
        found: list[Variant] = []
        # Within a round each is chosen as if those before it had taken what is expected of them (Ginsbourger, Le Riche
        # and Carraro, "Kriging is well-suited to parallelize optimization", 2010, section 4.1: the kriging believer).
        while len(found) < count and len(self.timed) < self.most and not self._long_enough:
            one = timed_next(self._known, believed, self._left_out)
            if one is None or (known and one.gain < LEAST_GAIN):
                break
            variant = self._candidates[one.variant]
            if not self._takes(variant):
                self._left_out.add(one.variant)
                continue
            believed[one.variant] = one.expected
            self._places[variant.id] = one.variant
            self.timed.append(Timed(variant, one, len(known)))
            found.append(variant)
        return tuple(found)

    @property
    def _long_enough(self) -> bool:
        return len(self.timed) >= _LEAST and compiled(self.chosen) > self.characters

    def _takes(self, variant: Variant) -> bool:
        """Whether a variant can be timed and is worth it."""
        if variant.unusable is not None:
            self._illegal.setdefault(variant.unusable, []).append(variant.id)
            return False
        if variant.without_its_rows:
            return False
        chosen = self.chosen
        if chosen and compiled([variant]) > _TOO_LONG * max(self.characters, compiled(chosen[:1])):
            return False
        if variant.generated.region in self._texts:
            return False
        if self.prove is not None:
            self.proofs[variant.id] = proof = self.prove(variant)
            if proof.verdict == "wrong":
                self._illegal.setdefault(proof.reason, []).append(variant.id)
                return False
        self._texts.add(variant.generated.region)
        return True


def candidates(variants: Sequence[Variant], *, as_written: bool = False) -> list[Variant]:
    """The best of each family, in their order; the program as it is written only if `as_written`."""
    seen: dict[object, int] = {}
    found: list[Variant] = []
    for variant in variants:
        if variant.as_written and not as_written:
            continue
        family = variant.family
        seen[family] = seen.get(family, 0) + 1
        if seen[family] <= _OF_FAMILY:
            found.append(variant)
        if len(found) == _OF_ALL:
            break
    return found


def estimated(variants: Sequence[Variant], correction: Correction | None = None) -> Estimated:
    """What is known of variants before any is timed. One that is not ranked counts as the slowest of them."""
    scores = np.array([variant.score for variant in variants])
    slowest = np.max(scores, initial=_NO_TIME, where=np.isfinite(scores))
    seconds = np.maximum(np.where(np.isfinite(scores), scores, slowest), _NO_TIME)
    names = dict.fromkeys(name for variant in variants for name in variant.estimate.seconds)
    amounts = {
        name: np.nan_to_num(np.array([variant.estimate.seconds.get(name, 0.0) for variant in variants]))
        for name in names
    }
    recipes = [variant.recipe for variant in variants]
    known = Estimated.of(seconds, amounts, recipes)
    return known if correction is None else known.moved(correction.added(recipes, amounts, known.best))


def codes_of(variants: Sequence[Variant]) -> dict[str, Generated]:
    """Their C, by id."""
    return {variant.id: variant.generated for variant in variants}


def _some(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} others" if len(names) > 1 else "")


def compiled(variants: Sequence[Variant]) -> int:
    """Characters of C that a compiler reads to make each of some variants."""
    return sum(length_of([variant.generated]) for variant in variants)
