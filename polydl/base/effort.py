"""How much the search for code for all sizes may do. Counts alone, so that the same is found on every machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """How ways to run a program at every size are compared, and how many of them become code."""

    points: int
    """Sizes at which ways are compared."""
    judging: int
    """Further sizes, at which the choice among them is judged."""
    variants: int
    """Variants in one output, at most."""
    near: float
    """Mean loss over the sizes that is not worth another variant: 0.01 is 1 %."""
    characters: int
    """Of C up to which there is more of it: another variant, or microkernels for what stands around sums."""

    @property
    def sizes(self) -> int:
        """All of them."""
        return self.points + self.judging


@dataclass(frozen=True, slots=True)
class Effort:
    """How much the search for code for all sizes may do."""

    blocks: Comparison = Comparison(points=256, judging=32, variants=8, near=0.01, characters=150_000)
    """Of contractions in blocks: of a convolution's five sizes 112 points leave 9 % to the best way at others, 256
    leave 4 %."""
    points_in_vectors: int = 64
    """Sizes at which nests in vectors are compared, of which there are few ways."""
    stages: tuple[tuple[int, int], ...] = ((24, 6), (72, 3))
    """Sizes at which all ways are compared, and how many of each of them are compared at more, for the nest that takes
    longest."""
    nests_at_sizes: int = 3456
    """Nests of a program times sizes at which it is looked at: twelve nests at all sizes, more of them at fewer."""
    timed: int = 4
    """Sizes at which variants are timed, at most."""
