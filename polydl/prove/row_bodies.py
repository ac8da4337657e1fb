"""Shows that the bodies of rows, and of functions that state what they do, do it for so many columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from pycparser import c_ast, c_generator

from polydl.model.types import F32, spelled
from polydl.prove.bodies import Called
from polydl.prove.body_values import Read
from polydl.prove.contracts import Meant, meant_line
from polydl.prove.gathered_rows import RowLine, without_accumulators
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, affine, number
from polydl.prove.matching import same_literal
from polydl.prove.printed_program import Pointer
from polydl.prove.run_time_strides import strides_of
from polydl.prove.running import constant, opaque_arguments, runner
from polydl.prove.symbolic_values import Literal, Operation, Symbol, conversion, loads
from polydl.prove.syntax import counted, line_of, names_in
from polydl.prove.vector_lanes import value_of
from polydl.target.isa import Isa


def check_meaning(functions: Mapping[str, Any], meant: Meant, isa: Isa, lengths: tuple[int, ...]) -> None:
    """A function that is called for so many columns (iterations of the loops that are stated above it) stores in each
    of them once what is stated, and nothing else, and reads no elements that the loops there don't. Raises Wrong,
    Unreadable."""
    name = meant.name
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    _check_counted(definition, min(lengths))
    told = strides_of(functions, name)
    opaque = opaque_arguments(definition) | told
    counts = {p.name: number(n) for p, n in zip(definition.decl.type.args.params, lengths, strict=False)}
    sizes = [max(0, n) for n in lengths] if min(lengths) > 0 else [0] * len(lengths)

    def stated(at: Sequence[Affine]) -> RowLine:
        return meant_line(functions, meant, opaque, tuple(at), {})

    origin = [ZERO] * len(sizes)
    units = [[number(int(k == d)) for k in range(len(sizes))] for d in range(len(sizes))]
    start = stated(origin).target
    assert start is not None
    steps = [_constant_step(stated(unit).target, start) for unit in units]
    where = f"({isa.name}, {' x '.join(map(str, lengths))} columns)"
    answer, answers = 0, 1
    while answer < answers:
        running = runner(functions, isa)
        running.answer = answer
        running.run(name, opaque | counts)
        boxes: list[tuple[Places, ...]] = []
        for one in running.stored:
            if one.at.base != start.base:
                raise Wrong(f"{name} stores into {one.at.base} {where}")
            times = {counter: constant(often) for counter, often in one.around}
            at = _iteration(one.at.offset.plus(start.offset, -1), steps)
            if any(often > 1 and all(c not in dict(each.terms) for each in at) for c, often in times.items()):
                raise Unreadable(f"{name} has loops of another form")
            along = steps.index(1)
            for k, lane in enumerate(one.lanes):
                here = [each.plus(number(k if d == along else 0)) for d, each in enumerate(at)]
                line = stated(here)
                if line.op != "=" or line.target != Pointer(one.at.base, one.at.offset.plus(number(k))):
                    raise Unreadable(f"what is stated above {name}")
                found = value_of(lane)
                if not _same_value(found, line.value):
                    # The same elements may be made into the same value in another way.
                    error = Wrong if set(loads(found)) != set(loads(line.value)) else Unreadable
                    raise error(f"{name} stores something else in column {' '.join(map(str, here))} {where}")
            boxes.append(tuple(_places(a, times, len(one.lanes) if d == along else 1) for d, a in enumerate(at)))
        _check_once(boxes, sizes, name, where)
        reads = [loads(stated(point).value) for point in (origin, *units)]
        _check_reads(running.read, reads, sizes, name, where)
        answer, answers = answer + 1, max(answers, running.answers)


Places = tuple[int, ...]
"""Iterations of one loop, in rising order."""


def _constant_step(there: Pointer | None, start: Pointer) -> int:
    if there is None or there.base != start.base:
        raise Unreadable("a meaning that stores into several arrays")
    return constant(there.offset.plus(start.offset, -1))


def _iteration(offset: Affine, steps: Sequence[int]) -> list[Affine]:
    """In which iteration an element is that lies so far behind that of the first: the coefficients in a sum of the
    steps, of which each is more than all smaller ones can add up to. Raises Unreadable."""
    found = [ZERO] * len(steps)
    for d in sorted(range(len(steps)), key=lambda d: -steps[d]):
        if steps[d] <= 0:
            raise Unreadable("a function that counts downwards")
        own = number(offset.constant // steps[d])
        for counter, factor in offset.terms:
            own = own.plus(Affine(((counter, 1),)), factor // steps[d])
        found[d] = own
        offset = offset.plus(own, -steps[d])
    if offset != ZERO:
        raise Unreadable("an address of another form")
    return found


def _places(at: Affine, times: Mapping[str, int], lanes: int) -> Places:
    """The iterations of a loop that one store is of, over all iterations of the loops around it."""
    found = [at.constant + k for k in range(lanes)]
    for counter, apart in at.terms:
        if counter not in times:
            raise Unreadable("an address that depends on more than its loops")
        found = [place + k * apart for place in found for k in range(times[counter])]
        if len(found) > _MOST_PLACES:
            raise Unreadable("more columns than are looked at")
    return tuple(sorted(found))


_MOST_PLACES = 1 << 20


def _check_once(boxes: Sequence[tuple[Places, ...]], sizes: Sequence[int], name: str, where: str) -> None:
    """Each iteration is in one of the boxes, once. A box is the product of iterations of each loop: those that are in
    the same boxes stand for one another. Raises Wrong, Unreadable."""
    covered = np.ones((len(boxes),) + (1,) * len(sizes), dtype=np.int64)
    for d, size in enumerate(sizes):
        inside = np.zeros((len(boxes), size), dtype=np.int8)
        for k, box in enumerate(boxes):
            if box[d] and not 0 <= box[d][0] <= box[d][-1] < size:
                raise Wrong(f"{name} stores beyond its columns {where}")
            np.add.at(inside[k], list(box[d]), 1)
        if size:
            inside = np.unique(inside, axis=1)
        shape = [len(boxes)] + [1] * len(sizes)
        shape[d + 1] = inside.shape[1]
        covered = covered * inside.astype(np.int64).reshape(shape)
    if not boxes and min(sizes) > 0:
        raise Wrong(f"{name} stores nothing {where}")
    if boxes and not (covered.sum(axis=0) == 1).all():
        raise Wrong(f"{name} does not store in each column once {where}")


def _check_reads(
    read: Sequence[Read], wanted: Sequence[Sequence[Pointer]], sizes: Sequence[int], name: str, where: str
) -> None:
    """What is read is what some column reads. `wanted`: what the first column reads, then what its neighbour along each
    loop does, in the same order. Raises Wrong, Unreadable."""
    first, *others = wanted
    known = [(at, [_constant_step(other[k], at) for other in others]) for k, at in enumerate(first)]
    for one in read:
        times = dict(one.around)
        inside = False
        for at, steps in known:
            moving = [d for d, step in enumerate(steps) if step]
            if at.base != one.at.base:
                continue
            try:
                place = _iteration(one.at.offset.plus(at.offset, -1), [steps[d] for d in moving])
            except Unreadable:
                continue
            inside = inside or all(
                _within(each, times, one.count if steps[d] == 1 else 1, sizes[d])
                for d, each in zip(moving, place, strict=True)
            )
            if 1 not in steps and one.count > 1:
                inside = False
        if not inside:
            raise Wrong(f"{name} reads elements of {one.at.base} that are none of its columns' {where}")


def _within(at: Affine, times: Mapping[str, Affine], count: int, size: int) -> bool:
    ends = [at.constant, at.constant + count - 1]
    for counter, step in at.terms:
        ends[step > 0] += step * (constant(times[counter]) - 1)
    return ends[0] >= 0 and ends[1] < size


def _same_value(found: Symbol, wanted: Symbol) -> bool:
    """Whether two values are the same, literals of vectors and plain ones among them."""
    match found, wanted:
        case Operation(name, operands, call), Operation(other, others, also) if len(operands) == len(others):
            same = all(_same_value(x, y) for x, y in zip(operands, others, strict=True))
            return same and (name, call) == (other, also)
        case Literal(), Literal(text):
            return same_literal(found, text)
        case Literal(vector=True), Operation(name, (Literal(text),)) if name == conversion(F32.name):
            return same_literal(found, text)
        case _:
            return found == wanted


def check_row(functions: Mapping[str, Any], name: str, isa: Isa, length: int) -> None:
    """A row that is called for so many columns runs its step for each of them once, in their order. Raises Wrong,
    Unreadable."""
    definition, step = functions.get(name), functions.get(f"{name}_step")
    if definition is None or step is None:
        raise Unreadable(f"the function {name} cannot be read")
    _check_counted(definition, length)
    running = runner(functions, isa, "_step")
    # What becomes of sums and extremes at the end is read elsewhere (`calls.row_step`).
    arguments = opaque_arguments(definition) | {"n": number(length)}
    running.run(name, arguments, without_accumulators(definition.body))
    kind = next(p.type.type.names[0] for p in step.decl.type.args.params if p.name == "part").rpartition("_")[0]
    lanes = running.lanes[kind.rpartition("_")[2]]
    gathered = [p.name for p in step.decl.type.args.params if re.fullmatch(r"polydl\d*_acc\d+", p.name)]
    done = 0
    for calls in _loops(running.called):
        starts = [_columns(call, name) for call in calls]
        first, distance, times = starts[0]
        together = lanes * len(calls)
        even = all(at == (first + k * lanes, distance, times) for k, at in enumerate(starts))
        if first != done or not even or (times > 1 and distance != together):
            raise Wrong(f"{name} does not run its step for column {done} ({isa.name}, {length} columns)")
        _check_apart(calls, gathered, name)
        part = constant(calls[0].arguments["part"]) if constant(calls[0].arguments["cut"]) else together * times
        if constant(calls[0].arguments["cut"]) and part > lanes:
            raise Wrong(f"{name} runs its step for {part} columns at once ({isa.name}, {length} columns)")
        done += part
    if done != max(0, length):
        raise Wrong(f"{name} runs its step for {done} columns, not {length} ({isa.name})")


def standing_for_all(functions: Mapping[str, Any], name: str) -> list[int]:
    """Numbers of columns for which a row, where its step runs right for them, does so for any number: its loops take
    fewer columns each, and begin, go on and end by nothing but how many are left. Raises Unreadable for a row of
    another form.

    Whatever the number, each loop starts with less than the one before takes: the most columns that it is left with,
    and twice what the first one takes, have each loop run as often as it ever does, as far as that matters; and less
    than the last one takes is left to the end.
    """
    definition = functions.get(name)
    if definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    columns = str(definition.decl.type.args.params[0].name)
    items = without_accumulators(definition.body).block_items or []
    if len(items) < 3:
        raise Unreadable(f"{name} has loops of another form")
    begin, *loops, end = items
    taken = [_taken(one, columns) for one in loops]
    ends = isinstance(end, c_ast.If) and end.iffalse is None and _shown(end.cond) == f"{_COLUMN} < {columns}"
    starts = isinstance(begin, c_ast.Decl) and begin.name == _COLUMN and _shown(begin.init) == "0"
    if (
        not (starts and ends and _calls(end.iftrue))
        or taken != sorted(taken, reverse=True)
        or not _only_left(end.iftrue, columns)
    ):
        raise Unreadable(f"{name} has loops of another form")
    most = 3 * taken[0] - 1
    return sorted({-1, most, *range(taken[-1] + 1), *(n - 1 for n in taken), *(2 * n for n in taken)})


_COLUMN = "j"
"""What counts the columns of a row."""


def _taken(item: Any, columns: str) -> int:
    """How many columns each iteration of `for (; j + 8 <= n; j += 8) …` takes. Raises Unreadable."""
    if isinstance(item, c_ast.For) and item.init is None and _calls(item.stmt) and columns not in names_in(item.stmt):
        step = counted(item.next) if isinstance(item.next, c_ast.Assignment) else None
        if step is not None and step[0] == _COLUMN and step[1] > 0:
            match item.cond:
                case c_ast.BinaryOp(
                    op="<=",
                    left=c_ast.BinaryOp(op="+", left=c_ast.ID(name="j"), right=more),
                    right=c_ast.ID(name=name),
                ) if name == columns and affine(more, {}) == number(step[1]):
                    return step[1]
    raise Unreadable(f"line {line_of(item)}: a loop of another form")


def _calls(node: Any) -> bool:
    """Whether it is a call, or several."""
    if isinstance(node, c_ast.Compound):
        return all(map(_calls, node.block_items or []))
    return isinstance(node, c_ast.FuncCall)


def _only_left(node: Any, columns: str) -> bool:
    """Whether the number of columns stands nowhere but in how many are left."""
    if isinstance(node, c_ast.BinaryOp) and _shown(node) == f"{columns} - {_COLUMN}":
        return True
    own = isinstance(node, c_ast.ID) and node.name == columns
    return not own and all(_only_left(child, columns) for _, child in node.children())


def _shown(node: Any) -> str:
    return str(c_generator.CGenerator().visit(node)) if node is not None else ""


def _check_counted(definition: Any, length: int) -> None:
    """A number of columns below zero is none: it is not taken for a large one. Raises Unreadable."""
    kind = definition.decl.type.args.params[0].type
    element = None
    if isinstance(kind, c_ast.TypeDecl) and isinstance(kind.type, c_ast.IdentifierType):
        element = spelled(" ".join(kind.type.names))
    if length < 0 and (element is None or not element.is_int or element.unsigned):
        raise Unreadable("the number of columns has a type without negative values")


def _loops(called: Sequence[Called]) -> Iterator[Sequence[Called]]:
    """The calls in the body of each loop, and each call outside of loops."""
    for around, group in groupby(called, key=lambda call: call.around):
        calls = list(group)
        yield from [calls] if around else [[call] for call in calls]


def _check_apart(calls: Sequence[Called], gathered: Sequence[str], name: str) -> None:
    """The calls of one body gather in accumulators of their own, each call in those of one number."""
    for parameter in gathered:
        wanted = [f"&{parameter}{f'_{k}' if k else ''}" for k in range(len(calls))]
        given = [call.arguments[parameter] for call in calls]
        if [at.base if isinstance(at, Pointer) else None for at in given] != wanted:
            raise Unreadable(f"{name} gathers in other places than {parameter}")


def _columns(call: Called, name: str) -> tuple[int, int, int]:
    """First column of a call, how far the next one is, and how many there are."""
    column = call.arguments["polydl_column"]
    if not isinstance(column, Affine) or len(call.around) > 1:
        raise Unreadable(f"{name} has loops of another form")
    if not call.around:
        return constant(column), 0, 1
    ((counter, times),) = call.around
    distances = dict(column.terms)
    if set(distances) != {counter} or constant(call.arguments["cut"]):
        raise Unreadable(f"{name} has loops of another form")
    return column.constant, distances[counter], constant(times)
