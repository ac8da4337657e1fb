"""What all transforms have in common.

A transform is a small frozen value; a recipe is a list of them for each nest (`schedule.recipe`). Each has a file of
its own in `schedule.transforms`: what it does, what it needs, which of it are tried, and how it is applied: to the
loops of a nest (`schedule.loops.LoopTransform`), or to the tree of statements (`schedule.tree.TreeTransform`).

In JSON a transform is an object of its fields and its class's name under `transform`; fields that have their default
are left out, but for those made by `stated`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class Transform(Struct, frozen=True, tag_field="transform", tag=True, omit_defaults=True, forbid_unknown_fields=True):
    """How all of them are read and written."""


def stated(default: Any) -> Any:
    """A default that is written to JSON even so: ids of recipes are digests of the JSON, and must not change."""
    return field(default_factory=lambda: default)
