"""What runs inside of a Dask worker: who it is, and jobs, each in a process of its own.

The process of a job, not the worker's, ranks, compiles and measures. So the worker goes on talking to the scheduler
while isl computes, what crashes costs the job alone, a job that nobody waits for any more can be ended, and a worker
that is killed takes its job along.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polydl._version import __version__
from polydl.base import resources
from polydl.base.errors import ToolchainError
from polydl.learn.collect.run import compiler_version
from polydl.measure import Toolchain
from polydl.target import detect, dumps

_LOOK = 1.0
"""Seconds between two looks at whether the job is still wanted."""
_GRACE = 10.0
"""Seconds that a job has for ending by itself."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SHOWN = 20
"""Lines shown of what a job that failed said."""


def version() -> str:
    """polydl's version with a digest of its code and data: equal where the same input gives the same result."""
    digest = hashlib.sha256()
    for name, path in resources.own_files():
        digest.update(f"{name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return f"{__version__} ({digest.hexdigest()[:8]})"


def describe() -> dict[str, Any]:
    """The machine that this runs on, as the fields of `polydl.cluster.pool.Machine`."""
    machine = detect()
    try:
        compiler = compiler_version(Toolchain())
    except ToolchainError as error:
        compiler = f"none: {error.reason}"
    return {
        "version": version(),
        "name": machine.name,
        "fingerprint": machine.fingerprint,
        "description": dumps(machine),
        "processors": len(os.sched_getaffinity(0)),
        "compiler": compiler,
        "host": _BOOT.read_text().strip(),
    }


def run_job(document: str) -> dict[str, Any]:
    """Do a job, described by a JSON document (polydl.cluster.job), as a task of a Dask worker; returns its result."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        # `cancelled`: whoever asked for it has given it up, or is gone; a task that runs is not stopped by Dask.
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    return run_process(document, wanted)


def run_process(document: str, wanted: Callable[[], bool]) -> dict[str, Any]:
    """Run a job's process until it ends, or until it is no longer wanted. A process that fails gives
    `{"error": …, "exit_code": 1}`, as a job that fails by itself does."""
    command = [sys.executable, "-P", "-m", "polydl.cluster.job", str(os.getpid())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            answer, said = _communicate(process, document.encode(), wanted)
        finally:
            _end(process)
    if process.returncode == 0:
        result: dict[str, Any] = json.loads(answer)
        return result
    if process.returncode < 0:
        how = f"was killed by signal {-process.returncode} ({signal.strsignal(-process.returncode)})"
    else:
        how = f"ended with exit code {process.returncode}"
    tail = "\n".join(said.decode(errors="replace").splitlines()[-_SHOWN:])
    return {"error": f"error: the process that measured {how}" + (f":\n{tail}" if tail else ""), "exit_code": 1}


def _communicate(process: subprocess.Popen[bytes], document: bytes, wanted: Callable[[], bool]) -> tuple[bytes, bytes]:
    given: bytes | None = document
    while True:
        try:
            return process.communicate(given, timeout=_LOOK)
        except subprocess.TimeoutExpired:
            given = None
            if not wanted():
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs: it may clean up first, for a while."""
    if process.poll() is not None:
        return
    process.terminate()
    killer = threading.Timer(_GRACE, process.kill)
    killer.start()
    try:
        process.communicate()
    finally:
        killer.cancel()
