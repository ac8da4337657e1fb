"""Reads calls in printed code: of microkernels, of copies into packed memory, of functions of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from polydl.model.types import spelled
from polydl.prove import printed_segments
from polydl.prove.as_plain_c import MEANING
from polydl.prove.contracts import (
    Contract,
    Meant,
    PackContract,
    argument,
    finish,
    kernel_contract,
    meant_loops,
    meant_step,
    pack_contract,
    returned,
    row_step,
)
from polydl.prove.element_forms import check_passed
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, affine, not_negative, number, product
from polydl.prove.packed_places import PLAIN, places, steps_of
from polydl.prove.printed_program import ConcurrentLoop, Pointer, domain
from polydl.prove.run_time_strides import is_stride
from polydl.prove.symbolic_values import Literal, Load, Operation, conversion, pointer, symbol
from polydl.prove.syntax import line_of
from polydl.prove.walk_state import Place, Waiting, Walk, count
from polydl.prove.word_copies import check_operands, product_named


def call(walk: Walk, item: Any, at: Place, waiting: Waiting) -> None:
    name = item.name.name
    arguments = item.args.exprs if item.args is not None else []
    if name in walk.parsed.kernels:
        _kernel(walk, item, kernel_contract(walk.parsed, name), arguments, at)
    elif name in walk.parsed.packs:
        _pack(walk, item, pack_contract(walk.parsed, name), arguments, at)
    elif re.fullmatch(r"polydl\d*_\w+", name) and f"{name}{MEANING}" in walk.parsed.functions:
        _row(walk, item, arguments, at, waiting, Meant(name))
    elif re.fullmatch(r"polydl\d*_row_\w+", name):
        _row(walk, item, arguments, at, waiting, None)
    else:
        raise Unreadable(f"line {line_of(item)}: a call of {name}")


def _kernel(walk: Walk, item: Any, contract: Contract, arguments: Sequence[Any], at: Place) -> None:
    walk.steps += 1
    m, n = (affine(a, at.env) for a in arguments[:2])
    a, b, c = (pointer(x, at.env, walk.strides) for x in arguments[2:5])
    bound = {
        name: _operand(walk, name, value, at)
        for name, value in zip(contract.parameters[5:], arguments[5:], strict=True)
    }
    _whole(walk, item, contract.name, at, m, n, contract)
    walk.program.use(contract, at.depth, at.constraints, (m, n))
    row, column = count(at, m), count(at, n)
    value, target = finish(walk.parsed, contract, walk.strides, (a, b, c), bound, row, column)
    a_at = a.offset.plus(product(row, argument(contract.a_row, "a_m", bound)))
    b_at = b.offset if contract.scalar_b else b.offset.plus(column)
    a_at = a_at.plus(column.times(contract.window))
    # They are named when their instances are looked for (polydl.prove.unfold).
    start = replace(at, time=(*at.time, ZERO, row, column))
    walk.add(start, "kernel", "=", value, target, None, item, len(at.time))
    through = printed_segments.of_kernel(
        walk, contract, (("a", Pointer(a.base, a_at)), ("b", Pointer(b.base, b_at))), bound
    )
    if through is not None:
        walk.add(start, "product", "+=", through, target, None, item, len(at.time))
        return
    inner = at.inside()
    extents = [argument(e, f"extent{k}", bound) for k, e in enumerate(contract.extents)]
    counters = [count(inner, e) for e in extents]
    group = _group(walk, contract, a, b)
    for k, (r, a_step, b_step) in enumerate(zip(counters, contract.a_steps, contract.b_steps, strict=True)):
        a_at = a_at.plus(product(r, argument(a_step, f"a_stride{k}", bound)))
        b_at = b_at.plus(product(r, argument(b_step, f"b_stride{k}", bound)))
    begins = b.offset.plus(column)
    if group > 1:  # a word is so many places of its buffer
        counters.append(count(inner, number(group)))
        a_at, b_at = (where.times(group).plus(counters[-1]) for where in (a_at, b_at))
    made = replace(inner, time=(*inner.time, ZERO, row, column, *counters))
    left, right = _factor(walk, contract, a.base, a_at), _factor(walk, contract, b.base, b_at)
    if contract.step:
        env = {"x": left, "y": right, "m": Load(target)}
        one = returned(walk.parsed, f"{contract.name}_step", env, walk.strides)
        walk.add(made, "product", "=", one, target, None, item, len(at.time))
    else:
        walk.add(made, "product", "+=", Operation("*", (left, right)), target, None, item, len(at.time))
    if contract.product and product_named(contract.product).correction:
        begins = begins.plus(product(extents[0], argument(contract.b_steps[0], "b_stride0", bound))).times(group)
        first = Load(Pointer(b.base, begins))
        walk.add(start, "start", "=", first, None, None, item, len(at.time))


def _group(walk: Walk, contract: Contract, a: Pointer, b: Pointer) -> int:
    """How many elements a word has that a kernel reads. Raises Wrong."""
    words = walk.program.words
    if contract.product:
        check_operands(product_named(contract.product), words.get(a.base), words.get(b.base))
        return product_named(contract.product).group
    if any(base in words and words[base].group > 1 for base in (a.base, b.base)):
        raise Wrong(f"{contract.name} takes words for elements")
    return 1


def _factor(walk: Walk, contract: Contract, base: str, at: Affine) -> Any:
    """An element that a kernel multiplies: one of a copy that converts has the type of the sum."""
    load = Load(Pointer(base, at))
    if base not in walk.program.words:
        return load
    definition = walk.parsed.functions[contract.name]
    output = next(p for p in definition.decl.type.args.params if p.name == "C")
    element = spelled(" ".join(output.type.type.type.names))
    if element is None:
        raise Unreadable(f"the type of the sums of {contract.name}")
    return Operation(conversion(element.name), (load,))


def _operand(walk: Walk, name: str, node: Any, at: Place) -> Any:
    """An argument of a kernel or of a copy: an extent or a stride, an address, or a value. Raises Unreadable."""
    through = printed_segments.length(walk, node, at) if name.startswith("extent") else None
    if through is not None:
        return through
    if re.fullmatch(r"width|[ac]_m|polydl\d*_e\d+_row|extent\d+|(?:[ab]_|width_)?stride\d*", name):
        return affine(node, at.env)
    try:
        return pointer(node, at.env, walk.strides)
    except Unreadable:
        return symbol(node, at.env, walk.strides)


def _whole(walk: Walk, item: Any, name: str, at: Place, m: Affine, n: Affine, contract: Contract) -> None:
    """A kernel takes at most its block; one without remainders the whole of it, whatever it is told."""
    body = walk.parsed.functions[name].body.block_items if name in walk.parsed.functions else []
    always = bool(body) and isinstance(body[0], c_ast.ExprList)
    relation = "!=" if always else ">"
    wrong = f"(({m}) {relation} {contract.m} or ({n}) {relation} {contract.n})"
    if not body or not domain("", at.depth, [*at.constraints, wrong]).is_empty():
        raise Wrong(f"line {line_of(item)}: a block of another size than {name}'s")


def _pack(walk: Walk, item: Any, contract: PackContract, arguments: Sequence[Any], at: Place) -> None:
    walk.steps += 1
    bound = {name: _operand(walk, name, a, at) for name, a in zip(contract.parameters, arguments, strict=True)}
    width, source, packed = argument(None, "width", bound), bound["source"], bound["packed"]
    if not isinstance(source, Pointer) or not isinstance(packed, Pointer):
        raise Unreadable(f"line {line_of(item)}: what {contract.name} is given")
    if packed.base not in walk.program.buffers:
        raise Wrong(f"line {line_of(item)}: a copy into {packed.base}")
    extents = [argument(e, f"extent{k}", bound) for k, e in enumerate(contract.extents)]
    walk.program.use(contract, at.depth, at.constraints, (width, *extents))
    words = contract.words or PLAIN
    if contract.words is not None:
        if source.base not in walk.scop.arrays:
            raise Unreadable(f"line {line_of(item)}: a copy of {source.base}")
        words.check(walk.scop.arrays[source.base].element)
        if walk.program.words.setdefault(packed.base, words) != words:
            raise Unreadable(f"line {line_of(item)}: copies of several kinds in {packed.base}")
    elif packed.base in walk.program.words:
        raise Unreadable(f"line {line_of(item)}: copies of several kinds in {packed.base}")
    steps = steps_of(words, extents)
    w = count(at, width)
    if steps.terms and not domain("", at.depth, [*at.constraints, f"({w}) >= {contract.block}"]).is_empty():
        raise Unreadable(f"line {line_of(item)}: panels of unknown length")
    outside, before = at.inside(), len(at.time)
    counters = [count(at, e) for e in extents]
    to, ends = places(contract, packed.offset, steps, w, counters, extents)
    value = source.offset.plus(product(w, argument(contract.width_stride, "width_stride", bound)))
    for k, (r, stride) in enumerate(zip(counters, contract.strides, strict=True)):
        value = value.plus(product(r, argument(stride, f"stride{k}", bound)))
    at.time = (*at.time, w, *counters)
    load = Load(Pointer(source.base, value))
    walk.add(at, "copy", "=", load, Pointer(packed.base, to), None, item, before)
    if words.group > 1:
        filled = replace(outside.inside(), time=at.time)
        for k, size in enumerate(extents):
            grouped = k == words.grouped
            here = count(filled, words.extent(k, size).times(words.run) if grouped else size)
            filled.constraints += [f"({here}) >= ({size})"] if grouped else []
        walk.add(filled, "zeros", "=", Literal("0"), Pointer(packed.base, to), None, item, before)
    if words.sums:  # at a time of their own: which one of the call's is no matter
        outside.time = (*outside.time, w, number(-1))
        walk.add(outside, "sums", "=", Literal("0"), Pointer(packed.base, ends), None, item, before)


def _row(walk: Walk, item: Any, arguments: Sequence[Any], at: Place, waiting: Waiting, meant: Meant | None) -> None:
    name = item.name.name
    walk.steps += 1
    definition = walk.parsed.functions.get(name)
    if definition is None:
        raise Unreadable(f"line {line_of(item)}: the function {name} cannot be read")
    loops = 1 if meant is None else len(meant_loops(walk.parsed.functions, meant)[0])
    lengths = tuple(affine(a, at.env) for a in arguments[:loops])
    env: dict[str, Any] = {}
    for one, given in zip(definition.decl.type.args.params[loops:], arguments[loops:], strict=True):
        if isinstance(one.type, c_ast.PtrDecl):
            env[one.name] = pointer(given, at.env, walk.strides)
            check_passed(item, one, env[one.name], walk.scop.arrays)
        elif is_stride(one):
            env[one.name] = affine(given, at.env)
        else:
            env[one.name] = symbol(given, at.env, walk.strides)
    walk.program.use(meant or name, at.depth, at.constraints, lengths)
    if len(waiting.rows) not in (0, loops):
        raise Unreadable(f"line {line_of(item)}: what {name} stands for")
    # Counted as the loop that it stands for, so that where that begins cancels out in addresses.
    begins = [ZERO if row.back else row.loops[0][1] for row in waiting.rows] or [ZERO] * loops
    some = all(at.holds(not_negative(length.plus(number(-1)))) for length in lengths)
    counted = [count(at, length, begin) for length, begin in zip(lengths, begins, strict=True)]
    columns = tuple(here.plus(begin, -1) for here, begin in zip(counted, begins, strict=True))
    first = len(walk.program.statements)
    if meant is None:
        turned = any(row.back for row in waiting.rows)
        step = row_step(walk.parsed, name, env, columns[0], walk.strides, first, back=turned)
    else:
        step = meant_step(walk.parsed, meant, env, columns, walk.strides)
    if len(step.lines) != len(waiting.hints):
        raise Wrong(f"line {line_of(item)}: {len(step.lines)} statements in {name}, {len(waiting.hints)} named")
    walk.loops += 1
    sums = frozenset(line.accumulator for line in step.lines if line.accumulator)
    if sums and not some:
        raise Unreadable(f"line {line_of(item)}: a sum over a row that may have no columns")
    before = len(at.time)
    lanes = ConcurrentLoop(
        walk.loops, tuple(range(before, before + loops)), "vector", reduction=sums, line=line_of(item),
        reads_first=meant is None and not sums and not any(row.back for row in waiting.rows),
    )  # fmt: skip
    at.loops = (*at.loops, lanes)
    # A row that counts down has the first of its iterations in the last column.
    downwards = [row.back for row in waiting.rows] or [False] * loops
    at.time = (*at.time, *(c.times(-1) if back else c for c, back in zip(counted, downwards, strict=True)))
    for k, line in enumerate(step.lines):
        hint = replace(waiting.hints[k], columns=columns)
        now = replace(at, time=(*at.time, number(k)))
        kind = "summed" if line.accumulator else "assignment"
        walk.add(now, kind, line.op, line.value, line.target, hint, item, before, lanes=True)
