"""Elements that data choose: the same array at the same subscripts, never beside a write that may be to it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.dependences.nests import nests
from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.prove import Proof, prove
from polydl.rewrite.canonical import Canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Parallelize
from tests.schedule.test_part_storage import program

PICKED = """void f(int idx[restrict 41], float x[restrict 64], float z[restrict 64], float y[restrict 40][8])
{
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 8; j++)
            y[i][j] = x[idx[i] + j] * z[j];
}
"""
IN_PLACE = """void f(int idx[restrict 41], float x[restrict 64], float z[restrict 64])
{
    for (int i = 0; i < 40; i++)
        x[i] = x[idx[i]] + z[i];
}
"""


def subject(folder: Path, text: str, *, parallel: bool = True) -> tuple[Canonical, Generated]:
    found = program(folder, text)
    parts = [ordered(n, [Parallelize(("i",))] if parallel else []) for n in nests(found.scop, found.dependences)]
    return found, generate(found.scop, program_tree(parts), instances=True)


def proof(found: Canonical, named: Generated) -> Proof:
    plain = replace(named, region=without_marks(named.region))
    return prove(found, *(splice(found.scop.source, [(found.scop, one)], "") for one in (plain, named)))


def test_a_gather_is_proved(tmp_path: Path) -> None:
    found, named = subject(tmp_path, PICKED)
    assert "x[idx[c0] + (c1)]" in named.region and "parallel for" in named.region
    shown = proof(found, named)
    assert shown.holds, shown.reason


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r"idx\[c0\]", "idx[c0 + 1]"),
        (r"x\[idx\[c0\] \+", "z[idx[c0] +"),
        (r"x\[idx\[c0\] \+ \(c1\)\]", "x[c0]"),
        (r"idx\[c0\] \+ \(c1\)", "idx[c0] + (c1 + 1)"),
        (r"idx\[c0\] \+ \(c1\)", "idx[c0] - (c1)"),
        (r"z\[c1\]", "z[idx[c1]]"),
    ],
)
def test_another_element_is_never_proved(tmp_path: Path, pattern: str, new: str) -> None:
    found, named = subject(tmp_path, PICKED)
    text, times = re.subn(pattern, new, named.region, count=1)
    assert times == 1
    assert proof(found, replace(named, region=text)).verdict in ("wrong", "open")


def test_what_is_chosen_is_not_written_at_the_same_time(tmp_path: Path) -> None:
    """In order it is proved; the same loop in parallel is not."""
    found, named = subject(tmp_path, IN_PLACE, parallel=False)
    shown = proof(found, named)
    assert shown.holds, shown.reason
    lines = named.region.split("\n")
    loop = next(at for at, line in enumerate(lines) if "for (" in line)
    racy = [*lines[:loop], "#ifdef _OPENMP", "#pragma omp parallel for", "#endif", *lines[loop:]]
    assert proof(found, replace(named, region="\n".join(racy))).verdict in ("wrong", "open")
