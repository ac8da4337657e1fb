"""Reads C files into scops as the options say: with a size for everything, with others, or with sizes as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from polydl.base.errors import InputError, InputErrors
from polydl.frontend import Program
from polydl.frontend import load as load_program
from polydl.frontend.inline import located
from polydl.model.scop import Scop
from polydl.options import OptionChanges, Options
from polydl.search.default_sizes import default_sizes


def load(
    path: str | Path,
    options: Options | None = None,
    *,
    require_sizes: bool = True,
    rows_fit: bool = False,
    **changes: Unpack[OptionChanges],
) -> Program:
    """Read a C file, or C itself, and extract its scops.

    Keywords are fields of `Options`; `rows_fit` takes leading dimensions without a value to be as long as rows, which
    the scop's context then says. Raises InputError (InputErrors for several) with the place in the file.

    >>> import polydl
    >>> program = polydl.load("examples/matmul.c")
    >>> [scop.function for scop in program.scops]
    ['matmul']
    >>> polydl.load("void f(float x[8])\\n{ for (int i = 0; i < 8; i++) x[i] = i; }").scops[0].statements[0].iterators
    ('i',)
    """
    path, folders = located(path)
    o = (options or Options()).changed(**changes).including(folders)
    program = load_program(
        path,
        function=o.function,
        defines={name: str(value) for name, value in o.defines.items()},
        undefines=o.undefines,
        include_dirs=o.include_dirs,
        preprocessor_flags=o.preprocessor_flags,
        sizes=o.tuned,
        strict_alias=o.strict_alias,
        assume_pure=o.assume_pure,
        require_sizes=require_sizes,
        rows_fit=rows_fit,
        fast_math=o.fast_math,
        cc=o.cc,
    )
    return replace(program, scops=tuple(replace(scop, fast_math=o.fast_math) for scop in program.scops))


def load_sized(path: str | Path, options: Options) -> tuple[Program, Options]:
    """A C file with a size for everything, and the options with them: an integer parameter of a function to which they
    give none may have every value, which `default_sizes` has a range for. Raises InputError."""
    try:
        return load(path, options), options
    except InputErrors as refused:
        # For want of sizes, or of leading dimensions that are known to be as long as rows.
        if any(error.topic not in ("sizes", "not-affine") for error in refused.errors):
            raise
        try:
            symbolic = load(path, options, require_sizes=False, rows_fit=True)
        except InputError:
            raise refused from None
        found = default_sizes(symbolic.scops)
        if not found:
            raise
        sized = replace(options, sizes={**found, **options.sizes})
        return load(path, sized), sized


def only_scop(program: Program) -> Scop:
    """The scop of a file with exactly one. Raises InputError."""
    if len(program.scops) != 1:
        where = ", ".join(f"{s.function} (line {s.span.line})" for s in program.scops)
        raise InputError(
            f"{program.source.path} has {len(program.scops)} scops: {where}",
            hint="choose with function=, or take one of `scops`",
        )
    return program.scops[0]


def scop_of(source: str | Path | Program | Scop, o: Options) -> tuple[Scop, Options]:
    """A scop itself, or the only one of a program or of C, and the options with a size for everything in it. Raises
    InputError."""
    if isinstance(source, Scop):
        return source, o
    program, o = (source, o) if isinstance(source, Program) else load_sized(source, o)
    return only_scop(program), o


def with_sizes(scop: Scop, o: Options, sizes: Mapping[str, int]) -> Scop:
    """The same scop for other sizes. Raises InputError."""
    program = load(scop.source.path, o, sizes={**o.tuned, **sizes})
    return next(s for s in program.scops if s.region.start == scop.region.start)


def with_parameters(scop: Scop, o: Options, sizes: Mapping[str, int | range]) -> Scop | None:
    """The same scop with all sizes but these as parameters; None where its loops are a region only with sizes. Raises
    InputError."""
    program = load(scop.source.path, o, require_sizes=False, rows_fit=True, sizes=sizes)
    return next((s for s in program.scops if s.region.start == scop.region.start), None)
