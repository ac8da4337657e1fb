"""Compiles C texts and calls their functions on the data of the oracle."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tests.compiling import run_compiler
from tests.oracle.interpret import Element
from tests.oracle.language import Program
from tests.oracle.render import argument_kind

PLAIN = ("-std=gnu11", "-O1", "-Wall", "-Werror=implicit-function-declaration")
"""Flags for an original: quick to compile."""
NATIVE = ("-std=gnu11", "-O1", "-fstrict-aliasing", "-march=native", "-fopenmp")
"""Flags for what polydl writes: what -O2 takes for granted, in less time."""
QUICK = ("-Og", "-fstrict-aliasing")
"""For microkernels, of which it is asked what they compute, not what a compiler makes of them: 0.6 times as long as
with -O1, which unrolls the loops that the text says are to be unrolled."""
QUICK_NATIVE = ("-std=gnu11", *QUICK, "-march=native", "-fopenmp")

_CTYPES: dict[str, type[Any]] = {"int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double}

_GUARD = 67
"""Elements before and after every array that nothing may write. Odd, so that arrays are not over-aligned either:
generated code may not assume more than the alignment of an element."""
_GUARD_VALUE = 12345

_folder = tempfile.TemporaryDirectory(prefix="polydl-oracle-")
atexit.register(_folder.cleanup)
_libraries: dict[str, ctypes.CDLL] = {}


def compile_c(texts: Sequence[str], flags: Sequence[str] = PLAIN, compiler: str = "gcc") -> ctypes.CDLL:
    """One shared library from several C texts that define functions of different names, compiled as one file.

    The same texts and flags are compiled once per process. Raises CompilerFailed.
    """
    source = "\n".join(texts)
    key = hashlib.sha256(repr((source, tuple(flags), compiler)).encode()).hexdigest()[:24]
    if key not in _libraries:
        folder = Path(_folder.name)
        c_file, library = folder / f"{key}.c", folder / f"{key}.so"
        c_file.write_text(source, encoding="utf-8")
        run_compiler([compiler, *flags, "-shared", "-fPIC", "-o", str(library), str(c_file), "-lm"])
        _libraries[key] = ctypes.CDLL(str(library))
    return _libraries[key]


def apart(text: str, mark: str) -> str:
    """A text with the names of polydl's helpers made its own, so that it can stand in one file with others."""
    text = re.sub(r"\b(_*)POLYDL_", rf"\1POLYDL_{mark.upper()}_", text)
    return re.sub(r"\b(_*)polydl_", rf"\1polydl_{mark}_", text)


def call(
    library: ctypes.CDLL,
    program: Program,
    data: Mapping[Element, int],
    *,
    function: str | None = None,
    parameters: Mapping[str, int] | None = None,
) -> dict[Element, float]:
    """Call the function of `program` (or another of the same signature) and return every element afterwards.

    `data` gives every element of every array within its extents. The values returned are ints where they are
    integral, so that they compare equal to `Trace.memory`. Raises AssertionError when the function writes outside
    its arrays.
    """
    arguments: list[object] = [ctypes.c_int(v) for v in (parameters or program.parameters).values()]
    buffers: dict[str, ctypes.Array[Any]] = {}
    for name, array in program.arrays.items():
        ctype = _CTYPES[array.ctype]
        values = [data[name, index] for index in _indices(array.extents)]
        if argument_kind(program, name) == "value":
            arguments.append(ctype(values[0]))
            continue
        guard = [_GUARD_VALUE] * _GUARD
        buffer = (ctype * (len(values) + 2 * _GUARD))(*guard, *values, *guard)
        buffers[name] = buffer
        arguments.append(ctypes.byref(buffer, _GUARD * ctypes.sizeof(ctype)))
    entry = getattr(library, function or program.name)
    entry.restype = None
    entry(*arguments)
    after: dict[Element, float] = {}
    for name, array in program.arrays.items():
        if name not in buffers:
            after[name, ()] = data[name, ()]
            continue
        contents = list(buffers[name])
        outside = contents[:_GUARD] + contents[-_GUARD:]
        assert set(outside) == {_GUARD_VALUE}, f"{entry.__name__} wrote outside {name}"
        for index, value in zip(_indices(array.extents), contents[_GUARD:-_GUARD], strict=True):
            after[name, index] = int(value) if float(value).is_integer() else value
    return after


def _indices(extents: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(e) for e in extents)))


def difference(program: Program, expected: Mapping[Element, float], got: Mapping[Element, float]) -> str:
    """'' when both hold the same values in every array of `program`, or the first few elements that differ."""
    wrong = [
        f"{name}{list(index)}: expected {expected[name, index]}, got {got[name, index]}"
        for name, array in program.arrays.items()
        for index in _indices(array.extents)
        if expected[name, index] != got[name, index]
    ]
    return "\n".join(wrong[:10])
