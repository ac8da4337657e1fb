"""One region -> one Scop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.errors import InputError, InputErrors
from polydl.frontend.lower.check import alias_assumptions, check_bounds, check_microkernels, check_stable
from polydl.frontend.lower.choices import unasked
from polydl.frontend.lower.finish import Builder, Settled, arrays, declared_extents, every_access, rows_that_fit, settle
from polydl.frontend.lower.indices import assumed, index_values
from polydl.frontend.lower.members import plain
from polydl.frontend.lower.overlap import same_memory
from polydl.frontend.lower.promises import promises
from polydl.frontend.lower.regions import Found, model_region, outlined
from polydl.frontend.lower.walk import Walker
from polydl.frontend.meaning.affine import Evaluator, NotAffine, constant_aff, symbol_aff, tidy, universe
from polydl.frontend.meaning.guards import condition_names_around, end_of_block, macro_guards, names_between
from polydl.frontend.meaning.liveness import (
    assigned_names,
    changed_names,
    has_address_taken,
    jumps,
    mentioned_apart,
    stored_names,
)
from polydl.frontend.meaning.lookup import NeedsData, Settings
from polydl.frontend.meaning.symbols import mentions, nodes, type_names
from polydl.frontend.text.expansions import condition_names, expansions, is_plain
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import Pragma, names_in
from polydl.model import isl
from polydl.model.scop import Array, Guard, Scop, Source, Storage, View


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


def extract(unit: Unit, found: Found, options: Options) -> Scop:
    """Read a region. Raises InputErrors with everything that is wrong in it."""
    found = outlined(found, unit.source)
    try:
        simple = plain(found, unit)
    except InputError as error:
        raise InputErrors([error]) from None
    found = replace(found, scope=simple.scope)
    region = c_ast.Compound(simple.items, found.items[0].coord if found.items else None)
    assigned = assigned_names(region)
    escaping = frozenset(name for name in assigned if found.escapes(name))
    changed = changed_names(found.function.body)
    stored = stored_names(region)
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
            stored,
            kept,
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
    """The context with array extents >= 0 and unsigned parameters >= 0."""
    for extents in declared.values():
        for extent in extents:
            if extent is not None and isl.parameters(extent):
                context = context.intersect(extent.ge_set(constant_aff(0)))
    for name in walker.walked.parameters:
        found = walker.scope.find(name)
        if found is not None and found.ctype.unsigned:
            context = context.intersect(symbol_aff(name).ge_set(constant_aff(0)))
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
        for name in parameters:
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
    errors += check_stable(found, walker, used_arrays)
    errors += check_microkernels(statements, walked.statements, places, options.pragmas)
    errors += check_bounds(walked.statements, settled, context, places)
    members = [found.scope.symbols[name] for name in views if name in found.scope.symbols]
    assumptions, alias_errors = alias_assumptions(
        used_arrays, walked.symbols, statements, members, options.strict_alias, places
    )
    errors += alias_errors
    indices = index_values(walked, every_access(walked.statements), parameters)
    assumptions += assumed(indices, used_arrays)
    errors += same_memory(found, walked.symbols, statements, places)
    if any(isinstance(node, c_ast.FuncCall) for item in found.items for node in nodes(item)):
        assumptions += tuple(
            f"'{name}' has no effects and uses its arguments alone" for name in sorted(unit.assumed_pure)
        )
    live, live_errors = _live(unit, found, used_arrays)
    errors += live_errors
    if errors:
        raise InputErrors(in_order(errors))
    guards, texts, conditions = _guards(unit, found, walker, used_arrays)
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


def _conditions(unit: Unit, found: Found, names: Iterable[str]) -> set[str]:
    """Macros that decide which declaration of the names (types, objects, functions) is compiled."""
    waiting = [found.function.decl]
    for name in names:
        symbol = found.scope.find(name)
        waiting.append(found.scope.find_typedef(name) if symbol is None else symbol.node)
    declared: list[Any] = []
    while waiting:
        node = waiting.pop()
        if node is not None and node not in declared:
            declared.append(node)
            waiting += [found.scope.find_typedef(word) for word in type_names(node)]
    tokens = [unit.places.token_of(node) for node in declared]
    return {n for token in tokens if token is not None for n in condition_names_around(unit.source, token.offset)}


def _guards(
    unit: Unit, found: Found, walker: Walker, used: Mapping[str, Any]
) -> tuple[list[Guard], tuple[tuple[str, str], ...], dict[str, bool]]:
    """Macros that the region, the function's head, the declarations of arrays or a pragma mention: integers as
    guards, others with their expansions; and those that decide which declarations hold, with whether they are
    defined."""
    source = unit.source
    names = names_between(source, found.start, found.end)
    head = unit.places.token_of(found.function.decl)
    body = unit.places.token_of(found.function.body)
    if head is not None and body is not None:
        names |= names_between(source, head.offset, body.offset)
    nodes = [walker.walked.symbols[name].node for name in used]
    nodes += [symbol.node for symbol in walker.walked.temporaries.values()]
    for node in nodes:
        token = unit.places.token_of(node)
        if token is not None:
            names |= names_between(source, source.line_start(token.line), source.text.find(";", token.offset))
    for pragma in found.facts:
        names |= names_between(source, pragma.start, pragma.end)
    for symbol in walker.walked.constants.values():
        token = unit.places.token_of(symbol.node)
        if token is not None:
            # from the end of the declaration before, so that all enumerators of an enum count
            names |= names_between(
                source, source.text.rfind(";", 0, token.offset) + 1, source.text.find(";", token.offset)
            )
    texts_of_called = []
    for definition in walker.walked.called.values():
        token = unit.places.token_of(definition.decl)
        if token is not None:
            start, end = source.line_start(token.line), end_of_block(source, token.offset)
            names |= names_between(source, start, end)
            texts_of_called.append(source.text[start:end])
    marker = f"#pragma polydl {next((p.index for p in walker.settings.pragmas.values() if p.span == found.span), -1)}\n"
    offset = unit.preprocessed.text.find(marker)
    at = offset if offset >= 0 else len(unit.preprocessed.text)
    around = _conditions(unit, found, names)
    guards = macro_guards(names | around, unit.preprocessed, at, Evaluator(walker), walker.scope)
    integers = {guard.name for guard in guards}
    cc, flags, folder = unit.preprocessed.command
    tested = condition_names("\n".join([source.text[found.start : found.end], *texts_of_called]))
    texts = expansions(names, tested | integers | around, source.text, unit.preprocessed, at, flags, folder, cc)
    # a macro without a definition expands to itself
    defined = {name: texts.get(name) != f'"{name}"' for name in sorted(around)}
    shown = names | tested
    return (
        [replace(guard, plain=is_plain(texts.get(guard.name, '""'))) for guard in guards],
        tuple((use, text) for use, text in texts.items() if use not in integers and use.partition("(")[0] in shown),
        defined,
    )


def _may_be_read(found: Found, name: str, array: Array) -> bool:
    """Whether what the region leaves in an array or scalar may be read behind it, as far as the function says."""
    if array.storage is Storage.REGION:
        return False
    symbol = found.scope.find(name)
    if symbol is not None and symbol.member:
        return True  # what a structure points to, or holds, others may know
    own = array.storage is Storage.LOCAL or (array.storage is Storage.PARAMETER and array.is_scalar)
    if not own or symbol is None or {"static", "extern"} & set(symbol.node.storage):
        return True
    if array.is_scalar:
        return has_address_taken(found.function.body, name) or found.escapes(name)
    # The region may run again; and a pointer into it may go on, once it is named anywhere outside of the region.
    again = jumps(found.function.body) or any(name in mentions(node) for node in found.after)
    return again or mentioned_apart(found.function.body, found.items, name)


def _live(unit: Unit, found: Found, used: Mapping[str, Any]) -> tuple[frozenset[str], list[InputError]]:
    """Arrays that are read after the region, by default or by pragma."""
    live = {name for name, array in used.items() if _may_be_read(found, name, array)}
    errors: list[InputError] = []
    only: set[str] | None = None
    dead: set[str] = set()
    for pragma in found.facts:
        if pragma.kind not in ("live_out", "dead"):
            continue
        names: list[str] = []
        source = unit.source
        for token in names_in(source, pragma):
            known = found.scope.find(token.text)
            if token.kind != "name" or known is None:
                errors.append(
                    InputError(
                        f"'{token.text}' is not an array of this function",
                        source.span(token),
                        f"arrays of the scop: {', '.join(sorted(used)) or 'none'}",
                        topic="pragmas",
                    )
                )
            else:
                names.append(token.text)
        if pragma.kind == "live_out":
            only = (only or set()) | set(names)
        else:
            dead |= set(names)
    if only is not None:
        live &= only
    return frozenset(live - dead), errors
