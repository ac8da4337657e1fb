"""`measure`: builds, verifies and times all candidates, and reports the results."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from polydl.base.errors import NotMeasurable, ToolchainError
from polydl.lower.emit import Generated, protected
from polydl.measure.allowance import Allowance
from polydl.measure.busy import Others
from polydl.measure.by_slices import LEAST as LEAST_WITH_SLICES
from polydl.measure.by_slices import BuiltSlice, verify_by_slices
from polydl.measure.compare import longest_sum
from polydl.measure.compiler import Compilation, compile_all, find_compiler, link_flags, run_compiler, unit_flags
from polydl.measure.compiler_faults import without_fault
from polydl.measure.driver import Block, Limits, Place, driver_text, run_job, shared_memory
from polydl.measure.given_data import given_data
from polydl.measure.input_data import Buffer, describe_buffers, memory_budget, rests_on
from polydl.measure.measurement import ORIGINAL, Measurement, MeasureOptions, Progress, Report, Status, Toolchain
from polydl.measure.poison import with_overwritten
from polydl.measure.slices import Slice
from polydl.measure.timing import brief_seconds, clock_resolution, time_contenders
from polydl.measure.unit import original_code, passed_arrays, size_guards, unit_text
from polydl.measure.verify import Built, Checked, Setting, Verification, verify
from polydl.model.scop import Scop

_UNIT_FLAGS = (
    "-w", "-fPIC", "-fvisibility=hidden", "-fno-lto", "-shared", "-Xlinker", "-Bsymbolic", "-Xlinker", "-zdefs",
)  # fmt: skip
"""Shared objects resolve their own symbols, so that several candidates in one process do not use each other's. Each is
one unit, and its assembler names its variables: link-time optimization has nothing to gain there."""

_drivers: dict[str, bytes] = {}
"""Executables of the driver by compiler: a process compiles it once, for all its measurements."""


class More(Protocol):
    """Chooses further candidates: their C by id, for the seconds of those so far."""

    def __call__(self, seconds: Mapping[str, float], /) -> Mapping[str, Generated]: ...


def measure(
    scop: Scop,
    codes: Mapping[str, Generated],
    toolchain: Toolchain,
    options: MeasureOptions,
    progress: Progress | None = None,
    slices: Sequence[Slice] = (),
    more: More | None = None,
) -> Report:
    """Compile, verify and time candidates against the original; the report has a measurement of each, in their order.

    `more` is asked for further candidates, round by round, with the seconds of those so far (by id, briefly timed,
    those of them that work), until it has none; then all are timed at length, in turn. Not where the original is
    compared in slices: all candidates are then compared with each other, and `more` is asked once, with no times.

    `codes` has the C of each candidate by its id, to stand in place of the scop's region. With `slices` of the
    original, a slow original need not be run whole (measure.by_slices). A candidate that fails does not affect the
    others. No process and no file stays behind. Raises InputError when a size is missing or the arrays do not fit in
    memory, ToolchainError when there is no compiler or the original does not compile or run.
    """
    compiler = find_compiler(toolchain)
    allowance = Allowance(options.seconds)
    report: Progress = progress or _silent
    with tempfile.TemporaryDirectory(prefix="polydl-") as name:
        folder = Path(name)
        start = time.perf_counter()
        builder = Builder(scop, toolchain, options, compiler, folder, allowance)
        if slices and more is not None:
            codes, more = {**codes, **more({})}, None
        of_original = {f"slice {i} of the original": one for i, one in enumerate(slices)}
        needed = {*of_original, *list(codes)[: LEAST_WITH_SLICES if slices else 1]}
        every = {**codes, **{name: one.code for name, one in of_original.items()}}
        built, failed = builder.build(every, report, needed)
        built_slices = [BuiltSlice(of_original[b.id], b) for b in built if b.id in of_original]
        built = [b for b in built if b.id not in of_original]
        failed = [m for m in failed if m.id not in of_original]
        seconds = {"compile": time.perf_counter() - start}
        setting = setting_for(scop, folder, built[0], options, allowance)
        others, begin = Others(), time.perf_counter()
        checked = verify_by_slices(setting, built_slices, built[1:], lambda done, total: report("verify", done, total))
        check = checked or verify(setting, built[0], built[1:], lambda done, total: report("verify", done, total))
        contenders = _contenders(built[0], check)
        while more is not None and (later := _chosen(more, brief_seconds(setting, contenders), allowance)):
            codes = {**codes, **later}
            start = time.perf_counter()
            newly, broken = builder.build(later, report, before=len(codes) - len(later))
            failed += broken
            seconds["compile"] += time.perf_counter() - start
            begin += time.perf_counter() - start
            if allowance.half_spent:
                failed += [
                    Measurement(one.id, Status.LEFT_OUT, "not run: the time for all was spent") for one in newly[1:]
                ]
            elif newly[1:]:
                found = verify(setting, built[0], newly[1:], lambda done, total: report("verify", done, total))
                check = check.joined(found)
                contenders = _contenders(built[0], check)
        sound = without_fault(toolchain) if _disagree(check) else toolchain
        if sound != toolchain:
            again = measure(scop, codes, sound, options, progress, slices)
            told = (
                f"{toolchain.cc} gets loads under conditions wrong here: all was compiled with {sound.cflags[-1]}, "
                "with which the output needs to be compiled, too"
            )
            return replace(again, warnings=(told, *again.warnings))
        verified, busy = time.perf_counter(), others.share()
        results = {m.id: m for m in (*failed, *(one.measurement for one in check.checked))}
        report("time", 0, len(contenders))
        timed = time_contenders(setting, contenders, check.original_seconds, busy)
        report("time", len(contenders), len(contenders))
        results |= {m.id: m for m in timed.measurements[1:]}
        end = time.perf_counter()
    lengths = {name: len(protected(scop.source, code.prologue)) + len(code.region) for name, code in codes.items()}
    return Report(
        timed.measurements[0],
        tuple(replace(results[name], length=length) for name, length in lengths.items()),
        timed.noise,
        seconds["compile"],
        verified - begin,
        end - verified,
        (*check.warnings, *timed.warnings),
        clock_resolution(),
        timed.disturbed,
        allowance.spent,
        rests_on(setting.buffers),
        timed.untrusted,
    )


def _chosen(more: More, seconds: Mapping[str, float], allowance: Allowance) -> Mapping[str, Generated]:
    """What is chosen, whose making is not to count."""
    begin = time.monotonic()
    try:
        return more(seconds)
    finally:
        allowance.grant(time.monotonic() - begin)


def _contenders(original: Built, check: Verification) -> list[Checked]:
    """The original, and the candidates that compute what it does."""
    how = Measurement(ORIGINAL, Status.VERIFIED, "the reference", estimated=check.estimated)
    first = Checked(original, how, min(check.original_seconds))
    return [first, *(one for one in check.checked if one.measurement.verified)]


def _disagree(check: Verification) -> bool:
    """Whether a candidate computes something else than the original: one of the two may be a fault of the compiler."""
    return any(one.measurement.status is Status.WRONG for one in check.checked)


def _silent(stage: str, done: int, total: int) -> None:
    """A progress function that does nothing."""


class Builder:
    """Compiles the driver and all candidates into one folder."""

    def __init__(
        self,
        scop: Scop,
        toolchain: Toolchain,
        options: MeasureOptions,
        compiler: str,
        folder: Path,
        allowance: Allowance | None = None,
    ) -> None:
        self._scop = scop
        self._toolchain = toolchain
        self._options = options
        self._compiler = compiler
        self._folder = folder
        self._allowance = allowance or Allowance(math.inf)

    def build(
        self, codes: Mapping[str, Generated], report: Progress, needed: Collection[str] = (), before: int = 0
    ) -> tuple[list[Built], list[Measurement]]:
        """Compile the candidates: those that compiled, the original first, and a measurement for each that did not.

        `needed` are compiled however much time was spent; `before`: how many candidates earlier rounds had. Each unit
        begins with the user's file up to the function. When the original does not link, because a helper is defined
        further down, all units get the rest of the file too. Raises ToolchainError when the original does not
        compile.
        """
        if ORIGINAL in codes:
            raise ValueError(f"no candidate may be called '{ORIGINAL}'")
        everything = {ORIGINAL: original_code(self._scop), **codes}
        driver = self._driver()
        numbers = [0, *range(1 + before, 1 + before + len(codes))]
        jobs = [self._job(*one, whole=False) for one in zip(numbers, everything.items(), strict=True)]
        may_wait = [name != ORIGINAL and name not in needed for name in everything]
        known = self._known_original(jobs[0])
        first = 1 if known else 0
        results = self._compile([*driver, *jobs[first:]], [*(False for _ in driver), *may_wait[first:]], report)
        if driver:
            self._keep_driver(results.pop(0))
        original, *others = [known, *results] if known else results
        assert original is not None
        if not original.ok:
            whole_job = self._job(0, (ORIGINAL, everything[ORIGINAL]), whole=True)
            whole = run_compiler(whole_job, self._options.compile_timeout)
            if not whole.ok:
                hint = "the file must compile as it is; give its flags with -D, -I, --cflags, --ldflags and --link"
                if "undefined reference" in original.output:
                    hint = "name the object or library that defines it with --link (a microkernel's too), or --ldflags"
                if "recompile with -fPIC" in original.output:
                    hint = "candidates are measured in a shared object: compile what --link names with -fPIC"
                raise ToolchainError(
                    f"'{self._toolchain.cc}' does not compile the original code of '{self._scop.function}':\n"
                    f"{original.message}",
                    hint=hint,
                )
            jobs = [self._job(*one, whole=True) for one in zip(numbers, everything.items(), strict=True)]
            original, others = whole, self._compile(jobs[1:], may_wait[1:], report)
        self._keep_original(jobs[0])
        built, failed = [], []
        found = zip(numbers, jobs, everything, [original, *others], strict=True)
        for number, job, name, result in found:
            if result is None:
                failed.append(Measurement(name, Status.LEFT_OUT, "not compiled: the time for all variants was spent"))
            elif result.ok:
                built.append(Built(name, _library(number), tuple(str(part) for part in job)))
            else:
                failed.append(Measurement(name, Status.COMPILE_FAILED, result.message, late=result.late))
        return built, failed

    def _driver(self) -> list[list[str | Path]]:
        """Put the driver into the folder, or give the command that makes it."""
        executable = self._folder / "driver"
        known = _drivers.get(self._compiler)
        if known is not None:
            executable.write_bytes(known)
            executable.chmod(0o700)
            return []
        text = executable.with_suffix(".c")
        text.write_text(driver_text())
        return [[self._compiler, "-O2", "-w", "-o", executable, text, "-ldl", "-lm"]]

    def _keep_driver(self, made: Compilation | None) -> None:
        """Keep what was compiled. Raises ToolchainError when it could not be."""
        assert made is not None
        if not made.ok:
            raise ToolchainError(
                f"'{self._toolchain.cc}' cannot compile the measuring harness:\n{made.message}",
                hint="measuring needs a C compiler for this Linux system; --no-run ranks without it",
            )
        _drivers[self._compiler] = (self._folder / "driver").read_bytes()

    def _known_original(self, job: Sequence[str | Path]) -> Compilation | None:
        """The original that was compiled before with the same options, put into the folder; None: there is none."""
        if self._options.originals is None or (library := self._options.originals.get(self._meaning(job))) is None:
            return None
        (self._folder / _library(0)).write_bytes(library)
        return Compilation(True, "")

    def _keep_original(self, job: Sequence[str | Path]) -> None:
        """Keep what was compiled, where it is wanted."""
        if self._options.originals is not None:
            self._options.originals[self._meaning(job)] = (self._folder / _library(0)).read_bytes()

    def _meaning(self, job: Sequence[str | Path]) -> tuple[str, ...]:
        """What the original's library depends on: the command, but for the folder, and the C text."""
        text = (self._folder / "candidate0.c").read_text("utf-8", "surrogateescape")
        return (*(str(part) for part in job if not str(part).startswith(str(self._folder))), text)

    def _compile(
        self, jobs: Sequence[Sequence[str | Path]], may_wait: Sequence[bool], report: Progress
    ) -> list[Compilation | None]:
        """What the compiler says; None for one that may wait, and whose turn came when the time was spent."""
        return compile_all(
            jobs,
            self._options.jobs,
            self._options.compile_timeout,
            lambda n: report("compile", n, len(jobs)),
            lambda i: may_wait[i] and self._allowance.half_spent,
        )

    def _job(self, index: int, candidate: tuple[str, Generated], *, whole: bool) -> list[str | Path]:
        """Write the unit's text and return the command that compiles it."""
        name, code = candidate
        path = self._folder / f"candidate{index}.c"
        text = unit_text(self._scop, name, code, whole=whole)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        flags = [*self._toolchain.cflags, *unit_flags(self._scop.source), *_UNIT_FLAGS]
        return [self._compiler, *flags, "-o", self._folder / _library(index), path, *link_flags(self._toolchain)]


def _library(index: int) -> str:
    return f"./candidate{index}.so"


def setting_for(
    scop: Scop, folder: Path, original: Built, options: MeasureOptions, allowance: Allowance | None = None
) -> Setting:
    """Lay out the data, with the types that the compiled original reports. Raises InputError when it does not fit."""
    driver = folder / "driver"
    sizes = tuple(guard.value for guard in size_guards(scop))
    arrays = passed_arrays(scop)
    placeholders = [Block(Place.CONSTANT, 0, 0, 0, 0, 0, False) for _ in arrays]
    limits = Limits(options.timeout, options.threads, options.memory, 0)
    with shared_memory("polydl-data", 0) as (descriptor, _):
        outcome = run_job(driver, "describe", [original.library], sizes, placeholders, descriptor, limits, bind=False)
    failure = outcome.failure(limits, [array.spelled for array in arrays], placeholders)
    if failure is not None:
        raise ToolchainError(
            f"the compiled original code of '{scop.function}' cannot be loaded: it {failure[1]}",
            scop.span,
            "is a library missing (--link, --ldflags), or is the temporary folder mounted noexec (TMPDIR)?",
        )
    rows = outcome.payload[: 3 * len(arrays)].reshape(len(arrays), 3).tolist()
    buffers = describe_buffers(scop, rows, given_data(scop, options.data))
    _check_memory(scop, buffers)
    return Setting(
        scop,
        driver,
        with_overwritten(buffers, scop),
        sizes,
        longest_sum(scop),
        options,
        allowance or Allowance(math.inf),
    )


def _check_memory(scop: Scop, buffers: Sequence[Buffer]) -> None:
    """Raise InputError when the data does not fit in memory: the shared copy, the inputs, and the reference results."""
    needed = sum(buffer.bytes * (4 if buffer.written else 2) for buffer in buffers)
    budget = memory_budget()
    if needed > budget:
        largest = max(buffers, key=lambda buffer: buffer.bytes)
        raise NotMeasurable(
            f"measuring needs {needed / 2**30:.1f} GiB for the arrays and their references, and "
            f"{budget / 2**30:.1f} GiB may be used; the largest array is '{largest.array.name}' with "
            f"{largest.bytes / 2**30:.1f} GiB",
            scop.span,
            "give smaller sizes, or rank without running (--no-run)",
        )
