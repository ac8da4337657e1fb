"""Calls of functions of the source and of what polydl made of it, on the same data: written as a job, run by the driver
of `templates/check_driver.c` (each call in a process of its own, objects between guard pages), and read back."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from polydl.base.errors import ToolchainError
from polydl.base.records import dataclass
from polydl.base.resources import templates
from polydl.measure.compiler import find_compiler
from polydl.measure.measurement import Toolchain


class Side(IntEnum):
    """What was run."""

    SOURCE = 0
    OUTPUT = 1
    UPWARD = 2
    """The source, all operations rounded towards plus infinity; where an operation rounded at all."""
    DOWNWARD = 3


INTERPRETED = -1
"""The status of a call that the interpreter of C ended: what it does is undefined."""


class CannotRun(ToolchainError):
    """Why no call was made, as a clause behind "because"."""


class OtherMachine(CannotRun):
    """The compiler makes code for another machine."""


@dataclass(frozen=True, slots=True)
class Block:
    """An object in memory as a call finds it."""

    name: str
    data: bytes
    pointers: tuple[tuple[int, int, int], ...] = ()
    """(offset in it, number of the object pointed to, offset there); object -1: the null pointer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `polydl_check_FUNCTION(address of the first object)`."""

    function: int
    objects: tuple[Block, ...]
    """The first one holds the arguments."""
    at_end: bool
    """Whether objects end at a guard page; else they begin behind one."""
    seconds: int = 2
    """That it may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one side of a call ended."""

    ran: bool
    status: int
    """As `waitpid` gives it, or INTERPRETED."""
    inexact: bool
    """Whether an operation on floats rounded."""
    damaged: str | None
    """The object beside which it wrote."""
    said: str
    """What it printed on its standard error."""
    results: tuple[bytes, ...]
    """What the objects hold afterwards."""

    @property
    def not_here(self) -> str | None:
        """What it needs and does not find on this machine, which says nothing of what it computes; None: nothing."""
        missing = _UNDEFINED.search(self.said)
        if missing is not None:
            return _not_linked(missing)
        return "it has instructions that this machine has not" if self.unknown_instructions else None

    @property
    def unknown_instructions(self) -> bool:
        """Whether it came upon instructions that this machine has not."""
        signalled = not self.ran and self.status != INTERPRETED and os.WIFSIGNALED(self.status)
        return signalled and os.WTERMSIG(self.status) == signal.SIGILL

    @property
    def failure(self) -> str | None:
        """What went wrong, for people: a clause without its subject; None: nothing."""
        if self.damaged is not None:
            return f"writes beside '{self.damaged}'"
        if self.ran:
            return None
        if self.status == INTERPRETED:
            return f"does what C leaves undefined: {self.said}"
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            if number == signal.SIGSEGV:
                return "touches memory outside of its arguments"
            if number in (signal.SIGALRM, signal.SIGXCPU):
                return "does not end"
            return f"is ended by {signal.strsignal(number) or f'signal {number}'}"
        said = self.said.strip().splitlines()
        return f"ends the process with status {os.WEXITSTATUS(self.status)}" + (f": {said[0]}" if said else "")


_UNDEFINED = re.compile(r"undefined symbol: (?!polydl_)(\w+)")
"""What the loader says of a function or an object that is in no library; polydl's own names must be in the output."""


def _not_linked(missing: re.Match[str]) -> str:
    return f"it uses '{missing.group(1)}', which is not linked (--link)"


_HEAD = struct.Struct("<2q")
_OUTCOME = struct.Struct("<4q480s")
_CALL = struct.Struct("<4q")
_OBJECT = struct.Struct(f"<4q{len(Side)}q")
_CALL_BYTES = _CALL.size + len(Side) * _OUTCOME.size


def driver_job(folder: Path, toolchain: Toolchain) -> tuple[Path, list[str | Path]]:
    """The driver in a folder, and the command that compiles it. Raises ToolchainError where there is no compiler."""
    target = folder / "check_driver"
    source = shutil.copy(templates() / "check_driver.c", folder)
    return target, [find_compiler(toolchain), "-O1", "-w", "-o", target, source, "-ldl", "-lm"]


def run(
    executable: Path, source: Path, output: Path, calls: Sequence[Call], environment: Mapping[str, str]
) -> list[dict[Side, Outcome]]:
    """Run all calls on both sides. The output is run where the source came through, the source with other roundings
    where it rounded. Raises CannotRun; ToolchainError where the driver itself fails."""
    job = executable.parent / "job"
    layout = _write(job, calls)
    limit = 10 + sum(call.seconds * len(Side) for call in calls)
    try:
        done = subprocess.run(
            [executable, source, output, job], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, cwd=executable.parent, env=dict(environment), timeout=limit, check=False,
        )  # fmt: skip
    except OSError as error:
        raise OtherMachine(f"what '{executable.name}' is compiled to cannot be run here: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        missing = _UNDEFINED.search(said)
        if missing is not None:
            raise CannotRun(_not_linked(missing))
        raise ToolchainError(f"the check could not be run: {said}")
    with job.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = [_read(data, k, call, results) for k, (call, results) in enumerate(zip(calls, layout, strict=True))]
    job.unlink()
    return found


def _write(job: Path, calls: Sequence[Call]) -> list[list[list[int]]]:
    """Write the job; by call and object where the results of each side will be."""
    parts: list[bytes] = []
    begin = at = _HEAD.size + len(calls) * _CALL_BYTES
    room = sum(-(-len(one.data) // 16) * 16 * len(Side) for call in calls for one in call.objects)
    results_at = at  # results first: the file has no blocks for what nobody has written yet
    at += room

    def put(data: bytes) -> int:
        nonlocal at
        where, padded = at, data + bytes(-len(data) % 16)
        parts.append(padded)
        at += len(padded)
        return where

    table, layout = [], []
    for call in calls:
        records, places = [], []
        for one in call.objects:
            words = struct.pack("<q", len(one.pointers))
            words += b"".join(struct.pack("<3q", *pointer) for pointer in one.pointers)
            length = -(-len(one.data) // 16) * 16
            results = [results_at + length * side for side in Side]
            results_at += length * len(Side)
            records.append(_OBJECT.pack(len(one.data), put(one.data), call.at_end, put(words), *results))
            places.append(results)
        first = put(b"".join(records))
        outcomes = bytes(len(Side) * _OUTCOME.size)
        table.append(_CALL.pack(call.function, len(call.objects), first, call.seconds) + outcomes)
        layout.append(places)
    with job.open("wb") as file:
        file.write(_HEAD.pack(len(calls), _HEAD.size) + b"".join(table))
        file.seek(begin + room)
        file.writelines(parts)
    return layout


def _read(data: mmap.mmap, number: int, call: Call, places: Sequence[Sequence[int]]) -> dict[Side, Outcome]:
    found = {}
    for side in Side:
        at = _HEAD.size + number * _CALL_BYTES + _CALL.size + side * _OUTCOME.size
        ran, status, flags, damaged, said = _OUTCOME.unpack_from(data, at)
        results = tuple(data[p[side] : p[side] + len(o.data)] for o, p in zip(call.objects, places, strict=True))
        beside = call.objects[damaged - 1].name if damaged else None
        text = said.split(b"\0")[0].decode(errors="replace")
        found[side] = Outcome(bool(ran), status, bool(flags & 1), beside, text, results)
    return found
