"""Recipes: which transforms, on which nest. Printable, parseable, with a stable id."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from polydl.base.errors import InputError
from polydl.schedule.transforms import AnyTransform


def _text(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(_text(v) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return str(value)


def _transform_text(transform: AnyTransform) -> str:
    named: dict[str, Any] = msgspec.to_builtins(transform)
    kind = named.pop("transform")
    return f"{kind}({', '.join(f'{name}={_text(v)}' for name, v in named.items() if v not in ('', None))})"


class NestRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The transforms of one nest, in the order of their application."""

    nest: str
    """Name of the nest: that of its first statement."""
    transforms: tuple[AnyTransform, ...]

    def __str__(self) -> str:
        return f"{self.nest}: " + " ".join(_transform_text(t) for t in self.transforms)


class Recipe(msgspec.Struct, frozen=True):
    """A variant of a scop: a recipe for each of its nests, in textual order. No nest: the original code."""

    nests: tuple[NestRecipe, ...]

    @property
    def id(self) -> str:
        """Stable identifier: the first 10 hexadecimal digits of the SHA-256 of the JSON form."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:10]

    def __str__(self) -> str:
        return "; ".join(str(n) for n in self.nests) if self.nests else "original"

    def to_json(self) -> str:
        """JSON text, a list of nests; `from_json` gives an equal recipe back."""
        return msgspec.json.encode(self.nests, order="sorted").decode()

    def to_data(self) -> list[dict[str, Any]]:
        """The recipe as lists, dictionaries, strings and numbers."""
        data: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(self.nests))
        return data

    @staticmethod
    def from_json(text: str) -> Recipe:
        """Parse `to_json`'s text. Raises InputError, which says where."""
        try:
            return Recipe(msgspec.json.decode(text, type=tuple[NestRecipe, ...]))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InputError(f"not a recipe: {error}", hint="`polydl rank --json` prints recipes") from error
