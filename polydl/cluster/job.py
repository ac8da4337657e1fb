"""The process of one job: reads a JSON document from standard input, does it, prints a JSON document.

{"do": "optimize" | "collect", …} ─▶ the result, or {"error": message for people, "exit_code": 1 | 2};
                                     both with {"warnings": […]}
"""

from __future__ import annotations

import ctypes
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
from rich.console import Console

from polydl import pipeline
from polydl.base.errors import PolyDLError
from polydl.cluster.files import moved, unpacked
from polydl.inspect.documents import optimize_json
from polydl.inspect.terminal import show_optimized
from polydl.learn.collect.prepare import prepare
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.run import CollectOptions, compiler_version, measured, preparing, timing_options
from polydl.measure import Toolchain
from polydl.target import detect, dumps

_PR_SET_PDEATHSIG = 1
_LOCKED = Path("/sys/devices/system")
"""A folder that every Linux machine has; not the one of polydl.measure.busy: that is taken while something is timed."""


def optimize(job: Mapping[str, Any]) -> dict[str, Any]:
    """`polydl optimize` on this machine: the text of the output, and what --json and the table say."""
    with unpacked(job["files"], job["folder"]) as root:
        options = moved(job["options"], root)
        file = Path(job["file"])
        source = root / file.relative_to("/") if file.is_absolute() else file
        result = pipeline.optimize(source, root / "polydl.base.files.c", options)
        if result.output is not None:
            result = replace(result, output=Path(job["output"]))
        shown = io.StringIO()
        show_optimized(result, ran=True, console=Console(file=shown, width=10_000))
        found = {
            "text": result.text,
            "document": optimize_json(result),
            "shown": shown.getvalue(),
            "usable": any(scop.usable for scop in result.scops),
            "threads": result.scops[0].ranking.threads,
        }
        return without(found, root)


def without(found: dict[str, Any], root: Path) -> dict[str, Any]:
    """A document in which paths are the user's again."""
    clean: dict[str, Any] = json.loads(json.dumps(found).replace(json.dumps(str(root))[1:-1], ""))
    return clean


def collect(job: Mapping[str, Any]) -> dict[str, Any]:
    """A problem of `polydl collect`, measured on this machine: the rows for the store."""
    with unpacked(job["files"], "/") as root:
        problem = Problem(**{**job["problem"], "source": root / job["problem"]["source"]})
        options = CollectOptions(**job["options"])
        timing = replace(timing_options(options), jobs=len(os.sched_getaffinity(0)))
        machine, compiler = detect(), compiler_version(Toolchain())
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
        return without(found, root)


JOBS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"optimize": optimize, "collect": collect}


def main(parent: int) -> None:
    _die_with(parent)
    # What anything here prints by mistake must not end up in the answer.
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
    """Wait until no other job is on this machine, whichever worker and scheduler it belongs to."""
    descriptor = os.open(_LOCKED, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _die_with(parent: int) -> None:
    """End, and clean up, when the worker that started this is gone."""
    signal.signal(signal.SIGTERM, _terminated)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def _terminated(signal_number: int, frame: object) -> NoReturn:
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    main(int(sys.argv[1]))
