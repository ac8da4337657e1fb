"""The process of one job: reads a JSON document from standard input, does the job, prints a JSON document.

{"do": "optimize" | "collect", …} ─▶ the result, or {"error": message for people, "exit_code": 1 | 2};
                                     both with {"warnings": […]}
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from polydl import pipeline
from polydl.base.errors import PolyDLError
from polydl.base.orphans import end_with_parent
from polydl.cluster.program_files import options_from_data, unpacked
from polydl.inspect.documents import optimize_json
from polydl.inspect.terminal import page, show_optimized
from polydl.learn.collect.prepare import prepare
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.run import CollectOptions, measured, preparing, timing_options
from polydl.measure import Toolchain
from polydl.measure.compiler import compiler_version
from polydl.target import detect, dumps

_LOCKED = Path("/sys/devices/system")
"""The folder whose lock a job holds: every Linux machine has it. Not the one of polydl.measure.busy, whose lock is held
while something is timed."""


def optimize(job: Mapping[str, Any]) -> dict[str, Any]:
    """Optimize a file on this machine: the text of the output, the document of `--json` and the table for people."""
    with unpacked(job["files"], job["folder"]) as root:
        options = options_from_data(job["options"], root)
        file = Path(job["file"])
        source = root / file.relative_to("/") if file.is_absolute() else file
        result = pipeline.optimize(source, root / "output.c", options)
        if result.output is not None:
            result = replace(result, output=Path(job["output"]))
        shown = io.StringIO()
        show_optimized(result, ran=True, console=page(shown))
        found = {
            "text": result.text,
            "document": optimize_json(result),
            "shown": shown.getvalue(),
            "usable": any(scop.usable for scop in result.scops),
            "threads": result.scops[0].ranking.threads,
        }
        return with_user_paths(found, root)


def with_user_paths(found: dict[str, Any], root: Path) -> dict[str, Any]:
    """The document with paths as they are on the user's machine: without `root` before them."""
    clean: dict[str, Any] = json.loads(json.dumps(found).replace(json.dumps(str(root))[1:-1], ""))
    return clean


def collect(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a problem of `polydl collect` on this machine: the rows for the store."""
    with unpacked(job["files"], "/") as root:
        problem = Problem(**{**job["problem"], "source": root / job["problem"]["source"]})
        options = CollectOptions(**job["options"])
        timing = replace(timing_options(options), jobs=len(os.sched_getaffinity(0)))
        machine, compiler = detect(isa=options.isa), compiler_version(Toolchain())
        prepared = prepare(problem, *preparing(problem, options), timing, root)
        done = measured(prepared, options, timing, machine.fingerprint, compiler)
        found = {
            "function": done.function,
            "rows": [msgspec.structs.asdict(row) for row in done.rows],
            "noise": list(done.warnings),
            "failed": done.error,
            "fingerprint": machine.fingerprint,
            "description": dumps(machine),
        }
        return with_user_paths(found, root)


JOBS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"optimize": optimize, "collect": collect}
"""What `do` of the document may say."""


def main(parent: int) -> None:
    """Do the job on standard input; `parent` is the process of the worker that started this one."""
    _end_with(parent)
    # Whatever a library prints must not become part of the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read())
    with warnings.catch_warnings(record=True) as caught, machine_to_itself():
        try:
            found = JOBS[job["do"]](job)
        except PolyDLError as error:
            found = {"error": error.render(), "exit_code": error.exit_code}
    json.dump({**found, "warnings": [str(w.message) for w in caught]}, answer)
    answer.flush()


@contextmanager
def machine_to_itself() -> Iterator[None]:
    """Wait until no other job runs on this machine, of any worker and any scheduler, and keep others out."""
    descriptor = os.open(_LOCKED, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _end_with(parent: int) -> None:
    """Have this process ended, with a chance to clean up, when the worker that started it is gone."""
    signal.signal(signal.SIGTERM, _terminated)
    end_with_parent(parent, signal.SIGTERM)


def _terminated(signal_number: int, frame: object) -> NoReturn:
    """Leave through `finally` blocks, so that child processes and temporary files are cleaned up."""
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    main(int(sys.argv[1]))
