"""Names in isl's text. C identifiers such as `max`, `mod` or `exists` are words of isl's, and cannot be read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import islpy as isl

from polydl.model.isl import context
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
        isl.Set.read_from_str(context(), f"[{name}] -> {{ {name}[{name}0, {name}1] : {name}0 >= {name} }}")
        isl.Set.read_from_str(context(), f"{{ A[{name}] : {name} >= 0 }}")
    except isl.Error:
        return False
    return True


def set_in_public(known: isl.Set, names: Mapping[str, str]) -> isl.Set:
    """A set with its parameters and dimensions renamed."""
    for kind in (isl.dim_type.param, isl.dim_type.set):
        for k in range(known.dim(kind)):
            known = known.set_dim_name(kind, k, _public(known.get_dim_name(kind, k), names))
    return known


def map_in_public(known: isl.Map, names: Mapping[str, str]) -> isl.Map:
    """A map with its parameters, dimensions and the array that it leads to renamed."""
    for kind in (isl.dim_type.param, isl.dim_type.in_, isl.dim_type.out):
        for k in range(known.dim(kind)):
            known = known.set_dim_name(kind, k, _public(known.get_dim_name(kind, k), names))
    return known.set_tuple_name(isl.dim_type.out, _public(known.get_tuple_name(isl.dim_type.out), names))


def aff_in_public(known: isl.Aff, names: Mapping[str, str]) -> isl.Aff:
    """A function with its parameters and dimensions renamed."""
    for kind in (isl.dim_type.param, isl.dim_type.in_):
        for k in range(known.dim(kind)):
            known = known.set_dim_name(kind, k, _public(known.get_dim_name(kind, k), names))
    return known


def _public(name: str | None, names: Mapping[str, str]) -> str:
    return names.get(str(name), str(name))
