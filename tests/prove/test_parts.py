"""Memory that holds a part of an array at a time: proved where every read gets its value, never where one does not."""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.prove import Proof, prove
from polydl.rewrite.canonical import Canonical
from tests.prove import mutations
from tests.schedule.test_jam import functions
from tests.schedule.test_part_storage import ROWS, program, tree_of

MEMORY = 8192
"""Bytes of each thread: P and R have the first page, Q the second."""


def subject(folder: Path, *, rows: bool = False) -> tuple[Canonical, Generated]:
    """The program, and its text with marks."""
    found = program(folder)
    return found, generate(found.scop, tree_of(found, rows=rows), instances=True)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> tuple[Canonical, Generated]:
    return subject(tmp_path_factory.mktemp("parts"))


def proof(found: Canonical, named: Generated) -> Proof:
    plain = replace(named, region=without_marks(named.region))
    return prove(found, *(splice(found.scop.source, [(found.scop, one)], "") for one in (plain, named)))


@pytest.mark.parametrize("rows", [False, True])
def test_parts_of_threads_are_proved(tmp_path: Path, rows: bool) -> None:
    found, named = subject(tmp_path, rows=rows)
    assert "polydl_part_P" in named.region and f"polydl_each = {MEMORY};" in named.region
    proved = proof(found, named)
    assert proved.holds, proved.reason


def test_a_part_that_all_threads_share_is_proved(tmp_path: Path) -> None:
    """Serial loops: there is one memory for all."""
    found = program(tmp_path)
    text = generate(found.scop, tree_of(found, parallel=False), instances=True)
    assert "polydl_memory + 4096" in text.region and "polydl_own" not in text.region
    assert proof(found, text).holds


MISTAKES = {
    "bytes of two arrays that are alive": (r"polydl_each \+ 4096\)", "polydl_each + 1024)"),
    "one place for all three": (r"polydl_each \+ 4096\)", "polydl_each + 0)"),
    "beyond the end of the memory": (r"polydl_each \+ 4096\)", "polydl_each + 7168)"),
    "too little memory": (rf"polydl_each = {MEMORY};", f"polydl_each = {MEMORY - 4096};"),
    "too little is asked for": (rf"polydl_threads\(\) \* {MEMORY}", f"polydl_threads() * {MEMORY - 4096}"),
    "memory of the first thread": (r"\(size_t\)polydl_thread\(\) \* polydl_each \+ 4096", "4096"),
    "another element": (r"(mk_.*, &polydl_part_P\[)", r"\g<1>1 + "),
    "another place than the mark says": (r"(instance_part\(polydl_part_P, .*)\);", r"\1 + 40);"),
    "no mark": (r" *polydl_instance_part\(polydl_part_P.*\n", ""),
    "the array itself": (r"polydl_part_P\[(.*?)\]( = |,|\))", r"P[0][\1]\2"),
    "the memory of another array": (r"(mk_.*, &)polydl_part_P\[", r"\1polydl_part_R["),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_never_proved(right: tuple[Canonical, Generated], what: str) -> None:
    found, named = right
    text, times = re.subn(*MISTAKES[what], named.region, count=1)
    assert times == 1 and text != named.region
    wrong = proof(found, replace(named, region=text))
    assert wrong.verdict in ("wrong", "open") and wrong.reason


def test_own_memory_declared_outside_of_the_loop_is_that_of_one_thread(right: tuple[Canonical, Generated]) -> None:
    found, named = right
    lines = named.region.split("\n")
    declared = [line for line in lines if "polydl_part_" in line and "*const" in line]
    loop = next(at for at, line in enumerate(lines) if "#ifdef _OPENMP" in line)
    rest = [line for line in lines[loop:] if line not in declared]
    moved = replace(named, region="\n".join([*lines[:loop], *declared, *rest]))
    assert len(declared) == 3 and proof(found, moved).verdict in ("wrong", "open")


def test_an_array_that_is_read_afterwards_has_no_part(right: tuple[Canonical, Generated]) -> None:
    """The same text of a program whose caller looks at R."""
    found, named = right
    kept = replace(found.read, live_out=found.read.live_out | {"R"})
    live = replace(found.scop, live_out=found.scop.live_out | {"R"})
    wrong = proof(replace(found, read=kept, scop=live), named)
    assert wrong.verdict == "wrong" and "R" in wrong.reason


def outputs(found: Canonical, made: Generated) -> Sequence[tuple[bytes, bytes]]:
    """What the original and the text leave, of several inputs of integers."""
    code, rng = functions(found, made), np.random.default_rng(3)
    pairs = []
    for _ in range(3):
        shapes = [(ROWS, 24), (24, 40), (40, 33), (33, 17), (ROWS, 17)]
        given = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        results = []
        for name in ("before", "after"):
            own = [one.copy() for one in given]
            getattr(code, name)(*(one.ctypes.data_as(ctypes.c_void_p) for one in own))
            results.append(own[-1].tobytes())
        pairs.append((results[0], results[1]))
    return pairs


@pytest.mark.parametrize("kind", mutations.KINDS, ids=lambda kind: kind.__name__)
def test_mutants_that_are_proved_compute_the_same(right: tuple[Canonical, Generated], kind: mutations.Places) -> None:
    """Bounds, loops, subscripts, statements: wherever the proof holds nevertheless, nothing has changed."""
    found, named = right
    every = list(kind(named.region.split("\n")))
    chosen = random.Random(kind.__name__).sample(every, min(3, len(every)))
    for what, lines in chosen:
        text = replace(named, region="\n".join(lines))
        if proof(found, text).holds:
            plain = replace(text, region=without_marks(text.region))
            assert all(a == b for a, b in outputs(found, plain)), what
