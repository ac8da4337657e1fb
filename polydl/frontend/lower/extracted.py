"""What a region is read with, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polydl.base.errors import InputError
from polydl.frontend.text.pragmas import Pragma
from polydl.model.scop import Scop, Source


@dataclass(frozen=True, slots=True)
class Options:
    """What `load` was asked for."""

    source: Source
    strict_alias: bool
    pragmas: Mapping[int, Pragma]
    fast_math: bool = False
    """See `Settings.fast_math`."""
    long: str = ""
    """See `model.scop.Scop.long`."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A region as it was read, or why it is none."""

    scop: Scop | None
    """None: there are `errors`."""
    errors: tuple[InputError, ...] = ()
    """Everything that is wrong in it."""
    without_fit: tuple[InputError, ...] = ()
    """What is wrong where leading dimensions are not taken to be at least as long as rows, which linear subscripts need
    and the context of the scop then says; empty: nothing had to be taken so."""
    missing: Mapping[str, InputError] = field(default_factory=dict)
    """By name, what to say of parameters that should have a size."""
