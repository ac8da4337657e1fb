"""Shows that the bodies of generated kernels and packing functions do what is said of them: in every instruction set,
for the very sizes that they are called with. What is left to trust are the vector operations of the prologue, each of
which is one instruction or a few, and has tests of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pycparser import c_ast

from polydl.model.types import spelled
from polydl.prove.bodies import Called, Runner, Stored
from polydl.prove.body_values import Read
from polydl.prove.calls import Contract, Meant, PackContract, RowLine, meant_line
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, number
from polydl.prove.lanes import Counters, Lane, Product, value_of
from polydl.prove.matching import same_literal
from polydl.prove.program import MOST_SIZES, Pointer, Program
from polydl.prove.symbols import Literal, Load, Operation, Symbol, loads
from polydl.target.isa import ISAS, VECTOR_TYPES, Isa

MOST_PRODUCTS = 200_000
"""Products of one element that are compared one by one, where the loops over them have another form."""

Loop = tuple[str, int, int]
"""How often it runs, and by how many elements it moves the first and the second address."""
Term = tuple[int, int, tuple[Loop, ...]]
"""First addresses, and the loops over them."""


def runner(functions: Mapping[str, Any], isa: Isa, closed: str = "") -> Runner:
    """What runs the functions of a file that was read for an instruction set."""
    lanes = {t.name: isa.lanes(t) for t in VECTOR_TYPES}
    return Runner(functions, lanes, {t.name: t.bytes for t in VECTOR_TYPES}, closed=closed)


def check_bodies(program: Program, functions_of: Callable[[Isa], Mapping[str, Any]]) -> list[str]:
    """Read the bodies of all generated functions that a program calls, and say what is shown. What cannot be shown goes
    to `program.trusted`; of a function that states its meaning in C, nothing is trusted. Raises Wrong, Unreadable."""
    if not program.uses:
        return []
    unread: dict[str, str] = {}
    for isa in ISAS:
        functions = functions_of(isa)
        for function, sizes in program.uses.items():
            try:
                if sizes is None:
                    raise Unreadable(f"it is called with more than {MOST_SIZES} sizes")
                for size in sorted(sizes):
                    _check(functions, function, isa, size)
            except Unreadable as error:
                if isinstance(function, Meant):
                    raise
                unread.setdefault(_said(function), str(error))
    for said, reason in unread.items():
        program.trusted[f"{said} (not read: {reason})"] = None
    read = len(program.uses) - len(unread)
    bodies = "the body of the generated function does" if read == 1 else f"the bodies of {read} generated functions do"
    return [f"{bodies} what is said above {'it' if read == 1 else 'them'}, in every instruction set"] if read else []


def _check(functions: Mapping[str, Any], function: Any, isa: Isa, size: tuple[int, ...]) -> None:
    if isinstance(function, Contract):
        check_kernel(functions, function, isa, *size)
    elif isinstance(function, PackContract):
        check_pack(functions, function, isa, size[0], size[1:])
    elif isinstance(function, Meant):
        check_meaning(functions, function, isa, *size)
    else:
        check_row(functions, function, isa, *size)


def _said(function: Any) -> str:
    if isinstance(function, str):
        return f"{function} runs its step once for each of its columns"
    if isinstance(function, Meant):
        return f"{function.name} does what is stated above it"
    return f"{function.name} {'computes' if isinstance(function, Contract) else 'copies'} {function.text}"


def check_kernel(functions: Mapping[str, Any], contract: Contract, isa: Isa, m: int, n: int) -> None:
    """A kernel that is called for m rows and n columns hands the sum of each of their elements to its `_finish`, once,
    and nothing else. Raises Wrong, Unreadable."""
    name = contract.name
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    arguments = _opaque(definition) | {"m": number(m), "n": number(n)}
    running = runner(functions, isa, "_finish")
    running.run(name, arguments)
    if running.stored:
        raise Wrong(f"{name} stores beside its block")
    left = {(row * contract.c_row + column): (row, column) for row in range(m) for column in range(n)}
    if len(left) != m * n:
        raise Unreadable(f"{name} has rows that overlap")
    sums = {(row, column): _expected(contract, row, column) for row, column in left.values()}
    for call in running.called:
        for offset, row, column, lane in _finished(call, contract, arguments):
            where = left.pop(offset, None)
            if where is None:
                raise Wrong(f"{name} stores element {offset} of C twice, or beside its block ({isa.name}, {m} x {n})")
            if (row is not None and where != (row, column)) or not _same(lane, sums[where]):
                raise Wrong(f"{name} stores another sum in row {where[0]}, column {where[1]} ({isa.name}, {m} x {n})")
    if left:
        raise Wrong(f"{name} leaves out row {min(left.values())[0]} ({isa.name}, {m} x {n})")


def _opaque(definition: Any) -> dict[str, Any]:
    """A value for each parameter: an address, an integer, an element."""
    found: dict[str, Any] = {}
    for parameter in definition.decl.type.args.params:
        name, kind = parameter.name, parameter.type
        if isinstance(kind, c_ast.PtrDecl):
            found[name] = Pointer(name, ZERO)
        else:
            element = spelled(" ".join(kind.type.names))
            whole = element is not None and element.is_int
            found[name] = Affine(((name, 1),)) if whole else Load(Pointer(name, ZERO))
    return found


def _finished(
    call: Called, contract: Contract, passed: Mapping[str, Any]
) -> Iterator[tuple[int, int | None, int | None, Lane]]:
    """(element of C, row, column, sum) of each lane that is stored; row and column where the call says them."""
    if call.around:
        raise Unreadable(f"{contract.name} finishes a sum in a loop over them")
    given = call.arguments
    for name, value in passed.items():
        if name in given and name not in ("A", "B", "C") and given[name] != value:
            raise Wrong(f"{contract.name} passes on another {name}")
    i, v, cut = (_constant(given[name]) for name in ("i", "v", "cut"))
    at = given["C"]
    if at.base != "C" or at.offset.terms:
        raise Unreadable(f"{contract.name} stores to an address of another form")
    lanes = given["sum"]
    for lane in range(_constant(given["part"]) if cut else len(lanes)):
        along = v * len(lanes) + lane
        row = _constant(given["row0"]) + i if "row0" in given else None
        column = _constant(given["column0"]) + along if "column0" in given else None
        yield at.offset.constant + i * contract.c_row + along, row, column, lanes[lane]


def _constant(value: Any) -> int:
    if not isinstance(value, Affine) or value.terms:
        raise Unreadable("a number that is not known before the program runs")
    return value.constant


# Sums


def _expected(contract: Contract, row: int, column: int) -> Term | None:
    loops = [
        (str(number(extent) if extent is not None else Affine(((f"extent{k}", 1),))), a, b)
        for k, (extent, a, b) in enumerate(zip(contract.extents, contract.a_steps, contract.b_steps, strict=True))
    ]
    return _canonical(row * contract.a_row, column, loops)


def _same(lane: Lane, wanted: Term | None) -> bool:
    """Whether a lane holds the sum."""
    if not isinstance(lane, tuple):
        return False
    terms = [t for t in map(_term, lane) if t is not None]
    if terms == ([wanted] if wanted is not None else []):
        return True
    together = _together(terms)
    if together is not None and together == wanted:
        return True
    return _products(terms) == _products([wanted] if wanted is not None else [])


def _term(term: Product) -> Term | None:
    a, b = term.left, term.right
    if (a.base, b.base) == ("B", "A"):
        a, b = b, a
    if (a.base, b.base) != ("A", "B"):
        raise Wrong(f"a product of {a.base} and {b.base} in a kernel")
    along = {name for name, _ in term.over}
    if {name for name, _ in (*a.offset.terms, *b.offset.terms)} - along:
        raise Unreadable("an address that depends on more than its loops")
    steps_a, steps_b = dict(a.offset.terms), dict(b.offset.terms)
    loops = [(str(times), steps_a.get(name, 0), steps_b.get(name, 0)) for name, times in term.over]
    return _canonical(a.offset.constant, b.offset.constant, loops)


def _canonical(a: int, b: int, loops: Sequence[Loop]) -> Term | None:
    """The loops in one order, those that run once left out, those that go on where another ends made one; None where
    one never runs. The order of the products is no matter, since reassociating them is noted elsewhere."""
    left = [loop for loop in loops if loop[0] != str(number(1))]
    if any(loop[0] == str(ZERO) for loop in left):
        return None
    joined = True
    while joined:
        joined = False
        for outer, inner in product(left, left):
            count, more = _known(inner[0]), _known(outer[0])
            if outer is inner or count is None or more is None:
                continue
            if outer[1:] == (count * inner[1], count * inner[2]):
                left.remove(outer)
                left[left.index(inner)] = (str(number(count * more)), *inner[1:])
                joined = True
                break
    return a, b, tuple(sorted(left))


def _known(times: str) -> int | None:
    return int(times[1:-1]) if times.startswith("(") else None


def _together(terms: Sequence[Term]) -> Term | None:
    """One sum in place of k that take every k-th of its products; None where they are no such sums."""
    ordered = sorted(terms)
    if len(ordered) < 2 or len({loops for _, _, loops in ordered}) != 1:
        return None
    k, (a, b, loops) = len(ordered), ordered[0]
    step = ordered[1][0] - a, ordered[1][1] - b
    if any((x, y) != (a + i * step[0], b + i * step[1]) for i, (x, y, _) in enumerate(ordered)):
        return None
    for loop in loops:
        count = _known(loop[0])
        if count is not None and loop[1:] == (k * step[0], k * step[1]):
            rest = [other for other in loops if other is not loop]
            return _canonical(a, b, [*rest, (str(number(k * count)), *step)])
    return None


def _products(terms: Sequence[Term]) -> Counter[tuple[int, int]]:
    """Every product, by its addresses. Raises Unreadable for more than can be looked at."""
    found: Counter[tuple[int, int]] = Counter()
    left = MOST_PRODUCTS
    for a, b, loops in terms:
        counts = [_known(times) for times, _, _ in loops]
        left -= math.prod(MOST_PRODUCTS + 1 if count is None else count for count in counts)
        if left < 0:
            raise Unreadable("too many elements of another order than stated to compare one by one")
        for at in product(*(range(count or 0) for count in counts)):
            x = a + sum(i * step for i, (_, step, _) in zip(at, loops, strict=True))
            y = b + sum(i * step for i, (_, _, step) in zip(at, loops, strict=True))
            found[x, y] += 1
    return found


# Copies


def check_pack(
    functions: Mapping[str, Any], contract: PackContract, isa: Isa, width: int, extents: Sequence[int]
) -> None:
    """A packing function that is called for so many elements of width and so many steps copies each to where it is said
    to go, and stores nothing but zeros beside that. Raises Wrong, Unreadable."""
    name = contract.name
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    arguments = _opaque(definition) | {"width": number(width)}
    arguments |= {f"extent{k}": number(e) for k, e in enumerate(extents) if f"extent{k}" in arguments}
    running = runner(functions, isa)
    running.run(name, arguments)
    copies = Counter(_copies(running.stored, name))
    wanted = list(_wanted(contract, width, extents))
    moving = [stride for extent, stride in zip(extents, contract.strides, strict=True) if extent > 1]
    if moving and copies != Counter(wanted):
        copies = Counter(_merged(list(copies.elements()), (contract.block, moving[-1])))
    if copies != Counter(wanted) and _products(list(copies.elements())) != _products(wanted):
        raise Wrong(f"{name} copies other elements than stated ({isa.name}, {width} wide)")


def _copies(stored: Sequence[Stored], name: str) -> Iterator[Term]:
    """(to, from, loops) of each element that is copied; that of zeros to the end of a panel is left out."""
    for one in stored:
        if one.at.base != "packed":
            raise Wrong(f"{name} stores into {one.at.base}")
        for k, lane in enumerate(one.lanes):
            if lane == ():
                continue
            if not isinstance(lane, Load) or lane.at.base != "source":
                raise Wrong(f"{name} stores something else than an element of its source")
            to, source = dict(one.at.offset.terms), dict(lane.at.offset.terms)
            loops = [(str(times), to.get(n, 0), source.get(n, 0)) for n, times in one.around]
            _bound(one.around, to, source)
            found = _canonical(one.at.offset.constant + k, lane.at.offset.constant, loops)
            if found is not None:
                yield found


def _merged(terms: Sequence[Term], step: tuple[int, int]) -> Iterator[Term]:
    """The same copies, those that lie `step` apart as a loop over them: k that continue each other while a loop goes on
    where they end, as vectors that are transposed k at a time, and what is left at the end of such a loop."""
    rows: dict[tuple[Loop, ...], list[tuple[int, int]]] = {}
    for to, source, loops in terms:
        rows.setdefault(loops, []).append((to, source))
    pieces: dict[tuple[Loop, ...], list[tuple[int, int, int]]] = {}
    for loops, starts in rows.items():
        for to, source, count in _chains([(*start, 1) for start in starts], step):
            longer = next((loop for loop in loops if loop[1:] == (count * step[0], count * step[1])), None)
            times = _known(longer[0]) if longer is not None else None
            if longer is not None and times is not None:
                rest = tuple(loop for loop in loops if loop is not longer)
                pieces.setdefault(rest, []).append((to, source, count * times))
            else:
                pieces.setdefault(loops, []).append((to, source, count))
    for loops, parts in pieces.items():
        for to, source, count in _chains(parts, step):
            found = _canonical(to, source, [*loops, (str(number(count)), *step)])
            if found is not None:
                yield found


def _chains(parts: Sequence[tuple[int, int, int]], step: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """(to, from, how many) with those that begin where another ends put together."""
    starts = {(to, source): count for to, source, count in parts}
    if len(starts) != len(parts):
        yield from parts
        return
    for to, source in sorted(starts):
        count = starts.pop((to, source), None)
        while count is not None:
            more = starts.pop((to + count * step[0], source + count * step[1]), None)
            if more is None:
                yield to, source, count
                break
            count += more


def _bound(around: Counters, *terms: Mapping[str, int]) -> None:
    if {name for each in terms for name in each} - {name for name, _ in around}:
        raise Unreadable("an address that depends on more than its loops")


def _wanted(contract: PackContract, width: int, extents: Sequence[int]) -> Iterator[Term]:
    steps = 1
    for extent in extents:
        steps *= extent
    for w in range(width):
        panel, inside = divmod(w, contract.block)
        to = panel * steps * contract.block + inside
        loops: list[Loop] = []
        distance = contract.block
        for extent, stride in zip(reversed(extents), reversed(contract.strides), strict=True):
            loops.insert(0, (str(number(extent)), distance, stride))
            distance *= extent
        found = _canonical(to, w * contract.width_stride, loops)
        if found is not None:
            yield found


# Rows


def check_meaning(functions: Mapping[str, Any], meant: Meant, isa: Isa, length: int) -> None:
    """A function that is called for so many columns stores in each of them once what is stated above it, and nothing
    else, and reads no elements that the loops there don't. Raises Wrong, Unreadable."""
    name = meant.name
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    opaque = _opaque(definition)
    running = runner(functions, isa)
    running.run(name, opaque | {definition.decl.type.args.params[0].name: number(length)})

    def stated(column: Affine) -> RowLine:
        return meant_line(functions, meant, opaque, column, {})

    start = stated(ZERO).target
    assert start is not None
    where = f"({isa.name}, {length} columns)"
    columns: list[tuple[int, int]] = []
    for one in running.stored:
        if one.at.base != start.base:
            raise Wrong(f"{name} stores into {one.at.base} {where}")
        first = one.at.offset.plus(start.offset, -1)
        times = _constant(one.around[0][1]) if one.around else 1
        distances = dict(first.terms)
        counters = {name: len(one.lanes) for name, _ in one.around}
        if len(counters) > 1 or distances not in ([counters] if times > 1 else [{}, counters]):
            raise Unreadable(f"{name} has loops of another form")
        for k, lane in enumerate(one.lanes):
            line = stated(first.plus(number(k)))
            if line.op != "=" or line.target != Pointer(one.at.base, one.at.offset.plus(number(k))):
                raise Unreadable(f"what is stated above {name}")
            found = value_of(lane)
            if not _same_value(found, line.value):
                # The same elements may be made into the same value in another way.
                error = Wrong if set(loads(found)) != set(loads(line.value)) else Unreadable
                raise error(f"{name} stores something else in column {first.constant + k} {where}")
        columns.append((first.constant, first.constant + times * len(one.lanes)))
    done = 0
    for begin, end in sorted(columns):
        if begin != done:
            raise Wrong(f"{name} does not store in column {done} once {where}")
        done = end
    if done != length:
        raise Wrong(f"{name} stores in {done} columns, not {length} {where}")
    ends = [at for column in (0, length - 1) for at in loads(stated(number(column)).value)]
    _check_reads(running.read, ends if length else [], name, length)


def _check_reads(read: Sequence[Read], wanted: Sequence[Pointer], name: str, length: int) -> None:
    """What is read lies between what the first and the last of so many columns read."""
    known: dict[str, list[int]] = {}
    for at in wanted:
        known.setdefault(at.base, []).append(at.offset.constant)
    for one in read:
        times = dict(one.around)
        ends = [one.at.offset.constant, one.at.offset.constant]
        for counter, step in one.at.offset.terms:
            if counter not in times:
                raise Unreadable(f"{name} reads from an address of another form")
            ends[step > 0] += step * (_constant(times[counter]) - 1)
        own = known.get(one.at.base, [])
        if not own or ends[0] < min(own) or ends[1] + one.count > max(own) + 1:
            raise Wrong(f"{name} reads elements of {one.at.base} that are none of its columns' ({length} columns)")


def _same_value(found: Symbol, wanted: Symbol) -> bool:
    """Whether two values are the same, literals of vectors and plain ones among them."""
    match found, wanted:
        case Operation(name, operands, call), Operation(other, others, also) if len(operands) == len(others):
            same = all(_same_value(x, y) for x, y in zip(operands, others, strict=True))
            return same and (name, call) == (other, also)
        case Literal(), Literal(text):
            return same_literal(found, text)
        case _:
            return found == wanted


def check_row(functions: Mapping[str, Any], name: str, isa: Isa, length: int) -> None:
    """A row that is called for so many columns runs its step for each of them once, in their order. Raises Wrong,
    Unreadable."""
    definition, step = functions.get(name), functions.get(f"{name}_step")
    if definition is None or step is None:
        raise Unreadable(f"the function {name} cannot be read")
    running = runner(functions, isa, "_step")
    # What becomes of sums and extremes at the end is read elsewhere (`calls.row_step`).
    items = [i for i in definition.body.block_items if not _accumulates(i)]
    arguments = _opaque(definition) | {"n": number(length)}
    running.run(name, arguments, c_ast.Compound(items))
    kind = next(p.type.type.names[0] for p in step.decl.type.args.params if p.name == "part").rpartition("_")[0]
    lanes = running.lanes[kind.rpartition("_")[2]]
    done = 0
    for call in running.called:
        first, distance, times = _columns(call, lanes, name)
        if first != done or (times > 1 and distance != lanes):
            raise Wrong(f"{name} does not run its step for column {done} ({isa.name}, {length} columns)")
        cut = _constant(call.arguments["cut"])
        done += _constant(call.arguments["part"]) if cut else lanes * times
    if done != length:
        raise Wrong(f"{name} runs its step for {done} columns, not {length} ({isa.name})")


def _accumulates(item: Any) -> bool:
    """Whether a statement of a row is about an accumulator."""
    if isinstance(item, c_ast.Decl):
        return "acc" in item.name
    return isinstance(item, c_ast.Assignment)


def _columns(call: Called, lanes: int, name: str) -> tuple[int, int, int]:
    """First column of a call, how far the next one is, and how many there are."""
    column = call.arguments["polydl_column"]
    if not isinstance(column, Affine) or len(call.around) > 1:
        raise Unreadable(f"{name} has loops of another form")
    if not call.around:
        return _constant(column), lanes, 1
    ((counter, times),) = call.around
    distances = dict(column.terms)
    if set(distances) != {counter} or _constant(call.arguments["cut"]):
        raise Unreadable(f"{name} has loops of another form")
    return column.constant, distances[counter], _constant(times)
