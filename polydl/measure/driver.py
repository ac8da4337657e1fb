"""The driver process: a C program that runs candidates under limits and survives whatever they do.

It is compiled once per measurement from `templates/harness_driver.c.j2`. It reads a job from its standard input, which
stays open as long as polydl runs, so that it notices when polydl ends. Array data and the control block (outcome,
samples) are in shared memory.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polydl.base.errors import ToolchainError
from polydl.base.records import dataclass
from polydl.measure.measurement import Status
from polydl.measure.unit import environment

SCRATCH = "scratch"
"""The folder beside the executable in which candidates run."""
OUTPUT_LIMIT = 1 << 20
"""Bytes that a candidate may print."""
_GUARDS = 2 << 20
"""Inaccessible bytes around each array (`guard_bytes` in the driver, both sides)."""
_SUPERVISOR_DELAY = 15.0
"""Seconds after a limit until a supervisor that has not enforced it is killed."""
_THREAD_BYTES = 160 << 20
"""Address space of one thread: its stack and the heap arena that glibc reserves for it."""


class Word(IntEnum):
    """Words of the control block, 8 bytes each."""

    DONE = 0
    CURRENT = 1
    """Index of the library that was running; -1: none."""
    STARTED = 2
    INEXACT = 3
    """1 when a floating-point operation of the region rounded (the main thread's FE_INEXACT)."""
    FAULT_ARRAY = 4
    """1 + index of the array whose guard was hit; 0: none."""
    FAULT_OFFSET = 5
    """Bytes from the first element of that array to the address."""
    WAIT_STATUS = 6
    MAX_RSS = 7
    """Bytes."""
    TIMED_OUT = 8
    NANOSECONDS = 9
    SAMPLES = 10
    TWIN = 11
    """Index of the library that was timed twice."""
    TOO_LARGE = 12
    """1 when the worker was killed for its memory."""
    CONFINED = 13
    """1 when the worker could start no processes and send no signals to others."""
    HEADER = 16
    """Number of words before the samples."""


class Place(IntEnum):
    """Who provides the memory of an array."""

    BUFFER = 0
    """The harness allocates it and passes its address."""
    IN_UNIT = 1
    """A global array of the unit: initialised and read back in place."""
    CONSTANT = 2
    """A constant of the unit: never written."""


@dataclass(frozen=True, slots=True)
class Block:
    """The place of an array in the shared data file."""

    place: Place
    bytes: int
    """Bytes of the array itself."""
    block_bytes: int
    """Bytes of the pages that hold the array and the canaries around it."""
    file_offset: int
    data_offset: int
    """Of the array from the start of its block."""
    pointer_offset: int
    """From the array's first element to where the program's pointer points (> 0 when it uses negative subscripts)."""
    restored: bool
    """Whether it is reset between samples, since the region writes it."""
    in_each_run: bool = False
    """Whether it is reset in front of every run: the region makes places of what it writes, which would run away."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of a timing job; times in seconds."""

    sets: int = 1
    min_sample: float = 0.0
    budget: float = 0.0
    min_rounds: int = 1
    max_rounds: int = 1
    cold_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a candidate may use."""

    seconds: float
    """Wall-clock limit of one run (verify) or one sample (time)."""
    threads: int
    memory: int
    """Bytes in addition to the arrays."""
    array_bytes: int
    """Bytes of all mappings of arrays together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    words: Mapping[Word, int]
    payload: npt.NDArray[np.int64]
    """The control block after its header: samples (slot, set, repeats, nanoseconds), or the description."""
    output: str
    """The first 4000 characters that the candidate printed."""
    output_bytes: int
    damaged: bool = False
    """Whether the control block holds values that the harness cannot have written."""

    @property
    def samples(self) -> npt.NDArray[np.int64]:
        """(n, 4) array: slot, buffer set, repeats, nanoseconds for all repeats."""
        n = self.words[Word.SAMPLES]
        return self.payload[: 4 * n].reshape(n, 4)

    def failure(self, limits: Limits, array_names: Sequence[str], blocks: Sequence[Block]) -> tuple[Status, str] | None:
        """Why the job failed, as (status, message for people); None when it succeeded."""
        if self.damaged:
            return Status.CRASHED, "wrote over the memory of the harness"
        if self.words[Word.DONE]:
            return None
        first_line = next((line for line in self.output.splitlines() if line.strip()), "")
        printed = f"; it printed: {first_line[:200]}" if first_line else ""
        too_large = f"needs more than {limits.memory >> 20} MiB beside the arrays"
        if self.words[Word.TOO_LARGE]:
            return Status.OUT_OF_MEMORY, too_large
        if self.words[Word.TIMED_OUT]:
            return Status.TIMED_OUT, f"did not finish within {limits.seconds:.3g} s"
        if self.words[Word.FAULT_ARRAY]:
            index = self.words[Word.FAULT_ARRAY] - 1
            where = describe_offset(self.words[Word.FAULT_OFFSET], blocks[index].bytes)
            return Status.OUT_OF_BOUNDS, f"touches memory {where} array '{array_names[index]}'"
        status = self.words[Word.WAIT_STATUS]
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXFSZ or self.output_bytes >= OUTPUT_LIMIT:
                return Status.TOO_MUCH_OUTPUT, f"printed more than {OUTPUT_LIMIT} bytes"
            if number == signal.SIGXCPU:
                return Status.TIMED_OUT, "used up its CPU time"
            # A candidate whose allocation failed crashes at some use of the null pointer; that its memory came close
            # to the limit distinguishes this from other crashes.
            if self.words[Word.MAX_RSS] > limits.array_bytes + limits.memory * 3 // 4:
                return Status.OUT_OF_MEMORY, too_large
            return Status.CRASHED, f"was killed by {_signal_name(number)}{printed}"
        if os.WEXITSTATUS(status) == _DRIVER_FAILURE:
            return Status.CRASHED, f"could not be run: {first_line[:300]}"
        return Status.EXITED, f"ended the process with exit code {os.WEXITSTATUS(status)} instead of returning{printed}"


_DRIVER_FAILURE = 125
"""Exit code of the driver for its own errors (loading, mapping)."""


def describe_offset(offset: int, size: int) -> str:
    """The place of the byte at `offset`, outside of an array of `size` bytes, in words: `4 bytes after the end of`."""
    if offset == size:
        return "directly after the end of"
    return f"{offset - size} bytes after the end of" if offset >= size else f"{-offset} bytes before the start of"


def _signal_name(number: int) -> str:
    return f"signal {number} ({signal.strsignal(number) or 'unknown'})"


def driver_text() -> str:
    """The C text of the driver."""
    return environment().get_template("harness_driver.c.j2").render(control_words=_c_enum(Word), places=_c_enum(Place))


def _c_enum(values: type[IntEnum]) -> str:
    return "enum { " + ", ".join(f"{member.name} = {member.value}" for member in values) + " };"


@contextmanager
def shared_memory(name: str, size: int) -> Iterator[tuple[int, mmap.mmap]]:
    """An unnamed file in memory that a child can map, as (descriptor, mapping of this process). Removed at the end."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, max(size, mmap.PAGESIZE))
        # Unmapped when the last reference to it goes: closing it would fail while there are NumPy views of it.
        yield descriptor, mmap.mmap(descriptor, max(size, mmap.PAGESIZE))
    finally:
        os.close(descriptor)


def run_job(
    executable: Path,
    mode: str,
    libraries: Sequence[str],
    sizes: Sequence[int],
    blocks: Sequence[Block],
    data: int,
    limits: Limits,
    *,
    bind: bool,
    timing: Timing = Timing(),
) -> Outcome:
    """Run one job in a new driver process and wait for its end; no process that it started stays behind.

    `mode` is `describe`, `verify` or `time`; `libraries` are names of shared objects in the executable's folder,
    without white space; `data` is the descriptor of the shared data file; `bind` pins the threads to cores.
    """
    (executable.parent / SCRATCH).mkdir(exist_ok=True)
    capacity = max(4 * len(blocks), 4 * timing.max_rounds * (len(libraries) + 2))
    control_bytes = 8 * (Word.HEADER + capacity)
    address_space = (
        limits.array_bytes
        + limits.memory
        + _GUARDS * (len(blocks) + 1) * timing.sets
        + _THREAD_BYTES * (limits.threads + 1)
        + (1 << 30)
    )
    # The limit of CPU time is a second safeguard; the supervisor enforces that of wall-clock time.
    runs = 1 if mode != "time" else timing.max_rounds * (len(libraries) + 2) * 4
    cpu_seconds = int(limits.seconds + 10) * (limits.threads + 1) * runs
    with (
        shared_memory("polydl-control", control_bytes) as (control, control_map),
        tempfile.TemporaryFile(dir=executable.parent) as output,
    ):
        words: list[str | int] = [mode, control, control_bytes, data, output.fileno(), int(limits.seconds * 1e9)]
        words += [address_space, limits.array_bytes + limits.memory, cpu_seconds, OUTPUT_LIMIT]
        words += [len(sizes), *sizes, len(blocks)]
        for block in blocks:
            words += [block.place, block.bytes, block.block_bytes, block.file_offset, block.data_offset]
            words += [block.pointer_offset, block.restored + block.in_each_run]
        words += [len(libraries), *libraries, timing.sets, int(timing.min_sample * 1e9), int(timing.budget * 1e9)]
        words += [timing.min_rounds, timing.max_rounds, timing.cold_bytes]
        job = " ".join(str(word if isinstance(word, str) else int(word)) for word in words) + "\n"
        process = subprocess.Popen(
            [executable],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=output,
            cwd=executable.parent,
            env=_clean_environment(executable.parent, limits.threads, bind=bind),
            pass_fds=(control, data, output.fileno()),
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):  # the driver ended before it read its job: its exit code says why
                process.stdin.write(job.encode())
                process.stdin.flush()
            _wait(process, control_map, limits)
        finally:
            # Closing the pipe makes the supervisor kill everything that it started, also after an interruption.
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        header = np.frombuffer(control_map, dtype=np.int64).copy()
        output.seek(0)
        text = output.read(4000).decode(errors="replace")
        size = os.fstat(output.fileno()).st_size
        if process.returncode == -signal.SIGKILL:
            header[Word.TIMED_OUT] = 1
        elif process.returncode != 0:
            raise ToolchainError(f"the measuring driver failed with exit code {process.returncode}: {text}")
    found: dict[Word, int] = {word: int(header[word]) for word in Word if word is not Word.HEADER}
    damaged = _damaged(found, len(libraries), len(blocks), capacity // 4)
    if damaged:
        # Only which library ran may still be known.
        found |= {Word.SAMPLES: 0, Word.FAULT_ARRAY: 0}
        found[Word.CURRENT] = found[Word.CURRENT] if -1 <= found[Word.CURRENT] < len(libraries) else -1
    return Outcome(found, header[Word.HEADER :], text, size, damaged)


def _damaged(words: Mapping[Word, int], libraries: int, blocks: int, samples: int) -> bool:
    """Whether the control block holds values out of their range, because a candidate wrote there."""
    return not (
        words[Word.DONE] in (0, 1)
        and -1 <= words[Word.CURRENT] < libraries
        and 0 <= words[Word.FAULT_ARRAY] <= blocks
        and 0 <= words[Word.SAMPLES] <= samples
        and 0 <= words[Word.TWIN] < libraries
        and words[Word.NANOSECONDS] >= 0
    )


def _wait(process: subprocess.Popen[bytes], control: mmap.mmap, limits: Limits) -> None:
    """Wait for the supervisor; kill it when it does not enforce a limit (a candidate can stop any process)."""
    descriptor = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(1000):
            started = int(np.frombuffer(control, np.int64, 1, 8 * Word.STARTED)[0])
            if started and time.monotonic_ns() - started > (limits.seconds + _SUPERVISOR_DELAY) * 1e9:
                process.kill()  # its worker dies with it (PR_SET_PDEATHSIG)
                break
    finally:
        os.close(descriptor)
    process.wait()


def _clean_environment(folder: Path, threads: int, *, bind: bool) -> dict[str, str]:
    """The environment of candidates: nothing is inherited, so that runs do not depend on the user's OMP_* and LD_*."""
    variables = {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": str(folder / SCRATCH),
        "TMPDIR": str(folder / SCRATCH),
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        "OMP_PROC_BIND": "close" if bind else "false",
    }
    if bind:
        variables["OMP_PLACES"] = "cores"
    else:
        # Verification may use more threads than there are cores: threads that spin would delay those that work.
        variables["OMP_WAIT_POLICY"] = "passive"
    return variables
