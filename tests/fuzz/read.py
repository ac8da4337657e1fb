"""Scops of random programs beside their C, both interpreted: which write each read sees, and what is computed."""

from __future__ import annotations

from pathlib import Path

from polydl.base.errors import InputError
from polydl.frontend import load
from polydl.oracle.fillings import fillings
from polydl.oracle.scop_compared import Verdict
from tests.fuzz.parts import Program
from tests.fuzz.written import Fault, Refused
from tests.oracle.comparing import best, prepared

_SIZES = (4, 3, 5)
MISREAD = "misread"


def misread(program: Program, mark: str, path: Path, number: int) -> Fault | None:
    """How a region of a program was read as something else; None: it was not, as far as it can be told at one setting
    that `number` decides. Raises Refused."""
    path.write_text(program.called(mark))
    try:
        scops = load(path, require_sizes=False).scops
    except InputError as error:
        raise Refused(str(error)) from error
    sizes = {size.name: _SIZES[(number + at) % 3] for at, size in enumerate(program.sizes) if not size.macro}
    every = fillings(bound=3)
    for scop in scops:
        found = best(prepared(scop), every[number % len(every)], sizes)
        if found.verdict is Verdict.DIFFERENT:
            return Fault(MISREAD, f"the region of {scop.function}", str(found.difference))
    return None
