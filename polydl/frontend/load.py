"""`load`: a C file -> its static control parts."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pycparser import c_ast

from polydl.base import html
from polydl.base.errors import InputError, InputErrors, Span
from polydl.frontend.lower.counting import count
from polydl.frontend.lower.extract import GENERATED, Options, extract, in_order
from polydl.frontend.lower.inlined import expanded
from polydl.frontend.lower.pointer_loops import counted
from polydl.frontend.lower.regions import Finder, Found, pairing_errors
from polydl.frontend.lower.steps import stepped_apart
from polydl.frontend.meaning.constants import constant
from polydl.frontend.meaning.narrow import check_compiler
from polydl.frontend.meaning.symbols import Scope, nodes
from polydl.frontend.text.parse import Unit, parse
from polydl.frontend.text.pragmas import Pragma, find_pragmas, names_in
from polydl.frontend.text.preprocess import preprocess
from polydl.frontend.text.scan import SourceText
from polydl.model.isl import quota
from polydl.model.scop import BlackBox, Scop, Source, Storage

_IDENTIFIER = re.compile(r"[^\W\d]\w*\Z")
_THREADPRIVATE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+threadprivate[ \t]*\(([^)]*)\)", re.MULTILINE)
_MAX_BYTES = 64 << 20
"""A longer file is refused: it is hardly C that people write."""


@dataclass(frozen=True, slots=True)
class Program:
    """A C file and its static control parts."""

    source: Source
    scops: tuple[Scop, ...]
    """In textual order."""
    unread: tuple[InputError, ...] = ()
    """Why other loops of the file are no scops, in textual order; but for those of `main`, which drive the others."""

    def __repr__(self) -> str:
        scops = ", ".join(f"{s.function} (line {s.span.line})" for s in self.scops)
        return f"<program {self.source.path}: {scops}>"

    def _repr_html_(self) -> str:
        rows = [(s.function, s.span.line, len(s.statements), ", ".join(s.arrays)) for s in self.scops]
        return html.block(str(self.source.path), html.table(("function", "line", "statements", "arrays"), rows))


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
    `strict_alias` refuses pointers that may overlap instead of recording the assumption that they do not. `assume_pure`
    names functions that have no effects and use their arguments alone. With `rows_fit` leading dimensions without a
    value are taken to be as long as rows, which the scop's context then says. `fast_math` takes it that every
    value is finite and that no sign of a zero matters. `cc` is the compiler that preprocesses.

    Raises InputErrors (all errors of the file, each with its place), ToolchainError without a compiler,
    QuotaExceeded when isl needs too long.
    """
    defines, sizes = dict(defines or {}), dict(sizes or {})
    # What line markers and terminals cannot hold: quotation marks, backslashes, control characters.
    name = re.sub(r'["\\\x00-\x1f\x7f]', "?", str(path))
    text = _read(Path(path), name)
    flags = (*preprocessor_flags, *_flags(defines, undefines, include_dirs))
    source = Source(Path(path), text, flags)
    original = SourceText(name, text)
    pragmas, errors = find_pragmas(original)
    if errors:
        raise InputErrors(errors)
    folder = str(Path(path).parent)
    preprocessed = preprocess(original, pragmas, flags, folder, cc)
    active = {int(n) for n in re.findall(r"#pragma polydl (\d+)", preprocessed.text)}
    pragmas = [pragma for pragma in pragmas if pragma.index in active]
    errors = pairing_errors(pragmas)
    if errors:
        raise InputErrors(errors)
    has_regions = any(pragma.kind == "scop" for pragma in pragmas)
    unit = parse(original, pragmas, preprocessed, all_bodies=not has_regions)
    unit = replace(unit, assumed_pure=_assumed_pure(unit, pragmas, assume_pure))
    options = Options(source, sizes, strict_alias, require_sizes, {p.index: p for p in pragmas}, rows_fit, fast_math)
    with quota("reading the scops"):
        try:
            scops, unread = _scops(unit, pragmas, has_regions, function, options)
        except RecursionError as error:
            reason = "the code is nested too deeply to be analysed"
            raise InputErrors([InputError(reason, original.line_span(1), "take the nest apart")]) from error
    _check_sizes(scops, sizes, unit)
    check_compiler(scops, cc)
    return Program(source, scops, unread)


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


def _scops(
    unit: Unit, pragmas: Sequence[Pragma], has_regions: bool, function: str | None, options: Options
) -> tuple[tuple[Scop, ...], tuple[InputError, ...]]:
    file_scope = Scope()
    functions = []
    private = {name for names in _THREADPRIVATE.findall(unit.source.text) for name in re.findall(r"\w+", names)}
    for external in unit.externals:
        if isinstance(external, c_ast.FuncDef):
            file_scope.declare(external.decl, Storage.GLOBAL, constant)
            if external.coord is not None and str(external.coord.file) == unit.source.path:
                functions.append(external)
        else:
            if isinstance(external, c_ast.Decl) and external.name in private:
                external.storage = [*external.storage, "_Thread_local"]
            file_scope.declare(external, Storage.GLOBAL, constant)
    defined = set(unit.chunks)
    if function is not None and function not in defined:
        raise InputErrors(
            [
                InputError(
                    f"there is no function '{function}'",
                    unit.source.line_span(1),
                    f"functions of the file: {', '.join(sorted(defined)) or 'none'}",
                )
            ]
        )
    options = replace(options, pointers={one.decl.name: counted(one) for one in functions})
    called, helpers = expanded(functions, unit, file_scope)
    for definition in (*functions, *called.values()):
        stepped_apart(definition.body)
        count(definition.body)
    finder = Finder(unit, {p.index: p for p in pragmas}, file_scope, constant)
    if has_regions:
        functions = [called.get(one.decl.name, one) for one in functions]
        return _pragma_scops(unit, pragmas, functions, finder, function, options), ()
    return _nest_scops(unit, pragmas, functions, finder, function, options, called, helpers)


def _pragma_scops(
    unit: Unit,
    pragmas: Sequence[Pragma],
    functions: Sequence[object],
    finder: Finder,
    function: str | None,
    options: Options,
) -> tuple[Scop, ...]:
    for definition in functions:
        finder.search(definition)
    errors = list(finder.errors)
    inside = {pragma.index for found in finder.found for pragma in found.facts}
    for pragma in pragmas:
        if pragma.index in finder.placed or pragma.index in inside or pragma.kind in ("endscop", "pure"):
            continue
        if any(found.start <= pragma.start < found.end for found in finder.found):
            continue
        if not finder.errors:
            errors.append(_outside(pragma))
    scops: list[Scop] = []
    for found in finder.found:
        if function is not None and found.name != function:
            continue
        try:
            scops.append(extract(unit, found, options))
        except InputErrors as several:
            errors += several.errors
    if errors:
        raise InputErrors(in_order(errors))
    if not scops:
        raise InputErrors([_no_scop(unit, function)])
    return tuple(scops)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The regions that were read of a file, and why others were not."""

    unit: Unit
    options: Options
    finder: Finder
    scops: list[Scop] = field(default_factory=list)
    errors: list[InputError] = field(default_factory=list)

    def _read(self, found: Found) -> bool:
        try:
            self.scops.append(extract(self.unit, found, self.options))
        except InputErrors as several:
            self.errors.extend(several.errors)
            return False
        return True

    def within(self, found: Found, calls: object = None) -> None:
        """Read loops, or each of them, or those inside of them where they are no region as a whole, or one that would
        be kept as it is written. `calls`: the same with functions in place of their calls, which is a region as a whole
        or none."""
        known = len(self.errors)
        if isinstance(calls, Found) and self._read(calls):
            return
        del self.errors[known:]
        whole = self.scops.pop() if self._read(found) else None
        if whole is not None and any(s.depth or not isinstance(s.body, BlackBox) for s in whole.statements):
            self.scops.append(whole)
            return
        known, before = len(self.errors), len(self.scops)
        for inner in self.finder.apart(found) or self.finder.inside(found):
            self.within(inner)
        del self.errors[known:]  # What is said of the whole nest says enough.
        if whole is not None and len(self.scops) == before:
            self.scops.append(whole)


def _nest_scops(
    unit: Unit,
    pragmas: Sequence[Pragma],
    functions: Sequence[Any],
    finder: Finder,
    function: str | None,
    options: Options,
    called: Mapping[str, Any],
    helpers: Mapping[str, frozenset[str]],
) -> tuple[tuple[Scop, ...], tuple[InputError, ...]]:
    """`called`, `helpers`: see lower.inlined.expanded."""
    inside = {pragma.index for definition in functions for pragma in finder.inside_of(definition)}
    lost = [p for p in pragmas if p.index not in inside and p.kind != "pure"]
    if lost:
        raise InputErrors([_outside(pragma) for pragma in lost])
    reading = _Reading(unit, options, finder)
    scops, errors = reading.scops, reading.errors
    others: list[tuple[Any, InputError]] = []
    for definition in _asked(functions, unit, function, helpers):
        name = str(definition.decl.name)
        if function is None and name in helpers and helpers[name] <= {scop.function for scop in scops}:
            continue  # it is part of the regions that call it
        found = finder.nest(definition)
        if isinstance(found, Found):
            reading.within(found, finder.nest(called[name]) if name in called else None)
        else:
            others.append((definition, found))
    generated = unit.source.text.startswith(GENERATED)
    known, said = len(errors), set()
    for definition, _ in () if generated else sorted(others, key=lambda one: one[0].decl.name == "main"):
        # Loops among other statements; those of main, which often only call the others, where there are none else.
        if definition.decl.name != "main" or not (scops or errors):
            runs = finder.runs(definition)
            calls = finder.runs(called[definition.decl.name]) if definition.decl.name in called else [None] * len(runs)
            for found, other in zip(runs, calls, strict=True):
                reading.within(found, other)
            if len(errors) > known:
                said.add(definition.decl.name)
                known = len(errors)
    if scops:
        taken = {"main", *(scop.function for scop in scops), *said}
        beside = [why for one, why in others if _has_loops(one) and one.decl.name not in taken]
        return tuple(sorted(scops, key=lambda scop: scop.region.start)), tuple(in_order([*errors, *beside]))
    # The nearest to a scop first: functions that have loops.
    others.sort(key=lambda one: not _has_loops(one[0]))
    unread = [error for name, several in unit.unread.items() if function in (None, name) for error in several.errors]
    why_not = errors or [why for _, why in others if not generated]
    raise InputErrors([*unread, *why_not] or [_no_scop(unit, function)])


def _has_loops(function: Any) -> bool:
    return any(isinstance(node, c_ast.For | c_ast.While | c_ast.DoWhile) for node in nodes(function))


def _asked(
    functions: Sequence[Any], unit: Unit, function: str | None, helpers: Mapping[str, frozenset[str]]
) -> list[Any]:
    """The functions to look at, without helpers in a file that polydl wrote, and what was not asked for; those that
    others call behind these."""
    own = unit.source.text.startswith(GENERATED)
    made = [one for one in functions if not (own and re.match(r"polydl\d*_", str(one.decl.name)))]
    asked = [one for one in made if function in (None, one.decl.name)]
    return sorted(asked, key=lambda one: one.decl.name in helpers)


def _outside(pragma: Pragma) -> InputError:
    reason = "this pragma stands outside any function"
    return InputError(reason, pragma.span, "put it inside the function", topic="regions")


def _no_scop(unit: Unit, function: str | None) -> InputError:
    where = f"the function '{function}'" if function else "the file"
    why = "" if unit.chunks else ": it defines no function"
    return InputError(
        f"{where} has no scop{why}",
        unit.source.line_span(1),
        "put '#pragma scop' and '#pragma endscop' around the loops, each on its own line",
        topic="regions",
    )


def _check_sizes(scops: Sequence[Scop], sizes: Mapping[str, int], unit: Unit) -> None:
    """Raise InputErrors for sizes of what is no integer parameter. One that no bound depends on may have one."""
    known = {guard.name for scop in scops for guard in scop.guards if not guard.macro}
    unknown = sizes.keys() - known - _integer_parameters(unit)
    if unknown:
        possible = ", ".join(sorted(known)) or "none"
        raise InputErrors(
            [
                InputError(
                    f"'{name}' is not an integer parameter that a scop depends on",
                    Span(unit.source.path, 1, 1),
                    f"sizes can be given for: {possible}; macros are given with -D",
                    topic="sizes",
                )
                for name in sizes
                if name in unknown
            ]
        )


def _integer_parameters(unit: Unit) -> set[str]:
    """The names of the integers that the functions of a file take."""
    scope = Scope()
    found: set[str] = set()
    for external in unit.externals:
        defined = isinstance(external, c_ast.FuncDef)
        scope.declare(external.decl if defined else external, Storage.GLOBAL, constant)
        arguments = external.decl.type.args if defined else None
        for parameter in arguments.params if arguments is not None else ():
            symbol = Scope(scope).declare(parameter, Storage.PARAMETER, constant)
            found |= {parameter.name} if symbol is not None and symbol.is_integer else set()
    return found
