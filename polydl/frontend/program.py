"""A C file, preprocessed and parsed once: its scops for whatever sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

from pycparser import c_ast

from polydl.base import html
from polydl.base.errors import InputError, InputErrors, QuotaExceeded, Span
from polydl.base.records import dataclass
from polydl.base.recursion import deep
from polydl.frontend.file_functions import Functions
from polydl.frontend.lower.extract import GENERATED, Extracted, Options, extract, in_order
from polydl.frontend.lower.inlined import Expanded
from polydl.frontend.lower.regions import Finder, Found, repeats
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.narrow_types import check_compiler
from polydl.frontend.meaning.symbols import Scope, nodes
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import Pragma
from polydl.frontend.text.scan import SourceText
from polydl.model.at_sizes import takes_sizes, tuned_for
from polydl.model.isl import quota
from polydl.model.scop import Scop, Source, Storage


@dataclass(frozen=True, slots=True)
class Program:
    """A C file and its static control parts."""

    source: Source
    scops: tuple[Scop, ...]
    """In textual order."""
    unread: tuple[InputError, ...] = ()
    """Why other loops of the file are no scops, in textual order; but for those of `main`, which drive the others."""
    refused: tuple[InputError, ...] = ()
    """Why regions between pragmas are no scops, where others are."""

    def __repr__(self) -> str:
        scops = ", ".join(f"{s.function} (line {s.span.line})" for s in self.scops)
        return f"<program {self.source.path}: {scops}>"

    def _repr_html_(self) -> str:
        rows = [(s.function, s.span.line, len(s.statements), ", ".join(s.arrays)) for s in self.scops]
        return html.block(str(self.source.path), html.table(("function", "line", "statements", "arrays"), rows))


def too_deep(source: SourceText) -> InputErrors:
    """What to say of code whose tree is higher than Python's stack."""
    reason = "the code is nested too deeply to be analysed"
    return InputErrors([InputError(reason, source.line_span(1), "take the nest apart")])


@dataclass(frozen=True, slots=True)
class Parsed:
    """A C file that is preprocessed and parsed.

    A region is read once, with its sizes as parameters, and sizes are put in. One that is a region only with sizes is
    read again with those that are given.
    """

    source: Source
    unit: Unit
    pragmas: tuple[Pragma, ...]
    functions: Functions
    function: str | None
    """The only one whose scops are asked for."""
    options: Options
    cc: str
    regions: dict[tuple[int, int, int], Extracted | QuotaExceeded] = field(default_factory=dict)
    """Those that were read so far, with sizes as parameters: by function (its identity), first and last character."""

    def program(
        self, sizes: Mapping[str, int] | None = None, *, require_sizes: bool = True, rows_fit: bool = False
    ) -> Program:
        """The scops with these sizes; see `load.load`. Raises InputErrors, QuotaExceeded."""
        finder = Finder(self.unit, self.options.pragmas, self.functions.scope, constant)
        reading = _Reading(self, finder, dict(sizes or {}), require_sizes, rows_fit)
        marked = any(pragma.kind == "scop" for pragma in self.pragmas)
        with quota("reading the scops"), deep():
            try:
                scops, others = _marked(reading) if marked else _nests(reading)
            except RecursionError as error:
                raise too_deep(self.unit.source) from error
        _check_sizes(scops, reading.sizes, self.unit)
        check_compiler(scops, self.cc)
        return Program(self.source, scops, () if marked else others, others if marked else ())

    def with_parameters(self, found: Found) -> Extracted | QuotaExceeded:
        """A region with its sizes as parameters, or why it is none."""
        key = (id(found.function), found.start, found.end)
        if key not in self.regions:
            try:
                with quota("reading the scops"):
                    self.regions[key] = extract(self.unit, found, self.options, {})
            except QuotaExceeded as error:
                self.regions[key] = error
        return self.regions[key]


@dataclass(frozen=True, slots=True)
class _Reading:
    """The regions of a file that were read with some sizes, and why others were not."""

    parsed: Parsed
    finder: Finder
    sizes: Mapping[str, int]
    require_sizes: bool
    rows_fit: bool
    scops: list[Scop] = field(default_factory=list)
    errors: list[InputError] = field(default_factory=list)

    def scop(self, found: Found) -> Scop:
        """A region. Raises InputErrors, QuotaExceeded."""
        symbolic = self.parsed.with_parameters(found)
        if isinstance(symbolic, QuotaExceeded):
            if not self.sizes:
                raise symbolic
            return replace(self._again(found), only_with_sizes=symbolic.reason)
        if not self.sizes:
            return self._accepted(symbolic)
        if symbolic.scop is None:
            return replace(self._again(found), only_with_sizes=symbolic.errors[0].reason)
        try:
            there = tuned_for(symbolic.scop, self.sizes) if takes_sizes(symbolic.scop, self.sizes) else None
        except InputError:
            there = None  # what is wrong is told where it stands
        if there is None or (symbolic.without_fit and not self.rows_fit and set(there.parameters) - there.derived):
            return replace(self._again(found), symbolic=symbolic.scop)
        missing = [error for name, error in symbolic.missing.items() if name in there.parameters]
        if missing and self.require_sizes:
            raise InputErrors(missing)
        return there

    def _again(self, found: Found) -> Scop:
        """A region read with the sizes. Raises InputErrors, QuotaExceeded."""
        return self._accepted(extract(self.parsed.unit, found, self.parsed.options, self.sizes))

    def _accepted(self, region: Extracted) -> Scop:
        """Raises InputErrors."""
        if region.missing and self.require_sizes and (region.scop is not None or not region.without_fit):
            raise InputErrors(list(region.missing.values()))
        if region.without_fit and not self.rows_fit:
            raise InputErrors(list(region.without_fit))
        if region.scop is None:
            raise InputErrors(list(region.errors))
        return region.scop

    def _read(self, found: Found) -> bool:
        try:
            self.scops.append(self.scop(found))
        except InputErrors as several:
            self.errors.extend(several.errors)
            return False
        return True

    def _lacks_sizes(self, known: int) -> bool:
        """Whether what was not read lacks nothing but sizes, by the errors behind those that were `known`: its parts
        would lack them as well."""
        return len(self.errors) > known and all(error.topic == "sizes" for error in self.errors[known:])

    def _in_runs(self, runs: Sequence[Found]) -> bool:
        """Read regions, all of them or none."""
        known, before = len(self.errors), len(self.scops)
        if runs and all(self._read(run) or self._lacks_sizes(known) for run in runs):
            return True
        del self.errors[known:], self.scops[before:]
        return False

    def with_calls(self, whole: Found, runs: Sequence[Found]) -> None:
        """Read loops with functions in the place of their calls, which are a region as a whole or none; else the runs
        of loops among them that are there without."""
        if not any(whole is run for run in runs):
            many = [
                node for item in whole.items for node in (item.block_items if isinstance(item, Expanded) else [item])
            ]
            if len(many) > _MANY_NESTS and self._in_runs(self.finder.apart(whole, _NESTS)):
                return
            known = len(self.errors)
            if self._read(whole) or self._lacks_sizes(known):
                return
            said = [error for error in self.errors[known:] if any(isinstance(item, Expanded) for item in whole.items)]
            self.errors[known:] = said[:1]
        for run in runs:
            self.within(run)

    def within(self, found: Found) -> None:
        """Read loops, or each of them, or those inside of them where they are no region as a whole, or one that would
        be kept as it is written."""
        known = len(self.errors)
        whole = self.scops.pop() if self._read(found) else None
        if whole is None and self._lacks_sizes(known):
            return
        if whole is not None and any(statement.depth for statement in whole.statements):
            if len(found.items) <= _MANY_NESTS or not self._in_runs(self.finder.apart(found, _NESTS)):
                self.scops.append(whole)
            return
        known, before = len(self.errors), len(self.scops)
        for inner in self.finder.apart(found) or self.finder.inside(found):
            self.within(inner)
        del self.errors[known:]  # What is said of the whole nest says enough.
        if whole is not None and len(self.scops) == before:
            self.scops.append(whole)


_MANY_NESTS = 24
"""Nests, one after the other, from which on a region is several: pairs of statements are asked for dependences, so that
the search takes time with the square of their number."""
_NESTS = 12
"""Of each of these regions, at most."""


def _marked(reading: _Reading) -> tuple[tuple[Scop, ...], tuple[InputError, ...]]:
    """The regions between pragmas, and why others are none. Raises InputErrors where all are refused, a pragma is out
    of place, or sizes are missing."""
    finder, parsed = reading.finder, reading.parsed
    for definition in parsed.functions.own:
        finder.search(parsed.functions.calls.expanded.get(definition.decl.name, definition))
    errors = list(finder.errors)
    inside = {pragma.index for found in finder.found for pragma in found.facts}
    for pragma in parsed.pragmas:
        if pragma.index in finder.placed or pragma.index in inside or pragma.kind in ("endscop", "pure"):
            continue
        if any(found.start <= pragma.start < found.end for found in finder.found):
            continue
        if not finder.errors:
            errors.append(_outside(pragma))
    scops, refused = list[Scop](), list[InputError]()
    for found in finder.found:
        if parsed.function is not None and found.name != parsed.function:
            continue
        try:
            scops.append(reading.scop(found))
        except InputErrors as several:
            refused += several.errors
    if errors or (refused and not scops) or any(error.topic == "sizes" for error in refused):
        raise InputErrors(in_order([*errors, *refused]))
    if not scops:
        raise InputErrors([_no_scop(parsed.unit, parsed.function)])
    return tuple(scops), tuple(in_order(refused))


def _nests(reading: _Reading) -> tuple[tuple[Scop, ...], tuple[InputError, ...]]:
    """The loops of functions, and why others are no regions. Raises InputErrors."""
    finder, parsed = reading.finder, reading.parsed
    unit, function, functions = parsed.unit, parsed.function, parsed.functions
    inside = {pragma.index for definition in functions.own for pragma in finder.inside_of(definition)}
    lost = [p for p in parsed.pragmas if p.index not in inside and p.kind != "pure"]
    if lost:
        raise InputErrors([_outside(pragma) for pragma in lost])
    scops, errors, calls = reading.scops, reading.errors, functions.calls
    called, helpers = calls.expanded, calls.helpers
    others: list[tuple[c_ast.FuncDef, InputError]] = []
    for definition in _asked(functions.own, unit, function, helpers):
        name = str(definition.decl.name)
        if function is None and _covered(name, helpers, {scop.function for scop in scops}):
            continue  # it is part of the regions that call it
        found = finder.nest(definition)
        whole = finder.nest(called[name]) if name in called else found
        if isinstance(whole, Found):
            reading.with_calls(whole, [found] if isinstance(found, Found) else finder.runs(definition))
        elif isinstance(found, Found):
            reading.within(found)
        else:
            others.append((definition, found))
    generated = unit.source.text.startswith(GENERATED)
    known, said = len(errors), set()
    for definition, _ in () if generated else sorted(others, key=lambda one: one[0].decl.name == "main"):
        # Loops among other statements; those of main, which often only call the others, where there are none else.
        if definition.decl.name != "main" or not (scops or errors):
            runs = finder.runs(definition)
            for whole in finder.runs(called[definition.decl.name]) if definition.decl.name in called else runs:
                reading.with_calls(whole, [run for run in runs if whole.start <= run.start < whole.end])
            if len(errors) > known:
                said.add(definition.decl.name)
                known = len(errors)
    if scops:
        taken = {"main", *(scop.function for scop in scops), *said}
        beside = [why for one, why in others if _has_loops(one) and one.decl.name not in taken]
        beside += [several.errors[0] for name, several in unit.unread.items() if name != "main" and _loops(unit, name)]
        beside += [unit.places.error(why, at, topic="calls") for each in calls.refused.values() for at, why in each]
        return tuple(sorted(scops, key=lambda scop: scop.region.start)), tuple(in_order([*errors, *beside]))
    # The nearest to a scop first: functions that have loops.
    others.sort(key=lambda one: not _has_loops(one[0]))
    unread = [error for name, several in unit.unread.items() if function in (None, name) for error in several.errors]
    why_not = errors or [why for _, why in others if not generated]
    raise InputErrors([*unread, *why_not] or [_no_scop(unit, function)])


def _covered(name: str, helpers: Mapping[str, frozenset[str]], done: Set[str]) -> bool:
    """Whether a helper's loops are part of regions: its callers have one each, or are such helpers themselves."""
    return name in helpers and all(by in done or _covered(by, helpers, done | {name}) for by in helpers[name])


def _has_loops(function: c_ast.FuncDef) -> bool:
    loops = any(isinstance(node, c_ast.For | c_ast.While | c_ast.DoWhile) for node in nodes(function))
    return loops or repeats(function) is not None


def _loops(unit: Unit, name: str) -> bool:
    """Whether a function that could not be read seems to have loops."""
    body = unit.chunks[name].body if name in unit.chunks else None
    return body is not None and re.search(r"\b(?:for|while)\b", unit.preprocessed.text[slice(*body)]) is not None


def _asked(
    functions: Sequence[c_ast.FuncDef], unit: Unit, function: str | None, helpers: Mapping[str, frozenset[str]]
) -> list[c_ast.FuncDef]:
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
    elsewhere = {chunk.name: chunk.file for chunk in unit.chunks.values() if chunk.file != unit.source.path}
    why = "" if unit.chunks else ": it defines no function"
    if elsewhere and len(elsewhere) == len(unit.chunks):
        some = ", ".join(f"'{name}' ({file})" for name, file in [*elsewhere.items()][:5])
        why = f": the functions stand in other files, of which nothing is changed: {some}"
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
        declared = external.decl if isinstance(external, c_ast.FuncDef) else external
        scope.declare(declared, Storage.GLOBAL, constant)
        # Bodies that hold no scop are left out, where pragmas say what one is: these are declarations.
        defined = isinstance(declared, c_ast.Decl) and declared.name in unit.chunks
        kind = declared.type if isinstance(declared, c_ast.Decl) and defined else None
        arguments = kind.args if isinstance(kind, c_ast.FuncDecl) else None
        for parameter in arguments.params if arguments is not None else ():
            symbol = Scope(scope).declare(parameter, Storage.PARAMETER, constant)
            found |= {symbol.name} if symbol is not None and symbol.is_integer else set()
    return found
