"""`collect`: prepare problems a batch at a time on all cores, then time them with nothing else running; repeat."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from polydl.base.errors import PolyDLError
from polydl.base.orphans import end_with_parent
from polydl.learn.collect.prepare import Prepared, options_for, prepare, scop_of
from polydl.learn.collect.problems import Problem
from polydl.measure import Measurement, MeasureOptions, Toolchain
from polydl.measure.bulk import ManyMeasured, Passes, interval, measure_many, outliers
from polydl.measure.compiler import compiler_version
from polydl.measure.store import Store, StoredMeasurement
from polydl.options import Options
from polydl.target import detect, dumps

_BATCH = 8
"""Problems prepared together: enough to keep the cores busy, few enough to lose little when killed."""


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """What to collect."""

    count: int = 72
    """Variants of each problem."""
    large: float = 2e9
    """Operations above which half as many are measured: a variant takes long there."""
    threads: int = field(default_factory=_cores)
    space: str = "default"
    seed: int = 0
    isa: str | None = None
    """The instruction set that everything is kept to; None: the machine's widest."""
    most_operations: float = math.inf
    """Larger problems are left out."""
    workers: int = field(default_factory=_cores)
    """Processes that prepare."""
    budget: float = 0.03
    """Timed seconds of a variant in a pass."""
    scratch: Path | None = None
    """Where variants are built; the files stay until they are measured. None: a temporary folder."""
    prepare_only: bool = False
    """Build only: that may share the machine, the rest may not."""


@dataclass(slots=True)
class Tally:
    """Counts of what has been collected so far."""

    problems: int = 0
    """In all."""
    done: int = 0
    """Measured, in this run or before."""
    skipped: int = 0
    """Left out as too large."""
    variants: int = 0
    """Verified and timed in this run."""
    failed: list[str] = field(default_factory=list)
    """What could not be measured, for people."""
    prepare_seconds: float = 0.0
    measure_seconds: float = 0.0
    new: int = 0
    """Problems measured in this run."""

    def left(self) -> float:
        """Seconds still to go, from the mean so far; NaN at the beginning."""
        spent = self.prepare_seconds + self.measure_seconds
        return spent / self.new * (self.problems - self.done - self.skipped) if self.new else math.nan


Tell = Callable[[Tally, str], None]
"""Called after each problem with a line for people; never while something is timed."""


def collect(problems: Sequence[Problem], store: Store, options: CollectOptions, tell: Tell) -> Tally:
    """Measure a sample of variants of every problem that the store has not yet, and add them to it.

    A problem is added whole when it is done: killed at any moment, the next run goes on with the next problem.
    A problem that cannot be measured is reported and left out. Raises StoreError when the store fails, ToolchainError
    when there is no compiler.
    """
    machine = detect(isa=options.isa)
    compiler = compiler_version(Toolchain())
    store.add_machine(machine.fingerprint, dumps(machine))
    tally = Tally(len(problems))
    todo, met = [], set()
    for problem in problems:
        same = kernel_hash(problem), tuple(sorted(problem.macros.items()))
        twice = same in met
        met.add(same)
        if twice:
            # Lists of layers have the same sizes under several names.
            tally.done += 1
        elif problem.operations > options.most_operations:
            tally.skipped += 1
        elif "original" in store.measured(kernel_hash(problem), problem.macros, options.threads, machine.fingerprint):
            tally.done += 1
        else:
            todo.append(problem)
    # The quick ones first: most of the data are there soon.
    todo.sort(key=lambda p: p.operations)
    tell(tally, f"{tally.done} problems measured before, {tally.skipped} too large, {len(todo)} to do")
    measuring = timing_options(options)
    with _scratch(options.scratch) as scratch, _workers(options.workers) as pool:
        for start in range(0, len(todo), _BATCH):
            begin = time.perf_counter()
            jobs = [
                pool.submit(prepare, problem, *preparing(problem, options), measuring, scratch)
                for problem in todo[start : start + _BATCH]
            ]
            prepared = [job.result() for job in jobs]
            tally.prepare_seconds += time.perf_counter() - begin
            if options.prepare_only:
                tally.done += len(prepared)
                tally.new += len(prepared)
                tell(tally, f"{prepared[-1].problem.name}: prepared")
                continue
            for one in prepared:
                begin = time.perf_counter()
                done = measured(one, options, measuring, machine.fingerprint, compiler)
                seconds = time.perf_counter() - begin
                tally.measure_seconds += seconds
                record(one.problem, done, seconds, store, tally, tell)
    return tally


def timing_options(options: CollectOptions) -> MeasureOptions:
    """How variants are timed; one compiler at a time, as several problems are prepared at once."""
    return MeasureOptions(
        threads=options.threads, seed=options.seed, budget=options.budget, min_sample=200e-6, min_rounds=6,
        max_rounds=9, jobs=1,
    )  # fmt: skip


def preparing(problem: Problem, options: CollectOptions) -> tuple[Options, int]:
    """polydl's options for a problem, and how many of its variants are measured."""
    count = options.count if problem.operations <= options.large else options.count // 2
    return options_for(problem, options.threads, options.space, options.seed, options.isa), count


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of collecting one problem."""

    function: str
    """Name of the C function; empty when it could not be prepared."""
    rows: tuple[StoredMeasurement, ...]
    """The original's first; none when it could not be measured."""
    warnings: tuple[str, ...]
    """What makes the figures doubtful, for people."""
    error: str
    """Why there are no rows, for people; empty when there are."""


def measured(
    prepared: Prepared, options: CollectOptions, measuring: MeasureOptions, machine: str, compiler: str
) -> Collected:
    """Time what was prepared, and remove what was built for it. Nothing else should run meanwhile."""
    if prepared.built is None:
        return Collected("", (), (), prepared.error)
    problem = prepared.problem
    scop = scop_of(problem, options_for(problem, options.threads, options.space, options.seed, options.isa))
    try:
        found = measure_many(scop, prepared.built, measuring, Passes())
    except PolyDLError as failure:
        return Collected(scop.function, (), (), failure.render())
    finally:
        shutil.rmtree(prepared.built.folder)
    flags = Options(isa=options.isa).toolchain().cflags
    rows = rows_of(prepared, found, measuring, (machine, compiler, flags), str(scop.element or ""))
    return Collected(scop.function, tuple(rows), found.warnings, "")


def record(problem: Problem, done: Collected, seconds: float, store: Store, tally: Tally, tell: Tell) -> None:
    """Add a problem that took some seconds to the store, on the disk when it returns, and to the tally's counts. Raises
    StoreError."""
    if done.function:
        store.add_kernel(kernel_hash(problem), done.function, problem.source.read_text(encoding="utf-8"))
    store.add(done.rows)
    tally.done += 1
    tally.new += 1
    if done.error:
        tally.failed.append(f"{problem.name}: {done.error}")
        tell(tally, f"{problem.name}: left out: {done.error}")
        return
    timed = [r.median for r in done.rows if r.verified and r.median is not None and r.variant != "original"]
    tally.variants += len(timed)
    wrong = sum(not r.verified for r in done.rows)
    dropped = f", {wrong} failed" if wrong else ""
    noisy = "; ".join(("", *done.warnings))
    best = problem.operations / min(timed, default=math.nan) / 1e9
    tell(tally, f"{problem.name}: {len(timed)} variants in {seconds:.1f} s{dropped}, best {best:.0f} GFLOP/s{noisy}")


def rows_of(
    prepared: Prepared,
    found: ManyMeasured,
    measuring: MeasureOptions,
    where: tuple[str, str, tuple[str, ...]],
    dtype: str,
) -> list[StoredMeasurement]:
    """The rows of a problem, the original's first. `where`: the machine's fingerprint, the compiler's version and its
    flags; `dtype` is C's name of the type that it computes in."""
    machine, compiler, flags = where
    problem = prepared.problem
    created = datetime.now(UTC).isoformat(timespec="seconds")

    def row(m: Measurement) -> StoredMeasurement:
        planned = prepared.planned.get(m.id)
        width = interval(m.samples) if m.samples else math.inf
        marks = []
        if m.id in found.slow:
            marks.append("slow")
        elif width > Passes().interval:
            marks.append("capped")
        timed = m.verified and bool(m.samples)
        return StoredMeasurement(
            kernel=kernel_hash(problem),
            workload=problem.workload,
            problem=problem.name,
            sizes=dict(problem.macros),
            dtype=dtype,
            threads=measuring.threads,
            variant=m.id,
            recipe=planned.recipe if planned else "",
            origin=planned.origin if planned else "original",
            machine=machine,
            compiler=compiler,
            flags=flags,
            status=m.status.value,
            message="" if m.verified else m.message,
            samples=m.samples if timed else (),
            outliers=outliers(m.samples) if timed else (),
            median=m.median if timed else None,
            interval=width if timed and math.isfinite(width) else None,
            marks=tuple(marks) if timed else (),
            features=planned.features if planned else {},
            scores=planned.scores if planned else {},
            seed=measuring.seed,
            created=created,
        )

    return [row(found.original), *(row(m) for m in found.measurements)]


@contextmanager
def _scratch(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="polydl-collect-") as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()


def kernel_hash(problem: Problem) -> str:
    """SHA-256 of the problem's C file."""
    return hashlib.sha256(problem.source.read_bytes()).hexdigest()


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that prepare, and are gone afterwards, whatever happens."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_worker, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _worker(parent: int) -> None:
    """Ctrl-C is for the process that collects, which ends its workers; when it is killed, they die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent, signal.SIGKILL)
