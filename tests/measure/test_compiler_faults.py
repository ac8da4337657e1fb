"""Faults of compilers: the flags that are said to avoid one do, and only a compiler that has it is given them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.measure import Toolchain
from polydl.measure.compiler_faults import MASKED_LOADS, Fault, avoiding
from tests import compiling

SELECT = """
void chosen(const float a[8][8][9], const float b[8][8][9], float o[restrict 8][8][9])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 9; k++)
                o[i][j][k] = a[i][j][k] <= 0 ? 0 : b[i][j][k];
}
"""


def status(fault: Fault, flags: tuple[str, ...], folder: Path) -> int:
    source, program = folder / "fault.c", folder / "fault"
    source.write_text(fault.program)
    subprocess.run(["cc", *flags, "-o", program, source], check=True)
    return subprocess.run([program], check=False).returncode


@pytest.mark.parametrize("fault", [MASKED_LOADS])
def test_flags_avoid_the_fault(fault: Fault, tmp_path: Path) -> None:
    toolchain = Toolchain()
    assert status(fault, ("-O0",), tmp_path) == 0
    assert status(fault, (*toolchain.cflags, *fault.flags), tmp_path) == 0
    faulty = status(fault, toolchain.cflags, tmp_path) == 1
    assert avoiding(fault, toolchain) == (fault.flags if faulty else ())


def test_tests_that_compile_little_are_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would tell all tests after them in this process, and in others by the cache, of a compiler without."""
    found = avoiding(MASKED_LOADS, Toolchain())
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    compiling.apply(monkeypatch, quick=True)
    avoiding.cache_clear()
    assert avoiding(MASKED_LOADS, Toolchain()) == found


def test_a_fault_is_asked_once_per_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process finds the answer of the first in the cache."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "cache"))
    told = tmp_path / "calls"
    cc = tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\necho once >> {told}\nexec gcc "$@"\n')
    cc.chmod(0o755)
    always = replace(MASKED_LOADS, program="int main(void) { return 1; }")
    toolchain = Toolchain(cc=str(cc))
    for _ in range(2):
        avoiding.cache_clear()
        assert avoiding(always, toolchain) == MASKED_LOADS.flags
    assert told.read_text().splitlines() == ["once"]
    avoiding.cache_clear()
    assert avoiding(replace(always, program="int main(void) { return 0; }"), toolchain) == ()


@pytest.mark.parametrize("how", [{"optimize": False}, {"tune": False}, {"tune": True}], ids=str)
def test_kernels_are_right_whatever_the_compiler_does(how: dict[str, bool]) -> None:
    """The original, of which gcc 12.2 makes wrong code, is no reference either."""
    kernel = polydl.compile(SELECT, fresh=True, budget=2, space="small", **how)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(low, 9, (8, 8, 9)).astype(np.float32) for low in (-8, 1))
    out = np.full_like(a, -1)
    kernel(a, b, out)
    assert np.array_equal(out, np.where(a <= 0, 0, b))
