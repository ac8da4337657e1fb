"""Renames C identifiers that isl cannot read back: `max`, `mod` or `exists` are words of its notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polydl.model import isl
from polydl.model.scop import Scop


def public_names(scop: Scop) -> dict[str, str]:
    """The name in isl's notation of each parameter, array and iterator of a scop: its own, with underscores appended
    where isl could not read it."""
    iterators = (name for statement in scop.statements for name in statement.iterators)
    return _readable(dict.fromkeys((*scop.parameters, *scop.arrays, *iterators)))


def _readable(names: Iterable[str]) -> dict[str, str]:
    taken = set(names)
    found = {}
    for name in names:
        public = name
        while not _reads(public):
            public += "_"
            while public in taken:
                public += "_"
        taken.add(public)
        found[name] = public
    return found


def _reads(name: str) -> bool:
    """Whether isl accepts a name for a parameter, an iterator and a tuple."""
    try:
        isl.Set(f"[{name}] -> {{ {name}[{name}0, {name}1] : {name}0 >= {name} }}")
        isl.Set(f"{{ A[{name}] : {name} >= 0 }}")
    except isl.Error:
        return False
    return True


def map_in_public(known: isl.Map, names: Mapping[str, str]) -> isl.Map:
    """A map with its parameters, its dimensions and the array in its range renamed."""
    array = isl.range_name(known)
    return isl.range_named(isl.renamed(known, names), names.get(array, array))
