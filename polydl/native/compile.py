"""`polydl.compile`: makes a Python function of a C kernel, tuned for its sizes."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

from polydl.base.errors import InputError, PolyDLError, one_of
from polydl.base.recursion import deep
from polydl.frontend import Parsed, Program
from polydl.frontend.inline import located
from polydl.measure import Progress
from polydl.measure.compiler import unit_flags
from polydl.measure.compiler_faults import without_fault
from polydl.measure.conditional_loads import loads_under_conditions
from polydl.model.scop import Scop
from polydl.model.touched import premises
from polydl.native.index_checks import IndexCheck, index_checks
from polydl.native.kernel import Kernel, Made
from polydl.native.macro_sizes import with_sizes
from polydl.native.shared import Unit
from polydl.native.signature import Signature, signature
from polydl.options import CompileChanges, Options
from polydl.pipeline import optimize as optimize_program
from polydl.results import OptimizeResult
from polydl.search import result_cache
from polydl.search.loading import parsed, program_of, sized


@deep()
def compile_kernel(
    source: str | Path | Scop,
    sizes: Mapping[str, int | range] | None = None,
    *,
    optimize: bool = True,
    tune: bool = True,
    constant: Sequence[str] = (),
    check: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
    options: Options | None = None,
    **changes: Unpack[CompileChanges],
) -> Kernel:
    """Make a Python function of arrays from a C kernel, optimized for its sizes.

    `source` is a C file, or C itself, or a scop that was read from it or built (`polydl.build`). `sizes` has values by
    name, of integer parameters of the function and of macros; a `range` of a parameter means that all its values are as
    likely, and none that it may have every value: it is then an argument of the function without a default.
    With `tune` the best ranked variants are compiled, checked against the original and timed, and the fastest becomes
    the function, as in `optimize`; without it the best ranked variant is taken and nothing is run; without `optimize`
    the loops stay as they are written. `constant` names parameters, such as weights, whose contents stay the same from
    call to call: the kernel copies them once into the layout that its code reads (see `Kernel`). With `check` each call
    looks first at what subscripts are made of: a value of an array of integers that leads out of an array, or rows in
    no order, raise ArgumentValueError, and nothing is written. That looks at all elements of such arrays, and may take
    as long as the kernel; sums of several such values are not asked for. Results are cached by
    content in the user's cache folder, so that the same call in another process compiles and measures nothing, unless
    `fresh`. That holds for results of a busy machine too; the kernel's `made.notes` then say so. Other keywords are
    fields of `Options`, such as `threads`, and `function`, which chooses among several kernels of a file. Raises
    InputError, ToolchainError, QuotaExceeded; PolyDLError when no variant computed what the original computes.

    >>> import numpy as np, polydl
    >>> scale = polydl.compile('''
    ... void scale(int n, float a, const float x[restrict n], float y[restrict n])
    ... {
    ...     for (int i = 0; i < n; i++)
    ...         y[i] = a * x[i];
    ... }
    ... ''', {"n": 4}, tune=False, threads=1)
    >>> print(scale)
    scale(a: float, x: const float[n], y: float[n], n=4)
    >>> y = np.empty(4, np.float32)
    >>> scale(2, np.arange(4, dtype=np.float32), y)
    >>> y
    array([0., 2., 4., 6.], dtype=float32)
    >>> scale(3, np.ones(4, np.float32))  # what is written may be left out
    array([3., 3., 3., 3.], dtype=float32)
    """
    o = (options or Options()).changed(**changes)
    if isinstance(constant, str):
        raise TypeError(f"constant is a sequence of names: constant=[{constant!r}]")
    built, how = None, "as written" if not optimize else "measured" if tune else "ranked"
    written = Path(f"function {how}")
    if isinstance(source, Scop):
        built, path, o = source, _place(source), _as_read(source, o)
        written = written / f"{sorted(built.sizes.items())} {built.region.start}"
    else:
        path, folders = located(source)
        o = o.including(folders)
    written = written / " ".join(sorted({*constant}))
    file = _File(path)
    o = with_sizes(path, sizes or {}, o, file.parsed)
    if built is not None and o.defines:
        unknown, known = next(iter(o.defines)), ", ".join(built.parameters) or "none"
        raise InputError(f"'{unknown}' is no size of {built.function}", hint=f"it has: {known}")
    try:
        key = result_cache.key(path, written, o)
    except OSError:
        key = None  # the file cannot be read, which `load` reports
    found = result_cache.load(key) if key is not None and not fresh else None
    if found is not None:
        return _kernel(found.text, found.document, o, check=check)
    program, with_all = sized(file.parsed(o), o) if built is None else program_of(built, o)
    function = _only_function(program)
    # Before the search, which takes long: is this a function that Python can call?
    declared = signature([s for s in program.scops if s.function == function], file.parsed(o).unit)
    declared = declared.without_sizes(with_all.sizes.keys() - o.sizes.keys())
    _check_constant((*o.prepack, *constant), declared)
    program = _with_constants(program, function, constant)
    text, made = _optimized(program, function, how, with_all, progress)
    checks = index_checks(s for s in program.scops if s.function == function)
    document = {
        "signature": declared.to_data(), "made": asdict(made), "flags": unit_flags(program.source),
        "checks": list(map(asdict, checks)), "plain": program.source.text,
        "conditional_loads": loads_under_conditions(text, o.toolchain().cc, unit_flags(program.source)),
    }  # fmt: skip
    if key is not None:
        result_cache.save(key, result_cache.CachedResult(text, document, "", time.time()), path, o)
    return _kernel(text, document, o, check=check)


def _place(scop: Scop) -> Path:
    """A file with the C that a scop was read from, or that it stands for."""
    text = scop.source.text.encode("utf-8", "surrogateescape")
    there = scop.source.path.is_file() and scop.source.path.read_bytes() == text
    return scop.source.path if there else located(scop.source.text)[0]


def _as_read(scop: Scop, o: Options) -> Options:
    """The options with what a scop was read with."""
    return o.changed(
        preprocessor_flags=scop.source.preprocessor_flags, defines={}, undefines=(), include_dirs=(),
        fast_math=o.fast_math or scop.fast_math,
    )  # fmt: skip


class _File:
    """A C file that is preprocessed and parsed once for each set of macros."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[Mapping[str, str | int], Parsed] | None = None

    def parsed(self, o: Options) -> Parsed:
        """Raises InputError, ToolchainError."""
        if self._read is None or self._read[0] != o.defines:
            self._read = o.defines, parsed(self._path, o)
        return self._read[1]


def _kernel(text: str, document: Mapping[str, Any], o: Options, *, check: bool) -> Kernel:
    lists = {name: tuple(document["made"][name]) for name in ("notes", "packed")}
    made = Made(**document["made"] | lists)
    toolchain = without_fault(o.toolchain()) if document["conditional_loads"] else o.toolchain()
    unit = Unit(text, tuple(document["flags"]), toolchain, "" if text == document["plain"] else document["plain"])
    checks = [IndexCheck(**one | {"extents": tuple(one["extents"])}) for one in document["checks"]] if check else []
    return Kernel(Signature.from_data(document["signature"]), made, unit, checks)


def _check_constant(names: Sequence[str], declared: Signature) -> None:
    """Raise InputError for what is no array that is given to the function."""
    arrays = [p.name for p in declared.parameters if p.is_array]
    for name in (name for name in names if name not in arrays):
        raise InputError(f"'{name}' is no array that {declared.function} is given", hint=one_of(name, arrays))


def _with_constants(program: Program, function: str, names: Sequence[str]) -> Program:
    """The program whose regions know which arrays stay the same, as a pragma would say it. Raises InputError for one
    that a region writes."""
    scops = []
    for scop in program.scops:
        own = {name for name in names if name in scop.arrays} if scop.function == function else set()
        for s in scop.statements:
            for name in [a.array for a in s.accesses if a.write and a.array in own]:
                raise InputError(f"'{name}' is written, so that it does not stay the same", scop.span)
        scops.append(replace(scop, constants=scop.constants | own) if own else scop)
    return replace(program, scops=tuple(scops))


def _only_function(program: Program) -> str:
    """The function with scops, of a file that has only one. Raises InputError."""
    functions = list(dict.fromkeys(s.function for s in program.scops))
    if len(functions) > 1:
        raise InputError(
            f"{program.source.path} has {len(functions)} kernels: {', '.join(functions)}", hint="choose with function="
        )
    return functions[0]


def _optimized(program: Program, function: str, how: str, o: Options, progress: Progress | None) -> tuple[str, Made]:
    """The C text and how it came about."""
    if how == "as written":
        threads = o.thread_count(o.target())
        return program.source.text, Made(how, None, "", None, threads)
    with tempfile.TemporaryDirectory(prefix="polydl-compile-") as folder:
        target = Path(folder, "kernel.c")  # `optimize` writes a file wherever it measures
        result = optimize_program(program, target, o, run=how == "measured", progress=progress)
    if not any(done.usable for done in result.scops):
        raise PolyDLError(
            f"no variant of {function} computed what the original computes",
            hint="optimize=False compiles the loops as they are written",
        )
    return result.text, _made(result, how)


def _made(result: OptimizeResult, how: str) -> Made:
    chosen = [done.chosen for done in result.scops if done.chosen is not None]
    notes = [note for variant in chosen for note in variant.notes]
    notes += [text for done in result.scops for text in premises(done.ranking.scop)]
    notes += [w for done in result.scops if done.report is not None for w in done.report.warnings]
    notes += [f"a mistake in polydl, the loops are as written: {fault}" for fault in result.checked.faults]
    notes += [f"chosen by the estimate: {done.undecided}" for done in result.scops if done.undecided]
    speedups = [done.speedup for done in result.scops if math.isfinite(done.speedup)]
    return Made(
        how,
        "+".join(v.id for v in chosen) or None,
        "; ".join(str(v.recipe) for v in chosen),
        min(speedups) if speedups else None,
        max(done.ranking.threads for done in result.scops),
        tuple(dict.fromkeys(notes)),
        tuple(dict.fromkeys(name for done in result.scops if done.code is not None for name in done.code.packed)),
    )
