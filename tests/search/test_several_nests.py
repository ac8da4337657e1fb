"""Programs of several nests: their variants with shared loops, and the best one, against double precision."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import load, rank, with_fused
from polydl.search.variant import Variant
from tests.efforts import LEAST
from tests.oracle.native import QUICK_NATIVE, apart, compile_c

PROGRAMS = sorted((Path(__file__).parent / "several_nests").glob("*.c"))
SIZES = {"H": 5, "M": 77, "K": 33, "N": 65, "L": 41}
"""Odd ones: no block of a microkernel divides them."""
MERGED = 2
"""Variants with shared loops that are run."""

_PARAMETER = re.compile(r"(const )?float (\w+)((?:\[[^\]]*\])+)")


def parameters(text: str) -> list[tuple[str, bool, tuple[int, ...]]]:
    """Of each array that a function takes its name, whether it is written, and its extents."""
    head = text[text.index("void f(") : text.index("{")]
    found = []
    for const, name, extents in _PARAMETER.findall(head):
        words = re.findall(r"\[(?:restrict )?(\w+)\]", extents)
        found.append((name, not const, tuple(SIZES[word] for word in words)))
    return found


def in_double(text: str) -> str:
    """The program with doubles in place of floats."""
    return re.sub(r"\bfloat\b", "double", re.sub(r"\b(exp|sqrt)f\b", r"\1", text)).replace("void f(", "void exact(")


def code(variant: Variant, number: int) -> str:
    """The program with a variant in it, as a function of its own name."""
    text = splice(variant.program.source, [(variant.program, variant.generated)], "")
    return apart(text.replace("void f(", f"void f{number}("), f"v{number}")


def run(function: Callable[..., object], arrays: list[np.ndarray]) -> None:
    """Twice: what a first run leaves behind in static arrays may not matter."""
    for _ in range(2):
        function(*(one.ctypes.data_as(ctypes.c_void_p) for one in arrays))


@pytest.mark.parametrize(
    ("file", "threads"),
    [(file, 1 + (at + more) % 3) for at, file in enumerate(PROGRAMS) for more in range(2)],
    ids=lambda one: one.stem if isinstance(one, Path) else str(one),
)
def test_right(file: Path, threads: int) -> None:
    options = Options(machine="epyc-zen5", threads=threads, space="small", effort=LEAST)
    (scop,) = load(file, options, defines=SIZES).scops
    found = with_fused(rank(scop, options=options), options).variants
    merged = [variant for variant in found if any(part.merge is not None for part in variant.parts)]
    chosen = list({one.id: one for one in (found[0], *merged[:MERGED])}.values())
    text, defines = file.read_text(encoding="utf-8"), "".join(f"#define {k} {v}\n" for k, v in SIZES.items())
    rng = np.random.default_rng(threads)
    shapes = parameters(text)
    given = [rng.standard_normal(extents).astype(np.float32) for _, _, extents in shapes]
    exact = [one.astype(np.float64) for one in given]
    texts = [defines, in_double(text), *(code(variant, number) for number, variant in enumerate(chosen))]
    library = compile_c(texts, (*QUICK_NATIVE, "-w"))
    library.exact(*(one.ctypes.data_as(ctypes.c_void_p) for one in exact))
    for number, variant in enumerate(chosen):
        mine = [one.copy() for one in given]
        run(library[f"f{number}"], mine)
        for (name, _, _), own, wanted in zip(shapes, mine, exact, strict=True):
            error = np.abs(own - wanted).max() / np.abs(wanted).max()
            assert error < 2e-6, (name, variant.loops)
    assert merged or threads == 1 or file.stem in UNSHARED


UNSHARED = {"squeeze_excite", "transposed"}
"""Programs whose nests share no loops: rows of one are columns of the next, or hardly any work is in them."""
