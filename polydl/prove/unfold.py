"""A generated microkernel's call, taken apart into the statements of the original that it runs: those before its sums,
the products, and those after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.model import isl
from polydl.model.expr import Convert
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.model.types import I32, U32, promoted
from polydl.prove import printed_segments
from polydl.prove.integers import Unreadable, Wrong, number
from polydl.prove.matching import Match, Pair, assignment_pairs, by_address, product_pairs, symbol_factors
from polydl.prove.printed_program import Pointer, Printed
from polydl.prove.symbolic_values import STEPS, Literal, Load, Operation, Segmented, Sum, Symbol, contains, conversion

Sources = Mapping[Pointer, tuple[str, isl.Map]]
"""(value, statement) of a phase for each element; (factors, None) of the products."""


def unfolded(scop: Scop, kernel: Printed, product: Printed, sources: Sources, first: int) -> list[Match]:
    """The statements that one printed call runs, `first` the next free number. Raises Unreadable."""
    assert kernel.target is not None
    elsewhere: list[str] = []
    for phases in _decomposed(scop, kernel.value, kernel.target):
        matches = _matched(scop, kernel, product, phases, sources, first, elsewhere)
        if matches is not None:
            return matches
    error = Wrong if elsewhere else Unreadable
    raise error(f"line {kernel.line}: no statements of the original are what this microkernel computes")


def _decomposed(scop: Scop, value: Symbol, target: Pointer) -> Iterator[list[tuple[str, Symbol]]]:
    """Sequences of updates of the target, each as (operator, value) with the value before it as `Load(target)`, that
    together make the value; the products' operator is `sum+` or `sum-`, its value their other factors."""
    before = Load(target)
    if value == before:
        yield []
        return
    if isinstance(value, Operation) and value.name in ("+", "-") and len(value.operands) == 2:
        old, added = value.operands
        others = _scaled_sum(added)
        if others is not None and not contains(old, Sum()):
            for earlier in _decomposed(scop, old, target):
                yield [*earlier, (f"sum{value.name}", others)]
            return
    if isinstance(value, Operation) and value.name == STEPS:
        begin = value.operands[0]
        yield [*([] if begin == before else [("=", begin)]), ("step", value)]
        return
    others = _scaled_sum(value)
    if others is not None:
        yield [("=", Literal("0", vector=True)), ("sum+", others)]
        return
    if not _of_products(value):
        yield [("=", value)]
    for part in _parts(value):
        if part != before and (_of_products(part) or contains(part, before)):
            whole = _with(value, part, before)
            for earlier in _decomposed(scop, part, target):
                if earlier and not _of_products(whole):
                    yield [*earlier, ("=", whole)]


def _of_products(value: Symbol) -> bool:
    """Whether a value is made of the sum of products, or of the steps in place of it."""
    if isinstance(value, Operation):
        return value.name == STEPS or any(map(_of_products, value.operands))
    return value == Sum()


def _scaled_sum(value: Symbol) -> Symbol | None:
    """The other factors of `sum * …`; None for anything else."""
    found = symbol_factors(value)
    if found.count(Sum()) != 1:
        return None
    rest = [f for f in found if f != Sum()]
    if any(contains(f, Sum()) for f in rest):
        return None
    return Operation("*", tuple(rest))


def _parts(value: Symbol) -> Iterator[Symbol]:
    """Proper parts of a value, the largest first."""
    if isinstance(value, Operation):
        yield from value.operands
        for operand in value.operands:
            yield from _parts(operand)


def _with(value: Symbol, old: Symbol, new: Symbol) -> Symbol:
    if value == old:
        return new
    if isinstance(value, Operation):
        return replace(value, operands=tuple(_with(o, old, new) for o in value.operands))
    return value


def _matched(
    scop: Scop,
    kernel: Printed,
    product: Printed,
    phases: list[tuple[str, Symbol]],
    sources: Sources,
    first: int,
    elsewhere: list[str],
) -> list[Match] | None:
    place = len(kernel.time) - 3
    matches: list[Match] = []
    for phase, (op, value) in enumerate(phases):
        of = product if op.startswith("sum") or op == "step" else kernel
        time = (*of.time[:place], number(phase), *of.time[place + 1 :])
        made = replace(of, number=first + phase, time=time, kind="product" if of is product else "assignment", op="=")
        made.domain = of.domain.set_tuple_name(made.name)
        if op == "step":
            made.value = of.value
        elif of is product:
            made.op = "+=" if op == "sum+" else "-="
            own = (of.value,) if isinstance(of.value, Segmented) else of.value.operands
            made.value = Operation("*", (*own, *value.operands)) if isinstance(value, Operation) else value
        else:
            made.value = value
        moved = {at: (array, isl.domain_named(where, made.name)) for at, (array, where) in sources.items()}
        found = _named(scop, made, moved, elsewhere)
        if found is None:
            return None
        matches.append(found)
    return matches


def _named(scop: Scop, printed: Printed, sources: Sources, elsewhere: list[str]) -> Match | None:
    """The statement and instances that a phase runs. To `elsewhere` go statements that compute the same on other
    elements."""
    for statement in scop.statements:
        body = statement.body
        if isinstance(body, BlackBox) and body.segment is not None and printed.kind == "product":
            added = printed_segments.of_target(scop, printed, statement)
            if added is not None and added.is_single_valued() and printed.domain.is_subset(added.domain()):
                if not printed_segments.difference(scop, printed, statement, added):
                    return Match(printed, statement, added, [])
                elsewhere.append(statement.name)
            continue
        if not isinstance(body, Assignment) or statement.target.array != printed.target.base:  # type: ignore[union-attr]
            continue
        for pairs in _ways(scop, printed, statement):
            instances = by_address(scop, printed, statement, pairs, sources)
            if instances is None:
                continue
            if not printed.domain.is_subset(instances.domain()):
                elsewhere.append(statement.name)
            elif instances.is_single_valued():
                return Match(printed, statement, instances, pairs)
    return None


def _ways(scop: Scop, printed: Printed, statement: Statement) -> Iterator[list[Pair]]:
    body = statement.body
    assert isinstance(body, Assignment) and printed.target is not None
    if printed.kind == "product" and printed.op != "=":
        if body.op == printed.op and body.target_read is not None:
            found, plain = symbol_factors(printed.value), _modular(scop, statement, body)
            for factors in (found, _promoted(scop, found, statement)):
                for pairs in product_pairs(factors, plain):
                    yield [*pairs, (body.target_read, Load(printed.target))]
        return
    same = assignment_pairs(scop, printed, statement)
    if same is not None:
        yield same


def _modular(scop: Scop, statement: Statement, body: Assignment) -> Statement:
    """A statement that adds to integers of 32 bits, without the conversion between such integers of what it adds: sums
    of words are modulo 2^32."""
    value, element = body.value, scop.arrays[statement.target.array].element
    if isinstance(value, Convert) and {value.source, value.target, element} <= {I32, U32}:
        return replace(statement, body=replace(body, value=value.operand))
    return statement


def _promoted(scop: Scop, factors: Sequence[Symbol], statement: Statement) -> list[Symbol]:
    """Factors of a product of integers without the conversions to int that C makes by itself."""
    small = all(promoted(scop.arrays[access.array].element) is I32 for access in statement.accesses)
    to_int = conversion(I32.name)
    return [f.operands[0] if small and isinstance(f, Operation) and f.name == to_int else f for f in factors]
