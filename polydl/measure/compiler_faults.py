"""Faults of C compilers that give wrong results: for each a program that shows it, and flags that avoid it."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from polydl.base.cache import Cache, compiler_parts, key_of
from polydl.base.records import dataclass
from polydl.measure.compiler import find_compiler, run_compiler
from polydl.measure.measurement import Toolchain
from polydl.target.detect import read_processor

_KNOWN = Cache("compiler_faults", ".txt", 50)
_TIMEOUT = 60.0
"""Seconds that compiling or running a program may take."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Wrong code that some versions of a compiler make."""

    what: str
    flags: tuple[str, ...]
    """Those that avoid it."""
    program: str
    """A C program whose exit status is 1 where the compiler has the fault, else 0."""


MASKED_LOADS = Fault(
    "a load under a condition, in a loop that is vectorized around a short one that is unrolled, takes the mask of the "
    "first vector for all of them: values that the condition leaves out come from memory that was never written",
    ("-fno-tree-loop-if-convert",),
    """
float a[8][8][9], b[8][8][9], o[8][8][9];
__attribute__((noinline)) void select(const float a[8][8][9], const float b[8][8][9], float o[restrict 8][8][9])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 9; k++)
                o[i][j][k] = a[i][j][k] <= 0 ? 0 : b[i][j][k];
}
int main(void)
{
    volatile float *first = &a[0][0][0], *second = &b[0][0][0], *result = &o[0][0][0];
    for (int n = 0; n < 576; n++) first[n] = n * 7 % 11 > 5, second[n] = n % 3 + 1;
    select(a, b, o);
    for (int n = 0; n < 576; n++)
        if (result[n] != (first[n] > 0 ? second[n] : 0)) return 1;
    return 0;
}
""",
)
"""Of gcc 12.2 for AVX2 and AVX-512, with -O3."""


@cache
def avoiding(fault: Fault, toolchain: Toolchain) -> tuple[str, ...]:
    """The flags that avoid a fault with a toolchain: none if it has not got it. The program is compiled and run once
    per compiler, flags and processor. Raises ToolchainError where there is no compiler."""
    compiler = find_compiler(toolchain)
    processor = read_processor()
    parts = [fault.program, repr((toolchain.cflags, processor.vendor, processor.family, processor.model))]
    parts += [repr(sorted(processor.flags)), *map(repr, compiler_parts(toolchain.cc, ()))]
    key = key_of(parts)
    known = _KNOWN.read(key)
    if known is None:
        shown = _shows(fault, compiler, toolchain)
        known = b"faulty" if shown else b"right"
        if shown is not None:
            _KNOWN.write(key, known)
    return fault.flags if known == b"faulty" else ()


def without_fault(toolchain: Toolchain) -> Toolchain:
    """A toolchain that gets loads under conditions right: the same one where it does. Raises ToolchainError."""
    flags = tuple(flag for flag in avoiding(MASKED_LOADS, toolchain) if flag not in toolchain.cflags)
    return replace(toolchain, cflags=(*toolchain.cflags, *flags)) if flags else toolchain


def _shows(fault: Fault, compiler: str, toolchain: Toolchain) -> bool | None:
    """Whether a program shows the fault; None where it cannot be compiled or run to its end on this machine."""
    with tempfile.TemporaryDirectory(prefix="polydl-fault-") as folder:
        source, program = Path(folder, "fault.c"), Path(folder, "fault")
        source.write_text(fault.program, encoding="utf-8")
        if not run_compiler([compiler, *toolchain.cflags, "-o", program, source]).ok:
            return None
        status = subprocess.run([program], timeout=_TIMEOUT, check=False).returncode
        return {0: False, 1: True}.get(status)
