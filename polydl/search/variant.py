"""A variant: one way to run a whole program. The only thing between a recipe and its C text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property

import msgspec

from polydl.base import html
from polydl.base.effort import Effort
from polydl.base.errors import IllegalVariant, QuotaExceeded
from polydl.base.records import dataclass
from polydl.base.units import seconds_text
from polydl.dependences.analysis import Dependence
from polydl.lower.emit import Generated, generate
from polydl.lower.splice import splice
from polydl.model.in_child import Hung, in_child
from polydl.model.scop import Scop
from polydl.model.types import BF16_WORDS
from polydl.rank.estimate import Estimate
from polydl.schedule.check import check
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.tree import Sequence, bands
from polydl.schedule.tree_check import Checked

HANG_SECONDS = Effort().child_seconds
"""Of processor time, after which making the code of tiles along diagonals is stopped, as that for other sizes is."""
MOST_HUNG = 2
"""Variants of one program whose code may be stopped; no code of tiles along diagonals is made after that."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The program that variants are made of, and the dependences that a legal one keeps."""

    scop: Scop
    """The program after its rewrites; where nests were fused before the search, the one with fused nests."""
    dependences: tuple[Dependence, ...]
    """All of the program's: a legal variant keeps their order."""
    reassociate: bool
    """Sums may be added up in another order."""
    scratch: int | None = None
    """Bytes of memory of its own that a variant may take for one thread, what threads share counted in full; None: any
    number."""
    checked: Checked = field(default_factory=dict, repr=False, compare=False)
    """What the exact check said of parts that variants have in common."""
    hung: list[str] = field(default_factory=list, repr=False, compare=False)
    """Ids of variants whose code was stopped, since isl took too long for it."""


@dataclass(frozen=True)
class Variant:
    """One way to run a program: its parts in their order, each with a schedule.

    >>> import polydl
    >>> best = polydl.rank("examples/matmul.c", "small", "epyc-zen5", threads=2)[0]
    >>> round(sum(best.estimate.seconds.values()) / best.score, 6)  # the seconds by resource add up to the score
    1.0
    >>> "void matmul(" in best.code()
    True
    """

    origin: Origin = field(repr=False, compare=False)
    recipe: Recipe
    """How the parts were made; it has no nest for the program as it is written."""
    parts: tuple[Ordered, ...]
    """In the order in which they run: transformed nests, and regions with a schedule tree of their own."""
    estimate: Estimate

    @staticmethod
    def of(origin: Origin, parts: tuple[Ordered, ...], estimate: Estimate) -> Variant:
        """The variant whose recipe is that of its parts."""
        return Variant(origin, Recipe(tuple(part.recipe for part in parts)), parts, estimate)

    @property
    def id(self) -> str:
        """The recipe's: stable from run to run."""
        return self.recipe.id

    @property
    def program(self) -> Scop:
        """The scop that the parts are of."""
        return self.origin.scop

    @property
    def score(self) -> float:
        """Predicted seconds: the sum of the estimate's."""
        return self.estimate.score

    @property
    def features(self) -> Mapping[str, float]:
        """The estimate's."""
        return self.estimate.features

    @property
    def structures(self) -> tuple[NestLoops, ...]:
        """The loops of the parts that are nests."""
        return tuple(part.loops for part in self.parts if part.loops is not None)

    @property
    def as_written(self) -> bool:
        """Whether it is the program as it is written."""
        return not any(nest.transforms for nest in self.recipe.nests)

    @property
    def scheduled(self) -> tuple[Ordered, ...]:
        """The parts that are regions with a schedule tree."""
        return tuple(part for part in self.parts if part.loops is None)

    @property
    def family(self) -> tuple[object, ...]:
        """What it has in common with variants that differ in the tiles and the order of outer loops only: fusion,
        microkernels, which of the program's loops are parallel and which one is innermost, packed operands, where
        schedules start."""
        return tuple(part.family for part in self.parts)

    @property
    def loops(self) -> str:
        """The loops in one line: `j/32* pack(B) k.0/256 i/12 | i.mk j.mk k.1`; * is parallel, / a step."""
        return "; ".join(part.described for part in sorted(self.parts, key=lambda part: part.loops is None))

    @cached_property
    def tree(self) -> Sequence:
        """Its schedule tree: that of each part, one after the other. Raises IllegalVariant (see `program_tree`)."""
        return program_tree(self.parts)

    @cached_property
    def generated(self) -> Generated:
        """Its C, made once and kept; says nothing of legality. That of tiles along diagonals is made in a process
        of its own: they may keep isl busy for minutes on few counted operations. Raises QuotaExceeded, also where isl
        was too busy with `MOST_HUNG` others of the program."""
        program, tree, hung = self.program, self.tree, self.origin.hung
        if not any(member.diagonal for band in bands(tree) for member in band.members):
            return generate(program, tree)
        if len(hung) == MOST_HUNG:
            raise QuotaExceeded(f"not made, since code of {' and '.join(hung)} was stopped")
        try:
            return generated_apart(lambda: generate(program, tree), f"code of {self.id}", seconds=HANG_SECONDS)
        except Hung:
            hung.append(self.id)
            raise

    @cached_property
    def illegal(self) -> str | None:
        """The dependence that it breaks, from the exact check of its tree; None: it is legal. Raises QuotaExceeded."""
        try:
            tree = self.tree
        except IllegalVariant as error:
            return error.reason
        of = self.origin
        return check(self.program, tree, of.dependences, reassociate=of.reassociate, checked=of.checked)

    @cached_property
    def refused(self) -> str | None:
        """Why it may not be taken: the dependence that it breaks, too much memory, or that its check is too much for
        isl. Its code is made only where its memory is bounded."""
        try:
            return self.illegal or self.too_much_memory
        except QuotaExceeded as error:
            return error.reason

    @cached_property
    def unusable(self) -> str | None:
        """Why it is not measured: `refused`, or that its code is too much for isl; None: it is legal, and its code is
        made."""
        try:
            if self.refused is None:
                _ = self.generated
            return self.refused
        except QuotaExceeded as error:
            return error.reason

    @property
    def without_its_rows(self) -> bool:
        """Whether none of the loops that were to be rows of vectors became one: it is another variant. Raises
        QuotaExceeded."""
        return not self.generated.rows and any(part.rows for part in self.parts)

    @property
    def too_much_memory(self) -> str | None:
        """Why it does not fit into `Origin.scratch`; None: it does. Raises QuotaExceeded."""
        most = self.origin.scratch
        if most is None or self.generated.memory.of_one <= most:
            return None
        return f"it takes more memory of its own for one thread than {most} bytes (--scratch)"

    def estimated(self, estimate: Estimate) -> Variant:
        """The same with an estimate; its C and what is known of its legality are kept."""
        made = replace(self, estimate=estimate)
        for name in ("tree", "generated", "illegal", "refused", "unusable"):
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name]
        return made

    def code(self) -> str:
        """The C file with this variant in the place of the original loops: what `optimize` would write, without the
        comment at its head.

        Raises IllegalVariant when the exact check finds a dependence that it breaks, QuotaExceeded.
        """
        self._check()
        return splice(self.program.source, [(self.program, self.generated)], "")

    def region(self) -> str:
        """The C statements that stand in the place of the original loops. Raises as `code` does."""
        self._check()
        return self.generated.region

    def _check(self) -> None:
        if self.illegal is not None:
            raise IllegalVariant(f"{self.id}: {self.illegal}", self.program.span)

    def __repr__(self) -> str:
        return f"<variant {self.id}, {seconds_text(self.score, 4)} predicted: {self.loops}>"

    def _repr_html_(self) -> str:
        known = {"loops": self.loops, "recipe": str(self.recipe), "score": self.score}
        notes = [html.line(note) for note in self.notes]
        features = html.facts(dict(self.features))
        return html.block(f"variant {self.id}", html.facts(known), features, *notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user: sums that are reassociated across threads, functions to call beforehand, numbers that
        count as zero."""
        summed = (
            f"reassociated: partial sums of {s.nest.name} over blocks of loop {s.summed} are added up at the end, in "
            "the same order for any number of threads (--no-reassociate forbids it)"
            for s in self.structures
            if s.summed and s.nest.accumulation is not None and s.nest.accumulation.rounds
        )
        ahead = (
            f"packed ahead of time: {p.function}(…) copies {s.operand(p.operand).array} once, and again when its "
            f"contents change; that time is not in the figures, which are of {p.function}ed(…)"
            for s in self.structures
            for p in s.packs
            if p.function
        )
        words = (
            f"denormal numbers among the bfloat16 in {s.operand(role).array} count as zero where the processor "
            "multiplies pairs of them"
            for s in self.structures
            if s.kernel is not None
            for role in ("A", "B")
            if s.operand(role).element is BF16_WORDS
        )
        return (*summed, *dict.fromkeys(ahead), *dict.fromkeys(words))


def generated_apart(made: Callable[[], Generated], what: str, *, seconds: int) -> Generated:
    """Generate code in a child process of at most so many seconds of processor time. Raises QuotaExceeded, also for
    code that takes longer."""
    text = in_child(lambda: msgspec.json.encode(made()).decode(), what, seconds=seconds)
    return msgspec.json.decode(text, type=Generated)
