"""Searches the C of groups and compiles it: in this process, or side by side in workers.

A search is Python, of which a process runs one thread at a time, so a graph with several groups to search gets a
process for each core. A worker is another Python that loads no torch, takes jobs as lines of JSON and answers each with
a line; it ends with the graph. It runs the same functions as this process does, thus gives the same code.
"""

from __future__ import annotations

import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from polydl.base.cache import Cache
from polydl.base.effort import Effort
from polydl.base.errors import PolyDLError, ToolchainError
from polydl.base.recursion import deep
from polydl.base.resources import header_flags
from polydl.measure import Toolchain
from polydl.measure.compiler import find_compiler, link_flags, run_compiler
from polydl.measure.conditional_loads import loads_under_conditions
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import known_strides
from polydl.options import Options
from polydl.pipeline import optimize
from polydl.results import OptimizeResult as Result
from polydl.schedule.tree import kernels
from polydl.search.variant import Variant

OBJECTS = Cache("torch_groups", ".so", 5000)
TEXTS = Cache("torch_texts", ".json", 5000)
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")
_WORTH_WORKERS = 4
"""Groups to search from which workers are begun: the start of one takes as long as a search."""
_UNTUNED = Effort(schedulers=0)
"""The loops of operators are already in an order that isl's schedulers find, and some of their programs take these
seconds, until they are stopped."""
_SIZES_SECONDS = 2
"""Of effort (`Effort.within`) for a region of a group that takes sizes: ways to run it are compared at a tenth of the
sizes, in half the time; of the groups of a transformer block the same ones are found."""
_APART = 4
"""Bytes that a cache loads for each of a tensor, from which on loops had better run in another order."""
_SHALLOW = 3
"""Loops of a statement up to which schedulers are asked then: of a convolution they would take minutes."""


@dataclass(frozen=True, slots=True)
class Job:
    """A group to be searched and compiled."""

    key: str
    """Of its entries in the cache."""
    name: str
    """Of the C function."""
    written: str
    """Its C."""
    entry: str
    """C that is compiled behind it."""
    how: str
    """`ranked`, `measured`, or `as written`."""
    flags: tuple[str, ...]
    """Of the compiler, where loads are under conditions that it gets wrong otherwise."""
    cc: str
    threads: int | None
    reassociate: bool
    fast_math: bool
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Least and greatest value of each size that the function takes."""
    moved: int = 0
    """Bytes of its tensors."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What polydl made of a group's text."""

    written: str
    """The group's text."""
    text: str
    variants: tuple[str, ...]
    notes: tuple[str, ...]
    """What the search told people."""
    kernels: int
    """Places where microkernels run."""
    shared: int = 0
    """Nests that share loops with others."""
    flags: tuple[str, ...] = ()
    """That the compiler needs for the text (`_flags`)."""


def from_document(said: Any) -> Searched:
    """What `asdict` and JSON made of a `Searched`."""
    return Searched(said["written"], said["text"], tuple(said["variants"]), tuple(said["notes"]), said["kernels"],
                    said["shared"], tuple(said["flags"]))  # fmt: skip


def searched(job: Job) -> Searched:
    """The C of the best variants, kept in the cache. Raises what `optimize` raises."""
    if job.how == "as written":
        found = Searched(job.written, job.written, (), (), 0, flags=_flags(job, job.written))
    else:
        found = optimized(job)
    TEXTS.write(job.key, json.dumps(asdict(found)).encode())
    return found


def _flags(job: Job, text: str) -> tuple[str, ...]:
    """A product is rounded before it is added, as PyTorch's are and Inductor's (`exp(3 * x - max)` of great values is
    infinite otherwise). Kernels say themselves where they want fused multiply-adds, but only for x86: of other
    processors the compiler has to find them."""
    exact = ("-ffp-contract=off",) if not job.fast_math and platform.machine() in ("x86_64", "AMD64") else ()
    return (*exact, *job.flags) if job.flags and loads_under_conditions(text, job.cc, header_flags()) else exact


@deep()
def optimized(job: Job) -> Searched:
    """Without timing in the small space: its first variant is hardly ever estimated to take longer than that of the
    default space, which takes two to four times as long to search. Where it would take lines of memory apart, as the
    columns of a matrix do, isl's schedulers are asked for another order of the loops; where it reads along one loop and
    writes along another, for which squares of vectors need tiles, the default space is searched."""
    if job.how == "measured":
        return _searched(job, _optimized(job, "default", Effort()))
    full, untuned = (one.within(_SIZES_SECONDS) if job.sizes else one for one in (Effort(), _UNTUNED))
    found = _optimized(job, "small", untuned)
    others: list[tuple[str, Effort]] = []
    if _takes_lines_apart(job, found):
        others.append(("small", full))
    if any(_turns(one.program, s) for one in _chosen(found[0]) for s in one.program.statements):
        others.append(("default", untuned))
    for space, effort in others:
        other = _optimized(job, space, effort)
        if _predicted(other) < _predicted(found):
            found = other
    return _searched(job, found)


Told = Sequence[warnings.WarningMessage]


def _optimized(job: Job, space: str, effort: Effort) -> tuple[Result, Told]:
    """What `optimize` makes of a group, and what it warned of."""
    options = Options(
        function=job.name, threads=job.threads, cc=job.cc, reassociate=job.reassociate, fast_math=job.fast_math,
        top_k=3, cflags=_flags(job, job.written) if job.how == "measured" else (), space=space, effort=effort,
        sizes={name: range(least, most + 1) for name, (least, most) in job.sizes.items()},
        oracle=False,  # it is called beside its operators instead (group_check), whose meaning is not in its C
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="polydl-torch-") as folder, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = optimize(job.written, Path(folder, "group.c"), options, run=job.how == "measured")
    return found, told


def _chosen(found: Result) -> list[Variant]:
    return [one.chosen for one in found.scops if one.chosen is not None]


def _takes_lines_apart(job: Job, found: tuple[Result, Told]) -> bool:
    """Whether the first cache is estimated to load much more than the tensors of a group that sums no products."""
    threads = job.threads or len(os.sched_getaffinity(0))
    return any(
        one.estimate.counts.get("into_L1_bytes", 0.0) * threads > _APART * job.moved > 0
        and all(s.depth <= _SHALLOW for s in one.program.statements) and not any(kernels(one.tree))
        for one in _chosen(found[0])
    )  # fmt: skip


def _turns(scop: Scop, statement: Statement) -> bool:
    """Whether a statement in a few loops writes neighbours along one of them and reads neighbours along another."""
    if not isinstance(statement.body, Assignment) or not 2 <= statement.depth <= _SHALLOW:
        return False
    moves = [(access.write, known_strides(scop, statement, access)) for access in statement.accesses]
    written = {loop for write, by in moves if write and by is not None for loop in by if by[loop] == 1}
    return any(
        not write and by is not None and 1 in by.values() and any(by[loop] not in (0, 1) for loop in written)
        for write, by in moves
    )


def _predicted(found: tuple[Result, Told]) -> float:
    return sum(one.score for one in _chosen(found[0]))


def _searched(job: Job, made: tuple[Result, Told]) -> Searched:
    found, told = made
    chosen = _chosen(found)
    used = sum(1 for one in chosen for _ in kernels(one.tree))
    shared = sum(1 for one in chosen for part in one.parts if part.merge is not None)
    notes = tuple(dict.fromkeys(str(one.message) for one in told))
    ids, flags = tuple(one.id for one in chosen), _flags(job, found.text)
    return Searched(job.written, found.text, ids, notes, used, shared, flags)


def compiled(job: Job, found: Searched) -> tuple[Searched, Path]:
    """The shared object of what was searched, in the cache where that can be written; of the loops as they are written,
    and they as what was found, where that takes the compiler too long. Raises ToolchainError."""
    toolchain: Toolchain = Options(cc=job.cc).toolchain()
    folder = Path(tempfile.mkdtemp(prefix="polydl-torch-group-"))
    source, target = folder / "group.c", folder / "group.so"
    source.write_text(found.text + job.entry, encoding="utf-8")
    arguments: list[str | Path] = [*toolchain.cflags, *found.flags, *header_flags(), *_SHARED, "-o", target, source]
    arguments += link_flags(toolchain)
    done = run_compiler([find_compiler(toolchain), *arguments])
    if done.late:
        note = f"the loops run as they are written: {done.message.removeprefix('error: ')}"
        found = Searched(job.written, job.written, (), (*found.notes, note), 0, flags=found.flags)
        TEXTS.write(job.key, json.dumps(asdict(found)).encode())
        source.write_text(job.written + job.entry, encoding="utf-8")
        done = run_compiler([find_compiler(toolchain), *arguments, "-O1"])
    if not done.ok:
        raise ToolchainError(f"the code of a group cannot be compiled ({source}): {done.message}")
    if not OBJECTS.write(job.key, target.read_bytes()):
        return found, target
    source.unlink()
    target.unlink()
    folder.rmdir()
    return found, OBJECTS.path(job.key)


Waiting = Callable[[], tuple[Searched, Path]]


class Compilers:
    """Searches and compiles groups while what began them goes on; a context, at whose end all is done.

    `searches`: how many groups are to be searched. `timed`: whether searches time what they find: nothing else runs
    then. `tell` is called with a line for each group that was searched.
    """

    def __init__(self, searches: int, *, timed: bool = False, tell: Callable[[str], object] | None = None) -> None:
        cores = len(os.sched_getaffinity(0))
        self._timed = timed
        workers = min(cores, searches) if searches >= _WORTH_WORKERS and not timed and sys.executable else 0
        self._workers: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._workers.put(None)
        self._by_worker = workers > 1
        self._threads = ThreadPoolExecutor(cores)
        self._searches, self._done, self._tell = searches, 0, tell

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=error is not None)
        while not self._workers.empty():
            worker = self._workers.get()
            if worker is not None:
                worker.end()

    def begin(self, job: Job) -> Waiting:
        """Begin with a group; what is returned waits for it. Both raise what polydl raises for C that it refuses, and
        ToolchainError."""
        if job.how != "as written" and self._by_worker:
            return self._threads.submit(self._worked, job).result
        begin = time.perf_counter()
        found = searched(job)
        self._say(job, time.perf_counter() - begin)
        path = self._threads.submit(compiled, job, found)
        if self._timed:
            path.result()
        return path.result

    def _worked(self, job: Job) -> tuple[Searched, Path]:
        begin = time.perf_counter()
        worker = self._workers.get()
        try:
            worker = worker or _Worker()
            answer = worker.answer(job)
        finally:
            self._workers.put(worker if worker is not None and worker.runs else None)
        self._say(job, time.perf_counter() - begin)
        return answer

    def _say(self, job: Job, seconds: float) -> None:
        if self._tell is not None and job.how != "as written":
            self._done += 1
            self._tell(f"{self._done} of {self._searches} groups: {job.name} {job.how} in {seconds:.1f} s")


class _Worker:
    """Another process that does jobs."""

    def __init__(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import work; work()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, job: Job) -> tuple[Searched, Path]:
        """Raises what the job raised there, and ToolchainError where the process ended."""
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None and answers is not None
        try:
            pipe.write(json.dumps(asdict(job)) + "\n")
            pipe.flush()
            line = answers.readline()
        except OSError:
            line = ""
        if not line:
            self.end()
            raise ToolchainError(f"the process that searched {job.name} ended with code {self._process.returncode}")
        said = json.loads(line)
        if "searched" in said:
            return from_document(said["searched"]), Path(said["path"])
        if said["kind"] == "polydl":
            raise PolyDLError(said["error"])
        raise RuntimeError(f"{said['kind']}: {said['error']}")

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End the process."""
        self._process.terminate()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of a job that it did not live to read
                    pipe.close()
        self._process.wait()


def work() -> None:
    """What a worker runs: a job from each line of its input, an answer for each to its output, until that ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed is no answer
    for line in sys.stdin:
        said = json.loads(line)
        answers.write(json.dumps(_answer(Job(**{**said, "flags": tuple(said["flags"])}))) + "\n")
        answers.flush()


def _answer(job: Job) -> dict[str, object]:
    try:
        found = searched(job)
        found, path = compiled(job, found)
    except PolyDLError as error:
        return {"kind": "polydl", "error": str(error)}
    except Exception as error:  # noqa: BLE001  # raised again where the job came from
        return {"kind": type(error).__name__, "error": f"{error}\n{traceback.format_exc()}"}
    return {"searched": asdict(found), "path": str(path)}
