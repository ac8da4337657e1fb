"""The space of a nest's variants: which transforms are tried, and why nothing else.

Every choice is one of: a register block for the microkernel, which reductions run inside it, tile sizes, an order of
the loops, and which loops run in parallel. Only legal structures come out (variants.legality).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polydl.codegen.microkernel import RegisterBlock
from polydl.errors import IllegalVariant, InputError
from polydl.variants.legality import NestLegality, is_legal
from polydl.variants.nests import Nest
from polydl.variants.recipe import NestRecipe
from polydl.variants.structure import Structure, apply
from polydl.variants.transforms import Microkernel, Parallelize, Permute, Tile, Transform


@dataclass(frozen=True, slots=True)
class Space:
    """How far the space reaches."""

    name: str
    blocks: int
    """Register blocks tried per pair of rows and columns loops."""
    tile_sizes: tuple[int, ...]
    """Candidate tile sizes, in iterations of the loop."""
    tiled_at_once: int
    """Loops tiled in the same variant, at most."""
    levels: int
    """Nested tile loops per loop, at most."""
    limit: int
    """Variants generated per nest, at most; what is left out is counted."""


SPACES = {
    "small": Space("small", 1, (), 0, 0, 200),
    "default": Space("default", 4, (32, 128, 512), 2, 1, 20_000),
    "wide": Space("wide", 8, (8, 16, 32, 64, 128, 256, 512, 1024), 3, 2, 200_000),
}
