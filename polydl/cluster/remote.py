"""What runs inside of a Dask worker: it describes its machine, and runs each job in a process of its own.

The process of the job ranks, compiles and measures, not that of the worker. So the worker can answer the scheduler
while isl computes, a crash costs one job only, a job that was cancelled can be ended, and a job ends with its worker.
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

from polydl.base import resources
from polydl.base.errors import ToolchainError
from polydl.base.version import __version__
from polydl.measure import Toolchain
from polydl.measure.compiler import compiler_version
from polydl.target import detect, dumps

_POLL = 1.0
"""Seconds between two checks whether the job was cancelled."""
_GRACE = 10.0
"""Seconds that a job has to clean up before it is killed."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SHOWN = 20
"""Lines shown of the error output of a process that failed."""


def version() -> str:
    """polydl's version with a digest of its code and data: where it is equal, the same input gives the same result."""
    digest = hashlib.sha256()
    for name, path in resources.own_files():
        digest.update(f"{name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return f"{__version__} ({digest.hexdigest()[:8]})"


def describe() -> dict[str, Any]:
    """This machine, as the fields of `polydl.cluster.pool.Machine`."""
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
        "host": _BOOT_ID.read_text().strip(),
    }


def run_job(document: str) -> dict[str, Any]:
    """Do the job that a JSON document describes (polydl.cluster.job), as a task of a Dask worker; returns its
    result."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def still_wanted() -> bool:
        # Dask does not stop a task that runs: when its client cancels it or is gone, only this state changes.
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    return run_process(document, still_wanted)


def run_process(document: str, still_wanted: Callable[[], bool]) -> dict[str, Any]:
    """Run the process of a job to its end, or end it when it is no longer wanted. The result of a process that crashes
    is `{"error": …, "exit_code": 1}`, like that of a job that reports a failure."""
    command = [sys.executable, "-P", "-m", "polydl.cluster.job", str(os.getpid())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            answer, errors = _communicate(process, document.encode(), still_wanted)
        finally:
            _end(process)
    if process.returncode == 0:
        result: dict[str, Any] = json.loads(answer)
        return result
    if process.returncode < 0:
        how = f"was killed by signal {-process.returncode} ({signal.strsignal(-process.returncode)})"
    else:
        how = f"ended with exit code {process.returncode}"
    tail = "\n".join(errors.decode(errors="replace").splitlines()[-_SHOWN:])
    return {"error": f"error: the process that measured {how}" + (f":\n{tail}" if tail else ""), "exit_code": 1}


def _communicate(
    process: subprocess.Popen[bytes], document: bytes, still_wanted: Callable[[], bool]
) -> tuple[bytes, bytes]:
    """The output and error output of a process that gets the document on standard input."""
    unsent: bytes | None = document
    while True:
        try:
            return process.communicate(unsent, timeout=_POLL)
        except subprocess.TimeoutExpired:
            unsent = None
            if not still_wanted():
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process if it still runs; kill it when it has not ended within `_GRACE` seconds."""
    if process.poll() is not None:
        return
    process.terminate()
    killer = threading.Timer(_GRACE, process.kill)
    killer.start()
    try:
        process.communicate()
    finally:
        killer.cancel()
