"""Reads C files into scops as the options say: with a size for everything, with others, or with sizes as parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from polydl.base.errors import InputError, InputErrors, InputWarning
from polydl.frontend import Parsed, Program
from polydl.frontend import parsed as parsed_file
from polydl.frontend.inline import located
from polydl.model.at_sizes import takes_sizes, tuned_for
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
    return _told(parsed(path, o).program(o.tuned, require_sizes=require_sizes, rows_fit=rows_fit), o)


def _told(program: Program, o: Options) -> Program:
    """The same program, with a warning for each region between pragmas that is refused. Raises InputErrors where the
    options want all of its loops."""
    if o.strict and (program.refused or program.unread):
        raise InputErrors((*program.refused, *program.unread))
    for error in program.refused:
        assert error.span is not None, "it stands in the file"
        stays = f"{error.reason}; the region stays as it is written"
        warnings.warn(InputWarning(stays, error.span, error.hint or "see docs/refused.md"), stacklevel=2)
    return program


def parsed(path: Path, o: Options) -> Parsed:
    """A C file, preprocessed and parsed. Raises InputError."""
    return parsed_file(
        path,
        function=o.function,
        defines={name: str(value) for name, value in o.defines.items()},
        undefines=o.undefines,
        include_dirs=o.include_dirs,
        preprocessor_flags=o.preprocessor_flags,
        strict_alias=o.strict_alias,
        assume_pure=o.assume_pure,
        fast_math=o.fast_math,
        long=o.long,
        cc=o.cc,
    )


def load_sized(path: str | Path, options: Options) -> tuple[Program, Options]:
    """A C file with a size for everything, and the options with them: see `sized`. Raises InputError."""
    path, folders = located(path)
    options = options.including(folders)
    return sized(parsed(path, options), options)


def sized(file: Parsed, options: Options) -> tuple[Program, Options]:
    """The scops of a file with a size for everything, and the options with them: an integer parameter of a function to
    which they give none may have every value, which `default_sizes` has a range for. Raises InputError."""
    try:
        return _told(file.program(options.tuned), options), options
    except InputErrors as refused:
        if options.strict and not any(error.topic == "sizes" for error in refused.errors):
            raise
        # For want of sizes, or of leading dimensions that are known to be as long as rows.
        if any(error.topic not in ("sizes", "not-affine") for error in refused.errors):
            raise
        try:
            symbolic = file.program(options.tuned, require_sizes=False, rows_fit=True)
        except InputError:
            raise refused from None
        found = default_sizes(symbolic.scops)
        if not found:
            raise
        with_them = replace(options, sizes={**found, **options.sizes})
        return _told(file.program(with_them.tuned), with_them), with_them


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
    """A scop, or the only one of a program or of C, and the options with a size for everything in it; of a scop, what
    no bound says a size for stays a parameter. Raises InputError."""
    if isinstance(source, Scop):
        return _with_defaults(source, o)
    program, o = program_of(source, o)
    return only_scop(program), o


def program_of(source: str | Path | Program | Scop, o: Options) -> tuple[Program, Options]:
    """A program, or that of a scop or of C, with a size for everything, and the options with them.

    Raises InputError.
    """
    if isinstance(source, Program):
        return source, o
    if not isinstance(source, Scop):
        return load_sized(source, o)
    there, o = _with_defaults(source, o)
    if missing := [name for name in there.parameters if name not in there.derived]:
        raise InputError(f"the size of '{missing[0]}' is missing", source.span, f"give it: sizes={{'{missing[0]}': …}}")
    return Program(there.source, (there,)), o


def _with_defaults(scop: Scop, o: Options) -> tuple[Scop, Options]:
    """A scop with the sizes of the options, and with default ones where they have none."""
    there = tuned_for(scop, o.tuned)
    if set(there.parameters) - there.derived:
        o = replace(o, sizes={**(default_sizes((there,)) or {}), **o.sizes})
        there = tuned_for(scop, o.tuned)
    if (o.fast_math and not there.fast_math) or o.long != there.long:
        symbolic = None if there.symbolic is None else replace(there.symbolic, long=o.long)
        there = replace(there, fast_math=o.fast_math or there.fast_math, long=o.long, symbolic=symbolic)
    return there, o


def with_sizes(scop: Scop, o: Options, sizes: Mapping[str, int]) -> Scop:
    """The same scop for other sizes; one that is a region only with sizes is read again. Raises InputError."""
    symbolic, wanted = scop.symbolic, {**o.tuned, **sizes}
    if symbolic is not None and takes_sizes(symbolic, wanted):
        return tuned_for(symbolic, wanted)
    _, folders = located(scop.source.path)
    program = parsed(Path(scop.source.path), o.including(folders)).program(wanted)
    found = next((s for s in program.scops if s.region.start == scop.region.start), None)
    if found is None:
        given = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        raise InputError(f"'{scop.function}' has loops that are not taken with {given}", scop.span)
    return found
