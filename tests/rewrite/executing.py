"""Compiling and calling C functions whose arguments are arrays of float."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.compiling import run_compiler
from tests.oracle.native import NATIVE

Floats = NDArray[np.float32]
FLAGS = (
    *NATIVE,
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
)


def compiled(folder: Path, name: str, texts: Sequence[str], flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """C texts, each a file of its own, as a library."""
    built, sources = folder / f"{name}.so", []
    for number, text in enumerate(texts):
        sources.append(folder / f"{name}_{number}.c")
        sources[-1].write_text(text)
    command = ["cc", *flags, "-shared", "-fPIC", "-o", str(built), *map(str, sources), "-lm"]
    run_compiler(command)
    return ctypes.CDLL(str(built))


def called(library: ctypes.CDLL, function: str, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """The arrays, in the order of the arguments, after a call."""
    copies = {name: values.copy() for name, values in arrays.items()}
    getattr(library, function)(*(c.ctypes.data_as(ctypes.c_void_p) for c in copies.values()))
    return copies
