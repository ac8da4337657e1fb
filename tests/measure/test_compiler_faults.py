"""Faults of compilers: the flags that are said to avoid one do, and only a compiler that has it is given them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.measure import Toolchain
from polydl.measure.compiler_faults import MASKED_LOADS, Fault, avoiding


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
