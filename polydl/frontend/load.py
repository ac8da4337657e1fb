"""`load`: a C file -> its static control parts; `parsed`: before that, for whatever sizes."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pycparser import c_ast

from polydl.base.errors import InputError, InputErrors, Span
from polydl.base.recursion import deep
from polydl.frontend.file_functions import functions_of
from polydl.frontend.lower.extract import Options
from polydl.frontend.lower.regions import pairing_errors
from polydl.frontend.meaning.symbols import nodes
from polydl.frontend.program import Parsed, Program, too_deep
from polydl.frontend.text.parse import Unit, parse
from polydl.frontend.text.pragmas import Pragma, find_pragmas, names_in
from polydl.frontend.text.preprocess import SYSTEM, preprocess
from polydl.frontend.text.scan import SourceText, without_digraphs
from polydl.model.scop import Source

_IDENTIFIER = re.compile(r"[^\W\d]\w*\Z")
_MAX_BYTES = 64 << 20
"""A longer file is refused: it is hardly C that people write."""


def load(
    path: str | Path,
    *,
    function: str | None = None,
    defines: Mapping[str, str] | None = None,
    undefines: Sequence[str] = (),
    include_dirs: Sequence[str | Path] = (),
    preprocessor_flags: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    strict_alias: bool = False,
    assume_pure: Sequence[str] = (),
    require_sizes: bool = True,
    rows_fit: bool = False,
    fast_math: bool = False,
    cc: str = "cc",
) -> Program:
    """Read a C file into the polyhedral model.

    Regions between `#pragma scop` and `#pragma endscop` are read; in a file without any, every function whose body
    is declarations and affine loops. `function` keeps the scops of one function. `defines` and `undefines` are -D
    and -U, `include_dirs` -I; `preprocessor_flags` come before them as they are. `sizes` gives values to integer
    parameters of functions (and to other integer variables that the region only reads); each becomes a Guard. With
    `require_sizes` every integer that a nest depends on needs a value, otherwise it stays a parameter of the Scop.
    `strict_alias` refuses pointers that may overlap, where the output cannot ask, instead of recording the assumption.
    `assume_pure` names functions that have no effects and use their arguments alone. With `rows_fit` leading
    dimensions without a value are taken to be as long as rows, which the scop's context then says. `fast_math` takes
    it that every value is finite and that no sign of a zero matters. `cc` is the compiler that preprocesses.

    Raises InputErrors (all errors of the file, each with its place), ToolchainError without a compiler,
    QuotaExceeded when isl needs too long.
    """
    read = parsed(
        path, function=function, defines=defines, undefines=undefines, include_dirs=include_dirs,
        preprocessor_flags=preprocessor_flags, strict_alias=strict_alias, assume_pure=assume_pure,
        fast_math=fast_math, cc=cc,
    )  # fmt: skip
    return read.program(sizes, require_sizes=require_sizes, rows_fit=rows_fit)


def parsed(
    path: str | Path,
    *,
    function: str | None = None,
    defines: Mapping[str, str] | None = None,
    undefines: Sequence[str] = (),
    include_dirs: Sequence[str | Path] = (),
    preprocessor_flags: Sequence[str] = (),
    strict_alias: bool = False,
    assume_pure: Sequence[str] = (),
    fast_math: bool = False,
    long: str = "",
    cc: str = "cc",
) -> Parsed:
    """Preprocess and parse a C file, of which scops are then read for whatever sizes. The keywords are those of `load`;
    `long`: `model.scop.Scop.long`. Raises InputErrors, ToolchainError."""
    # What line markers and terminals cannot hold: quotation marks, backslashes, control characters. The compiler's
    # output is read as UTF-8, whatever the locale says of the bytes of the name.
    name = re.sub(r'["\\\x00-\x1f\x7f]', "?", os.fsencode(path).decode("utf-8", "surrogateescape"))
    text = _read(Path(path), name)
    flags = (*preprocessor_flags, *_flags(dict(defines or {}), undefines, include_dirs))
    source = Source(Path(path), text, flags)
    original = SourceText(name, without_digraphs(text))
    pragmas, errors = find_pragmas(original)
    if errors:
        raise InputErrors(errors)
    preprocessed = preprocess(original, pragmas, flags, str(Path(path).parent), cc)
    active = {int(n) for n in re.findall(r"#pragma polydl (\d+)", preprocessed.text)}
    pragmas = [pragma for pragma in pragmas if pragma.index in active]
    errors = pairing_errors(pragmas)
    if errors:
        raise InputErrors(errors)
    try:
        with deep():
            unit = parse(original, pragmas, preprocessed, all(pragma.kind != "scop" for pragma in pragmas))
            unit = replace(unit, assumed_pure=_assumed_pure(unit, pragmas, assume_pure))
            functions = functions_of(unit, function)
            unit = replace(unit, aliased=functions.aliased)
            source = replace(source, declared=_declared(unit))
    except RecursionError as error:
        raise too_deep(original) from error
    options = Options(source, strict_alias, {p.index: p for p in pragmas}, fast_math, long)
    return Parsed(source, unit, tuple(pragmas), functions, function, options, cc)


def _declared(unit: Unit) -> frozenset[str]:
    """What the file and headers that are not the system's declare at file scope; without what compilers know."""
    found: set[str] = {chunk.name for chunk in unit.chunks.values() if not chunk.file.startswith(SYSTEM)}
    for external in unit.externals:
        declared = external.decl if isinstance(external, c_ast.FuncDef) else external
        if declared.coord is None or str(declared.coord.file).startswith(SYSTEM):
            continue
        named = [declared] if isinstance(declared, c_ast.Decl | c_ast.Typedef) else []
        tagged = [n for n in nodes(declared) if isinstance(n, c_ast.Struct | c_ast.Union | c_ast.Enum)]
        found |= {str(one.name) for one in (*named, *tagged) if one.name is not None}
    return frozenset(name for name in found if not name.startswith("__"))


def _assumed_pure(unit: Unit, pragmas: Sequence[Pragma], given: Sequence[str]) -> frozenset[str]:
    """The functions that the user says are pure. Raises InputErrors for what is no function of the file."""
    source = unit.source
    named = [(name, Span("<command line>", 1, 1)) for name in given]
    for pragma in pragmas:
        if pragma.kind == "pure":
            named += [(token.text, source.span(token)) for token in names_in(source, pragma)]
    declared = [e.decl if isinstance(e, c_ast.FuncDef) else e for e in unit.externals]
    functions = {e.name for e in declared if isinstance(e, c_ast.Decl) and isinstance(e.type, c_ast.FuncDecl)}
    errors = [
        InputError(f"'{name}' is no function that is declared here", span, "declare it, or correct the name")
        for name, span in named
        if name not in functions
    ]
    if errors:
        raise InputErrors(errors)
    return frozenset(name for name, _ in named)


def _read(path: Path, name: str) -> str:
    place = Span(name, 1, 1)
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
    except FileNotFoundError:
        raise InputErrors([InputError("no such file", place, "check the path")]) from None
    except IsADirectoryError:
        raise InputErrors([InputError("this is a folder, not a C file", place, "name a .c file")]) from None
    except OSError as error:
        raise InputErrors([InputError(f"the file cannot be read: {error.strerror}", place)]) from None
    if data is None:
        raise InputErrors([InputError(f"the file is larger than {_MAX_BYTES >> 20} MiB", place, "name a .c file")])
    if b"\0" in data:
        raise InputErrors([InputError("not C: this is a binary file, not C", place, "name a .c file")])
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def _flags(defines: Mapping[str, str], undefines: Sequence[str], include_dirs: Sequence[str | Path]) -> tuple[str, ...]:
    place = Span("<command line>", 1, 1)
    for name in (*defines, *undefines):
        if not _IDENTIFIER.match(name):
            raise InputErrors([InputError(f"'{name}' is not a macro name", place, "write -D NAME=VALUE")])
    return (
        *(f"-D{name}={value}" for name, value in defines.items()),
        *(f"-U{name}" for name in undefines),
        *(f"-I{folder}" for folder in include_dirs),
    )
