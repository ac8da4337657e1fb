"""Constant operands packed ahead of time: the user calls a generated function once, and every run finds the copy."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import InputError, one_of
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop, Storage
from polydl.schedule.loops import LoopTransform, NestLoops, apply
from polydl.schedule.transforms import Pack


def checked(scop: Scop, parts: Sequence[Nest], arrays: Sequence[str]) -> None:
    """Raise InputError for an array that cannot be packed ahead of time: written in the scop, not read by a
    contraction, or without an address outside of the function."""
    read = [
        operand.array
        for nest in parts
        if nest.contraction is not None
        for operand in (nest.contraction.left, nest.contraction.right)
    ]
    written = {a.array for s in scop.statements for a in s.accesses if a.write}
    for array in arrays:
        if array in written:
            raise InputError(f"'{array}' is written, so that no copy of it can be kept", scop.span)
        if read.count(array) != 1:
            why = "is read by several contractions" if read.count(array) else "is not read by a contraction"
            possible = [name for name in dict.fromkeys(read) if read.count(name) == 1 and name not in written]
            hint = one_of(array, possible) if possible else "leave out --prepack: the contractions make their copies"
            raise InputError(f"'{array}' cannot be packed ahead of time: it {why}", scop.span, hint)
        if scop.arrays[array].storage not in (Storage.PARAMETER, Storage.GLOBAL):
            raise InputError(f"'{array}' is local to '{scop.function}': it cannot be packed ahead of time", scop.span)
        name = function_name(scop, arrays, array)
        if name in scop.source.text:
            raise InputError(f"the file has a '{name}' already", scop.span, "rename it: --prepack makes that function")


def function_name(scop: Scop, arrays: Sequence[str], array: str) -> str:
    """Name of the function that packs an array."""
    return f"{scop.function}_pack" + (f"_{array}" if len(arrays) > 1 else "")


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
        wanted = [
            Pack(role, "", function_name(scop, arrays, array))
            for role in ("B", "A")
            if (array := structure.operand(role).array) in arrays
        ]
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
