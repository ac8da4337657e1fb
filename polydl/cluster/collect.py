"""`polydl collect --cluster`: measures every problem once on each kind of machine, and stores all in one file."""

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
"""From a number of threads to the problems: the number of images of a layer may depend on it."""


def collect_on_cluster(
    address: str,
    problems_for: ProblemsFor,
    store: Store,
    options: CollectOptions,
    threads: int | None,
    report: Tell,
    only: str = "",
    worker_timeout: float = 60.0,
) -> Tally:
    """Measure the problems that the store does not have yet on a Dask cluster, and add each one when it is done.

    Each kind of machine (fingerprint and number of processors) measures all problems; the machines of one kind share
    them. They use `threads` (None: all processors), and the rows carry the machine's fingerprint. A problem whose
    worker dies is measured by another one. A problem is stored completely and once, or not at all, also when this is
    interrupted (KeyboardInterrupt). Only machines whose fingerprint starts with `only` are used. `report(tally, line)`
    is called with a line for people after each problem, and `worker_timeout` is the time in seconds to wait for a
    worker.

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
        report(tally, f"{len(todo)} problems for {machine}")
        return [Job(p.name, json.dumps(_job(p, replace(options, threads=count))), p) for p in todo]

    def done(end: Done) -> None:
        problem, result = end.job.subject, end.result
        assert isinstance(problem, Problem)
        if "error" in result:
            found = Collected("", (), (), result["error"])
        else:
            rows = msgspec.convert(result["rows"], tuple[StoredMeasurement, ...])
            found = Collected(result["function"], rows, (*result["warnings"], *result["noise"]), result["failed"])
            store.add_machine(result["fingerprint"], result["description"])
        tally.measure_seconds = time.perf_counter() - start

        record(
            problem, found, end.seconds, store, tally, lambda now, line: report(now, f"{end.machine.address}: {line}")
        )

    with Pool(address, only, lambda line: report(tally, line), worker_timeout) as pool:
        pool.run(jobs_for, done)
    return tally


def _job(problem: Problem, options: CollectOptions) -> dict[str, Any]:
    """The JSON document of polydl.cluster.job that asks for a problem to be measured."""
    return {
        "do": "collect",
        "problem": {**asdict(problem), "source": problem.source.name},
        "options": {name: getattr(options, name) for name in ("count", "large", "threads", "space", "seed", "budget")},
        "files": {f"/{problem.source.name}": base64.b64encode(problem.source.read_bytes()).decode()},
    }
