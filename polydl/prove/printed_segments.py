"""Sums over segments: what printed code adds up between bounds that it reads from memory, and whether a statement of
the original adds up the same.

An instance of such a statement runs whole, so its entries need no words of isl. Bounds are compared as C, with the
values of the loops that they mention; elements by where they begin (for entry 0, where tables hold 0) and by how far
the next entry, the next number in a table and the loops inside of the segment move them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from pycparser import c_ast, c_parser
from pycparser.c_generator import CGenerator

from polydl.base.records import dataclass
from polydl.kernels.segment_sum import SumFactor
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.contraction import first_element, iterations, product_factors
from polydl.model.expr import Load
from polydl.model.scop import Access, Assignment, BlackBox, Scop, Segment, Statement
from polydl.model.strides import Stride, strides_of
from polydl.prove.addresses import address, known_extent, linear
from polydl.prove.contracts import Contract, argument
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, affine, divided, number, parameter, product
from polydl.prove.printed_program import Bounds, Hint, Pointer, Printed, value_map
from polydl.prove.symbolic_values import Moved, Operation, Segmented, Symbol, place, pointer, symbol
from polydl.prove.syntax import line_of, names_in
from polydl.prove.walk_state import Place, Walk

_FIRST = re.compile(r"polydl\d*_first_\w+")
_ENTRIES = re.compile(r"polydl\d*_entries_\w+")
_SUMS = re.compile(r"polydl\d*_sums_\w+")
_SEGMENT = "#segment"
"""Of the integers in scope: the segment whose first entry has a name. No identifier is called that."""
TRUST = "entries of tables lead to elements of their arrays, as in the file"
_MOST_FACTORS = 4


@dataclass(frozen=True, slots=True)
class RowSums:
    """Memory for sums over a segment that one call makes."""

    size: int
    """Elements."""
    sums: Segmented | None = None
    """The first of them; None: none is made yet."""
    steps: tuple[Affine, ...] = ()
    """Per factor, elements from one sum to the next."""


# What is printed


def bound(walk: Walk, item: Any, at: Place) -> bool:
    """Note the declaration of a segment's first entry, or of its length; False: it is another one. Raises
    Unreadable."""
    if _FIRST.fullmatch(item.name):
        at.env[_SEGMENT] = _bounds(walk, item.name, item.init, None, at)
        at.env[item.name] = _first(item.name)
        return True
    if _ENTRIES.fullmatch(item.name) and _SEGMENT in at.env:
        found = length(walk, item.init, at)
        if found is not None:
            at.env[item.name] = found
            return True
    return False


def length(walk: Walk, node: Any, at: Place) -> Bounds | None:
    """The segment whose number of entries an expression is; None for any other. Raises Unreadable."""
    match node:
        case c_ast.ID(name=name) if isinstance(at.env.get(name), Bounds):
            found: Bounds = at.env[name]
            return found
        case c_ast.BinaryOp(op="-", left=last, right=c_ast.ID(name=name)) if _FIRST.fullmatch(name):
            begun = at.env.get(_SEGMENT)
            if isinstance(begun, Bounds) and begun.name == name:
                return _bounds(walk, name, begun.first, last, at)
    return None


def _first(name: str) -> Affine:
    """A segment's first entry, in addresses: like a product it has no text for isl."""
    return product(Affine((("first", 1),)), Affine(((name, 1),)))


def _bounds(walk: Walk, name: str, first: Any, last: Any, at: Place) -> Bounds:
    own = [names_in(end) for end in (first, last) if not isinstance(end, str)]
    mentioned = dict.fromkeys(n for names in own for n in names)
    values: dict[str, Affine] = dict(at.env[_SEGMENT].values) if last is not None else {}
    arrays: set[str] = set(at.env[_SEGMENT].arrays) if last is not None else set()
    for one in mentioned:
        value = at.env.get(one)
        if isinstance(value, Affine):
            values[one] = value
        elif value is None and one in walk.scop.arrays:
            arrays.add(one)
        else:
            raise Unreadable(f"line {line_of(first if last is None else last)}: the bound '{one}' of a segment")
    begin, end = (each if isinstance(each, str) else "" if each is None else _shown(each) for each in (first, last))
    return Bounds(name, begin, end, tuple(sorted(values.items())), frozenset(arrays))


def _shown(node: Any) -> str:
    return str(CGenerator().visit(node))


def declared(walk: Walk, item: Any, at: Place) -> bool:
    """Note the declaration of memory for the sums of several rows; False: it is something else."""
    if not (_SUMS.fullmatch(item.name) and isinstance(item.type, c_ast.ArrayDecl) and item.init is None):
        return False
    at.env[item.name] = RowSums(affine(item.type.dim, {}).constant)
    return True


def is_of_rows(item: Any) -> bool:
    """Whether a statement is a call of a generated function that adds up several rows."""
    match item:
        case c_ast.FuncCall(name=c_ast.ID(name=name)):
            return _ENTRIES.fullmatch(name) is not None
    return False


def of_rows(walk: Walk, called: Any, at: Place) -> None:
    """Such a call; what it makes is what later statements of the block read. Raises Unreadable."""
    stated = walk.parsed.sums.get(called.name.name)
    count, memory, *given = called.args.exprs
    there = at.env.get(getattr(memory, "name", ""))
    if stated is None or not isinstance(there, RowSums) or there.size < stated.rows or stated.rows == 1:
        raise Unreadable(f"line {line_of(called)}: a call of {called.name.name}")
    sums = _of_function(walk, called.name.name, [count, *given], at, called)
    steps = tuple(number(one.row) for one in stated.factors)
    at.env[memory.name] = RowSums(stated.rows, sums, steps)
    reads = {one.at.base for one in sums.factors} | {one.table for one in sums.factors} | sums.bounds.arrays
    walk.early.append((len(walk.program.statements), at.time, frozenset(reads)))


def settle(walk: Walk) -> None:
    """Nothing that a call for several rows read is written behind it, in its block, where its sums are used. Raises
    Unreadable."""
    for first, time, reads in walk.early:
        for one in walk.program.statements[first:]:
            if one.time[: len(time)] == time and (one.target is None or one.target.base in reads):
                raise Unreadable(f"line {one.line}: what a sum is made of is written before it is used")


def _of_row(walk: Walk, item: Any, at: Place) -> Segmented:
    """One of the sums that a call made. Raises Unreadable."""
    there, place_ = at.env.get(item.name.name), affine(item.subscript, at.env)
    if not isinstance(there, RowSums) or there.sums is None:
        raise Unreadable(f"line {line_of(item)}: {item.name.name} before anything is in it")
    if not at.holds(f"0 <= ({place_}) and ({place_}) < {there.size}"):
        raise Unreadable(f"line {line_of(item)}: {item.name.name} may have fewer elements")
    factors = [
        replace(one, at=Pointer(one.at.base, one.at.offset.plus(product(place_, step))))
        for one, step in zip(there.sums.factors, there.steps, strict=True)
    ]
    return replace(there.sums, factors=tuple(factors))


def is_sum(walk: Walk, block: Any) -> bool:
    """Whether a block ends with a sum over a segment by a generated function."""
    match (block.block_items or [None])[-1]:
        case c_ast.If(iftrue=c_ast.Compound(block_items=[c_ast.Assignment(rvalue=value)])):
            return is_of_rows(value) or _is_of_row(value)
        case c_ast.Assignment(rvalue=value):
            return is_of_rows(value)
    return False


def _is_of_row(value: Any) -> bool:
    match value:
        case c_ast.ArrayRef(name=c_ast.ID(name=name)):
            return _SUMS.fullmatch(name) is not None
    return False


def summed(walk: Walk, block: Any, at: Place, hint: Hint) -> None:
    """A block that adds up a segment by a generated function. Raises Unreadable."""
    *before, last = block.block_items or [None]
    for item in before:
        if not isinstance(item, c_ast.Decl):
            raise Unreadable(f"line {line_of(item)}: a {type(item).__name__} before a sum over a segment")
        if not bound(walk, item, at):
            at.env[item.name] = affine(item.init, at.env)
    match last:
        case c_ast.If(
            cond=c_ast.BinaryOp(op=">", left=c_ast.ID(name=name), right=c_ast.Constant(value="0")),
            iftrue=c_ast.Compound(block_items=[c_ast.Assignment() as adding]),
            iffalse=None,
        ) if isinstance(at.env.get(name), Bounds):
            asked = at.env[name]
        case c_ast.Assignment(op="+=" | "-=") as adding:  # of no entries, the function gives zero
            asked = None
        case _:
            raise Unreadable(f"line {line_of(block)}: a sum over a segment of another form")
    added: Any = adding.rvalue
    if _is_of_row(added):
        value = _of_row(walk, added, at)
    else:
        value = _of_function(walk, added.name.name, added.args.exprs, at, added)
    if asked is not None and value.bounds != asked:
        raise Unreadable(f"line {line_of(block)}: a sum over another segment than the one that is asked for")
    walk.program.trusted[TRUST] = None
    walk.add(at, "assignment", adding.op, value, place(adding.lvalue, at.env, walk.strides), hint, adding)


def _of_function(walk: Walk, function: str, given: list[Any], at: Place, called: Any) -> Segmented:
    stated = walk.parsed.sums.get(function)
    if stated is None:
        raise Unreadable(f"line {line_of(called)}: a call of {function}")
    walk.program.trusted[f"{function} adds up {stated.text}"] = None
    count, *given = given
    found = length(walk, count, at)
    if found is None:
        raise Unreadable(f"line {line_of(called)}: how many entries {function} is given")
    factors: list[Moved] = []
    for one in stated.factors:
        value, *given = given
        table = None
        if one.table is not None:
            table, *given = given
        factors.append(_factor(walk, one, value, table, found, at))
    return Segmented(found, (number(stated.depth),), tuple(factors))


def _factor(walk: Walk, one: SumFactor, value: Any, table: Any, segment: Bounds, at: Place) -> Moved:
    inner = (number(int(one.along)),)
    if not one.pointer:
        load = symbol(value, at.env, walk.strides)
        return Moved(_place_of(load, value), ZERO, "", ZERO, inner)
    return _moved(
        pointer(value, at.env, walk.strides),
        None if table is None else pointer(table, at.env, walk.strides),
        number(one.step if one.moves else 0),
        segment,
        inner,
    )


def _place_of(value: Symbol, node: Any) -> Pointer:
    at = getattr(value, "at", None)
    if not isinstance(at, Pointer):
        raise Unreadable(f"line {line_of(node)}: a factor that is no element")
    return at


def _moved(at: Pointer, table: Pointer | None, step: Affine, segment: Bounds, inner: tuple[Affine, ...]) -> Moved:
    """An operand that a function is given: it begins at the segment's first entry, or its table does. Raises Wrong."""
    first = _first(segment.name)
    begins, rest = divided(at.offset, first)
    if table is not None:
        if table.offset != first or begins != ZERO:
            raise Wrong(f"the table {table.base} of {at.base} does not begin at the first entry of its segment")
        return Moved(Pointer(at.base, rest), ZERO, table.base, step, inner)
    if begins != step:
        raise Wrong(f"{at.base} does not begin at the first entry of its segment")
    return Moved(Pointer(at.base, rest), step, "", ZERO, inner)


def of_kernel(
    walk: Walk, contract: Contract, operands: Sequence[tuple[str, Pointer]], bound_: Mapping[str, Any]
) -> Segmented | None:
    """What a microkernel adds up over a segment; None where it has none. `operands`: `a` and `b`, each with where its
    first element is for entry 0. Raises Unreadable, Wrong."""
    over = {k: bound_[f"extent{k}"] for k, e in enumerate(contract.extents) if e is None}
    over = {k: extent for k, extent in over.items() if isinstance(extent, Bounds)}
    if not over:
        return None
    entry, segment = next(iter(over.items()))
    tables = {(role, k) for role in "ab" for k, by in enumerate(_tables(contract, role)) if by}
    if len(over) > 1 or any(k != entry for _, k in tables) or contract.product or contract.step:
        raise Unreadable(f"{contract.name} goes through a segment in another way")
    inside = [k for k in range(len(contract.extents)) if k != entry]
    factors: list[Moved] = []
    for role, at in operands:
        if at.base not in walk.scop.arrays:
            raise Unreadable(f"{contract.name} goes through a segment of {at.base}")
        steps = contract.a_steps if role == "a" else contract.b_steps
        strides = [argument(step, f"{role}_stride{k}", bound_) for k, step in enumerate(steps)]
        table = bound_[f"{role}_table{entry}"] if (role, entry) in tables else None
        factors.append(_moved(at, table, strides[entry], segment, tuple(strides[k] for k in inside)))
    walk.program.trusted[TRUST] = None
    extents = tuple(argument(contract.extents[k], f"extent{k}", bound_) for k in inside)
    return Segmented(segment, extents, tuple(factors))


def _tables(contract: Contract, role: str) -> tuple[bool, ...]:
    return contract.a_tables if role == "a" else contract.b_tables


# What the original does


def of_target(scop: Scop, printed: Printed, statement: Statement) -> isl.Map | None:
    """{ T[i…] -> S[i…] } the instances of a sum over a segment that add to the printed target; None where it adds to
    another array."""
    target = next(n for n, access in enumerate(statement.accesses) if access.write)
    if printed.target is None or statement.accesses[target].array != printed.target.base:
        return None
    return address(scop, printed, printed.target).apply_range(linear(scop, statement, target).reverse())


def difference(scop: Scop, printed: Printed, statement: Statement, instances: isl.Map) -> str:
    """In what a printed sum over a segment is another one than a statement's; empty: in nothing. Raises Unreadable."""
    body = statement.body
    if not isinstance(body, BlackBox) or body.segment is None:
        return "what is added up"
    segment, adding = body.segment, body.segment.sum.body
    found, scale = _parts(printed.value)
    if found is None or not isinstance(adding, Assignment) or not adds(adding.op):
        return "what is added up"
    if printed.op != adding.op:
        return "what is done with the sum"
    target = next(n for n, access in enumerate(statement.accesses) if access.write)
    assert printed.target is not None
    wanted = instances.apply_range(linear(scop, statement, target))
    if printed.target.base != statement.accesses[target].array or not wanted.is_equal(
        address(scop, printed, printed.target)
    ):
        return "which element it is added to"
    if [_plain(found.bounds.first), _plain(found.bounds.last)] != [_plain(segment.first), _plain(segment.last)]:
        return f"the bounds {found.bounds.first}, {found.bounds.last}"
    if not all(same_name(scop, printed, body, instances, *one) for one in found.bounds.values):
        return "the segment"
    factors = (*found.factors, *(Moved(_place_of(one, None), ZERO, "", ZERO, ()) for one in scale))
    if {one.at.base for one in factors} & {printed.target.base}:
        raise Unreadable(f"line {printed.line}: a sum over a segment of elements of its own array")
    return _other_factors(scop, printed, statement, instances, found.extents, factors)


def _parts(value: Symbol) -> tuple[Segmented | None, tuple[Symbol, ...]]:
    """The sum, and what it is multiplied with."""
    if isinstance(value, Segmented):
        return value, ()
    if isinstance(value, Operation) and value.name == "*" and isinstance(value.operands[0], Segmented):
        return value.operands[0], value.operands[1:]
    return None, ()


def _plain(text: str) -> str:
    """A bound without parentheses and spaces that do not matter. Raises Unreadable."""
    try:
        tree = c_parser.CParser().parse(f"long bound = {text};")
    except c_parser.ParseError as error:
        raise Unreadable(f"the bound {text}") from error
    return _shown(tree)


def same_name(scop: Scop, printed: Printed, body: BlackBox, instances: isl.Map, name: str, value: Affine) -> bool:
    """Whether an integer that bounds mention has the value that it has in the original."""
    known = {text.rpartition(" ")[2]: function for text, function in body.locals}
    if name in known and (function := known[name]) is not None:
        return bool(value_map(printed, (value,)).is_equal(instances.apply_range(isl.Map.from_pw_aff(function))))
    if name in scop.sizes:
        return value == number(scop.sizes[name])
    return name in scop.parameters and value == parameter(name)


@dataclass(frozen=True, slots=True)
class _Elements:
    """A factor of what is added up."""

    array: str
    begin: isl.Map
    """{ T[i…] -> [element] } for entry 0, where tables hold 0, in the first iteration of the loops inside."""
    moved: tuple[object, ...]
    """Elements per entry; the table, and elements per number in it; elements per iteration of each loop inside."""

    def same(self, other: _Elements) -> bool:
        return (self.array, self.moved) == (other.array, other.moved) and bool(self.begin.is_equal(other.begin))


def _other_factors(
    scop: Scop,
    printed: Printed,
    statement: Statement,
    instances: isl.Map,
    extents: Sequence[Affine],
    factors: Sequence[Moved],
) -> str:
    """In what the elements that are multiplied, or the loops inside of the segment, are others than a statement's;
    empty: in nothing."""
    segment = _segment_of(statement)
    inner = segment.sum
    assert isinstance(inner.body, Assignment)
    deeper = inner.iterators[statement.depth + 1 + len(segment.tables) :]
    counts = [iterations(inner, name) for name in deeper]
    loops = [name for name, n in zip(deeper, counts, strict=True) if n != 1]
    kept = [k for k, extent in enumerate(extents) if extent != number(1)]
    if None in counts or [number(n or 0) for n in counts if n != 1] != [extents[k] for k in kept]:
        raise Unreadable(f"line {printed.line}: how often the loops inside of the segment of {statement.name} run")
    wanted: list[_Elements] = []
    for factor in product_factors(inner.body.value):
        if not isinstance(factor, Load):
            raise Unreadable(f"line {printed.line}: {statement.name} adds up more than products of its elements")
        begin = Access(inner.accesses[factor.access].array, False, first_element(statement, factor.access))
        first = linear(scop, replace(statement, accesses=(begin,)), 0)
        moved = _moved_by(scop, segment, inner.accesses[factor.access], loops)
        wanted.append(_Elements(begin.array, instances.apply_range(first), moved))
    own = [
        _Elements(
            one.at.base,
            address(scop, printed, one.at),
            (one.entry, one.table, one.by, *(one.inner[k] if one.inner else ZERO for k in kept)),
        )
        for one in factors
    ]
    if len(own) != len(wanted) or len(own) > _MOST_FACTORS:
        raise Unreadable(f"line {printed.line}: how many elements {statement.name} multiplies")
    same = any(all(map(_Elements.same, order, wanted)) for order in permutations(own))
    return "" if same else "which elements are multiplied"


def _moved_by(scop: Scop, segment: Segment, access: Access, loops: Sequence[str]) -> tuple[object, ...]:
    """See `_Elements.moved`. Raises Unreadable."""
    found = strides_of(scop, segment.sum, access)
    if found is None:
        raise Unreadable(f"how {access.array} moves along a segment")
    strides = {name: _affine(scop, stride) for name, stride in found.items()}
    tables = [(table, strides[name]) for name, table in segment.tables.items() if strides[name] != ZERO]
    if len(tables) > 1:
        raise Unreadable(f"two tables lead to an element of {access.array}")
    return strides[segment.entry], *(tables or [("", ZERO)])[0], *(strides[name] for name in loops)


def _segment_of(statement: Statement) -> Segment:
    body = statement.body
    assert isinstance(body, BlackBox) and body.segment is not None
    return body.segment


def _affine(scop: Scop, stride: Stride) -> Affine:
    """A distance in elements."""
    if isinstance(stride, int):
        return number(stride)
    array = scop.arrays[stride.array]
    total, inside = ZERO, number(1)
    for d in reversed(range(len(array.extents))):
        total = total.plus(inside.times(stride.moves[d]))
        if d > 0:
            inside = product(inside, known_extent(array, array.extents[d]))
    return total
