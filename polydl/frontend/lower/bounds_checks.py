"""Checks on what was read: bounds, aliasing, microkernel contracts, sizes that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.lower.finish import Settled
from polydl.frontend.lower.raw import RawAccess, RawCall, RawStatement
from polydl.frontend.lower.regions import Found
from polydl.frontend.lower.walk import Walker
from polydl.frontend.meaning.affine_terms import constant_aff
from polydl.frontend.meaning.liveness import changed_names
from polydl.frontend.meaning.symbols import Symbol, mentions, nodes
from polydl.frontend.text.places import Places
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.scop import Array, MicrokernelCall, Statement, Storage
from polydl.model.spaces import StatementSpace
from polydl.model.touched import apart, has_range, listed


def check_bounds(
    statements: Sequence[RawStatement], settled: Settled, context: isl.Set, places: Places
) -> list[InputError]:
    """Accesses that leave the declared extents for every parameter value for which they happen at all."""
    errors: list[InputError] = []
    reported: set[object] = set()
    for statement in (part for one in statements for part in one.parts):
        domains = {id(a.where): a.where for a in statement.accesses}  # most of a statement's accesses share one
        known = {key: where.intersect(context) for key, where in domains.items()}
        for access in statement.accesses:
            where = known[id(access.where)]
            error = _out_of_bounds(statement, access, settled, where, places) if access.exact else None
            if error is not None and error.span not in reported:
                reported.add(error.span)
                errors.append(error)
    return errors


def _out_of_bounds(
    statement: RawStatement, access: RawAccess, settled: Settled, where: isl.Set, places: Places
) -> InputError | None:
    """`where`: the values for which the access happens."""
    iterators = [loop.name for loop in statement.loops]
    name = access.symbol.name
    dimensions = zip(settled.subscripts[id(access)], settled.extents[name], strict=True)
    for at, (subscript, extent) in enumerate(dimensions):
        if extent is None or subscript is None:
            continue
        below = subscript.lt_set(constant_aff(0))
        outside = where.intersect(below.union(subscript.ge_set(extent)))
        if outside.is_empty() or not isl.some_values(where, iterators).is_subset(isl.some_values(outside, iterators)):
            continue
        point, value = _example(outside, iterators, subscript)
        return places.error(
            f"subscript {at + 1} of '{name}' leaves its bounds"
            + (f": it is {value} at {point}" if point else f": it is {value}" if value is not None else ""),
            access.node,
            f"'{name}' is declared as '{access.symbol.declaration}'",
            topic="out-of-bounds",
        )
    return None


def _example(outside: isl.Set, iterators: Sequence[str], subscript: isl.PwAff) -> tuple[str, int | None]:
    """The first iteration of a set, as people read it, and a function's value there."""
    space = StatementSpace("S", iterators, [])
    if any(name not in iterators for name in isl.parameters(outside)):
        return "", None
    point = space.set(outside).lexmin().sample_point()
    value = space.function(subscript).eval(point)
    coordinates, _ = isl.sample(isl.Set.from_point(point))
    text = ", ".join(f"{name} = {number}" for name, number in zip(iterators, coordinates, strict=True))
    return text, int(value.to_python())


def check_stable(found: Found, walker: Walker, used: Mapping[str, Array]) -> list[InputError]:
    """Array sizes that are variables must still have the value that they had where the array was declared."""
    errors: list[InputError] = []
    written = changed_names(found.function.body)
    for name in used:
        symbol = walker.walked.symbols[name]
        for level in symbol.levels[1:] if symbol.decays else symbol.levels:
            for mentioned in sorted(set(mentions(level.extent)) if level.extent is not None else set()):
                known = found.scope.find(mentioned)
                late = symbol.storage is Storage.PARAMETER or (
                    known is not None and _assigned_late(found, mentioned, symbol)
                )
                if known is not None and known.value is None and mentioned in written and late:
                    errors.append(
                        walker.places.error(
                            f"'{mentioned}' is a size of '{name}' and changes in the function",
                            symbol.node,
                            "use a variable that keeps its value",
                            topic="array-shapes",
                        )
                    )
    return errors


def _assigned_late(found: Found, name: str, symbol: Symbol) -> bool:
    """Whether a variable may be assigned after an array's declaration (textually; loops around count as after)."""
    coord = symbol.node.coord
    assert coord is not None, "it stands in the file"

    return any(
        isinstance(at, (c_ast.For, c_ast.While, c_ast.DoWhile))
        or (at.coord is not None and (at.coord.line, at.coord.column or 0) > (coord.line, coord.column or 0))
        for at in nodes(found.function.body)
        if isinstance(at, (c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.Assignment, c_ast.UnaryOp))
        and name in changed_names(at)
    )


def alias_assumptions(
    arrays: Mapping[str, Array],
    symbols: Mapping[str, Symbol],
    statements: Sequence[Statement],
    members: Sequence[Symbol],
    roots: Mapping[str, str],
    strict: bool,
    places: Places,
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], list[InputError]]:
    """Arrays of which two may be the same memory, one of them written: those that the output asks about where it runs
    (`Scop.apart`); what is assumed of the others, of which something touched has no end that is known; that as errors,
    with `strict`.

    One restrict pointer of a pair is enough: what is modified and reached through it is reached through nothing
    else (C11 6.7.3.1), but for pointers that the function makes from it: `roots` says what it makes them from. A
    parameter cannot point at a local array; types that differ do not alias (6.5p7).
    `members`: those of structures whose values are read once, before the region, and that nothing in it may change.
    """
    written = {access.array for statement in statements for access in statement.accesses if access.write}
    errors: list[InputError] = []
    known = [
        (one, other)
        for one, other in combinations(arrays, 2)
        if (one in written or other in written) and _may_alias(symbols[one], symbols[other], roots)
    ]
    ends = {name: _has_range(arrays[name], symbols[name], statements) for pair in known for name in pair}
    asked = tuple(pair for pair in known if all(ends[name] for name in pair))
    pairs = [(symbols[one], symbols[other]) for one, other in known if (one, other) not in asked]
    pairs += [
        (symbols[name], member)
        for name in arrays
        if name in written
        for member in members
        if not member.inside and _may_change(symbols[name], member)
    ]
    # Of members of several types there is a pair for each two of them.
    pairs = list({frozenset((one.shown, other.shown)): (one, other) for one, other in reversed(pairs)}.values())[::-1]
    for one, other in pairs:
        if strict:
            errors.append(
                places.error(
                    f"'{one.shown}' and '{other.shown}' may overlap",
                    other.node,
                    "declare them restrict, or allow the assumption by leaving out --strict-alias",
                    topic="overlap",
                )
            )
    none = "neither is restrict" if len(pairs) == 1 else "none is restrict"
    said = [f"{apart([(one.shown, other.shown) for one, other in pairs])} ({none})"] if pairs else []
    # What is stored as a character may be a part of a pointer.
    bytes_written = [name for name in arrays if name in written and symbols[name].ctype.bits == 8]
    rows = [name for name in arrays if symbols[name].of_rows]
    if bytes_written and rows:
        said.append(f"writing to {listed(bytes_written, 'or')} leaves the pointers in {listed(rows, 'and')} alone")
    return asked, tuple(said), errors


def _has_range(array: Array, symbol: Symbol, statements: Sequence[Statement]) -> bool:
    """Whether the output can say where the memory lies that statements touch of an array."""
    # The value of a member is kept in a variable of its own; what the region declares is not there yet.
    lies = array.storage is not Storage.REGION and not (array.is_scalar and symbol.member)
    return lies and has_range(array, statements)


def _may_change(written: Symbol, member: Symbol) -> bool:
    """Whether writing elements of an array may change a member of a structure: a number, or a pointer."""
    if not written.decays or written.restrict or (written.inside and _holder(written) == _holder(member)):
        return False
    if "->" not in member.member and Storage.PARAMETER is written.storage is member.storage:
        return False  # no pointer that a function is given points to its own parameters
    return written.ctype.bits == 8 or (not member.levels and _same_kind(written, member))


def _same_kind(one: Symbol, other: Symbol) -> bool:
    same_sign = one.ctype.is_int and other.ctype.is_int and one.ctype.bits == other.ctype.bits
    return same_sign or one.ctype == other.ctype


def _keeps_apart(pointer: Symbol, other: Symbol, roots: Mapping[str, str]) -> bool:
    """Whether a pointer is restrict, and the other one not made from it."""
    if not (pointer.decays and pointer.restrict):
        return False
    own = other.storage is Storage.LOCAL and other.decays and not other.restrict
    return not own or roots[other.name] not in (pointer.spelled, other.spelled)


def _may_alias(one: Symbol, other: Symbol, roots: Mapping[str, str]) -> bool:
    if one.spelled == other.spelled:
        return False  # members of one array of structures
    if one.inside and other.inside and _holder(one) == _holder(other):
        return False  # two members of one structure
    if not one.decays and not other.decays:
        return False
    if _keeps_apart(one, other, roots) or _keeps_apart(other, one, roots):
        return False
    for pointer, target in ((one, other), (other, one)):
        # a scalar or array of this function, or a by-value parameter, is out of a parameter's reach
        hidden = not target.decays and target.storage is not Storage.GLOBAL and not target.inside
        if hidden and (pointer.storage is Storage.PARAMETER or target.is_scalar) and pointer.decays:
            return False
    characters = {8}
    if one.ctype.bits in characters or other.ctype.bits in characters:
        return True
    return _same_kind(one, other)


def _holder(member: Symbol) -> str:
    """The structure that a member lies in: `g` of `g->u`, `c->g` of `c->g->u.v`."""
    before, arrow, _ = member.member.rpartition("->")
    return before if arrow else member.member.partition(".")[0]


def check_microkernels(
    statements: Sequence[Statement], raw: Sequence[RawStatement], places: Places, pragmas: Mapping[int, Pragma]
) -> list[InputError]:
    """A microkernel's loops touch the arrays that its call is given, from the elements that it points at on."""
    errors: list[InputError] = []
    for statement, read in zip(statements, raw, strict=True):
        if isinstance(statement.body, MicrokernelCall) and isinstance(read.body, RawCall):
            errors += _contract(statement, statement.body, read.body, places, pragmas[read.body.pragma])
    return errors


def _contract(
    statement: Statement, call: MicrokernelCall, raw: RawCall, places: Places, pragma: Pragma
) -> list[InputError]:
    def wrong(what: str, hint: str, node: Node | None = None) -> InputError:
        reason = f"microkernel pragma whose loops touch other data than the call's arguments name: {what}"
        span = None if node is None else places.span(node)
        return InputError(reason, span or pragma.span, hint, topic="microkernels")

    touched: dict[str, isl.Map] = {}
    for access in statement.accesses:
        if access.array in touched:
            touched[access.array] = touched[access.array].union(access.relation)
        else:
            touched[access.array] = access.relation
    named = {argument.array for argument in call.arguments if argument.array is not None}
    passed = {name for argument in raw.arguments if argument.node is not None for name in mentions(argument.node)}
    errors: list[InputError] = []
    scalars = {a.symbol.name for s in raw.inner for a in s.accesses if a.symbol.is_scalar}
    for array in touched:
        if array not in named and not (array in scalars and array in passed):
            errors.append(wrong(f"'{array}' is touched by the loops and is no argument", f"pass '{array}'"))
    for argument, passed_argument in zip(call.arguments, raw.arguments, strict=True):
        if argument.array is None or argument.subscript is None:
            continue
        if argument.array not in touched:
            what = f"the call is given '{argument.array}', which the loops do not touch"
            hint = f"leave '{argument.array}' out of the call, or use it in the loops"
            errors.append(wrong(what, hint, passed_argument.node))
            continue
        relation = touched[argument.array]
        pointed = isl.Map.from_multi_pw_aff(argument.subscript).intersect_domain(relation.domain())
        first = relation.lexmin()
        if not first.is_subset(pointed):
            what = f"the first element of '{argument.array}' that the loops touch is not '{argument.text}'"
            hint = "point at the element with the smallest subscripts that the loops touch"
            errors.append(wrong(what, hint, passed_argument.node))
    return errors
