"""Consecutive statements of a program in an order of their own: what variants are put together from.

The order is either that of a nest whose loops were transformed one by one (`loops`), or the tree that `how` makes of a
region. Transforms of the tree come behind, whichever of the two it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import cast

from polydl.base.errors import IllegalVariant, InputError
from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model.scop import Statement
from polydl.schedule.as_tree import as_tree
from polydl.schedule.fusion_conditions import Group
from polydl.schedule.loops import LoopTransform, NestLoops, Rows, start
from polydl.schedule.recipe import NestRecipe
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import AnyTransform, Fuse, Merge, Schedule, Vectorize
from polydl.schedule.transforms.start_from_zero import start_from_zero
from polydl.schedule.tree import Node, TreeTransform, kernels, with_kernels


@dataclass(frozen=True)
class Ordered:
    """Consecutive statements in an order."""

    statements: tuple[Statement, ...] = field(compare=False)
    """In textual order."""
    loops: NestLoops | None = None
    """Of a nest; None: it is a region with a tree of its own."""
    how: Schedule | None = None
    """The transform that makes the tree of a region of its statements as they are written."""
    region: Node | None = field(default=None, repr=False)
    """The tree that `how` makes."""
    later: tuple[TreeTransform, ...] = ()
    """What was done to the tree."""
    into: Fuse | None = None
    """The nest that this one runs inside of, if any: it has no order of its own then."""

    @staticmethod
    def nest(loops: NestLoops) -> Ordered:
        """A nest with its loops in this order."""
        return Ordered(loops.statements, loops)

    @staticmethod
    def scheduled(statements: Sequence[Statement], how: Schedule, tree: Node) -> Ordered:
        """A region with the tree that a schedule makes of it."""
        return Ordered(tuple(statements), how=how, region=tree)

    @property
    def name(self) -> str:
        """That of the first statement."""
        return self.statements[0].name

    @property
    def rows(self) -> Rows | None:
        """How innermost loops become vector functions; None: they stay loops."""
        return next((one.rows for one in reversed(self.later) if isinstance(one, Vectorize)), None)

    @property
    def merge(self) -> Merge | None:
        """Which loops it shares with neighbours; None: none."""
        return next((one for one in self.later if isinstance(one, Merge)), None)

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """Those that lead from the statements as they are written to this, in the order of application."""
        if self.into is not None:
            return (self.into,)
        first = () if self.how is None else (self.how,)
        return (*(first if self.loops is None else self.loops.transforms), *self.later)

    @cached_property
    def recipe(self) -> NestRecipe:
        """How it came about."""
        return NestRecipe(self.name, cast("tuple[AnyTransform, ...]", self.transforms))

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The same for parts of one program that have the same tree: that of a nest follows from its recipe. As long
        as the part is there."""
        return self.recipe, id(self.region)

    @property
    def family(self) -> tuple[object, ...]:
        """What it has in common with others that differ in tiles and in the order of outer loops only."""
        shared = () if self.merge is None else (self.merge.first, self.merge.loops)
        if self.loops is not None:
            return self.into and self.into.into, self.rows, *self.loops.family, *shared
        assert self.how is not None
        return self.how.base.removesuffix("-renamed"), bool(self.how.block), self.how.unroll, self.rows, *shared

    @cached_property
    def described(self) -> str:
        """Its order, for people: the loops in one line (`NestLoops.described`), or what the schedule does."""
        if self.into is not None:
            return f"in {self.into.into}"
        shared = "" if self.merge is None else f" shares {self.merge.loops} with {self.merge.first}"
        if self.loops is not None:
            return self.loops.described + (" vectors" if self.rows else "") + shared
        assert self.how is not None
        return f"{self.name}…: {self.how.described}{', rows of vectors' if self.rows else ''}{shared}"

    @cached_property
    def tree(self) -> Node:
        """The tree that runs the statements, without what is fused into them."""
        found = self.region if self.loops is None else as_tree(self.loops)
        assert found is not None
        for transform in self.later:
            found = transform.applied(found)
        return found

    @cached_property
    def _running(self) -> dict[tuple[object, ...], tuple[Group | None, Node]]:
        """What `running` made, and the groups, by which it is known, so that they stay."""
        return {}

    def running(self, group: Group | None, zeroing: Statement | None) -> Node:
        """The tree with what is fused into its microkernel, and with the zeros that this starts from: one object for
        all variants in which they are the same, of which estimates and checks are made once. Raises IllegalVariant
        where it has no microkernel to fuse into."""
        if group is not None and (self.loops is None or self.loops.kernel is None):
            raise IllegalVariant(f"nothing can be fused into {self.name}: it has no microkernel")
        if group is None and zeroing is None:
            return self.tree
        inside = () if group is None else (group.before, group.after)
        key = tuple(tuple(id(fused.nest) for fused in several) for several in inside), zeroing and zeroing.name
        if key not in self._running:
            tree = self.tree
            if group is not None:
                tree = with_kernels(tree, {kernel: replace(kernel, group=group) for kernel in kernels(tree)})
            self._running[key] = group, tree if zeroing is None else start_from_zero(tree, zeroing)
        return self._running[key][1]

    def after(self, transform: Transform) -> Ordered:
        """This with one transform more. Raises InputError where it does not fit."""
        if isinstance(transform, TreeTransform):
            return replace(self, later=(*self.later, transform))
        if isinstance(transform, LoopTransform) and self.loops is not None and not self.later:
            return replace(self, loops=transform.applied(self.loops))
        if isinstance(transform, Fuse) and self.loops is not None:
            return replace(self, into=transform, later=())
        raise InputError(f"{type(transform).__name__} cannot be the next step of {self.name}")


def ordered(nest: Nest, transforms: Sequence[Transform]) -> Ordered:
    """The order that a recipe gives a nest. Raises InputError where a transform does not fit."""
    made = written(nest)
    for transform in transforms:
        made = made.after(transform)
    return made


def written(nest: Nest) -> Ordered:
    """The nest as it is written."""
    return Ordered.nest(start(nest))
