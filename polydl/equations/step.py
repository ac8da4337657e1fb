"""A rewrite of a program as a value: what it did, and a check that the program computes the same afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Protocol, TypeVar

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.equations.equality import Instances, check
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement


class Rewrite(Protocol):
    """What was done to a program; its text says it to people."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """Why `after` is not shown to compute what `before` computes; None: it does.

        Decided from both programs alone, by their instances, accesses and order, whoever made `after`. Raises
        QuotaExceeded.
        """


class Rule:
    """A rewrite that is checked by what is checked of every other: the values that the programs leave behind."""

    __slots__ = ()

    @property
    def regroups(self) -> bool:
        """Whether it needs leave to reassociate."""
        return False

    def instances(self, before: Scop) -> Instances:
        """What the check may assume first (`check`): where the instances were of statements that have got other names
        or iterations."""
        return {}

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `Rewrite.broken`."""
        return check(before, after, reassociate=self.regroups, instances=self.instances(before))


class RegroupingRule(Rule):
    """One that needs leave to reassociate."""

    __slots__ = ()

    @property
    def regroups(self) -> bool:
        """See `Rule.regroups`."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RegroupingOnLeave(Rule):
    """One that keeps the order of the terms of a sum where there is no leave to reassociate."""

    reassociate: bool

    @property
    def regroups(self) -> bool:
        """See `Rule.regroups`."""
        return self.reassociate


class Remade:
    """A rewrite of some statements that is checked by making the program once more, from nothing but what it says."""

    __slots__ = ()

    statements: tuple[str, ...]

    def made(self, before: Scop) -> Scop | str:
        """The program afterwards, or why it is none that computes the same. Raises QuotaExceeded."""
        raise NotImplementedError

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `Rewrite.broken`."""
        names = ", ".join(self.statements)
        with quota(f"the parts of {names}"):
            made = self.made(before)
        if isinstance(made, str):
            return made
        same = after.statements == made.statements and after.arrays == made.arrays
        return None if same else f"more than {names} was changed"


@dataclass(frozen=True, slots=True)
class Step:
    """A rewrite with the programs on both sides of it."""

    rewrite: Rewrite
    before: Scop
    after: Scop
    _why: list[str | None] = field(default_factory=list, init=False, repr=False, compare=False)
    """What the check said, once it was asked."""

    def broken(self) -> str | None:
        """See `Rewrite.broken`; also where the check takes isl too long."""
        if not self._why:
            try:
                self._why.append(self.rewrite.broken(self.before, self.after))
            except QuotaExceeded as error:
                self._why.append(error.reason)
        return self._why[0]

    def __str__(self) -> str:
        return str(self.rewrite)


def itself(statement: Statement) -> isl.Map:
    """{ S[i…] -> S[i…] }"""
    return isl.Map.identity(statement.domain.get_space().map_from_set()).intersect_domain(statement.domain)


def applied(scop: Scop, steps: Iterable[Step]) -> Scop:
    """The program after the last step; the program itself where there is none."""
    for step in steps:
        scop = step.after
    return scop


Choice = TypeVar("Choice")


def one_by_one(scop: Scop, choices: Iterable[Choice], made: Callable[[Scop, Choice], Step | None]) -> Iterator[Step]:
    """A step `made` for each choice, one after the other, of those that hold. Raises QuotaExceeded."""
    for choice in choices:
        step = made(scop, choice)
        if step is not None and step.broken() is None:
            yield step
            scop = step.after


def together(
    scop: Scop,
    found: Sequence[Choice],
    nest_of: Callable[[Choice], int],
    made: Callable[[Scop, Sequence[Choice]], Step | None],
) -> Iterator[Step]:
    """What holds of things done together: a step `made` for all at once, or else for those of each nest, or else for
    each alone. Raises QuotaExceeded."""
    waiting = [found] if found else []
    while waiting:
        some = waiting.pop(0)
        step = made(scop, some)
        if step is not None and step.broken() is None:
            yield step
            scop = step.after
        elif len(some) > 1:
            nests = [[one for one in some if nest_of(one) == nest] for nest in sorted(set(map(nest_of, some)))]
            waiting = [*(nests if len(nests) > 1 else [[one] for one in some]), *waiting]


def in_turn(
    scop: Scop, candidates: Callable[[Scop, Collection[Remade], Collection[str]], Iterator[Remade]]
) -> Iterator[Step]:
    """What is proposed first, again and again; `candidates` are told what was tried, and which statements are new by
    it. Raises QuotaExceeded."""
    tried, new = list[Remade](), set[str]()
    while (found := next(candidates(scop, tried, new), None)) is not None:
        tried.append(found)
        made = found.made(scop)
        if isinstance(made, Scop):
            new |= {s.name for s in made.statements} - {s.name for s in scop.statements}
            yield Step(found, scop, made)
            scop = made
