"""A brute-force reference for polydl: random affine programs, executed and analysed by enumeration.

Shares no code with polydl, so that a mistake cannot be made twice the same way:

- `language`: the tiny language, as frozen values
- `strategy`: `programs(Limits(…))`, a hypothesis strategy
- `render`: a program as C text
- `interpret`: executes a program, recording every read and write in order
- `relations`: dependences, working sets and counts of a recorded execution
- `native`: compiles C texts and calls their functions on given data
"""

from tests.oracle.interpret import Instance, Trace, initial_data, interpret
from tests.oracle.language import Program
from tests.oracle.native import call, compile_c, difference
from tests.oracle.relations import (
    Carried,
    Pair,
    WorkingSet,
    dependences,
    distinct_elements,
    footprint,
    parallel_loops,
    points,
    working_sets,
)
from tests.oracle.render import render
from tests.oracle.strategy import Limits, programs

__all__ = [
    "Carried",
    "Instance",
    "Limits",
    "Pair",
    "Program",
    "Trace",
    "WorkingSet",
    "call",
    "compile_c",
    "dependences",
    "difference",
    "distinct_elements",
    "footprint",
    "initial_data",
    "interpret",
    "parallel_loops",
    "points",
    "programs",
    "render",
    "working_sets",
]
