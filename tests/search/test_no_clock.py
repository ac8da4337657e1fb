"""What is searched, and in which order, depends on nothing but the program, the machine described and the options."""

from __future__ import annotations

import ast
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import polydl
from polydl.base.orphans import end_with_parent
from tests.programs.corpus import catalogue

PACKAGE = Path(polydl.__file__).parent
ROOMS = ("model", "dependences", "locality", "rewrite", "schedule", "search", "rank", "kernels", "lower")
"""Where variants are made, scored and written."""

TELLS_THE_AGE = {"search/own_times.py", "search/result_cache.py"}
"""Write into an entry when it was made."""

PROGRAMS = (
    "lu", "floyd_warshall", "jacobi_1d", "trisolv", "durbin", "attention_causal",
)  # fmt: skip
"""Programs whose search takes a schedule, some that isl's schedulers find hard, and one whose nests share loops."""

RANKED = """
import hashlib, json, sys
from polydl import load, rank
from polydl.options import Options
from polydl.pipeline import with_fused
from tests.programs.corpus import catalogue
for name in sys.argv[1:]:
    entry = catalogue()[name]
    values = entry.bench or entry.sizes[0]
    program = load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values))
    for scop in program.scops:
        options = Options(machine="epyc-zen3", threads=2)
        found = with_fused(rank(scop, options=options), options)
        text = found.variants[0].generated.region
        print(json.dumps([name, [v.id for v in found.variants], list(found.given_up), text]))
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other processes that want all of the processors."""
    started = [
        multiprocessing.get_context("fork").Process(target=_forever, args=(os.getpid(),)) for _ in range(processes)
    ]
    for one in started:
        one.start()
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.join()


def _forever(parent: int) -> None:
    end_with_parent(parent, signal.SIGKILL)
    while True:
        pass


def ranked(at_once: int) -> dict[str, object]:
    """What is found for each program, shared out among so many processes."""

    def lines(names: Sequence[str]) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", RANKED, *names],
            cwd=PACKAGE.parent,
            capture_output=True,
            text=True,
            timeout=1800,
            check=True,
        )
        return done.stdout.splitlines()

    with ThreadPoolExecutor(at_once) as pool:
        parts = list(pool.map(lines, [PROGRAMS[first::at_once] for first in range(at_once)]))
    found = [json.loads(line) for part in parts for line in part]
    assert [name for name, *_ in found] == [n for first in range(at_once) for n in PROGRAMS[first::at_once]]
    return {name: rest for name, *rest in found}


def test_four_busy_processes_change_nothing() -> None:
    """And four that rank at once disturb each other: none has a fifth of a processor on a machine of two."""
    assert set(PROGRAMS) <= set(catalogue())
    alone = ranked(1)
    with busy(4):
        beside = ranked(4)
    for name in PROGRAMS:
        assert beside[name] == alone[name], name


def clocks(text: str) -> list[str]:
    """Imports of modules that tell the time."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(aliases):
                names += [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module)):
                names.append(module)
    return [name for name in names if name.split(".")[0] in ("time", "datetime", "timeit", "sched")]


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_that_makes_variants_has_a_clock(room: str) -> None:
    found = {
        str(path.relative_to(PACKAGE)): clocks(path.read_text(encoding="utf-8"))
        for path in (PACKAGE / room).rglob("*.py")
    }
    assert found
    assert {name for name, imports in found.items() if imports} <= TELLS_THE_AGE
    assert clocks("from time import monotonic\nimport datetime") == ["time", "datetime"]
