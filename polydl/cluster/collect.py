"""`polydl collect --cluster`: every problem once on each kind of machine, into one store."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from polydl.cluster.pool import Done, Job, Machine, Pool
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.run import Collected, CollectOptions, Tally, Tell, kernel_hash, record
from polydl.measure.store import Store, StoredMeasurement

ProblemsFor = Callable[[int], Sequence[Problem]]
"""The problems for a number of threads, which the number of images of a layer may follow."""


def collect_on_cluster(
    address: str,
    problems_for: ProblemsFor,
    store: Store,
    options: CollectOptions,
    threads: int | None,
    tell: Tell,
    only: str = "",
    patience: float = 60.0,
) -> Tally:
    """Measure what the store has not yet on the machines of a Dask cluster, and add each problem as it is done.

    Problems are shared out among the machines of one kind (fingerprint and processors); each kind measures all of them,
    with `threads` (None: as many as a machine of that kind has processors), and its rows carry its fingerprint. A
    problem whose worker dies is measured by another one; it is in the store whole and once, or not at all. Interrupted
    (KeyboardInterrupt) at any moment, what was done is kept.

    Raises PolyDLError when the cluster cannot be used or its machines are gone (polydl.cluster.pool), StoreError.
    """
    start = time.perf_counter()
    tally = Tally()

    def jobs_for(machine: Machine) -> Sequence[Job]:
        count = threads or machine.processors
        todo = []
        for problem in problems_for(count):
            tally.problems += 1
            if problem.operations > options.most_operations:
                tally.skipped += 1
            elif "original" in store.measured(kernel_hash(problem), problem.macros, count, machine.fingerprint):
                tally.done += 1
            else:
                todo.append(problem)
        todo.sort(key=lambda p: p.operations)
        tell(tally, f"{len(todo)} problems for {machine}")
        return [Job(p.name, json.dumps(_asked(p, replace(options, threads=count))), p) for p in todo]

    def done(end: Done) -> None:
        problem, result = end.job.about, end.result
        assert isinstance(problem, Problem)
        if "error" in result:
            found = Collected("", (), (), result["error"])
        else:
            rows = msgspec.convert(result["rows"], tuple[StoredMeasurement, ...])
            found = Collected(result["function"], rows, (*result["warnings"], *result["noise"]), result["failed"])
            store.add_machine(result["fingerprint"], result["description"])
        tally.measure_seconds = time.perf_counter() - start
        record(problem, found, end.seconds, store, tally, lambda now, line: tell(now, f"{end.machine.address}: {line}"))

    with Pool(address, only, lambda line: tell(tally, line), patience) as pool:
        pool.run(jobs_for, done)
    return tally


def _asked(problem: Problem, options: CollectOptions) -> dict[str, Any]:
    """The job of polydl.cluster.job that measures a problem."""
    return {
        "do": "collect",
        "problem": {**asdict(problem), "source": problem.source.name},
        "options": {name: getattr(options, name) for name in ("count", "large", "threads", "space", "seed", "budget")},
        "files": {f"/{problem.source.name}": base64.b64encode(problem.source.read_bytes()).decode()},
    }
