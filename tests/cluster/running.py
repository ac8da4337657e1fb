"""A Dask scheduler and its workers, as processes on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from polydl.base import orphans
from tests.cli.running import Outcome, environment

_PATIENCE = 60.0
"""Seconds for what takes few on a machine that is not busy."""


_DASK = """
import runpy, signal, sys
runpy.run_path(sys.argv.pop(1))["end_with_parent"](int(sys.argv.pop(1)), signal.SIGKILL)
runpy.run_module("dask", run_name="__main__", alter_sys=True)
"""
"""Dask that is gone when the tests are, however they end: what stays behind disturbs timings for as long as it runs.
Nothing is imported from polydl, which some workers do not have."""


def wait(what: Callable[[], object], patience: float = _PATIENCE) -> None:
    """Until `what` is true; fails after a minute."""
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Processes that a process has started and that run."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def alive(pid: int) -> bool:
    """Whether a process runs (and is no zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Cluster:
    """A scheduler; workers are added one by one. Everything is gone at the end of the `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        wait(lambda: file.exists() and "tcp://" in file.read_text())
        self.scheduler = self._started[0]
        self.address = next(word for word in file.read_text().split('"') if word.startswith("tcp://"))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def _start(self, *words: str | Path, **more: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{words[0]}-{len(self._started)}.log"
        with log.open("wb") as said:
            command = [sys.executable, "-W", "ignore", "-c", _DASK, orphans.__file__, str(os.getpid())]
            command += [*map(str, words), "--no-dashboard"]
            own = {"PYTHONWARNINGS": "", "TMPDIR": str(self.folder)}
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment(**own, **more), stdout=said, stderr=said
            )
        self._started.append(process)
        return process

    def worker(self, *, resources: str = "timing=1", **more: str) -> subprocess.Popen[bytes]:
        """Start a worker, with environment variables, and wait until it is one."""
        offered = ("--resources", resources) if resources else ()
        words = ("worker", self.address, "--host", "127.0.0.1", "--no-nanny", "--nthreads", "2")
        process = self._start(*words, *offered, **more)
        log = self.folder / f"worker-{len(self._started) - 1}.log"
        wait(lambda: b"Registered to" in log.read_bytes())
        return process


@contextlib.contextmanager
def started(folder: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A run of polydl in a folder; ended, if it still runs."""
    command = [sys.executable, "-m", "polydl", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def outcome(process: subprocess.Popen[str]) -> Outcome:
    """What a run left, when it has ended."""
    stdout, stderr = process.communicate(timeout=5 * _PATIENCE)
    assert "Traceback" not in stderr, stderr
    return Outcome(process.returncode, stdout, stderr)


Job = tuple["subprocess.Popen[bytes]", int]
"""A worker and the process of its job."""


def jobs(workers: Sequence[subprocess.Popen[bytes]]) -> list[Job]:
    """The jobs that run."""
    found = []
    for worker in workers:
        for child in children(worker.pid):
            with contextlib.suppress(OSError):
                if b"polydl.cluster.job" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append((worker, child))
    return found


def job_of(workers: Sequence[subprocess.Popen[bytes]]) -> Job:
    """A job that runs; waits for one."""
    wait(lambda: jobs(workers))
    (found,) = jobs(workers)
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
