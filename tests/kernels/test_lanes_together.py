"""What all lanes of a vector of integers make, for each type and machine; on x86 in registers."""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels.rows import row_prologue
from polydl.model.types import I32, ElementType
from polydl.target.isa import WHOLE_TYPES, lanes_name
from tests.compiling import run_compiler
from tests.oracle.native import compile_c

MACHINES = {"widest": "-march=native", "avx2": "-march=x86-64-v3", "generic": "-march=x86-64"}
TOGETHER: dict[str, Callable[[int, int], int]] = {
    "sum": operator.add,
    "product": operator.mul,
    "conjunction": operator.and_,
    "disjunction": operator.or_,
    "parity": operator.xor,
    "greatest": max,
    "least": min,
}


def functions(element: ElementType) -> str:
    """For each of these a function of the element's name of one vector, and `lanes_NAME`, how many it has."""
    v, c, name = f"polydl_{lanes_name(element)}", element.c, element.name
    made = [f"{c} {name}_{which}(const {c} *x) {{ return {v}_{which}({v}_load(x)); }}" for which in TOGETHER]
    return "\n".join([*row_prologue(element), *made, f"int lanes_{name}(void) {{ return {v.upper()}_LANES; }}"])


@pytest.mark.parametrize("machine", MACHINES)
def test_as_one_after_the_other(machine: str) -> None:
    library = compile_c([functions(element) for element in WHOLE_TYPES], ("-std=gnu11", "-O1", MACHINES[machine]))
    rng = np.random.default_rng(5)
    for element in WHOLE_TYPES:
        kind = np.dtype(f"{'u' if element.unsigned else 'i'}{element.bytes}")
        lanes = getattr(library, f"lanes_{element.name}")()
        for which, function in TOGETHER.items():
            called = getattr(library, f"{element.name}_{which}")
            called.restype = np.ctypeslib.as_ctypes_type(kind)
            for _ in range(20):
                x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, lanes, kind, endpoint=True)
                wide = functools.reduce(function, x.tolist())
                wanted = int(np.uint64(wide % 2**64).astype(kind))
                assert called(x.ctypes.data_as(ctypes.c_void_p)) == wanted, (element, which, x)


@pytest.mark.parametrize("machine", ["avx2", "x86-64-v4"])
def test_no_vector_goes_through_memory(machine: str, tmp_path: Path) -> None:
    """A store of which halves are loaded keeps short sums waiting: none is above or below the stack's pointer."""
    (tmp_path / "f.c").write_text(functions(I32))
    flag = MACHINES.get(machine, f"-march={machine}")
    run_compiler(["cc", "-O2", flag, "-S", "-o", str(tmp_path / "f.s"), str(tmp_path / "f.c")])
    assert "sp)" not in (tmp_path / "f.s").read_text()
