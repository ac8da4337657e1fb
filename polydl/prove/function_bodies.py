"""Shows that the bodies of generated functions do what is said of them: in every instruction set, for the very sizes
that they are called with. What is left to trust are the vector operations of the prologue, each of which is one
instruction or a few, and has tests of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polydl.prove.contracts import Contract, Meant, PackContract
from polydl.prove.integers import Unreadable
from polydl.prove.kernel_bodies import check_kernel, check_pack
from polydl.prove.printed_program import MOST_SIZES, Program
from polydl.prove.row_bodies import check_meaning, check_row, standing_for_all
from polydl.prove.word_bodies import check_converting
from polydl.target.isa import Isa, written


def check_bodies(
    program: Program, functions_of: Callable[[Isa, Sequence[str]], Mapping[str, Any]], long: str
) -> list[str]:
    """Read the bodies of all generated functions that a program calls, and say what is shown. What cannot be shown goes
    to `program.trusted`; of a function that states its meaning in C, nothing is trusted. `functions_of`: those with
    these names, and what they call, in an instruction set. `long`: the long vectors that there is code for
    (`model.scop.Scop.long`). Raises Wrong, Unreadable."""
    if not program.uses:
        return []
    unread: dict[str, str] = {}
    names = [function if isinstance(function, str) else function.name for function in program.uses]
    for isa in written(long):
        functions = functions_of(isa, names)
        for function, sizes in program.uses.items():
            try:
                every = _standing_for_all(functions, function) if function in program.often else None
                for size in sorted({*sizes, *(every or ())}):
                    _check(functions, function, isa, size)
                if every is not None:
                    continue
                if function in program.often and isinstance(function, Meant):
                    raise Unreadable(f"{function.name} is called with more than {MOST_SIZES} sizes")
                if function in program.often:
                    unread.setdefault(_said(function), f"read for {len(sizes)} of the sizes that it is called with")
            except Unreadable as error:
                if isinstance(function, Meant):
                    raise
                unread[_said(function)] = f"not read: {error}"
    for said, reason in unread.items():
        program.trusted[f"{said} ({reason})"] = None
    read = len(program.uses) - len(unread)
    bodies = "the body of the generated function does" if read == 1 else f"the bodies of {read} generated functions do"
    return [f"{bodies} what is said above {'it' if read == 1 else 'them'}, in every instruction set"] if read else []


def _standing_for_all(functions: Mapping[str, Any], function: Any) -> list[tuple[int, ...]] | None:
    """Sizes that stand for all with which a function may be called; None where it is not known to have any."""
    if not isinstance(function, str):
        return None
    try:
        return [(columns,) for columns in standing_for_all(functions, function)]
    except Unreadable:
        return None


def _check(functions: Mapping[str, Any], function: Any, isa: Isa, size: tuple[int, ...]) -> None:
    if isinstance(function, Contract) and function.product:
        raise Unreadable("it multiplies words")
    if isinstance(function, PackContract) and function.words is not None:
        check_converting(functions, function, isa, size[0], size[1:])
    elif isinstance(function, Contract):
        check_kernel(functions, function, isa, *size)
    elif isinstance(function, PackContract):
        check_pack(functions, function, isa, size[0], size[1:])
    elif isinstance(function, Meant):
        check_meaning(functions, function, isa, size)
    else:
        check_row(functions, function, isa, *size)


def _said(function: Any) -> str:
    if isinstance(function, str):
        return f"{function} runs its step once for each of its columns"
    if isinstance(function, Meant):
        return f"{function.name} does what is stated above it"
    return f"{function.name} {'computes' if isinstance(function, Contract) else 'copies'} {function.text}"
