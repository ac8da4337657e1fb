"""The calls of an output and of its source in the reference interpreter of C: where a compiler makes code for another
machine, or for instructions that this one has not. What is interpreted is C and vectors of GNU C: the loops, the calls
of rows, what they do lane by lane; functions of single instructions are left out."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from polydl.measure.check_job import INTERPRETED, Call, CannotRun, Outcome, Side
from polydl.oracle.c_program import CProgram, parse
from polydl.oracle.c_verdicts import StepLimit, Undefined, Unsupported
from polydl.oracle.interpreter import Memory, Obj, Pointer, call

_STEPS = 30_000
"""Statements of one call of the source; others are left out."""
_MORE = 20
"""How many times more an output may take: lanes are taken apart."""
_MOST = 1_000_000
"""Of all calls: some seconds."""
_INSTRUCTIONS = (
    "__SSE2__", "__AVX2__", "__FMA__", "__AVX512F__", "__AVX512BW__", "__AVX512DQ__", "__AVX512VL__", "__AVX512BF16__",
    "__AVX512VNNI__", "__AVX512FP16__", "__AVXVNNI__", "__AMX_TILE__", "__F16C__", "__ARM_NEON", "__ARM_FEATURE_SVE",
    "__ARM_FEATURE_BF16", "__ARM_FEATURE_DOTPROD", "__ARM_FEATURE_MATMUL_INT8", "__ARM_FEATURE_SVE_MATMUL_INT8",
)  # fmt: skip
"""What outputs ask for before they use instructions by their names."""


def run(
    compiler: str, flags: Sequence[str], source: str, output: str, calls: Sequence[Call]
) -> list[Mapping[Side, Outcome] | None]:
    """How each call ended; None: it took too many steps. `source` and `output` are C with a function
    `polydl_check_NUMBER(frame)` for the function of each call. Raises CannotRun."""
    undefined = [f"-U{name}" for name in _INSTRUCTIONS]
    programs = []
    for text in (source, output):
        command = [compiler, "-E", *flags, *undefined, "-x", "c", "-"]
        done = subprocess.run(command, input=text.encode("utf-8", "surrogateescape"), capture_output=True, check=False)
        if done.returncode != 0:
            raise CannotRun(f"it cannot be preprocessed: {done.stderr.decode(errors='replace').strip()}")
        try:
            programs.append(parse(done.stdout.decode("utf-8", "surrogateescape")))
        except Unsupported as error:
            raise CannotRun(f"it is not interpreted: {error.message}") from error
    found: list[Mapping[Side, Outcome] | None] = []
    left = _MOST
    for one in calls:
        if left <= 0:
            found.append(None)
            continue
        try:
            mine, steps = _outcome(programs[0], one, _STEPS)
            theirs, more = _outcome(programs[1], one, _MORE * max(steps, 1000)) if mine.ran else (mine, 0)
        except StepLimit:
            left -= _STEPS
            found.append(None)
            continue
        except Unsupported as error:
            raise CannotRun(f"it is not interpreted: {error.message}") from error
        left -= steps + more
        # How far roundings carry is not known: as little as a few operations may differ by is allowed.
        found.append({Side.SOURCE: mine, Side.OUTPUT: theirs, Side.UPWARD: mine, Side.DOWNWARD: mine})
    return found


def _outcome(program: CProgram, one: Call, steps: int) -> tuple[Outcome, int]:
    """How a call ended, and the steps it took. Raises StepLimit, Unsupported."""
    memory = Memory()
    objects = [memory.new(block.name, len(block.data)) for block in one.objects]
    here = program.functions[f"polydl_check_{one.function}"].node
    for made, block in zip(objects, one.objects, strict=True):
        if block.data:
            made.write(0, block.data, here)
        for offset, to, place in block.pointers:
            made.store("p8", offset, Pointer(None, 0) if to < 0 else Pointer(objects[to], place), here)
    try:
        ran = call(program, f"polydl_check_{one.function}", [Pointer(objects[0], 0)], memory, steps=steps)
    except Undefined as error:
        return Outcome(False, INTERPRETED, True, None, f"{error.place}: runtime error: {error.message}", ()), 0
    return Outcome(True, 0, True, None, "", tuple(map(_content, objects))), ran.steps


def _content(made: Obj) -> bytes:
    return bytes(made.content(0, made.size))
