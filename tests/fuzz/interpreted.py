"""Random programs in the reference interpreter of C, on the data of their calls: whether they are free of undefined
behaviour, and what they compute."""

from __future__ import annotations

import subprocess
from functools import lru_cache

import numpy as np
from pycparser import c_ast

from polydl.oracle.c_program import CProgram, parse
from polydl.oracle.interpreter import Memory, Pointer, call
from tests.fuzz.calls import Case, Values, dtype, filled
from tests.fuzz.parts import Program

STEPS = 400_000
_HERE = c_ast.ID("argument")


@lru_cache(maxsize=64)
def _parsed(text: str) -> CProgram:
    words = ["gcc", "-E", "-P", "-xc", "-"]
    return parse(subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout)


def interpreted(program: Program, case: Case) -> list[Values]:
    """Every array after a call, and what is returned, as `calls.call` has it.

    Raises Undefined, StepLimit, Unsupported (polydl.oracle.c_verdicts).
    """
    memory, objects = Memory(), []
    mark = "_0"
    arguments: list[int | Pointer] = [case.sizes[s.name] for s in program.sizes if not s.macro]
    for number, array in enumerate(program.arrays):
        before = filled(array, max(array.elements().value(case.sizes), 0), case, number, program.exact)
        there = memory.new(array.name, before.nbytes)
        if before.nbytes:
            there.write(0, before.tobytes(), _HERE)
        objects.append((there, before.dtype))
        if array.style == "pointers" and len(array.dims) == 2:
            rows, width = (dim.value(case.sizes) for dim in array.dims)
            table = memory.new(f"{array.name} rows", 8 * rows)
            for row in range(rows):
                place = Pointer(there, row * width * before.dtype.itemsize)
                table.store("p8", 8 * row, place, _HERE)
            arguments.append(Pointer(table, 0))
        else:
            arguments.append(Pointer(there, 0))
    done = call(_parsed(program.called(mark)), f"f{mark}", arguments, memory, steps=STEPS)
    after = [np.frombuffer(there.content(0, there.size), kind).copy() for there, kind in objects]
    if program.result is not None:
        after.append(np.array([done.value], dtype=dtype(program.result)))
    return after
