"""`polydl collect`: the command, with its progress for people on standard error."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.base.errors import InputError, Interrupted, PolyDLError, one_of
from polydl.learn.collect.problems import DTYPES, Problem, read_problems
from polydl.learn.collect.run import CollectOptions, Tally, Tell, collect
from polydl.measure.store import Store


@dataclass(frozen=True, slots=True)
class Selection:
    """Which problems to collect: the layers of some files."""

    files: tuple[Path, ...]
    """CSV files of layers or matrix sizes."""
    images: int | None
    """Images in a batch of each layer; None: as many as threads."""
    workloads: tuple[str, ...]
    """The networks whose layers are taken; empty: all."""
    dtype: str = DTYPES[0]
    """Of the factors (`problems.DTYPES`)."""

    def problems(self, threads: int) -> list[Problem]:
        """The problems, for a number of threads. Raises InputError."""
        problems = [p for path in self.files for p in read_problems(path, self.images or threads, self.dtype)]
        known = {p.workload for p in problems}
        for name in self.workloads:
            if name not in known:
                raise InputError(f"no layers of '{name}'", hint=one_of(name, sorted(known)))
        return [p for p in problems if not self.workloads or p.workload in self.workloads]


def collect_here(selection: Selection, store: Path, options: CollectOptions, threads: int | None) -> Tally:
    """Collect on this machine and show the progress; `threads` of None means all cores. Raises InputError, StoreError,
    ToolchainError; PolyDLError when some of the problems could not be measured."""
    count = threads or len(os.sched_getaffinity(0))
    problems = selection.problems(count)
    return collected(store, lambda opened, tell: collect(problems, opened, replace(options, threads=count), tell))


def collected(store: Path, run: Callable[[Store, Tell], Tally]) -> Tally:
    """Collect into a store and show the progress. Raises StoreError and what `run` raises; Interrupted after Ctrl-C;
    PolyDLError when some of the problems could not be measured."""
    start = time.perf_counter()
    with Store(store) as opened:
        before = len(opened)
        try:
            tally = run(opened, lambda now, line: _tell(now, line, start))
        except KeyboardInterrupt:
            kept = f"{len(opened) - before} rows of this run are in {store}"
            raise Interrupted(f"interrupted: {kept}", hint="the same command goes on where it was") from None
        rows = len(opened)
    sys.stderr.write(
        f"{tally.variants} variants of {tally.new} problems in {(time.perf_counter() - start) / 60:.1f} min "
        f"({tally.prepare_seconds:.0f} s preparing, {tally.measure_seconds:.0f} s measuring); {store} has {rows} rows\n"
    )
    if tally.failed:
        raise PolyDLError("some problems could not be measured:\n" + "\n".join(tally.failed))
    return tally


_WIDTH = 24
"""Characters of the progress bar."""


def _tell(now: Tally, line: str, start: float) -> None:
    """Write one line per problem, each with the bar: whole lines, so that a log file can be read as well."""
    whole = max(1, now.problems - now.skipped)
    filled = _WIDTH * now.done // whole
    left = now.left()
    ahead = f", {left / 60:.0f} min left" if math.isfinite(left) else ""
    bar = "#" * filled + "." * (_WIDTH - filled)
    elapsed = (time.perf_counter() - start) / 60
    sys.stderr.write(f"[{bar}] {now.done}/{whole} {elapsed:.1f} min{ahead}  {line}\n")
    sys.stderr.flush()
