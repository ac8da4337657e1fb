"""Recipes: which transforms, on which nest. Printable, parseable, with a stable id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from polydl.base.errors import InputError
from polydl.schedule.transforms import (
    Fuse,
    Microkernel,
    Pack,
    Parallelize,
    Permute,
    Schedule,
    Tile,
    Transform,
    Vectorize,
)

_TRANSFORMS: dict[str, type[Transform]] = {
    t.__name__: t for t in (Tile, Microkernel, Permute, Parallelize, Pack, Fuse, Schedule, Vectorize)
}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(_text(v) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return str(value)


def _left_out(of: Field[Any], value: object) -> bool:
    return bool(of.metadata.get("optional")) and value == of.default


def _transform_text(transform: Transform) -> str:
    shown = [
        f"{f.name}={_text(getattr(transform, f.name))}"
        for f in fields(transform)
        if getattr(transform, f.name) not in ("", None) and not _left_out(f, getattr(transform, f.name))
    ]
    return f"{type(transform).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class NestRecipe:
    """The transforms of one nest, in the order of their application."""

    nest: str
    """Name of the nest: that of its first statement."""
    transforms: tuple[Transform, ...]

    def __str__(self) -> str:
        return f"{self.nest}: " + " ".join(_transform_text(t) for t in self.transforms)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A variant of a scop: a recipe for each of its nests, in textual order. No nest: the original code."""

    nests: tuple[NestRecipe, ...]

    @property
    def id(self) -> str:
        """Stable identifier: the first 10 hexadecimal digits of the SHA-256 of the JSON form."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:10]

    def __str__(self) -> str:
        return "; ".join(str(n) for n in self.nests) if self.nests else "original"

    def to_json(self) -> str:
        """JSON text; `from_json` gives an equal recipe back."""
        return json.dumps(self.to_data(), sort_keys=True, separators=(",", ":"))

    def to_data(self) -> list[dict[str, Any]]:
        """The recipe as lists, dictionaries, strings and numbers."""
        return [{"nest": n.nest, "transforms": [_to_data(t) for t in n.transforms]} for n in self.nests]

    @staticmethod
    def from_json(text: str) -> Recipe:
        """Parse `to_json`'s text. Raises InputError."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"a recipe is not JSON: {error}") from error
        return Recipe.from_data(data)

    @staticmethod
    def from_data(data: object) -> Recipe:
        """Build from `to_data`'s value. Raises InputError on anything else."""
        if not isinstance(data, list):
            raise InputError("a recipe must be a list of nests")
        return Recipe(tuple(_nest_from_data(n) for n in data))


def _to_data(transform: Transform) -> dict[str, Any]:
    values = {
        f.name: getattr(transform, f.name) for f in fields(transform) if not _left_out(f, getattr(transform, f.name))
    }
    return {"transform": type(transform).__name__} | {
        k: list(v) if isinstance(v, tuple) else v for k, v in values.items()
    }


def _nest_from_data(data: object) -> NestRecipe:
    match data:
        case {"nest": str(nest), "transforms": list(transforms), **rest} if not rest:
            return NestRecipe(nest, tuple(_from_data(t) for t in transforms))
    raise InputError(f"not the recipe of a nest: {data!r}")


def _from_data(data: object) -> Transform:
    match data:
        case {"transform": str(kind), **values} if kind in _TRANSFORMS:
            return _checked(_TRANSFORMS[kind], {str(k): v for k, v in values.items()})
    raise InputError(f"not a transform: {data!r}", hint=f"known transforms: {', '.join(_TRANSFORMS)}")


def _checked(kind: type[Transform], values: Mapping[str, Any]) -> Transform:
    expected: dict[str, str] = {f.name: str(f.type) for f in fields(kind)}
    if unknown := set(values) - set(expected):
        raise InputError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    ready: dict[str, Any] = {}
    for name, value in values.items():
        match expected[name], value:
            case "tuple[int, ...]", list() if all(type(v) is int for v in value):
                ready[name] = tuple(value)
            case "tuple[str, ...]", list() if all(type(v) is str for v in value):
                ready[name] = tuple(value)
            case "bool", bool():
                ready[name] = value
            case ("int", int()) | ("str" | "str | None", str()) | ("str | None", None):
                ready[name] = value
            case _:
                raise InputError(f"{kind.__name__}.{name} cannot be {value!r}")
    try:
        return kind(**ready)
    except TypeError as error:
        raise InputError(f"{kind.__name__}: {error}") from error
