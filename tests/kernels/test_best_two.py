"""The best two values of a row: what C finds, of every type, at every length, from any start."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels.best_two import BestTwo, BestTwoUse
from polydl.model.combiners import MAX, MIN, Combiner
from polydl.model.types import F32, F64, I8, I16, I32, I64, U8, U16, ElementType
from tests.rewrite.executing import compiled

TYPES = {F32: np.float32, F64: np.float64, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64,
         U8: np.uint8, U16: np.uint16}  # fmt: skip
SETS = (("-march=native",), ("-march=native", "-mno-avx512f"), ())


@pytest.mark.parametrize("flags", SETS, ids=["native", "avx2", "plain"])
@pytest.mark.parametrize("combiner", [MAX, MIN], ids=["greatest", "least"])
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_it_finds_what_the_loop_finds(
    element: ElementType, combiner: Combiner, flags: tuple[str, ...], tmp_path: Path
) -> None:
    use = BestTwoUse(0, 1, 2, combiner, element, element)
    family = BestTwo()
    made = family.emit(use, 1)
    head = f"void {{}}(const ptrdiff_t n, const {element.c} *x, {element.c} *a, {element.c} *b)"
    bodies = f"{{ {made.name}(n, x, a, b); }}", f"{{ {family.meaning(use, 1)} }}"
    functions = (f"{head.format(name)}\n{body}" for name, body in zip(("fast", "plain"), bodies, strict=True))
    text = "\n".join(("#include <stddef.h>", *made.prologue, made.text, *functions))
    library = compiled(tmp_path, "both", [text], ("-O2", "-Wall", "-Wextra", "-Werror", *flags))
    generator = np.random.default_rng(3)
    for n in (0, 1, 2, 3, 15, 16, 31, 32, 33, 64, 127, 128, 129, 131, 200, 257, 1003):
        for kind in range(4):
            x = values(TYPES[element], n, kind, generator)
            for start in values(TYPES[element], 6, kind, generator).reshape(3, 2):
                found = []
                for name in ("fast", "plain"):
                    both = start.copy()
                    getattr(library, name)(
                        ctypes.c_ssize_t(n), *(ctypes.c_void_p(at.ctypes.data) for at in (x, both[:1], both[1:]))
                    )
                    found.append(both)
                assert found[0].tobytes() == found[1].tobytes(), (n, kind, start, found)


def values(dtype: type, n: int, kind: int, generator: np.random.Generator) -> np.ndarray:
    """0: of the whole type; 1: few values, many of them equal; 2: zeros of both signs; 3: with some that are none."""
    if np.dtype(dtype).kind != "f":
        ends = np.iinfo(dtype)
        low, high = ((ends.min, ends.max), (max(ends.min, -2), 2), (0, 1), (ends.min, ends.min + 2))[kind]
        return generator.integers(low, high, n, dtype=dtype, endpoint=True)
    made = (generator.standard_normal(n), generator.integers(-2, 3, n), generator.integers(0, 2, n) * 0.0,
            generator.standard_normal(n))[kind].astype(dtype)  # fmt: skip
    if kind == 2:
        made[generator.random(n) < 0.5] *= -1
        made[generator.random(n) < 0.3] = -1
    if kind == 3:
        made[generator.random(n) < 0.4] = np.nan
        made[generator.random(n) < 0.1] = -np.inf
    return made
