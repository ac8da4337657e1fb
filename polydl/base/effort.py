"""How much is done to find fused variants and code for all sizes, and to time variants. Counts, so that the same is
found on every machine."""

from __future__ import annotations

from dataclasses import replace

from polydl.base.records import dataclass

_FEW_SIZES = 16
"""Sizes at which ways to run a program at every size are compared, however little is done."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many ways to run a program at every size are compared where, and how many of them become code."""

    points: int
    """Sizes at which they are compared."""
    judging: int
    """Further sizes, at which the choice among them is judged."""
    variants: int
    """In one output, at most."""
    near: float
    """Mean loss over the sizes that is not worth another variant: 0.01 is 1 %."""
    characters: int
    """Of C up to which there is more of it: another variant, or microkernels for what stands around sums."""

    @property
    def sizes(self) -> int:
        """All of them."""
        return self.points + self.judging

    def shorter(self, part: float) -> Comparison:
        """The same with so much of the C."""
        return replace(self, characters=round(part * self.characters))

    def at_fewer(self, part: float) -> Comparison:
        """The same at such a part of the sizes, at some of them whatever it is, with as much of the C."""
        points = max(min(self.points, _FEW_SIZES), round(part * self.points))
        judging = max(min(self.judging, _FEW_SIZES // 2), round(part * self.judging))
        return replace(self.shorter(part), points=points, judging=judging)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done to find fused variants and code for all sizes, and to time variants."""

    in_full: int = 24
    """Statements of a file (`Scop.weight`) up to which it does all that the others say; of files with more, a part in
    inverse proportion (`of_file`)."""
    ways: int = 48
    """Tilings and settings that are tried with each base schedule of a region: all of them."""
    checks: int = 40
    """Schedules of a region that are checked."""
    schedulers: int = 7
    """Settings of isl's schedulers that are asked for schedules of a region, where the space has as many."""
    least_ways: int = 6
    least_checks: int = 8
    least_first: int = 8
    """Of these, and of `first`, what is left for files of any length. They are lowered from twice `in_full` on: the
    schedules of a region are most of what a search finds."""
    fused_bases: int = 40
    """Variants of the search that are tried as the base of a fused one."""
    fused: int = 24
    """Variants with something fused, of the best bases, and half as many with regions that have schedules of their own:
    bases that differ only in loops that are cut for rows make the same text."""
    measured: int = 150_000
    """Characters of C in the variants that are compiled and timed: of long ones fewer than are asked for, two at least.
    A compiler takes a second for ten thousand of them."""
    blocks: Comparison = Comparison(points=256, judging=32, variants=8, near=0.01, characters=150_000)
    """Of contractions in blocks: of a convolution's five sizes 112 points leave 9 % to the best way at others, 256
    leave 4 %."""
    points_in_vectors: int = 64
    """In place of `blocks.points` where nests are in vectors, of which there are few ways."""
    stages: tuple[tuple[int, int], ...] = ((24, 6), (72, 3))
    """Sizes at which all ways in blocks are compared, and how many of the best at each of them are compared at more,
    for the nest that takes longest."""
    nests_at_sizes: int = 3456
    """Nests of a program times sizes at which it is looked at: twelve nests at all of `blocks.sizes`, more of them at
    fewer, and those that don't take longest at fewer still."""
    timed: int = 4
    """Sizes at which variants are timed, at most."""
    timed_weight: int = 4
    """How many times such a size counts in the choice."""
    timed_ways: int = 8
    """Of the variants that were searched, beside the original, that are timed there, at most."""
    searched: Comparison = Comparison(points=64, judging=16, variants=6, near=0.015, characters=100_000)
    """Of variants that were searched for the tuned size."""
    drawn: int = 160
    """Sizes that are drawn for them, of which some are alike or too large."""
    families: int = 8
    """Families of variants that are looked at."""
    looked_at: int = 400
    """How many of the first variants are asked for their families."""
    first: int = 10
    """Sizes at which all of these variants are compared."""
    best: int = 3
    """How many of the best at each of the first sizes are compared at the others, too."""
    statements: int = 3000
    """That are estimated at all sizes together, about: fewer sizes and variants of programs with many."""
    gain: float = 0.05
    """By how much the choice has to be faster than the original loops, in the mean: 0.05 is 5 %."""
    operations: int = 5_000_000
    """Of isl, that the check of a variant may take, that its code may, and that sums in parts may."""
    child_seconds: int = 10
    """Of processor time, after which the code of a variant is taken to hang: it takes two at most where it comes at
    all. What few counted operations of isl may take is known in no other way."""

    region_seconds: int = 20
    """Of a budget, for each region, from which on all is done for sizes that were not tuned; with fewer, a part in
    proportion (`within`)."""

    def part(self, statements: int) -> float:
        """Of what it does for few statements, what is done for so many."""
        return min(1.0, self.in_full / max(statements, 1))

    def of_file(self, statements: int) -> Effort:
        """What is done for a file of so many statements, in all of its scops together."""
        part = self.part(statements)
        if part == 1:
            return self
        names = ("fused_bases", "fused", "measured", "nests_at_sizes", "looked_at", "statements", "drawn")
        fewer = {name: max(1, round(part * getattr(self, name))) for name in names}
        half = min(1.0, 2 * part)
        fewer["ways"] = max(self.least_ways, round(half * self.ways))
        fewer["checks"] = max(self.least_checks, round(half * self.checks))
        fewer["first"] = min(self.first, max(self.least_first, round(half * self.first)))
        return replace(self, **fewer, blocks=self.blocks.shorter(part), searched=self.searched.shorter(part))

    def part_within(self, seconds: float) -> float:
        """Of what it does for sizes that were not tuned, what is done within so many seconds for each region."""
        return min(1.0, seconds / self.region_seconds)

    def within(self, seconds: float) -> Effort:
        """What is done within so many seconds for each region: code for sizes that were not tuned takes as long to
        compare, to compile and to run as it is long and as the sizes are many."""
        part = self.part_within(seconds)
        if part == 1:
            return self
        names = ("timed", "timed_ways", "drawn", "families", "looked_at", "first", "statements", "nests_at_sizes")
        least = {"timed": 1, "timed_ways": 2, "families": 2, "first": self.least_first}
        fewer = {name: max(least.get(name, 1), round(part * getattr(self, name))) for name in names}
        fewer["points_in_vectors"] = max(_FEW_SIZES, round(part * self.points_in_vectors))
        stages = tuple((max(4, round(part * some)), best) for some, best in self.stages)
        blocks, searched = self.blocks.at_fewer(part), self.searched.at_fewer(part)
        return replace(self, **fewer, stages=stages, blocks=blocks, searched=searched)
