"""What is computed of an object that never changes, kept as long as the object lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Of = TypeVar("Of")
Found = TypeVar("Found")


def once_for_each(function: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """A function of one object, called once for each. Equal objects are different ones: to find out whether a scop
    equals another takes as long as most of what is asked of it. What it returns is shared: nobody changes it."""
    known: dict[int, tuple[weakref.ref[Of], Found]] = {}

    @wraps(function)
    def once(of: Of) -> Found:
        key = id(of)
        if key not in known:
            found = function(of)
            known[key] = weakref.ref(of, lambda _: known.pop(key, None)), found
        return known[key][1]

    return once
