"""Shows that the bodies of microkernels and packing functions do what is said of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from polydl.prove.bodies import Called, Stored
from polydl.prove.contracts import Contract, PackContract
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, number
from polydl.prove.printed_program import Pointer
from polydl.prove.run_time_strides import pack_with_strides, with_strides
from polydl.prove.running import constant, opaque_arguments, runner
from polydl.prove.symbolic_values import Load, Operation
from polydl.prove.vector_lanes import Counters, Lane, Product, Stepped
from polydl.target.isa import Isa

MOST_PRODUCTS = 200_000
"""Products of one element that are compared one by one, where the loops over them have another form."""

_COUNTER = re.compile(rf"1\*(\w+) \+ {re.escape(str(ZERO))}")
_LARGEST = 4096
"""Bits of the largest address, with numbers for strides that are told (`with_strides`)."""

Loop = tuple[str, int, int]
"""How often it runs, and by how many elements it moves the first and the second address."""
Term = tuple[int, int, tuple[Loop, ...]]
"""First addresses, and the loops over them."""


def check_kernel(functions: Mapping[str, Any], contract: Contract, isa: Isa, m: int, n: int) -> None:
    """A kernel that is called for m rows and n columns hands the sum of each of their elements to its `_finish`, once,
    and nothing else. Raises Wrong, Unreadable."""
    name = contract.name
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    contract, strides = with_strides(functions, contract)
    assert contract.c_row is not None
    arguments = opaque_arguments(definition) | {"m": number(m), "n": number(n)} | strides
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
            if (row is not None and where != (row, column)) or not _is(lane, contract, where, sums[where]):
                raise Wrong(f"{name} stores another sum in row {where[0]}, column {where[1]} ({isa.name}, {m} x {n})")
    if left:
        raise Wrong(f"{name} leaves out row {min(left.values())[0]} ({isa.name}, {m} x {n})")


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
    i, v, cut = (constant(given[name]) for name in ("i", "v", "cut"))
    at = given["C"]
    assert contract.c_row is not None
    if at.base != "C" or at.offset.terms:
        raise Unreadable(f"{contract.name} stores to an address of another form")
    lanes = given["sum"]
    for lane in range(constant(given["part"]) if cut else len(lanes)):
        along = v * len(lanes) + lane
        row = constant(given["row0"]) + i if "row0" in given else None
        column = constant(given["column0"]) + along if "column0" in given else None
        yield at.offset.constant + i * contract.c_row + along, row, column, lanes[lane]


def _loops(contract: Contract) -> list[Loop]:
    """The reductions, outermost first."""
    found: list[Loop] = []
    for k, extent in enumerate(contract.extents):
        times = number(extent) if extent is not None else Affine(((f"extent{k}", 1),))
        a, b = contract.a_steps[k] or 0, contract.b_steps[k] or 0
        a *= _of_table(f"a_table{k}") if contract.a_tables[k] else 1
        b *= _of_table(f"b_table{k}") if contract.b_tables[k] else 1
        found.append((str(times), a, b))
    return found


def _of_table(name: str) -> int:
    """A number in place of what a table holds in an iteration, over that of the iteration: larger than any address, and
    another one for each table."""
    return 1 << (_LARGEST * (2 * int(name[len("a_table") :]) + 1 + (name[0] == "b")))


def _first(contract: Contract, row: int, column: int) -> tuple[int, int]:
    """Where the first elements of A and B are that an element of C is made of."""
    assert contract.a_row is not None
    return row * contract.a_row + column * contract.window, 0 if contract.scalar_b else column


def _expected(contract: Contract, row: int, column: int) -> Term | None:
    return _canonical(*_first(contract, row, column), _loops(contract))


def _is(lane: Lane, contract: Contract, where: tuple[int, int], wanted: Term | None) -> bool:
    """Whether a lane holds what it has to in a row and a column."""
    if not contract.step:
        return _same(lane, wanted)
    start, products = (lane.start, lane.products) if isinstance(lane, Stepped) else (lane, ())
    assert contract.c_row is not None
    own: Lane = Load(Pointer("C", number(where[0] * contract.c_row + where[1])))
    if start != (own if contract.step == "C" else Operation(f"{contract.name}_start", ())):
        return False
    found = [(*_addresses(p), _in_order(_loops_of(p))) for p in products]
    every = [(*_first(contract, *where), _in_order(_loops(contract)))]
    return found == every or list(_one_by_one(found)) == list(_one_by_one(every))


def _in_order(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Loops without those that run once."""
    return tuple(loop for loop in loops if loop[0] != str(number(1)))


def _one_by_one(terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
    """Every product, by its addresses, in the order in which loops run. Raises Unreadable for more than can be looked
    at."""
    counts = [[_known(times) for times, _, _ in loops] for _, _, loops in terms]
    if sum(math.prod(MOST_PRODUCTS + 1 if c is None else c for c in one) for one in counts) > MOST_PRODUCTS:
        raise Unreadable("too many elements of another order than stated to compare one by one")
    for (a, b, loops), several in zip(terms, counts, strict=True):
        for at in product(*(range(c or 0) for c in several)):
            x = a + sum(i * step for i, (_, step, _) in zip(at, loops, strict=True))
            yield x, b + sum(i * step for i, (_, _, step) in zip(at, loops, strict=True))


def _same(lane: Lane, wanted: Term | None) -> bool:
    """Whether a lane holds the sum."""
    if not isinstance(lane, tuple):
        return False
    terms = [t for t in map(_term, lane) if t is not None]
    if terms == ([wanted] if wanted is not None else []):
        return True
    if _by_tables(terms) != _by_tables([wanted] if wanted is not None else []):
        return False
    together = _together(terms)
    if together is not None and together == wanted:
        return True
    return _products(terms) == _products([wanted] if wanted is not None else [])


def _by_tables(terms: Sequence[Term]) -> set[tuple[int, int]]:
    """Which tables move the first and the second address, and by how many elements per number."""
    steps = {(a >> _LARGEST, b >> _LARGEST) for _, _, loops in terms for _, a, b in loops}
    return {(a, b) for a, b in steps if a > 0 or b > 0}


def _term(term: Product) -> Term | None:
    return _canonical(*_addresses(term), _loops_of(term))


def _addresses(term: Product) -> tuple[int, int]:
    """Of the first elements of A and of B. Raises Wrong, Unreadable."""
    a, b = _of_both(term)
    along = {name for name, _ in term.over}
    moved = [name for name, _ in (*a.offset.terms, *b.offset.terms)]
    if any("[" in name and _counter_of(name) not in along for name in moved):
        raise Wrong("an address by another element of a table than that of the iteration")
    if any(_counter_of(name) not in along for name in moved):
        raise Unreadable("an address that depends on more than its loops")
    return a.offset.constant, b.offset.constant


def _loops_of(term: Product) -> list[Loop]:
    a, b = _of_both(term)

    def step(at: Pointer, loop: str) -> int:
        terms = [(name, n) for name, n in at.offset.terms if _counter_of(name) == loop]
        return sum(n * _of_table(name.partition("[")[0]) if "[" in name else n for name, n in terms)

    return [(str(times), step(a, name), step(b, name)) for name, times in term.over]


def _counter_of(term: str) -> str:
    """The counter that a term of an address is, or whose number subscripts a table; empty for others."""
    if "[" not in term:
        return term
    inner = term.partition("[")[2].removesuffix("]")
    found = _COUNTER.fullmatch(inner)
    return found.group(1) if found is not None else ""


def _of_both(term: Product) -> tuple[Pointer, Pointer]:
    a, b = term.left, term.right
    if (a.base, b.base) == ("B", "A"):
        a, b = b, a
    if (a.base, b.base) != ("A", "B"):
        raise Wrong(f"a product of {a.base} and {b.base} in a kernel")
    return a, b


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
    return Counter(_one_by_one(terms))


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
    contract, told = pack_with_strides(functions, contract)
    arguments = opaque_arguments(definition) | {"width": number(width)} | told
    arguments |= {f"extent{k}": number(e) for k, e in enumerate(extents) if f"extent{k}" in arguments}
    running = runner(functions, isa)
    running.run(name, arguments)
    copies = Counter(_copies(running.stored, name))
    wanted = list(_wanted(contract, width, extents))
    moving = [stride or 0 for extent, stride in zip(extents, contract.strides, strict=True) if extent > 1]
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
    assert contract.width_stride is not None
    steps = 1
    for extent in extents:
        steps *= extent
    for w in range(width):
        panel, inside = divmod(w, contract.block)
        to = panel * steps * contract.block + inside
        loops: list[Loop] = []
        distance = contract.block
        for extent, stride in zip(reversed(extents), reversed(contract.strides), strict=True):
            loops.insert(0, (str(number(extent)), distance, stride or 0))
            distance *= extent
        found = _canonical(to, w * contract.width_stride, loops)
        if found is not None:
            yield found
