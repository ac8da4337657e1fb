"""Rectangular tiled nests, many variants at once: the input of the vectorised locality analysis.

A nest is a box of original iterations; a variant runs through it with a sequence of loops, each of which steps one
iterator by a span (the tile size at that level). Index values follow the invariant of tiling: an iterator equals the
sum of span * counter over its loops, plus the position inside the block that one time step executes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from polydl.base.records import dataclass
from polydl.model.layout import Layout

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BoxAccess:
    """An access whose subscripts are affine in the original iterators."""

    array: str
    rows: tuple[tuple[int, ...], ...]
    """Coefficient of each iterator, one row per dimension of the array."""
    offsets: tuple[int, ...]
    """Constant of each array dimension."""
    write: bool
    statement: str = "S0"

    @property
    def function(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """What the access computes, for comparing accesses of one array."""
        return self.rows, self.offsets


@dataclass(frozen=True, slots=True)
class BoxNest:
    """A perfect nest over a box: every access happens at every iteration."""

    iterators: tuple[str, ...]
    extents: tuple[int, ...]
    """Iterations of each iterator, which runs from 0."""
    accesses: tuple[BoxAccess, ...]
    element_bytes: Mapping[str, int]
    layouts: Mapping[str, Layout]
    """Where the elements of each array lie in memory. The extents of all axes but the outermost are known."""

    def __post_init__(self) -> None:
        if len(self.extents) != len(self.iterators) or any(extent < 1 for extent in self.extents):
            raise ValueError(f"each of {self.iterators} needs an extent of at least 1, got {self.extents}")
        for access in self.accesses:
            dimensions = self.layouts[access.array].rank
            if len(access.rows) != dimensions or len(access.offsets) != dimensions:
                raise ValueError(f"an access of {access.array} has {len(access.rows)} of {dimensions} dimensions")
            if any(len(row) != len(self.iterators) for row in access.rows):
                raise ValueError(f"an access of {access.array} needs a coefficient for each of {self.iterators}")

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names in order of first access."""
        return tuple(dict.fromkeys(access.array for access in self.accesses))

    def why_not_separable(self) -> str | None:
        """Why the closed forms don't apply (an iterator in two subscripts of one access); None when they do."""
        for access in self.accesses:
            for position, name in enumerate(self.iterators):
                if sum(row[position] != 0 for row in access.rows) > 1:
                    return f"{name} occurs in two subscripts of one access of {access.array}"
        return None


@dataclass(frozen=True)
class LoopBatch:
    """V variants of one nest, each a sequence of at most D loops, outermost first."""

    extents: tuple[int, ...]
    """Of the nest's iterators."""
    iterator: IntArray
    """(V, D): which iterator a loop steps; -1 where there is no loop (padding)."""
    span: IntArray
    """(V, D): original iterations that one step of the loop covers, i.e. what lies inside it; 1 in padding. The
    spans of one iterator must not grow inwards. A last span above 1 is a block that a time step executes whole."""
    parallel: BoolArray
    """(V, D): iterations of the loop are shared out among threads."""

    def __post_init__(self) -> None:
        shape = self.iterator.shape
        if self.iterator.ndim != 2 or self.span.shape != shape or self.parallel.shape != shape:
            raise ValueError(f"shapes differ: {shape}, {self.span.shape}, {self.parallel.shape}")
        if (self.iterator < -1).any() or (self.iterator >= len(self.extents)).any():
            raise ValueError("a loop steps an iterator that the nest does not have")
        if (self.span < 1).any():
            raise ValueError("spans must be at least 1")

    @classmethod
    def of(cls, nest: BoxNest, loops: list[list[tuple[int, int]]], parallel: list[set[int]] | None = None) -> LoopBatch:
        """From lists of (iterator, span), and positions of parallel loops, of each variant."""
        depth = max((len(each) for each in loops), default=0)
        iterator = np.full((len(loops), depth), -1, dtype=np.int64)
        span = np.ones((len(loops), depth), dtype=np.int64)
        shared = np.zeros((len(loops), depth), dtype=np.bool_)
        for v, each in enumerate(loops):
            for d, (index, size) in enumerate(each):
                iterator[v, d], span[v, d] = index, size
            for d in parallel[v] if parallel is not None else ():
                shared[v, d] = True
        return cls(nest.extents, iterator, span, shared)

    def __len__(self) -> int:
        return int(self.iterator.shape[0])

    @property
    def depth(self) -> int:
        return int(self.iterator.shape[1])

    def take(self, variants: slice | IntArray) -> LoopBatch:
        """Some of the variants."""
        return LoopBatch(self.extents, self.iterator[variants], self.span[variants], self.parallel[variants])

    @cached_property
    def cover(self) -> IntArray:
        """(V, D + 1, iterators): iterations that the loops at depth d and inside run over, with all outer loops at 0.

        Full tiles: the first tile is cut only where the extent is smaller than the tile.
        """
        count = len(self.extents)
        result = np.empty((len(self), self.depth + 1, count), dtype=np.int64)
        result[:, 0, :] = np.array(self.extents, dtype=np.int64)
        for d in range(self.depth):
            stepped = self.iterator[:, d, None] == np.arange(count)
            result[:, d + 1, :] = np.where(stepped, np.minimum(result[:, d, :], self.span[:, d, None]), result[:, d, :])
        return result

    @cached_property
    def trip(self) -> IntArray:
        """(V, D): iterations of a loop with all outer loops at 0; 1 in padding."""
        result = np.ones_like(self.iterator)
        for d in range(self.depth):
            inside = np.take_along_axis(self.cover[:, d, :], np.maximum(self.iterator[:, d, None], 0), axis=1)[:, 0]
            result[:, d] = np.where(self.iterator[:, d] >= 0, -(-inside // self.span[:, d]), 1)
        return result
