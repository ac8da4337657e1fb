"""Constant operands packed ahead of time: the caller has a generated function fill memory of its own once, and gives it
to every run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from polydl.base.errors import InputError, one_of
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop, Storage
from polydl.schedule.loops import LoopTransform, NestLoops, apply
from polydl.schedule.transforms import Pack


def constant_operands(scop: Scop, parts: Sequence[Nest]) -> tuple[str, ...]:
    """The arrays that the program says are constant, and that can be packed ahead of time."""
    if not scop.constants or _taken(scop):
        return ()
    return tuple(name for name in _read(parts) if name in scop.constants and _local(scop, name) is None)


def one_region_each(scops: Sequence[Scop], arrays: Sequence[str]) -> tuple[Scop, ...]:
    """The programs of a file, those that share a function without constants: what packs is named after the function.
    Raises InputError where `arrays` are to be packed in one of these."""
    functions = [scop.function for scop in scops]
    shared = [scop for scop in scops if functions.count(scop.function) > 1]
    if shared and arrays:
        why = f"'{shared[0].function}' has several regions: nothing of it can be packed ahead of time"
        raise InputError(why, shared[0].span, "put one '#pragma scop' around all of its loops")
    return tuple(replace(one, constants=frozenset()) if one in shared and one.constants else one for one in scops)


def checked(scop: Scop, parts: Sequence[Nest], arrays: Sequence[str]) -> None:
    """Raise InputError for an array that cannot be packed ahead of time: written in the scop, not read by a
    contraction, or without an address outside of the function."""
    read = _read(parts)
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    for array in arrays:
        if array in written:
            raise InputError(f"'{array}' is written, so that no copy of it can be kept", scop.span)
        if array not in read:
            possible = [name for name in read if name not in written]
            hint = one_of(array, possible) if possible else "leave it out: the contractions make their copies"
            why = f"'{array}' cannot be packed ahead of time: it is not read by a contraction"
            raise InputError(why, scop.span, hint)
        if why_not := _local(scop, array):
            raise InputError(why_not, scop.span)
    if arrays and _taken(scop):
        name = function_name(scop)
        raise InputError(
            f"the file has a '{name}…' already", scop.span, "rename it: packing ahead makes such functions"
        )


def _read(parts: Sequence[Nest]) -> list[str]:
    """The operands of contractions, each once."""
    found = [nest.contraction for nest in parts if nest.contraction is not None]
    return list(dict.fromkeys(operand.array for one in found for operand in (one.left, one.right)))


def _local(scop: Scop, array: str) -> str | None:
    """Why an array cannot be packed by the caller; None where it can."""
    if scop.arrays[array].storage not in (Storage.PARAMETER, Storage.GLOBAL):
        return f"'{array}' is local to '{scop.function}': it cannot be packed ahead of time"
    if scop.region.header is None:
        return (
            f"'{scop.function}' is declared in the old style, or returns a pointer: its operands are packed in each run"
        )
    return None


def _taken(scop: Scop) -> bool:
    """Whether the file has a name that the functions of packed operands would have."""
    return re.search(rf"\b{function_name(scop)}\w*\b", scop.source.text) is not None


def function_name(scop: Scop) -> str:
    """Name of the function that packs the constant operands of a program."""
    return f"{scop.function}_pack"


def packed_ahead(scop: Scop, nest: Nest, structures: Sequence[NestLoops], arrays: Sequence[str]) -> list[NestLoops]:
    """The structures of a nest with the arrays packed whole ahead of time, instead of where they were packed before.

    Those without a microkernel read no copies and are left as they are.
    """
    found = nest.contraction
    if found is None or not {found.left.array, found.right.array} & set(arrays):
        return list(structures)
    made: dict[tuple[LoopTransform, ...], NestLoops] = {}
    for structure in structures:
        if structure.kernel is None:
            made.setdefault(structure.transforms, structure)
            continue
        wanted = [Pack(role, "", function_name(scop)) for role in ("B", "A") if structure.operand(role).array in arrays]
        roles = {pack.operand for pack in wanted}
        kept = tuple(t for t in structure.transforms if not (isinstance(t, Pack) and t.operand in roles))
        transforms = (*kept, *wanted)
        if transforms in made:
            continue
        try:
            made[transforms] = apply(nest, transforms)
        except InputError:  # partial tiles inside another reduction: no copy has such a layout
            continue
    return list(made.values())
