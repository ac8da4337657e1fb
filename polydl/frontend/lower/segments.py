"""Sums over segments, and whatever else makes an element anew of itself and of each entry (extremes): loops whose
bounds are read from memory, as a row of a sparse matrix has them (CSR, BSR).

    before:    for (p = ptr[i]; p < ptr[i + 1]; p++) for (j = 0; j < n; j++) y[i][j] += val[p] * x[idx[p]][j];
    after:     for (j = 0; j < n; j++) for (p = ptr[i]; p < ptr[i + 1]; p++) y[i][j] += val[p] * x[idx[p]][j];
    requires:  one assignment, to an array of which an iteration reads no other element; different iterations of the
               loops that move outwards write different elements, so that each element's steps keep their order

What is left of the loop over the segment is kept as it is written, and beside it stands what it accumulates, as a
statement of affine loops: that tells whether microkernels can run it (`model.contraction`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core import counters
from polydl.frontend.core.counters import Counter
from polydl.frontend.core.loop_forms import Loop, statements
from polydl.frontend.core.node_copies import mapped
from polydl.frontend.core.tree_parts import counting, integer, replaced
from polydl.frontend.lower.member_nodes import written
from polydl.frontend.lower.raw import RawAccess, RawAssignment, RawSegment, RawStatement
from polydl.frontend.lower.state import State
from polydl.frontend.lower.upward_loops import bounds_of
from polydl.frontend.meaning.delinearize import recover
from polydl.frontend.meaning.liveness import assigned_names
from polydl.frontend.meaning.symbols import declarations, mentions, nodes
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.contraction import in_lanes
from polydl.model.expr import Convert, Expr, Load, every_part, factors_of, loads
from polydl.model.types import BF16, BF16_BITS, F32, F64, I8, I16, I32, U8, ElementType

_NARROW: Mapping[object, frozenset[object]] = {F32: frozenset({BF16, BF16_BITS}), I32: frozenset({I8, U8, I16, I32})}
"""By the type of sums, those of factors that microkernels read as they are."""
_MOST = 1 << 16
"""Entries that the affine statement has: any number that is larger than 1 tells how far operands move."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A loop over a segment with one step in it, which makes an element anew."""

    around: tuple[c_ast.For, ...]
    """Loops inside of it whose variables the target's subscripts mention, outermost first."""
    inside: tuple[c_ast.For, ...]
    """The others."""
    step: Node
    """The assignment, or the `if` that it is in, without names that the loops declare."""
    entry: str
    first: Node
    last: Node
    """One past the last entry."""


def turned(loop: Loop, counter: Counter, state: State) -> Node | None:
    """Interchange loops: those inside of a loop over a segment whose iterations add to different elements, around it.
    None where there are none, or no microkernel runs what it does."""
    found = _sum(loop, counter, state)
    if found is None or not found.around:
        return None
    raw = _affine(found, _tables(found, state), state)
    if (
        raw is None
        or not (_multiplies(raw) or _is_step(raw))
        or not _different(raw, [_variable(one) for one in found.around])
    ):
        return None
    assert isinstance(loop.node, c_ast.For), "says `_sum`"
    over = loop.node
    node: Node = _nested(found.inside, found.step)
    node = c_ast.For(over.init, over.cond, over.next, node, over.coord)
    return _nested(found.around, node)


def segment(loop: Loop, counter: Counter, state: State) -> RawSegment | None:
    """What a loop over a segment accumulates into elements that its iteration does not move; None where it does not."""
    found = _sum(loop, counter, state)
    if found is None or found.around:
        return None
    tables = _tables(found, state)
    raw = _affine(found, tables, state)
    ends = [state.substituted(node) for node in (found.first, found.last)]
    if raw is None or None in ends:
        return None
    first, last = (written(end) for end in ends if end is not None)
    entry = raw.loops[len(state.loops)].name
    return RawSegment(raw, entry, found.entry, first, last, {v: k for k, v in tables.items()})


def in_elements(items: Sequence[Node], state: State) -> list[Node]:
    """Statements of a block in which a scalar that a loop over data's bounds adds up, and that ends up in an element,
    is that element from the start, perhaps through other names; bounds that have names are written where they are used.

    before:    float s = 0; for (p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * x[idx[p]][j]; y[i][j] = s;
    after:     y[i][j] = 0; for (p = ptr[i]; p < ptr[i + 1]; p++) y[i][j] += val[p] * x[idx[p]][j];
    requires:  nothing else in the block mentions the scalar or the array; the element has its type, and a loop around
               leads to its neighbours without moving the bounds
    """
    found = list(items)
    if not any(isinstance(one, c_ast.For) for one in items):
        return found
    for one in items:
        if isinstance(one, c_ast.Decl):
            found = _in_bounds(found, one, state) or found
    for one in tuple(found):
        if isinstance(one, c_ast.Decl) and one in found:  # not one that has another scalar's element by now
            found = _in_element(found, one, state) or found
    return found


def _in_bounds(items: Sequence[Node], integer: c_ast.Decl, state: State) -> list[Node] | None:
    """An integer that only bounds of loops in the block mention is what it is initialised with: an element of an array
    that the region does not write, `const int end = ptr[i + 1]`."""
    value = _declared(integer, state) if isinstance(integer.type, c_ast.TypeDecl) else None
    others = [one for one in items if one is not integer]
    users = [one for one in others if integer.name in mentions(one)]
    if not isinstance(value, c_ast.ArrayRef) or not users:
        return None
    memory = state.memory(*items)
    read = [memory.place(one).objects for one in nodes(value) if isinstance(one, c_ast.ArrayRef)]
    if any(objects is None or any(map(state.is_stored, objects)) for objects in read):
        return None
    changed = {name for one in others for name in assigned_names(one)}
    heads_alone = all(
        isinstance(one, c_ast.For)
        and not any(integer.name in mentions(part) for part in (one.next, one.stmt) if part is not None)
        for one in users
    )
    if not heads_alone or changed & {integer.name, *mentions(value)}:
        return None
    return [replaced(one, {integer.name: value}) if one in users else one for one in others]


def _in_element(items: Sequence[Node], scalar: c_ast.Decl, state: State) -> list[Node] | None:
    name, at = scalar.name, items.index(scalar)
    users = [one for one in items if one is not scalar and name in mentions(one)]
    if scalar.init is None or scalar.storage or not isinstance(scalar.type, c_ast.TypeDecl) or len(users) < 2:
        return None
    loop, *readers = users
    behind = items[items.index(readers[-1]) :]
    last = next((one for one in behind if isinstance(one, c_ast.Assignment) and one.op == "="), None)
    if last is None or not isinstance(last.lvalue, c_ast.ArrayRef):
        return None
    if any(name in assigned_names(one) or not isinstance(one, c_ast.Decl | c_ast.Assignment) for one in readers):
        return None
    element, array = last.lvalue, _array(last.lvalue)
    if array is None:
        return None
    kept = written(scalar.init) == written(element)
    memory = state.memory(*items)
    place = memory.place(element)
    between = [one for one in items[at + kept : items.index(last)] if memory.touches(one, place)]
    symbol = state.scope.find(array)
    if not isinstance(loop, c_ast.For) or name not in assigned_names(loop) or between or symbol is None:
        return None
    heads = [part for part in (loop.init, loop.cond) if part is not None]
    bounds = {n for part in heads for n in mentions(part)}
    columns = {one.name for one, _ in state.loops} & set(mentions(element.subscript)) - bounds
    changed = (assigned for one in items[at : items.index(last)] for assigned in assigned_names(one))
    own = {name, *changed, *(d.name for one in items for d in declarations(one))}
    if (
        not any(isinstance(node, c_ast.ArrayRef) for part in heads for node in nodes(part))
        or not columns
        or own & set(mentions(element))
        or memory.touches(last.rvalue, place)
        or state.type_of(c_ast.Typename(None, [], None, scalar.type)) is not symbol.ctype
    ):
        return None
    known = {name: element}
    made: dict[int, Node | None] = {
        id(scalar): None if kept else c_ast.Assignment("=", element, scalar.init, scalar.coord),
        id(loop): replaced(loop, known),
        **{id(one): replaced(one, known) for one in readers},
    }
    if isinstance(last.rvalue, c_ast.ID) and last.rvalue.name == name:
        made[id(last)] = None
    now = (made.get(id(one), one) for one in items)
    return [one for one in now if one is not None]


def _sum(loop: Loop, counter: Counter, state: State) -> _Sum | None:
    bounds = bounds_of(loop.node)
    if bounds is None or bounds.counter != counter.name:
        return None
    loops: list[c_ast.For] = []
    declared: list[Node] = []
    step = _step(loop.body, {}, loops, declared, state)
    written_to = [node.lvalue for node in nodes(step) if isinstance(node, c_ast.Assignment)] if step is not None else []
    if step is None or len({written(place) for place in written_to}) != 1:
        return None
    place = written_to[0]
    target = _array(place)
    moved = set(mentions(place))
    around = [one for one in loops if _variable(one) in moved]
    inside = [one for one in loops if _variable(one) not in moved]
    own = {bounds.counter, *(_variable(one) for one in inside)}
    heads = [part for one in around for part in (one.init, one.cond, one.next) if part is not None]
    fixed = moved | {name for head in heads for name in mentions(head)}
    if target is None or own & fixed:
        return None
    # what stands in the place of names, and what says which entries there are, is read anew while the sum is made
    memory = state.memory(loop.node)
    tables = [part.subscript for part in nodes(step) if isinstance(part, c_ast.ArrayRef)]
    ends = [part for one in loops for part in (one.init, one.cond) if part is not None]
    again = (bounds.first, bounds.last, *declared, *tables, *ends)
    if any(memory.touches(part, memory.place(place)) for part in again):
        return None
    return _Sum(tuple(around), tuple(inside), step, bounds.counter, bounds.first, bounds.past)


def _step(
    body: Node, known: Mapping[str, Node], loops: list[c_ast.For], declared: list[Node], state: State
) -> Node | None:
    """The one assignment in loops, which `loops` gets, perhaps in an `if`, with what they declare, `declared`, put in
    its place; None where there is anything else."""
    *before, last = statements(body) or [body]
    known = dict(known)
    for one in before:
        value = _declared(one, state) if isinstance(one, c_ast.Decl) else None
        if value is None:
            return None
        assert isinstance(one, c_ast.Decl)
        pointer = isinstance(one.type, c_ast.PtrDecl)  # of what it points to nothing is read yet
        declared += [n.subscript for n in nodes(value) if isinstance(n, c_ast.ArrayRef)] if pointer else [value]
        known[one.name] = replaced(value, known)
    match last:
        case c_ast.For(init=c_ast.DeclList(decls=[c_ast.Decl(name=name)])):
            if any(name in mentions(value) for value in known.values()):
                return None  # another variable of this name
            loops.append(mapped(last, lambda inner: replaced(inner, known)))
            return _step(last.stmt, known, loops, declared, state)
        case c_ast.Assignment() | c_ast.If():
            return replaced(last, known)
    return None


def _declared(node: c_ast.Decl, state: State) -> Node | None:
    """What a name in a loop stands for: an element of an array of its type, a number that is converted to its type, or
    a place in an array; None where it may be anything else."""
    value, type_ = node.init, node.type
    if value is None or node.storage:
        return None
    name = _array(value)
    found = None if name is None else state.scope.find(name)
    pointed = isinstance(type_, c_ast.PtrDecl)
    inner = type_.type if isinstance(type_, c_ast.PtrDecl) else type_
    if not isinstance(inner, c_ast.TypeDecl):
        return None
    typename = c_ast.Typename(None, [], None, inner)
    ctype = state.type_of(typename)
    if found is not None and found.ctype is ctype and (pointed or isinstance(value, c_ast.ArrayRef)):
        return value
    if pointed or not isinstance(ctype, ElementType):
        return None
    return c_ast.Cast(typename, value, node.coord)


def _array(node: Node) -> str | None:
    """The array of an element or of a place."""
    match node:
        case c_ast.ArrayRef(name=inner) | c_ast.UnaryOp(op="&", expr=inner):
            return _array(inner)
        case c_ast.BinaryOp(op="+" | "-", left=inner):
            return _array(inner)
        case c_ast.ID():
            return str(node.name)
    return None


def _variable(loop: c_ast.For) -> str:
    assert isinstance(loop.init, c_ast.DeclList), "says `_step`"
    return str(loop.init.decls[0].name)


def _nested(loops: Sequence[c_ast.For], node: Node) -> Node:
    for one in reversed(loops):
        node = c_ast.For(one.init, one.cond, one.next, node, one.coord)
    return node


def _tables(found: _Sum, state: State) -> dict[str, str]:
    """By array of integers that the number of the entry subscripts within a subscript, the iterator that stands for its
    element."""
    names: dict[str, str] = {}

    def look(node: Node, inside: bool) -> None:
        if isinstance(node, c_ast.ArrayRef):
            table = _entry_of(node, found.entry, state) if inside else None
            if table is not None:
                names.setdefault(table, counters.fresh(f"{table}_of_{found.entry}", state))
                return
            look(node.name, inside or not isinstance(node.name, c_ast.ArrayRef | c_ast.ID))
            look(node.subscript, True)
            return
        for _, child in node.children():
            look(child, inside)

    look(found.step, False)
    return names


def _entry_of(node: c_ast.ArrayRef, entry: str, state: State) -> str | None:
    """The array of integers of which it is the element of the entry's number."""
    if not (isinstance(node.name, c_ast.ID) and isinstance(node.subscript, c_ast.ID) and node.subscript.name == entry):
        return None
    symbol = state.scope.find(node.name.name)
    integers = symbol is not None and isinstance(symbol.ctype, ElementType) and symbol.ctype.is_int
    return str(node.name.name) if symbol is not None and integers and len(symbol.levels) == 1 else None


def _affine(found: _Sum, tables: dict[str, str], state: State) -> RawStatement | None:
    """The step in loops that count entries, and elements of tables, from 0; None where it neither adds products of
    elements nor is one of a microkernel."""
    entry = counters.fresh(f"{found.entry}_of", state)

    def renamed(node: Node) -> Node:
        if isinstance(node, c_ast.ArrayRef):
            table = _entry_of(node, found.entry, state)
            if table in tables:
                return c_ast.ID(tables[table], node.coord)
        if isinstance(node, c_ast.ID) and node.name == found.entry:
            return c_ast.ID(entry, node.coord)
        return mapped(node, renamed)

    node: Node = _nested(found.inside, renamed(found.step))
    for name in (*reversed(tables.values()), entry):
        node = counting("int", name, integer(_MOST, node.coord), node, node.coord)
    node = _nested(found.around, node)
    with state.tried() as made:  # the loop itself is walked for what it touches
        state.walk(node)
    if len(made) != 1:
        return None
    (one,) = made
    if not (_adds_products(one) or _is_step(one)):
        return None
    # sizes in subscripts shape the arrays, where the loop itself has them only behind elements of tables
    factors = {n for a in one.accesses for v in a.subscripts if v is not None for m in v.poly or () for n in m}
    state.walked.shaping |= factors & state.walked.parameters.keys()
    return one


def _multiplies(one: RawStatement) -> bool:
    """Whether what it adds is a product of two elements."""
    body = one.body
    return (
        isinstance(body, RawAssignment)
        and adds(body.op)
        and sum(isinstance(part, Load) for part in every_part(body.value)) == 2
    )


def _adds_products(one: RawStatement) -> bool:
    """Whether it adds elements, or products of them, of other arrays: all of one type that has vectors, or products of
    two narrower ones whose values are those of the sum."""
    body = one.body
    if not isinstance(body, RawAssignment) or not adds(body.op):
        return False
    known = not any(access.chosen for access in one.accesses)
    target = one.accesses[body.target].symbol
    others = [a.symbol for at, a in enumerate(one.accesses) if at not in (body.target, body.target_read)]
    sums, elements = target.ctype, {symbol.ctype for symbol in others}
    if not known or target in others or not _is_product(body.value, sums):
        return False
    return elements == {sums} <= {F32, F64} or (elements <= _NARROW.get(sums, frozenset()) and _multiplies(one))


def _is_step(one: RawStatement) -> bool:
    """Whether it makes an element of itself and of one or two elements of other arrays, all of one type that has
    vectors, in few of their instructions."""
    body = one.body
    if not isinstance(body, RawAssignment):
        return False
    target = one.accesses[body.target]
    reads = [one.accesses[at] for at in dict.fromkeys(loads(body.value))]
    others = {written(access.node) for access in reads if access.symbol is not target.symbol}
    itself = [access for access in reads if access.symbol is target.symbol]
    return (
        not any(access.chosen or not access.subscripts for access in one.accesses)
        and {access.symbol.ctype for access in (target, *reads)} == {target.symbol.ctype} <= {F32, F64}
        and 1 <= len(others) <= 2
        and (bool(itself) or body.op != "=")
        and all(written(access.node) == written(target.node) for access in itself)
        and isinstance(target.symbol.ctype, ElementType)
        and in_lanes(body.value, target.symbol.ctype)
    )


def _is_product(value: Expr, sums: object) -> bool:
    """Of elements alone, or one of them, each perhaps converted to the type of the sum."""
    plain = (one.operand if isinstance(one, Convert) and one.target is sums else one for one in factors_of(value))
    return all(isinstance(one, Load) for one in plain)


def _different(one: RawStatement, names: Sequence[str]) -> bool:
    """Whether different iterations of some of its loops write different elements, the others' being the same."""
    (write,) = (access for access in one.accesses if access.write)
    subscripts = _affine_subscripts(write, frozenset(loop.name for loop in one.loops))
    if subscripts is None:
        return False
    domain = isl.as_dimensions(one.domain, names)
    element = isl.Map.from_domain(domain)
    for value in subscripts:
        known = isl.parameters(value)
        subscript = isl.parametric(value, [*known, *(name for name in names if name not in known)])
        element = element.flat_range_product(isl.Map.from_pw_aff(isl.as_arguments(subscript, names)))
    return bool(element.is_injective())


def _affine_subscripts(access: RawAccess, iterators: frozenset[str]) -> Sequence[isl.PwAff] | None:
    """The subscripts of an access, in dimensions that are as good as those of the array where its subscript is linear
    (`y[i * n + j]`); None where they are not affine."""
    shape = recover([(access, access.where)], iterators) if len(access.subscripts) == 1 else None
    if shape is not None:
        return shape.subscripts[0]
    known = [value.pw for value in access.subscripts if value is not None and value.pw is not None]
    return known if len(known) == len(access.subscripts) else None
