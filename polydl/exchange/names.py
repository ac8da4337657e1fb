"""Names in isl's text. C identifiers such as `max`, `mod` or `exists` are words of isl's, and cannot be read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polydl.model import isl
from polydl.model.scop import Scop


def public_names(scop: Scop) -> dict[str, str]:
    """Parameters, arrays and iterators of a scop, each with the name that it goes by in isl's text: its own, or with
    underscores behind it where isl would not read that."""
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
    """Whether isl reads a name as a parameter, an iterator and a tuple."""
    try:
        isl.Set(f"[{name}] -> {{ {name}[{name}0, {name}1] : {name}0 >= {name} }}")
        isl.Set(f"{{ A[{name}] : {name} >= 0 }}")
    except isl.Error:
        return False
    return True


def map_in_public(known: isl.Map, names: Mapping[str, str]) -> isl.Map:
    """A map with its parameters, dimensions and the array that it leads to renamed."""
    array = isl.range_name(known)
    return isl.range_named(isl.renamed(known, names), names.get(array, array))
