"""One region -> one Scop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.errors import InputError, InputErrors
from polydl.frontend.lower.check import alias_assumptions, check_bounds, check_microkernels, check_stable
from polydl.frontend.lower.choices import unasked
from polydl.frontend.lower.counting import value_before
from polydl.frontend.lower.finish import Builder, Settled, arrays, declared_extents, every_access, rows_that_fit, settle
from polydl.frontend.lower.indices import assumed, index_values
from polydl.frontend.lower.live_out import live_out
from polydl.frontend.lower.macros import guards_of
from polydl.frontend.lower.members import plain
from polydl.frontend.lower.overlap import same_memory
from polydl.frontend.lower.pointed_rows import shaped
from polydl.frontend.lower.promises import promises
from polydl.frontend.lower.regions import Found, model_region, outlined
from polydl.frontend.lower.steps import subscripted
from polydl.frontend.lower.walk import Walker
from polydl.frontend.meaning.affine import NotAffine, constant_aff, symbol_aff, tidy, universe
from polydl.frontend.meaning.liveness import assigned_names, changed_names, stored_names
from polydl.frontend.meaning.lookup import NeedsData, Settings
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.scop import Guard, Scop, Source, Storage, View


@dataclass(frozen=True, slots=True)
class Options:
    """What `load` was asked for."""

    source: Source
    sizes: Mapping[str, int]
    strict_alias: bool
    require_sizes: bool
    pragmas: Mapping[int, Pragma]
    rows_fit: bool = False
    """Take leading dimensions to be at least as long as rows, where linear subscripts need it: the context says so."""
    fast_math: bool = False
    """See `Settings.fast_math`."""


def extract(unit: Unit, found: Found, options: Options) -> Scop:
    """Read a region. Raises InputErrors with everything that is wrong in it."""
    found = outlined(found, unit.source)
    try:
        simple = plain(subscripted(found, unit), unit)
    except InputError as error:
        raise InputErrors([error]) from None
    found = replace(found, scope=simple.scope)
    region = c_ast.Compound(simple.items, found.items[0].coord if found.items else None)
    assigned = assigned_names(region)
    escaping = frozenset(name for name in assigned if found.escapes(name))
    changed = changed_names(found.function.body)
    stored = stored_names(region)
    begins = _begins(found, assigned - escaping)
    data: frozenset[str] = frozenset()
    kept: frozenset[int] = frozenset()
    fitting: isl.Set | None = None
    while True:
        settings = Settings(
            unit,
            found.scope,
            options.sizes,
            universe(),
            assigned,
            data,
            escaping,
            changed,
            options.pragmas,
            begins,
            stored,
            kept,
            options.fast_math,
        )
        try:
            facts = Walker(settings)
            context = _declared_facts(found, region, _context(found, settings, facts), facts)
            context = context if fitting is None else context.intersect(fitting)
            walker, declared = _walk(simple.items, replace(settings, context=context), facts)
            known = _with_extents(context, declared, walker)
            if not known.is_equal(context):
                # array sizes say more about the parameters: judge bounds and conversions with that
                context = known
                walker, declared = _walk(simple.items, replace(settings, context=context), facts)
        except NeedsData as needed:
            data |= {needed.name}
            continue
        _check_hiding(walker)
        settled, errors = settle(walker.walked, declared, context, walker.evaluator, unit.places)
        if errors and options.rows_fit and fitting is None:
            fitting = rows_that_fit(walker.walked, context)
            continue
        stores = _unasked_stores(walker, settled, context) if not errors else frozenset()
        if stores:
            kept |= stores
            continue
        if walker.errors or errors:
            raise InputErrors(in_order([*walker.errors, *errors]))
        value_only = _value_only(walker)
        if not value_only:
            return _scop(unit, found, options, walker, settled, context, simple.views)
        data |= value_only


def _begins(found: Found, names: frozenset[str]) -> dict[str, Any]:
    """What integers of the function are given in front of a region."""
    begins: dict[str, Any] = {}
    for name in sorted(names):
        symbol = found.scope.find(name)
        if symbol is not None and symbol.is_integer and symbol.storage is Storage.LOCAL and not symbol.volatile:
            value = value_before(name, found.before)
            if value is not None:
                begins[name] = value
    return begins


def _unasked_stores(walker: Walker, settled: Settled, context: isl.Set) -> frozenset[int]:
    """What `choices` must not have made of `if`s."""
    walked = walker.walked
    if not walked.stores:
        return frozenset()
    parameters = _parameters(walker, context)
    statements = Builder(settled, parameters, walker.places, context).statements(walked.statements)
    return unasked(statements, walked, isl.parametric(context, parameters).params())


def _parameters(walker: Walker, context: isl.Set) -> tuple[str, ...]:
    """The symbols without a value, those that are only known something about last."""
    parameters = tuple(name for name in walker.walked.parameters if name not in walker.settings.data)
    return parameters + tuple(sorted(set(isl.parameters(context)) - set(parameters)))


def in_order(errors: list[InputError]) -> list[InputError]:
    """Errors by their place in the file, each once."""
    seen: set[tuple[object, str]] = set()
    result: list[InputError] = []
    for error in sorted(errors, key=lambda e: (e.span.line, e.span.column) if e.span else (0, 0)):
        if (error.span, error.reason) not in seen:
            seen.add((error.span, error.reason))
            result.append(error)
    return result


def _check_hiding(walker: Walker) -> None:
    """A loop variable may not have the name of something else that the region uses: isl knows names only."""
    walked = walker.walked
    for name, node in walked.hiding.items():
        if name in walked.parameters or name in walked.symbols or name in walked.constants or name in walked.sized:
            walker.errors.append(
                walker.places.error(
                    f"'{name}' hides another '{name}'", node, "give it a name of its own", topic="declarations"
                )
            )


def _walk(
    items: Sequence[Any], settings: Settings, facts: Walker
) -> tuple[Walker, dict[str, tuple[isl.PwAff | None, ...]]]:
    """Walk the statements of the region; the walk, and the declared extents of its arrays. Raises NeedsData."""
    walker = Walker(settings)
    walker.walked.shaping |= facts.walked.shaping
    for item in items:
        walker.walk(item)
    walker.no_pending()
    return walker, _extents(walker, settings.context)


def _context(found: Found, settings: Settings, walker: Walker) -> isl.Set:
    """The parameter values that the `assume` pragmas allow."""
    context = universe()
    for pragma in found.facts:
        if pragma.kind != "assume":
            continue
        fragment = settings.unit.fragments.get(pragma.index)
        items = [i for i in (fragment.block_items or ()) if not isinstance(i, c_ast.EmptyStatement)] if fragment else []
        if len(items) != 1:
            raise InputErrors(
                [
                    InputError(
                        "assume(...) holds no condition", pragma.span, "write assume(N >= 1 && ...)", topic="pragmas"
                    )
                ]
            )
        try:
            holds = walker.evaluator.condition(items[0], context)
        except NotAffine as error:
            raise InputErrors([walker.values().not_affine("assumption", error, items[0])]) from None
        context = tidy(context.intersect(holds))
        if context.is_empty():
            raise InputErrors(
                [
                    InputError(
                        "the assumption contradicts the sizes or another assumption",
                        pragma.span,
                        "correct one",
                        topic="pragmas",
                    )
                ]
            )
    return context


def _declared_facts(found: Found, region: Any, context: isl.Set, walker: Walker) -> isl.Set:
    """The context with what the declarations of the names in the region say; errors are left to the walk."""
    for name in sorted(set(mentions(region))):
        symbol = found.scope.find(name)
        if symbol is not None and symbol.levels and not symbol.is_function:
            try:
                extents = declared_extents(symbol, walker.evaluator, walker.places, context)
            except InputError:
                continue
            context = _with_extents(context, {name: extents}, walker)
    return context


def _extents(walker: Walker, context: isl.Set) -> dict[str, tuple[isl.PwAff | None, ...]]:
    declared: dict[str, tuple[isl.PwAff | None, ...]] = {}
    for name, symbol in walker.walked.symbols.items():
        try:
            declared[name] = declared_extents(symbol, walker.evaluator, walker.places, context)
        except InputError as error:
            if not any(level.pointer for level in symbol.levels[1:]):
                # arrays of pointers are reported where they are used
                walker.errors.append(error)
            declared[name] = tuple(None for _ in symbol.levels)
    return declared


def _with_extents(context: isl.Set, declared: Mapping[str, tuple[isl.PwAff | None, ...]], walker: Walker) -> isl.Set:
    """The context with array extents >= 0 unsigned parameters >= 0, and locals worth what they are
    initialised with."""
    for extents in declared.values():
        for extent in extents:
            if extent is not None and isl.parameters(extent):
                context = context.intersect(extent.ge_set(constant_aff(0)))
    for name in walker.walked.parameters:
        found = walker.scope.find(name)
        if found is not None and found.ctype.unsigned:
            context = context.intersect(symbol_aff(name).ge_set(constant_aff(0)))
    for name, value in walker.walked.derived.items():
        context = context.intersect(symbol_aff(name).eq_set(value))
    return context


def _value_only(walker: Walker) -> frozenset[str]:
    """Parameters that only values depend on: data rather than parameters of the program's shape."""
    return frozenset(walker.walked.parameters) - walker.walked.shaping - walker.settings.data


def _scop(
    unit: Unit,
    found: Found,
    options: Options,
    walker: Walker,
    settled: Settled,
    context: isl.Set,
    views: Mapping[str, View],
) -> Scop:
    walked, places = walker.walked, unit.places
    parameters = _parameters(walker, context)
    errors: list[InputError] = []
    if not walked.statements:
        raise InputErrors(
            [InputError("the scop computes nothing", found.span, "put the loops between its pragmas", topic="regions")]
        )
    if options.require_sizes:
        for name in (name for name in parameters if name not in walked.derived):
            errors.append(
                places.error(
                    f"the size of '{name}' is missing",
                    walked.parameters.get(name),
                    f"give it, as in --size {name}=1000",
                    topic="sizes",
                )
            )
        if errors:
            raise InputErrors(errors)
    builder = Builder(settled, parameters, places, context)
    model_context = isl.parametric(context, parameters)
    statements = builder.statements(walked.statements)
    used = frozenset(access.symbol.name for access in every_access(walked.statements))
    used_arrays = arrays(walked, settled, parameters, used, places)
    used_arrays, row_errors = shaped(used_arrays, walked, statements, model_context)
    if row_errors:
        raise InputErrors(in_order(row_errors))
    errors += check_stable(found, walker, used_arrays)
    errors += check_microkernels(statements, walked.statements, places, options.pragmas)
    errors += check_bounds(walked.statements, settled, context, places)
    members = [found.scope.symbols[name] for name in views if name in found.scope.symbols]
    assumptions, alias_errors = alias_assumptions(
        used_arrays, walked.symbols, statements, members, options.strict_alias, places
    )
    errors += alias_errors
    indices = index_values(walked, every_access(walked.statements), parameters)
    assumptions += (*assumed(indices, used_arrays), *walked.granted)
    errors += same_memory(found, walked.symbols, statements, places)
    if any(isinstance(node, c_ast.FuncCall) for item in found.items for node in nodes(item)):
        assumptions += tuple(
            f"'{name}' has no effects and uses its arguments alone" for name in sorted(unit.assumed_pure)
        )
    live, live_errors = live_out(unit, found, used_arrays)
    errors += live_errors
    if errors:
        raise InputErrors(in_order(errors))
    guards, texts, conditions = guards_of(unit, found, walker, used_arrays)
    runtime = dict(walked.sized)
    for name, symbol in walked.constants.items():
        if places.token_of(symbol.node) is None and symbol.value is not None:
            # declared in a header, which may say something else next time
            runtime[name] = symbol.value
    guards += [Guard(name, value, False) for name, value in sorted(runtime.items())]
    outside = tuple(
        str(
            c_generator.CGenerator().visit(
                c_ast.Decl(name, symbol.node.quals, [], [], [], symbol.node.type, None, None)
            )
        )
        for name, symbol in walked.temporaries.items()
        if found.scope.find(name) is symbol and symbol.storage is not Storage.PARAMETER
    )
    begun = tuple(
        (name, value.constant)
        for name, value in walked.begun.items()
        if value.constant is not None and found.scope.find(name) is walked.temporaries.get(name)
    )
    return Scop(
        found.name,
        found.span,
        options.source,
        model_region(found, unit, outside, begun),
        parameters,
        model_context,
        used_arrays,
        statements,
        {guard.name: guard.value for guard in guards},
        tuple(guards),
        texts,
        conditions,
        live,
        assumptions,
        promises(unit.source, found.start, found.end, statements, used_arrays),
        indices,
        {name: view for name, view in views.items() if name in used_arrays or name in runtime or name in parameters},
    )
